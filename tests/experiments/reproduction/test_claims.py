"""The verdict on each claim, from records made by hand."""

import numpy as np
import pytest
from handmade_records import figures, put

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.markdown import section_lines
from pspns.experiments.records import Records
from pspns.experiments.reproduction._claim_checks import CAVEATS, CHECKS, PRINTED
from pspns.experiments.reproduction._denoised_worlds import DENOISERS
from pspns.experiments.reproduction._equal_steps import FIXED
from pspns.experiments.reproduction._masks import RANDOM, SPARED, TRAIN
from pspns.experiments.reproduction._theory_section import wider_margins
from pspns.experiments.reproduction.claims import EXPERIMENT, note, printed_words, verdict, where
from pspns.experiments.reproduction.parameters import PARAMETERS
from pspns.experiments.verdicts import WORDS, Verdict, judge

CLAIMS = published.claims()
DATA = ["ml-1m", "epinions", "pinterest", "yelp2018-part"]


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path)


def word(records, name, protocol="strict"):
    return verdict(CLAIMS[name], records, DATA, protocol).word


def why(records, name, protocol="strict"):
    return verdict(CLAIMS[name], records, DATA, protocol).why


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_is_checked_somehow_and_never_fails_without_records(name, records):
    claim = CLAIMS[name]
    assert claim.comparisons or claim.percent is not None or name in CHECKS
    for protocol in ("published", "strict"):
        found = verdict(claim, records, DATA, protocol)
        assert found.word in ("not measured", "cannot be tested")
        assert found.why
    assert printed_words(claim)


def test_checks_are_of_claims_that_there_are():
    assert CHECKS.keys() <= CLAIMS.keys()
    assert PRINTED.keys() <= CLAIMS.keys()
    assert CAVEATS.keys() <= CLAIMS.keys()


def test_the_section_has_a_row_for_every_claim_and_counts_them(records):
    section = EXPERIMENT.section(records, DATA)
    (table,) = section.tables
    assert [heads[0] for heads, _ in table.rows] == [claim.says for claim in CLAIMS.values()]
    for _, cells in table.rows:
        assert all(str(cell).startswith(WORDS) for cell in cells[1:3])
    n_untestable = sum(str(cells[2]).startswith("cannot be tested") for _, cells in table.rows)
    counts = f"{len(CLAIMS) - n_untestable} were not measured, {n_untestable} cannot be tested"
    assert section.words[-2] == f"Under `strict` {counts}."
    assert section.is_shaped_by_test
    assert {"lightgcn-ml-1m-uniform-strict", "mf-epinions-psp-ns-published", "protocol-pinterest"} <= set(
        section.missing
    )


def test_what_was_decided_is_marked_in_the_table_and_in_the_document(records):
    put(records, "uniform", 0.3)
    put(records, "psp-ns", 0.4)
    put(records, "psp-ns", 0.2, protocol="published")
    section = EXPERIMENT.section(records, DATA)
    cells = {heads[0]: cells for heads, cells in section.tables[0].rows}[CLAIMS["lifts-models"].says]
    assert [cell.tone for cell in cells[1:3]] == ["worse", "better"]
    assert str(cells[1]).startswith("**does not hold**: none of 2 comparisons; ")
    assert str(cells[2]).startswith("**holds**: all 2 comparisons; ")
    (line,) = [
        line for line in section_lines(section, "records") if "| **does not hold**: none of 2 comparisons" in line
    ]
    assert "| **holds**: all 2 comparisons" in line


def test_cells_are_those_of_other_experiments_each_once():
    for data, expected in (("ml-1m", True), ("pinterest", False)):
        cells = list(EXPERIMENT.cells(data))
        assert len(cells) == len(set(cells))
        # Noise is the claims' own; the paper has both models on MovieLens-1M and Epinions.
        noisy = {f"{model}-{data}-uniform-strict-noise-0.2" for model in ("lightgcn", "mf")} if expected else set()
        assert {cell.name for cell in cells if cell.changes} == noisy
        assert any(cell.model == "mf" for cell in cells) is expected
        assert {"psp", "psp-ns", "uniform", "pld"} <= {cell.method for cell in cells}


def test_where_a_claim_is_made():
    assert where(CLAIMS["best-of-all"]) == "abstract, 1, 3.6, 4.2; Table 2, called Table 1"
    assert where(CLAIMS["headline-recall"]) == "abstract; Table 2"
    assert where(CLAIMS["built-quickly"]) == "4.2"
    assert where(CLAIMS["inactive-users-gain-by-their-weight"]) == "3.4; Table 4, by way of Section 4.4"


