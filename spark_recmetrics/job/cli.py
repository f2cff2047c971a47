"""The command line: `spark-recmetrics`, the jobs, and the entry points of a Databricks wheel task."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_recmetrics.errors import ConfigError, DataError, RecMetricsError, reason_of
from spark_recmetrics.job import evaluate as job_runs
from spark_recmetrics.job import published as published_runs
from spark_recmetrics.job.files import config as configuration
from spark_recmetrics.job.files.job_file import places
from spark_recmetrics.job.files.source import dotted
from spark_recmetrics.job.session_spark import session, tell
from spark_recmetrics.metrics import COMBINED, DEFINITIONS
from spark_recmetrics.reports.formatting import RESULT_MARK, unmarked
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.progress import show_steps
from spark_recmetrics.text import counted, json_text, printable
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from spark_recmetrics.job.files.config import Config
    from spark_recmetrics.job.files.job_file import Job
    from spark_recmetrics.job.files.split_config import SplitConfig


_Job = TypeVar("_Job", bound="Job")

INTERRUPTED = 130

_EXIT_CODES = """exit codes:
  0    done
  1    unexpected error
  2    usage or configuration; found before a session starts, but for what
       only the tables or the secrets of the workspace can tell
  3    a gate failed
  4    input data missing, refused, or nobody to average; a check of doctor or preflight failed
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


