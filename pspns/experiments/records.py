"""Records of cells and jobs: one small JSON file each, the only source of any figure that is shown."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from pspns.data.interactions import Floats
from pspns.errors import DataError
from pspns.evaluation.selection import is_better
from pspns.evaluation.significance import bootstrap_interval, sign_flip_p_value
from pspns.experiments import user_hits
from pspns.experiments.cells import Cell
from pspns.experiments.methods import builds_pairs
from pspns.experiments.sections import Number
from pspns.json_files import read_json, write_json
from pspns.record import describe_run
from pspns.run import Run

Record = dict[str, Any]

FAR_OUT, LEAST_P = 6.0, 1 / 10_001
"""So many standard errors from zero no sign pattern of 10,000 comes near, as 2 exp(−6²/2) is less than 10⁻⁷
(Hoeffding 1963), and p is the least there is."""


class UnwritableError(DataError):
    """No record can be kept in the folder."""


@dataclass
class Records:
    """A folder of records, each read once; names that were asked for and are not there are remembered, and looked for
    again: another process may write them."""

    folder: Path
    missing: list[str] = field(default_factory=list)
    _read: dict[str, Record] = field(default_factory=dict)

    def find(self, name: str) -> Record | None:
        found = self._read[name] if name in self._read else self._open(name)
        if found is not None:
            self._read[name] = found
        elif name not in self.missing:
            self.missing.append(name)
        return found

    def see(self, cell: Cell) -> Seen | None:
        """The record of a cell under its protocol. A method that builds no pairs trains under `published` as under
        `strict`, and is masked by train alone; so one record shows both."""
        if cell.protocol == "published" and not builds_pairs(cell.method):
            record = self.find(cell.but(protocol="strict").name)
            return Seen(cell.but(protocol="strict").name, record, "train") if record else None
        record = self.find(cell.name)
        return Seen(cell.name, record) if record else None

    def has(self, name: str) -> bool:
        return self._path(name).exists()

    def write(self, name: str, record: Record) -> None:
        """Whole or not at all: who is stopped while writing leaves no half of a record."""
        unfinished = self.folder / f"{name}.{os.getpid()}.unfinished"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(unfinished, record)
            unfinished.replace(self._path(name))
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise UnwritableError(
                f"the record {self._path(name)} cannot be written: {error.strerror or error}; make room or give a "
                "folder that can be written to, and give the same command again"
            ) from error
        self._read[name] = record

    def forget(self, name: str) -> None:
        """It is read again when it is asked for."""
        self._read.pop(name, None)

    def since(self) -> Records:
        """The same records with nothing missed yet."""
        return Records(self.folder, [], self._read)

    def _open(self, name: str) -> Record | None:
        path = self._path(name)
        if not path.exists():
            return None
        try:
            found = read_json(path)
        except DataError as error:
            raise DataError(f"{error}; remove it, and it will be made anew") from error
        if not found:
            raise DataError(f"{path} is empty; remove it, and it will be made anew")
        return found

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def check_records(folder: Path) -> None:
    """A page made of no records would take the place of one that was made of some."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder of records; give the folder that they were written to")
    if not any(folder.glob("*.json")):
        raise DataError(f"there is no record in {folder}; give the folder that they were written to")


def limit_note(training: Record, steps: Sequence[int]) -> str:
    """Said where a replica reached the limit of steps before its patience was spent, and may have risen still.

    >>> limit_note({"steps": None, "max_steps": 90}, [45, 90]), limit_note({"steps": 90, "max_steps": 90}, [90])
    ('limit', '')
    """
    return "limit" if training["steps"] is None and training["max_steps"] in steps else ""


@dataclass(frozen=True)
class Seen:
    """A record under one mask: its protocol's own, or another one."""

    name: str
    record: Record
    mask: str = ""  # empty: that of the record's protocol
    baseline: str = ""  # empty: the trained model

    def of_baseline(self, name: str) -> Seen | None:
        return Seen(self.name, self.record, self.mask, name) if name in self.record["baselines"] else None

    def figures(self) -> Mapping[str, Any]:
        """metric@k → mean and per_seed, as shares."""
        found = self.record["baselines"][self.baseline] if self.baseline else self.record
        figures: Mapping[str, Any] = found["test_other_masks"][self.mask] if self.mask else found["test"]
        return figures

    def mean(self, metric: str) -> float:
        return float(self.figures()[metric]["mean"])

    def per_seed(self, metric: str) -> list[float]:
        return list(self.figures()[metric]["per_seed"])

    def number(self, metric: str) -> Number:
        """In percent, with the spread over seeds."""
        values = [100 * value for value in self.per_seed(metric)]
        return Number(
            statistics.mean(values),
            spread=statistics.stdev(values) if len(values) > 1 else None,
            note=self.limit,
            record=self.name,
        )

    @property
    def n_seeds(self) -> int:
        return len(self.per_seed("recall@20"))

    @property
    def limit(self) -> str:
        """Said where a replica reached the limit of steps before its patience was spent, and may have risen still."""
        return "" if self.baseline else limit_note(self.record["settings"]["training"], self.record["steps"])

    def by_user(self, metric: str = "recall@20") -> Floats | None:
        """Recall@20 or Precision@20 of each user, mean over seeds; None of other metrics, and of a record that has no
        hits of users."""
        users, of_users = self.record.get("users"), user_hits.METRICS.get(metric)
        if not users or of_users is None:
            return None
        found = users["baselines"][self.baseline] if self.baseline else users
        hits = found["hits_other_masks"][self.mask] if self.mask else found["hits"]
        return of_users(users, hits, self.n_seeds)


