"""What the report shows of runs that may be compared, as values for its template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pspns.data.noise import noise_words
from pspns.evaluation.ranking import METRICS
from pspns.report.comparison import Difference, Row, Table, tables_of
from pspns.report.plots import Curve, KeptLine, plot_activity, plot_curves, plot_differences, plot_kept
from pspns.report.words import cell, choice, title, verdict
from pspns.run_folder import read_history, read_result
from pspns.settings_file import settings_file

SHOWN_UNDER_OTHER_MASKS = ("recall", "precision", "ndcg")
PARTS = {"valid": "validation", "test": "test"}
# The order in which a run goes through its stages.
STAGES = ("load", "split", "positives", "training", "evaluation", "baselines")

# Pairs whose weights are shown apart, where noise tells them from each other.
KEPT = {"all": "all pairs", "true": "true pairs", "false": "false pairs"}

Result = dict[str, Any]
"""The content of a run's `result.json`."""


@dataclass(frozen=True)
class ShownRun:
    """A run and the name its table gives it."""

    label: str
    folder: Path
    result: Result
    settings: str  # as a settings file would have them


@dataclass(frozen=True)
class Cell:
    figure: str
    spread: str | None  # empty in a column where others have one, so that figures stay in line
    is_best: bool  # of its column


@dataclass(frozen=True)
class Block:
    """Rows of a table of figures that share a heading."""

    heading: str
    rows: list[tuple[Row, list[Cell]]]


@dataclass(frozen=True)
class Figures:
    columns: list[str]
    blocks: list[Block]


@dataclass(frozen=True)
class Section:
    """One table and all that belongs to it; an empty plot is left out."""

    table: Table
    metric: str  # metric@k that ranks
    headline: str
    runs: list[ShownRun]
    left_out: dict[str, str]  # baseline → why it is not in the table
    test: Figures
    n_accuracies: int  # the first columns of the test; the others describe the lists
    other_masks: dict[str, Figures]
    reference: str  # the best model
    differences: list[Difference]  # every other one against it, best first
    differences_plot: str
    curves_plot: str
    kept_plot: str
    kept: list[list[str]]  # label, group of pairs, weight at the last step, at the step that was kept
    chosen_by: str  # what chose the steps; empty where it is what the curves show
    noise: str  # what was added to train, in words; empty where nothing was
    activity: list[tuple[str, list[str]]]  # heading → users judged, mean train pairs, each run's value
    activity_plot: str
    stages: list[str]

    @property
    def first(self) -> Result:
        """The result of the first run: data and protocol are those of all."""
        return self.runs[0].result

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.first["data"]
        return data

    @property
    def chosen_on(self) -> str:
        return PARTS[self.first["protocol"]["select_on"]]


def sections_of(folders: Sequence[Path]) -> list[Section]:
    """One section for each combination of data, noise and protocol among the runs, in the order given."""
    groups: dict[tuple[str, str], list[Path]] = {}
    for folder in folders:
        result = read_result(folder)
        groups.setdefault((result["data"]["fingerprint"], result["protocol"]["name"]), []).append(folder)
    tables = zip(tables_of(folders), groups.values(), strict=True)  # which come in the same order
    return [_section(number, table, members) for number, (table, members) in enumerate(tables, start=1)]


def _section(number: int, table: Table, folders: list[Path]) -> Section:
    runs = _labelled(table, folders)
    metric = _ranking_metric(table, runs)
    ranked = table.ranked(metric)
    best = ranked[0].label
    differences = table.differences(metric, ranked[0]) if len(ranked) > 1 else []
    differences.sort(key=lambda found: -found.mean)
    curves = {run.label: found for run in runs if (found := _curves(run, metric))}
    kept = {label: lines for run in runs for label, lines in _kept(run, alone=len(runs) == 1).items()}
    tenths = {run.label: [group["test"].get(metric) for group in _tenths(run.result)] for run in runs}
    train_pairs = [group["mean_train_pairs"] for group in _tenths(runs[0].result)]
    part = runs[0].result["protocol"]["select_on"]
    timed = {stage for run in runs for stage in run.result["seconds"]}
    return Section(
        table=table,
        metric=metric,
        headline=verdict(table, metric),
        runs=runs,
        left_out=_left_out(table, runs),
        test=_test_figures(table, ranked),
        n_accuracies=sum(name in METRICS for name in _names(table)),
        other_masks={mask: _figures_under(mask, table, ranked) for mask in ranked[0].mean_other_masks},
        reference=best,
        differences=differences,
        differences_plot=plot_differences(f"differences-{number}", differences, best, title(metric))
        if differences
        else "",
        curves_plot=(
            plot_curves(f"curves-{number}", curves, _levels(table, runs, metric, part), title(metric), PARTS[part])
            if curves
            else ""
        ),
        kept_plot=plot_kept(f"kept-{number}", kept) if kept else "",
        kept=_kept_rows(runs),
        chosen_by=_chosen_by(runs, metric),
        noise=noise_words(runs[0].result["noise"]) if table.noise else "",
        activity=_activity(runs, metric),
        activity_plot=plot_activity(f"activity-{number}", tenths, train_pairs, title(metric)),
        stages=sorted(timed, key=lambda stage: (STAGES.index(stage) if stage in STAGES else len(STAGES), stage)),
    )


