"""The gates apart from the evaluation: spark-submit jobs/gate.py --config conf/evaluate.yaml [--as-of 2026-11-28]."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("spark_recmetrics") is None:
    # spark-submit starts the python3 of the path, for this process and for the workers, which need not be the one that the
    # package was installed for. In a checkout that one is known; elsewhere PYSPARK_PYTHON or --py-files must say.
    own = Path(__file__).resolve().parent.parent / ".venv" / "bin" / "python"
    if not own.exists():
        sys.exit(
            f"{sys.executable} cannot import spark_recmetrics: "
            "set PYSPARK_PYTHON to a Python that can, or pass a zip with --py-files"
        )
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or str(own)
    os.execv(own, [str(own), *sys.argv])  # noqa: S606 - the same script, another Python

from spark_recmetrics.job.cli import run

if __name__ == "__main__":
    run(["gate", *sys.argv[1:]])
