"""Tests of the documentation: its code runs and prints what the page shows, its links work, and its tables are complete."""

from __future__ import annotations

import csv
import doctest
import importlib
import inspect
import itertools
import pkgutil
import re
import shlex
from collections.abc import Container, Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, get_args

import oracle
import pytest

import spark_recmetrics
from spark_recmetrics import errors, stats
from spark_recmetrics.columns import COUNTERS, Columns
from spark_recmetrics.conventions import CHOICES, CONVENTIONS, Convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.inputs import data_report
from spark_recmetrics.job import cli
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.files.source import Source
from spark_recmetrics.job.files.split_config import SplitConfig
from spark_recmetrics.metrics import DEFINITIONS, Definition, Parameter, RankedBatch, parse, registry
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.storage import table_schemas

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECIPES = ROOT / "docs" / "recipes"
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
USES_SPARK = re.compile(r"\bspark\b")


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    output: str | None
    """The text block that follows: what the block prints, or the errors in it."""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def uses_spark(self) -> bool:
        return self.language == "python" and USES_SPARK.search(re.sub(r"#.*", "", self.text)) is not None


def read_blocks(page: Path) -> list[Block]:
    content = page.read_text(encoding="utf-8")
    fences = list(re.finditer(r"^```(\w*)\n(.*?)^```$", content, re.MULTILINE | re.DOTALL))
    blocks = []
    for fence, following in zip(fences, [*fences[1:], None][: len(fences)], strict=True):
        adjacent = following is not None and following[1] == "text" and not content[fence.end() : following.start()].strip()
        output = following[2] if following is not None and adjacent else None
        blocks.append(Block(page, content.count("\n", 0, fence.start()) + 2, fence[1], fence[2], output))
    return blocks


BLOCKS = [block for page in PAGES for block in read_blocks(page)]


def text_of(*names: str) -> str:
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in names)


def agrees(expected: str, printed: str) -> bool:
    """Whether an output equals that of the page; `...` on the page matches anything."""
    return doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "python"], ids=lambda block: block.place)
def test_an_indented_block_ends_with_a_blank_line(block):
    """The Python prompt reads pasted lines one by one, and would read the next statement as a part of the block."""
    lines = block.text.splitlines()
    goes_on = re.compile(r"[\s)\]}#]|(else|elif|except|finally)\b|$")
    assert [line for before, line in itertools.pairwise(lines) if before[:1] == " " and not goes_on.match(line)] == []


def test_a_page_with_as_of_in_paths_says_where_as_of_is_set():
    nightly = [block for block in BLOCKS if block.language == "yaml" and "{as_of}" in block.text]
    assert len(nightly) > 5
    pages = {block.page for block in nightly if not re.search(r"^as_of:", block.text, re.MULTILINE)}
    assert [page.name for page in sorted(pages) if "--as-of" not in text_of(str(page))] == []


def test_all_pages_exist():
    assert [str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]] == [
        "adding-a-metric.md",
        "agreement.md",
        "airflow.md",
        "conventions.md",
        "databricks.md",
        "deciding.md",
        "explain.md",
        "gallery.md",
        "index.md",
        "inputs.md",
        "metrics.md",
        "mlflow.md",
        "outputs.md",
        "performance.md",
        "recipes/README.md",
        "recipes/als.md",
        "recipes/clicks.md",
        "recipes/countries.md",
        "recipes/moving.md",
        "recipes/sampled-negatives.md",
        "recipes/two-tower.md",
        "reliability.md",
        "report.md",
        "running.md",
        "security.md",
        "sizing.md",
        "slices.md",
        "splits.md",
        "statistics.md",
        "tables.md",
    ]


# Examples in docstrings ---------------------------------------------------------------------------------------------------


def find_doctests() -> Iterator[doctest.DocTest]:
    modules = pkgutil.walk_packages(spark_recmetrics.__path__, "spark_recmetrics.")
    for name in ("spark_recmetrics", *sorted(module.name for module in modules)):
        module = importlib.import_module(name)
        yield from (example for example in doctest.DocTestFinder(exclude_empty=True).find(module, name) if example.examples)


DOCTESTS = [
    pytest.param(
        example,
        marks=[pytest.mark.spark, pytest.mark.once] if any(USES_SPARK.search(line.source) for line in example.examples) else [],
        id=example.name.removeprefix("spark_recmetrics."),
    )
    for example in find_doctests()
]