def test_what_is_in_print():
    assert printed_words(CLAIMS["best-of-all"]) == "holds: all 120"
    assert printed_words(CLAIMS["log-weights-best"]).startswith("holds but for 1 of 24: Ml-1m, Precision@20")
    assert printed_words(CLAIMS["denoisers-often-behind"]) == "holds: 48 of 60"
    assert printed_words(CLAIMS["no-leak"]) == "not shown"
    assert printed_words(CLAIMS["headline-precision"]) == "not shown; +22.90 % claimed"
    assert printed_words(CLAIMS["headline-recall"]) == "holds: 17.69 against 13.39 of MixGCF, the best of 10: +32.11 %"
    assert printed_words(CLAIMS["inactive-users-are-harder"]) == (
        "holds in part: 2 of 4 comparisons; fails, for example: Ml-1m: 42.18 against 37.69"
    )
    assert printed_words(CLAIMS["built-quickly"]) == "holds: all 4"


def test_a_comparison_that_holds_here_and_not_there(records):
    put(records, "uniform", 0.3, masked=0.2)
    put(records, "global", 0.2)
    put(records, "merged", 0.25)
    put(records, "global", 0.3, protocol="published")
    put(records, "merged", 0.4, protocol="published")
    assert word(records, "global-with-local", "published") == "holds"
    assert word(records, "global-with-local", "strict") == "does not hold"  # it is said of both, everywhere
    assert why(records, "global-with-local") == (
        "4 of 8 comparisons; fails, for example: MovieLens-1M, Recall@20, W-hop against 1-hop: 25.00 against 30.00; "
        "8 not measured yet; 2 of those that hold are over a method that came out more than 10 % below print"
    )
    put(records, "merged", 0.35)
    assert word(records, "global-with-local") == "holds"


@pytest.mark.parametrize(
    ("ours", "expected", "percent"),
    [(0.132, "holds", "+32.00 %"), (0.12, "holds in part", "+20.00 %"), (0.09, "does not hold", "-10.00 %")],
)
def test_percentages_are_taken_over_the_best_of_the_others(records, ours, expected, percent):
    at = {"data": "yelp2018-part"}
    rivals = [method for method in published.tables()["overall"].methods if method != "psp-ns"]
    put(records, "psp-ns", ours, **at)
    for method in rivals[1:]:
        put(records, method, 0.1 if method == "mixgcf" else 0.05, **at)
    assert word(records, "headline-recall") == "not measured"  # of the first, which may be the best
    put(records, rivals[0], 0.05, **at)
    assert word(records, "headline-recall") == expected
    assert why(records, "headline-recall") == (
        f"Yelp2018 (stand-in), Recall@30, PSP-NS {100 * ours:.2f} against 10.00 of MixGCF, the best of 10: {percent}, "
        "where +32.11 % is claimed"
    )


def test_often_is_more_often_than_not(records):
    put(records, "uniform", 0.3)
    for method, value in (("t-ce", 0.2), ("r-ce", 0.2), ("pld", 0.4)):
        put(records, method, value)
    assert word(records, "denoisers-often-behind") == "holds"
    put(records, "t-ce", 0.5)
    assert word(records, "denoisers-often-behind") == "holds in part"


def test_inactive_users_left_behind_by_denoisers(records):
    put(records, "uniform", 0.3, inactive={"recall@20": 0.3})
    put(records, "t-ce", 0.27, inactive={"recall@20": 0.15})  # others: (270 − 15) / 900 = 28.33
    put(records, "pld", 0.27, inactive={"recall@20": 0.33})
    assert word(records, "denoisers-leave-inactive-users-behind") == "holds in part"
    assert "fails: MovieLens-1M, PLD: Recall@20 +10.0 % for inactive users, -12.2 % for the others" in why(
        records, "denoisers-leave-inactive-users-behind"
    )
    assert word(records, "denoisers-leave-inactive-users-behind", "published") == "not measured"


def test_whether_inactive_users_are_harder(records):
    put(records, "uniform", 0.3, inactive={"recall@20": 0.2})
    put(records, "psp", 0.3, inactive={"recall@20": 0.4}, protocol="published")
    assert word(records, "inactive-users-are-harder") == "holds"
    assert word(records, "inactive-users-are-harder", "published") == "does not hold"
    assert "RNS, inactive users against others: 20.00 against 31.11" in why(records, "inactive-users-are-harder")


