"""Variants beside the paper, at equal steps, and copies against weights."""

import math

import numpy as np
import pytest
from forged_records import HELD_OUT, forged_hits, write_forged

from pspns.evaluation.significance import holm, sign_flip_p_value
from pspns.experiments import published
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment
from pspns.experiments.reproduction.variants import BY_USER, IN_ONE_STEP

EXPERIMENT = find_experiment("variants")
FIXED, TOGETHER = ("training.steps", 20_000), ("training.copies_together", True)
TRAININGS = {"stopped early": (), "20,000 steps": (FIXED,)}
QUESTIONS = {
    "copies instead of weights": ("copies", "weights"),
    "of which: as many negatives": ("together", "weights"),
    "of which: at other times": ("copies", "together"),
}


def cell(method, protocol="strict", *changes, data="epinions"):
    return Cell(data, "lightgcn", method, protocol, changes)


def chance(which):
    """Better in more steps, and in copies at random times."""
    better = 0.15 if which.method == "psp" and TOGETHER not in which.changes else 0.0
    return 0.3 + better + (0.1 if FIXED in which.changes else 0.0)


def visits(which):
    return 100_000 + 7 * len(which.name)


@pytest.fixture
def records(tmp_path):
    found = Records(tmp_path)
    for which in EXPERIMENT.cells("epinions"):
        write(found, which)
    return found


def write(records, which):
    record = write_forged(records, which, chance=chance(which))
    records.write(which.name, {**record, "positives": {"visits_an_epoch": visits(which)}})


def recalls(which, mask="own"):
    return forged_hits(which, mask=mask, chance=chance(which)).mean(axis=0) / HELD_OUT


def rows(table):
    return {heads: dict(zip(table.columns, cells, strict=True)) for heads, cells in table.rows}


def tables(records, data="epinions"):
    return {table.name: rows(table) for table in EXPERIMENT.section(records, [data]).tables}


def arms(protocol, training):
    return {
        "weights": cell("merged-weighted", protocol, *training),
        "together": cell("psp", protocol, *training, TOGETHER),
        "copies": cell("psp", protocol, *training),
    }


def test_every_row_of_the_paper_is_trained_under_both_protocols_and_observed_pairs_once():
    methods = published.tables()["variants"].methods
    assert len(methods) == 10
    found = list(EXPERIMENT.cells("ml-1m"))
    assert len(found) == len({which.name for which in found})
    as_they_are = {(which.method, which.protocol) for which in found if not which.changes}
    building = set(methods) - {"observed", "repeated"}
    assert as_they_are == {
        ("uniform", "strict"),
        ("repeated", "strict"),
        *((method, protocol) for method in building for protocol in ("published", "strict")),
    }
    assert {(which.method, which.protocol) for which in found if which.changes == (FIXED,)} == as_they_are
    assert len(found) == 2 * len(as_they_are) + 4


def test_splits_by_user_have_the_rows_as_they_are_and_no_more(tmp_path):
    assert set(BY_USER) < set(EXPERIMENT.data)
    for data in BY_USER:
        found = list(EXPERIMENT.cells(data))
        assert not any(which.changes for which in found)
        assert len(found) == 18
        assert {table.name for table in EXPERIMENT.section(Records(tmp_path), [data]).tables} == {
            f"variants-{data}",
            f"variants-{data}-other-metrics",
        }


def test_equal_steps_are_a_fixed_number_for_all():
    fixed = [which for which in EXPERIMENT.cells("ml-1m") if FIXED in which.changes]
    assert len(fixed) == 20
    assert {which.settings(Terms(), "ml-1m").training.steps for which in fixed} == {20_000}
    together = [which for which in EXPERIMENT.cells("ml-1m") if TOGETHER in which.changes]
    assert len(together) == 4
    for which in together:
        settings = which.settings(Terms(), "ml-1m")
        assert settings.training.copies_together
        assert settings.positives.copies == 3


