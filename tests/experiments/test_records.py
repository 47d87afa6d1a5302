"""Records of cells: what they say, and what is said of those that are not there."""

import dataclasses
import json
import statistics

import numpy as np
import pytest
from forged_records import N_INACTIVE, TERMS, forged, write_forged

from pspns.data.planted import plant
from pspns.errors import DataError
from pspns.evaluation.significance import bootstrap_interval, sign_flip_p_value
from pspns.experiments import records as records_module
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.records import Records, Seen, describe_cell, difference, luck, relative
from pspns.run import run

QUICK = Terms(
    max_steps=20,
    patience=2,
    seeds=2,
    device="cpu",
    changes=(
        ("model.embedding_size", 8),
        ("training.evaluate_every", 10),
        ("training.learning_rate", 0.05),
        ("evaluation.inactive", N_INACTIVE),
    ),
)
UNIFORM = Cell("planted", "mf", "uniform")
RECOMMENDED = Cell("planted", "mf", "recommended", changes=(("positives.rank", 10),))
SEEDS = 2


@pytest.fixture(scope="module")
def interactions():
    return plant("clustered", n_users=120, n_items=60, rng=np.random.default_rng(0), mean_preferences=20).interactions


@pytest.fixture(scope="module")
def trained(interactions):
    """Runs of cells, each alone and once."""
    found = {}

    def train(cell):
        if cell not in found:
            found[cell] = run(interactions, cell.settings(QUICK, "planted"))
        return found[cell]

    return train


@pytest.fixture(scope="module")
def described(trained):
    return lambda cell: json.loads(json.dumps(describe_cell(trained(cell), cell, [cell.name])))


@pytest.mark.parametrize("cell", [UNIFORM, RECOMMENDED])
def test_published_without_new_pairs_is_the_strict_record_under_mask_train(cell, tmp_path, described):
    """To the last bit what a run under `published` finds."""
    published = cell.but(protocol="published")
    records = Records(tmp_path)
    records.write(cell.name, described(cell))
    seen, real = records.see(published), Seen(published.name, described(published))
    assert (seen.name, seen.mask) == (cell.name, "train")
    assert seen.figures() == real.figures()
    assert seen.by_user().tolist() == real.by_user().tolist()
    assert seen.figures() != records.see(cell).figures()
    for key in ("steps", "best_step", "curve_recall@20"):
        assert seen.record[key] == real.record[key]
    for baseline in real.record["baselines"]:
        assert seen.of_baseline(baseline).figures() == real.of_baseline(baseline).figures()
    assert real.record["protocol"]["name"] == "published"
    assert not records.missing


def test_published_with_new_pairs_is_a_record_of_its_own(tmp_path, described):
    cell = Cell("planted", "mf", "psp-ns", "published", changes=(("positives.rank", 4),))
    records = Records(tmp_path)
    records.write(cell.but(protocol="strict").name, described(cell.but(protocol="strict")))
    assert records.see(cell) is None
    assert records.missing == [cell.name]
    records.write(cell.name, described(cell))
    assert records.see(cell).mask == ""
    assert records.see(cell).record["protocol"]["warning"]
    assert records.see(cell).figures() != Seen("", described(cell.but(protocol="strict")), "train").figures()


def test_what_is_not_there_is_named_once(tmp_path):
    records = Records(tmp_path / "none")
    assert records.find("one") is None
    assert records.find("one") is None
    assert records.see(UNIFORM.but(protocol="published")) is None
    assert records.missing == ["one", UNIFORM.name]
    since = records.since()
    assert not since.missing
    assert since.find("one") is None
    assert since.missing == ["one"]
    assert len(records.missing) == 2
    since.write("one", {"a": 1})
    assert records.find("one") == {"a": 1}
    assert records.has("one")
    assert Records(tmp_path / "none").find("one") == {"a": 1}


def test_who_is_stopped_while_writing_leaves_what_was_there(tmp_path, monkeypatch):
    def stopped(path, content):
        path.write_text("{")
        raise KeyboardInterrupt

    records = Records(tmp_path)
    records.write("old", {"a": 1})
    monkeypatch.setattr(records_module, "write_json", stopped)
    for name in ("old", "new"):
        with pytest.raises(KeyboardInterrupt):
            records.write(name, {"a": 2})
    assert Records(tmp_path).find("old") == {"a": 1}
    assert Records(tmp_path).find("new") is None
    assert [path.name for path in tmp_path.glob("*.json")] == ["old.json"]


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_that_is_no_record_is_named_with_what_to_do(text, tmp_path):
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(DataError, match=r"broken\.json.*remove it"):
        Records(tmp_path).find("broken")


def test_a_figure_is_the_mean_over_seeds_in_percent_with_its_spread(trained, described):
    seen = Seen("name", described(UNIFORM))
    values = [100 * replica.overall["precision@20"] for replica in trained(UNIFORM).model.test]
    number = seen.number("precision@20")
    assert values[0] != values[1]
    assert number.value == pytest.approx(sum(values) / 2)
    assert number.spread == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert (number.record, seen.n_seeds) == ("name", 2)
    assert 100 * seen.mean("precision@20") == pytest.approx(number.value)


def test_a_figure_of_one_seed_has_no_spread():
    assert Seen("", forged(UNIFORM, terms=Terms(seeds=1))).number("recall@20").spread is None


