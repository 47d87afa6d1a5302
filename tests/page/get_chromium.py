"""Look for Chromium, and install it as root with apt if it is missing. Never fails: tests are skipped then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from page.chromium import NoChromium, find_chromium

SECONDS = 300


def main() -> None:
    try:
        print(f"Chromium: {find_chromium()}")
    except NoChromium as why:
        if os.environ.get("CHROMIUM") or os.geteuid() != 0 or shutil.which("apt-get") is None or not installed():
            print(f"Pages are not looked at: {why}")
        else:
            print("Chromium was installed by apt-get")


def installed() -> bool:
    quiet = ["apt-get", "-qq", "-o", "Acquire::Retries=1", "-o", "Dpkg::Use-Pty=0"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        try:
            done = subprocess.run([*quiet, *words], env=environment, timeout=SECONDS, capture_output=True, check=False)
        except subprocess.TimeoutExpired:
            print(f"apt-get {words[0]} took more than {SECONDS} s")
            return False
        if done.returncode and words[0] == "install":
            print(done.stderr.decode(errors="replace").strip())
            return False
    return shutil.which("chromium") is not None


if __name__ == "__main__":
    main()
