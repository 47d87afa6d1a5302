"""The figures of the paper: complete, under our names, and in agreement but where a note says otherwise."""

import itertools
import re

import pytest

from pspns.components import find_part, part_names
from pspns.errors import SettingsError
from pspns.experiments import published
from pspns.experiments._cells import printed as cell
from pspns.experiments._members import changed, make_settings, recipe
from pspns.experiments.published import claims, data_sets, grids, methods, pictures, printed, settings, tables, terms
from pspns.settings import PART_SECTIONS, Settings

SAMPLERS = ["uniform", "dns", "mixgcf", "dns-m-n", "ahns"]
DENOISERS = ["t-ce", "r-ce", "deca", "dcf", "pld"]
BUILDERS = ["observed", "repeated", "global", "merged", "merged-weighted", "psp"]
WEIGHTINGS = ["inverse-sqrt", "exponential", "capped"]
AT_20, AT_30 = ["recall@20", "precision@20"], ["recall@30", "precision@30"]
# Figures are rounded to two places: each is off by half of the last one at most.
HALF = 0.005 + 1e-9


def figures(name):
    """(users, data, method, metric) → figure."""
    table = tables()[name]
    keys = itertools.product(table.figures, table.data, table.methods, table.metrics)
    return {key: printed(name, key[1], table.model, key[2], key[3], users=key[0]) for key in keys}


def noted(name):
    return {(note.data, note.method, note.metric) for note in tables()[name].notes}


@pytest.mark.parametrize(
    ("name", "model", "users", "data", "expected", "metrics"),
    [
        (
            "overall",
            "lightgcn",
            ["all"],
            ["pinterest", "yelp", "ml-1m", "epinions"],
            [*SAMPLERS, *DENOISERS, "psp-ns"],
            [*AT_20, "recall@30"],
        ),
        (
            "variants",
            "lightgcn",
            ["all"],
            ["ml-1m", "epinions"],
            [*BUILDERS, *WEIGHTINGS, "psp-ns"],
            [*AT_20, *AT_30],
        ),
        (
            "inactive-users",
            "lightgcn",
            ["inactive", "other"],
            ["yelp", "ml-1m", "pinterest", "epinions"],
            ["psp", "psp-ns"],
            AT_20,
        ),
        (
            "mf",
            "mf",
            ["all"],
            ["ml-1m", "epinions"],
            [name for name in [*SAMPLERS, *DENOISERS, "psp-ns"] if name != "mixgcf"],
            [*AT_20, *AT_30],
        ),
    ],
)
def test_every_cell_of_a_table_is_there(name, model, users, data, expected, metrics):
    table = tables()[name]
    assert (table.model, list(table.figures), list(table.data), list(table.methods), list(table.metrics)) == (
        model,
        users,
        data,
        expected,
        metrics,
    )
    rows = [row for group in table.figures.values() for rows in group.values() for row in rows.values()]
    assert len(rows) == len(users) * len(data) * len(expected)
    assert {len(row) for row in rows} == {len(metrics)}
    for key, figure in figures(name).items():
        assert isinstance(figure, float), key
        assert 0 < figure < 100, key
        assert round(figure, 2) == figure, key


def test_tables_have_both_numbers():
    assert {name: (table.number, table.called) for name, table in tables().items()} == {
        "data": (1, (1,)),
        "overall": (2, (2, 1)),
        "variants": (3, (4, 3)),
        "inactive-users": (4, (5,)),
        "mf": (5, (6,)),
    }
    assert pictures()["with-samplers"].number == "2(c)–(d)"
    assert pictures()["with-samplers"].called == ("4",)


def test_some_figures_read_by_eye():
    assert printed("overall", "pinterest", "lightgcn", "mixgcf", "precision@20") == 0.74
    assert printed("overall", "yelp", "lightgcn", "psp-ns", "recall@30") == 17.69
    assert printed("overall", "epinions", "lightgcn", "dns-m-n", "recall@30") == 15.26
    assert printed("variants", "ml-1m", "lightgcn", "global", "precision@30") == 15.68
    assert printed("variants", "epinions", "lightgcn", "merged-weighted", "recall@20") == 12.46
    assert printed("inactive-users", "pinterest", "lightgcn", "psp", "recall@20", users="inactive") == 48.60
    assert printed("inactive-users", "yelp", "lightgcn", "psp-ns", "precision@20", users="other") == 8.37
    assert printed("mf", "epinions", "mf", "ahns", "precision@30") == 2.43
    assert data_sets()["yelp"].construction_seconds == 12.90
    assert data_sets()["epinions"].variation_percent == {"recall@20": 3.15, "precision@20": 2.67}