def test_the_limit_of_steps_is_said_where_a_seed_reached_it(described):
    assert Seen("", forged(UNIFORM)).number("recall@20").note == ""
    reached = forged(UNIFORM, limit=True)
    assert Seen("", reached).number("recall@20").note == "limit"
    assert Seen("", reached).of_baseline("ease").number("recall@20").note == ""
    fixed = UNIFORM.but(changes=(("training.steps", TERMS.max_steps),))
    assert Seen("", forged(fixed, limit=True)).number("recall@20").note == ""
    assert Seen("", described(UNIFORM)).limit == "limit"


def test_a_difference_is_that_of_the_users_own_recalls(trained, described):
    one, two = Seen("one", described(RECOMMENDED)), Seen("two", described(UNIFORM))
    recalls = [
        np.mean([replica.per_user["recall@20"] for replica in trained(cell).model.test], axis=0)
        for cell in (RECOMMENDED, UNIFORM)
    ]
    by_user = recalls[0] - recalls[1]
    found = difference(one, two)
    assert found.mean == pytest.approx(by_user.mean())
    assert found.mean == pytest.approx(one.mean("recall@20") - two.mean("recall@20"))
    expected = bootstrap_interval(by_user, rng=np.random.default_rng(0))
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.p_value == pytest.approx(sign_flip_p_value(by_user, rng=np.random.default_rng(0)))
    assert found.low < found.mean < found.high
    assert found.record == "one"
    precisions = [replica.per_user["precision@20"] for replica in trained(UNIFORM).model.test]
    assert two.by_user("precision@20") == pytest.approx(np.mean(precisions, axis=0))
    assert two.by_user("recall@30") is None
    back = difference(two, one)
    assert (back.mean, back.p_value) == pytest.approx((-found.mean, found.p_value))


def test_under_another_mask_the_hits_of_that_mask_are_compared():
    record = forged(UNIFORM)
    one, two = Seen("", record), Seen("", record, "train")
    assert difference(one, two).mean == pytest.approx(one.mean("recall@20") - two.mean("recall@20"))
    assert difference(one, two).mean > 0
    baseline = two.of_baseline("svd")
    assert difference(baseline, one).mean == pytest.approx(baseline.mean("recall@20") - one.mean("recall@20"))


def test_no_difference_between_what_cannot_be_paired():
    one, two = Seen("", forged(UNIFORM)), Seen("", forged(UNIFORM.but(data="other")))
    assert difference(one, two) is None
    bare = dataclasses.replace(one, record={**one.record, "users": {}})
    assert bare.by_user() is None
    assert difference(one, bare) is None
    assert difference(one, one).p_value == 1.0


def test_a_baseline_that_was_not_judged_is_none():
    assert Seen("", forged(UNIFORM)).of_baseline("svd").n_seeds == 1
    assert Seen("", forged(Cell("planted", "mf", "dns"))).of_baseline("svd") is None


def test_relative_is_in_percent_of_the_reference():
    assert relative(110.0, 100.0) == pytest.approx(10.0)
    assert relative(20.0, 40.0) == pytest.approx(-50.0)


def test_a_record_has_the_curve_and_who_trained_with_it(trained, described):
    record = described(UNIFORM)
    history = trained(UNIFORM).model.fitted.history
    assert record["cell"] == {"method": "uniform", "changes": {}, "trained_with": [UNIFORM.name]}
    for seed in range(SEEDS):
        curve = [[look.step, look.metrics[seed]["recall@20"]] for look in history]
        assert record["curve_recall@20"][str(seed)] == curve
        assert len(curve) == 2
    assert [step for step, _ in record["looks"]] == [10, 20]
    assert statistics.mean(record["test"]["recall@20"]["per_seed"]) == pytest.approx(
        record["test"]["recall@20"]["mean"]
    )


def test_forged_records_are_shaped_as_trained_ones(described, tmp_path):
    """What tests of tables stand on must be what tables meet."""

    def check(made, real, where):
        for key, value in made.items():
            assert key in real, (where, key)
            assert type(value) is type(real[key]), (where, key)
            if isinstance(value, dict):
                check(value, real[key], key)

    made = write_forged(Records(tmp_path), UNIFORM)
    made["settings"] = {}
    check(made, described(UNIFORM), "")
    assert made["groups"].keys() == described(UNIFORM)["groups"].keys()


def test_what_another_process_has_written_is_found(tmp_path):
    here, elsewhere = Records(tmp_path), Records(tmp_path)
    assert here.find("made-elsewhere") is None
    elsewhere.write("made-elsewhere", {"value": 1})
    assert here.find("made-elsewhere") == {"value": 1}


def test_what_is_far_out_has_the_p_of_the_sign_flips_themselves():
    rng = np.random.default_rng(0)
    for mean in (0.0, 0.1, 0.13, 0.16, 0.2, 0.3, 1.0):
        by_user = rng.normal(mean, 1.0, size=500)
        assert luck(by_user) == sign_flip_p_value(by_user, rng=np.random.default_rng(0))
    few = np.full(9, 0.5)
    assert luck(few) == 2 / 2**9


def test_what_a_lower_limit_stopped_is_not_compared(tmp_path):
    records = Records(tmp_path)
    short = dataclasses.replace(TERMS, max_steps=900)
    cells = [Cell("ml-1m", "mf", method) for method in ("uniform", "dns", "ahns", "repeated")]
    for cell, terms, limit in zip(cells, (TERMS, short, short, TERMS), (True, True, False, True), strict=True):
        write_forged(records, cell, terms=terms, limit=limit)
    uniform, stopped, finished, as_long = map(records.see, cells)
    assert difference(stopped, uniform) is None
    assert difference(uniform, stopped) is None
    assert difference(finished, uniform) is not None  # its patience was spent before
    assert difference(as_long, uniform) is not None