def _labelled(table: Table, folders: list[Path]) -> list[ShownRun]:
    """The runs with the labels of their rows: those that are no baseline's, in the order of the folders."""
    results = [read_result(folder) for folder in folders]
    baselines = {name for result in results for name in result["baselines"]} - {result["model"] for result in results}
    labels = [row.label for row in table.rows if row.label not in baselines]
    return [
        ShownRun(label, folder, result, settings_file(result["settings"]).rstrip())
        for label, folder, result in zip(labels, folders, results, strict=True)
    ]


def _ranking_metric(table: Table, runs: list[ShownRun]) -> str:
    """The metric that chose in the first run whose metric the whole table has."""
    wanted: list[str] = [run.result["settings"]["evaluation"]["select_by"] for run in runs]
    return next((metric for metric in wanted if metric in table.metrics()), table.metrics()[0])


def _chosen_by(runs: list[ShownRun], metric: str) -> str:
    """What chose the steps of runs that were not told how many to take."""
    names: dict[str, str] = {
        run.label: run.result["settings"]["evaluation"]["select_by"]
        for run in runs
        if run.result["steps"] and run.result["settings"]["training"]["steps"] is None
    }
    if set(names.values()) <= {metric}:
        return ""
    if len(set(names.values())) == 1:
        return choice(next(iter(names.values())))
    return "; ".join(f"{choice(name)} ({label})" for label, name in names.items())


def _left_out(table: Table, runs: list[ShownRun]) -> dict[str, str]:
    reasons = {name: why for run in runs for name, why in run.result["baselines_left_out"].items()}
    shown = {row.label for row in table.rows} | {run.result["model"] for run in runs}
    return {name: why for name, why in reasons.items() if name not in shown}


def _names(table: Table) -> list[str]:
    """Metrics without their cut-offs: accuracies, then what describes the lists."""
    names = dict.fromkeys(metric.partition("@")[0] for metric in table.metrics())
    return sorted(names, key=lambda name: name not in METRICS)


def _cutoffs(table: Table) -> list[int]:
    return sorted({int(metric.partition("@")[2]) for metric in table.metrics()})


def _test_figures(table: Table, ranked: list[Row]) -> Figures:
    """The same columns for each list length, one block of rows each."""
    blocks = []
    for k in _cutoffs(table):
        columns = [
            _column(metric, [row.mean[metric] for row in ranked], [row.spread.get(metric) for row in ranked])
            for metric in (f"{name}@{k}" for name in _names(table))
        ]
        blocks.append(Block(f"First {k:,} places", _rows(ranked, columns)))
    return Figures([title(name).removesuffix("@") for name in _names(table)], blocks)


def _figures_under(mask: str, table: Table, ranked: list[Row]) -> Figures:
    """The main metrics at every list length, side by side."""
    metrics = [f"{name}@{k}" for k in _cutoffs(table) for name in SHOWN_UNDER_OTHER_MASKS]
    columns = [
        _column(metric, [row.mean_other_masks[mask][metric] for row in ranked], [None] * len(ranked))
        for metric in metrics
    ]
    return Figures([title(metric) for metric in metrics], [Block("", _rows(ranked, columns))])


