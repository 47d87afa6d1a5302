"""Runs side by side: rows of figures with spread and paired differences, never across protocols, data or noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pspns.errors import SettingsError, unknown_name
from pspns.evaluation.significance import bootstrap_interval, holm, sign_flip_p_value
from pspns.rng import host_stream
from pspns.run_folder import read_per_user, read_result


@dataclass(frozen=True)
class Row:
    """One model of one run."""

    label: str
    note: str  # what validation chose, how many seeds
    has_loop: bool  # is it trained step by step?
    is_unfinished: bool  # was its best step its last, so that longer training might have helped?
    mean: dict[str, float]  # test metric@k → mean over seeds, under the protocol's mask
    spread: dict[str, float]  # … → standard deviation over seeds, where there are several
    mean_other_masks: dict[str, dict[str, float]]  # mask → metric@k → mean
    per_user: dict[str, NDArray[np.float64]]  # metric@k → mean over seeds for each user of the table


@dataclass(frozen=True)
class Difference:
    """How a row differs from the reference, user by user, in one metric."""

    label: str
    mean: float
    low: float  # 95 % bootstrap interval over users
    high: float
    p_value: float  # two-sided sign-flip test, Holm-corrected over the table


@dataclass(frozen=True)
class Table:
    """Rows that may be compared: same data, same split, same noise, same protocol."""

    protocol: str
    meaning: str
    warning: str
    data: str  # in words
    n_users: int  # users with held-out items
    n_cold: int  # those of them whom train does not know, and who are offered what is popular
    rows: list[Row]
    noise: float = 0.0  # false pairs that were added to train, as a share of its pairs

    def metrics(self) -> list[str]:
        return list(self.rows[0].mean)

    def ranked(self, metric: str) -> list[Row]:
        """Rows, best first."""
        if metric not in self.rows[0].mean:
            raise unknown_name("metric", metric, self.rows[0].mean)
        return sorted(self.rows, key=lambda row: -row.mean[metric])

    def interval(self, metric: str, row: Row, reference: Row) -> tuple[float, float, float]:
        """How much better a row is than the reference, user by user: mean and 95 % bootstrap interval."""
        paired = row.per_user[metric] - reference.per_user[metric]
        low, high = bootstrap_interval(paired, rng=host_stream(0, "bootstrap"))
        return float(paired.mean()), low, high

    def differences(self, metric: str, reference: Row) -> list[Difference]:
        """Every other row against the reference, the p-values corrected for their number; none for a single user."""
        if self.n_users < 2:
            return []
        others = [row for row in self.rows if row is not reference]
        p_values = holm(
            [
                sign_flip_p_value(row.per_user[metric] - reference.per_user[metric], rng=host_stream(0, "sign flips"))
                for row in others
            ]
        )
        return [
            Difference(row.label, *self.interval(metric, row, reference), float(p_value))
            for row, p_value in zip(others, p_values, strict=True)
        ]


def tables_of(folders: Sequence[Path]) -> list[Table]:
    """One table for each combination of data, noise and protocol among the runs."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise SettingsError("a run's folder is given twice; give each once")
    results = []
    for folder in folders:
        results.append(read_result(folder))
        if not results[-1]["test"]:
            raise SettingsError(
                f"{folder} has no test part (it was trained on everything), so there is nothing to show"
            )
    # Over all tables, so that a run is told from its like in another table, too.
    labels = _labels([(folder, result["model"]) for folder, result in zip(folders, results, strict=True)])
    groups: dict[tuple[str, str], list[tuple[Path, dict[str, Any], str]]] = {}
    for folder, result, label in zip(folders, results, labels, strict=True):
        key = (result["data"]["fingerprint"], result["protocol"]["name"])  # the first tells noise, too
        groups.setdefault(key, []).append((folder, result, label))
    return [_table(members) for members in groups.values()]


