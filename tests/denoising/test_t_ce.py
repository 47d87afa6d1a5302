"""T-CE: which rows are left out, how many, and what the others then count."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from denoiser_worlds import denoised, planted_world, rows_scored, same_bits, softplus, train
from scipy import stats
from toy import toy_world

from pspns.denoising.none import NoDenoising
from pspns.denoising.t_ce import TruncatedLoss
from pspns.errors import SettingsError
from pspns.negatives.mixgcf import MixedNegatives

WORLD, LONG = toy_world(), toy_world(n_pairs=600)
LOSSES = ("bpr", "bce")


def at_once(**settings):
    """Settings whose ramp is up after the first step."""
    return TruncatedLoss(**{"ramp_steps": 1, **settings})


def started(part, worlds=(WORLD,), loss="bpr", steps=0):
    """At work, after so many steps."""
    denoiser = part.start(denoised(*worlds, loss=loss), [0] * len(worlds))
    for _ in range(steps):
        denoiser.judge(rows_scored(*np.zeros((2, len(worlds), 1))))
    return denoiser


def sigmoid(x):
    return np.exp(-softplus(-x))


def slow_rule(loss, share, positive, negative, live, rank_by="loss"):
    """One replica's mean over what is kept, and which positives are, in double precision."""
    rows = [row for row in range(len(live)) if live[row]]
    n = len(rows) * (2 if loss == "bce" else 1)
    n_kept = max(1, math.floor((1 - share) * n))
    of_pairs, of_positives, of_negatives = softplus(negative - positive), softplus(-positive), softplus(negative)
    key = of_positives if loss == "bce" or rank_by == "positive" else of_pairs
    by_size = sorted(rows, key=lambda row: key[row])
    if loss == "bpr":
        kept = by_size[:n_kept]
        return np.mean(of_pairs[kept]), kept
    kept = by_size[: max(0, n_kept - len(rows))]
    kept_negatives = rows[-min(len(rows), n_kept) :]
    return (of_positives[kept].sum() + of_negatives[kept_negatives].sum()) / n_kept, kept


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rank_by", ["loss", "positive"])
def test_nothing_left_out_is_plain_training_to_the_bit(model, loss, rank_by):
    plain = train(WORLD, NoDenoising(), model=model, loss=loss)
    assert same_bits(train(WORLD, at_once(drop_rate=0.0, rank_by=rank_by), model=model, loss=loss), plain)
    assert not same_bits(train(WORLD, at_once(drop_rate=0.05, rank_by=rank_by), model=model, loss=loss), plain)


def test_nothing_left_out_is_plain_training_also_where_autograd_takes_the_step():
    plain, found, other = (
        train(WORLD, part, model="lightgcn", negatives=MixedNegatives(candidates=3))
        for part in (NoDenoising(), at_once(drop_rate=0.0), at_once())
    )
    assert same_bits(found, plain)
    assert not same_bits(other, plain)


