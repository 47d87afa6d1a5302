"""AHNS against a loop over candidates, and at the edges of its rule."""

import numpy as np
import pytest
import torch
from sampler_worlds import SmallWorld, batch_of, each_row, view_with_scores

from pspns.errors import SettingsError
from pspns.negatives.ahns import AdaptiveNegatives
from pspns.negatives.dns import DynamicNegatives
from pspns.negatives.uniform import UniformNegatives


def target(part, positive):
    base = positive + part.alpha
    if part.least_base is not None and base < part.least_base:
        base = part.least_base
    return part.beta * base ** (part.power + 1)


PARTS = [
    AdaptiveNegatives(candidates=1),
    AdaptiveNegatives(candidates=6),
    AdaptiveNegatives(),
    AdaptiveNegatives(candidates=6, alpha=0.1, beta=0.4),
    AdaptiveNegatives(candidates=6, alpha=-0.5, beta=2.0),
    AdaptiveNegatives(candidates=6, power=-1.0, beta=0.7),
    AdaptiveNegatives(candidates=6, power=-3.0),
    AdaptiveNegatives(candidates=6, power=1.0),
    AdaptiveNegatives(candidates=6, least_base=0.05),
    AdaptiveNegatives(candidates=6, power=-1.5, least_base=0.2),
]


@pytest.mark.parametrize("n_layers", [0, 2])
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_is_the_candidate_nearest_to_the_target(part, n_layers):
    world = SmallWorld(part, n_layers=n_layers)
    scores, n_below = world.scores, 0
    for number in range(4):
        batch = world.batch(number)
        pool, found = world.pool(batch), world.items(batch)
        for replica, row, user, item in each_row(batch):
            own = scores[replica, user]
            wanted = target(part, own[item])
            distances = [abs(own[candidate] - wanted) for candidate in pool[replica, row]]
            # Next to the pole targets are so large that float32 cannot tell the candidates' distances apart.
            assert abs(own[found[replica, row]] - wanted) <= min(distances) * (1 + 1e-6) + 1e-6
            if abs(wanted) < 50:
                assert found[replica, row] == pool[replica, row][np.argmin(distances)]
            n_below += own[item] < -part.alpha
    assert n_below > 50  # the rows where the rule turns round were among them


def test_a_high_beta_is_dns():
    # α keeps all positives above the pole; β puts the target, about 80, above all scores.
    one, dns = (
        SmallWorld(AdaptiveNegatives(candidates=6, alpha=50.0, beta=4000.0)),
        SmallWorld(DynamicNegatives(candidates=6)),
    )
    assert np.abs(one.scores).max() < 20
    for number in range(5):
        batch = dns.batch(number)
        assert np.array_equal(one.items(batch), dns.items(batch))


def test_one_candidate_is_a_uniform_draw():
    one, uniform = SmallWorld(AdaptiveNegatives(candidates=1)), SmallWorld(UniformNegatives())
    for number in range(5):
        assert np.array_equal(one.items(one.batch(number)), uniform.items(uniform.batch(number)))


@pytest.mark.parametrize(("alpha", "beta", "power"), [(1.0, 0.1, -2.0), (0.1, 0.4, -2.0), (2.0, 0.5, -3.0)])
def test_the_target_falls_as_the_positive_rises(alpha, beta, power):
    positive = torch.linspace(-alpha + 0.01, 6.0, 200)
    found = AdaptiveNegatives(alpha=alpha, beta=beta, power=power).target(positive)
    assert (found.diff() < 0).all()
    assert (found > 0).all()
    torch.testing.assert_close(found, beta * (positive + alpha) ** (power + 1))


def test_the_better_the_positive_the_easier_the_negative():
    # Candidates of scores 0, 0.1, …, 1.2; the target β / (s + α) is 1, 0.5 and 0.25 for positives of 0, 1 and 3.
    scores = np.array([[0.0, *np.arange(13) / 10], [1.0, *np.arange(13) / 10], [3.0, *np.arange(13) / 10]])
    owned = np.zeros((1, 3, 14), bool)
    owned[:, :, 0] = True
    part = AdaptiveNegatives(candidates=400, alpha=1.0, beta=1.0)
    world = SmallWorld(part, owned=owned, own_sets=(0,), seeds=(0,), view=view_with_scores(scores))
    found = world.items(batch_of([[0, 1, 2]], [[0, 0, 0]]))
    assert scores[[0, 1, 2], found[0]].tolist() == pytest.approx([1.0, 0.5, 0.2], abs=0.051)


