"""What `protocol` shows of its records: tables of masks, the mask share, and controls, in words that figures decide."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pspns.experiments.data_sets import known_data
from pspns.experiments.records import Record, Records, limit_note
from pspns.experiments.reproduction._beside import captioned
from pspns.experiments.reproduction._masks import MASKS, NOT_SPARED, RANDOM, SPARED, TRAIN, TRAIN_VALID
from pspns.experiments.sections import Number, Section, Table, TableCell

METRICS = ("recall@20", "precision@20")
ROWS = {
    "uniform": "RNS",
    "psp-ns": "PSP-NS, built from train alone",
    "published": "PSP-NS, held-out pairs dropped",
    "ease": "EASE",
    "svd": "SVD ranking",
    "popular": "popular",
}
NEVER_SAW_PSP = ("uniform", "ease", "svd", "popular")
LEAKS = {
    "uniform, test rejected": "RNS, test pairs never drawn as negatives",
    "psp-ns of all, kept": "PSP-NS, built from all pairs",
    "psp-ns of all, dropped": "PSP-NS, built from all pairs, held-out ones dropped",
    "svd of all": "SVD ranking of all pairs",
}
MASK_WORDS = {
    TRAIN: "train",
    TRAIN_VALID: "train + valid",
    SPARED: "PSP, held-out spared",
    NOT_SPARED: "PSP, held-out not spared",
    RANDOM: "random, as many",
}

LIMIT_NOTE = "*limit*: a seed reached the limit of steps before its patience was spent."

QUESTION = (
    "Constructed pairs that are held out are dropped, so that no label leaks. But if what was constructed is then left "
    "out of the test's ranking, held-out labels decide which candidates may be ranked: an item that the SVD proposes "
    "stays only if the user chose it. Here the same trained models are judged under five masks. *PSP, held-out spared* "
    "is that of `published`, *train + valid* that of `strict`. *Random* leaves out, for each user, train and as many "
    "items as the PSP mask does, drawn among those that are neither in train nor held out. A mask that spares what is "
    "held out can never lower recall; the question is by how much it raises it. Models without a training loop have "
    "settings that validation chose under mask train."
)


@dataclass(frozen=True)
class MaskShare:
    """How much of PSP-NS's published gain over RNS a model has that never saw PSP, once it is masked alike."""

    plain: float
    """Recall@20 of RNS under mask train, in percent; so are the others."""
    plain_masked: float
    """… of RNS under the PSP mask."""
    published: float
    """… of PSP-NS as published, under the PSP mask."""
    share: float | None
    """None where there is no gain to share out."""
    spread: float | None
    """Deviation over seeds; None where there are too few, or one of them has no gain."""
    n_seeds: int

    @property
    def over_seeds(self) -> str:
        """How sure one can be of the share, to stand behind it."""
        if self.n_seeds == 1:
            return " (one seed)"
        return f" (± {100 * self.spread:.1f} over seeds)" if self.spread is not None else ""

    def words(self) -> str:
        if self.share is None:
            return (
                f"there is no gain to share out: RNS has {self.plain:.2f} under mask train, PSP-NS as published "
                f"{self.published:.2f} under its own"
            )
        return (
            f"mask share = [RNS(PSP mask) − RNS(train)] / [PSP-NS(PSP mask) − RNS(train)] = "
            f"[{self.plain_masked:.2f} − {self.plain:.2f}] / [{self.published:.2f} − {self.plain:.2f}] = "
            f"{100 * self.share:.0f} %{self.over_seeds}"
        )


def mask_share(record: Record) -> MaskShare:
    """Of a record of the job on masks."""
    parts = [_per_seed(record, *which) for which in (("uniform", TRAIN), ("uniform", SPARED), ("published", SPARED))]
    plain, plain_masked, published = (statistics.mean(values) for values in parts)
    of_seeds = [_share(*values) for values in zip(*parts, strict=True)]
    known = [share for share in of_seeds if share is not None]
    return MaskShare(
        plain,
        plain_masked,
        published,
        _share(plain, plain_masked, published),
        statistics.stdev(known) if len(known) == len(of_seeds) > 1 else None,
        len(of_seeds),
    )