def gate(argv: Sequence[str] | None = None) -> None:
    """Entry point that runs the command `gate` with the arguments of the process."""
    run(["gate", *(sys.argv[1:] if argv is None else argv)])


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
        return _told(str(error), error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has gone; nothing is left to be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _told(message: str, code: int) -> int:
    for line in message.split("\n"):
        print(f"error: {printable(line)}", file=sys.stderr)
    return code


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
    job.add_argument("--no-gates", action="store_true", help="judge the gates, but leave it to the command gate to fail")
    proof = add("preflight", _preflight, "Prove on the input tables that an evaluation measures what it says.", configured=True)
    gate = add("gate", _gate, "Hold the gates against a run that is published.", configured=True)
    pairs = add("compare", _compare, "Compare the models of a run that is published.", configured=True)
    pairs.add_argument("--run", metavar="RUN_ID", help="the run; without it the newest of the job and its --as-of")
    halves = add("split", _split, "Split a table of interactions into train and test.", configured=True)
    for sub in (job, proof, gate, pairs, halves):
        sub.add_argument("--result-json", metavar="FILE", help=f"also write the JSON of the {RESULT_MARK} line to this file")
    past = add("history", _history, "Print the values of a metric in the last nights of a job.", configured=True)
    past.add_argument("--metric", required=True, metavar="METRIC", help="such as ndcg@10")
    past.add_argument("--last", type=int, default=30, metavar="N", help="how many nights (30)")
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
    from spark_recmetrics.job.files.split_config import load_split

    return load_split(arguments.config, arguments.set, arguments.as_of)


def _load_any(arguments: argparse.Namespace) -> Config | SplitConfig:
    """The configuration of the job that the file is for: that of a split says how to split."""
    from spark_recmetrics.job.files.job_file import read
    from spark_recmetrics.job.files.split_config import SplitConfig

    def kind(said: Mapping[str, Any]) -> type[Config | SplitConfig]:
        return SplitConfig if "split" in said else configuration.Config

    return read(arguments.config, kind, arguments.set, arguments.as_of)


def _doctor(arguments: argparse.Namespace) -> int:
    """Print one line per check. Exit code 4 says that the run that was asked about would fail, too."""
    from spark_recmetrics.diagnostics.doctor_spark import examine

    output = None
    if arguments.config is not None:
        config = _load_any(arguments)
        output = config.located(config.output)
    elif arguments.set or arguments.as_of:
        raise ConfigError("--set and --as-of: expected a configuration that they change, found none: add --config FILE")
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
        found = counted(len(config.evaluation.expanded), "metric")
    else:
        found = config.split.method
    print(f"{arguments.config}: valid, configuration {config.hash}, {found}")
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


def _metrics(arguments: argparse.Namespace) -> int:
    del arguments
    listed = {**DEFINITIONS, **COMBINED}
    options = {name: ", ".join(definition.options) or "-" for name, definition in listed.items()}
    width, middle = (max(map(len, texts)) for texts in (options, options.values()))
    for name, definition in sorted(listed.items()):
        also = ", ".join(definition.aliases) or "-"
        print(f"{name:<{width}} {definition.kind:<9} options: {options[name]:<{middle}} also: {also}")
        print(f"{'':<{width}} {definition.summary}")
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    def job(config: Config, outcome: dict[str, Any], vault: Vault) -> None:
        job_runs.run_evaluation(config, outcome, arguments.explain_user, vault, gated=not arguments.no_gates)

    empty: dict[str, Any] = {
        "models": {},
        "n_users": {},
        "gates": [],
        "pareto": [],
        "preflight": [],
        "tracking": {},
        "report": None,
    }
    return _reported(arguments, _load, job, empty)


def _preflight(arguments: argparse.Namespace) -> int:
    return _reported(arguments, _load, job_runs.run_preflight, {"preflight": []})


def _gate(arguments: argparse.Namespace) -> int:
    return _reported(arguments, _load, published_runs.run_gates, {"gates": []})


def _compare(arguments: argparse.Namespace) -> int:
    def work(config: Config, outcome: dict[str, Any], vault: Vault) -> None:
        del vault  # no input is read
        published_runs.run_comparison(config, outcome, arguments.run)

    return _reported(arguments, _load, work, {"comparison": []})


def _history(arguments: argparse.Namespace) -> int:
    if arguments.last < 1:
        raise ConfigError(f"--last: expected a whole number from 1, found {arguments.last}")
    config = configuration.load_published(arguments.config, arguments.set, arguments.as_of)
    tell(published_runs.history_of(config, arguments.metric, arguments.last))
    return 0


def _split(arguments: argparse.Namespace) -> int:
    return _reported(arguments, _load_split, job_runs.run_split, {"reports": []})


def _reported(
    arguments: argparse.Namespace,
    load: Callable[[argparse.Namespace], _Job],
    job: Callable[[_Job, dict[str, Any], Vault], None],
    found: Mapping[str, Any],
) -> int:
    """Run a job; whatever happens, its outcome goes into the result line and file."""
    outcome: dict[str, Any] = {"status": "failed", "exit_code": 1, "run_id": None, "as_of": None, "tables": {}, **found}
    outcome |= {"warnings": [], "error": None, "version": __version__}
    result_file = None
    vault = Vault()
    try:
        result_file = _result_file(arguments.result_json)
        config = load(arguments)
        outcome |= {"job": config.job, "run_id": config.run_id, "as_of": config.as_of, "config_hash": config.hash}
        vault.check((dotted(keys), place) for keys, place in places(config) if isinstance(place, Location))
        with _covered_log(vault), show_steps():
            job(config, outcome, vault)
        code = 0
    except RecMetricsError as error:
        message = vault.masked(str(error))
        code = _told(message, error.exit_code)
        outcome["error"] = {"type": type(error).__name__, "message": message}
    except KeyboardInterrupt:
        code = INTERRUPTED
        outcome["error"] = {"type": "KeyboardInterrupt", "message": "interrupted"}
    except Exception as error:  # noqa: BLE001 - the outcome of a job must be told whatever it is
        code = 1
        for line in vault.masked(traceback.format_exc()).expandtabs(4).rstrip("\n").split("\n"):
            print(unmarked(printable(line)), file=sys.stderr)  # spark-submit shows it on its stdout
        outcome["error"] = {"type": type(error).__name__, "message": reason_of(error, vault.masked)}
    outcome["exit_code"] = code
    text = json_text(outcome)
    if result_file is not None:
        result_file.write_text(text + "\n", encoding="utf-8")
    print(f"{RESULT_MARK} {text}", flush=True)
    return code


@contextmanager
def _covered_log(vault: Vault) -> Iterator[None]:
    """Cover secrets in what is logged meanwhile, also in the logs of others who quote an error of Spark."""

    def cover(record: logging.LogRecord) -> bool:
        if record.exc_info:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            record.exc_info, record.exc_text = None, vault.masked(trace)
        record.msg, record.args = vault.masked(record.getMessage()), ()
        return True

    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(cover)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(cover)


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
