"""R-CE: the weight of a row, and what it does to the gradient."""

import numpy as np
import pytest
from denoiser_worlds import denoised, rows_scored, same_bits, softplus, train
from toy import toy_world

from pspns.denoising.none import NoDenoising
from pspns.denoising.r_ce import ReweightedLoss
from pspns.errors import SettingsError

WORLD = toy_world()
LOSSES = ("bpr", "bce")
BETAS = (0.05, 0.2, 0.5, 1.0)


def judged(positive, negative, beta=0.2, loss="bpr"):
    """What the part says, and the rows with their gradients."""
    rows = rows_scored(positive, negative)
    found = ReweightedLoss(beta=beta).start(denoised(WORLD, loss=loss), [0]).judge(rows)
    found.losses.sum().backward()
    return found, rows


def sigmoid(x):
    return np.exp(-softplus(-np.asarray(x)))


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("loss", LOSSES)
def test_without_beta_it_is_plain_training_to_the_bit(model, loss):
    plain = train(WORLD, NoDenoising(), model=model, loss=loss)
    assert same_bits(train(WORLD, ReweightedLoss(beta=0.0), model=model, loss=loss), plain)
    assert not same_bits(train(WORLD, ReweightedLoss(beta=0.05), model=model, loss=loss), plain)


@pytest.mark.parametrize("beta", BETAS)
def test_a_weight_is_the_power_of_a_probability_and_grows_strictly_with_the_margin(beta):
    margins = np.arange(-30, 8, 0.25)
    found, _ = judged(margins + 1, np.ones_like(margins), beta)
    np.testing.assert_allclose(found.kept[0], sigmoid(margins) ** beta, rtol=1e-5)
    assert (found.kept.diff() > 0).all()


@pytest.mark.parametrize("beta", BETAS)
def test_with_bce_both_labels_are_weighted_each_by_its_own_score(beta):
    scores = np.arange(-8, 8, 0.25)
    grid = np.stack(np.meshgrid(scores, scores)).reshape(2, -1)
    found, _ = judged(*grid, beta, "bce")
    own, others = sigmoid(grid[0]) ** beta, sigmoid(-grid[1]) ** beta
    np.testing.assert_allclose(found.kept[0], own, rtol=1e-5)  # what is reported is the positive's
    expected = (own * softplus(-grid[0]) + others * softplus(grid[1])) / 2
    np.testing.assert_allclose(found.losses.detach()[0], expected, rtol=1e-5)


@pytest.mark.parametrize("beta", BETAS)
def test_with_bpr_the_loss_is_weighted_and_not_scaled_to_mean_one(beta):
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(size=(2, 50)).astype(np.float32)
    found, _ = judged(positive, negative, beta)
    margins = positive.astype(float) - negative
    np.testing.assert_allclose(found.losses.detach()[0], sigmoid(margins) ** beta * softplus(-margins), rtol=1e-5)


@pytest.mark.parametrize("beta", BETAS)
def test_the_gradient_is_that_of_the_loss_times_the_weight_which_has_none(beta):
    rng = np.random.default_rng(1)
    positive, negative = 3 * rng.normal(size=(2, 50)).astype(np.float32)
    margins = positive.astype(float) - negative
    _, rows = judged(positive, negative, beta)
    expected = sigmoid(margins) ** beta * sigmoid(-margins)
    np.testing.assert_allclose(rows.positive.grad[0], -expected, rtol=1e-4)
    np.testing.assert_allclose(rows.negative.grad[0], expected, rtol=1e-4)
    _, rows = judged(positive, negative, beta, "bce")
    np.testing.assert_allclose(rows.positive.grad[0], -(sigmoid(positive) ** beta) * sigmoid(-positive) / 2, rtol=1e-4)
    np.testing.assert_allclose(rows.negative.grad[0], sigmoid(-negative) ** beta * sigmoid(negative) / 2, rtol=1e-4)


@pytest.mark.parametrize("beta", BETAS)
def test_the_gradient_is_largest_where_the_paper_says(beta):
    p = np.arange(0.001, 1, 0.001)
    scores = np.log(p / (1 - p))
    of_pairs = judged(scores, np.zeros_like(scores), beta)[1].positive.grad
    _, rows = judged(scores, -scores, beta, "bce")
    for gradient in (of_pairs, rows.positive.grad, rows.negative.grad):
        assert p[int(gradient[0].abs().argmax())] == pytest.approx(beta / (1 + beta), abs=0.0011)


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_far_out_leave_everything_finite(loss):
    found, rows = judged([-300.0, 300.0, 0.0], [300.0, -300.0, 0.0], 1.0, loss)
    for values in (found.losses, found.kept, rows.positive.grad, rows.negative.grad):
        assert values.isfinite().all()
    assert found.kept[0, 0] < 1e-30
    assert found.kept[0, 1] == 1


def test_a_training_reports_the_weights_it_gave():
    found = train(WORLD, ReweightedLoss(beta=1.0), steps=12)
    for weights in found.pair_weights:
        # At first all probabilities are about a half; a little later, a little more.
        assert ((weights > 0.3) & (weights < 1)).all()
        assert weights.mean() > 0.5
        assert len(set(weights)) > len(weights) / 2


def test_no_state_is_kept():
    assert ReweightedLoss().start(denoised(WORLD), [0]).state() == {}


@pytest.mark.parametrize(
    ("beta", "message"),
    [
        (-0.1, r"beta must be at least 0, got -0.1; change \[denoiser\] beta"),
        (float("nan"), r"beta must be a finite number, got nan; change \[denoiser\] beta"),
        (float("inf"), r"beta must be a finite number, got inf"),
    ],
)
def test_settings_that_cannot_be(beta, message):
    with pytest.raises(SettingsError, match=message):
        ReweightedLoss(beta=beta)
