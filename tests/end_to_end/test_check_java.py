"""The first step of the Makefile: is a suitable Java installed?"""

from __future__ import annotations

import shutil
import subprocess

from job_data import ROOT


def test_check_java(tmp_path):
    """The Java is too old, suitable, or missing."""
    script = ROOT / "scripts" / "check-java"
    path = f"{tmp_path}:/usr/bin:/bin"
    shell = shutil.which("sh") or "/bin/sh"
    java = tmp_path / "java"
    for version, expected in (
        ('openjdk version "1.8.0_392"', 1),
        ('openjdk version "11.0.2"', 1),
        ('openjdk version "17.0.15"', 0),
    ):
        java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
        java.chmod(0o755)
        done = subprocess.run([shell, str(script)], capture_output=True, text=True, check=False, env={"PATH": path})
        assert done.returncode == expected, (version, done.stderr)
        if expected:
            for system in ("apt-get install", "brew install", "conda install"):
                assert system in done.stdout + done.stderr