@pytest.fixture
def tracking_store(tmp_path, monkeypatch):
    """A store of MLflow in files, which needs no server."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


@pytest.mark.usefixtures("tracking_store")
@pytest.mark.parametrize("example", DOCTESTS)
def test_docstring(example, request):
    example.globs = dict(example.globs)
    if request.node.get_closest_marker("spark"):
        example.globs["spark"] = request.getfixturevalue("spark")
    messages: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=messages.append, clear_globs=False)
    assert not result.failed, "".join(messages)


def test_there_are_docstrings_with_examples():
    assert len(DOCTESTS) > 15


# Python on the pages ------------------------------------------------------------------------------------------------------


def python_pages() -> Iterator[object]:
    for page in PAGES:
        blocks = [block for block in BLOCKS if block.page == page and block.language == "python"]
        if blocks:
            yield pytest.param(page, marks=session_marks(page, blocks), id=str(page.relative_to(ROOT)))


FIRST_READ = ("README.md", "index.md", "conventions.md")
"""Pages whose Python runs in `make test`, too. That of all pages runs in `make docs` and `make test-heavy`."""


def session_marks(page: Path, blocks: list[Block]) -> list[pytest.MarkDecorator]:
    """Where `make test` runs a page: once, since the output is the same on classic Spark and on Spark Connect.

    Pages run on Spark Connect, since code that runs there also runs on classic Spark; recipes and docstrings run on the latter.
    """
    if not any(block.uses_spark for block in blocks):
        return []
    heavy = [] if page.name in FIRST_READ else [pytest.mark.heavy]
    return [pytest.mark.spark, pytest.mark.once if page.parent == RECIPES else pytest.mark.connect, *heavy]


PYTHON_PAGES = list(python_pages())


@pytest.fixture
def restored_registry() -> Iterator[None]:
    """Remove the metrics that a page registers."""
    before = dict(registry.DEFINITIONS), dict(registry.ALIASES)
    yield
    for current, saved in zip((registry.DEFINITIONS, registry.ALIASES), before, strict=True):
        current.clear()
        current.update(saved)


@pytest.mark.usefixtures("restored_registry", "tracking_store")
@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_python_blocks_run_in_order(page, request, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": page.stem}
    if request.node.get_closest_marker("spark"):
        namespace["spark"] = request.getfixturevalue("spark")
    for block in BLOCKS:
        if block.page != page or block.language != "python":
            continue
        capsys.readouterr()
        # With empty lines in front, a traceback has the line numbers of the page.
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
        exec(code, namespace)
        printed = capsys.readouterr().out
        if block.output is None:
            assert printed == "", f"{block.place} prints output that the page does not show:\n{printed}"
        else:
            assert agrees(block.output.strip(), printed.strip()), f"{block.place} prints\n{printed}"


def test_moving_gives_the_numbers_of_the_packages():
    """A section shows the output of the other package and ours; both equal the golden file of that package."""
    files = {re.sub(r"[^\w-]", "", path.stem): path for path in (ROOT / "tests" / "golden").glob("*.csv")}
    sections = {
        name.replace(" ", "-"): section
        for section in text_of("docs/recipes/moving.md").split("\n## ")[1:]
        for name in re.findall(r"More: \[(.*?)\]\(\.\./agreement\.md#", section)
    }
    systems = ("recommenders", "replay-rec", "rectools", "pyspark", "warprec", "jurity")
    assert [name.rpartition("-")[0] for name in sections] == [*systems]
    for name, section in sections.items():
        with files[re.sub(r"[^\w-]", "", name)].open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["data"] == "stars-1" and not row["without"] and not row["ours"]]
        (convention,) = set(re.findall(r'convention="(\w+)"', section))
        golden = {str(parse(row["metric"])): float(row["value"]) for row in rows if row["convention"] == convention}
        shown = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        assert len(shown) == 2, name
        for lines in shown:
            values = [line.rsplit(" ", 1) for line in lines.splitlines()]
            assert len(values) >= 4, name
            assert {metric: float(value) for metric, value in values} == {
                metric: round(golden[metric], 6) for metric, _ in values
            }, name


# Configurations on the pages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [pytest.param(b, id=b.place) for b in BLOCKS if b.language == "yaml"])
def test_configurations_load_or_fail_as_the_page_says(block, tmp_path, monkeypatch):
    """The first line is the name of the file. If a text block follows, it shows the errors of the file."""
    monkeypatch.chdir(tmp_path)
    name = block.text.partition("\n")[0].removeprefix("# ")
    Path(name).write_text(block.text, encoding="utf-8")
    of_split = re.search("^split:", block.text, re.MULTILINE) is not None
    kind = SplitConfig if of_split else Config
    if block.output is None:
        assert kind.read(Source(name, as_of="2026-11-28")).run_id
    else:
        with pytest.raises(ConfigError) as caught:
            kind.read(Source(name))
        assert [f"error: {line}" for line in str(caught.value).splitlines()] == block.output.strip().splitlines()


# Commands on the pages ----------------------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A line of a bash block."""

    block: Block
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.block.place} {shlex.join(self.words)}"


