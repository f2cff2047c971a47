"""The command line: `spark-recmetrics`, the jobs, and the entry points of a Databricks wheel task."""

from __future__ import annotations

import argparse
import io
import json
import logging
import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_recmetrics import config as configuration
from spark_recmetrics.errors import ConfigError, DataError, RecMetricsError
from spark_recmetrics.metrics import DEFINITIONS
from spark_recmetrics.report import metric_table, printable
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.config import Config
    from spark_recmetrics.job_file import Job
    from spark_recmetrics.means import Mean
    from spark_recmetrics.pipeline import Result
    from spark_recmetrics.schema import Location
    from spark_recmetrics.sides import SplitReport
    from spark_recmetrics.split_config import SplitConfig

RESULT_MARK = "RECMETRICS_RESULT"
"""First word of the last line on stdout; JSON follows."""

INTERRUPTED = 130

_EXIT_CODES = """exit codes:
  0    done
  1    unexpected error
  2    usage or configuration; found before a session starts
  3    a gate failed
  4    input data missing, refused, or nobody to average; a check of doctor failed
  5    the output tables could not be replaced
  130  interrupted"""


def run(argv: Sequence[str] | None = None) -> None:
    """Entry point of a process: returns on success, and exits with the code of `main` otherwise.

    `sys.exit(0)` is never called: some schedulers take any SystemExit for a failure.
    """
    code = main(argv)
    if code:
        sys.exit(code)


def evaluate(argv: Sequence[str] | None = None) -> None:
    """Entry point that runs the command `evaluate` with the arguments of the process."""
    run(["evaluate", *(sys.argv[1:] if argv is None else argv)])


