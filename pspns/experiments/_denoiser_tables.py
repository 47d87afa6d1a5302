"""The tables of denoisers on the page of results: alone, with noise, and where the truth is planted."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from pspns.components import part_names
from pspns.experiments._cells import DATA, MODELS, Record, limit, max_steps, pair, printed, value
from pspns.experiments.denoisers import CONTROLS

ORDER = ("none", "plain", "paper", "paper (published)", "recommended", *part_names("denoisers"))

DENOISERS = """\
## Denoisers

Every denoiser [at its defaults](denoisers.md) on observed pairs, with bpr where it has that form, learning rate 0.001,
L2 0.0001, three seeds; Recall@20 / Precision@20. As above, mask `train` is what `published` gives on observed pairs,
and what the paper's figures are to be held against (it has none for BOD). `none` is plain training. Controls: `none,
bce` for DeCA, which has no other loss; the same with its best step chosen by the loss on validation without a fifth of
the positives; `t-ce, by positives`, which doubts rows by the loss of their positive alone, whatever the negative;
`deca` with what its published program begins with; `bod, weights 1`, which leaves its two other losses; `pld, users of
interactions`, which does not draw all users alike. *change*: Recall@20 under `strict` against `none`.
*kept*: the mean weight of the pairs at the end, 1 being plain training's.
"""

NOISE = """\
### With false pairs added

The same with random false pairs added to train, *noise* times as many as there were; no mask knows them. Where
nothing is built, `published` differs from `strict` by the mask alone, so mask `train` is its figure again.
`paper` and `recommended` are the recipes; what stands beside them are models without training. *change*: Recall@20
under `strict` against `plain` of the same table. *kept*: the mean weight at the end of true pairs / of false ones. A
method that tells them apart keeps more of the former. ("True" are all pairs that were there before.)
"""

PLANTED = """\
### Where the truth is known

Three generated worlds, a fifth of whose pairs are false ([what they are](data.md)): the share of positives that are
true (*accuracy*), and of true preferences that are among the positives (*coverage*), exactly. A pair with a weight
below 1 counts that much. Builders train nothing; denoisers had three seeds each. *test* is Recall@20 under `strict`.
"""


def denoiser_tables(folder: Path) -> Iterable[str]:
    alone = {(data, model): _members(folder, "denoisers", data, model) for data in DATA for model in MODELS}
    noisy = {(data, model): _members(folder, "noise", data, model) for data in DATA for model in MODELS}
    if any(alone.values()):
        yield from _alone(alone)
    if any(noisy.values()):
        yield from _noisy(noisy)
    planted = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("planted-truth*.json"))]
    if planted:
        yield from _planted(planted)


Members = dict[str, Record]
Cells = dict[tuple[str, str], Members]
"""(data, model) → member → record."""


def _members(folder: Path, experiment: str, data: str, model: str) -> Members:
    found: Members = {}
    for path in sorted(folder.glob(f"{experiment}-{model}-{data}*.json")):
        members = json.loads(path.read_text(encoding="utf-8"))["members"]
        assert not found.keys() & members.keys(), f"{path}: another record has the same members"
        found |= members
    order = [*ORDER, *CONTROLS]  # plain training and recipes first, controls last
    return dict(sorted(found.items(), key=lambda member: order.index(member[0]) if member[0] in order else len(order)))


def _alone(cells: Cells) -> Iterable[str]:
    yield from (
        DENOISERS,
        "| data | model | denoiser | limit | validation | `strict` | change | mask `train` | paper | kept |",
        f"|{'---|' * 10}",
    )
    for (data, model), members in cells.items():
        for name, record in members.items():
            row = (
                f"{max_steps(record):,}, {record['settings']['training']['patience']}",
                value(record["valid"]["recall@20"]),
                pair(record["test"], "precision@20") + limit(record),
                _change(record, members.get("none")),
                pair(record["test_other_masks"]["train"], "precision@20") + limit(record),
                printed(data, model, "uniform" if name == "none" else name),
                _kept(record, "all"),
            )
            yield f"| {DATA[data]} | {MODELS[model]} | `{name}` | {' | '.join(row)} |"
    yield ""


def _noisy(cells: Cells) -> Iterable[str]:
    yield from (
        NOISE,
        "| data | model | noise | method | limit | `strict` | change | mask `train` | `published` "
        "| kept: true / false |",
        f"|{'---|' * 10}",
    )
    for (data, model), members in cells.items():
        where = f"| {DATA[data]} | {MODELS[model]} | "
        for name, record in members.items():
            if name.endswith("(published)"):
                continue
            published = members.get(f"{name} (published)")
            row = (
                f"{record['settings']['data']['noise']:g}",
                f"`{name}`",
                f"{max_steps(record):,}, {record['settings']['training']['patience']}",
                pair(record["test"], "precision@20") + limit(record),
                _change(record, members.get("plain")),
                pair(record["test_other_masks"]["train"], "precision@20") + limit(record),
                pair(published["test"], "precision@20") + limit(published) if published else "–",
                f"{_kept(record, 'true')} / {_kept(record, 'false')}" if "curve_kept" in record else "–",
            )
            yield f"{where}{' | '.join(row)} |"
        for name, figures in members.get("plain", {}).get("baselines", {}).items():
            strict, masked = (pair(part, "precision@20") for part in _both_masks(figures))
            share = members["plain"]["settings"]["data"]["noise"]
            yield f"{where}{share:g} | `{name}` | – | {strict} | – | {masked} | – | – |"
    yield ""


def _both_masks(figures: Record) -> tuple[Record, Record]:
    return figures["test"], figures["test_other_masks"]["train"]


def _planted(records: Sequence[Record]) -> Iterable[str]:
    yield from (PLANTED, "| world | model | positives | accuracy | coverage | test |", f"|{'---|' * 6}")
    for world in dict.fromkeys(world for record in records for world in record["worlds"]):
        parts = [record["worlds"][world] for record in records if world in record["worlds"]]
        for builder, figures in parts[0]["builders"].items():  # the same in every record of the world
            row = f"{100 * figures['accuracy']:.2f} | {100 * figures['coverage']:.2f}"
            yield f"| {world} | – | `{builder}` | {row} | – |"
        for model, methods in itertools.chain.from_iterable(part["denoisers"].items() for part in parts):
            for name, figures in methods.items():
                cells = [value({"per_seed": figures[key]}) for key in ("accuracy", "coverage", "test_recall@20")]
                yield f"| {world} | {MODELS[model]} | `{name}` | {' | '.join(cells)} |"
    yield ""


def _change(record: Record, plain: Record | None) -> str:
    if plain is None or record is plain:
        return "–"
    return f"{100 * (record['test']['recall@20']['mean'] / plain['test']['recall@20']['mean'] - 1):+.1f} %"


def _kept(record: Record, group: str) -> str:
    """At the last look of each seed."""
    curves: Sequence[list[tuple[int, dict[str, float]]]] = list(record.get("curve_kept", {}).values())
    last = [curve[-1][1][group] for curve in curves if curve and group in curve[-1][1]]
    return f"{statistics.mean(last):.2f}" if last else "–"