def shown_configurations(command: Command) -> dict[str, str]:
    """The files that the page of the command shows, by name."""
    blocks = [block for block in BLOCKS if block.page == command.block.page and block.language == "yaml"]
    return {block.text.partition("\n")[0].removeprefix("# "): block.text for block in blocks}


def read_commands() -> Iterator[Command]:
    for block in BLOCKS:
        if block.language == "bash":
            for line in block.text.replace("\\\n", " ").splitlines():
                words = tuple(shlex.split(line, comments=True))
                if words:
                    yield Command(block, words)


COMMANDS = list(read_commands())
RECMETRICS = [command for command in COMMANDS if command.words[0] == "spark-recmetrics"]
WITH_SPARK = ("evaluate", "preflight", "split", "doctor")
WITHOUT_SPARK = [command for command in RECMETRICS if command.words[1] not in WITH_SPARK]
SUBMIT_FLAGS = {"--properties-file", "--py-files", "--master", "--deploy-mode", "--conf", "--files"}


def test_only_these_programs_are_used():
    programs = {"spark-recmetrics", "spark-submit", "make", "export", "pip", "python", "source", "cp", ".venv/bin/pytest"}
    programs |= {"airflow", "databricks"}  # airflow_dags.py and test_databricks.py run what these start
    assert {command.words[0] for command in COMMANDS} <= programs
    assert not [str(c) for c in COMMANDS if c.words[:2] == ("python", "-m") and c.words[2].startswith("spark_recmetrics")]
    assert len(WITHOUT_SPARK) >= 5


@pytest.mark.parametrize("command", WITHOUT_SPARK, ids=str)
def test_commands_without_spark_run(command, tmp_path, monkeypatch, capsys):
    shown = shown_configurations(command)
    for name, text in shown.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path if shown.keys() & set(command.words) else ROOT)
    code = cli.main(command.words[1:])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    is_alone = [other for other in COMMANDS if other.block == command.block] == [command]
    if is_alone and command.block.output is not None:
        assert agrees(command.block.output.strip(), printed.out.strip()), f"{command} prints\n{printed.out}"


def test_the_example_of_a_decision_is_the_configuration_of_the_demo():
    block = next(block for block in BLOCKS if block.text.startswith("# demo-ml-100k.yaml\n"))
    assert block.text.partition("\n")[2] in text_of("conf/demo-ml-100k.yaml")


def test_the_run_id_on_the_page_of_outputs_is_real(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert cli.main(["explain-config", "--config", "conf/demo.yaml", "--as-of", "2026-02-02"]) == 0
    last = capsys.readouterr().out.splitlines()[-2:]
    assert "".join(f"    {line}\n" for line in last) in text_of("docs/outputs.md")
    assert cli.main(["explain-config", "--config", "conf/demo.yaml"]) == 0
    (run_id,) = re.findall(r"# run_id: (\w+)", capsys.readouterr().out)
    assert set(re.findall(r"as_of=2026-01-01, run_id=(\w+)", text_of("docs/outputs.md"))) == {run_id}


def check_arguments(command: str, words: tuple[str, ...], shown: Container[str] = ()) -> None:
    """The arguments of a command are valid, and its configuration exists or is shown on the page."""
    arguments = cli._parser().parse_args([command, *words])
    is_shown = arguments.config in shown or (command == "doctor" and arguments.config is None)
    assert is_shown or (ROOT / arguments.config).is_file()


@pytest.mark.parametrize("command", [c for c in RECMETRICS if c.words[1] in WITH_SPARK], ids=str)
def test_commands_with_spark_have_flags_and_files_that_exist(command):
    check_arguments(command.words[1], command.words[2:], shown_configurations(command))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words[0] == "spark-submit"], ids=str)