def split(argv: Sequence[str] | None = None) -> None:
    """Entry point that runs the command `split` with the arguments of the process."""
    run(["split", *(sys.argv[1:] if argv is None else argv)])


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: Arguments after the program's name; None: those of the process.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as leaving:  # argparse has said what is wrong, or printed its help
        return int(leaving.code or 0)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal's encoding lacks must not end the run.
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except RecMetricsError as error:
        return _told(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has gone; nothing is left to be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _told(error: RecMetricsError) -> int:
    for line in str(error).split("\n"):
        print(f"error: {printable(line)}", file=sys.stderr)
    return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-recmetrics",
        description="Evaluate recommender systems on Spark.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"spark-recmetrics {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(
        name: str, command: Callable[[argparse.Namespace], int], text: str, *, configured: bool, required: bool = True
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=text, description=text, epilog=_EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        sub.set_defaults(command=command)
        if configured:
            sub.add_argument("--config", required=required, metavar="FILE", help="configuration file: YAML, TOML or JSON")
            sub.add_argument(
                "--set", action="append", default=[], metavar="KEY=VALUE", help="change one value, e.g. evaluation.top_k=[5]"
            )
            sub.add_argument("--as-of", metavar="LABEL", help="the day that the run speaks of; replaces as_of of the file")
        return sub

    job = add("evaluate", _evaluate, "Evaluate models and write the tables.", configured=True)
    job.add_argument("--explain-user", metavar="ID", help="also print the lists of this user, row by row, with their values")
    halves = add("split", _split, "Split a table of interactions into train and test.", configured=True)
    for sub in (job, halves):
        sub.add_argument("--result-json", metavar="FILE", help=f"also write the JSON of the {RESULT_MARK} line to this file")
    add("doctor", _doctor, "Check the session, its workers, and where the output goes.", configured=True, required=False)
    add("validate-config", _validate, "Check a configuration without starting Spark.", configured=True)
    add("explain-config", _explain, "Print the configuration with every default, and its hash.", configured=True)
    schema = add("config-schema", _schema, "Print the JSON Schema of the configuration.", configured=False)
    schema.add_argument("job", nargs="?", choices=("evaluate", "split"), default="evaluate", help="of which job (evaluate)")
    add("metrics", _metrics, "Print the metrics, their options and other names.", configured=False)
    return parser


def _load(arguments: argparse.Namespace) -> Config:
    return configuration.load(arguments.config, arguments.set, arguments.as_of)


def _load_split(arguments: argparse.Namespace) -> SplitConfig:
    from spark_recmetrics.split_config import load_split

    return load_split(arguments.config, arguments.set, arguments.as_of)


def _load_any(arguments: argparse.Namespace) -> Config | SplitConfig:
    """The configuration of the job that the file is for: that of a split says how to split."""
    from spark_recmetrics.job_file import read
    from spark_recmetrics.split_config import SplitConfig

    def kind(said: Mapping[str, Any]) -> type[Config | SplitConfig]:
        return SplitConfig if "split" in said else configuration.Config

    return read(arguments.config, kind, arguments.set, arguments.as_of)


def _doctor(arguments: argparse.Namespace) -> int:
    """Print one line per check. Exit code 4 says that the run that was asked about would fail, too."""
    from spark_recmetrics.doctor import examine

    output = None
    if arguments.config is not None:
        config = _load_any(arguments)
        output = config.located(config.output)
    elif arguments.set or arguments.as_of:
        raise ConfigError("--set and --as-of: expected a configuration that they change, found none: add --config FILE")
    started = []

    def start() -> SparkSession:
        spark, own = _session()
        if own:
            started.append(spark)
        return spark

    checks = []
    try:
        for check in examine(start, output):
            print(check, flush=True)
            checks.append(check)
    finally:
        for spark in started:
            spark.stop()
    failed = [check.name for check in checks if check.level == "FAIL"]
    if failed:
        raise DataError(f"doctor: {len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    config = _load_any(arguments)
    found = f"{len(config.evaluation.expanded)} metrics" if isinstance(config, configuration.Config) else config.split.method
    print(f"{arguments.config}: valid, configuration {config.hash}, {found}")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    import yaml

    config = _load_any(arguments)
    print(yaml.safe_dump(config.resolved(), sort_keys=False, allow_unicode=True), end="")
    print(f"# config_hash: {config.hash}")
    print(f"# run_id: {config.run_id}")
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    from spark_recmetrics.split_config import SplitConfig

    kind = SplitConfig if arguments.job == "split" else configuration.Config
    print(json.dumps(kind.file_schema(), indent=2))
    return 0


def _metrics(arguments: argparse.Namespace) -> int:
    del arguments
    for name, definition in sorted(DEFINITIONS.items()):
        options = ", ".join(definition.options) or "-"
        print(f"{name:<10} {definition.kind:<8} options: {options:<24} also: {', '.join(definition.aliases) or '-'}")
        print(f"{'':<10} {definition.summary}")
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    def job(outcome: dict[str, Any]) -> None:
        config = _load(arguments)
        _identify(config, outcome)
        _run_job(config, outcome, arguments.explain_user)

    return _reported(arguments, job, {"models": {}, "n_users": {}})


def _split(arguments: argparse.Namespace) -> int:
    def job(outcome: dict[str, Any]) -> None:
        config = _load_split(arguments)
        _identify(config, outcome)
        _run_split(config, outcome)

    return _reported(arguments, job, {"reports": []})


def _identify(config: Job, outcome: dict[str, Any]) -> None:
    outcome |= {"job": config.job, "run_id": config.run_id, "as_of": config.as_of, "config_hash": config.hash}


def _reported(arguments: argparse.Namespace, job: Callable[[dict[str, Any]], None], found: Mapping[str, Any]) -> int:
    """Run a job; whatever happens, its outcome goes into the result line and file."""
    outcome: dict[str, Any] = {"status": "failed", "exit_code": 1, "run_id": None, "as_of": None, "tables": {}, **found}
    outcome |= {"warnings": [], "error": None, "version": __version__}
    result_file = None
    try:
        result_file = _result_file(arguments.result_json)
        job(outcome)
        code = 0
    except RecMetricsError as error:
        code = _told(error)
        outcome["error"] = {"type": type(error).__name__, "message": str(error)}
    except KeyboardInterrupt:
        code = INTERRUPTED
        outcome["error"] = {"type": "KeyboardInterrupt", "message": "interrupted"}
    except Exception as error:  # noqa: BLE001 - the outcome of a job must be told whatever it is
        code = 1
        traceback.print_exc()
        outcome["error"] = {"type": type(error).__name__, "message": str(error).strip().partition("\n")[0]}
    outcome["exit_code"] = code
    text = json.dumps(outcome, allow_nan=False)
    if result_file is not None:
        result_file.write_text(text + "\n", encoding="utf-8")
    print(f"{RESULT_MARK} {text}", flush=True)
    return code


def _result_file(name: str | None) -> Path | None:
    """The file for the result, known to be writable before hours of work."""
    if name is None:
        return None
    path = Path(name)
    try:
        path.write_text("", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--result-json {name}: cannot be written: {error.strerror}") from error
    return path


def _run_job(config: Config, outcome: dict[str, Any], user: str | None) -> None:
    from spark_recmetrics import history
    from spark_recmetrics.doctor import examine_worker
    from spark_recmetrics.outcome import Run
    from spark_recmetrics.pipeline import evaluate as evaluate_frames
    from spark_recmetrics.schema import DATA_REPORT, TABLES

    spark, own = _session()
    run, output = Run(config.run_id, config.as_of, config.hash), config.located(config.output)
    try:
        worker = examine_worker(spark)
        if worker.level == "FAIL":
            raise DataError(f"{worker}: nothing was read or written")
        try:
            result = evaluate_frames(
                **_inputs(spark, config),
                metrics=config.evaluation.expanded,
                threshold=config.evaluation.threshold,
                convention=config.evaluation.convention,
                columns=config.columns,
                checks=config.checks,
                cast_ids=config.inputs.cast_ids,
                n_buckets=config.evaluation.n_buckets,
                run=run,
            )
        except DataError as error:
            if error.facts:
                report = spark.createDataFrame(list(error.facts), DATA_REPORT)
                outcome["tables"] = history.publish({"data_report": report}, output, run)
            raise
        try:
            outcome["tables"] = history.publish({name: getattr(result, name) for name in TABLES}, output, run)
        finally:
            result.release()
        outcome |= {"status": result.status, "models": _finite(result.to_dict()), "warnings": list(result.warnings)}
        outcome["n_users"] = {model: _headline(of_model).n_users for model, of_model in result.means.items()}
        _show(config, result, outcome)
        if user is not None:
            _show_user(result, user)
    finally:
        if own:
            spark.stop()
    if result.status != "ok":
        raise DataError("\n".join(result.emptiness))


def _run_split(config: SplitConfig, outcome: dict[str, Any]) -> None:
    from spark_recmetrics import splits
    from spark_recmetrics.outcome import Run
    from spark_recmetrics.tables import read_table

    spark, own = _session()
    try:
        rows = read_table(spark, config.located(config.input), "input")
        found = getattr(splits, config.split.method)(rows, **config.arguments)
        run = Run(config.run_id, config.as_of, config.hash)
        outcome["tables"] = splits.publish(found, config.located(config.output), run)
        outcome |= {"status": "ok", "reports": [report.to_dict() for report in found.reports]}
        outcome["warnings"] = [line for report in found.reports for line in report.warnings]
    finally:
        if own:
            spark.stop()
    _show_split(config, found.reports, outcome)


def _inputs(spark: SparkSession, config: Config) -> dict[str, Any]:
    """The frames of the configuration, as arguments of `evaluate`."""
    from spark_recmetrics.inputs import union_models
    from spark_recmetrics.schema import Location
    from spark_recmetrics.tables import read_table

    inputs = config.inputs
    found: dict[str, Any] = {"model_name": config.model_name}

    def read(place: Location, key: str) -> DataFrame:
        return read_table(spark, config.located(place), f"inputs.{key}")

    def union(tables: dict[str, Location], key: str) -> DataFrame:
        frames = {model: read(place, f"models.{model}.{key}") for model, place in tables.items()}
        return union_models(key, frames, config.columns, config.inputs.cast_ids)

    for key in ("predictions", "rating_predictions", "truth", "train", "catalog"):
        given = getattr(inputs, key)
        found[key] = read(given, key) if isinstance(given, Location) else given
    if inputs.models is None:
        return found
    found["models"] = list(inputs.models)
    found["predictions"] = union({model: own.predictions for model, own in inputs.models.items()}, "predictions")
    if any(own.rating_predictions for own in inputs.models.values()):
        rated = {model: own.rating_predictions or own.predictions for model, own in inputs.models.items()}
        found["rating_predictions"] = union(rated, "rating_predictions")
    return found


def _session() -> tuple[SparkSession, bool]:
    """The session that is there, or a new one; and whether it is a new one, which is then stopped at the end."""
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        return there, False
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # No spark-submit has chosen a Python for the workers, and theirs would be the python3 of the path.
        os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    return SparkSession.builder.appName("spark-recmetrics").getOrCreate(), True


def _headline(of_model: Sequence[Mean]) -> Mean:
    """The mean whose users are named beside the model: of the first ranking metric, if there is one."""
    return next((mean for mean in of_model if mean.metric.definition.kind == "ranking"), of_model[0])


def _finite(models: dict[str, dict[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """JSON has no infinity, which the squares of very large errors can reach."""
    return {
        model: {metric: None if value is None or not math.isfinite(value) else value for metric, value in values.items()}
        for model, values in models.items()
    }


def _show(config: Config, result: Result, outcome: dict[str, Any]) -> None:
    as_of = f", as of {config.as_of}" if config.as_of else ""
    users = ", ".join(f"{printable(model)} {n}" for model, n in outcome["n_users"].items())
    print(f"{config.job}{as_of}, convention {result.convention}, users averaged: {users}\n")
    print(metric_table(result.rows))
    print("\n* best value of the line\n")
    for warning in result.warnings:
        print(f"warning: {printable(warning)}")
    for name, place in outcome["tables"].items():
        print(f"{name:<12} {place}  (as_of={outcome['as_of'] or 'none'}, run_id={outcome['run_id']})")


def _show_split(config: SplitConfig, reports: Sequence[SplitReport], outcome: dict[str, Any]) -> None:
    print(f"{config.job}{f', as of {config.as_of}' if config.as_of else ''}, {reports[0].method}\n")
    for report in reports:
        print(report)
    print()
    for warning in outcome["warnings"]:
        print(f"warning: {printable(warning)}")
    for name, place in outcome["tables"].items():
        print(f"{name:<12} {place}  (as_of={outcome['as_of'] or 'none'}, run_id={outcome['run_id']})")


def _show_user(result: Result, user: str) -> None:
    """The lists of one user. That there is no such user is no reason to fail: all tables are written."""
    try:
        print(f"\n{result.explain(user)}\n")
    except DataError as error:
        print(f"warning: --explain-user: {printable(str(error))}")