def test_rows_stand_beside_the_paper_with_observed_pairs_from_the_record_of_rns(records):
    found = tables(records)["variants-epinions"]
    row, plain = found[("1-hop",)], cell("uniform")
    assert row["paper"].value == 10.93
    assert row["ours, strict"].value == pytest.approx(100 * recalls(plain).mean())
    assert row["ours, published"].value == pytest.approx(100 * recalls(plain, "train").mean())
    assert row["ours, strict"].record == row["ours, published"].record == plain.name
    assert row["against 1-hop, strict"] is None
    other = found[("W-ew",)]
    expected = recalls(cell("psp")).mean() - recalls(plain).mean()
    assert other["against 1-hop, strict"].value == pytest.approx(100 * expected)
    assert other["ours, published"].record == cell("psp", "published").name


def test_at_equal_steps_figures_are_of_the_fixed_trainings(records):
    found = tables(records)["variants-epinions-equal-steps"]
    assert len(found) == 10
    plain, which = cell("uniform", "strict", FIXED), cell("capped", "strict", FIXED)
    row = found[("CRW",)]
    assert row["ours, strict"].value == pytest.approx(100 * recalls(which).mean())
    published_one = cell("capped", "published", FIXED)
    assert row["ours, published"].value == pytest.approx(100 * recalls(published_one).mean())
    expected = recalls(which).mean() - recalls(plain).mean()
    assert row["against 1-hop, strict"].value == pytest.approx(100 * expected)
    assert row["epochs"].value == pytest.approx(20_000 / math.ceil(visits(which) / 2048))
    assert found[("1-hop",)]["ours, published"].value == pytest.approx(100 * recalls(plain, "train").mean())


def test_copies_against_weights_by_hand(records):
    found = tables(records)["variants-epinions-copies-against-weights"]
    raw = {}
    for title, training in TRAININGS.items():
        for protocol in ("published", "strict"):
            of = {name: recalls(which) for name, which in arms(protocol, training).items()}
            for row, name in (("W-hop-lw", "weights"), (IN_ONE_STEP, "together"), ("W-ew", "copies")):
                shown = found[title, row][f"ours, {protocol}"]
                assert shown.value == pytest.approx(100 * of[name].mean())
                assert shown.record == arms(protocol, training)[name].name
            for what, (one, other) in QUESTIONS.items():
                by_user = of[one] - of[other]
                assert found[title, what][f"ours, {protocol}"].value == pytest.approx(100 * by_user.mean())
                raw[title, what, protocol] = sign_flip_p_value(by_user, rng=np.random.default_rng(0))
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    assert min(corrected.values()) < 0.05 < max(corrected.values())
    for (title, what, protocol), p in corrected.items():
        shown = found[title, what][f"p, {protocol}"]
        assert shown == ("< 0.001" if p < 0.001 else f"{p:.3f}")


def test_the_words_say_what_the_table_does(records):
    section = EXPERIMENT.section(records, ["epinions"])
    (said,) = [text for text in section.words if "`strict`, 20,000 steps" in text]
    found = tables(records)["variants-epinions-copies-against-weights"]
    for what in QUESTIONS:
        row = found["20,000 steps", what]
        p = row["p, strict"]
        assert f"{what} {row['ours, strict']} points, p {p if p[0] == '<' else f'= {p}'}" in said
    assert section.is_shaped_by_test
    assert section.missing == ()


def test_what_is_missing_is_named_and_nothing_fails(tmp_path):
    records = Records(tmp_path)
    write(records, cell("psp", "strict", FIXED))
    section = EXPERIMENT.section(records, ["epinions"])
    expected = {which.name for which in EXPERIMENT.cells("epinions")} - {cell("psp", "strict", FIXED).name}
    assert set(section.missing) == expected
    assert not any("points" in text for text in section.words)
    (table,) = [one for one in section.tables if one.name.endswith("copies-against-weights")]
    assert rows(table)["20,000 steps", "W-ew"]["ours, strict"] is not None
    assert rows(table)["stopped early", "W-ew"]["ours, strict"] is None