def put_masks(records, after, at_random):
    rows = {
        row: {"test": {TRAIN: figures(0.2), SPARED: figures(after), RANDOM: figures(at_random)}}
        for row in ("uniform", "ease")
    }
    records.write("protocol-epinions", {"rows": rows})


def test_a_leak_is_a_mask_that_helps_models_that_never_saw_what_it_hides(records):
    put_masks(records, 0.3, 0.21)
    assert str(verdict(CLAIMS["no-leak"], records, DATA, "published")) == (
        "does not hold: none of 2 models that never saw PSP are left as they are; fails, for example: Epinions, RNS: "
        "Recall@20 20.00 → 30.00, under a random mask of that size 21.00"
    )
    put_masks(records, 0.21, 0.21)
    assert word(records, "no-leak", "published") == "holds"
    assert word(records, "no-leak", "strict") == "cannot be tested"


def test_built_in_seconds(records):
    for data, seconds in (("ml-1m", 0.1234), ("pinterest", 61.0)):
        record = {"seconds": {"all": {"median": seconds}}, "machine": {"device": "H200"}}
        records.write(f"construction-time-{data}", record)
    assert word(records, "built-quickly") == "holds in part"
    assert (
        why(records, "built-quickly") == "1 of 2 data sets; fails: Pinterest (part): 61 s on H200; 2 not measured yet"
    )


def test_stable_over_seeds_is_what_the_paper_states(records):
    # 1.14 % and 0.42 % are stated; the furthest seed is 1 % away.
    put(records, "psp-ns", [0.198, 0.2, 0.202])
    assert word(records, "stable-over-seeds") == "not measured"  # of ten seeds, that is
    put(records, "psp-ns", [0.198, *[0.2] * 8, 0.202])
    assert word(records, "stable-over-seeds") == "holds in part"
    assert why(records, "stable-over-seeds").startswith(
        "1 of 2 figures; fails: MovieLens-1M, Precision@20: 10 seeds up to 1.00 % from their mean, their deviation "
        "0.47 % of it, 0.42 % stated"
    )
    put(records, "psp-ns", [0.2] * 10, protocol="published")
    assert word(records, "stable-over-seeds", "published") == "holds"


def test_what_a_lower_limit_cut_short_decides_nothing(records):
    inactive = dict.fromkeys(("recall@20", "precision@20"), 0.2)
    put(records, "uniform", 0.3, inactive=inactive)
    for limit, found in ((100, "holds"), (50, "not measured")):
        put(records, "psp-ns", 0.4, limit=limit)
        assert word(records, "lifts-models") == found
    for limit, found in ((100, "does not hold"), (50, "not measured")):
        put(records, "t-ce", 0.2, inactive=inactive, limit=limit)
        assert word(records, "denoisers-leave-inactive-users-behind") == found


def test_models_are_lifted_if_both_are(records):
    for model, ours in (("lightgcn", 0.4), ("mf", 0.3)):
        put(records, "uniform", 0.35, model=model)
        put(records, "psp-ns", ours, model=model)
    assert word(records, "lifts-models") == "does not hold"
    found = verdict(CLAIMS["lifts-models"], records, DATA, "strict")
    assert "example: MF, MovieLens-1M, Recall@20, PSP-NS against RNS: 30.00 against 35.00" in found.why
    names = ("mf-ml-1m-psp-ns-strict", "mf-ml-1m-uniform-strict")
    assert [one.records for one in found.outcomes[:2]] == [names, names]


def test_copies_are_also_asked_where_they_come_in_one_step(records):
    put(records, "psp", 0.4)
    put(records, "merged-weighted", 0.3)
    assert word(records, "copies-bring-new-negatives") == "holds in part"
    assert why(records, "copies-bring-new-negatives").endswith("Beside it, not measured: no record yet")
    for together, expected in ((0.35, "holds"), (0.2, "does not hold")):
        put(records, "psp", together, changes=(("training.copies_together", True),))
        assert word(records, "copies-bring-new-negatives") == expected


def put_copies(records, *accuracies, coverage=0.3):
    by_copies = {str(1 + n): {"accuracy": one, "coverage": coverage} for n, one in enumerate(accuracies)}
    observed = {"accuracy": 0.8, "coverage": 0.2}
    records.write("planted-copies", {"worlds": {"planted-clustered": {"observed": observed, **by_copies}}})


