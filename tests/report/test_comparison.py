"""Tables of runs, against pandas on the files the runs wrote and numbers worked by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pspns.api import fit
from pspns.errors import DataError, SettingsError
from pspns.report.comparison import Row, Table, _labels, tables_of


def labels(table):
    return [row.label for row in table.rows]


def row_of(table, label):
    return next(row for row in table.rows if row.label == label)


def per_user(folder, model):
    """The test under the protocol's mask, one line for each user, mean over seeds."""
    frame = pd.read_parquet(folder / "per_user.parquet")
    mask = json.loads((folder / "result.json").read_text())["protocol"]["mask_test"]
    frame = frame[(frame.model == model) & (frame.part == "test") & (frame["mask"] == mask)]
    return frame.groupby("user").mean(numeric_only=True)


def hand_made(**values: list[float]) -> Table:
    rows = [
        Row(label, "", label == "trained", False, {"recall@5": float(np.mean(v))}, {}, {}, {"recall@5": np.array(v)})
        for label, v in values.items()
    ]
    return Table(
        protocol="strict",
        meaning="",
        warning="",
        data="",
        n_users=len(rows[0].per_user["recall@5"]),
        n_cold=0,
        rows=rows,
    )


def test_other_protocols_and_other_data_stand_apart(runs):
    given = [runs[name] for name in ("plain", "published", "normal", "other-data", "best-on-test")]
    tables = tables_of(given)
    assert [table.protocol for table in tables] == ["strict", "published", "strict", "best-on-test"]
    assert [labels(table)[0] for table in tables] == [
        "mf (plain)",
        "mf (published)",
        "mf (other-data)",
        "mf (best-on-test)",
    ]
    assert "mf (normal)" in labels(tables[0])
    assert tables[0].data != tables[2].data
    assert [bool(table.warning) for table in tables] == [False, True, False, True]


def test_noise_stands_apart_and_is_told(runs):
    clean, noisy = tables_of([runs["plain"], runs["noisy"], runs["noisy-plain"]])
    assert (clean.noise, noisy.noise) == (0.0, 0.3)
    assert {"mf (noisy)", "mf (noisy-plain)"} <= set(labels(noisy))
    assert "mf (noisy)" not in labels(clean)
    assert "30 % random false pairs added to train" in noisy.data
    assert "false pairs" not in clean.data


