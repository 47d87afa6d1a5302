"""The verdict on tables made by hand, and how figures are written."""

from __future__ import annotations

import numpy as np
import pytest

from pspns.report.comparison import Row, Table
from pspns.report.words import cell, kept, percent, title, verdict

N_USERS = 200
NOISE = np.random.default_rng(0).normal(0, 0.05, N_USERS)


def row(label: str, level: float, *, has_loop: bool, noise: float = 0.0, is_unfinished: bool = False) -> Row:
    values = level + noise * NOISE
    return Row(label, "", has_loop, is_unfinished, {"recall@20": float(values.mean())}, {}, {}, {"recall@20": values})


def table(*rows: Row) -> Table:
    return Table(protocol="strict", meaning="", warning="", data="", n_users=N_USERS, n_cold=0, rows=list(rows))


@pytest.mark.parametrize(
    ("trained_level", "more_or_less", "ending"),
    [
        (0.25, "5.00 points less", "On these data, the model without a training loop is better."),
        (0.35, "5.00 points more", "On these data, the training loop pays."),
    ],
)
def test_the_verdict_says_which_is_better(trained_level, more_or_less, ending):
    said = verdict(
        table(row("mf", trained_level, has_loop=True), row("ease", 0.3, has_loop=False)),
        "recall@20",
    )
    assert said.startswith(f"By Recall@20, mf reaches {percent(trained_level)} and ease 30.00 %: {more_or_less}")
    assert "95 % interval over 200 users" in said
    assert said.endswith(ending)


def test_the_verdict_admits_what_cannot_be_told_apart():
    said = verdict(
        table(row("mf", 0.3, has_loop=True, noise=1.0), row("ease", 0.3, has_loop=False)),
        "recall@20",
    )
    assert said.endswith("On these data, the two cannot be told apart.")


def test_the_verdict_is_about_the_best_of_both_kinds():
    said = verdict(
        table(
            row("popular", 0.1, has_loop=False),
            row("mf (worse)", 0.2, has_loop=True),
            row("mf (better)", 0.4, has_loop=True),
            row("ease", 0.3, has_loop=False),
        ),
        "recall@20",
    )
    assert said.startswith("By Recall@20, mf (better) reaches 40.00 % and ease 30.00 %")
    assert "popular" not in said
    assert "worse" not in said


def test_models_of_one_kind_are_compared_without_a_word_on_loops():
    said = verdict(table(row("svd", 0.3, has_loop=False), row("ease", 0.4, has_loop=False)), "recall@20")
    assert said.startswith("By Recall@20, ease reaches 40.00 % and svd 30.00 %: 10.00 points more")
    assert "loop" not in said


def test_one_model_alone_is_not_compared():
    said = verdict(table(row("mf", 0.3, has_loop=True)), "recall@20")
    assert said == "mf reaches 30.00 % by Recall@20; there is nothing beside it."


def test_titles():
    shown = [title(metric) for metric in ("recall@20", "hit-rate@5", "ndcg@10", "mrr@1", "map@3", "item-coverage@20")]
    assert shown == ["Recall@20", "Hit rate@5", "NDCG@10", "MRR@1", "MAP@3", "Item coverage@20"]


def test_cells():
    assert cell("recall@20", 0.24312, None) == "24.31"
    assert cell("recall@20", 0.24312, 0.0012) == "24.31 ± 0.12"
    assert cell("mean-popularity@20", 1812.3, 4.0) == "1,812"


def test_training_that_ended_at_its_last_step_lets_nobody_conclude():
    unfinished = row("mf", 0.2, has_loop=True, is_unfinished=True)
    said = verdict(table(unfinished, row("ease", 0.3, has_loop=False)), "recall@20")
    assert said.endswith("But the best step of mf was its last: train longer before you draw a conclusion.")
    ahead = row("mf", 0.4, has_loop=True, is_unfinished=True)
    assert verdict(table(ahead, row("ease", 0.3, has_loop=False)), "recall@20").endswith("the training loop pays.")


def test_what_was_kept_is_the_mean_over_the_seeds_that_met_such_pairs():
    # With few false pairs, a seed may have met none since its last look but one.
    of_seeds = [{"all": 0.5, "true": 0.5}, {"all": 0.7, "true": 0.8, "false": 0.2}]
    for seeds in (of_seeds, of_seeds[::-1]):
        said = kept({"name": "r-ce", "kept_at_last_step": seeds})
        assert said == "In the end, r-ce kept 0.65 of the weight of true pairs and 0.20 of that of false ones."
    assert (
        kept({"name": "r-ce", "kept_at_last_step": of_seeds[:1]})
        == "In the end, r-ce kept 0.50 of the weight of pairs."
    )
    assert kept({"name": "none", "kept_at_last_step": [{}, {}]}) == ""
