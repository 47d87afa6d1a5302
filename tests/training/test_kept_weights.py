"""What pairs kept, summed by hand."""

import dataclasses

import numpy as np
import torch
from sampler_worlds import batch_of
from toy import make_world

from pspns.data.split import Pairs
from pspns.training.kept_weights import KeptWeights

# Pairs 0 to 3; the last two are false in the second world.
WORLD = make_world(Pairs(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])), 2, 4)
TRUTH = dataclasses.replace(WORLD, is_false=np.array([False, False, True, True]))


def rows(pair_ids, live=1.0):
    ids = torch.tensor(pair_ids)
    return dataclasses.replace(batch_of(torch.zeros_like(ids), torch.zeros_like(ids), live=live), pair_ids=ids)


def two_steps() -> KeptWeights:
    kept = KeptWeights([WORLD, TRUTH])
    batch = rows([[0, 1, 2], [0, 2, 3]])
    kept.note(batch, batch, torch.tensor([[1.0, 0.5, 0.0], [1.0, 0.25, 0.0]]))
    # The third row only fills the block, and what is trained need not be what was offered.
    live = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    kept.note(rows([[0, 1, 3], [0, 2, 1]], live), rows([[0, 0, 3], [0, 2, 1]], live), torch.full((2, 3), 1.0))
    return kept


def test_a_weight_is_what_was_trained_by_what_was_offered():
    first, second = two_steps().weights()
    assert first.tolist() == [3 / 2, 0.5 / 2, 0.0, 1.0]  # pair 3 was not offered
    assert second.tolist() == [1.0, 1.0, 1.25 / 2, 0.0]


def test_the_mean_over_rows_of_all_true_and_false_pairs():
    first, second = two_steps().by_truth()
    assert first == {"all": 3.5 / 5}
    assert second == {"all": 3.25 / 5, "true": 1.0, "false": 1.25 / 3}


def test_pairs_that_were_not_offered_have_no_mean():
    kept = KeptWeights([TRUTH])
    kept.note(rows([[0, 1]]), rows([[0, 1]]), torch.tensor([[0.5, 0.5]]))
    assert kept.by_truth() == [{"all": 0.5, "true": 0.5}]


def test_nothing_is_known_until_a_denoiser_speaks():
    kept = KeptWeights([WORLD])
    kept.note(rows([[0]]), rows([[0]]), None)
    assert kept.is_empty
    assert kept.by_truth() == [{}]
    assert kept.weights()[0].tolist() == [1.0] * 4
    assert kept.state() == {}


def test_forgetting_begins_anew_and_those_that_leave_take_theirs_along():
    kept = two_steps()
    kept.keep(torch.tensor([1]))
    assert kept.by_truth() == [two_steps().by_truth()[1]]
    kept.forget()
    assert kept.by_truth() == [{}]
    kept.note(rows([[3]]), rows([[3]]), torch.tensor([[0.5]]))
    assert kept.by_truth() == [{"all": 0.5, "false": 0.5}]


def test_what_is_saved_goes_on():
    kept, other = two_steps(), KeptWeights([WORLD, TRUTH])
    other.load_state(kept.state())
    assert other.by_truth() == kept.by_truth()
    assert [own.tolist() for own in other.weights()] == [own.tolist() for own in kept.weights()]
