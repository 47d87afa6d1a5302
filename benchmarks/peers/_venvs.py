"""A venv for each rival, made when first asked for and kept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers._process import ROOT, RivalFailedError, last_line

FOLDER = ROOT / ".peers"


def venv_python(name: str, requirements: Sequence[str], folder: Path = FOLDER) -> Path:
    """The python of the rival's venv, with exactly these requirements installed in this order."""
    venv = folder / name
    python, installed = venv / "bin" / "python", venv / "installed.txt"
    wanted = "\n".join(requirements) + "\n"
    if installed.is_file() and installed.read_text() == wanted:
        return python
    print(f"making {venv}", flush=True)
    _run([sys.executable, "-m", "venv", "--clear", str(venv)])
    for requirement in requirements:
        _run([str(python), "-m", "pip", "install", "--quiet", *requirement.split()])
    installed.write_text(wanted)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RivalFailedError(f"not installed: {last_line(done.stderr)}")