def _share(plain: float, plain_masked: float, published: float) -> float | None:
    return (plain_masked - plain) / (published - plain) if published > plain else None


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    words, tables = [QUESTION], []
    for data in data_names:
        name = f"protocol-{data}"
        record, leaks = asked.find(name), asked.find(f"protocol-leaks-{data}")
        if record:
            words += _reading(known_data(data).title, record)
        if leaks:
            words += _leak_words(known_data(data).title, leaks, record)
        tables += [_mask_table(name, data, record, metric) for metric in METRICS]
        tables += [_label_table(name, data, record), _leak_table(f"protocol-leaks-{data}", data, leaks, record)]
    return Section(
        name="protocol",
        title="What the gain rests on",
        words=tuple(words),
        tables=tuple(tables),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


# Words.


def _reading(title: str, record: Record) -> list[str]:
    """What the figures say, one paragraph on the mask and one on its controls."""
    rows = record["rows"]
    risen: list[str] = []
    others: list[str] = []
    for row in NEVER_SAW_PSP:
        if row in rows:
            rises = _change(rows[row]["test"], TRAIN, SPARED) > _change(rows[row]["test"], TRAIN, RANDOM)
            (risen if rises else others).append(_from_to(rows[row]["test"], row, TRAIN, SPARED))
    text = f"{title}: {mask_share(record).words()}. "
    if risen:
        text += f"These never saw PSP, and rise under its mask more than under a random one: {', '.join(risen)}. "
    if others:
        text += f"These do not: {', '.join(others)}. "
    honest = _mean(rows["psp-ns"]["test"], TRAIN_VALID) - _mean(rows["uniform"]["test"], TRAIN_VALID)
    n_seeds = len(record["seeds"])
    text += (
        f"Under `strict`, where no held-out label has a say, PSP-NS is {abs(honest):.2f} points "
        f"{'above' if honest > 0 else 'below'} RNS with the seed{'' if n_seeds == 1 else 's'} of this measurement"
        f"{'' if n_seeds == 1 else f', {n_seeds} of them'}."
    )
    return [text, _control_words(title, record)]


def _control_words(title: str, record: Record) -> str:
    hidden, n_test = record["masks"][NOT_SPARED]["test_pairs"], record["data"]["test"]
    never = {row: record["rows"][row]["test"] for row in NEVER_SAW_PSP if row in record["rows"]}
    moved = max(never, key=lambda row: abs(_change(never[row], TRAIN, RANDOM)))
    labels = record["random_labels"]
    of_labels = {row: labels["rows"][row] for row in never}
    most = max(of_labels, key=lambda row: _change(of_labels[row], TRAIN, SPARED))
    return (
        f"Controls on {title}: the PSP mask without sparing hides {100 * hidden / n_test:.1f} % of the test's pairs "
        f"({_from_to(never['uniform'], 'uniform', TRAIN, NOT_SPARED)}). A random mask of the same size moves no model "
        f"that never saw PSP by more than {abs(_change(never[moved], TRAIN, RANDOM)):.2f} points ({ROWS[moved]}). Of "
        f"random labels nothing can be known (chance is {100 * labels['chance']:.2f}); the PSP mask that spares them "
        f"creates recall where there is nothing to recall: {_from_to(of_labels[most], most, TRAIN, SPARED)}."
    )


def _leak_words(title: str, leaks: Record, record: Record | None) -> list[str]:
    rows = leaks["rows"]
    told = []
    if record:
        for row, than in (
            ("uniform, test rejected", "uniform"),
            ("svd of all", "svd"),
            ("psp-ns of all, kept", "psp-ns"),
        ):
            if than in record["rows"]:
                told.append(
                    f"{LEAKS[row]} has {_mean(rows[row]['test'], TRAIN_VALID):.2f} instead of "
                    f"{_mean(record['rows'][than]['test'], TRAIN_VALID):.2f}"
                )
        dropped, published = rows["psp-ns of all, dropped"]["test"], record["rows"]["published"]["test"]
        told.append(
            f"{LEAKS['psp-ns of all, dropped']} has {_mean(dropped, SPARED):.2f} under its own mask instead of "
            f"{_mean(published, SPARED):.2f}"
        )
    return [f"Leaks made on purpose, {title}, mask train + valid unless said: {'; '.join(told)}."] if told else []


def _from_to(figures: Mapping[str, Any], row: str, before: str, after: str) -> str:
    return f"{ROWS[row]} {_mean(figures, before):.2f} → {_mean(figures, after):.2f}"


def _mean(figures: Mapping[str, Any], mask: str) -> float:
    """Recall@20 in percent."""
    return 100 * float(figures[mask][METRICS[0]]["mean"])


def _change(figures: Mapping[str, Any], before: str, after: str) -> float:
    return _mean(figures, after) - _mean(figures, before)


def _per_seed(record: Record, row: str, mask: str) -> list[float]:
    return [100 * value for value in record["rows"][row]["test"][mask][METRICS[0]]["per_seed"]]


# Tables.

_Rows = tuple[tuple[tuple[str, ...], tuple[TableCell, ...]], ...]


def _number(name: str, figures: Mapping[str, Any] | None, mask: str, metric: str, *, limit: str = "") -> Number | None:
    if not figures or mask not in figures:
        return None
    values = [100 * value for value in figures[mask][metric]["per_seed"]]
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Number(statistics.mean(values), spread=spread, note=limit, record=name)


def _limit(record: Record | None, row: str) -> str:
    """Said of a model whose training did not stop by itself."""
    found = record["rows"].get(row) if record else None
    return limit_note(record["settings"]["training"], found["steps"]) if record and found else ""


def _mask_table(name: str, data: str, record: Record | None, metric: str) -> Table:
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for row, words in ROWS.items():
        found = record["rows"].get(row) if record else None
        figures, limit = found["test"] if found else None, _limit(record, row)
        cells: list[TableCell] = [_number(name, figures, mask, metric, limit=limit) for mask in MASKS]
        if metric == METRICS[0]:
            cells.append(_points(name, found["spared_minus_train"]) if found else None)
        rows.append(((words,), tuple(cells)))
    by_mask = tuple(MASK_WORDS[mask] for mask in MASKS)
    return Table(
        name=f"{name}-{metric.replace('@', '-')}",
        caption=captioned(data, f"{metric.capitalize()} of the same models under five masks"),
        heads=("model",),
        columns=(*by_mask, "PSP spared − train") if metric == METRICS[0] else by_mask,
        rows=tuple(rows),
        note=(
            "In percent; ± is the standard deviation over seeds, a range the 95 % bootstrap interval over users. "
            f"{LIMIT_NOTE}"
        ),
    )


def _points(name: str, difference: Mapping[str, float]) -> Number:
    mean, low, high = (100 * difference[key] for key in ("mean", "low", "high"))
    return Number(mean, sign=True, low=low, high=high, record=name)


def _label_table(name: str, data: str, record: Record | None) -> Table:
    labels = record["random_labels"] if record else None
    rows: _Rows = tuple(
        ((words,), tuple(
            _number(name, labels["rows"].get(row) if labels else None, mask, METRICS[0]) for mask in (TRAIN, SPARED)
        ))
        for row, words in ROWS.items()
    )  # fmt: skip
    chance = f" A random ranking under mask train has {100 * labels['chance']:.2f}." if labels else ""
    return Table(
        name=f"{name}-random-labels",
        caption=captioned(data, "Recall@20 of random test labels"),
        heads=("model",),
        columns=("train", "PSP, these labels spared"),
        rows=rows,
        note="In percent. As many labels for each user as the test has, uniform over what is not in train." + chance,
    )


def _leak_table(name: str, data: str, leaks: Record | None, record: Record | None) -> Table:
    masks = (TRAIN, TRAIN_VALID, SPARED)
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    plain = record["rows"]["uniform"]["test"] if record else None
    limit = _limit(record, "uniform")
    honest = [_number(f"protocol-{data}", plain, mask, METRICS[0], limit=limit) for mask in masks[:2]]
    rows.append((("RNS, no leak",), (*honest, None)))
    for row, words in LEAKS.items():
        figures = leaks["rows"][row]["test"] if leaks else None
        limit = _limit(leaks, row)
        rows.append(((words,), tuple(_number(name, figures, mask, METRICS[0], limit=limit) for mask in masks)))
    return Table(
        name=name,
        caption=captioned(data, "Recall@20 with leaks made on purpose"),
        heads=("model",),
        columns=("train", "train + valid", "PSP of all pairs, held-out spared"),
        rows=tuple(rows),
        note=(
            "In percent. *All pairs* are train, validation and test. Nothing of this can be asked for by a setting. "
            f"{LIMIT_NOTE}"
        ),
    )
