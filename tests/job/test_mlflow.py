"""MLflow: what is logged to a real tracking store, what is not, and how a job handles a failing store."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from job_data import load, write_parquet
from report_data import small_comparison

import spark_recmetrics as srm
from spark_recmetrics.decisions.gates import Gate, check_gates
from spark_recmetrics.evaluation.stages import evaluate
from spark_recmetrics.job import mlflow as tracking
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.request.slices import parse_slices
from spark_recmetrics.runs.identity import Run

mlflow = pytest.importorskip("mlflow", reason="mlflow is optional, and not installed here")

LOG2_3 = math.log2(3)
RUN = Run(run_id="r0123456789ab", as_of="2026-11-28", config_hash="c" * 16, job="nightly")


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A file store, set by environment variable; the global state of MLflow is reset after the test."""
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    uri = (tmp_path / "mlruns").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # required by MLflow 3
    mlflow.set_tracking_uri(None)
    yield mlflow.MlflowClient(tracking_uri=uri)
    mlflow.end_run()


def frame(rows, *columns):
    return pd.DataFrame(rows, columns=["user_id", "item_id", *columns])


def two_models():
    """Model a has ann's item b at rank 2 and no list for bob; model b predicts no pair of the ground truth."""
    lists = frame([("ann", "a", 5.0, "a"), ("ann", "b", 4.0, "a"), ("ann", "c", 3.0, "b")], "score", "model")
    truth = frame([("ann", "b", 5.0), ("bob", "c", 4.0)], "rating")
    return evaluate(lists, truth, metrics=["ndcg@10", "rmse"])


def one_model(metrics=("ndcg@10",)):
    """One hit at rank 2."""
    truth = frame([("ann", "b", 5.0)], "rating")
    return evaluate(frame([("ann", "a", 5.0), ("ann", "b", 4.0)], "score"), truth, metrics=metrics)


def test_f6_names_are_accepted_and_undefined_values_are_counted_but_not_logged(client):
    tracked = srm.log_to_mlflow(two_models())
    assert tracked.n_undefined == {"a": 0, "b": 1}
    assert tracked.warnings == ["mlflow: model b: 1 undefined and not logged: rmse"]
    a, b = (client.get_run(tracked.runs[model]).data for model in "ab")
    assert a.metrics == {"ndcg_at_10": pytest.approx(1 / LOG2_3 / 2), "rmse": 1, "n_users": 2, "n_undefined_metrics": 0}
    assert b.metrics == {"ndcg_at_10": 0, "n_users": 2, "n_undefined_metrics": 1}
    assert (a.tags.get("recmetrics.undefined"), b.tags["recmetrics.undefined"]) == (None, "rmse")


def test_mlflow_accepts_the_name_of_every_kind_of_metric(client):
    texts = ["f1(beta=0.5)@20", "ndcg(gain=exponential)@10", "f1(ndcg, map, beta=0.5)@3", "map@10", "rmse(average=per_user)"]
    tracked = srm.log_to_mlflow(one_model(texts), prefix="nightly/")
    metrics = client.get_run(tracked.runs["model"]).data.metrics
    assert {name for name in metrics if "n_u" not in name} == {
        "nightly/f1_beta_0_5_at_20",
        "nightly/ndcg_gain_exponential_at_10",
        "nightly/f1_ndcg_map_beta_0_5_at_3",
        "nightly/map_at_10",
        "nightly/rmse_average_per_user",
    }


def test_a_hostile_model_name_stays_on_its_line(client):
    result = one_model()
    name = f"x\n{RESULT_MARK} {{}}"
    tracked = srm.log_to_mlflow(replace(result, means={name: result.means["model"]}))
    run = client.get_run(tracked.runs[name])
    assert run.info.run_name == f"x\ufffd{RESULT_MARK} {{}}"
    assert run.data.tags["recmetrics.model"] == name


def test_an_infinite_value_is_not_logged(client):
    result = one_model()
    (mean,) = result.means["model"]
    tracked = srm.log_to_mlflow(replace(result, means={"model": [replace(mean, value=math.inf)]}))
    assert "ndcg_at_10" not in client.get_run(tracked.runs["model"]).data.metrics
    assert tracked.n_undefined == {"model": 1}