def test_what_is_not_printed():
    assert printed("overall", "gowalla", "lightgcn", "uniform", "recall@20") is None
    assert printed("overall", "ml-1m", "mf", "uniform", "recall@20") is None
    assert printed("overall", "ml-1m", "lightgcn", "srns", "recall@20") is None
    assert printed("overall", "ml-1m", "lightgcn", "uniform", "precision@30") is None
    assert printed("mf", "ml-1m", "mf", "mixgcf", "recall@20") is None
    assert printed("inactive-users", "ml-1m", "lightgcn", "psp", "recall@20") is None
    with pytest.raises(SettingsError, match=r"no table named 'overal'.*did you mean 'overall'"):
        printed("overal", "ml-1m", "lightgcn", "uniform", "recall@20")


def test_cells_beside_ours():
    assert cell("epinions", "lightgcn", "psp-ns") == "13.01 / 4.50"
    assert cell("epinions", "mf", "psp-ns") == "11.46 / 3.90"
    assert cell("epinions", "mf", "mixgcf") == "–"
    assert cell("yelp2018-part", "lightgcn", "uniform") == "–"


def test_names_are_ours():
    assert set(data_sets()) <= set(part_names("datasets"))
    assert [method for method in methods() if method in part_names("negatives")] == SAMPLERS
    assert [method for method in methods() if method in part_names("denoisers")] == DENOISERS
    assert [method for method in methods() if method in part_names("positives")] == BUILDERS
    for method in methods().values():
        assert set(method.parts) == set(published.PLAIN)
        for section, name in method.parts.items():
            assert callable(find_part(PART_SECTIONS[section], name))
    for name in SAMPLERS:
        assert methods()[name].parts == {**published.PLAIN, "negatives": name}
    for name in DENOISERS:
        assert methods()[name].parts == {**published.PLAIN, "denoiser": name}
    for name in BUILDERS:
        assert methods()[name].parts == {**published.PLAIN, "positives": name}
    for name, weighting in {**{name: name for name in WEIGHTINGS}, "psp-ns": "log"}.items():
        assert methods()[name].parts == {**published.PLAIN, "positives": "psp", "weighting": weighting}
    assert len({method.paper for method in methods().values()}) == len(methods())


def test_stated_settings_are_our_defaults():
    stated = changed(recipe("plain"), {"model": {"name": "lightgcn"}}, settings())
    found, default = make_settings(stated), Settings(model=find_part("models", "lightgcn")())
    assert (found.model, found.start, found.training) == (default.model, default.start, default.training)
    assert tuple(found.evaluation.k) == default.evaluation.k
    assert found.evaluation.inactive == default.evaluation.inactive
    assert terms()["seeds"] == 10


def test_grids_are_settings_that_can_be():
    for copies in grids()["copies"]:
        find_part("positives", "psp")(copies=copies)
    for sensitivity in grids()["sensitivity"]:
        find_part("weightings", "log")(sensitivity=sensitivity)
    for data in data_sets().values():
        step = data.ranks[0]
        assert data.ranks == tuple(range(step, 10 * step + 1, step))
        assert step == (50 if data.name in ("pinterest", "yelp") else 10)


def test_counts_of_data_sets_agree():
    for data in data_sets().values():
        assert 100 * data.interactions / (data.users * data.items) == pytest.approx(data.density_percent, abs=0.0005)
    parts = data_sets()["pinterest"].parts
    assert sum(parts.values()) == data_sets()["pinterest"].interactions
    assert parts["valid"] == parts["test"] == data_sets()["pinterest"].users
    assert [data.name for data in data_sets().values() if data.note] == ["pinterest", "yelp", "ml-1m"]


@pytest.mark.parametrize("name", ["overall", "inactive-users"])
def test_precision_on_pinterest_is_a_twentieth_of_recall_but_where_noted(name):
    found = figures(name)
    wrong = set()
    for (users, data, method, metric), recall in found.items():
        if data == "pinterest" and metric == "recall@20":
            precision = found[users, data, method, "precision@20"]
            if abs(precision - recall / 20) > HALF + HALF / 20:
                wrong.add((data, method, "precision@20"))
    assert wrong == ({("pinterest", "mixgcf", "precision@20")} if name == "overall" else set())
    assert wrong == {key for key in noted(name) if key[0] == "pinterest" and key[2] == "precision@20"}


@pytest.mark.parametrize("name", ["overall", "variants", "mf"])
def test_longer_lists_have_more_hits(name):
    found = figures(name)
    for (users, data, method, metric), figure in found.items():
        if metric == "recall@30":
            assert figure > found[users, data, method, "recall@20"]
        if metric == "precision@30":
            at_20 = found[users, data, method, "precision@20"]
            assert figure < at_20  # the best stand first
            assert 30 * (figure + HALF) >= 20 * (at_20 - HALF)


def test_tables_agree_where_they_repeat_a_row():
    for data in tables()["variants"].data:
        for metric in tables()["overall"].metrics:
            for variant, method in (("observed", "uniform"), ("psp-ns", "psp-ns")):
                assert printed("variants", data, "lightgcn", variant, metric) == printed(
                    "overall", data, "lightgcn", method, metric
                )


