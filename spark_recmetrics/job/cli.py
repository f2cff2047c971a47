"""The command line: `spark-recmetrics`, the jobs, and the entry points of a Databricks wheel task."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_recmetrics.errors import ConfigError, DataError, RecMetricsError
from spark_recmetrics.job.console import print_error, print_text
from spark_recmetrics.job.evaluate import run_evaluation
from spark_recmetrics.job.files import config as configuration
from spark_recmetrics.job.outcome import INTERRUPTED, run_job
from spark_recmetrics.job.preflight import run_preflight
from spark_recmetrics.job.published import history_of, run_comparison, run_gates
from spark_recmetrics.job.session_spark import session
from spark_recmetrics.job.split import run_split
from spark_recmetrics.metrics import COMBINED, DEFINITIONS
from spark_recmetrics.reports.formatting import RESULT_MARK
from spark_recmetrics.text import counted
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from spark_recmetrics.job.files.config import Config
    from spark_recmetrics.job.files.split_config import SplitConfig


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
    """Entry point of a process: returns on success, and exits with the code of `main` otherwise.

    It never calls `sys.exit(0)`, because some schedulers treat every `SystemExit` as a failure.
    """
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
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
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

    def add(name: str, command: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=f"{summary}.", **layout)
        sub.set_defaults(command=command)
        return sub

    def add_configured(
        name: str, command: Callable[[argparse.Namespace], int], summary: str, *, required: bool = True
    ) -> argparse.ArgumentParser:
        sub = add(name, command, summary)
        sub.add_argument("--config", required=required, metavar="FILE", help="configuration file: YAML, TOML or JSON")
        sub.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="override a value of the file, such as evaluation.top_k=[5]; may be repeated",
        )
        sub.add_argument(
            "--as-of", metavar="LABEL", help="date or version of the data, such as 2026-11-28; overrides as_of of the file"
        )
        return sub

    job = add_configured("evaluate", _evaluate, "Evaluate models and publish the results")
    job.add_argument(
        "--explain-user", metavar="ID", help="also print what each recommendation of this user adds to each metric"
    )
    job.add_argument("--no-gates", action="store_true", help="report failed gates, but do not fail; the command gate does")
    preflight = add_configured("preflight", _preflight, "Check the set-up of an evaluation on its input tables")
    gates = add_configured("gate", _gate, "Check the gates of a published run")
    pairs = add_configured("compare", _compare, "Compare the models of a published run")
    pairs.add_argument("--run", metavar="RUN_ID", help="the run (default: the latest run of the job with the same as_of)")
    parts = add_configured("split", _split, "Split a table of interactions into train and test")
    for sub in (job, preflight, gates, pairs, parts):
        sub.add_argument("--result-json", metavar="FILE", help=f"also write the JSON of the {RESULT_MARK} line to this file")
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


def _load(arguments: argparse.Namespace) -> Config:
    return configuration.load(arguments.config, arguments.set, arguments.as_of)


def _load_split(arguments: argparse.Namespace) -> SplitConfig:
    from spark_recmetrics.job.files.split_config import load_split

    return load_split(arguments.config, arguments.set, arguments.as_of)


def _load_any(arguments: argparse.Namespace) -> Config | SplitConfig:
    """The configuration of an evaluation, or of a split if the file has a section `split`."""
    from spark_recmetrics.job.files.job_file import read
    from spark_recmetrics.job.files.split_config import SplitConfig

    def kind(data: Mapping[str, Any]) -> type[Config | SplitConfig]:
        return SplitConfig if "split" in data else configuration.Config

    return read(arguments.config, kind, arguments.set, arguments.as_of)


def _doctor(arguments: argparse.Namespace) -> int:
    """Print one line per check. A failed check would fail an evaluation, too."""
    from spark_recmetrics.diagnostics.doctor_spark import examine

    output = None
    if arguments.config is not None:
        config = _load_any(arguments)
        output = config.located(config.output)
    elif arguments.set or arguments.as_of:
        raise ConfigError("--set and --as-of: expected a configuration to change, found none: add --config FILE")
    checks = []
    with ExitStack() as stack:
        for check in examine(lambda: stack.enter_context(session()), output):
            print(check, flush=True)
            checks.append(check)
    failed = [check.name for check in checks if check.level == "FAIL"]
    if failed:
        raise DataError(f"doctor: {len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    config = _load_any(arguments)
    if isinstance(config, configuration.Config):
        content = counted(len(config.evaluation.expanded), "metric")
    else:
        content = config.split.method
    print(f"{arguments.config}: valid, configuration {config.hash}, {content}")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from spark_recmetrics.job.files.source import as_yaml

    config = _load_any(arguments)
    print(as_yaml(config.resolved()), end="")
    print(f"# config_hash: {config.hash}")
    print(f"# run_id: {config.run_id}")
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    from spark_recmetrics.job.files.split_config import SplitConfig

    kind = SplitConfig if arguments.job == "split" else configuration.Config
    print(json.dumps(kind.file_schema(), indent=2))
    return 0


def _metrics(_: argparse.Namespace) -> int:
    definitions = {**DEFINITIONS, **COMBINED}
    options = {name: ", ".join(definition.options) or "-" for name, definition in definitions.items()}
    name_width, option_width = (max(map(len, texts)) for texts in (options, options.values()))
    for name, definition in sorted(definitions.items()):
        aliases = ", ".join(definition.aliases) or "-"
        print(f"{name:<{name_width}} {definition.kind:<9} options: {options[name]:<{option_width}} aliases: {aliases}")
        print(f"{'':<{name_width}} {definition.summary}")
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    options = {"explain_user": arguments.explain_user, "fail_on_gates": not arguments.no_gates}
    return run_job("evaluate", partial(_load, arguments), partial(run_evaluation, **options), arguments.result_json)


def _preflight(arguments: argparse.Namespace) -> int:
    return run_job("preflight", partial(_load, arguments), run_preflight, arguments.result_json)


def _gate(arguments: argparse.Namespace) -> int:
    return run_job("gate", partial(_load, arguments), run_gates, arguments.result_json)


def _compare(arguments: argparse.Namespace) -> int:
    return run_job("compare", partial(_load, arguments), partial(run_comparison, run_id=arguments.run), arguments.result_json)


def _split(arguments: argparse.Namespace) -> int:
    return run_job("split", partial(_load_split, arguments), run_split, arguments.result_json)


def _history(arguments: argparse.Namespace) -> int:
    if arguments.last < 1:
        raise ConfigError(f"--last: expected an integer of at least 1, found {arguments.last}")
    config = configuration.load_published(arguments.config, arguments.set, arguments.as_of)
    print_text(history_of(config, arguments.metric, arguments.last))
    return 0
