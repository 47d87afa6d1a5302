"""Learning over time: curves of records, by hand and from trainings."""

from dataclasses import replace

import numpy as np
import pytest
from handmade_records import make_record

from pspns.data.planted import plant
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment
from pspns.experiments.reproduction._learning_curves import LearningCurve
from pspns.experiments.reproduction.convergence import BASELINES, better_sooner

EXPERIMENT = find_experiment("convergence")


def cell(method, protocol="strict", data="epinions"):
    return Cell(data, "lightgcn", method, protocol, alone=True)


def record_of(*seeds, pace=2.0, compiling=0.0, construction=0.0):
    """Recall@20 of each seed at looks after 10, 20, … steps, each taking `pace` seconds."""
    longest = max(map(len, seeds))
    return {
        **make_record(0.1),
        "curve_recall@20": {
            str(number): [[10 * (place + 1), value] for place, value in enumerate(seed)]
            for number, seed in enumerate(seeds)
        },
        "looks": [[10 * (place + 1), compiling + pace * (place + 1)] for place in range(longest)],
        "seconds": {"positives": construction},
    }


def curve_of(*seeds, **options):
    return LearningCurve.of(record_of(*seeds, **options), "a record")


def rows(table):
    return {heads[0]: dict(zip(table.columns, cells, strict=True)) for heads, cells in table.rows}


def test_each_method_trains_alone_on_three_seeds():
    found = list(EXPERIMENT.cells("ml-1m"))
    assert all(which.alone for which in found)
    assert {(which.method, which.protocol) for which in found} == {
        *((method, "strict") for method in ("uniform", "dns", "mixgcf", "ahns", "dns-m-n", "psp-ns", "recommended")),
        ("psp-ns", "published"),
    }
    assert {len(which.settings(Terms(), "ml-1m").run.seeds) for which in found} == {3}
    assert {which.name for which in found}.isdisjoint(which.but(alone=False).name for which in found)


def test_a_target_is_reached_at_the_first_look_at_or_above_it():
    curve = curve_of([0.1, 0.3, 0.2, 0.4], [0.2, 0.2, 0.35])
    assert curve.bests == pytest.approx([40.0, 35.0])
    assert curve.best == pytest.approx(37.5)
    found = curve.reached(30.0)
    assert (found.steps, found.seconds, found.n_seeds) == pytest.approx(((20 + 30) / 2, (4 + 6) / 2, 2))
    found = curve.reached(36.0)
    assert (found.steps, found.seconds, found.n_seeds) == pytest.approx((40, 8, 1))
    assert curve.reached(41.0) is None
    assert curve.own_share(0.75).steps == pytest.approx((20 + 30) / 2)


def test_construction_comes_first_and_compiling_does_not_count():
    curve = curve_of([0.1, 0.2, 0.3], compiling=100.0, construction=7.0)
    assert [look.seconds for look in curve.looks[0]] == pytest.approx([9.0, 11.0, 13.0])
    assert [look.seconds for look in curve_of([0.1], compiling=100.0).looks[0]] == pytest.approx([102.0])
    # What is no longer than the next stretch is left as it is.
    slower = record_of([0.1, 0.2, 0.3])
    slower["looks"] = [[10, 1.0], [20, 4.0], [30, 5.0]]
    assert [look.seconds for look in LearningCurve.of(slower, "").looks[0]] == pytest.approx([1.0, 4.0, 5.0])


def test_unsteadiness_is_the_mean_change_after_the_share_was_reached():
    curve = curve_of([0.1, 0.4, 0.36, 0.4], [0.5, 0.45])
    assert curve.unsteadiness(0.99) == pytest.approx((10 + 10 + 10) / 3)
    assert curve_of([0.1, 0.2]).unsteadiness(0.99) is None


def test_a_curve_is_drawn_as_long_as_all_seeds_train(tmp_path):
    records = Records(tmp_path)
    records.write(cell("uniform").name, record_of([0.1, 0.3, 0.2], [0.2, 0.2], construction=1.0))
    by_steps, by_seconds = EXPERIMENT.section(records, ["epinions"]).plots
    (series,) = by_steps.series
    assert (by_steps.x, series.label, series.xs) == ("steps", "RNS", (10.0, 20.0))
    assert series.ys == pytest.approx((15.0, 25.0))
    assert series.lows == pytest.approx((10.0, 20.0))
    assert series.highs == pytest.approx((20.0, 30.0))
    assert by_steps.levels == (("best of RNS", pytest.approx(25.0)),)
    assert (by_seconds.x, by_seconds.series[0].xs) == ("seconds", pytest.approx((3.0, 5.0)))
    assert by_seconds.series[0].ys == series.ys


