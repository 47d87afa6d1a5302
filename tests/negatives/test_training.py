"""Every sampler of the folder at work in a training: with either model, in company, stopped and resumed.

What needs a GPU is at the end. On a machine that has little beside torch:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/negatives/test_training.py`
"""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy import given_split, make_world, toy_world

from pspns.components import find_part, part_names
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.observed import ObservedPositives
from pspns.positives.psp import PspPositives
from pspns.positives.repeated import RepeatedPositives
from pspns.run import run, run_together
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.starts.normal import NormalStart
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
NAMES = part_names("negatives")
# Short of the defaults, so that a few epochs reach all that a sampler does, and pools do not hold all there is.
SHORT = {"candidates": 4, "memory": 3, "fresh": 5, "warm_up": 2, "generator_batch": 16}
# A size that fills no register of the processor, and one that does.
MODELS = {"mf": MatrixFactorisation(embedding_size=7), "lightgcn": LightGcn(embedding_size=16, layers=2)}
DATA = given_split(60, 40, 600)
STEPS = 32  # eight epochs of the observed pairs, three of the others and a bit


def part(name: str, **changes):
    """The sampler with short settings, or others, of which it takes those it has."""
    kind, wanted = find_part("negatives", name), {**SHORT, **changes}
    return kind(**{field.name: wanted[field.name] for field in dataclasses.fields(kind) if field.name in wanted})


def member(negatives, model: str, device: str, steps: int, positives, seeds) -> Settings:
    return Settings(
        positives=positives,
        negatives=negatives,
        model=MODELS[model],
        start=NormalStart(),
        training=TrainingSettings(batch_size=200, learning_rate=0.05, steps=steps, evaluate_every=8),
        evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=10),
        run=RunSettings(device=device, seeds=seeds, baselines=False),
    )


def company(negatives, model: str, device="cpu", steps=STEPS) -> list[Settings]:
    """Members whose epochs end at different steps."""
    return [
        member(negatives, model, device, steps, ObservedPositives(), (0, 1)),
        member(negatives, model, device, steps, PspPositives(rank=8), (1, 5)),
    ]


@cache
def alone(name: str, model: str, device="cpu"):
    """The fitted models of the company, each trained by itself."""
    return [run(DATA, settings, judge_test=False).model.fitted for settings in company(part(name), model, device)]


def together(members: list[Settings], **more):
    return [one.model.fitted for one in run_together(DATA, members, judge_test=False, **more)]


def curves(fitted) -> list[list[float]]:
    """The mean loss between two looks, for each seed."""
    return [[look.losses[seed] for look in fitted.history] for seed in fitted.history[0].losses]


def assert_same(found, expected) -> None:
    """Every bit of the model, and all of the history but the time it took."""
    for name, tensor in expected.scorer.tensors().items():
        assert torch.equal(found.scorer.tensors()[name], tensor), name
    histories = [[dataclasses.replace(look, seconds=0) for look in one.history] for one in (found, expected)]
    assert histories[0] == histories[1]


def distance(found, expected) -> float:
    """Of two scorers' tables, beside the length of the second's."""
    one, two = (torch.cat([scorer.users, scorer.items]).double().cpu() for scorer in (found, expected))
    return float((one - two).norm() / two.norm())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
def test_trains(device, name, model):
    for found, uniform in zip(alone(name, model, device), alone("uniform", model, device), strict=True):
        for curve in curves(found):
            assert all(map(math.isfinite, curve))
            assert curve[-1] < curve[0] - 0.01
        is_uniform = part(name) == UniformNegatives()
        assert (distance(found.scorer, uniform.scorer) > 0.01) != is_uniform


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_members_whose_epochs_end_at_different_steps_come_out_as_they_would_alone(name, model):
    members = together(company(part(name), model))
    begun = [one.history[-1].epochs for one in members]
    assert min(begun[0].values()) > max(begun[1].values()) > 2
    for found, expected in zip(members, alone(name, model), strict=True):
        assert_same(found, expected)


class Altered:
    """A sampler that says other things of itself."""

    def __init__(self, altered, **says):
        self._part, self._says, self.said = altered, says, {}

    def start(self, world, seeds):
        sampler = self._part.start(world, seeds)
        for name, value in self._says.items():
            self.said[name] = getattr(sampler, name)
            setattr(sampler, name, value)
        return sampler


@pytest.mark.parametrize("name", NAMES)
def test_who_follows_epochs_is_changed_by_their_ends(name):
    deaf = Altered(part(name), follows_epochs=False)
    found, _ = together(company(deaf, "mf"))
    assert (distance(found.scorer, alone(name, "mf")[0].scorer) > 0.01) == deaf.said["follows_epochs"]


