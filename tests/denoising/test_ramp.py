"""How many rows are left out, and which."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from denoiser_worlds import denoised
from toy import toy_world

from pspns.denoising._ramp import Ramp, are_largest, n_kept, places_by_size, share_of

SHORT, LONG = toy_world(n_pairs=200), toy_world(n_pairs=500)


def shares(ramp: Ramp, n_steps: int) -> np.ndarray:
    """`[steps, replicas]`."""
    found = []
    for _ in range(n_steps):
        found.append(ramp.share().tolist())
        ramp.advance()
    return np.array(found)


def test_grows_linearly_in_steps_and_stays():
    found = shares(Ramp(denoised(SHORT, LONG), 0.4, epochs=99.0, steps=5), 8)
    np.testing.assert_allclose(found, np.outer([0, 0.08, 0.16, 0.24, 0.32, 0.4, 0.4, 0.4], [1, 1]), atol=1e-12)


def test_grows_linearly_in_the_epochs_of_each_replica():
    world = denoised(SHORT, LONG, batch_size=50)
    n_batches = world.batches_an_epoch
    assert n_batches[0] != n_batches[1]
    found = shares(Ramp(world, 0.2, epochs=2.5), 4 * max(n_batches))
    for of_replica, n in zip(found.T, n_batches, strict=True):
        expected = [0.2 * min(1.0, step / (2.5 * n)) for step in range(len(found))]
        np.testing.assert_allclose(of_replica, expected, atol=1e-12)


def test_a_ramp_shorter_than_a_step_is_up_at_the_second():
    assert shares(Ramp(denoised(SHORT), 0.3, epochs=1e-3), 3).ravel().tolist() == [0.0, 0.3, 0.3]


def test_replicas_that_stay_keep_their_lengths():
    whole, smaller = (Ramp(denoised(SHORT, LONG, SHORT, batch_size=50), 0.5, epochs=3.0) for _ in range(2))
    shares(whole, 4), shares(smaller, 4)
    smaller.keep(torch.tensor([1]))
    assert shares(smaller, 5).tolist() == shares(whole, 5)[:, [1]].tolist()


def test_goes_on_from_a_state_which_is_a_copy():
    world = denoised(SHORT, LONG)
    ramp, resumed = (Ramp(world, 0.5, epochs=3.0) for _ in range(2))
    shares(ramp, 4)
    state = ramp.state()
    following = shares(ramp, 5)
    resumed.load_state(state)
    assert shares(resumed, 5).tolist() == following.tolist()
    assert following[0, 0] > 0


def test_counts_are_exact_for_every_share_of_hundredths():
    n = torch.arange(1, 400)
    for hundredths in range(100):
        share = Fraction(hundredths, 100)
        expected = [math.floor((1 - share) * k) for k in n.tolist()]
        found = n_kept(torch.full(n.shape, hundredths / 100, dtype=torch.float64), n.float())
        assert found.tolist() == [max(1, k) for k in expected]
        assert share_of(hundredths / 100, n).tolist() == [math.floor(share * k) for k in n.tolist()]


def test_counts_are_exact_all_the_way_up_a_ramp():
    """0.29 · 100 is 28.999999999999996: where the share hits a whole number of rows, rounding must not lose one."""
    ramp, n = Ramp(denoised(SHORT), 0.29, epochs=1.0, steps=29), torch.tensor([100.0])
    found = []
    for _ in range(30):
        found.append(100 - int(n_kept(ramp.share(), n)))
        ramp.advance()
    assert found == [*range(30)]


def test_at_least_one_row_is_kept():
    assert n_kept(torch.tensor([0.9, 0.5, 0.99]).double(), torch.tensor([1.0, 1.0, 50.0])).tolist() == [1, 1, 1]


def largest_by_sorting(keys: list[float], n: int, live: list[float]) -> list[bool]:
    alive = [row for row, is_live in enumerate(live) if is_live]
    chosen = sorted(alive, key=lambda row: (-keys[row], row))[: max(0, n)]
    return [row in chosen for row in range(len(keys))]


@pytest.mark.parametrize("n_values", [3, 1000])
def test_the_largest_of_the_live_rows_the_first_of_equals(n_values):
    rng = np.random.default_rng(n_values)
    keys = rng.integers(n_values, size=(6, 40)).astype(np.float32) - n_values / 2
    live = (rng.random((6, 40)) < 0.8).astype(np.float32)
    n = [0, 1, 7, 20, 40, -3]
    found = are_largest(torch.from_numpy(keys), torch.tensor(n), torch.from_numpy(live))
    for row in range(6):
        assert found[row].tolist() == largest_by_sorting(keys[row].tolist(), n[row], live[row].tolist())


def test_dead_rows_come_last_however_large():
    keys, live = torch.tensor([[torch.inf, 1.0, 1e30, -torch.inf, 2.0]]), torch.tensor([[0.0, 1, 0, 1, 1]])
    assert places_by_size(keys, live)[0, [4, 1]].tolist() == [0, 1]
    assert are_largest(keys, torch.tensor([5]), live).tolist() == [[False, True, False, True, True]]


def test_no_gradient_passes_through_the_choice():
    keys = torch.randn(1, 5, requires_grad=True)
    assert not are_largest(keys, torch.tensor([2]), torch.ones(1, 5)).requires_grad