def _table(members: list[tuple[Path, dict[str, Any], str]]) -> Table:
    first = members[0][1]
    # A baseline that was run by itself stands for those of the same name, unless its settings were changed.
    by_itself = {result["model"] for _, result, _ in members if not _set_by_hand(result)}
    rows: list[Row] = []
    for folder, result, label in members:
        per_user = read_per_user(folder).filter(part="test", mask=result["protocol"]["mask_test"])
        by_hand = {} if result["steps"] else _set_by_hand(result)
        if by_hand:
            label = f"{label} as set" if label == result["model"] else label
        rows.append(_row(label, result["model"], result, len(result["seeds"]), per_user, by_hand))
        # A baseline has no seed: the same data and protocol give the same figures in every run.
        rows += [
            _row(name, name, figures, 1, per_user)
            for name, figures in result["baselines"].items()
            if name not in {row.label for row in rows} | by_itself
        ]
    shared = set.intersection(*(set(row.mean) for row in rows))
    if not shared:
        raise SettingsError("these runs share no metric: they were judged at different k; use `pspns evaluate --k`")
    return Table(
        protocol=first["protocol"]["name"],
        meaning=first["protocol"]["meaning"],
        warning=first["protocol"]["warning"],
        data=describe_data(first["data"]),
        n_users=first["evaluated"]["test"]["users"],
        n_cold=first["evaluated"]["test"]["users_unknown_to_train"],
        rows=[_only(row, [name for name in rows[0].mean if name in shared]) for row in rows],
        noise=noise_share(first),
    )


def noise_share(result: dict[str, Any]) -> float:
    """The share of false pairs that was added to train; runs of earlier versions had none."""
    return float(result.get("noise", {}).get("share", 0.0))


def describe_data(data: dict[str, Any]) -> str:
    """A run's data in one line."""
    source = f"{data['source']}: " if data["source"] else ""
    return (
        f"{source}{data['users']:,} users, {data['items']:,} items, {data['train']:,} / {data['valid']:,} / "
        f"{data['test']:,} pairs for train / validation / test ({data['split']})"
    )


def _labels(models: list[tuple[Path, str]]) -> list[str]:
    """The model's name, with as much of its folder's path as tells it from others of that name."""
    labels = []
    for folder, model in models:
        rivals = [other.resolve().parts for other, name in models if name == model and other != folder]
        own = folder.resolve().parts
        n_parts = 1
        while any(rival[-n_parts:] == own[-n_parts:] for rival in rivals):
            n_parts += 1
        labels.append(f"{model} ({'/'.join(own[-n_parts:])})" if rivals else model)
    return labels


def _set_by_hand(result: dict[str, Any]) -> dict[str, Any]:
    """The model's settings that were given, not left to validation."""
    return {key: value for key, value in result["settings"]["model"].items() if key != "name" and value is not None}


def _row(
    label: str,
    model: str,
    figures: dict[str, Any],
    n_seeds: int,
    per_user: pl.DataFrame,
    by_hand: Mapping[str, Any] = MappingProxyType({}),
) -> Row:
    test = figures["test"]
    n_values = len(next(iter(test.values()))["per_seed"])
    notes = [f"{name} {value:g}" for name, value in {**by_hand, **figures["chosen_on_validation"]}.items()]
    if figures["steps"]:
        notes.append(f"{n_seeds} seed{'s' if n_seeds > 1 else ''}")
    own = per_user.filter(model=model).group_by("user", maintain_order=True).agg(pl.col("^.*@.*$").mean())
    return Row(
        label=label,
        note=", ".join(notes),
        has_loop=bool(figures["steps"]),
        is_unfinished=any(best == last for best, last in zip(figures["best_step"], figures["steps"], strict=True)),
        mean={name: values["mean"] for name, values in test.items()},
        spread={name: float(np.std(values["per_seed"], ddof=1)) for name, values in test.items() if n_values > 1},
        mean_other_masks={
            mask: {name: values["mean"] for name, values in found.items()}
            for mask, found in figures["test_other_masks"].items()
        },
        per_user={name: own[name].to_numpy() for name in own.columns if "@" in name},
    )


def _only(row: Row, metrics: list[str]) -> Row:
    return Row(
        row.label,
        row.note,
        row.has_loop,
        row.is_unfinished,
        {name: row.mean[name] for name in metrics},
        {name: value for name, value in row.spread.items() if name in metrics},
        row.mean_other_masks,
        row.per_user,
    )
