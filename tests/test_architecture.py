"""The structure of the package, checked by reading its code: the order of its packages, and what Spark code may not use."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "spark_recmetrics"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = [path for path in FILES if path != PACKAGE / "__init__.py"]

# From the top down: a package, or a loose module, imports only from those before it. CONTRIBUTING.md shows the same order.
ORDER = (
    "version",
    "text",
    "errors",
    "columns",
    "conventions",
    "stats",
    "metrics",
    "storage",
    "runs",
    "request",
    "inputs",
    "side_info",
    "ranking",
    "scoring",
    "aggregation",
    "reports",
    "evaluation",
    "decisions",
    "splits",
    "diagnostics",
    "job",
)


def by_name(path):
    return str(path.relative_to(PACKAGE))


def home_of(path):
    """The package, or the loose module, that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree):
    """The full name of every module that a file imports, wherever it does so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inside = node.module == "spark_recmetrics"
            yield from [f"spark_recmetrics.{alias.name}" for alias in node.names] if inside else [node.module or "."]


def only_for_types(tree):
    """The same file without what only type checkers read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = [ast.Pass()]
    return tree


def test_every_package_has_its_place():
    assert {home_of(path) for path in MODULES} == set(ORDER)
    assert len([path for path in MODULES if path.parent == PACKAGE]) <= 12, "loose modules belong into packages"


def test_contributors_read_the_same_order():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    order = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", text, re.MULTILINE)
    assert order == [name for name in ORDER if name != "version"]


@pytest.mark.parametrize("path", MODULES, ids=by_name)
def test_imports_go_one_way(path):
    own = home_of(path)
    for name in imports(ast.parse(path.read_text())):
        package, _, module = name.partition(".")
        if package == "spark_recmetrics" and module:
            home = module.partition(".")[0]
            assert ORDER.index(home) <= ORDER.index(own), f"{own} imports {name}"