def test_the_table_by_hand(tmp_path):
    records = Records(tmp_path)
    records.write(cell("uniform").name, record_of([0.2, 0.3], [0.25, 0.2]))
    records.write(cell("psp-ns", "published").name, record_of([0.28, 0.5], [0.1, 0.2], pace=4.0, construction=3.0))
    records.write(cell("dns").name, record_of([0.1, 0.2]))
    (table,) = EXPERIMENT.section(records, ["epinions"]).tables
    found = rows(table)
    assert list(found)[-3:] == ["PSP-NS, published", "PSP-NS, strict", "recommended"]
    row = found["PSP-NS, published"]
    assert str(row["best"]) == "35.00 ± 21.21"
    assert (row["steps to 99 %"].value, row["seconds to 99 %"].value) == (20, 11.0)
    assert str(row["steps to RNS's best"]) == "10 1 of 2 seeds"  # 27.5
    assert str(row["seconds to RNS's best"]) == "7.0 1 of 2 seeds"
    assert (row["seconds of 1,000 steps"].value, row["seconds before training"].value) == (400.0, 3.0)
    assert found["DNS"]["steps to RNS's best"] == "never"
    assert set(found["PSP-NS, strict"].values()) == {None}


def others(records, *seeds, **options):
    for method in BASELINES:
        records.write(cell(method).name, record_of(*seeds, **options))


def test_the_claim_needs_a_higher_best_sooner_and_smaller_changes(tmp_path):
    records = Records(tmp_path)
    assert better_sooner(records, ["epinions"], "strict").word == "not measured"
    others(records, [0.1, 0.3, 0.27, 0.3])
    ours = cell("psp-ns").name
    records.write(ours, record_of([0.2, 0.29, 0.4, 0.399], pace=1.0, construction=1.9))
    verdict = better_sooner(records, ["epinions"], "strict")
    # 29.7 % is passed after 1.9 + 3 seconds, where baselines need 4.
    assert (verdict.word, verdict.why[:22]) == ("holds in part", "5 of 10 comparisons; f")
    assert (
        "RNS, higher and sooner: best 40.00 against 30.00, 99 % of the latter after 4.9 s against 4.0 s" in verdict.why
    )
    records.write(ours, record_of([0.2, 0.29, 0.4, 0.399], pace=1.0, construction=0.9))
    assert better_sooner(records, ["epinions"], "strict").word == "holds"
    assert better_sooner(records, ["epinions"], "published").word == "not measured"
    records.write(ours, record_of([0.2, 0.29, 0.299, 0.299], pace=1.0))
    assert better_sooner(records, ["epinions"], "strict").word == "holds in part", "its best is lower"
    records.write(ours, record_of([0.2, 0.29, 0.4, 0.3], pace=1.0))
    assert "steadier: changes of 25.00 % against 10.00 %" in better_sooner(records, ["epinions"], "strict").why
    said = EXPERIMENT.section(records, ["epinions"]).words
    assert any("Epinions, `strict`: that PSP-NS is higher, sooner and steadier holds in part" in text for text in said)


def test_a_seed_that_never_comes_to_it_is_not_sooner(tmp_path):
    records = Records(tmp_path)
    others(records, [0.1, 0.2, 0.2], [0.1, 0.2, 0.2])
    records.write(cell("psp-ns").name, record_of([0.5, 0.5, 0.5], [0.1, 0.1, 0.1]))
    verdict = better_sooner(records, ["epinions"], "strict")
    assert verdict.word == "does not hold"
    assert "best 30.00 against 20.00, 99 % of the latter after 2.0 s (1 of 2 seeds) against 4.0 s" in verdict.why


def test_what_is_missing_is_named_and_nothing_fails(tmp_path):
    section = EXPERIMENT.section(Records(tmp_path), ["epinions"])
    assert set(section.missing) == {which.name for which in EXPERIMENT.cells("epinions")}
    assert section.plots == ()
    assert len(section.words) == 1
    assert section.is_shaped_by_test


def test_real_records_have_what_is_shown(tmp_path):
    records = Records(tmp_path)
    world = plant("clustered", n_users=60, n_items=120, rng=np.random.default_rng(0), mean_preferences=15)
    changes = (("model.embedding_size", 4), ("evaluation.inactive", 5), ("training.evaluate_every", 3))
    terms = Terms(max_steps=9, seeds=2, device="cpu", changes=changes)
    few = [cell(method, data="toy") for method in ("uniform", "psp-ns")]
    carry_out(
        {"toy": [replace(EXPERIMENT, cells=lambda data: few)]},
        records,
        terms,
        lambda name: world.interactions,
    )
    for which in few:
        record = records.find(which.name)
        assert record["cell"]["trained_with"] == [which.name]
        assert record["replicas_in_loop"] == 2
        curve = LearningCurve.of(record, which.name)
        assert [[look.step for look in seed] for seed in curve.looks] == [[3, 6, 9]] * 2
        assert max(curve.bests) == pytest.approx(100 * max(record["valid"]["recall@20"]["per_seed"]))
    (table,) = EXPERIMENT.section(records, ["toy"]).tables
    assert rows(table)["PSP-NS, strict"]["seconds before training"].value > 0
