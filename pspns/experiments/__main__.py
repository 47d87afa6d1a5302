"""Run an experiment on data kept as arrays, several settings in one loop, and write the record as JSON.

    python -m pspns.experiments protocols --data ml-1m.npz --model lightgcn --seeds 0-2 --device cuda --out record.json

No table library, settings checker or terminal library is needed, so a bare GPU machine will do. The names of the
paper's tables and claims have options of their own: see `pspns.experiments.bare_machine`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

from pspns.cli.output_file import check_place
from pspns.data.arrays import read_arrays
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit
from pspns.errors import PspnsError, SettingsError, unknown_name
from pspns.experiments import bare_machine, choose, denoisers, hardness, noise, protocols, what_helps
from pspns.experiments._members import Tables, changed, make_settings
from pspns.experiments.reproduction import experiment_names
from pspns.experiments.request import ALL
from pspns.experiments.user_hits import describe_users
from pspns.json_files import write_json
from pspns.record import describe_run
from pspns.run import Run, run_together
from pspns.settings import Settings
from pspns.training.stopping import Evaluation

EXPERIMENTS = {
    "choose": choose,
    "denoisers": denoisers,
    "hardness": hardness,
    "noise": noise,
    "protocols": protocols,
    "what-helps": what_helps,
}
NAMES = (*EXPERIMENTS, *experiment_names(), ALL)


def main() -> None:
    words = sys.argv[1:]
    # Names come first: the values of options may be called alike.
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    try:
        if not names and not {"-h", "--help"} & set(words):
            raise SettingsError(f"the name of an experiment comes first, one of {', '.join(NAMES)}")
        for name in names:
            if name not in NAMES:
                raise unknown_name("experiment", name, NAMES)
        if names and names[0] not in EXPERIMENTS:
            bare_machine.run(words)
        else:
            _run_study()
    except PspnsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _run_study() -> None:
    parser = argparse.ArgumentParser(prog="python -m pspns.experiments", description=__doc__.partition("\n")[0])
    of_paper = ", ".join((*experiment_names(), ALL))
    parser.add_argument(
        "experiment",
        help=f"{', '.join(EXPERIMENTS)}; {of_paper} have options of their own: python -m pspns.experiments NAME -h",
    )
    parser.add_argument("--data", type=Path, required=True, help="a file of pspns.data.arrays.write_arrays")
    parser.add_argument("--model", default="mf")
    parser.add_argument("--seeds", default="0-2", help="first-last")
    parser.add_argument("--max-steps", type=int, default=200_000)
    parser.add_argument("--patience", type=int, default=10)
    parser.add_argument("--precision", default="float32", help="float32 or mixed")
    parser.add_argument("--noise", type=float, default=0.0, help="share of false pairs added to train")
    parser.add_argument("--only", default="", help="members to run, comma between them; unset: all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="where the record goes")
    parser.add_argument("--overwrite", action="store_true", help="replace the file in --out if there is one")
    options = parser.parse_args()
    check_place(options.out, overwrite=options.overwrite)
    members = _chosen(EXPERIMENTS[options.experiment].members(), options.only)
    settings = {name: make_settings(_completed(tables, options)) for name, tables in members.items()}
    done = _run_all(read_arrays(options.data), settings, judge_test=options.experiment != "choose")
    write_json(
        options.out,
        {
            "experiment": options.experiment,
            "data": options.data.stem,
            "members": {name: _record(run, options.experiment) for name, run in done.items()},
        },
    )


def _chosen(members: dict[str, Tables], only: str) -> dict[str, Tables]:
    names = list(members)
    if only:  # a name may have a comma in it
        names = [only] if only in members else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in members:
            raise unknown_name("member", name, list(members))
    return {name: members[name] for name in names}


def _completed(tables: Tables, options: argparse.Namespace) -> Tables:
    """What the command line says over what the experiment says."""
    first, _, last = options.seeds.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise SettingsError(f"--seeds must be first-last, such as 0-2, got '{options.seeds}'")
    return changed(
        tables,
        {
            "data": {"source": options.data.stem, "noise": options.noise},
            "model": {"name": options.model},
            "training": {
                "max_steps": options.max_steps,
                "patience": options.patience,
                "precision": options.precision,
            },
            "run": {"seeds": tuple(range(int(first), int(last or first) + 1)), "device": options.device},
        },
    )


def _run_all(data: Interactions | GivenSplit, members: dict[str, Settings], *, judge_test: bool) -> dict[str, Run]:
    """Those that can, in one loop; replicas share one only if they share all but what is each replica's own."""
    done: dict[str, Run] = {}

    def shared(name: str) -> tuple[float, str]:
        one = members[name]
        return one.training.learning_rate, repr((one.negatives, one.denoiser, one.training.loss, one.evaluation))

    for (learning_rate, _), group in itertools.groupby(sorted(members, key=shared), key=shared):
        names = list(group)
        print(f"learning rate {learning_rate:g}: {', '.join(names)}", flush=True)
        runs = run_together(
            data,
            [members[name] for name in names],
            judge_test=judge_test,
            watch=_watch,
            say=lambda line: print(line, flush=True),
        )
        done |= dict(zip(names, runs, strict=True))
    return {name: done[name] for name in members}


def _record(run: Run, experiment: str) -> dict[str, Any]:
    """A run's result and its curve on validation; while settings are being chosen, nothing of the test."""
    result = describe_run(run)
    select_by = run.settings.evaluation.select_by
    curve = {
        str(seed): [
            [look.step, look.metrics[seed][select_by]] for look in run.model.fitted.history if seed in look.metrics
        ]
        for seed in run.settings.run.seeds
    }
    if experiment == "choose":
        shown = ("data", "model", "seeds", "valid", "steps", "best_step", "settings", "versions", "machine")
        result = {key: result[key] for key in shown}
    kept = {
        str(seed): [[look.step, look.kept[seed]] for look in run.model.fitted.history if seed in look.kept]
        for seed in run.settings.run.seeds
    }
    weights = {"curve_kept": kept} if any(kept.values()) else {}
    users = {} if experiment == "choose" else {"users": describe_users(run)}
    return {**result, f"curve_{select_by}": curve, **weights, **users}


def _watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
    if evaluation:
        found = " ".join(f"{100 * metrics['recall@20']:.2f}" for metrics in evaluation.metrics.values())
        print(f"step {step:,} ({evaluation.seconds:.0f} s): validation recall@20 {found}", flush=True)


if __name__ == "__main__":
    main()
