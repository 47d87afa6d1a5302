"""`make bench`: speed on the CPU beside plain references, written as Markdown and JSON to benchmarks/results.

    python -m benchmarks --only negatives,training

Generated data; with a folder of data sets in the environment variable PSPNS_DATA, MovieLens-1M and others instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from benchmarks import construction, loading, negatives, ranking, training
from benchmarks._pairs import Timed
from benchmarks._report import RESULTS, Report
from benchmarks._world import movielens

SUBJECTS: dict[str, Callable[[], Iterable[Timed]]] = {
    "construction": construction.run,
    "training": lambda: training.run(*movielens()),
    "negatives": lambda: negatives.run(*movielens()),
    "ranking": ranking.run,
    "loading": loading.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help=f"some of {', '.join(SUBJECTS)}, comma between them; unset: all")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(SUBJECTS)
    if unknown := set(wanted) - set(SUBJECTS):
        parser.error(f"no subject named {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    for subject in wanted:
        report = Report(
            f"`make bench`: {subject}",
            "Both sides give the same answer, as the second column says; then they are timed in turns. Medians.",
            ("what", "same answer", "reference", "ours, s", "reference, s", "pairs", "times faster", "target", "note"),
        )
        for timed in SUBJECTS[subject]():
            report.add(
                timed.what, timed.same, timed.reference, f"{timed.ours_seconds:.3g}", f"{timed.reference_seconds:.3g}",
                timed.pairs, f"{timed.ratio:.2f}", timed.verdict, timed.note or None,
            )  # fmt: skip
        report.write(RESULTS, f"cpu-{subject}")


if __name__ == "__main__":
    main()
