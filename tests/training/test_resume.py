"""A training that is stopped and goes on ends with the bits of one that was never stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from denoiser_cases import CASES
from promises import CaseCounter
from torch import Tensor
from toy import make_world, toy_world

from pspns.components import find_part, part_names
from pspns.denoising.none import NoDenoising
from pspns.errors import PspnsError
from pspns.negatives._stream_sampler import StreamSampler
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.repeated import RepeatedPositives
from pspns.shapes import Fitted, Negatives, SharedWorld, State, World
from pspns.starts.normal import NormalStart
from pspns.starts.xavier import XavierStart
from pspns.training import loop, stopping
from pspns.training.checkpoint import Checkpoint, Checkpoints
from pspns.training.loop import Saving
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

INTERVAL = 7
STOPPING_EARLY = TrainingSettings(batch_size=64, learning_rate=0.01, max_steps=60, evaluate_every=INTERVAL, patience=2)
NEVER = 1e9  # seconds


@dataclass(frozen=True)
class RememberingNegatives:
    """A sampler outside the package whose choice depends on all it has drawn before."""

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> RememberingSampler:
        return RememberingSampler(world, seeds)


class RememberingSampler(StreamSampler):
    reads = "scores"

    def __init__(self, world: SharedWorld, seeds: Sequence[int]):
        super().__init__(world, seeds)
        self._drawn = torch.zeros(len(seeds), world.n_users, dtype=torch.int64)  # sum of the user's negatives

    def sample(self, batch: Any, model: Any) -> Negatives:
        either, other = self._rejected.draw_outside(batch.users, 2, self._stream).unbind(-1)
        items = torch.where(self._drawn.gather(1, batch.users) % 2 == 0, either, other)
        self._drawn.scatter_add_(1, batch.users, items)
        return Negatives(items=items)

    def keep(self, replicas: Tensor) -> None:
        super().keep(replicas)
        self._drawn = self._drawn[replicas]

    def state(self) -> State:
        return {"drawn": self._drawn, **super().state()}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._drawn = state["drawn"]


def erratic(scorer: Any, replica: int) -> dict[str, float]:
    """Validation that rises and falls without reason, and at once if a single bit is another."""
    digest = hashlib.sha256()
    for table in (scorer.users, scorer.items):
        digest.update(table[:, replica].numpy().tobytes())
    return {"recall@20": int.from_bytes(digest.digest()[:4], "big") / 2**32, "mean-popularity@20": float("nan")}


def one_member() -> list[Member]:
    return [Member(toy_world(), XavierStart(), 1e-4, (3,), erratic)]


def two_members() -> list[Member]:
    """Over one graph; the second has longer epochs, another start and another λ."""
    world = toy_world()
    twice = make_world(world.train, world.n_users, world.n_items, pairs=RepeatedPositives(copies=2).build(world))
    return [
        Member(world, XavierStart(), 1e-4, (0, 4, 2), erratic),
        Member(twice, NormalStart(spread=0.3), 0.05, (4, 1), erratic),
    ]


@dataclass(frozen=True)
class Training:
    """All that a process would be given to begin, or to go on; every call makes world, sampler and model anew."""

    members: Callable[[], list[Member]] = two_members
    model: str = "mf"
    negatives: Any = dataclasses.field(default_factory=UniformNegatives)
    settings: TrainingSettings = STOPPING_EARLY
    denoiser: Any = dataclasses.field(default_factory=NoDenoising)

    def run(self, saving: Saving | None = None, watch: Callable[..., None] = lambda *_: None) -> Fitted:
        members = self.members()
        trainer = Trainer(members, self.negatives, self.settings, "recall@20", watch, saving, self.denoiser)
        fitted: Fitted = find_part("models", self.model)(embedding_size=6).fit(members[0].world, trainer)
        return fitted

    def in_pieces(self, folder: Path, every: int) -> tuple[Fitted, list[Checkpoint]]:
        """Stopped after every so many steps, each time to go on from the file; and the checkpoints there were."""

        def stop_sometimes(step: int, last_step: int, evaluation: Any) -> None:
            if step % every == 0:
                raise KeyboardInterrupt

        used: list[Checkpoint] = []
        while True:
            checkpoints = Checkpoints(folder, {})
            latest = checkpoints.latest(pytest.fail)
            used += [latest] if latest else []
            try:
                return self.run(Saving(checkpoints, NEVER, latest), stop_sometimes), used
            except KeyboardInterrupt:
                continue


def assert_same(found: Fitted, expected: Fitted) -> None:
    """Every bit of the model, and all of the history but the time it took."""
    assert (found.steps, found.best_steps) == (expected.steps, expected.best_steps)
    tensors = found.scorer.tensors()
    assert tensors.keys() == expected.scorer.tensors().keys()
    for name, tensor in expected.scorer.tensors().items():
        assert torch.equal(tensors[name].view(torch.int32), tensor.contiguous().view(torch.int32)), name
    histories = [repr([dataclasses.replace(look, seconds=0) for look in one.history]) for one in (found, expected)]
    assert histories[0] == histories[1]
    assert len(found.pair_weights) == len(expected.pair_weights)
    assert all(map(np.array_equal, found.pair_weights, expected.pair_weights))


SAMPLERS = [
    *(pytest.param(find_part("negatives", name)(), id=name) for name in part_names("negatives")),
    pytest.param(RememberingNegatives(), id="outside"),
]


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("negatives", SAMPLERS)
def test_every_model_and_sampler(model: str, negatives: Any, tmp_path: Path) -> None:
    training = Training(model=model, negatives=negatives)
    found, used = training.in_pieces(tmp_path, every=5)
    assert len(used) >= 2
    assert_same(found, training.run())


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("name", CASES)
def test_every_model_and_denoiser(model: str, name: str, tmp_path: Path) -> None:
    denoiser, loss = CASES[name]
    training = Training(model=model, denoiser=denoiser, settings=dataclasses.replace(STOPPING_EARLY, loss=loss))
    found, used = training.in_pieces(tmp_path, every=5)
    assert len(used) >= 2
    expected = training.run()
    assert_same(found, expected)
    assert len(expected.pair_weights) == (0 if denoiser == NoDenoising() else 5)
    assert len(set(expected.steps)) > 1, "none of the replicas stopped before the others"


@pytest.mark.parametrize("stop", [3, 20])
def test_a_training_before_the_training_is_gone_on_with_too(stop: int, tmp_path: Path) -> None:
    """Stopped in the first or in the second, and also a second time between two looks."""
    denoiser, loss = CASES["deca-p, bce"]
    training = Training(denoiser=denoiser, settings=dataclasses.replace(STOPPING_EARLY, loss=loss, steps=14))
    taken: list[tuple[bool, int]] = []

    def count(step: int, last_step: int, evaluation: Any) -> None:
        is_first = not taken or (taken[-1][0] and taken[-1][1] < 14)
        taken.append((is_first, step))
        if len(taken) in (stop, stop + 4):
            raise KeyboardInterrupt

    found = None
    while found is None:
        checkpoints = Checkpoints(tmp_path, {})
        with contextlib.suppress(KeyboardInterrupt):
            found = training.run(Saving(checkpoints, NEVER, checkpoints.latest(pytest.fail)), count)
    # No step was taken twice.
    assert taken == [(True, step) for step in range(1, 15)] + [(False, step) for step in range(1, 15)]
    assert_same(found, training.run())


@pytest.mark.parametrize("every", [1, 2, 3, INTERVAL, 13])
@pytest.mark.parametrize("members", [one_member, two_members])
def test_wherever_it_is_stopped(members: Callable[[], list[Member]], every: int, tmp_path: Path) -> None:
    training = Training(members)
    expected = training.run()
    found, used = training.in_pieces(tmp_path, every)
    assert_same(found, expected)
    assert [checkpoint.step for checkpoint in used] == list(range(every, max(expected.steps) + 1, every))


def test_replicas_that_have_stopped_stay_so(tmp_path: Path) -> None:
    training = Training()
    expected = training.run()
    found, used = training.in_pieces(tmp_path, every=1)
    assert_same(found, expected)
    n_alive = [checkpoint.tensors["model/users"].shape[1] for checkpoint in used]
    assert n_alive == [sum(last > checkpoint.step for last in expected.steps) for checkpoint in used]
    # Checkpoints with all, with some, and with none of the five were among them.
    assert {0, 5} < set(n_alive)


def test_a_fixed_number_of_steps_without_validation(tmp_path: Path) -> None:
    def members() -> list[Member]:
        return [dataclasses.replace(member, validate=None) for member in two_members()]

    training = Training(members, settings=dataclasses.replace(STOPPING_EARLY, steps=23))
    found, used = training.in_pieces(tmp_path, every=4)
    assert [checkpoint.step for checkpoint in used] == [4, 8, 12, 16, 20]
    assert found.steps == found.best_steps == [23] * 5
    assert_same(found, training.run())


class TestWhenItIsWritten:
    class Recorded(Checkpoints):
        """Notes the steps of which something was written."""

        def __init__(self, folder: Path):
            super().__init__(folder, {})
            self.steps: list[int] = []

        def write(self, step: int, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
            self.steps.append(step)
            super().write(step, tensors, notes)

    @pytest.mark.parametrize(
        ("seconds", "expected"),
        [(0, [7, 14, 21, 28, 35, 40]), (8, [14, 28, 40]), (9, [21, 40]), (12, [21, 40]), (25, [])],
    )
    def test_after_evaluations_once_the_time_has_passed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: list[int]
    ) -> None:
        clock = [1000.0]
        monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock[0]))

        def four_seconds_an_evaluation(step: int, last_step: int, evaluation: Any) -> None:
            clock[0] += 4 if evaluation else 0

        checkpoints = self.Recorded(tmp_path)
        training = Training(one_member, settings=dataclasses.replace(STOPPING_EARLY, steps=40))
        training.run(Saving(checkpoints, seconds), four_seconds_an_evaluation)
        assert checkpoints.steps == expected

    def test_when_it_is_interrupted(self, tmp_path: Path) -> None:
        def interrupt(step: int, last_step: int, evaluation: Any) -> None:
            if step == 3:
                raise KeyboardInterrupt

        checkpoints = self.Recorded(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            Training().run(Saving(checkpoints, NEVER), interrupt)
        assert checkpoints.steps == [3]

    def test_other_errors_write_nothing(self, tmp_path: Path) -> None:
        def fail(step: int, last_step: int, evaluation: Any) -> None:
            raise ValueError("a bug")

        checkpoints = self.Recorded(tmp_path)
        with pytest.raises(ValueError, match="a bug"):
            Training().run(Saving(checkpoints, 0), fail)
        assert checkpoints.steps == []

    def test_without_a_place_an_interruption_is_just_one(self) -> None:
        def interrupt(step: int, last_step: int, evaluation: Any) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Training().run(None, interrupt)

    def test_writing_changes_nothing(self, tmp_path: Path) -> None:
        assert_same(Training().run(Saving(Checkpoints(tmp_path, {}), 0)), Training().run())


def test_going_on_from_a_checkpoint_of_an_evaluation_after_a_kill(tmp_path: Path) -> None:
    """Later steps are lost and taken again: the third evaluation's checkpoint, and everything anew from there."""
    training = Training()

    def die(step: int, last_step: int, evaluation: Any) -> None:
        if step == 3 * INTERVAL + 2:
            raise RuntimeError("killed")

    checkpoints = Checkpoints(tmp_path, {})
    with pytest.raises(RuntimeError):
        training.run(Saving(checkpoints, 0), die)
    latest = checkpoints.latest(pytest.fail)
    assert latest is not None
    assert latest.step == 3 * INTERVAL
    steps: list[int] = []
    found = training.run(Saving(checkpoints, 0, latest), lambda step, *_: steps.append(step))
    assert steps[0] == 3 * INTERVAL + 1
    assert_same(found, training.run())