@dataclass(frozen=True)
class Difference:
    """In Recall@20, mean over users, as a share."""

    mean: float
    low: float
    high: float
    p_value: float
    record: str = ""  # the name of the first model's


def difference(one: Seen, other: Seen) -> Difference | None:
    """One model minus another, with a bootstrap interval over users and a sign-flip test; None where they cannot be
    paired."""
    by_user = paired(one, other)
    if by_user is None:
        return None
    low, high = _interval(by_user.tobytes())
    return Difference(float(by_user.mean()), low, high, luck(by_user), one.name)


def paired(one: Seen, other: Seen, metric: str = "recall@20") -> Floats | None:
    """A metric of each user, one model minus another; None where a record has none, or the two are not alike."""
    first, second = one.by_user(metric), other.by_user(metric)
    return first - second if first is not None and second is not None and are_alike(one, other) else None


def are_alike(one: Seen, other: Seen) -> bool:
    """Of the same data, and neither cut short."""
    return one.record["data"]["fingerprint"] == other.record["data"]["fingerprint"] and not is_cut_short(one, other)


def is_cut_short(one: Seen, other: Seen) -> bool:
    """Whether a limit below the other's stopped one of the two, which might have risen still."""
    limits = [seen.record["settings"]["training"]["max_steps"] for seen in (one, other)]
    return any(seen.limit and limit < max(limits) for seen, limit in zip((one, other), limits, strict=True))


def is_ahead_on_validation(one: Seen, other: Seen) -> bool:
    """By the mean over the seeds that both have."""
    metric = one.record["settings"]["evaluation"].get("select_by", "recall@20")
    values = [seen.record["valid"][metric]["per_seed"] for seen in (one, other)]
    n_seeds = min(map(len, values))
    first, second = (statistics.mean(each[:n_seeds]) for each in values)
    return is_better(metric, first, second)


def why_not_compared(one: Seen | None, other: Seen | None) -> str:
    """In short, of two records that cannot be paired; empty if they can, or if one is missing."""
    if one is None or other is None:
        return ""
    if not are_alike(one, other):
        return "lower limit"
    return "" if one.record.get("users") and other.record.get("users") else "no users"


def p_value(one: Seen, other: Seen, metric: str = "recall@20") -> float | None:
    """That neither is better: a sign-flip test over users; None where they cannot be paired."""
    by_user = paired(one, other, metric)
    return None if by_user is None else luck(by_user)


def p_value_of_seeds(one: Seen, other: Seen, metric: str) -> float | None:
    """That neither is better: Welch's test over seeds; None of a single one."""
    values = [seen.per_seed(metric) for seen in (one, other)]
    if min(map(len, values)) < 2:
        return None
    if all(statistics.stdev(seeds) == 0 for seeds in values):
        return 1.0 if values[0][0] == values[1][0] else 0.0
    return float(stats.ttest_ind(*values, equal_var=False).pvalue)


def luck(by_user: Floats) -> float:
    """The p-value of differences."""
    is_far_out = abs(by_user.sum()) > FAR_OUT * math.sqrt(np.square(by_user).sum())
    return LEAST_P if is_far_out else _sign_flips(by_user.tobytes())


# Several experiments show the same difference, and each is seconds of work for many users.
@lru_cache(maxsize=512)
def _interval(by_user: bytes) -> tuple[float, float]:
    return bootstrap_interval(np.frombuffer(by_user), rng=np.random.default_rng(0))


@lru_cache(maxsize=512)
def _sign_flips(by_user: bytes) -> float:
    return sign_flip_p_value(np.frombuffer(by_user), rng=np.random.default_rng(0))


def relative(value: float, reference: float) -> float:
    """In percent of the reference."""
    return 100 * (value / reference - 1)


def describe_cell(run: Run, cell: Cell, loop: Sequence[str]) -> Record:
    """What a run was and found, the curve on validation, and each user's hits."""
    select_by = run.settings.evaluation.select_by
    history = run.model.fitted.history
    seeds = run.settings.run.seeds
    return {
        "cell": {"method": cell.method, "changes": dict(cell.changes), "trained_with": list(loop)},
        **describe_run(run),
        f"curve_{select_by}": {
            str(seed): [[look.step, look.metrics[seed][select_by]] for look in history if seed in look.metrics]
            for seed in seeds
        },
        "looks": [[look.step, round(look.seconds, 3)] for look in history],
        "curve_kept": {
            str(seed): [[look.step, look.kept[seed]] for look in history if seed in look.kept] for seed in seeds
        },
        "users": user_hits.describe_users(run),
    }