def put_builders(records, *, accuracy, coverage):
    builders = {
        "observed": {"accuracy": 0.8, "coverage": 0.2},
        "psp": {"accuracy": accuracy, "coverage": coverage},
        "agreement": {"accuracy": accuracy, "coverage": 0.2},
    }
    records.write("theory-planted-worlds", {"worlds": {"planted-clustered": {"builders": builders}}})


def test_what_builders_make_of_planted_truth(records):
    put_builders(records, accuracy=0.7, coverage=0.3)
    assert word(records, "svd-suppresses-noise") == "does not hold"
    put_builders(records, accuracy=0.9, coverage=0.3)
    assert word(records, "svd-suppresses-noise") == "holds"


def test_how_true_pairs_are_with_so_many_copies(records):
    put_copies(records, 0.7, 0.85)
    assert why(records, "accuracy-and-coverage") == (
        "2 of 3 figures of planted worlds; fails: planted-clustered, accuracy at s = 1: 70.0 % with PSP, "
        "80.0 % as observed"
    )
    put_copies(records, 0.9, 0.95)
    assert word(records, "accuracy-and-coverage") == "holds"
    put_copies(records, 0.9, 0.95, coverage=0.2)  # coverage is one figure, whatever the copies
    assert why(records, "accuracy-and-coverage").startswith("2 of 3 figures")
    assert word(records, "accuracy-and-coverage", "published") == "not measured"


def test_what_is_built_beside_what_denoisers_leave(records):
    left = {method: {"accuracy": [0.8], "coverage": [0.1], "best_step": [5]} for method in DENOISERS}
    records.write("denoised-planted-clustered-mf", {"observed": {}, "denoisers": left})
    put_builders(records, accuracy=0.7, coverage=0.3)
    found = verdict(CLAIMS["truer-than-denoised"], records, DATA, "strict")
    assert found.why == (
        "5 of 10 figures of planted worlds; fails, for example: planted-clustered, accuracy, MF, PSP against T-CE: "
        "70.0 % against 80.0 %; 10 not measured yet"  # LightGCN's
    )
    put_builders(records, accuracy=0.9, coverage=0.3)
    assert word(records, "truer-than-denoised") == "holds"


def test_the_svd_by_itself(records):
    """Under `strict` PSP-NS as trials chose it, under `published` at its defaults, whose mask the SVD's record has."""
    put(records, "psp-ns", 0.2, baselines={"svd": [0.25]}, hits=np.full(40, 1))
    put(records, "psp-ns", 0.4, baselines={"svd": [0.25]}, protocol="published")
    assert word(records, "more-than-the-svd") == "does not hold"
    assert word(records, "more-than-the-svd", "published") == "holds"
    assert why(records, "more-than-the-svd").startswith(
        "none of 2 comparisons; fails, for example: LightGCN, MovieLens-1M, PSP-NS against the svd alone, Recall@20: "
        "20.00 against 25.00"
    )
    for protocol in ("strict", "published"):
        cell = Cell("ml-1m", "lightgcn", "psp-ns", protocol)
        records.write(f"trials-{cell.name}", {"trials": [], "chosen": {"positives.rank": 30}})
        tuned = 0.3 if protocol == "strict" else 0.1
        put(records, "psp-ns", tuned, valid=0.9, protocol=protocol, changes=(("positives.rank", 30),))
    assert word(records, "more-than-the-svd") == "holds"
    assert word(records, "more-than-the-svd", "published") == "holds"


def test_whether_weights_help_inactive_users_more(records):
    put(records, "psp", 0.2, inactive={"recall@20": 0.2})
    put(records, "psp-ns", 0.21, inactive={"recall@20": 0.22})  # +10 %; others: (210 − 22) / 900 = 20.89, +4.4 %
    assert word(records, "weights-lessen-activity-bias") == "holds"
    assert why(records, "weights-lessen-activity-bias").startswith(
        "MovieLens-1M: Recall@20 +10.0 % for inactive users, +4.4 % for the others (not tested)"
    )
    put(records, "psp-ns", 0.21, inactive={"recall@20": 0.205})
    assert word(records, "weights-lessen-activity-bias") == "does not hold"
    put(records, "psp-ns", 0.21, inactive={"recall@20": 0.205}, limit=50)
    assert why(records, "weights-lessen-activity-bias").startswith("1 not compared: a lower limit")
    assert printed_words(CLAIMS["weights-lessen-activity-bias"]) == (
        "holds but for 1 of 4: Ml-1m: Recall@20 +1.9 % for inactive users, +2.6 % for the others"
    )