def test_submitted_jobs_have_flags_and_files_that_exist(command):
    job = next(place for place, word in enumerate(command.words) if word.startswith("jobs/"))
    assert (ROOT / command.words[job]).is_file()
    flags, values = command.words[1:job:2], command.words[2:job:2]
    assert set(flags) <= SUBMIT_FLAGS
    for flag, value in zip(flags, values, strict=True):
        assert flag != "--properties-file" or (ROOT / value).is_file()
    check_arguments(Path(command.words[job]).stem, command.words[job + 1 :])


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    named = {word for c in COMMANDS if c.words[0] == "make" for word in c.words[1:] if "=" not in word}
    named |= set(re.findall(r"`make ([a-z-]+)", text_of(*(str(page.relative_to(ROOT)) for page in PAGES))))
    assert named <= targets
    assert named >= {"demo", "test"}


def test_flags_in_the_text_exist():
    """Every `--flag` in backticks is a flag of the command line, or of spark-submit or pip."""
    parser = cli._parser()
    commands = next(action for action in parser._actions if isinstance(action.choices, dict)).choices
    flags = {option for sub in (parser, *commands.values()) for option in sub._option_string_actions}
    for page in PAGES:
        named = set(re.findall(r"`[^`\n]*?(--[a-z][\w-]*)[^`\n]*`", page.read_text(encoding="utf-8")))
        assert named <= flags | SUBMIT_FLAGS, page.name


# Links --------------------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page: one per heading, as GitHub makes them."""
    content = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", content, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_a_target(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_file(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name}: {target}"


def test_every_page_can_be_reached():
    linked = set(re.findall(r"\]\((docs/[\w/-]+\.md)\)", text_of("README.md")))
    linked |= {f"docs/recipes/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", text_of("docs/recipes/README.md"))}
    assert linked == {str(page.relative_to(ROOT)) for page in PAGES[1:]}


# Tables of the pages are complete -----------------------------------------------------------------------------------------


def numbered_rows(page: str) -> dict[int, str]:
    """The table rows whose first cell is a number, by that number."""
    return {int(code): rest for code, rest in re.findall(r"^\| (\d+) \| (.*) \|$", text_of(page), re.MULTILINE)}


def test_exit_codes():
    raised = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    expected = {0, 1, cli.INTERRUPTED} | raised
    listed = set(map(int, re.findall(r"^  (\d+) ", cli._EXIT_CODES, re.MULTILINE)))
    assert listed == expected
    assert set(numbered_rows("docs/outputs.md")) == expected


def test_errors_have_their_exit_codes():
    rows = numbered_rows("docs/outputs.md")
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and hasattr(kind, "exit_code") and kind is not errors.RecMetricsError:
            assert f"`{name}`" in rows[kind.exit_code]