def test_parameters_tags_and_artifacts(client):
    result = replace(two_models(), run=RUN)
    rules = srm.convention("threshold").override(threshold=4.0)
    tracked = srm.log_to_mlflow(replace(result, convention=rules), experiment="recs", tags={"team": "search"})
    run = client.get_run(tracked.runs["a"])
    assert run.info.experiment_id == client.get_experiment_by_name("recs").experiment_id
    assert (run.info.run_name, run.info.status) == ("nightly 2026-11-28 a", "FINISHED")
    assert run.data.params == {
        "recmetrics.job": "nightly",
        "recmetrics.as_of": "2026-11-28",
        "recmetrics.convention": str(rules),
        "recmetrics.threshold": "4",
        "recmetrics.config_hash": "c" * 16,
        "recmetrics.version": srm.__version__,
        **({} if result.data_hash is None else {"recmetrics.data_hash": result.data_hash}),
    }
    tags = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.")}
    assert tags == {
        "team": "search",
        "recmetrics.model": "a",
        "recmetrics.run_id": RUN.run_id,
        "recmetrics.status": result.status,
    }
    text = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/recmetrics/report.txt")
    assert text.startswith("nightly, as of 2026-11-28, convention ")
    assert "* best value in the row" in text
    assert "ndcg    10" in text
    logged = json.loads(mlflow.artifacts.load_text(f"{run.info.artifact_uri}/recmetrics/result.json"))
    assert logged["models"] == result.to_dict()
    assert [(row["model"], row["metric"]) for row in logged["summary"]] == [(m, t) for m in "ab" for t in ("ndcg@10", "rmse")]
    assert {row["check"] for row in logged["data_report"]} >= {"rows", "users"}


def test_the_html_report_is_an_artifact(client, monkeypatch):
    pytest.importorskip("matplotlib", reason="the extra report is optional, and not installed here")
    result = two_models()
    gate = Gate("ndcg@10", min=2.0)
    more = {
        "comparison": small_comparison("a", "b"),
        "gates": check_gates([gate], result.rows),
        "configuration": "job: nightly",
    }
    run = client.get_run(srm.log_to_mlflow(result, history=result.rows, **more).runs["a"])
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/recmetrics/report.html")
    for text in ("is below min 2", "a minus b", "job: nightly"):
        assert text in page
    assert run.data.tags["recmetrics.gates"] == "fail"
    logged = json.loads(mlflow.artifacts.load_text(f"{run.info.artifact_uri}/recmetrics/result.json"))
    assert [row["result"] for row in logged["gates"]] == ["fail", "fail"]
    assert [row["metric"] for row in logged["comparison"]] == ["mrr@2", "hit@1", "mrr@2"]
    monkeypatch.setitem(sys.modules, "jinja2", None)
    bare = client.get_run(srm.log_to_mlflow(result).runs["a"])
    assert sorted(one.path for one in client.list_artifacts(bare.info.run_id, "recmetrics")) == [
        "recmetrics/report.txt",
        "recmetrics/result.json",
    ]


def test_values_of_slices_are_optional_and_have_unique_names(client):
    result = one_model()
    (mean,) = result.means["model"]
    values = {"F/M": 0.5, "F_M": 0.25, "..": 0.125}
    sliced = {("gender", value): {"model": [replace(mean, value=number)]} for value, number in values.items()}
    result = replace(result, slices=parse_slices(["gender"]), sliced=sliced)
    names = {}
    for slices in (False, True):
        tracked = srm.log_to_mlflow(result, slices=slices)
        metrics = client.get_run(tracked.runs["model"]).data.metrics
        names[slices] = {name: value for name, value in metrics.items() if name.startswith("gender")}
    text = mlflow.artifacts.load_text(f"{client.get_run(tracked.runs['model']).info.artifact_uri}/recmetrics/report.txt")
    assert "gender = F/M" in text
    assert names[False] == {}
    assert sorted(names[True].values()) == [0.125, 0.25, 0.5]
    assert set(names[True]) == {"gender/F_M/ndcg_at_10", "gender/F_M_2/ndcg_at_10", "gender/__/ndcg_at_10"}