@pytest.mark.parametrize("drop_rate", [0.1, 0.29, 0.6])
@pytest.mark.parametrize("rank_by", ["loss", "positive"])
@pytest.mark.parametrize("loss", LOSSES)
def test_leaves_out_the_largest_losses_all_the_way_up_the_ramp(loss, rank_by, drop_rate):
    """Two replicas whose epochs, and so ramps, differ; some rows are dead."""
    part = TruncatedLoss(drop_rate=drop_rate, ramp_epochs=0.75, rank_by=rank_by)
    worlds = (WORLD, LONG)
    lengths = [Fraction(3, 4) * n for n in denoised(*worlds).batches_an_epoch]
    denoiser, rng = started(part, worlds, loss), np.random.default_rng(1)
    for step in range(12):
        positive, negative = rng.normal(size=(2, 2, 50)).astype(np.float32) * 2
        live = (rng.random((2, 50)) < 0.8).astype(np.float32)
        judged = denoiser.judge(rows_scored(positive, negative, live=live))
        for replica, length in enumerate(lengths):
            share = Fraction(str(drop_rate)) * min(step / length, Fraction(1))
            expected, kept = slow_rule(
                loss, share, *(side[replica].astype(float) for side in (positive, negative)), live[replica], rank_by
            )
            found = (judged.losses[replica].detach().numpy() * live[replica]).sum() / live[replica].sum()
            assert found == pytest.approx(expected, rel=1e-5)
            assert np.flatnonzero(judged.kept[replica].numpy() * live[replica]).tolist() == sorted(kept)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_left_out_has_no_gradient_and_the_rest_the_gradient_of_the_mean(loss):
    rng = np.random.default_rng(2)
    positive, negative = rng.normal(size=(2, 10)).astype(np.float32)
    rows = rows_scored(positive, negative)
    judged = started(at_once(drop_rate=0.2), loss=loss, steps=1).judge(rows)
    judged.losses.mean().backward()
    kept = judged.kept[0].bool().numpy()
    if loss == "bpr":
        assert kept.sum() == 8
        slope = np.where(kept, sigmoid(negative - positive), 0) / 8
        expected = -slope, slope
    else:
        assert kept.sum() == 6  # of 20 samples 4 are left out
        expected = np.where(kept, sigmoid(positive) - 1, 0) / 16, sigmoid(negative) / 16
    np.testing.assert_allclose(rows.positive.grad[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(rows.negative.grad[0], expected[1], rtol=1e-5)
    assert (rows.positive.grad[0].numpy()[~kept] == 0).all()


@pytest.mark.parametrize("drop_rate", [0.05, 0.2, 0.35, 0.49])
def test_with_bce_no_negative_goes_and_of_the_positives_twice_the_share(drop_rate):
    rng = np.random.default_rng(3)
    rows = rows_scored(*rng.normal(size=(2, 1000)))
    judged = started(at_once(drop_rate=drop_rate), loss="bce", steps=1).judge(rows)
    judged.losses.sum().backward()
    assert (rows.negative.grad > 0).all()
    assert int((judged.kept == 0).sum()) == round(2 * drop_rate * 1000)
    assert ((rows.positive.grad == 0) == (judged.kept == 0)).all()


def test_with_bce_negatives_go_once_no_positive_is_left():
    positive, negative = np.zeros(10), np.linspace(-1, 1, 10)
    rows = rows_scored(positive, negative)
    judged = started(at_once(drop_rate=0.7), loss="bce", steps=1).judge(rows)
    judged.losses.sum().backward()
    assert not judged.kept.any()
    assert not rows.positive.grad.any()
    assert int((rows.negative.grad > 0).sum()) == 6
    assert float(judged.losses.detach().mean()) == pytest.approx(softplus(negative[4:]).mean(), rel=1e-5)


def test_one_row_stays_in_a_batch_of_one():
    rows = rows_scored([-3.0, 1.0], [2.0, 1.0], live=[1.0, 0.0])
    judged = started(at_once(drop_rate=0.9), steps=1).judge(rows)
    assert judged.kept[0, 0] == 1
    assert float(judged.losses.detach()[0, 0]) == pytest.approx(softplus(5.0))
    # With bce one sample of the two: the negative.
    judged = started(at_once(drop_rate=0.9), loss="bce", steps=1).judge(rows)
    assert judged.kept[0, 0] == 0
    assert float(judged.losses.detach()[0, 0]) == pytest.approx(softplus(2.0))


@pytest.mark.parametrize("loss", LOSSES)
def test_dead_rows_are_neither_counted_nor_left_out_instead_of_others(loss):
    rng = np.random.default_rng(4)
    positive, negative = rng.normal(size=(2, 30))
    alone = started(at_once(), loss=loss, steps=1).judge(rows_scored(positive, negative))
    # Among them some with by far the largest losses.
    positive, negative = np.append(positive, np.full(34, -50.0)), np.append(negative, np.full(34, 50.0))
    live = np.arange(64) < 30
    filled = started(at_once(), loss=loss, steps=1).judge(rows_scored(positive, negative, live=live))
    torch.testing.assert_close(filled.losses[:, :30], alone.losses)
    assert torch.equal(filled.kept[:, :30], alone.kept)


def test_the_positive_alone_may_decide():
    """Row 0 has the worst positive, row 3 the worst pair, because its negative is liked."""
    rows = rows_scored([-2.0, 0.0, 1.0, 1.0, 2.0], [-3.0, 0.0, 0.0, 9.0, 0.0])
    for rank_by, expected in (("loss", [1, 1, 1, 0, 1]), ("positive", [0, 1, 1, 1, 1])):
        assert started(at_once(rank_by=rank_by), steps=1).judge(rows).kept.tolist() == [expected]


def test_a_training_reports_which_pairs_were_left_out():
    """Between the last two looks lies one epoch: each pair's weight is 0 or 1."""
    n, batch = len(WORLD.pairs), 100
    n_batches = -(-n // batch)
    sizes = [batch] * (n_batches - 1) + [n - batch * (n_batches - 1)]
    for loss, twice in (("bpr", 1), ("bce", 2)):
        found = train(WORLD, at_once(drop_rate=0.15), loss=loss, steps=3 * n_batches, evaluate_every=n_batches)
        for weights in found.pair_weights:
            assert set(weights) == {0.0, 1.0}
            assert (weights == 0).sum() == sum(twice * k - math.floor(Fraction(85, 100) * twice * k) for k in sizes)


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("loss", LOSSES)
def test_random_positives_are_left_out_more_often_than_others(model, loss):
    """If which pairs go had nothing to do with noise, this would fail in all but one of 10⁹ worlds."""
    world, is_false = planted_world()
    n_batches = -(-len(world.pairs) // 100)
    found = train(
        world, at_once(drop_rate=0.1), model=model, loss=loss, steps=20 * n_batches, evaluate_every=n_batches, seeds=[0]
    )
    is_dropped = found.pair_weights[0] == 0
    n_false_dropped = int((is_dropped & is_false).sum())
    p = stats.hypergeom.sf(n_false_dropped - 1, len(is_false), is_false.sum(), is_dropped.sum())
    assert p < 1e-9
    assert n_false_dropped / is_dropped.sum() > 2 * is_false.mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drop_rate": 1.0}, r"drop_rate must be at least 0 and below 1, got 1; change \[denoiser\] drop_rate"),
        ({"drop_rate": -0.2}, r"drop_rate must be at least 0 and below 1, got -0.2"),
        ({"ramp_epochs": 0.0}, r"ramp_epochs must be above 0, got 0; change \[denoiser\] ramp_epochs"),
        ({"ramp_steps": 0}, r"ramp_steps must be at least 1, got 0; change \[denoiser\] ramp_steps"),
        ({"rank_by": "score"}, r"rank_by must be loss or positive, got 'score'; change \[denoiser\] rank_by"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingsError, match=message):
        TruncatedLoss(**settings)
