"""Which method is called the highest, and when none is."""

import pytest
from handmade_records import put

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.on_top import on_top_words, ranking
from pspns.experiments.records import Records
from pspns.experiments.trials import Trials

METHODS = (*published.tables()["mf"].methods, "recommended")
TITLE = "MovieLens-1M with MF"


@pytest.fixture
def records(tmp_path):
    """Each method a hundredth above the one before it, recommended the highest of them."""
    records = Records(tmp_path)
    for place, method in enumerate(METHODS):
        put(records, method, 0.2 + place / 100, model="mf", baselines={"ease": 0.25, "svd": 0.26, "popular": 0.1})
    return records


def found(records):
    return ranking(Records(records.folder), "ml-1m", "mf", "mf")


def told(records):
    return list(on_top_words([(TITLE, found(records))]))


def choose(records, method, changes, test, **others):
    """Trials chose these changes, and this came of them."""
    name = put(records, method, test, model="mf", changes=tuple(changes.items()), **others)
    records.write(Trials(Cell("ml-1m", "mf", method)).name, {"trials": [{"name": name}], "chosen": changes})


def test_the_highest_and_the_next_are_told_with_what_they_came_to(records):
    best = 20 + len(METHODS) - 1
    (text,) = told(records)
    assert f"recommended on {TITLE} ({best:.2f}; next PSP-NS, {best - 1:.2f})" in text
    assert len(found(records).best_first) == len(METHODS) + 3


def test_a_baseline_may_be_the_highest(records):
    put(records, "uniform", 0.2, model="mf", baselines={"ease": 0.5, "svd": 0.4})
    assert f"EASE on {TITLE} (50.00; next the SVD by itself, 40.00)" in told(records)[0]


def test_what_trials_chose_stands_in_place_of_the_defaults(records):
    choose(records, "dns", {"training.l2": 0.01}, 0.6)
    assert f"DNS on {TITLE} (60.00; next recommended" in told(records)[0]
    untried = [text for text in told(records)[0].split(". ") if text.startswith("Without trials")]
    assert "RNS, " in untried[0]
    assert "DNS, " not in untried[0]


def test_the_choice_is_validations_whatever_the_test_says(records):
    # Both were trained to the end, and the defaults were ahead on validation.
    choose(records, "dns", {"training.l2": 0.01}, 0.6, valid=0.1)
    assert f"recommended on {TITLE}" in told(records)[0]


def test_what_a_lower_limit_stopped_is_named_and_not_compared(records):
    # By hand a record's trainings end after 50 steps.
    put(records, "dns", 0.9, model="mf", limit=50)
    (text,) = told(records)
    assert f"recommended on {TITLE}" in text
    assert f"Not compared, as a lower limit of steps stopped them: DNS on {TITLE}." in text
    put(records, "dns", 0.9, model="mf", limit=49)  # which it did not reach
    assert f"DNS on {TITLE} (90.00" in told(records)[0]


def test_where_a_method_is_missing_none_is_called_the_highest(records):
    (records.folder / "mf-ml-1m-dns-strict.json").unlink()
    assert found(records).missing == ("DNS",)
    assert told(records) == []
    assert list(on_top_words([("", ranking(Records(records.folder), "gowalla", "mf", "mf"))])) == []