def import_cycles(graph):
    """The groups of modules that import each other, by Tarjan's algorithm; a module alone is none unless it imports itself."""
    number, lowest, stack, cycles = {}, {}, [], []

    def visit(module):
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for imported in graph[module]:
            if imported not in number:
                visit(imported)
            if imported in stack:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == number[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1 or module in graph[module]:
                cycles.append(sorted(group))

    for module in graph:
        if module not in number:
            visit(module)
    return cycles


def import_graph():
    """By module of the package, the modules that it imports, including imports in functions and those for types only."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
    graph = {}
    for name, path in names.items():
        graph[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names} & names.keys()
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name}: expected absolute imports"
                imported = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= {full if full in names else node.module for full in imported} & names.keys()
    return graph


def test_no_module_is_part_of_an_import_cycle():
    assert import_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}, "e": {"a"}}) == [["b", "c"], ["d"]]
    assert import_cycles(import_graph()) == []


@pytest.mark.parametrize("path", MODULES, ids=by_name)
def test_the_name_of_a_file_says_whether_it_uses_spark(path):
    may = path.stem == "spark" or path.stem.endswith("_spark") or home_of(path) == "storage"
    uses = {name for name in imports(only_for_types(ast.parse(path.read_text()))) if name.partition(".")[0] == "pyspark"}
    assert may or not uses, f"{by_name(path)} imports {', '.join(sorted(uses))}: name it *_spark.py, or move the Spark part out"


def test_importing_the_package_starts_neither_spark_nor_pandas():
    code = "import sys, spark_recmetrics; print(sorted({'pyspark', 'pandas', 'numpy', 'scipy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_evaluation_on_spark_needs_no_pydantic():
    """Its import takes a third of a second of every first run."""
    code = "import sys, spark_recmetrics.evaluation.stages, spark_recmetrics.evaluation.spark; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_workers_import_needs_only_their_packages():
    """Workers have numpy, pandas and pyarrow; pydantic, PyYAML and scipy are on the driver."""
    modules = ("aggregation.spark", "decisions.differences", "scoring.pandas_udfs_spark", "scoring.workers", "side_info.packed")
    imported = "; ".join(f"import spark_recmetrics.{module}" for module in modules)
    code = f"import sys; {imported}; print(sorted({{'pydantic', 'yaml', 'scipy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Names that may not be used or imported at all, and why.
CONNECT, RETRY, SQL = (
    "not on Spark Connect",
    "a task that is run again would give other rows",
    "names become columns, never SQL text",
)
FORBIDDEN = {
    **dict.fromkeys(("rdd", "sparkContext", "_jvm", "_jdf", "_jc", "_sc", "SQLContext", "SparkContext", "mllib"), CONNECT),
    **dict.fromkeys(("monotonically_increasing_id", "rand", "randn", "sample", "dropDuplicates", "drop_duplicates"), RETRY),
    **dict.fromkeys(("current_timestamp", "current_date", "uuid", "shuffle", "first_value", "any_value"), RETRY),
    **dict.fromkeys(("expr", "sql", "selectExpr"), SQL),
    "cache": "only storage.actions.materialize keeps tables",
}
# Of the numbers it looks only at the partition and at whether a row is the first one, which a second try has, too.
# The lines of a block of a file are numbered in their order, whichever task reads it.
# Where there is no context, jobs have no names.
# CREATE TABLE takes no parameters for columns, and `saveAsTable` writes a folder before the catalog rejects a name. All names
# in the statement are quoted: a test creates a table with backticks in its columns.
ALLOWED = {name: ["monotonically_increasing_id"] for name in ("actions.py", "text_files.py")} | {
    "progress.py": ["sparkContext"],
    "write.py": ["sql"],
}
# Methods that start a Spark job or keep a table. count with arguments is that of a list or text.
JOBS = {"collect", "toPandas", "take", "first", "head", "isEmpty", "toLocalIterator", "persist", "unpersist", "show", "foreach"}


def is_text(node):
    """Whether an expression is a text, as far as its form tells: a literal, an f-string, or one made of such by + % .format."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or is_text(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return is_text(node.func.value)
    return isinstance(node, ast.JoinedStr)


def faults(code, *, tables=False):
    """What a file may not do, by name; the same function reads the package and the bad examples below."""
    tree = ast.parse(code)
    # A statement that DataFrames lack, its text fixed and its names in parameters.
    fixed = {
        id(node.func)
        for node in ast.walk(tree)
        if tables and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            names = {*node.module.split("."), *(alias.name for alias in node.names)} - {"sql"}
            yield from names & FORBIDDEN.keys()
        if isinstance(node, ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in FORBIDDEN and of != "pa" and not (node.attr == "sql" and id(node) in fixed):
                yield node.attr
            if node.attr in JOBS and not tables:
                yield node.attr
            if node.attr == "now" and of != "datetime":
                yield "now"
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of = node.func.value if isinstance(node.func, ast.Attribute) else None
            if name == "count" and not node.args and not tables:
                yield "count"
            if name == "isinstance" and "DataFrame" in ast.dump(node):
                yield "isinstance"
            if name == "config" or (name == "set" and isinstance(of, ast.Attribute) and of.attr == "conf"):
                yield "a Spark setting"
            if name == "repartition" and len(node.args) < 2:
                yield "repartition"
            condition = next(iter(node.args), None) or next((k.value for k in node.keywords if k.arg == "condition"), None)
            if name in ("where", "filter") and is_text(condition):
                yield "SQL text"
            if name == "option" and isinstance(condition, ast.Constant) and str(condition.value).lower() == "replacewhere":
                yield "SQL text"


@pytest.mark.parametrize(
    "path", [*FILES, ROOT / "jobs" / "evaluate.py", ROOT / "jobs" / "split.py"], ids=lambda path: path.name
)
def test_nothing_that_spark_code_may_not_use(path):
    text = path.read_text()
    if "pyspark" not in text:
        return  # pandas, whose methods have the same names
    assert list(faults(text, tables="storage" in path.parts)) == ALLOWED.get(path.name, [])


@pytest.mark.parametrize(
    "code",
    [
        "frame.count()",
        "frame.collect()",
        "F.first('x')",
        "from pyspark.sql.functions import rand",
        "from pyspark.mllib.evaluation import RankingMetrics",
        "from pyspark.sql import SQLContext",
        "frame.rdd.map(f)",
        "F.now()",
        "isinstance(x, str); isinstance(frame, DataFrame)",
        "spark.conf.set(key, value)",
        "builder.config(map=settings)",
        "frame.repartition(8)",
        "frame.dropDuplicates(['user'])",
        "frame.where(f'user = {user}')",
        "frame.where('user = ' + user)",
        "frame.filter('user = {}'.format(user))",
        "frame.filter(condition='user = %s' % user)",
        "rows.write.option('replaceWhere', f'model = {model}')",
        "spark.sql(f'SELECT * FROM {name}')",
        "frame.selectExpr(name)",
        "F.expr('a + b')",
        "frame.cache()",
    ],
)
def test_the_rules_bite(code):
    assert list(faults(code))


@pytest.mark.parametrize(
    "code",
    [
        "columns.count(name)",
        "F.count(F.lit(1))",
        "datetime.now(tz)",
        "rows.repartition(n, 'bucket')",
        "rows.where(F.col('user') == name)",
        "rows.where(F.col('a') + F.lit('b') > 0)",
    ],
)
def test_the_rules_let_good_code_pass(code):
    assert list(faults(code)) == []


def test_sql_has_a_fixed_text_and_is_in_storage():
    fixed, made = "spark.sql('DROP TABLE IDENTIFIER(:x)', args=a)", "spark.sql(f'DROP TABLE {x}')"
    assert list(faults(fixed, tables=True)) == []
    assert list(faults(fixed)) == list(faults(made, tables=True)) == ["sql"]


@pytest.mark.parametrize(
    ("mark", "fixture", "taken"),
    [("", "spark", False), ("", "frames", False), ("", "tmp_path", True), ("@pytest.mark.spark\n", "frames", True)],
)
def test_a_test_with_a_session_has_its_mark(tmp_path, mark, fixture, taken):
    """The whole suite is held when it is collected, by `conftest.py`; here on a file of one test."""
    own = "@pytest.fixture\ndef frames(spark): ...\n"
    (tmp_path / "test_one.py").write_text(f"import pytest\n{own}{mark}def test_one({fixture}): ...\n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not heavy", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", "conftest", str(tmp_path / "test_one.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT / "tests")
    assert (done.returncode == 0) == taken, done.stdout + done.stderr
    if not taken:
        (told,) = [line for line in (done.stdout + done.stderr).splitlines() if "needs @pytest.mark.spark" in line]
        assert told.endswith("test_one.py::test_one")


def test_names_of_modules():
    banned = {"utils", "helpers", "common", "base", "manager"}
    assert not banned & {path.stem for path in FILES}
    import spark_recmetrics as srm

    functions = {name for name in srm.__all__ if callable(getattr(srm, name))}
    assert not functions & set(ORDER), "a module has the name of a public function"


def test_the_project_stands_alone():
    """No path of a machine, no registry host, no page outside the repository."""
    tracked = [
        path for path in ROOT.rglob("*") if path.suffix in {".py", ".md", ".toml", ".yaml", ".conf", ".txt", ".properties"}
    ]
    tracked += [ROOT / "Makefile", ROOT / ".ci" / "run", ROOT / "scripts" / "check-java"]
    skipped = {".venv", ".airflow-env", ".site-env", "site", ".matrix", ".rivals", ".demo", ".git", "build", "dist"}
    for path in tracked:
        if skipped & set(path.relative_to(ROOT).parts) or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        for word in ("/work/", "/root/", "../shared", "pypi.org", "--index-url", "semantics.md", "cases.md"):
            assert word not in text, f"{path.relative_to(ROOT)} names {word}"