def test_what_was_checked_for_less_than_the_paper_did_is_not_refuted_by_one_comparison(records):
    put(records, "psp", 0.3)
    for method, value in (("psp-ns", 0.4), ("inverse-sqrt", 0.2)):
        put(records, method, value)
    assert word(records, "user-weights-help") == "holds in part"
    assert "a failure is no last word" in note(CLAIMS["user-weights-help"])
    assert note(CLAIMS["best-of-all-with-mf"]) is None
    # Weights at the sensitivity that validation chose say it otherwise, and are told beside it.
    sensitivity = PARAMETERS["sensitivity-has-a-best-value"]
    put(records, "psp", 0.3, changes=FIXED, steps=20_000)
    for number, value in enumerate(sensitivity.values("ml-1m")):
        test, valid = (0.25, 0.9) if number == 1 else (0.4, 0.1)
        put(records, "psp-ns", test, valid=valid, changes=(*FIXED, *sensitivity.changes(value)), steps=20_000)
    assert word(records, "user-weights-help") == "does not hold"
    assert (
        "none of 2 comparisons; fails, for example: MovieLens-1M, Recall@20 after 20,000 steps, PSP-NS at a = 0.005, "
        "which validation chose, against W-ew: 25.00 against 30.00"
    ) in why(records, "user-weights-help")


def test_who_is_above_methods_that_came_out_far_below_print_is_told(records):
    put(records, "psp-ns", 0.4, model="mf")
    put(records, "pld", 0.22, model="mf")  # 25.59 and 12.20 are printed, Recall@30 32.36, Precision@30 10.66
    put(records, "uniform", 0.3, model="mf")  # 23.63, 30.18
    assert why(records, "best-of-all-with-mf") == (
        "all 8 comparisons; 64 not measured yet; 2 of those that hold are over a method that came out more than 10 % "
        "below print"
    )


def test_what_is_missing_for_a_percentage_is_named(records):
    put(records, "psp-ns", 0.4, data="yelp2018-part")
    put(records, "uniform", 0.2, data="yelp2018-part")
    assert why(records, "headline-recall") == (
        "2 of 11 methods have records; missing DNS, MixGCF, DNS(M,N), AHNS, T-CE, R-CE, DeCA, DCF, PLD"
    )


@pytest.mark.parametrize(
    ("accuracy", "left", "expected"),
    [
        (0.8, 0.1, "holds"),
        (0.81, 0.1, "does not hold"),  # truer than what was there
        (0.8, 0.2, "does not hold"),  # no true pair went
    ],
)
def test_what_denoisers_keep_of_planted_truth(accuracy, left, expected, records):
    of_each = {"accuracy": [accuracy] * 2, "coverage": [left] * 2, "best_step": [40, 1080]}
    figures_of_all = dict.fromkeys(DENOISERS, of_each)
    observed = {"accuracy": 0.8, "coverage": 0.2}
    records.write("denoised-planted-clustered-mf", {"observed": observed, "denoisers": figures_of_all})
    found = verdict(CLAIMS["denoisers-err"], records, DATA, "strict")
    assert found.word == expected
    assert found.why.endswith("25 not measured yet")  # of 5 denoisers in 3 worlds with 2 models
    assert found.outcomes[0].figures.endswith("; best after 40 to 1,080 steps")
    assert {one.records for one in found.outcomes} == {("denoised-planted-clustered-mf",)}


def put_theory(records, *, ours, by_sgd, by_adam):
    def changes(mean):
        return {name: {"mean": mean, "error": 1e-7} for name in ("test", "test, against the best")}

    steps = {
        kind: {"sgd": changes(mean), "adam": changes(2e-6)}
        for kind, mean in (("psp-ns, mean 1", ours), ("observed", 2e-6))
    }
    growth = {"sgd": {"own": {"means": by_sgd}}, "adam": {"own": {"means": by_adam}}}
    records.write("theory-ml-1m", {"one_step": [steps, steps], "growth": [growth], "factors": [0.5, 1.0, 2.0, 4.0]})


