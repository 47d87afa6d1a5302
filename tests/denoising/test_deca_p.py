"""DeCA(p): the second opinion is a teacher's, who is asked and never taught."""

import dataclasses

import numpy as np
import pytest
import torch
from denoiser_worlds import denoised, pair_batch, rows_scored, train, world_of

from pspns.denoising.deca import CrossModelAgreement
from pspns.denoising.deca_p import PretrainedAgreement
from pspns.shapes import Embeddings
from pspns.training.objective import slopes

WORLD = world_of(np.random.default_rng(0).random((8, 9)) < 0.5)
N_ROWS, SIZE = 16, 5
SEEDS = (3, 8, 0)


def teacher(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Embeddings(*(torch.randn(n, 3, SIZE, generator=generator) for n in (8, 9)))


def start(given, part=PretrainedAgreement, **settings):
    settings = {"c1": 7.0, "c2": 4.0, "alpha": 0.3, "size": SIZE, "learning_rate": 0.05, **settings}
    return part(**settings).start(denoised(WORLD, WORLD, WORLD, loss="bce", teacher=given), SEEDS)


def rows(number=0, places=(0, 1, 2)):
    rng = np.random.default_rng(number)
    pair_ids, negatives = rng.integers(len(WORLD.pairs), size=(3, N_ROWS)), rng.integers(9, size=(3, N_ROWS))
    scores = rng.standard_normal((2, 3, N_ROWS))
    own = list(places)
    return rows_scored(*scores[:, own], batch=pair_batch(WORLD, pair_ids[own]), negatives=negatives[own])


def judged(denoiser, given):
    """Losses and slopes."""
    found, *by_scores = slopes(denoiser, given, torch.ones(given.positive.shape))
    return [found.losses.detach(), *by_scores]


@pytest.mark.parametrize("step", [0, 1])
def test_is_deca_whose_second_model_is_the_teacher(step):
    """One step of DeCA with the teacher's vectors for its g."""
    denoiser, other = start(teacher()), start(None, CrossModelAgreement)
    state = {**other.state(), "g/users/table": teacher().users, "g/items/table": teacher().items}
    other.load_state({**state, "step": torch.tensor(step)})
    denoiser.load_state({**denoiser.state(), "step": torch.tensor(step)})
    given = rows()
    torch.testing.assert_close(judged(denoiser, given), judged(other, given))
    for name in ("h/users", "h/items", "h'/users", "h'/items"):
        torch.testing.assert_close(denoiser.state()[f"{name}/table"], other.state()[f"{name}/table"])


def test_another_teacher_says_something_else():
    one, two = (judged(start(teacher(seed)), rows()) for seed in (0, 1))
    assert not any(torch.allclose(*pair) for pair in zip(one, two, strict=True))


def test_learns_h_and_h_liked_and_leaves_the_teacher_as_it_is():
    given = teacher()
    denoiser = start(given)
    before = denoiser.state()
    for number in range(6):
        denoiser.judge(rows(number))
    after = denoiser.state()
    assert torch.equal(given.users, teacher().users)
    assert torch.equal(given.items, teacher().items)
    are_same = {name for name, values in after.items() if torch.equal(values, before[name])}
    assert are_same == {"teacher_users", "teacher_items"}


def test_replicas_that_stay_keep_their_teachers():
    whole, fewer = start(teacher()), start(teacher())
    whole.judge(rows()), fewer.judge(rows())
    fewer.keep(torch.tensor([2, 0]))
    for number in (1, 2):
        for one, two in zip(judged(whole, rows(number)), judged(fewer, rows(number, (2, 0))), strict=True):
            assert torch.equal(one[[2, 0]], two)


def test_goes_on_from_a_state_without_being_given_its_teacher():
    denoiser = start(teacher())
    denoiser.judge(rows())
    state = {name: values.clone() for name, values in denoiser.state().items()}
    resumed = start(None)
    resumed.load_state(state)
    for number in (1, 2):
        for one, two in zip(judged(denoiser, rows(number)), judged(resumed, rows(number)), strict=True):
            assert torch.equal(one, two)


def test_false_pairs_come_to_weigh_less_than_true_ones():
    rng = np.random.default_rng(0)
    is_inside = np.arange(40)[:, None] % 3 == np.arange(30) % 3
    world = world_of(rng.random((40, 30)) < np.where(is_inside, 0.7, 0.08))
    world = dataclasses.replace(world, is_false=~is_inside[world.pairs.users, world.pairs.items])
    part = PretrainedAgreement(c1=10.0, c2=10.0, alpha=0.5, learning_rate=0.05)
    fitted = train(world, part, loss="bce", steps=60, evaluate_every=20, learning_rate=0.05)
    for replica in (0, 1):
        kept = fitted.history[-1].kept[replica]
        assert kept["true"] > 0.8
        assert kept["false"] < kept["true"] - 0.2
