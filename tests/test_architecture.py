"""The structure of the package, held by reading its code: layers, and what Spark code may not use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "spark_recmetrics"
FILES = sorted(PACKAGE.rglob("*.py"))

# Module -> layer. A module imports only from layers below its own; siblings never import one another, those of `metrics` apart.
LAYERS = {
    "errors": 0, "schema": 0, "version": 0,
    "conventions": 1, "metrics": 2,
    "inputs": 3, "rank": 3, "score": 3, "rating": 3, "aggregate": 3, "tables": 3,
    "pipeline": 4,
    "source": 5, "report": 5, "config": 6,
    "cli": 7,
}  # fmt: skip
ABOVE_ERRORS = {"schema"}  # schema raises ConfigError
NUMPY_ONLY = ("conventions", "metrics", "errors", "version")
ON_WORKERS = (*NUMPY_ONLY, "schema", "score")
DRIVER_ONLY = {"pydantic", "yaml", "tomli", "tomllib", "scipy", "jinja2", "matplotlib"}


def module_of(path):
    relative = path.relative_to(PACKAGE).parts
    return relative[0].removesuffix(".py")


def imports(path):
    """(module, whether it is imported at run time) for every import of a file."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if node.module == "spark_recmetrics":
                yield from ((f"spark_recmetrics.{alias.name}", id(node) not in typing_only) for alias in node.names)
            else:
                yield node.module or "", id(node) not in typing_only


def test_every_module_has_a_layer():
    assert {module_of(path) for path in FILES} - {"__init__"} == set(LAYERS)


@pytest.mark.parametrize("path", [p for p in FILES if module_of(p) != "__init__"], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_layers_below(path):
    own = module_of(path)
    for name, _ in imports(path):
        if name.startswith("spark_recmetrics."):
            other = name.split(".")[1]
            allowed = other == own == "metrics" or LAYERS[other] < LAYERS[own] or (own in ABOVE_ERRORS and other == "errors")
            assert allowed, f"{own} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_workers_need_nothing_but_numpy_and_pandas(path):
    own = module_of(path)
    found = {name.partition(".")[0] for name, at_run_time in imports(path) if at_run_time}
    if own in NUMPY_ONLY:
        assert not found & {"pandas", "pyspark"}, f"{own} is pure numpy"
    if own in ON_WORKERS:
        assert not found & DRIVER_ONLY, f"{own} runs on workers"


def test_importing_the_package_starts_neither_spark_nor_pandas():
    code = "import sys, spark_recmetrics; print(sorted({'pyspark', 'pandas', 'numpy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FORBIDDEN = {
    "rdd": "RDDs are not on Spark Connect",
    "sparkContext": "not on Spark Connect",
    "_jvm": "not on Spark Connect",
    "_jdf": "not on Spark Connect",
    "_sc": "not on Spark Connect",
    "SQLContext": "not on Spark Connect",
    "mllib": "not on Spark Connect",
    "monotonically_increasing_id": "a retried task would give other rows",
    "rand": "a retried task would give other rows",
    "randn": "a retried task would give other rows",
    "current_timestamp": "a plan has no now()",
    "current_date": "a plan has no now()",
    "now": "a plan has no now()",
    "cache": "only tables.materialise keeps tables",
    "expr": "names become columns, never SQL text",
    "sql": "names become columns, never SQL text",
    "selectExpr": "names become columns, never SQL text",
}
ONLY_IN_TABLES = {"collect", "toPandas", "count", "take", "first", "head", "isEmpty", "toLocalIterator", "persist", "unpersist"}
ALLOWED = {
    ("pipeline.py", "now"): "of datetime, on the driver",
}


def attributes(path):
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_forbidden_spark(path):
    for node in attributes(path):
        reason = FORBIDDEN.get(node.attr)
        assert reason is None or (path.name, node.attr) in ALLOWED, f"{path.name}:{node.lineno} .{node.attr}: {reason}"
        of_functions = isinstance(node.value, ast.Name) and node.value.id in ("F", "Counter", "text", "content")
        if node.attr in ONLY_IN_TABLES and path.name != "tables.py" and not of_functions:
            # frame.columns.count(name) and text.count("\n") are no Spark.
            assert node.attr == "count", f"{path.name}:{node.lineno} .{node.attr} starts a Spark job: only tables may"
    source = path.read_text()
    assert "isinstance(" not in source or "DataFrame)" not in source.split("isinstance(", 1)[1].split("\n")[0]


def test_spark_settings_are_never_set_in_code():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("config", "set"):
                first = node.args[0] if node.args else None
                setting = isinstance(first, ast.Constant) and str(first.value).startswith("spark.")
                assert not setting, f"{path.name}:{node.lineno} sets {first.value if setting else ''}"


def test_no_repartition_without_keys():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "repartition":
                assert len(node.args) > 1, f"{path.name}:{node.lineno}: rows would move at random"


def test_names_of_modules():
    banned = {"utils", "helpers", "common", "base", "manager", "engine"}
    assert not banned & {path.stem for path in FILES}
    import spark_recmetrics as srm

    functions = {name for name in srm.__all__ if callable(getattr(srm, name))}
    assert not functions & set(LAYERS), "a module has the name of a public function"


def test_no_file_is_too_long():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 500, f"{path.name}: which two things does it do?"


def test_the_project_stands_alone():
    """No path of a machine, no registry host."""
    tracked = [p for p in ROOT.rglob("*") if p.suffix in {".py", ".md", ".toml", ".yaml", ".conf", ".txt"}]
    tracked += [ROOT / "Makefile", ROOT / ".ci" / "run"]
    skipped = {".venv", ".demo", ".git", "build", "dist"}
    for path in tracked:
        if skipped & set(path.relative_to(ROOT).parts) or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        for word in ("/work/", "/root/", "../shared", "pypi.org", "--index-url"):
            assert word not in text, f"{path.relative_to(ROOT)} names {word}"