# The active run -----------------------------------------------------------------------------------------------------------


def test_a_single_model_goes_into_the_active_run(client):
    with mlflow.start_run() as run:
        mlflow.log_param("threshold", 0.3)
        tracked = srm.log_to_mlflow(one_model())
        assert mlflow.active_run().info.status == "RUNNING"
    assert tracked.runs == {"model": run.info.run_id}
    data = client.get_run(run.info.run_id).data
    assert data.metrics["ndcg_at_10"] == pytest.approx(1 / LOG2_3)
    assert data.params["threshold"] == "0.3"


def test_several_models_are_nested_in_the_active_run(client):
    with mlflow.start_run() as run:
        tracked = srm.log_to_mlflow(two_models())
    assert run.info.run_id not in tracked.runs.values()
    for child in tracked.runs.values():
        assert client.get_run(child).data.tags["mlflow.parentRunId"] == run.info.run_id
    assert client.get_run(run.info.run_id).data.metrics == {}


def test_an_experiment_of_the_environment_and_of_the_job(client, monkeypatch):
    named = client.get_run(srm.log_to_mlflow(replace(one_model(), run=RUN)).runs["model"])
    assert client.get_experiment(named.info.experiment_id).name == "nightly"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    of_environment = client.get_run(srm.log_to_mlflow(replace(one_model(), run=RUN)).runs["model"])
    assert client.get_experiment(of_environment.info.experiment_id).name == "mine"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", named.info.experiment_id)
    by_id = client.get_run(srm.log_to_mlflow(replace(one_model(), run=RUN)).runs["model"])
    assert by_id.info.experiment_id == named.info.experiment_id


def test_a_repeated_run_replaces_the_previous_one(client):
    other = replace(RUN, run_id="rffffffffffff", as_of="2026-11-27")
    night_before = srm.log_to_mlflow(replace(two_models(), run=other), experiment="recs").runs
    first = srm.log_to_mlflow(replace(two_models(), run=RUN), experiment="recs").runs
    second = srm.log_to_mlflow(replace(two_models(), run=RUN), experiment="recs").runs
    experiment = client.get_experiment_by_name("recs").experiment_id
    there = {run.info.run_id for run in client.search_runs([experiment])}
    assert there == {*night_before.values(), *second.values()}
    assert client.get_run(first["a"]).info.lifecycle_stage == "deleted"


# Failures -----------------------------------------------------------------------------------------------------------------


def test_an_unfinished_run_is_marked_as_failed(client, monkeypatch):
    def full(*_args, **_options):
        raise OSError("no space left")

    monkeypatch.setattr(mlflow.MlflowClient, "log_text", full)
    with pytest.raises(srm.PublishError, match=r"^mlflow: cannot write to .*: no space left$"):
        srm.log_to_mlflow(one_model(), experiment="recs")
    (run,) = client.search_runs([client.get_experiment_by_name("recs").experiment_id])
    assert run.info.status == "FAILED"


def test_the_first_error_is_reported_if_the_run_cannot_be_marked_as_failed(client, monkeypatch):
    def gone(what):
        def fails(*_args, **_options):
            raise OSError(f"{what}: connection refused")

        return fails

    monkeypatch.setattr(mlflow.MlflowClient, "log_text", gone("text"))
    monkeypatch.setattr(mlflow.MlflowClient, "set_terminated", gone("mark"))
    with pytest.raises(srm.PublishError, match=r"text: connection refused$"):
        srm.log_to_mlflow(one_model(), experiment="recs")


def test_previous_runs_that_cannot_be_deleted_are_a_warning(client, monkeypatch):
    def forbidden(*_args, **_options):
        raise PermissionError("ann may not delete")

    result = replace(one_model(), run=RUN)
    first = srm.log_to_mlflow(result, experiment="recs")
    monkeypatch.setattr(mlflow.MlflowClient, "delete_run", forbidden)
    second = srm.log_to_mlflow(result, experiment="recs")
    assert first.warnings == []
    assert second.warnings == [
        f"mlflow: previous runs with recmetrics.run_id {RUN.run_id} were not deleted: ann may not delete"
    ]
    for run_id in (*first.runs.values(), *second.runs.values()):
        assert client.get_run(run_id).info.status == "FINISHED"