def test_margins_that_a_step_widens(records):
    put_theory(records, ours=3e-6, by_sgd=[1.0] * 4, by_adam=[1.0] * 4)
    assert word(records, "wider-margins") == "holds in part"
    assert why(records, "wider-margins").startswith(
        "2 of 4 changes of margins; fails, for example: MovieLens-1M, margins by a step of Adam, held-out: 2.0 ± 0.1 "
        "against 2.0 ± 0.1 millionths (within two standard errors)"
    )
    put_theory(records, ours=1e-6, by_sgd=[1.0] * 4, by_adam=[1.0] * 4)
    assert word(records, "wider-margins") == "does not hold"
    assert word(records, "wider-margins", "published") == "not measured"  # steps are over the pairs of strict
    put(records, "uniform", 0.2)
    put(records, "psp-ns", 0.3)
    assert word(records, "wider-margins") == "does not hold"  # looked at in two ways, it must hold in both
    put_theory(records, ours=3e-6, by_sgd=[1.0] * 4, by_adam=[1.0] * 4)
    assert word(records, "wider-margins") == "holds in part"


@pytest.mark.parametrize("ours", [1e-6, 1.9e-6, 2e-6, 2.1e-6, 3e-6])
def test_section_and_claim_judge_margins_alike(records, ours):
    """2.1 is above 2.0, but by less than two standard errors of the difference, each mean being ± 0.07."""
    put_theory(records, ours=ours, by_sgd=[1.0] * 4, by_adam=[1.0] * 4)
    record = records.find("theory-ml-1m")
    by_section = [one.holds for one in wider_margins(record)]
    assert by_section == [ours > 2.5e-6, ours > 2.5e-6, False, False]
    record["one_step"] = [
        {kind: {**of, "adam": of["sgd"]} for kind, of in steps.items()} for steps in record["one_step"]
    ]
    records.write("theory-ml-1m", record)
    by_claim = CHECKS["wider-margins"](records, DATA, "strict")
    assert by_claim.word == judge(wider_margins(record)).word == ("holds" if ours > 2.5e-6 else "does not hold")


def test_margins_that_grow_with_the_weight(records):
    put_theory(records, ours=3e-6, by_sgd=[0.6, 1.0, 2.0, 4.1], by_adam=[0.99, 1.0, 1.02, 1.06])
    assert str(verdict(CLAIMS["inactive-users-gain-by-their-weight"], records, DATA, "strict")) == (
        "holds in part: 1 of 2 growths of margins with the weight; fails: MovieLens-1M, Adam: with 4 times the weight "
        "1.06 times the change (R² of a line 1.000); 2 not measured yet. Beside it, not measured: no record yet"
    )
    put_theory(records, ours=3e-6, by_sgd=[0.6, 1.0, 3.0, 2.5], by_adam=[0.99, 1.0, 1.02, 1.06])
    assert word(records, "inactive-users-gain-by-their-weight") == "does not hold"
    assert word(records, "inactive-users-gain-by-their-weight", "published") == "not measured"


def test_harm_of_false_pairs(records):
    put(records, "uniform", 0.25, masked=0.24, model="mf")
    assert word(records, "false-pairs-harm") == "not measured"
    # Noise is part of the fingerprint of the data, and not of the test.
    noisy = {"model": "mf", "masked": 0.25, "changes": (("data.noise", 0.2),), "fingerprint": "noised"}
    put(records, "uniform", 0.22, **noisy)
    assert why(records, "false-pairs-harm").startswith(
        "MovieLens-1M, MF, Recall@20: 22.00 with 20 % of false pairs added, 25.00 without"
    )
    assert word(records, "false-pairs-harm") == "holds"
    assert word(records, "false-pairs-harm", "published") == "does not hold"
    put(records, "uniform", 0.22, limit=50, **noisy)
    assert why(records, "false-pairs-harm").startswith("1 not compared: a lower limit of steps stopped one of the two")


def test_luck_is_told_in_a_verdict(records):
    hits = np.zeros(40, int)
    one, other = hits.copy(), hits.copy()
    one[:12], other[20:28] = 3, 3
    put(records, "psp-ns", 0.3, hits=one, data="epinions")
    put(records, "uniform", 0.2, hits=other, data="epinions")
    found = verdict(CLAIMS["lifts-models"], records, DATA, "strict")
    assert any("Recall@20, PSP-NS against RNS: 30.00 against 20.00 (p = " in str(one) for one in found.outcomes)
    assert "may be luck" in found.why


def test_what_cannot_be_tested_says_why(records):
    for name in ("construction-cost", "mixgcf-needs-layers"):
        assert verdict(CLAIMS[name], records, DATA, "strict").why
        assert word(records, name) == "cannot be tested"
    assert str(Verdict("holds")) == "holds"