def stop_at(*steps):
    """Ends a training after these steps, each once."""
    remaining = list(steps)

    def watch(step, last_step, evaluation):
        if step in remaining:
            remaining.remove(step)
            raise KeyboardInterrupt

    return watch


def in_pieces(folder, members: list[Settings]):
    """Stopped three times, to go on from the file: in the first epoch, in the middle of later ones, between two."""
    steps = 3, 17, 28
    watch = stop_at(*steps)
    for stop in steps:
        with pytest.raises(KeyboardInterrupt):
            together(members, checkpoints=folder, resume=stop > 3, watch=watch)
    return together(members, checkpoints=folder, resume=True, watch=watch)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_goes_on_from_a_checkpoint_to_the_same_bits(name, model, tmp_path):
    for found, expected in zip(in_pieces(tmp_path, company(part(name), model)), alone(name, model), strict=True):
        assert_same(found, expected)


def leaving_at(last_look: int):
    """Validation that is better at each of the first looks; with patience 1 the replica leaves at the next one."""
    looks = iter(range(1000))
    return lambda scorer, place: {"recall@20": min(next(looks), last_look)}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_replicas_that_leave_do_not_touch_the_others(name, model):
    """One after the other, and not in the order of the axis; the second has longer epochs."""
    world = toy_world()
    twice = make_world(world.train, world.n_users, world.n_items, pairs=RepeatedPositives(copies=2).build(world))
    settings = TrainingSettings(batch_size=64, learning_rate=0.02, evaluate_every=6, patience=1)
    lots = [(world, 4, 1), (twice, 2, 4), (world, 0, 2)]  # pairs, seed, last look that is better

    def trained(*lots):
        members = [Member(pairs, NormalStart(), 1e-4, [seed], leaving_at(last)) for pairs, seed, last in lots]
        return MODELS[model].fit(world, Trainer(members, part(name), settings, "recall@20", lambda *_: None))

    found = trained(*lots)
    assert found.steps == [18, 36, 24]
    for replica, lot in enumerate(lots):
        expected = trained(lot).scorer
        assert torch.equal(found.scorer.users[:, replica], expected.users[:, 0])
        assert torch.equal(found.scorer.items[:, replica], expected.items[:, 0])


# Large enough that torch does split the work, also sums over the rows of a batch; four batches are an epoch.
LARGE = given_split(1300, 1100, 1600, held_out=np.array([(0, 1, 1), (1, 2, 2)]))


def state_after(folder, n_steps: int, negatives, model: str, threads: int) -> dict[str, torch.Tensor]:
    """All that a checkpoint holds."""
    settings = Settings(
        negatives=negatives,
        model=dataclasses.replace(MODELS[model], embedding_size=64),
        training=TrainingSettings(batch_size=1024, steps=STEPS, evaluate_every=STEPS),
        run=RunSettings(device="cpu", threads=threads),
    )
    with pytest.raises(KeyboardInterrupt):
        run(LARGE, settings, judge_test=False, checkpoints=folder, watch=stop_at(n_steps))
    (path,) = folder.glob("*.safetensors")
    return load_file(path)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_same_bits_on_one_thread_and_two(name, model, tmp_path):
    """Of the whole state: what a sampler has learned at the end of the epoch may not have shown in a draw yet."""
    before, negatives = torch.get_num_threads(), part(name, warm_up=1, generator_batch=1200)
    try:
        one, two = (state_after(tmp_path / str(threads), 6, negatives, model, threads) for threads in (1, 2))
    finally:
        torch.set_num_threads(before)
    assert one.keys() == two.keys()
    assert [name for name, tensor in one.items() if not torch.equal(tensor, two[name])] == []


# From here on, what runs on a GPU alone.


@on_gpu
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_comes_close_to_the_cpu(name, model):
    """The same draws, and so the same choices, as long as scores differ by more than rounding."""
    pytest.importorskip("numba", reason="the CPU's loops need numba")
    cpu, gpu = (together(company(part(name), model, device, steps=20)) for device in ("cpu", "cuda"))
    for one, two in zip(cpu, gpu, strict=True):
        assert distance(two.scorer, one.scorer) < 0.01


@on_gpu
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_recorded_training_equals_training_step_by_step(name, model):
    """Also what happens between recorded steps, at the ends of epochs, must reach the tensors that they read."""
    recorded, plain = (
        together(company(negatives, model, "cuda"))
        for negatives in (part(name), Altered(part(name), stays_on_device=False))
    )
    for one, two in zip(recorded, plain, strict=True):
        assert distance(one.scorer, two.scorer) < 1e-3


@on_gpu
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_on_the_gpu_it_goes_on_from_a_checkpoint_too(name, model, tmp_path):
    members = company(part(name), model, "cuda")
    for one, two in zip(in_pieces(tmp_path, members), together(members), strict=True):
        assert distance(one.scorer, two.scorer) < 1e-3