def test_time_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process has a clock of its own; the time between two does not count."""
    ticks = itertools.count(1000)
    monkeypatch.setattr(stopping, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    steps = dataclasses.replace(STOPPING_EARLY, steps=4 * INTERVAL)

    def stop(step: int, last_step: int, evaluation: Any) -> None:
        if step == 2 * INTERVAL + 1:
            raise KeyboardInterrupt

    checkpoints = Checkpoints(tmp_path, {})
    with pytest.raises(KeyboardInterrupt):
        Training(one_member, settings=steps).run(Saving(checkpoints, NEVER), stop)
    ticks = itertools.count(5)
    saving = Saving(checkpoints, NEVER, checkpoints.latest(pytest.fail))
    found = Training(one_member, settings=steps).run(saving)
    # One tick for each evaluation, one for the checkpoint, one for the resume.
    assert [look.seconds for look in found.history] == [1, 2, 4, 5]
    assert saving.seconds_before == 3


def test_a_long_history_does_not_fill_the_notes(tmp_path: Path) -> None:
    """They lie in a header that may have 100 MB, which 100,000 evaluations would exceed."""
    often = dataclasses.replace(STOPPING_EARLY, steps=200, evaluate_every=1)

    def stop(step: int, last_step: int, evaluation: Any) -> None:
        if step == 150:
            raise KeyboardInterrupt

    checkpoints = Checkpoints(tmp_path, {})
    with pytest.raises(KeyboardInterrupt):
        Training(one_member, settings=often).run(Saving(checkpoints, NEVER), stop)
    latest = checkpoints.latest(pytest.fail)
    assert latest is not None
    assert latest.tensors["stopping/history"].numel() > 10_000
    assert len(repr(latest.notes)) < 1_000


def damaged(good: bytes, earlier: bytes, rng: random.Random) -> bytes:
    """Other bytes than the good ones, as a disk or a power cut might leave them."""
    content, place, size = bytearray(good), rng.randrange(len(good)), rng.choice((16, 512, 4096))
    match rng.choice(("bits", "cut", "torn", "zeros", "foreign", "longer")):
        case "bits":
            for _ in range(rng.randint(1, 8)):
                content[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        case "cut":
            del content[place:]
        case "torn":  # the rest is what was written there before
            content[place:] = earlier[place:]
        case "zeros":  # sectors that were never written
            start = place - place % size
            content[start : start + size] = bytes(len(content[start : start + size]))
        case "foreign":
            content[place : place + size] = rng.randbytes(len(content[place : place + size]))
        case "longer":
            content += rng.randbytes(size)
    return bytes(content) if content != good else damaged(good, earlier, rng)


@pytest.mark.promise("damaged-checkpoints", cases=1000)
def test_a_damaged_checkpoint_is_never_used(tmp_path: Path, case_counter: CaseCounter) -> None:
    checkpoints, rng = Checkpoints(tmp_path, {}), random.Random(0)
    Training(model="lightgcn").run(Saving(checkpoints, 0))
    older, newer = sorted(tmp_path.iterdir())
    good = {path: path.read_bytes() for path in (older, newer)}
    newer.unlink()
    expected = checkpoints.latest(pytest.fail)
    assert expected is not None
    for case in range(case_counter.planned):
        are_both = case % 10 == 9
        newer.write_bytes(damaged(good[newer], good[older], rng))
        older.write_bytes(damaged(good[older], good[newer], rng) if are_both else good[older])
        said: list[str] = []
        if are_both:
            with pytest.raises(PspnsError, match="no checkpoint is whole") as caught:
                Checkpoints(tmp_path, {}).latest(said.append)
            assert all(f"{path}: " in str(caught.value) for path in good)
            assert not said
        else:
            found = Checkpoints(tmp_path, {}).latest(said.append)
            assert found is not None
            assert (found.step, found.notes) == (expected.step, expected.notes)
            assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())
            (words,) = said
            assert words.startswith(f"{newer}: ")
            assert words.endswith(f"the older {older.name} is used instead")
        case_counter.count()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu_it_goes_on_too(name: str, model: str, tmp_path: Path) -> None:
    """Steps are recorded there; what is replayed must belong to the tensors that were loaded."""

    def members() -> list[Member]:
        return [dataclasses.replace(member, world=_on_gpu(member.world), validate=None) for member in two_members()]

    denoiser, loss = CASES[name]
    settings = dataclasses.replace(STOPPING_EARLY, loss=loss, steps=30)
    training = Training(members, model, settings=settings, denoiser=denoiser)
    found, used = training.in_pieces(tmp_path, every=11)
    expected = training.run()
    assert [checkpoint.step for checkpoint in used] == [11, 22] * (2 if name.startswith("deca-p") else 1)
    for name, tensor in expected.scorer.tensors().items():
        torch.testing.assert_close(found.scorer.tensors()[name], tensor, rtol=1e-3, atol=1e-5)


def _on_gpu(world: World) -> World:
    from pspns.item_sets import ItemSets
    from pspns.memory import MemoryBudget

    device = torch.device("cuda")
    rejected = ItemSets(world.n_users, world.n_items, world.train, world.pairs.as_pairs(), device=device)
    return dataclasses.replace(world, memory=MemoryBudget(device), rejected=rejected)
