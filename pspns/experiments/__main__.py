"""Run a model beside the baselines on data kept as arrays, and write the record as JSON.

    python -m pspns.experiments --data ml-1m.npz --model mf --seeds 0-2 --device cuda --out record.json

No table library, settings checker or terminal library is needed, so a bare GPU machine will do.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pspns.components import find_part
from pspns.data.arrays import read_arrays
from pspns.errors import PspnsError, SettingsError
from pspns.json_files import write_json
from pspns.record import describe_run
from pspns.run import run
from pspns.settings import DataSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings
from pspns.training.stopping import Evaluation


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m pspns.experiments", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a file of pspns.data.arrays.write_arrays")
    parser.add_argument("--model", default="mf")
    parser.add_argument("--positives", default="observed")
    parser.add_argument("--weighting", default="none")
    parser.add_argument("--start", default="xavier")
    parser.add_argument("--protocol", default="strict")
    parser.add_argument("--seeds", default="0-2", help="first-last")
    parser.add_argument("--max-steps", type=int, default=200_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="where the record goes")
    options = parser.parse_args()
    try:
        first, _, last = options.seeds.partition("-")
        if not (first + (last or "0")).isdecimal():
            raise SettingsError(f"--seeds must be first-last, such as 0-2, got '{options.seeds}'")
        if not options.out.absolute().parent.is_dir():
            raise SettingsError(f"--out: there is no folder {options.out.absolute().parent}; make it first")
        settings = Settings(
            data=DataSettings(source=options.data.stem),
            model=find_part("models", options.model)(),
            positives=find_part("positives", options.positives)(),
            weighting=find_part("weightings", options.weighting)(),
            start=find_part("starts", options.start)(),
            training=TrainingSettings(max_steps=options.max_steps),
            run=RunSettings(
                protocol=options.protocol,
                seeds=tuple(range(int(first), int(last or first) + 1)),
                device=options.device,
            ),
        )
        finished = run(read_arrays(options.data), settings, watch=_watch, say=print)
        write_json(options.out, describe_run(finished))
    except PspnsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
    if evaluation:
        found = " ".join(f"{100 * metrics['recall@20']:.2f}" for metrics in evaluation.metrics.values())
        print(f"step {step:,} ({evaluation.seconds:.0f} s): validation recall@20 {found}", flush=True)


if __name__ == "__main__":
    main()