def test_a_record_from_before_there_was_noise(runs, tmp_path):
    shutil.copytree(runs["plain"], tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    del result["noise"], result["denoiser"]
    (tmp_path / "run" / "result.json").write_text(json.dumps(result))
    (table,) = tables_of([tmp_path / "run", runs["normal"]])
    assert table.noise == 0


def test_a_baseline_appears_once_however_many_runs_judged_it(runs):
    (table,) = tables_of([runs["plain"], runs["normal"]])
    assert sorted(labels(table)) == ["ease", "mf (normal)", "mf (plain)", "popular", "svd"]


def test_a_run_of_a_baseline_stands_for_it(runs):
    (table,) = tables_of([runs["plain"], runs["svd"]])
    assert sorted(labels(table)) == ["ease", "mf", "popular", "svd"]
    assert [row.label for row in table.rows if row.has_loop] == ["mf"]


def test_means_and_spread_are_those_of_the_users(runs):
    (table,) = tables_of([runs["plain"]])
    frame = pd.read_parquet(runs["plain"] / "per_user.parquet")
    frame = frame[(frame.model == "mf") & (frame.part == "test") & (frame["mask"] == "train+valid")]
    by_seed = frame.groupby("seed")[["recall@5", "ndcg@10"]].mean()
    row = row_of(table, "mf")
    for metric in by_seed.columns:
        assert row.mean[metric] == pytest.approx(by_seed[metric].mean())
        assert row.spread[metric] == pytest.approx(by_seed[metric].std())
    assert row.note == "2 seeds"
    assert row_of(table, "ease").spread == {}
    assert table.n_users == frame.user.nunique()


def test_the_other_mask_is_told_apart(runs):
    (table,) = tables_of([runs["plain"]])
    frame = pd.read_parquet(runs["plain"] / "per_user.parquet")
    frame = frame[(frame.model == "mf") & (frame.part == "test") & (frame["mask"] == "train")]
    row = row_of(table, "mf")
    assert row.mean_other_masks["train"]["recall@10"] == pytest.approx(frame["recall@10"].mean())
    assert row.mean_other_masks["train"]["recall@10"] != row.mean["recall@10"]
    (best_on_test,) = tables_of([runs["best-on-test"]])
    assert best_on_test.rows[0].mean_other_masks == {}


def test_differences_are_those_of_the_users(runs):
    (table,) = tables_of([runs["plain"], runs["normal"]])
    best = table.ranked("ndcg@10")[0]
    assert best.mean["ndcg@10"] == max(row.mean["ndcg@10"] for row in table.rows)
    folder_and_model = {
        "mf (plain)": (runs["plain"], "mf"),
        "mf (normal)": (runs["normal"], "mf"),
        **{name: (runs["plain"], name) for name in ("popular", "svd", "ease")},
    }
    reference = per_user(*folder_and_model[best.label])["ndcg@10"]
    found = table.differences("ndcg@10", best)
    assert {difference.label for difference in found} == set(labels(table)) - {best.label}
    for difference in found:
        paired = per_user(*folder_and_model[difference.label])["ndcg@10"] - reference
        assert difference.mean == pytest.approx(paired.mean())
        # The bootstrap of a mean over a hundred users is close to the interval of the normal distribution.
        half_width = 1.96 * paired.std() / np.sqrt(len(paired))
        assert difference.low == pytest.approx(paired.mean() - half_width, abs=0.2 * half_width)
        assert difference.high == pytest.approx(paired.mean() + half_width, abs=0.2 * half_width)


def test_p_values_are_corrected_over_the_table():
    # Against zeros: of 8 sign patterns 2 are as extreme as three equal signs (p = 1/4), and all as extreme as
    # two signs against one (p = 1). Holm doubles the smaller.
    table = hand_made(reference=[0, 0, 0], steady=[0.1, 0.1, 0.1], mixed=[0.1, 0.1, -0.1])
    found = {difference.label: difference for difference in table.differences("recall@5", table.rows[0])}
    assert found["steady"].p_value == 0.5
    assert found["mixed"].p_value == 1.0
    assert (found["steady"].low, found["steady"].high) == pytest.approx((0.1, 0.1))


def test_only_metrics_that_all_runs_have_are_compared(runs):
    (table,) = tables_of([runs["plain"], runs["other-k"]])
    assert {metric.partition("@")[2] for metric in table.metrics()} == {"5"}
    assert all(list(row.mean) == table.metrics() for row in table.rows)
    with pytest.raises(SettingsError, match="share no metric"):
        tables_of([runs["plain"], runs["apart-k"]])


def test_an_unknown_metric_is_refused(runs):
    (table,) = tables_of([runs["plain"]])
    with pytest.raises(SettingsError, match=r"no metric named 'recal@5'.*did you mean 'recall@5'"):
        table.ranked("recal@5")


def test_a_run_given_twice_is_refused(runs):
    with pytest.raises(SettingsError, match="given twice"):
        tables_of([runs["plain"], runs["plain"].parent / "normal" / ".." / "plain"])


def test_a_run_without_test_part_is_refused(runs):
    with pytest.raises(SettingsError, match="no test part"):
        tables_of([runs["no-test"]])


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not a run's folder"):
        tables_of([tmp_path])


def test_runs_of_the_same_name_in_different_places_keep_apart():
    models = [(Path("a/x/mf"), "mf"), (Path("a/y/mf"), "mf"), (Path("b/other"), "mf"), (Path("c"), "svd")]
    assert _labels(models) == ["mf (x/mf)", "mf (y/mf)", "mf (other)", "svd"]


def test_a_baseline_with_settings_of_ones_own_does_not_hide_the_chosen_one(tmp_path):
    options = {"threads": 1, "k": (5,), "select_by": "recall@5"}
    fit("planted-clustered", model="svd", rank=2, out=tmp_path / "two", **options)
    fit("planted-clustered", model="popular", out=tmp_path / "popular", **options)
    (table,) = tables_of([tmp_path / "two", tmp_path / "popular"])
    notes = {row.label: row.note for row in table.rows}
    assert set(notes) == {"svd as set", "popular", "svd", "ease"}
    assert notes["svd as set"] == "rank 2"
    assert notes["svd"].startswith("rank ")
    assert notes["svd"] != "rank 2"