def test_checks_of_the_data():
    checks = set(data_report.MEANINGS)
    assert len(checks) >= 15
    section = text_of("docs/inputs.md").partition("\n## What is checked\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == checks


def test_columns_of_the_tables():
    page = text_of("docs/outputs.md")
    for table in (
        table_schemas.SUMMARY,
        table_schemas.DATA_REPORT,
        table_schemas.COMPARISON,
        table_schemas.GATES,
        table_schemas.RUNS,
    ):
        for column in table.fields:
            row = re.search(rf"^\| [^|]*`{column.name}`[^|]* \| (\w+) \|", page, re.MULTILINE)
            assert row, column.name
            assert row[1] == column.dataType.simpleString().replace("bigint", "long")
    for name in ("model", "user", *COUNTERS, *Moments._fields):
        assert re.search(rf"^\| [^|]*`{name}`", page, re.MULTILINE), name


def test_fields_of_a_split_report():
    section = text_of("docs/splits.md").partition("\n## The report\n")[2].partition("\n## ")[0]
    named = [name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(table_schemas.SPLIT_REPORT.names)


def test_fields_of_the_result_line(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert cli.main(["evaluate", "--config", "conf/demo.yaml", "--set", "evaluation.k=0"]) == 2
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"{cli.RESULT_MARK} ")
    section = text_of("docs/outputs.md").partition("\n## The result line\n")[2].partition("\n## ")[0]
    fields = re.findall(r'"(\w+)":', re.sub(r'"error": \{.*?\}', '"error":', line))
    for field in (*fields, "job", "config_hash"):
        assert re.search(rf"^\| [^|]*`{field}`", section, re.MULTILINE), field


def test_keys_of_the_inputs():
    section = text_of("docs/inputs.md").partition("\n## Columns\n")[2].partition("\n## ")[0]
    defaults = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", section, re.MULTILINE))
    assert defaults == {key: f"`{name}`" if name else "none" for key, name in vars(Columns()).items()}


def test_every_command_is_explained():
    commands = next(action for action in cli._parser()._actions if isinstance(action.choices, dict)).choices
    assert set(re.findall(r"^\| `spark-recmetrics ([\w-]+)", text_of("docs/running.md"), re.MULTILINE)) == set(commands)


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_the_section_of_a_metric_has_all_its_names(name):
    definition = DEFINITIONS[name]
    section = text_of("docs/metrics.md").partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
    for part in ("Options", "Also written", "Undefined", "Range", "Who", "Source"):
        assert f"\n* **{part}**:" in section, part
    assert "\n```python\n" in section
    folded = {registry.fold(word) for word in re.findall(r"`(\w+)`", section)}
    assert set(definition.aliases) <= folded | {re.sub(r"_", "", word) for word in folded}
    for option, source in definition.options.items():
        assert f"`{option}`" in section
        assert (str(source.default) if isinstance(source, Parameter) else f"`{source}`") in section
        assert set(definition.choices(option)) <= folded or "as for" in section
    direction = "higher" if definition.higher_is_better else "lower"
    assert f"{direction} is better" in section
    row = re.search(rf"^\| \[`{name}`\].*$", text_of("docs/metrics.md"), re.MULTILINE)
    assert row
    assert f"| {definition.kind} |" in row[0]
    assert f"| {direction} | {model_value(definition)} |" in row[0]


def model_value(definition: Definition) -> str:
    """How the value of a model is computed, in the word of the page."""
    if not definition.by_user:
        return "counted" if definition.kind == "item" else "grouped"
    if definition.averaged_by is not None:
        return "either"
    return "pooled" if definition.pooled is not None or definition.across_users else "mean"


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_the_section_of_a_metric_states_its_traits(name):
    definition = DEFINITIONS[name]
    section = text_of("docs/metrics.md").partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
    prose = " ".join(section.split())
    assert ("left out under every convention" in prose) == definition.skips_undefined
    assert ("no cut-off" in prose.partition("**Who**")[0]) == (definition.kind != "rating" and not definition.has_cut_off)
    assert ("Its population" in prose) == (definition.users is not None)
    names = [option for option in definition.options if definition.choices(option)]
    ways = itertools.product(*(definition.choices(option) for option in names))
    needs = frozenset[str]().union(*(definition.needs_of(dict(zip(names, way, strict=True))) for way in ways))
    needed = re.search(r"\* \*\*Needs\*\*: ([^*]*)", prose)
    for word, these in {
        "`catalog`": {"catalog"},
        "`train`": {"unseen_candidates", "popularity", "history", "trained_groups"},
        "`item_groups`": {"item_groups"},
        "`user_segments`": {"user_groups"},
        "`item_features`": {"features", "categories"},
        "`baseline`": {"baseline"},
        "`columns.propensity`": {"propensity"},
        "scores": {"scores"},
    }.items():
        assert (needed is not None and word in needed[1]) == bool(these & needs), word


def test_what_register_takes_and_what_a_metric_may_need():
    section = text_of("docs/adding-a-metric.md").partition("\n## The contract\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section.partition("What `register` takes:")[2], re.MULTILINE)
    taken = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    named = set(inspect.signature(registry.register).parameters) - {"traits"}
    assert taken == named | set(Definition.__dataclass_fields__) - {"compute"}
    assert all(f"`{need}`" in section for need in get_args(registry.Need))
    rows = re.findall(r"^\| (`.*?`) \|", section.partition("| method |")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(RankedBatch.__dataclass_fields__)


def test_every_option_of_a_convention_is_explained():
    page = text_of("docs/conventions.md").partition("\n## Every option\n")[2].partition("\n## ")[0]
    default = dict(CONVENTIONS["default"].options())
    explained = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(explained) == sorted(default)
    for option, values in CHOICES.items():
        rows = re.search(rf"^\| `{option}` \|.*(?:\n\|  ?\|.*)*", page, re.MULTILINE)
        assert rows
        named = re.findall(r"`(\w+)`", rows[0])
        assert set(values) <= set(named), option
        marked = re.search(r"`(\w+)` \| yes \|", rows[0])
        assert (marked[1] if marked else named[1]) == default[option], option


def test_the_table_of_conventions_matches_the_code():
    plain = dict(Convention("plain").options())
    base, _, rest = text_of("docs/conventions.md").partition("\n## Every convention\n")[2].partition("\n|")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", rest.partition("\n## ")[0], re.MULTILINE))
    assert list(rows) == list(CONVENTIONS)
    for name, convention in CONVENTIONS.items():
        differs = {
            f"{option} " + ("; ".join(f"{m}: `{u}`" for m, u in value) if isinstance(value, tuple) else f"`{value}`")
            for option, value in convention.options()
            if value != plain[option]
        }
        assert set(rows[name].split(", ")) == differs, name
    for option, value in plain.items():
        assert f"{option} {'none' if value == () else f'`{value}`'}" in " ".join(base.split()), option


def test_the_golden_table_matches_the_tests():
    page = text_of("docs/conventions.md").partition("## One data set, every convention")[2]
    rows = {name: cells.split(" | ") for name, cells in re.findall(r"^\| `(\w+)` \| ([\d. |]+) \|$", page, re.MULTILINE)}
    assert set(rows) == set(CONVENTIONS)
    for name, values in oracle.GOLDEN.items():
        assert rows[name] == [f"{value:.6f}" for value in values.values()], name


def test_every_statistic_is_explained():
    page = text_of("docs/statistics.md")
    headings = " ".join(re.findall(r"^##+ (.*)$", page, re.MULTILINE))
    for name in stats.__all__:
        assert f"`{name}`" in (headings if inspect.isfunction(getattr(stats, name)) else page), name
    for field in (*(field.name for field in fields(stats.TestResult)), *stats.Interval._fields, *stats.REASONS):
        assert f"`{field}`" in page, field


def test_the_table_of_arguments_matches_the_code():
    """The table of arguments names arguments that exist, with their defaults, and lacks none of the two small functions."""
    lines = text_of("docs/inputs.md").splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| | `evaluate` |"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    evaluate, small = (
        inspect.signature(function).parameters for function in (spark_recmetrics.evaluate, spark_recmetrics.compute_metrics)
    )
    evaluator = {
        **inspect.signature(spark_recmetrics.Evaluator.__init__).parameters,
        **inspect.signature(spark_recmetrics.Evaluator.evaluate).parameters,
    }
    named: dict[str, set[str]] = {}
    for row in table:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        functions = zip(("evaluate", "evaluator", "small"), (evaluate, evaluator, small), cells[1:4], strict=True)
        for name, parameters, cell in functions:
            text = cells[1] if cell == "the same" else cell
            if not text:
                continue
            argument = re.match(r"`(\w+)`", text)[1]
            named.setdefault(name, set()).add(argument)
            default = parameters[argument].default
            if ": " in text:
                values = (
                    [str(value) for value in default] if isinstance(default, tuple) else [str(default).replace("None", "none")]
                )
                assert text.partition(": ")[2].split(", ") == values, (name, argument)
            else:
                assert default is None, (name, argument)
    assert len(named["evaluate"]) == 13
    assert named["small"] >= small.keys() - {"user_pred_true"}
    assert named["evaluator"] >= evaluator.keys() - {"self", "recommendations", "truth", "columns"}


def test_the_tests_of_faults_exist():
    rows = re.findall(r"^\| (.+) \|$", text_of("docs/reliability.md"), re.MULTILINE)[2:]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`tests/([\w/]+\.py)(?:::(\w+))?`", row.rpartition(" | ")[2])
        assert named, row
        for file, test in named:
            code = text_of(f"tests/{file}")
            assert f"def {test}(" in code if test else "def test_" in code, f"{file}::{test}"


def test_no_page_names_a_path_of_this_machine():
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        assert not re.search(r"/(?:work|home|root|tmp|Users)/|pypi\.|localhost", content), page.name