def _column(metric: str, means: list[float], spreads: Sequence[float | None]) -> list[Cell]:
    # Popular or rare items are neither good nor bad, and one model alone is not the best of anything.
    has_best = metric.partition("@")[0] in METRICS and len(means) > 1
    shown = [cell(metric, mean, spread).partition(" ± ") for mean, spread in zip(means, spreads, strict=True)]
    has_spread = any(spread for _, _, spread in shown)
    return [
        Cell(figure, spread if has_spread else None, has_best and mean == max(means))
        for mean, (figure, _, spread) in zip(means, shown, strict=True)
    ]


def _rows(ranked: list[Row], columns: list[list[Cell]]) -> list[tuple[Row, list[Cell]]]:
    return [(row, [column[place] for column in columns]) for place, row in enumerate(ranked)]


def _curves(run: ShownRun, metric: str) -> list[Curve]:
    """One curve for each seed that was looked at while it was trained."""
    if not run.result["steps"]:
        return []
    seen = [line for line in read_history(run.folder) if metric in line["metrics"]]
    curves = []
    for seed, best_step in zip(run.result["seeds"], run.result["best_step"], strict=True):
        lines = [line for line in seen if line["seed"] == seed]
        if lines:
            values = [line["metrics"][metric] for line in lines]
            curves.append(Curve([line["step"] for line in lines], values, best_step))
    return curves


def _kept(run: ShownRun, *, alone: bool) -> dict[str, list[KeptLine]]:
    """Group of pairs → a line for each seed, if a denoiser gave weights: true and false pairs, or all where no more is
    known."""
    if not run.result["steps"]:
        return {}
    seen = [line for line in read_history(run.folder) if line.get("kept")]
    groups = [group for group in KEPT if any(group in line["kept"] for line in seen)]
    found = {}
    for group in groups if len(groups) == 1 else groups[1:]:
        told = [line for line in seen if group in line["kept"]]
        by_seed = [[line for line in told if line["seed"] == seed] for seed in run.result["seeds"]]
        found[KEPT[group] if alone else f"{run.label}: {KEPT[group]}"] = [
            KeptLine([line["step"] for line in lines], [line["kept"][group] for line in lines])
            for lines in by_seed
            if lines
        ]
    return found


def _kept_rows(runs: list[ShownRun]) -> list[list[str]]:
    """For each run with a denoiser and each group of pairs: mean over seeds, at the last step and at the kept one."""
    rows = []
    for run in runs:
        # Runs of earlier versions had no denoiser.
        last, best = (run.result.get("denoiser", {}).get(f"kept_at_{which}_step", []) for which in ("last", "best"))
        for group, words in KEPT.items():
            values = [[kept[group] for kept in kept_of_seeds if group in kept] for kept_of_seeds in (last, best)]
            if any(values):
                shown = [f"{sum(found) / len(found):.3f}" if found else "–" for found in values]
                rows.append([run.label, words, *shown])
    return rows


def _levels(table: Table, runs: list[ShownRun], metric: str, part: str) -> dict[str, float]:
    """Model without a training loop → its value on the part that chooses."""
    judged = {name: figures[part] for run in runs for name, figures in run.result["baselines"].items()}
    judged |= {run.label: run.result[part] for run in runs}
    return {row.label: judged[row.label][metric]["mean"] for row in table.rows if not row.has_loop}


def _tenths(result: Result) -> list[dict[str, Any]]:
    return [result["groups"][f"decile_{number}"] for number in range(1, 11)]


def _activity(runs: list[ShownRun], metric: str) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(name for run in runs for name in run.result["groups"])
    rows = []
    for name in sorted(names, key=lambda name: name.startswith("decile_")):
        # Runs may differ in how many of the least active they judge apart.
        groups = [run.result["groups"].get(name, {}) for run in runs]
        users, train_pairs = next((group["users"], group["mean_train_pairs"]) for group in groups if group)
        values = [group.get("test", {}).get(metric) for group in groups]
        shown = ["–" if value is None else cell(metric, value, None) for value in values]
        rows.append((_group_words(name), [f"{users:,}", f"{train_pairs:,.1f}", *shown]))
    return rows


def _group_words(name: str) -> str:
    """The heading of a group of users.

    >>> _group_words("least_active_1000"), _group_words("decile_3")
    ('Least active 1,000', 'Tenth 3')
    """
    kind, _, number = name.rpartition("_")
    return f"Tenth {number}" if kind == "decile" else f"Least active {int(number):,}"
