"""What pairs kept, summed by hand, and how it arrives after a training."""

import dataclasses

import numpy as np
import pytest
import torch
from denoiser_cases import CASES
from denoiser_worlds import MODELS, train
from sampler_worlds import batch_of
from toy import make_world, toy_world

from pspns.data.split import Pairs
from pspns.denoising.none import NoDenoising
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.psp import PspPositives
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


def test_replicas_with_different_numbers_of_pairs():
    """The shorter one has no pair 3; what fills its row of the table belongs to nobody."""
    fewer = make_world(Pairs(np.array([0, 0, 1]), np.array([0, 1, 2])), 2, 4)
    fewer = dataclasses.replace(fewer, is_false=np.array([True, False, False]))
    kept = KeptWeights([TRUTH, fewer])
    batch = rows([[3, 3, 0], [2, 0, 0]])
    kept.note(batch, batch, torch.tensor([[0.5, 0.0, 1.0], [1.0, 0.25, 0.5]]))
    first, second = kept.weights()
    assert first.tolist() == [1.0, 1.0, 1.0, 0.25]
    assert second.tolist() == [0.75 / 2, 1.0, 1.0]
    assert kept.by_truth() == [
        {"all": 1.5 / 3, "true": 1.0, "false": 0.25},
        {"all": 1.75 / 3, "true": 1.0, "false": 0.75 / 2},
    ]
    kept.keep(torch.tensor([1]))
    assert kept.weights()[0].tolist() == second.tolist()


def test_those_that_leave_before_a_word_is_said():
    kept = KeptWeights([WORLD, TRUTH])
    kept.keep(torch.tensor([1]))
    kept.note(rows([[2, 0]]), rows([[2, 0]]), torch.tensor([[0.5, 1.0]]))
    assert kept.by_truth() == [{"all": 0.75, "true": 1.0, "false": 0.5}]
    kept.keep(torch.tensor([], dtype=torch.int64))
    assert kept.by_truth() == kept.weights() == []


class Overheard:
    """A denoiser of which all is noted that a training hears."""

    def __init__(self, part):
        self._part, self.steps = part, []  # pairs offered, live, pairs trained, what they kept

    def start(self, world, seeds):
        denoiser, steps = self._part.start(world, seeds), self.steps
        choose_users, judge = denoiser.choose_users, denoiser.judge

        def noting_users(batch):
            steps.append([batch.pair_ids, batch.live])
            return choose_users(batch)

        def noting_judge(rows):
            judged = judge(rows)
            steps[-1] += [rows.batch.pair_ids, judged.kept.detach().clone()]
            return judged

        denoiser.choose_users, denoiser.judge = noting_users, noting_judge
        return denoiser


class TakenPlainly:
    """Uniform negatives, for which no step is written out."""

    def start(self, world, seeds):
        sampler = UniformNegatives().start(world, seeds)
        sampler.reads = "gradients"
        return sampler


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("negatives", [UniformNegatives(), TakenPlainly()], ids=["written out", "plain"])
@pytest.mark.parametrize("name", ["pld, bpr", "dcf, bpr", "r-ce, bce", "bod, bpr"])
def test_a_training_hands_on_what_was_kept_since_the_last_look(name, negatives, model):
    """Counted pair by pair; in two worlds, of which one knows what is false; looks are at steps 8, 16, 24."""
    denoiser, loss = CASES[name]
    world = toy_world()
    other = make_world(world.train, world.n_users, world.n_items, pairs=PspPositives(rank=4).build(world))
    other = dataclasses.replace(other, is_false=np.arange(len(other.pairs)) % 3 == 0)
    overheard = Overheard(denoiser)
    found = train([world, other], overheard, model=model, loss=loss, seeds=(0,), negatives=negatives)
    assert len(overheard.steps) == 24
    for look, first in zip(found.history, (0, 8, 16), strict=True):
        for replica, own in enumerate((world, other)):
            n = len(own.pairs)
            trained, offered = np.zeros(n), np.zeros(n)
            for offered_ids, live, trained_ids, kept in overheard.steps[first : first + 8]:
                is_live = live[replica] > 0
                np.add.at(offered, offered_ids[replica][is_live].numpy(), 1)
                np.add.at(trained, trained_ids[replica][is_live].numpy(), kept[replica][is_live].double().numpy())
            groups = {"all": np.full(n, True)}
            if replica:
                groups |= {"true": ~own.is_false, "false": own.is_false}
            expected = {group: trained[pairs].sum() / offered[pairs].sum() for group, pairs in groups.items()}
            assert look.kept[replica] == pytest.approx(expected, rel=1e-5)
            if look is found.history[-1]:
                weights = np.where(offered > 0, trained / np.maximum(offered, 1), 1.0)
                assert found.pair_weights[replica] == pytest.approx(weights, rel=1e-5, abs=1e-7)
                assert weights.std() > 1e-4


def test_plain_training_says_nothing():
    found = train(toy_world(), NoDenoising())
    assert found.pair_weights == []
    assert [look.kept for look in found.history] == [{}] * 3
