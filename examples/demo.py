"""The demonstration: from raw ratings to a table, a sentence that says what it means, and a page to open.

MovieLens-100K, ratings of 3 and more, from the folder that PSPNS_DATA names, else from the Python package index with
its checksum verified, else, without a network, a generated world.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# On a shared machine, threads that spin while they wait stall each other; must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pspns.cli.report import write_report
from pspns.cli.screen import complain, say
from pspns.cli.train import train_and_show
from pspns.data.load import load
from pspns.errors import DataError, PspnsError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the run and report.html")
    parser.add_argument("--data", default="ml-100k", help="what to train on")
    parser.add_argument("--seeds", default="0-1", help="one replica for each")
    options = parser.parse_args()

    data = choose_data(options.data)
    train_and_show(
        {"data": data, "model": "mf", "seeds": options.seeds}, [], "plain", None, options.out / "mf", overwrite=True
    )
    write_report([options.out / "mf"], options.out / "report.html")
    say(f"open {options.out / 'report.html'} in a browser to see the curves")


def choose_data(wanted: str) -> str:
    """The wanted data if they can be had, else a generated world, with the reason said."""
    try:
        load(wanted)
    except DataError as error:
        say(f"{error}")
        say("going on with a generated world instead")
        return "planted-low-rank"
    return wanted


if __name__ == "__main__":
    try:
        main()
    except PspnsError as error:
        complain(str(error))
        sys.exit(error.exit_code)