def test_the_json_of_a_job_has_no_infinity(client):
    gate = {"result": "fail", "value": math.inf, "reference": np.float64("nan"), "n_users": np.int64(3), "why": ("a", None)}
    tracked = tracking.track(one_model(), tracking.Mlflow(), fields={"gates": [gate]}, page=None, report="")
    place = client.get_run(tracked.runs["model"]).info.artifact_uri
    logged = json.loads(mlflow.artifacts.load_text(f"{place}/recmetrics/result.json"))
    assert logged["gates"] == [{"result": "fail", "value": None, "reference": None, "n_users": 3, "why": ["a", None]}]


def test_an_unreachable_server_is_reported_without_the_password(client, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:hunter2@127.0.0.1:9")
    with pytest.raises(srm.PublishError, match=r"^mlflow: cannot write to http://ann:\*\*\*@127.0.0.1:9: ") as caught:
        srm.log_to_mlflow(one_model())
    assert "hunter2" not in str(caught.value)


def test_a_missing_package_is_reported_with_what_to_do(monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda _name: None)
    with pytest.raises(srm.ConfigError, match=r"found none: install the extra mlflow, pip install 'mlflow-skinny>=2\.14'$"):
        srm.log_to_mlflow(one_model())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uri": "https://ann:hunter2@host"}, "uri: expected an address without a password, found one (not shown)"),
        ({"uri": ""}, "uri: expected a string, found ''"),
        ({"experiment": 5}, "experiment: expected a string, found 5"),
        ({"tags": {"team@home": "x"}}, "tags: expected names of letters, digits"),
        ({"tags": {"recmetrics.model": "x"}}, "do not begin with recmetrics. or mlflow., found 'recmetrics.model'"),
        ({"tags": {"team": 5}}, "tags.team: expected a string, found 5: write it in quotes"),
        ({"tags": ["team"]}, "tags: expected a mapping of names to strings"),
        ({"prefix": "a@"}, "prefix: expected letters, digits and _ - . / space, found 'a@'"),
        ({"prefix": "/a"}, "prefix: expected letters"),
        ({"slices": "yes"}, "slices: expected true or false, found 'yes'"),
    ],
)
def test_wrong_options_are_rejected_by_name(options, message):
    with pytest.raises(srm.ConfigError) as caught:
        srm.log_to_mlflow(one_model(), **options)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


