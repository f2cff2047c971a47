"""The command line: `spark-recmetrics`, the jobs, and the entry points of a Databricks wheel task."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from spark_recmetrics.diagnostics.doctor_spark import examine, failures
from spark_recmetrics.errors import ConfigError, DataError, RecMetricsError
from spark_recmetrics.job.evaluate import run_evaluation
from spark_recmetrics.job.files.config import Config, Published
from spark_recmetrics.job.files.job_file import Job
from spark_recmetrics.job.files.source import Source, as_yaml
from spark_recmetrics.job.files.split_config import SplitConfig
from spark_recmetrics.job.outcome import INTERRUPTED, Command, print_error, print_text, run_job
from spark_recmetrics.job.preflight import run_preflight
from spark_recmetrics.job.published import history_of, run_comparison, run_gates
from spark_recmetrics.job.session_spark import session
from spark_recmetrics.job.split import run_split
from spark_recmetrics.metrics import COMBINED, DEFINITIONS
from spark_recmetrics.reports.formatting import RESULT_MARK
from spark_recmetrics.storage.formats import local_problem
from spark_recmetrics.text import counted
from spark_recmetrics.version import __version__

_Run = Callable[[argparse.Namespace], int | None]
"""Runs a command and returns its exit code; None is success."""

_EXIT_CODES = """exit codes:
  0    success
  1    unexpected error
  2    wrong usage or configuration
  3    a gate failed
  4    input data missing or rejected, no users to evaluate, or a failed check
       of doctor or preflight
  5    the results could not be published
  130  interrupted"""


def run(argv: Sequence[str] | None = None) -> None:
    """Entry point of a process. It never calls `sys.exit(0)`, which some schedulers treat as a failure."""
    code = main(argv)
    if code:
        sys.exit(code)


def _entry_point(command: str) -> Callable[..., None]:
    def entry_point(argv: Sequence[str] | None = None) -> None:
        run([command, *(sys.argv[1:] if argv is None else argv)])

    return entry_point


evaluate, gate, split = map(_entry_point, ("evaluate", "gate", "split"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command with the given arguments, by default those of the process, and return its exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as leaving:  # argparse has printed the error or the help
        return int(leaving.code or 0)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the encoding of the terminal lacks must not end the run.
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    command: _Run = arguments.command
    try:
        return command(arguments) or 0
    except RecMetricsError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe, such as `head`, has ended. Python must not fail again when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)
        self._action_max_length = 4 + len("validate-config")  # argparse ignores that commands are indented by 4


def _parser() -> argparse.ArgumentParser:
    layout: dict[str, Any] = {"epilog": _EXIT_CODES, "formatter_class": _HelpFormatter}
    parser = argparse.ArgumentParser(prog="spark-recmetrics", description="Evaluate recommender systems on Spark.", **layout)
    parser.add_argument("--version", action="version", version=f"spark-recmetrics {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: _Run, summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=f"{summary}.", **layout)
        sub.set_defaults(command=command)
        return sub

    def add_configured(name: str, command: _Run, summary: str, *, required: bool = True) -> argparse.ArgumentParser:
        sub = add(name, command, summary)
        sub.add_argument("--config", required=required, metavar="FILE", help="configuration file: YAML, TOML or JSON")
        changed = "override a value of the file, such as evaluation.top_k=[5]; may be repeated"
        sub.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=changed)
        as_of = "date or version of the data, such as 2026-11-28; overrides as_of of the file"
        sub.add_argument("--as-of", metavar="LABEL", help=as_of)
        return sub

    def add_job(name: Command, command: _Run, summary: str) -> argparse.ArgumentParser:
        sub = add_configured(name, command, summary)
        sub.add_argument("--result-json", metavar="FILE", help=f"also write the JSON of the {RESULT_MARK} line to this file")
        return sub

    job = add_job("evaluate", _evaluate, "Evaluate models and publish the results")
    explained = "also print what each recommendation of this user adds to each metric"
    job.add_argument("--explain-user", metavar="ID", help=explained)
    job.add_argument("--no-gates", action="store_true", help="report failed gates only; the command gate still fails")
    check_inputs = partial(_run_job, "preflight", Config, run_preflight)
    add_job("preflight", check_inputs, "Check the setup of an evaluation on its input tables")
    add_job("gate", partial(_run_job, "gate", Config, run_gates), "Check the gates of a published run")
    pairs = add_job("compare", _compare, "Compare the models of a published run")
    pairs.add_argument("--run", metavar="RUN_ID", help="the run (default: the latest run of the job with the same as_of)")
    split_table = partial(_run_job, "split", SplitConfig, run_split)
    add_job("split", split_table, "Split a table of interactions into train and test")
    history = add_configured("history", _history, "Show the values of a metric in the last runs of a job")
    history.add_argument("--metric", required=True, metavar="METRIC", help="the metric, such as ndcg@10")
    history.add_argument("--last", type=int, default=30, metavar="N", help="number of runs (default: 30)")
    add_configured("doctor", _doctor, "Check the Spark session, its workers and the output location", required=False)
    add_configured("validate-config", _validate, "Check a configuration file without starting Spark")
    add_configured("explain-config", _explain, "Print a configuration with its defaults, hash and run id")
    schema = add("config-schema", _schema, "Print the JSON Schema of the configuration file")
    schema.add_argument("job", nargs="?", choices=("evaluate", "split"), default="evaluate", help="the job (default: evaluate)")
    add("metrics", _metrics, "List the metrics with their options and aliases")
    return parser


def _source(arguments: argparse.Namespace) -> Source:
    return Source(arguments.config, arguments.set, arguments.as_of)


def _read_any(source: Source) -> Config | SplitConfig:
    """The configuration of an evaluation, or of a split if the file has a section `split`."""
    return SplitConfig.read(source) if "split" in source.data else Config.read(source)


def _run_job(command: Command, kind: type[Job], work: Callable[..., None], arguments: argparse.Namespace) -> int:
    return run_job(command, lambda: kind.read(_source(arguments)), work, arguments.result_json)


def _evaluate(arguments: argparse.Namespace) -> int:
    work = partial(run_evaluation, explain_user=arguments.explain_user, fail_on_gates=not arguments.no_gates)
    return _run_job("evaluate", Config, work, arguments)


def _compare(arguments: argparse.Namespace) -> int:
    return _run_job("compare", Config, partial(run_comparison, run_id=arguments.run), arguments)


def _history(arguments: argparse.Namespace) -> None:
    if arguments.last < 1:
        raise ConfigError(f"--last: expected an integer of at least 1, found {arguments.last}")
    print_text(history_of(Published.read(_source(arguments)), arguments.metric, arguments.last))


def _doctor(arguments: argparse.Namespace) -> None:
    """Print one line per check. A failed check would fail an evaluation, too."""
    output = None
    if arguments.config is not None:
        config = _read_any(_source(arguments))
        output = config.located(config.output)
    elif arguments.set or arguments.as_of:
        raise ConfigError("--set and --as-of: expected a configuration to change, found none: add --config FILE")
    checks = []
    with ExitStack() as stack:
        for check in examine(lambda: stack.enter_context(session()), output):
            print(check, flush=True)
            checks.append(check)
    if failed := failures(checks):
        raise DataError(f"doctor: {failed}")


def _validate(arguments: argparse.Namespace) -> None:
    source = _source(arguments)
    config = _read_any(source)
    for keys, place in config.located_inputs.items():
        problem = None if place.path is None else local_problem(place.path, place.format, place.options)
        if problem is not None:
            source.report(keys, problem)
    source.raise_problems()
    content = counted(len(config.evaluation.expanded), "metric") if isinstance(config, Config) else config.split.method
    print(f"{arguments.config}: valid, configuration {config.hash}, {content}")


def _explain(arguments: argparse.Namespace) -> None:
    config = _read_any(_source(arguments))
    print(as_yaml(config.resolved()), end="")
    print(f"# config_hash: {config.hash}")
    print(f"# run_id: {config.run_id}")


def _schema(arguments: argparse.Namespace) -> None:
    kind = SplitConfig if arguments.job == "split" else Config
    print(json.dumps(kind.file_schema(), indent=2))


def _metrics(_: argparse.Namespace) -> None:
    definitions = {**DEFINITIONS, **COMBINED}
    options = {name: ", ".join(definition.options) or "-" for name, definition in definitions.items()}
    name_width, option_width = (max(map(len, texts)) for texts in (options, options.values()))
    for name, definition in sorted(definitions.items()):
        aliases = ", ".join(definition.aliases) or "-"
        print(f"{name:<{name_width}} {definition.kind:<9} options: {options[name]:<{option_width}} aliases: {aliases}")
        print(f"{'':<{name_width}} {definition.summary}")
