"""A realistic cluster: executors get the package as a wheel with --py-files, and Spark Connect clients have no JVM."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pandas as pd
import pytest
import random_data
from cluster import ROOT, cluster, connect_server, environment

import spark_recmetrics as srm
from spark_recmetrics.job.cli import RESULT_MARK
from spark_recmetrics.metrics import expand

pytestmark = [
    pytest.mark.spark,
    pytest.mark.once,
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform != "linux", reason="the second worker is 127.0.0.2, which is this machine on Linux only"),
]

SECONDS = 300
"""Timeout of a job on a busy machine; on an idle one it takes half a minute."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
FLAGS = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
METRICS = ["ndcg", "map", "recall", "auc", "rmse"]
CONF = """
job: shape
inputs:
  predictions: {path: FOLDER/predictions.parquet}
  truth: {path: FOLDER/truth.csv, format: csv}
  catalog: 20
evaluation: {metrics: METRICS, top_k: [5], n_buckets: 3, intervals: {method: bootstrap, n_resamples: 100}}
output: {path: FOLDER/results}
report: report.html
""".replace("METRICS", json.dumps(METRICS))
CLIENT = """
import json, os, shutil, sys
from pyspark.sql import SparkSession
import spark_recmetrics as srm

archive, k = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.getOrCreate()
spark.addArtifacts(archive, pyfile=True)
predictions = spark.read.parquet(os.path.abspath("predictions.parquet"))
truth = spark.read.csv(os.path.abspath("truth.csv"), header=True, inferSchema=True)
result = srm.evaluate(predictions, truth, metrics=json.loads(sys.argv[3]), k=k, catalog=20, n_buckets=2)
places = {"java": shutil.which("java"), "home": os.environ.get("JAVA_HOME"), "package": srm.__file__}
print(json.dumps({**places, "session": type(spark).__module__, "models": result.to_dict()}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *flags, str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def archive(wheel):
    """The wheel with the suffix .zip, which Spark requires."""
    return Path(shutil.copy(wheel, wheel.with_name("spark_recmetrics.zip")))


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with all packages of this one except this package.

    Python searches the folders of a .pth file, but ignores .pth files in them, and the checkout is installed as a .pth file.
    """
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, symlinks=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (own / "packages.pth").write_text("\n".join(packages))
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def own(python):
    """The environment of the cluster and its drivers, without the package. The JVMs are short-lived, so they compile little."""
    return environment(python, ()) | {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.fixture(scope="module")
def master(tmp_path_factory, own):
    with cluster(tmp_path_factory.mktemp("cluster"), own) as address:
        yield address


@pytest.fixture(scope="module")
def data():
    """Predictions of three models, and ground truth."""
    case = random_data.merged_cases(range(3))
    names = {"user": "user_id", "item": "item_id"}
    return pd.DataFrame(case.predictions).rename(columns=names), pd.DataFrame(case.truth).rename(columns=names)


@pytest.fixture
def folder(tmp_path, data):
    """Tables that every worker can read, and a copy of the job outside the checkout.

    Paths of tables are absolute, because the Spark Connect server has another working directory. The client writes the report.
    """
    predictions, truth = data
    predictions.to_parquet(tmp_path / "predictions.parquet")
    truth.to_csv(tmp_path / "truth.csv", index=False)
    (tmp_path / "conf.yaml").write_text(CONF.replace("FOLDER", str(tmp_path)))
    shutil.copy(ROOT / "jobs" / "evaluate.py", tmp_path)
    return tmp_path


def submit(master, folder, own, *flags):
    command = [f"{own['SPARK_HOME']}/bin/spark-submit", "--master", master, "--deploy-mode", "client", *FLAGS, *flags]
    job = ["evaluate.py", "--config", "conf.yaml"]
    return subprocess.run([*command, *job], cwd=folder, env=own, capture_output=True, text=True, timeout=SECONDS, check=False)


def result_of(done):
    return json.loads(done.stdout.splitlines()[-1].removeprefix(RESULT_MARK))


def in_memory(data, k):
    return srm.evaluate(*data, metrics=METRICS, k=k, catalog=20)


def assert_published(folder, data):
    """The published tables equal the same evaluation in this process."""
    expected = in_memory(data, 5)
    summary = pd.read_parquet(folder / "results" / "summary").set_index(["model", "metric"])
    assert set(summary.index) == {(model, name) for model, values in expected.to_dict().items() for name in values}
    for model, means in expected.means.items():
        for mean in means:
            row = summary.loc[(model, str(mean.metric))]
            assert row["value"] == pytest.approx(mean.value, abs=1e-12)
            assert row["n_users"] == mean.n_users
    assert summary["ci_low"].notna().all(), "the workers have resampled users"
    slugs = [metric.slug for metric in expand(METRICS, 5)]
    published, wanted = (
        rows.astype({"model": str, "user": str}).set_index(["model", "user"])[slugs].sort_index()
        for rows in (pd.read_parquet(folder / "results" / "per_user"), expected.per_user)
    )
    pd.testing.assert_frame_equal(published, wanted, check_exact=True)
    page = (folder / "report.html").read_text()
    assert "ndcg" in page, "made of the template in the zip file"


def test_the_python_of_the_cluster_has_no_package(python, own, tmp_path):
    code = "import numpy, pandas, pyarrow, pydantic, yaml, pyspark, spark_recmetrics"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'spark_recmetrics'"


def test_workers_without_the_package_are_reported(master, own, folder, wheel):
    """Spark sends a file with the suffix .whl to the driver, but not to the workers."""
    done = submit(master, folder, own, "--py-files", str(wheel))
    assert done.returncode == 4, done.stdout + done.stderr[-3000:]
    message = result_of(done)["error"]["message"]
    assert f"spark_recmetrics absent ({own['PYSPARK_PYTHON']}): No module named 'spark_recmetrics'" in message
    assert message.endswith(
        ": install spark_recmetrics there, set PYSPARK_PYTHON to a Python that has it, "
        "or rename its wheel to end in .zip and pass it with --py-files: nothing was read or written"
    )
    assert not (folder / "results").exists()


def test_the_wheel_is_sent_with_py_files(master, own, folder, archive, data):
    done = submit(master, folder, own, "--py-files", str(archive))
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert result_of(done)["status"] == "ok"
    assert_published(folder, data)


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    """A folder for clients with the installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    flags = ["--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(wheel)], check=True)
    return folder


@pytest.fixture
def client(python, installed, folder):
    """Start a client of a Spark Connect server, without Java. It is killed after the test."""
    seen = {"PATH": str(installed / "bin"), "PYTHONPATH": str(installed)}
    assert shutil.which("java", path=os.environ["PATH"]), "here is a Java"
    assert shutil.which("java", path=seen["PATH"]) is None

    started = []

    def start(address, *words):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([python, *words], cwd=folder, env={**seen, "SPARK_REMOTE": address}, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def ended(process):
    out, err = process.communicate(timeout=SECONDS)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.slow
def test_two_clients_without_java_at_once(master, own, client, installed, archive, data, tmp_path):
    """Each client sends the wheel to the server, whose workers lack it. The command cannot send it, and says what to do."""
    with connect_server(tmp_path, own, "--master", master, *FLAGS) as address:
        words = ("-c", CLIENT, str(archive))
        both = {k: client(address, *words, str(k), json.dumps(METRICS)) for k in (5, 2)}
        for k, process in both.items():
            done = ended(process)
            assert done.returncode == 0, done.stdout + done.stderr[-3000:]
            result = json.loads(done.stdout)
            assert (result["java"], result["home"]) == (None, None)
            assert result["session"].startswith("pyspark.sql.connect")
            assert Path(result["package"]).parent == installed / "spark_recmetrics"
            expected = in_memory(data, k).to_dict()
            assert result["models"].keys() == expected.keys()
            for model, values in expected.items():
                assert result["models"][model] == pytest.approx(values, abs=1e-12)
        done = ended(client(address, str(installed / "bin" / "spark-recmetrics"), "evaluate", "--config", "conf.yaml"))
        assert done.returncode == 4, "what one client sends is for no other"
        assert result_of(done)["error"]["message"].endswith(
            ": install spark_recmetrics there, set PYSPARK_PYTHON of the Spark Connect server to a Python that has it, "
            "or start that server with spark.executorEnv.PYTHONPATH set to its wheel: nothing was read or written"
        )


@pytest.mark.slow
def test_the_command_without_java(master, own, client, installed, archive, data, tmp_path, folder):
    """The workers of the server find the wheel by its setting."""
    place = ("--conf", f"spark.executorEnv.PYTHONPATH={archive}")
    with connect_server(tmp_path, own, "--master", master, *FLAGS, *place) as address:
        done = ended(client(address, str(installed / "bin" / "spark-recmetrics"), "evaluate", "--config", "conf.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert result_of(done)["status"] == "ok"
    assert_published(folder, data)
