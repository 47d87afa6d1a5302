"""Recorded steps: when a step is carried out, noted down and replayed; and on a GPU, that training is the same so.

On a machine that has little beside torch, such as one with a GPU:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/training/test_recorded_step.py`
"""

import contextlib
import dataclasses

import pytest
import torch
from toy import toy_world

from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives, UniformSampler
from pspns.starts.normal import NormalStart
from pspns.training.recorded_step import STEPS_BEFORE_RECORDING, RecordedStep
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def noted(monkeypatch):
    """Instead of a GPU: a recording notes that the step was called, and a replay that it was carried out."""
    events: list[str] = []
    state = {"recording": False}

    class Graph:
        def replay(self):
            events.append("replay")

    @contextlib.contextmanager
    def recording(graph):
        state["recording"] = True
        yield
        state["recording"] = False

    class Stream:
        def wait_stream(self, other):
            assert isinstance(other, Stream)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    return events, lambda: events.append("record" if state["recording"] else "step")


def test_every_call_carries_the_step_out_once(noted):
    events, step = noted
    recorded = RecordedStep(step)
    for n_calls in range(1, 8):
        recorded()
        assert len([event for event in events if event != "record"]) == n_calls
    assert events == ["step"] * STEPS_BEFORE_RECORDING + ["record"] + ["replay"] * (7 - STEPS_BEFORE_RECORDING)


def test_after_forgetting_it_is_recorded_anew(noted):
    events, step = noted
    recorded = RecordedStep(step)
    for _ in range(6):
        recorded()
    events.clear()
    recorded.forget()
    for _ in range(5):
        recorded()
    assert events == ["step"] * STEPS_BEFORE_RECORDING + ["record"] + ["replay"] * (5 - STEPS_BEFORE_RECORDING)


# From here on, what runs on a GPU alone.


def moved(world):
    """The same world on the GPU."""
    rejected = ItemSets(world.n_users, world.n_items, world.train, world.pairs.as_pairs(), device="cuda")
    return dataclasses.replace(world, memory=MemoryBudget(torch.device("cuda")), rejected=rejected)


@dataclasses.dataclass(frozen=True)
class StepByStep:
    """Uniform negatives that do not let themselves be recorded."""

    def start(self, world, seeds):
        sampler = UniformSampler(world, seeds)
        sampler.stays_on_device = False
        return sampler


def rising_until(last_looks):
    """Validation that improves until the replica's last good look; with patience 1 it leaves at the next."""
    alive = list(range(len(last_looks)))
    look = [0]

    def validate(scorer, place):
        replica = alive[place]
        value = float(min(look[0], last_looks[replica]))
        if place == len(alive) - 1:
            alive[:] = [one for one in alive if look[0] <= last_looks[one]]
            look[0] += 1
        return {"recall@20": value}

    return validate


def trained(part, world, negatives, *, validate=None, precision="float32"):
    settings = TrainingSettings(
        batch_size=64, steps=None if validate else 40, max_steps=60, evaluate_every=10, patience=1, precision=precision
    )
    members = [Member(world, NormalStart(), 0.01, [0, 1, 2], validate)]
    return part.fit(world, Trainer(members, negatives, settings, "recall@20", lambda *_: None))


@on_gpu
def test_a_recorded_step_goes_on_counting_on_the_device():
    total, step_size = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
    recorded = RecordedStep(lambda: total.add_(step_size))
    for n_calls in range(1, 9):
        recorded()
        assert total.tolist() == [n_calls] * 3
    step_size.fill_(10)  # what the step reads may change, as long as it stays where it is
    recorded()
    assert total.tolist() == [18] * 3


@on_gpu
@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize("part", [MatrixFactorisation(embedding_size=8), LightGcn(embedding_size=8)])
def test_recorded_training_equals_training_step_by_step_to_the_bit(part, precision):
    world = moved(toy_world())
    recorded, plain = (
        trained(part, world, negatives, precision=precision).scorer for negatives in (UniformNegatives(), StepByStep())
    )
    assert torch.equal(recorded.users, plain.users)
    assert torch.equal(recorded.items, plain.items)


@on_gpu
@pytest.mark.parametrize("part", [MatrixFactorisation(embedding_size=8), LightGcn(embedding_size=8)])
def test_and_so_it_does_after_replicas_have_left(part):
    world, last_looks = moved(toy_world()), [1, 4, 2]
    recorded, plain = (
        trained(part, world, negatives, validate=rising_until(last_looks))
        for negatives in (UniformNegatives(), StepByStep())
    )
    assert recorded.best_steps == plain.best_steps == [20, 50, 30]
    assert recorded.steps == plain.steps == [30, 60, 40]
    assert torch.equal(recorded.scorer.users, plain.scorer.users)
    assert torch.equal(recorded.scorer.items, plain.scorer.items)
    assert [one.losses for one in recorded.history] == [one.losses for one in plain.history]


@on_gpu
def test_the_gpu_comes_close_to_the_cpu_after_replicas_have_left():
    world = toy_world()
    cpu, gpu = (
        trained(LightGcn(embedding_size=8), one, UniformNegatives(), validate=rising_until([1, 4, 2]))
        for one in (world, moved(world))
    )
    assert gpu.best_steps == cpu.best_steps == [20, 50, 30]
    difference = gpu.scorer.users.cpu() - cpu.scorer.users
    assert difference.norm() < 1e-3 * cpu.scorer.users.norm()