# The job ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def job(spark, tmp_path, capsys):
    """Run `evaluate` with two models: a has a hit for ann, b has none. Returns exit code, output and outcome."""
    lists = [("a", "ann", "x", 1.0), ("a", "bob", "y", 1.0), ("b", "ann", "y", 1.0), ("b", "bob", "x", 1.0)]
    truth = [("ann", "x"), ("bob", "z"), ("cid", "y")]
    columns = {"user_id": "string", "item_id": "string"}
    write_parquet(tmp_path / "predictions", lists, model="string", **columns, score="double")
    write_parquet(tmp_path / "truth", truth, **columns)

    def evaluate(mlflow_options, **more):
        conf = {
            "job": "nightly",
            "as_of": "2026-11-28",
            "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
            "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
            "tracking": {"mlflow": mlflow_options},
            "output": {"path": str(tmp_path / "out")},
            **more,
        }
        path = tmp_path / "conf.json"
        path.write_text(json.dumps(conf))
        code = main(["evaluate", "--config", str(path)])
        out = capsys.readouterr().out
        return code, out, json.loads(out.strip().splitlines()[-1].removeprefix(RESULT_MARK))

    return evaluate


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
@pytest.mark.core
def test_a_job_logs_its_published_values(job, client):
    gate = {"metric": "hit@1", "min": 0.1}
    code, out, outcome = job({"tags": {"team": "search"}}, gates=[gate], comparison={})
    assert code == 3, "b fails its gate, and everything is logged"
    runs = outcome["tracking"]["mlflow"]
    assert list(runs) == ["a", "b"]
    assert f"mlflow       a {runs['a']}, b {runs['b']}" in out
    run = client.get_run(runs["a"])
    assert run.data.metrics == {"hit_at_1": pytest.approx(1 / 3), "n_users": 3, "n_undefined_metrics": 0}
    known = {name: run.data.params[f"recmetrics.{name}"] for name in ("job", "as_of", "config_hash")}
    assert known == {name: outcome[name] for name in known}
    assert len(run.data.params["recmetrics.data_hash"]) == 16
    assert (run.data.tags["recmetrics.gates"], run.data.tags["recmetrics.run_id"]) == ("fail", outcome["run_id"])
    logged = json.loads(mlflow.artifacts.load_text(f"{run.info.artifact_uri}/recmetrics/result.json"))
    assert (logged["tables"], logged["gates"]) == (outcome["tables"], outcome["gates"])
    assert [(row["model_a"], row["model_b"], row["metric"]) for row in logged["comparison"]] == [("a", "b", "hit@1")]
    text = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/recmetrics/report.txt")
    assert text.partition("\n")[0] in out
    assert outcome["report"] is None, "no file is configured"
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/recmetrics/report.html")
    assert "Gates failed: 1 of 2" in page


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_failing_server_does_not_lose_the_run(job, spark, client, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    down = {"uri": "http://127.0.0.1:9"}
    code, out, outcome = job(down)
    assert (code, outcome["status"], outcome["tracking"]) == (0, "ok", {"mlflow": {}})
    (warning_line,) = (warning for warning in outcome["warnings"] if warning.startswith("mlflow: "))
    assert warning_line.startswith("mlflow: cannot write to http://127.0.0.1:9: ")
    assert f"warning: {warning_line}" in out
    code, _, outcome = job({**down, "on_error": "fail"})
    assert (code, outcome["error"]["type"]) == (5, "PublishError")
    assert srm.read_history(spark, str(tmp_path / "out")).count() == 2, "one run of two models"
    gate = {"metric": "hit@1", "min": 0.1}
    assert job({**down, "on_error": "fail"}, gates=[gate])[0] == 3, "the error of the gate has priority"


def test_the_run_id_does_not_depend_on_tracking(tmp_path):
    path = tmp_path / "conf.json"
    plain = {"inputs": {name: {"path": "/nowhere"} for name in ("predictions", "truth")}, "output": {"path": "/elsewhere"}}
    ids = set()
    for more in ({}, {"tracking": None}, {"tracking": {"mlflow": {}}}, {"tracking": {"mlflow": {"experiment": "recs"}}}):
        path.write_text(json.dumps(plain | more))
        config = load(path)
        ids.add((config.hash, config.run_id))
    assert len(ids) == 1


def test_a_job_without_mlflow_fails_before_it_reads_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tracking, "find_spec", lambda _name: None)
    conf = {"inputs": {name: {"path": "/nowhere"} for name in ("predictions", "truth")}, "output": {"path": "/elsewhere"}}
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf | {"tracking": {"mlflow": {}}}))
    assert main(["evaluate", "--config", str(path)]) == 2
    assert "tracking.mlflow: expected the package mlflow or mlflow-skinny on the driver" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"experimnet": "x"}, "tracking.mlflow.experimnet: unknown key; did you mean 'experiment'?"),
        ({"on_error": "stop"}, "tracking.mlflow.on_error: expected one of 'warn' or 'fail', found 'stop'"),
        ({"tags": {"team": 5}}, "tracking.mlflow.tags.team: expected a string, found 5: write it in quotes"),
        ({"slices": "yes"}, "tracking.mlflow.slices: expected one of False or True, found 'yes'"),
        ({"prefix": "a@"}, "tracking.mlflow: prefix: expected letters, digits"),
        ({"uri": "https://ann:hunter2@host"}, "expected an address without a password"),
    ],
)
def test_a_configuration_is_checked_when_it_is_read(options, message, tmp_path, capsys):
    conf = {"inputs": {name: {"path": "/nowhere"} for name in ("predictions", "truth")}, "output": {"path": "/elsewhere"}}
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf | {"tracking": {"mlflow": options}}))
    assert main(["validate-config", "--config", str(path)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "hunter2" not in err
