"""`doctor`: a healthy session, and workers, sessions and outputs that really are broken."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pyspark
import pytest

from spark_recmetrics import __version__
from spark_recmetrics.diagnostics import doctor_spark as doctor
from spark_recmetrics.job.cli import main
from spark_recmetrics.storage.locations import Output

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["driver", "session", "worker", "ANSI mode", "time zone", "cache", "pandas UDFs", "output"]
OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def checks_of(out):
    """Level and text of each printed check, by name."""
    lines = [re.fullmatch(r"(ok|warn|FAIL) +([^:]+): (.+)", line) for line in out.splitlines()]
    assert all(lines), out
    return {line[2]: (line[1], line[3]) for line in lines}


@pytest.fixture
def conf(tmp_path):
    """A configuration whose inputs are not read."""

    def write(**output):
        path = tmp_path / "conf.json"
        inputs = {"predictions": {"path": "/no/inputs"}, "truth": {"path": "/no/inputs"}}
        path.write_text(json.dumps({"inputs": inputs, "evaluation": {"metrics": ["mrr"]}, "output": output}))
        return str(path)

    return write


@pytest.mark.spark
@pytest.mark.core
def test_a_healthy_session(spark, session_kind, capsys):
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert main(["doctor"]) == 0
    captured = capsys.readouterr()
    checks = checks_of(captured.out)
    assert captured.err == ""
    assert list(checks) == NAMES
    assert {level for level, _ in checks.values()} == {"ok"}
    kind = "classic" if session_kind == "classic" else "Spark Connect"
    assert checks["session"][1] == f"{kind}, Spark {spark.version}, pyspark {pyspark.__version__}"
    for side in ("driver", "worker"):
        for part in (f"Python {OWN_PYTHON}.", "numpy ", "pandas ", "pyarrow "):
            assert part in checks[side][1], side
    assert re.search(rf"spark_recmetrics {re.escape(__version__)}, scipy [\d.]+ \(", checks["driver"][1])
    assert f"spark_recmetrics {__version__} (" in checks["worker"][1]  # only the driver needs scipy
    assert checks["ANSI mode"][1] == "spark.sql.ansi.enabled=false; results do not depend on it"
    assert checks["time zone"][1] == "spark.sql.session.timeZone=Asia/Tokyo; results do not depend on it"
    assert checks["cache"][1] == "this session can cache tables"
    assert checks["output"][1] == "skipped, no configuration was given: add --config FILE to check it"
    assert spark.range(1).count() == 1, "a borrowed session is left running"


@pytest.mark.spark
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_an_output_path_is_written_and_cleaned(spark, conf, tmp_path, capsys, scheme):
    out = tmp_path / "results" / "nightly"
    assert main(["doctor", "--config", conf(path=f"{scheme}{out}")]) == 0
    assert checks_of(capsys.readouterr().out)["output"] == (
        "ok",
        f"wrote a table (parquet) next to {scheme}{out}/* and removed it",
    )
    assert not out.parent.exists(), "folders that did not exist before are removed"
    (out / "summary").mkdir(parents=True)
    (out / "summary" / "part-0").write_text("rows of another run")
    assert main(["doctor", "--config", conf(path=f"{scheme}{out}"), "--set", "output.format=orc"]) == 0
    assert checks_of(capsys.readouterr().out)["output"][1].startswith("wrote a table (orc) next to")
    assert [path.name for path in out.rglob("*")] == ["summary", "part-0"]


@pytest.mark.spark
def test_an_output_path_out_of_reach_is_named(spark, tmp_path, monkeypatch):
    """Spark can write to object storage and HDFS, but not delete from there."""

    def fail(path):
        raise OSError

    monkeypatch.setattr(shutil, "rmtree", fail)
    check = doctor._output(spark, Output(path=str(tmp_path)))
    probe = tmp_path / "_recmetrics_probe"
    assert (check.level, check.advice) == ("warn", "delete it")
    assert check.finding == f"a table (parquet) was written to {probe}, and cannot be removed from here"
    doctor._output(spark, Output(path=str(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == [probe.name]
    assert spark.read.parquet(str(probe)).count() == 1


@pytest.mark.spark
def test_an_output_path_that_cannot_be_written(conf, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["doctor", "--config", conf(path=str(tmp_path / "file"))]) == 4
    captured = capsys.readouterr()
    level, text = checks_of(captured.out)["output"]
    assert level == "FAIL"
    assert text.startswith(f"parquet to {tmp_path}/file/*: cannot write '{tmp_path}/file/_recmetrics_probe': ")
    assert text.endswith(": check the location, the format and the permissions")
    assert captured.err.splitlines()[-1] == "error: doctor: 1 of 8 checks failed: output"
    assert (tmp_path / "file").is_file()


@pytest.mark.spark
def test_catalog_output(spark, conf, capsys):
    spark.sql("create table if not exists doctor_summary (id long) using parquet")
    assert main(["doctor", "--config", conf(table_prefix="default.doctor_")]) == 0
    assert checks_of(capsys.readouterr().out)["output"][1] == "wrote a table (parquet) next to default.doctor_* and removed it"
    assert [row["tableName"] for row in spark.sql("show tables like 'doctor_*'").collect()] == ["doctor_summary"]
    assert main(["doctor", "--config", conf(table_prefix="no_schema.doctor_")]) == 4
    level, text = checks_of(capsys.readouterr().out)["output"]
    assert level == "FAIL"
    assert "cannot write '`no_schema`.`doctor_probe_" in text
    spark.sql("drop table doctor_summary")


@pytest.mark.spark
def test_a_session_that_cannot_keep_tables(spark, monkeypatch):
    def fail(*_):
        raise pyspark.errors.AnalysisException("PERSIST TABLE is not supported on serverless compute")

    monkeypatch.setattr(type(spark.range(1)), "persist", fail)
    check = doctor._cache(spark)
    assert (check.level, check.finding) == ("warn", "this session cannot cache tables")


@pytest.mark.spark
def test_other_versions_on_the_driver(spark):
    """The worker is real, the versions of the driver are not."""
    here = doctor._versions(doctor._ON_WORKERS)
    for package, level in (("pandas", "warn"), ("spark_recmetrics", "FAIL")):
        check = doctor._worker(spark, {**here, package: "0.0.1"}, "")
        assert check.level == level
        assert check.finding.endswith(f"), but the driver has {package} 0.0.1")
    check = doctor._worker(spark, {**here, "Python": "3.9.1"}, "")
    assert check.level == "FAIL"
    assert check.finding == f"Python {OWN_PYTHON} on the worker, Python 3.9 on the driver"


def test_a_check_that_fails_is_reported(monkeypatch):
    """For instance by an unexpected error of an API that a session rejects."""
    check = doctor._checked("cache", lambda: {}["no such thing"])
    assert str(check) == "FAIL  cache: 'no such thing': see the log of Spark"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\nTraceback (most recent call last):\n  x()\nModuleNotFoundError: No module named 'pandas'\n\n\tat org", "Module"),
        ("An error occurred while calling o48.x.\n: org.apache.x.Y: Job aborted\n\tat org", "org.apache.x.Y: Job aborted"),
        ('calling o48.x.\n: Job aborted\nCaused by: java.io.IOException: Cannot run program "p"\nCaused by: z', "Cannot run"),
        ("\n first \nsecond", "first"),
        ("", "ValueError"),
    ],
)
def test_the_reason_is_the_most_informative_line(text, reason):
    assert doctor._reason(ValueError(text)).startswith(reason)


# Really broken: each of these runs in a new process, because a session keeps its workers -------------------------------------


@pytest.fixture
def run_command(session_kind, tmp_path):
    """Run a command that ends with exit code 4, with other variables. Only the driver finds this package."""

    def run(*argv, **variables):
        environment = {name: value for name, value in os.environ.items() if "SPARK" not in name and name != "PYTHONPATH"}
        environment |= {"SPARK_CONF_DIR": str(ROOT / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"], **variables}
        if session_kind == "connect":
            # The server of the other tests uses the default port of a local server. Tests of Spark itself use another one.
            environment |= {"SPARK_REMOTE": "local[1]", "SPARK_TESTING": "1"}
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from spark_recmetrics.job.cli import run; run({list(argv)!r})"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300)
        assert done.returncode == 4, done.stderr[-3000:]
        return done

    return run


@pytest.fixture
def run_doctor(run_command):
    """Run `doctor`, and return its checks and stderr."""

    def run(**variables):
        done = run_command("doctor", **variables)
        return checks_of(done.stdout), done.stderr

    return run


def server(session_kind):
    return " of the Spark Connect server" if session_kind == "connect" else ""


@pytest.mark.spark
@pytest.mark.heavy
def test_a_worker_without_packages(run_doctor, session_kind, tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    checks, err = run_doctor(PYSPARK_PYTHON=python)
    level, text = checks["worker"]
    assert level == "FAIL"
    assert f"numpy absent, pandas absent, pyarrow absent, spark_recmetrics absent ({python})" in text
    assert "No module named 'numpy'; No module named 'pandas'; " in text
    assert text.endswith(
        ": install numpy, pandas, pyarrow, spark_recmetrics there, "
        f"or set PYSPARK_PYTHON{server(session_kind)} to a Python that has them"
    )
    assert checks["pandas UDFs"] == ("warn", "not checked on a worker that failed: fix the worker first")
    assert (checks["driver"][0], checks["cache"][0]) == ("ok", "ok")
    assert "Traceback" not in err


def real_python(folder):
    """A Python of another minor version on the path, if there is one."""
    del folder
    for minor in range(10, 16):
        python = shutil.which(f"python3.{minor}")
        if python and minor != sys.version_info.minor:
            done = subprocess.run(
                [python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return f"3.{minor}", done.stdout.strip()
    return pytest.skip("the path has no second Python")


def renamed_python(folder):
    """This Python, pretending to be the next minor version, which works on every machine."""
    venv.create(folder / "next", symlinks=True)
    version = tuple(sys.version_info)
    later = (version[0], version[1] + 1, *version[2:])
    fields = "major minor micro releaselevel serial"
    line = f"import collections, sys; sys.version_info = collections.namedtuple('version_info', {fields!r})(*{later})\n"
    next((folder / "next").glob("lib/python3*/site-packages")).joinpath("next.pth").write_text(line)
    return f"{later[0]}.{later[1]}", str(folder / "next" / "bin" / "python")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("other_python", [real_python, renamed_python])
def test_a_worker_of_another_python(run_doctor, session_kind, other_python, tmp_path):
    version, python = other_python(tmp_path)
    checks, _ = run_doctor(PYSPARK_PYTHON=python)
    text = (
        f"Python {version} on the worker, Python {OWN_PYTHON} on the driver: set PYSPARK_PYTHON{server(session_kind)} "
        f"to a Python {OWN_PYTHON} before the session starts, or run the driver with Python {version}"
    )
    assert checks["worker"] == ("FAIL", text)


@pytest.mark.spark
@pytest.mark.heavy
def test_c8_a_run_with_two_pythons_ends_before_anything_is_read(run_command, conf, tmp_path):
    version, python = renamed_python(tmp_path)
    err = run_command("evaluate", "--config", conf(path=str(tmp_path / "out")), PYSPARK_PYTHON=python).stderr
    text = f"error: FAIL  worker: Python {version} on the worker, Python {OWN_PYTHON} on the driver: set PYSPARK_PYTHON"
    assert next(line for line in err.splitlines() if line.startswith("error: ")).startswith(text)
    assert "inputs." not in err, "its missing tables have not been read"
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_that_is_not_there(run_doctor, session_kind):
    checks, _ = run_doctor(PYSPARK_PYTHON="/nowhere/python")
    level, text = checks["worker"]
    assert level == "FAIL"
    assert text.startswith("Python does not run there: ")
    assert "/nowhere/python" in text
    assert text.endswith(f": set PYSPARK_PYTHON{server(session_kind)} to a working Python executable")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_a_session_that_does_not_start(run_doctor):
    checks, _ = run_doctor(JAVA_HOME="/nowhere")
    assert list(checks) == ["driver", "session"]
    level, text = checks["session"]
    assert level == "FAIL"
    assert text.startswith("cannot be started: ")
    assert text.endswith(": check that JAVA_HOME is Java 17 or newer")


# Before a session starts -------------------------------------------------------------------------------------------------


def test_a_wrong_configuration_is_reported_before_a_session_starts(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("spark_recmetrics.job.cli.session", lambda: pytest.fail("a session was started"))
    assert main(["doctor", "--config", str(tmp_path / "no.yaml")]) == 2
    assert main(["doctor", "--set", "output.path=x"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: --set and --as-of: expected a configuration to change, found none: add --config FILE"
    )


@pytest.mark.parametrize("package", ["pandas", "scipy"])
def test_a_driver_without_a_package(monkeypatch, capsys, package):
    def no_session():
        raise RuntimeError("no Java")

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("spark_recmetrics.job.cli.session", no_session)
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark.example.com")
    assert main(["doctor"]) == 4
    captured = capsys.readouterr()
    checks = checks_of(captured.out)
    assert checks["driver"][0] == "FAIL"
    assert f"{package} absent" in checks["driver"][1]
    assert checks["driver"][1].endswith(f": install {package} there")
    text = "cannot be started: no Java: check that a server runs at SPARK_REMOTE=sc://spark.example.com"
    assert checks["session"] == ("FAIL", text)
    assert captured.err.splitlines()[-1] == "error: doctor: 2 of 2 checks failed: driver, session"


def test_a_run_without_scipy_ends_before_it_begins(monkeypatch, conf, capsys):
    """scipy is needed for confidence intervals, which are computed last."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setattr("spark_recmetrics.job.session_spark.session", lambda: pytest.fail("a session was started"))
    assert main(["evaluate", "--config", conf(path="/nowhere")]) == 4
    text = capsys.readouterr().err.splitlines()[-1]
    assert text.startswith("error: FAIL  driver: ")
    assert text.endswith(": install scipy there: nothing was read or written")


def test_a_client_without_the_packages_of_connect(monkeypatch, capsys):
    def no_grpc():
        raise ImportError("grpcio >= 1.48.1 must be installed; sc://ann:hunter2@host/;token=hunter2")

    monkeypatch.setattr("spark_recmetrics.job.cli.session", no_grpc)
    monkeypatch.setenv("SPARK_REMOTE", "sc://ann:hunter2@spark.example.com/;token=hunter2")
    assert main(["doctor"]) == 4
    captured = capsys.readouterr()
    text = checks_of(captured.out)["session"][1]
    assert text.startswith("cannot be started: grpcio >= 1.48.1 must be installed")
    assert text.endswith(": install the missing package; for Spark Connect install this package with the extra connect")
    assert "hunter2" not in captured.out + captured.err
