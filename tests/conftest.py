"""One Spark session for all tests: classic Spark, or Spark Connect with --session=connect."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

# Workers would start the python3 of the path, which has none of the packages.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
# Another Spark or a remote one of this machine must not win over the installed one.
for name in ("SPARK_HOME", "SPARK_REMOTE", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
    os.environ.pop(name, None)
# Of every JVM of the suite, those of whole runs of the jobs, too: compiling its code well costs more than tests win by it,
# and the threads of another collector would take the two cores from the lanes. With one compiler alone Java keeps 48 MB for
# compiled code, which a session of some hundred tests fills: it is thrown away then, and compiled again.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
# Without this archive, which `make` writes by class_archive.py, everything is the same, but each JVM starts more slowly.
_archive = Path(sys.prefix, "spark-classes.jsa")
if _archive.is_file() and " " not in str(_archive):
    JAVA_OPTIONS += f" -XX:SharedArchiveFile={_archive} -Xlog:disable"
os.environ["SPARK_SUBMIT_OPTS"] = JAVA_OPTIONS

SETTINGS = {
    "spark.sql.shuffle.partitions": "3",  # the default of 200 is 200 tasks for a handful of rows
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "2g",
    "spark.sql.codegen.wholeStage": "false",  # compiling a plan takes longer than a handful of rows do
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.host": "127.0.0.1",  # a machine's own name need not resolve
}

CHANGED_BY_TESTS = ("spark.sql.ansi.enabled", "spark.sql.adaptive.enabled", "spark.sql.session.timeZone")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--session", choices=("classic", "connect"), default="classic", help="kind of Spark session for the tests")
    told = "warnings are errors only where the package causes them: other versions of Spark and pandas warn of each other"
    parser.addoption("--own-warnings", action="store_true", help=told)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--own-warnings"):
        config.addinivalue_line("filterwarnings", "default")
        config.addinivalue_line("filterwarnings", "error:::spark_recmetrics")


@pytest.hookimpl(tryfirst=True)  # before -m leaves out the tests without the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that starts Spark without the mark would run where there is none, and on Spark Connect it would not."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker("heavy")
    unmarked = [
        f"{item.path.name}::{item.name}"
        for item in items
        if "_session" in getattr(item, "fixturenames", ()) and item.get_closest_marker("spark") is None
    ]
    if unmarked:
        raise pytest.UsageError(f"takes the fixture spark, needs @pytest.mark.spark: {', '.join(unmarked)}")
    tried = set[str]()
    items[:] = [item for item in items if not _is_repeated_on_spark(item, tried)]
    seen = Counter[str]()
    for item in items:
        if item.get_closest_marker("by_turns") and not item.get_closest_marker("heavy"):
            test = item.nodeid.partition("[")[0]
            if seen[test]:
                item.add_marker("connect" if seen[test] % 2 else "once")
            seen[test] += 1
    nowhere = [item.nodeid for item in items if item.get_closest_marker("once") and item.get_closest_marker("connect")]
    if nowhere:
        raise pytest.UsageError(f"marked once and connect, which `make test` would run nowhere: {', '.join(nowhere)}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `session` runs in memory and on Spark; on Spark it is slow unless it is marked core."""
    if "session" in metafunc.fixturenames:
        core = metafunc.definition.get_closest_marker("core")
        marks = [pytest.mark.spark] if core else [pytest.mark.spark, pytest.mark.slow]
        metafunc.parametrize("session", ["memory", pytest.param("spark", marks=marks)], indirect=True)


def _is_repeated_on_spark(item: pytest.Item, tried: set[str]) -> bool:
    """A test of both engines runs on Spark with its first parameters only: rules and messages are the same code."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("session") != "spark" or item.get_closest_marker("core"):
        return False
    test = item.nodeid.partition("[")[0]
    repeated = test in tried
    tried.add(test)
    return repeated


class MemorySession:
    """What tests of both engines use of a Spark session: tables, here of pyarrow."""

    def createDataFrame(self, rows: Any, schema: str = "") -> Any:  # noqa: N802 - the name in Spark
        from engines import Table

        return Table(schema, rows).arrow() if schema else rows


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Any:
    return MemorySession() if request.param == "memory" else request.getfixturevalue("spark")


@pytest.fixture(scope="session")
def session_kind(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--session"))


def _remember_java_classes() -> None:
    """Look up each Java class and method once: py4j would search all jars whenever one is named, a tenth of a test's time."""
    from py4j.java_gateway import JavaClass, JavaMember, JVMView

    def remember(owner: Any, *kinds: type) -> None:
        look_up = owner.__getattr__

        def remembered(self: Any, name: str) -> Any:
            known = self.__dict__.setdefault("_remembered", {})
            if name not in known:
                value = look_up(self, name)
                if not isinstance(value, kinds):
                    return value
                known[name] = value
            return known[name]

        owner.__getattr__ = remembered

    remember(JVMView, JavaClass)
    remember(JavaClass, JavaClass, JavaMember)


def _create_from_arrow(session: Any) -> None:
    """Tables of plain rows reach Spark as Arrow data: otherwise each of them would start a Python worker."""
    from engines import Table

    create = session.createDataFrame

    def create_from_arrow(data: Any, schema: Any = None, *args: Any, **options: Any) -> Any:
        if isinstance(data, list) and data and isinstance(schema, str) and not args and not options:
            # Types that only Spark has, and rows of the wrong type, are left to Spark.
            with suppress(KeyError, TypeError, ValueError):
                data, schema = Table(schema, data).arrow(), None
        return create(data, schema, *args, **options)

    session.createDataFrame = create_from_arrow


@pytest.fixture(scope="session")
def _session(session_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import pyspark
    from pyspark.sql import SparkSession

    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    settings = SETTINGS | warehouse
    if session_kind == "connect":
        # Settings of the server: a client cannot change static ones. The flags are those that spark-submit would take.
        flags = " ".join(f"--conf {key}={value}" for key, value in settings.items())
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{flags} pyspark-shell"
        builder = SparkSession.builder.remote("local[2]")
    else:
        # For messages, Spark asks where the caller stands at every use of a column. On Spark Connect it does so in these tests.
        settings |= {"spark.python.sql.dataFrameDebugging.enabled": "false"}
        builder = SparkSession.builder.master("local[2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        _remember_java_classes()
    # A large space for new objects: a plan makes a lot of garbage, and a small space would be collected at every test.
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JAVA_OPTIONS} -Xms1200m -Xmn800m"
    session = builder.getOrCreate()
    os.environ["SPARK_SUBMIT_OPTS"] = JAVA_OPTIONS
    if int(pyspark.__version__.partition(".")[0]) >= 4:  # older ones make no frame of an Arrow table
        _create_from_arrow(session)
    yield session
    session.stop()


@pytest.fixture
def spark(_session: Any) -> Iterator[Any]:
    """The session; a test's changes to its settings are undone."""
    before = {key: _session.conf.get(key) for key in CHANGED_BY_TESTS}
    yield _session
    for key, value in before.items():
        _session.conf.set(key, value)
    _session.catalog.clearCache()
