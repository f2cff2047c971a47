"""The installed package: the wheel, run from another directory, and as a zip for --py-files."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from math import log2
from pathlib import Path

import pytest

import spark_recmetrics as srm
from spark_recmetrics.errors import EXTRAS
from spark_recmetrics.job.cli import RESULT_MARK

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(srm.__file__).resolve().parent
INSTALLED = ROOT not in PACKAGE.parents or Path(sys.prefix).resolve() in PACKAGE.parents
from_the_wheel = pytest.mark.skipif(
    not INSTALLED, reason="the package is the checkout here; `make test-matrix` installs its wheel"
)


@from_the_wheel
def test_the_wheel_is_python_and_its_templates():
    wheel = distribution("spark-recmetrics")
    assert "Root-Is-Purelib: true" in (wheel.read_text("WHEEL") or "")
    files = [file for file in wheel.files or () if file.parts[0] == "spark_recmetrics" and "__pycache__" not in file.parts]
    package = ROOT / "spark_recmetrics"
    sources = {path.relative_to(ROOT) for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {Path(file) for file in files} == sources, "the wheel lacks a file, or has one too many"
    assert {file.suffix for file in files if file.name != "py.typed"} == {".py", ".html"}


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.core
@pytest.mark.heavy
def test_the_first_report_of_the_readme(tmp_path):
    """The files and commands of the README, in an empty folder, give the documented output.

    Ann likes Alien, and Bob likes Up. als ranks both first; popular ranks Alien second, 1/log2(3), and has no list for Bob.
    """
    section = (ROOT / "README.md").read_text().partition("\n## Your own CSV files\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["csv", "csv", "yaml", "bash", "text"]
    (predictions, truth, conf, commands, shown) = (text for _, text in blocks)
    for name, text in {"predictions.csv": predictions, "truth.csv": truth, "first.yaml": conf}.items():
        assert name in section
        (tmp_path / name).write_text(text)
    few = os.environ | {"PYSPARK_SUBMIT_ARGS": "--conf spark.sql.shuffle.partitions=2 --driver-memory 1g pyspark-shell"}
    few["SPARK_CONF_DIR"] = str(ROOT / "conf")  # the value that the installation instructions set
    printed = []
    for command in map(str.split, commands.splitlines()):
        words = [Path(sys.executable).with_name(command[0]), *command[1:]]
        printed.append(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, env=few).stdout)
    assert "first.yaml: valid" in printed[0]
    result = json.loads(printed[-1].splitlines()[-1].removeprefix(RESULT_MARK))
    assert result["models"] == {
        "als": {"ndcg@1": 1, "ndcg@2": 1, "recall@1": 1, "recall@2": 1},
        "popular": {"ndcg@1": 0, "ndcg@2": pytest.approx(1 / log2(3) / 2), "recall@1": 0, "recall@2": 1 / 2},
    }
    assert doctest.OutputChecker().check_output(shown, printed[-1], doctest.ELLIPSIS), printed[-1]
    assert "als is best with" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "results" / "summary").is_dir()


def test_a_zip_of_the_package_runs(tmp_path):
    """`--py-files` takes a zip, which Python imports without unpacking."""
    archive = tmp_path / "spark_recmetrics.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in PACKAGE.rglob("*.py"):
            packed.write(path, Path("spark_recmetrics") / path.relative_to(PACKAGE))
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import spark_recmetrics as srm
print(srm.__file__)
print(srm.Evaluator(k_values=[2], metrics=["recall"]).evaluate({"u": ["a", "b"]}, {"u": ["b", "c"]}))
"""
    done = subprocess.run([sys.executable, "-c", code, str(archive)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(archive / "spark_recmetrics" / "__init__.py"), "{'recall@2': 0.5}"]


def test_the_oldest_environment_has_the_oldest_supported_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = [line for line in extras["dev"] if re.match("chispa|hypothesis|pytest", line)]
    bounds = dict(
        re.match(r"([\w-]+).*?>=([\d.]+)", line).groups()
        for line in [*project["dependencies"], *extras["spark"], *extras["mlflow"], *extras["report"], *tested]
    )
    pins = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "constraints/oldest.txt").read_text(), re.MULTILINE))
    assert {"numpy", "pandas", "pyspark", "mlflow-skinny", "jinja2", "matplotlib", "pytest"} <= set(bounds)
    for name, bound in bounds.items():
        assert f"{pins[name]}.".startswith(f"{bound}."), f"{name}: {bound} is admitted, {pins[name]} is tested"


def test_messages_name_the_packages_of_the_extras():
    """This package is on no index, so messages cannot suggest `pip install spark-recmetrics[report]`."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra: list(packages) for extra, packages in EXTRAS.items()} == {extra: extras[extra] for extra in EXTRAS}
    texts = [*(ROOT / "spark_recmetrics").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert len(texts) > 50
    assert [
        path.name for path in texts if re.search(r"pip install\b[^\n]*spark[-_]recmetrics\[", path.read_text("utf-8"))
    ] == []
