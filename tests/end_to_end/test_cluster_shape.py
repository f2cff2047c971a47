"""A cluster as users have it: executors without the package, which gets the wheel by --py-files; Spark Connect and no JVM."""

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
"""How long a job may take on a machine that is busy; on an idle one it takes half a minute."""
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
    """The wheel under a name that Spark takes for a zip file."""
    return Path(shutil.copy(wheel, wheel.with_name("spark_recmetrics.zip")))


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python that has all of this one's packages but this package.

    A folder that a .pth file names is searched, but .pth files in it are not read, and of a package that is installed as a
    checkout there is nothing else.
    """
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, symlinks=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (own / "packages.pth").write_text("\n".join(packages))
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def own(python):
    """What a cluster and its drivers see: no package. Their Java compiles little, for they are gone before that pays."""
    return environment(python, ()) | {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.fixture(scope="module")
def master(tmp_path_factory, own):
    with cluster(tmp_path_factory.mktemp("cluster"), own) as address:
        yield address


@pytest.fixture(scope="module")
def data():
    """Predictions of three models, and truth."""
    case = random_data.merged_cases(range(3))
    names = {"user": "user_id", "item": "item_id"}
    return pd.DataFrame(case.predictions).rename(columns=names), pd.DataFrame(case.truth).rename(columns=names)


@pytest.fixture
def folder(tmp_path, data):
    """Tables that every worker can read, and a copy of the job that has no checkout around it.

    A relative path of a table would start where the Spark Connect server runs. The report is written by the client.
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
    """The tables of the job hold what the same evaluation finds in this process."""
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
    found, wanted = (
        rows.astype({"model": str, "user": str}).set_index(["model", "user"])[slugs].sort_index()
        for rows in (pd.read_parquet(folder / "results" / "per_user"), expected.per_user)
    )
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    page = (folder / "report.html").read_text()
    assert "ndcg" in page, "made of the template in the zip file"


def test_the_python_of_the_cluster_has_no_package(python, own, tmp_path):
    code = "import numpy, pandas, pyarrow, pydantic, yaml, pyspark, spark_recmetrics"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'spark_recmetrics'"


def test_workers_without_the_package_are_told(master, own, folder, wheel):
    """Spark gives a wheel under its own name to the driver, and to no worker."""
    done = submit(master, folder, own, "--py-files", str(wheel))
    assert done.returncode == 4, done.stdout + done.stderr[-3000:]
    told = result_of(done)["error"]["message"]
    assert f"spark_recmetrics absent ({own['PYSPARK_PYTHON']}): No module named 'spark_recmetrics'" in told
    assert told.endswith(
        ": install spark_recmetrics there, set PYSPARK_PYTHON to a Python that has it, "
        "or send its wheel with --py-files under a name that ends in .zip: nothing was read or written"
    )
    assert not (folder / "results").exists()


def test_the_wheel_is_sent_along(master, own, folder, archive, data):
    done = submit(master, folder, own, "--py-files", str(archive))
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert result_of(done)["status"] == "ok"
    assert_published(folder, data)


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    """A folder with the wheel installed, for clients."""
    folder = tmp_path_factory.mktemp("installed")
    flags = ["--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(wheel)], check=True)
    return folder


@pytest.fixture
def client(python, installed, folder):
    """Start a client of a Spark Connect server. It knows the server's address, and of no Java. In the end it is killed."""
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


def test_two_clients_without_java_at_once(master, own, client, installed, archive, data, tmp_path):
    """Each sends the wheel to the server, whose workers have none. The command cannot, and says what to do."""
    with connect_server(tmp_path, own, "--master", master, *FLAGS) as address:
        words = ("-c", CLIENT, str(archive))
        both = {k: client(address, *words, str(k), json.dumps(METRICS)) for k in (5, 2)}
        for k, process in both.items():
            done = ended(process)
            assert done.returncode == 0, done.stdout + done.stderr[-3000:]
            found = json.loads(done.stdout)
            assert (found["java"], found["home"]) == (None, None)
            assert found["session"].startswith("pyspark.sql.connect")
            assert Path(found["package"]).parent == installed / "spark_recmetrics"
            expected = in_memory(data, k).to_dict()
            assert found["models"].keys() == expected.keys()
            for model, values in expected.items():
                assert found["models"][model] == pytest.approx(values, abs=1e-12)
        done = ended(client(address, str(installed / "bin" / "spark-recmetrics"), "evaluate", "--config", "conf.yaml"))
        assert done.returncode == 4, "what one client sends is for no other"
        assert result_of(done)["error"]["message"].endswith(
            ": install spark_recmetrics there, set PYSPARK_PYTHON of the Spark Connect server to a Python that has it, "
            "or start that server with spark.executorEnv.PYTHONPATH naming its wheel: nothing was read or written"
        )


def test_the_command_without_java(master, own, client, installed, archive, data, tmp_path, folder):
    """The workers of the server find the wheel where its setting says."""
    place = ("--conf", f"spark.executorEnv.PYTHONPATH={archive}")
    with connect_server(tmp_path, own, "--master", master, *FLAGS, *place) as address:
        done = ended(client(address, str(installed / "bin" / "spark-recmetrics"), "evaluate", "--config", "conf.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert result_of(done)["status"] == "ok"
    assert_published(folder, data)