def test_all_users_lie_between_the_groups_but_where_noted():
    """Some inactive users may have nothing held out, so their share may be anything up to that of all users."""
    wrong = set()
    of_group = figures("inactive-users")
    for data, method, metric in itertools.product(data_sets(), ("psp", "psp-ns"), AT_20):
        of_all = printed("variants", data, "lightgcn", method, metric)
        of_all = of_all or printed("overall", data, "lightgcn", method, metric)
        if of_all is None:
            continue
        inactive, other = (of_group[users, data, method, metric] for users in ("inactive", "other"))
        largest_share = settings()["evaluation"]["inactive"] / data_sets()[data].users
        ends = sorted([other, other + largest_share * (inactive - other)])
        if not ends[0] - 2 * HALF <= of_all <= ends[1] + 2 * HALF:
            wrong.add((data, method, metric))
    assert len(wrong) == 5
    assert wrong == noted("inactive-users")


def outcomes(claim):
    """Every single comparison of a claim with the printed figures: (data, metric, better, worse) → does it hold?"""
    found = {}
    model = tables()[claim.shown_in].model
    (users,) = claim.users
    for comparison in claim.comparisons:
        singles = itertools.product(claim.data, claim.metrics, comparison.better, comparison.worse)
        for data, metric, better, worse in singles:
            high, low = (
                printed(claim.shown_in, data, model, method, metric, users=users) for method in (better, worse)
            )
            found[data, metric, better, worse] = high > low
    return found


CHECKED = [name for name, claim in claims().items() if claim.comparisons and claim.shown_in in tables()]


@pytest.mark.parametrize("name", CHECKED)
def test_claims_hold_in_the_printed_figures_but_where_noted(name):
    claim = claims()[name]
    found = outcomes(claim)
    assert found
    failed = {single for single, holds in found.items() if not holds}
    if claim.often:
        assert 0 < len(failed) < len(found) / 2
    else:
        assert failed == {(one.data, one.metric, one.better, one.worse) for one in claim.exceptions}


def test_which_claims_can_be_checked():
    assert len(CHECKED) == 14
    assert len(outcomes(claims()["best-of-all"])) == 4 * 3 * 10
    assert len(outcomes(claims()["best-of-all-with-mf"])) == 2 * 4 * 9
    assert [name for name, claim in claims().items() if claim.exceptions] == ["log-weights-best"]


def test_percentages_follow_from_the_tables_or_are_noted():
    for claim in claims().values():
        if claim.percent is None:
            continue
        if claim.name == "headline-precision":
            assert not claim.shown_in
            assert "No table" in claim.note
            continue
        ((comparison,), (data,), (metric,)) = claim.comparisons, claim.data, claim.metrics
        (better,) = comparison.better
        ours = printed(claim.shown_in, data, "lightgcn", better, metric)
        best = max(printed(claim.shown_in, data, "lightgcn", method, metric) for method in comparison.worse)
        assert 100 * (ours / best - 1) == pytest.approx(claim.percent, abs=HALF)
        assert best == printed("overall", "yelp", "lightgcn", "mixgcf", "recall@30")


def test_the_headline_of_precision_asks_more_than_any_row_keeps():
    of_psp = printed("overall", "yelp", "lightgcn", "psp-ns", "precision@20")
    best = max(printed("overall", "yelp", "lightgcn", method, "precision@20") for method in [*SAMPLERS, *DENOISERS])
    least = 20 / 30 * (of_psp - HALF) / (1 + (claims()["headline-precision"].percent + HALF) / 100)
    kept = [
        figure / found[users, data, method, "precision@20"]
        for found in (figures("variants"), figures("mf"))
        for (users, data, method, metric), figure in found.items()
        if metric == "precision@30"
    ]
    assert max(kept) < least / (best + HALF)


def test_claims_refer_to_what_there_is():
    shown = set()
    for claim in claims().values():
        assert claim.says.endswith(".")
        assert claim.sections
        assert all(re.fullmatch(r"abstract|[1-5](\.[1-6])?", section) for section in claim.sections)
        assert set(claim.data) <= set(data_sets())
        for comparison in claim.comparisons:
            assert comparison.better
            assert comparison.worse
            assert {*comparison.better, *comparison.worse} <= set(methods())
        if not claim.shown_in:
            assert not claim.called
            continue
        shown.add(claim.shown_in)
        kind, place = ("Table", tables()) if claim.shown_in in tables() else ("Figure", pictures())
        exhibit = place[claim.shown_in]
        assert claim.number == f"{kind} {exhibit.number}"
        if claim.called not in ("", "Section 4.4"):
            assert claim.called in [f"{kind} {number}" for number in exhibit.called]
    assert shown == {*tables(), *pictures()} - {"data", "overview"}
    assert claims()["lifts-samplers"].number == "Figure 2(c)–(d)"
    assert claims()["lifts-samplers"].called == "Figure 4"


def test_every_claim_has_a_name_of_its_own():
    assert len(claims()) == len(published._file()["claims"]) == 39
