"""Split a table into train and test: spark-submit jobs/split.py --config conf/split.yaml [--as-of 2026-11-28]."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("spark_recmetrics") is None:
    # spark-submit starts the first python3 on the path, for this process and for the workers. It may lack the package. In a
    # checkout, .venv has it; elsewhere set PYSPARK_PYTHON or use --py-files.
    python = Path(__file__).resolve().parent.parent / ".venv" / "bin" / "python"
    if not python.exists():
        sys.exit(
            f"{sys.executable} cannot import spark_recmetrics: "
            "set PYSPARK_PYTHON to a Python that can, or pass a zip with --py-files"
        )
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or str(python)
    os.execv(python, [str(python), *sys.argv])  # noqa: S606 - the same script with another Python

from spark_recmetrics.job.cli import run

if __name__ == "__main__":
    run(["split", *sys.argv[1:]])