def test_power_minus_one_has_one_target_for_all_positives():
    part = AdaptiveNegatives(power=-1.0, beta=0.3)
    positives = torch.tensor([-50.0, -1.0, 0.0, 0.5, 50.0])  # -1 is where s + α is 0
    assert torch.equal(part.target(positives), torch.full((5,), 0.3))
    world = SmallWorld(AdaptiveNegatives(candidates=300, power=-1.0, beta=0.3))
    batch = world.batch()
    found, scores = world.items(batch), world.scores
    for replica, row, user, _ in each_row(batch):
        distances = np.where(world.free[replica, user], np.abs(scores[replica, user] - 0.3), np.inf)
        assert found[replica, row] == distances.argmin()


def world_with_a_positive_of(score, **settings):
    """One user; the positive is item 0, the candidates are all others, of scores −3, …, 3."""
    scores = np.array([[score, *range(-3, 4)]], np.float64)
    owned = np.array([[[True, *[False] * 7]]])
    part = AdaptiveNegatives(candidates=300, **settings)
    world = SmallWorld(part, owned=owned, own_sets=(0,), seeds=(0,), view=view_with_scores(scores))
    return scores[0][world.items(batch_of([[0] * 20], [[0] * 20]))][0]


def test_below_the_pole_negatives_are_the_easiest_unless_least_base_is_set():
    # 0.1 / (−1.01 + 1) = −10, and with a base of at least 0.01 it is 10.
    assert (world_with_a_positive_of(-1.01) == -3).all()
    assert (world_with_a_positive_of(-1.01, least_base=0.01) == 3).all()
    assert (world_with_a_positive_of(-40.0, least_base=0.01) == 3).all()
    # Above it nothing changes: 0.1 / (−0.95 + 1) = 2.
    assert (world_with_a_positive_of(-0.95) == 2).all()
    assert (world_with_a_positive_of(-0.95, least_base=0.01) == 2).all()


def test_at_the_pole_the_negative_is_still_a_free_item():
    assert set(world_with_a_positive_of(-1.0)) <= {-3, -2, -1, 0, 1, 2, 3}
    assert set(world_with_a_positive_of(-1.0, beta=0.0)) <= {-3, -2, -1, 0, 1, 2, 3}
    assert (world_with_a_positive_of(-1.0, least_base=0.1) == 1).all()  # 0.1 / 0.1


def test_other_powers_need_a_least_base():
    part = AdaptiveNegatives(power=-1.5, least_base=0.25)
    # 0.1 / √0.25 below α + 0.25, then 0.1 / √(s + 1).
    torch.testing.assert_close(part.target(torch.tensor([-9.0, -1.0, 0.0, 3.0])), torch.tensor([0.2, 0.2, 0.1, 0.05]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": 0}, r"candidates must be at least 1, got 0; change \[negatives\] candidates"),
        ({"beta": -0.1}, r"beta must be at least 0, got -0.1; change \[negatives\] beta"),
        ({"beta": float("inf")}, r"beta must be a finite number, got inf"),
        ({"alpha": float("nan")}, r"alpha must be a finite number, got nan; change \[negatives\] alpha"),
        ({"alpha": float("-inf")}, r"alpha must be a finite number, got -inf"),
        (
            {"power": -1.5},
            r"power must be a whole number unless least_base is set, got -1.5: .* least_base, to 0.01 say",
        ),
        (
            {"power": float("nan"), "least_base": 0.1},
            r"power must be a finite number, got nan; change \[negatives\] power",
        ),
        ({"power": float("-inf"), "least_base": 0.1}, r"power must be a finite number, got -inf"),
        ({"least_base": 0.0}, r"least_base must be above 0, got 0; change \[negatives\] least_base"),
        ({"least_base": float("inf")}, r"least_base must be a finite number, got inf"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        AdaptiveNegatives(**settings)
