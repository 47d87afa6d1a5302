"""A dry run: all that comes before training, a few steps and one look, to say how long and how large the whole is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pspns.components import find_part, part_name
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Split
from pspns.denoising.none import NoDenoising
from pspns.evaluation.protocol import Protocol, find_protocol
from pspns.memory import GIB, MemoryBudget, MemoryBudgetError
from pspns.models._embedding_model import EmbeddingModel, Starts
from pspns.models.ease import Ease
from pspns.models.popular import Popular
from pspns.models.svd import CANDIDATE_RANKS, SvdRanking
from pspns.needed_bytes import (
    StepSizes,
    denoiser_bytes,
    held_bytes,
    message_bytes,
    sampler_bytes,
    svd_bytes,
    training_bytes,
)
from pspns.positives._facts import describe_positives, positives_words
from pspns.run import BASELINES, Rankings, Say, build_world, choose_device, make_split, prepare_rankings, validator
from pspns.settings import Settings
from pspns.shapes import Embeddings, Fitted, World
from pspns.training.epochs import Epochs
from pspns.training.loop import Saving
from pspns.training.recorded_step import STEPS_BEFORE_RECORDING
from pspns.training.stopping import Evaluation
from pspns.training.trainer import MakeModel, Member, Trainer

# The steps before a GPU records one, the recording, and a usual step that says how many fill the time.
WARM_UP_STEPS = STEPS_BEFORE_RECORDING + 2
LEAST_STEPS, MOST_STEPS = 5, 50
SECONDS_OF_STEPS = 1.0
NEVER = 10**12
STAGES_SHOWN = 5

Clock = Callable[[], float]
"""Tells seconds."""


@dataclass(frozen=True)
class Pace:
    """How fast training goes, and how far it may have to go."""

    seconds_per_step: float  # of all replicas, with its share of the new order that every epoch needs
    seconds_per_look: float  # at the part that chooses, for all replicas
    looks_at: str | None  # that part; unset: there is none
    interval: int  # steps between two looks
    limit: int  # steps
    patience: int | None  # looks without improvement; unset: exactly `limit` steps are taken
    # Of a plain training before, which may take as many steps and looks; unset: there is none.
    teacher_seconds_per_step: float | None = None

    @property
    def seconds_to_limit(self) -> float:
        """Replicas that stop earlier leave the loop and make it faster: an upper bound."""
        return self._seconds_to(self.limit)

    @property
    def least_seconds(self) -> float:
        """Where no look is better than the first."""
        if self.patience is None:
            return self.seconds_to_limit
        return self._seconds_to(min((1 + self.patience) * self.interval, self.limit))

    def _seconds_to(self, step: int) -> float:
        looks = -(-step // self.interval) * self.seconds_per_look  # the last step has one in any case
        before = 0.0 if self.teacher_seconds_per_step is None else step * self.teacher_seconds_per_step + looks
        return before + step * self.seconds_per_step + looks


@dataclass(frozen=True)
class Estimate:
    """What a run would take."""

    model: str
    device: torch.device
    n_users: int
    n_items: int
    n_train: int  # pairs
    n_replicas: int
    n_parameters: int | None  # of all replicas; unset for a model without a training loop
    bytes_by_stage: dict[str, int]  # what a run needs at once, on the device; after a refusal, what is known of it
    bytes_of_baselines: dict[str, int]  # one after the other, after training
    left_out: dict[str, str]  # baseline → why its memory would not suffice
    budget: float | None  # bytes; unset: the system does not tell
    refusal: str | None  # why the run would not fit
    peak_bytes: int | None  # the most this process held so far on the device, where the system tells
    pace: Pace | None  # unset without a training loop, and where the run would not fit
    n_noise: int = 0  # train pairs that are false, added at random

    @property
    def bytes_needed(self) -> int:
        return sum(self.bytes_by_stage.values())

    @property
    def fits(self) -> bool:
        return self.refusal is None

    def words(self) -> list[str]:
        """A few lines for the terminal."""
        size = f"{self.n_users:,} users, {self.n_items:,} items, {self.n_train:,} train pairs"
        if self.n_noise:
            size += f", {self.n_noise:,} of them noise"
        if self.n_parameters is not None:
            size += f"; {self.n_parameters:,} parameters of {self.model} in {_counted(self.n_replicas, 'replica')}"
        return [size, *self._pace_words(), *self._memory_words()]

    def _pace_words(self) -> Iterator[str]:
        pace = self.pace
        if self.refusal:
            yield "no steps were measured, because the run would not fit into memory"
        elif pace is None:
            yield f"{self.model} has no training loop: there are no steps to measure"
        else:
            every = f"every {pace.interval:,} steps"
            look = f"; a look at {pace.looks_at} {every}: {in_time(pace.seconds_per_look)}" if pace.looks_at else ""
            yield f"one step of {_counted(self.n_replicas, 'replica')}: {in_time(pace.seconds_per_step)}{look}"
            if pace.teacher_seconds_per_step is not None:
                yield (
                    f"trains twice: a plain model comes first, a step of which takes "
                    f"{in_time(pace.teacher_seconds_per_step)}; the times that follow are of both"
                )
            if pace.patience is None:
                yield f"training for exactly {pace.limit:,} steps: about {in_time(pace.seconds_to_limit)}"
            else:
                yield (
                    f"training to the limit of {pace.limit:,} steps: about {in_time(pace.seconds_to_limit)}; "
                    f"the least it can take: {in_time(pace.least_seconds)}"
                )
                yield (
                    f"a replica stops on its own after {_counted(pace.patience, 'look')} without improvement, "
                    "so the limit is an upper bound"
                )

    def _memory_words(self) -> Iterator[str]:
        if self.refusal:
            yield f"does not fit: {self.refusal}"
        if self.bytes_by_stage:
            needed = f"{'at least' if self.refusal else 'about'} {in_size(self.bytes_needed)}"
            budget = "" if self.budget is None else f", the budget is {in_size(self.budget)}"
            yield f"memory on {self.device}: {needed}{budget}: {self._stages_words()}"
        if self.peak_bytes is not None:
            beside = ", data and libraries included" if self.device.type == "cpu" else ""
            yield f"this process has held at most {in_size(self.peak_bytes)} so far{beside}"
        for baseline, why in self.left_out.items():
            yield f"baseline {baseline} would be left out: {why}"
        if remaining := {name: n for name, n in self.bytes_of_baselines.items() if name not in self.left_out}:
            largest = max(remaining, key=lambda name: remaining[name])
            yield f"the largest baseline, after training: {largest}, about {in_size(remaining[largest])}"

    def _stages_words(self) -> str:
        by_size = sorted(self.bytes_by_stage.items(), key=lambda stage: -stage[1])
        shown = [f"{stage} {in_size(n_bytes)}" for stage, n_bytes in by_size[:STAGES_SHOWN]]
        if rest := sum(n_bytes for _, n_bytes in by_size[STAGES_SHOWN:]):
            shown.append(f"the rest {in_size(rest)}")
        return ", ".join(shown)


def estimate(
    data: Interactions | GivenSplit,
    settings: Settings,
    *,
    say: Say = lambda line: None,
    clock: Clock = time.perf_counter,
) -> Estimate:
    """What a run on these data would take; nothing is written, and nothing of the few steps is kept.

    What would not fit into memory becomes part of the estimate; other errors are those that the run would end with.
    """
    device = choose_device(settings.run.device)
    memory = _RecordingBudget(device, settings.run.memory_gib)
    found = _Findings()
    with _threads(settings.run.threads):
        split = make_split(data, settings, find_protocol(settings.run.protocol))
        try:
            _rehearse(split, settings, memory, found, say, clock)
        except MemoryBudgetError as error:
            found.refusal = str(error)
        except (MemoryError, torch.OutOfMemoryError) as error:
            found.refusal = f"there was no more memory on {device}: {error}"
    return Estimate(
        model=part_name("models", settings.model),
        device=device,
        n_users=split.n_users,
        n_items=split.n_items,
        n_train=len(split.train),
        n_noise=len(split.noise),
        n_replicas=len(settings.run.seeds),
        budget=memory.limit,
        peak_bytes=_peak_bytes(device),
        **vars(found),
    )


@dataclass
class _Findings:
    """What is known so far: all that is left if a stage does not fit."""

    n_parameters: int | None = None
    bytes_by_stage: dict[str, int] = field(default_factory=dict)
    bytes_of_baselines: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    refusal: str | None = None
    pace: Pace | None = None


class _RecordingBudget(MemoryBudget):
    """Notes what it is asked for."""

    def __init__(self, device: torch.device, gib: float | None):
        super().__init__(device, gib)
        self.asked: dict[str, int] = {}

    def check(self, needed: int, what: str, *advice: str) -> None:
        self.asked[what] = needed
        super().check(needed, what, *advice)

    def rows(self, bytes_per_row: int, at_least: int, at_most: int, what: str) -> int:
        n_rows = super().rows(bytes_per_row, at_least, at_most, what)
        self.asked[what] = n_rows * bytes_per_row
        return n_rows


def _rehearse(
    split: Split, settings: Settings, memory: _RecordingBudget, found: _Findings, say: Say, clock: Clock
) -> None:
    """Go the way of a run, noting in `found` what each stage needs before the next one begins."""
    protocol, stages = find_protocol(settings.run.protocol), found.bytes_by_stage
    world = build_world(split, settings, protocol, memory)
    say(positives_words(describe_positives(world, settings.positives)))
    stages["pairs"] = held_bytes(memory.device, world)
    rankings = prepare_rankings(split, settings, protocol, world.pairs.as_pairs(), memory)
    stages["held-out and known items"] = held_bytes(memory.device, rankings)
    if memory.asked:  # for blocks of scores and the like, of which there is one at a time
        largest = max(memory.asked, key=lambda what: memory.asked[what])
        stages[largest] = memory.asked[largest]
    trainer = _trainer(world, settings, rankings, protocol)

    if settings.run.baselines and rankings.test:
        _weigh_baselines(settings.model, trainer, found)
    if (fitting := _fitting_bytes(settings.model, trainer)) is not None:
        what, needed = fitting
        memory.check(needed, what)
        stages[what] = needed
        memory.check(sum(stages.values()), f"{what}, beside what it stands on,")
    elif how := _comes_to_training(settings.model, trainer):
        _rehearse_training(trainer, settings, *how, found, say, clock)


def _rehearse_training(
    trainer: Trainer,
    settings: Settings,
    make_model: MakeModel,
    size: int,
    found: _Findings,
    say: Say,
    clock: Clock,
) -> None:
    (member,) = trainer.members
    world, n_replicas, stages = member.world, len(member.seeds), found.bytes_by_stage
    found.n_parameters = (world.n_users + world.n_items) * size * n_replicas
    stages |= training_bytes(world, size, n_replicas, settings.training.batch_size)
    n_layers = getattr(settings.model, "layers", 0)
    if hasattr(settings.model, "layers"):
        stages["messages"] = message_bytes(stages["embeddings"], n_layers, world.device)
    sizes = StepSizes(n_replicas, settings.training.batch_size, size, n_layers)
    if of_sampler := sampler_bytes(settings.negatives, world, sizes):
        stages["negatives"] = of_sampler
    if of_denoiser := denoiser_bytes(settings.denoiser, world, sizes):
        stages["denoiser"] = of_denoiser
    world.memory.check(sum(stages.values()), f"training {_counted(n_replicas, 'replica')}")

    say("a few steps of training and one look, to measure them")
    found.pace, model = _measure(trainer, settings, make_model, size, clock)
    if graph := held_bytes(world.device, model) - stages["embeddings"]:
        stages["the graph"] = graph


def _trainer(world: World, settings: Settings, rankings: Rankings, protocol: Protocol) -> Trainer:
    """The one a run would use, but neither a look nor the last step comes while steps are measured."""
    member = Member(
        world=world,
        start=settings.start,
        l2=settings.training.l2,
        seeds=settings.run.seeds,
        validate=validator(rankings, protocol),
    )
    endless = replace(settings.training, max_steps=NEVER, evaluate_every=NEVER)
    if endless.steps is not None:
        endless = replace(endless, steps=NEVER)
    return Trainer(
        members=[member],
        negatives=settings.negatives,
        denoiser=settings.denoiser,
        settings=endless,
        select_by=settings.evaluation.select_by,
        watch=lambda step, last_step, evaluation: None,
    )


class _ReadyError(Exception):
    """A model has come to its training loop."""

    def __init__(self, make_model: MakeModel, size: int):
        super().__init__()
        self.make_model, self.size = make_model, size


class _BeforeTraining(Trainer):
    def train(self, make_model: MakeModel, size: int) -> Fitted:
        raise _ReadyError(make_model, size)


def _comes_to_training(model: Any, trainer: Trainer) -> tuple[MakeModel, int] | None:
    """How the model is made for its training loop, and the size of its vectors; None if it has no loop."""
    try:
        model.fit(trainer.members[0].world, _BeforeTraining(**vars(trainer)))
    except _ReadyError as ready:
        return ready.make_model, ready.size
    return None


def _measure(
    trainer: Trainer, settings: Settings, make_model: MakeModel, size: int, clock: Clock
) -> tuple[Pace, EmbeddingModel]:
    """The pace, and the model after its few steps."""
    (member,) = trainer.members
    device = member.world.device

    def now() -> float:
        if device.type == "cuda":  # which works on while the clock is read
            torch.cuda.synchronize(device)
        return clock()

    before = None
    if getattr(trainer.denoiser, "needs_teacher", False):
        before, _ = _step_seconds(replace(trainer, denoiser=NoDenoising()), make_model, size, now)
    seconds, model = _step_seconds(trainer, make_model, size, now)
    of_order = _order_seconds_per_step(trainer, now)
    training, chooser = settings.training, find_protocol(settings.run.protocol).select_on
    pace = Pace(
        seconds_per_step=seconds + of_order,
        seconds_per_look=_look_seconds(member, model, now),
        looks_at={"valid": "validation", "test": "the test"}[chooser] if member.validate else None,
        interval=training.interval(len(member.world.train)),
        limit=training.steps or training.max_steps,
        patience=training.patience if training.steps is None else None,
        teacher_seconds_per_step=None if before is None else before + of_order,
    )
    return pace, model


class _Untaught(Trainer):
    """Trains nothing before: a step takes as long whatever its teacher has learned."""

    def _teacher(self, make_model: MakeModel, size: int) -> tuple[Embeddings | None, float, Saving | None]:
        return None, 0.0, self.saving


def _step_seconds(trainer: Trainer, make_model: MakeModel, size: int, now: Clock) -> tuple[float, EmbeddingModel]:
    """Of one step; and the model after a few."""
    made: list[EmbeddingModel] = []

    def make(starts: Starts, device: torch.device) -> EmbeddingModel:
        made.append(make_model(starts, device))
        return made[0]

    stopwatch = _Stopwatch(now)
    with suppress(_EnoughError):
        _Untaught(**vars(replace(trainer, watch=stopwatch))).train(make, size)
    (model,) = made
    return stopwatch.seconds_per_step, model


class _EnoughError(Exception):
    """As many steps as were to be measured are taken."""


class _Stopwatch:
    """Watches a training: lets it warm up, times as many steps as fill a second, and ends it."""

    def __init__(self, now: Clock):
        self._now = now
        self._n_steps = 0
        self._began = 0.0
        self.seconds_per_step = 0.0

    def __call__(self, step: int, last_step: int, evaluation: Evaluation | None) -> None:
        if step == WARM_UP_STEPS - 1:
            self._began = self._now()
        elif step == WARM_UP_STEPS:
            began, self._began = self._began, self._now()
            # Decided now: between the steps of a GPU the clock could only be read by waiting for it.
            filling = SECONDS_OF_STEPS / max(self._began - began, 1e-9)
            self._n_steps = round(min(max(filling, LEAST_STEPS), MOST_STEPS))
        elif step == WARM_UP_STEPS + self._n_steps:
            self.seconds_per_step = (self._now() - self._began) / self._n_steps
            raise _EnoughError


def _order_seconds_per_step(trainer: Trainer, now: Clock) -> float:
    """A step's share of laying out an epoch, where epochs are so long that none began among the steps measured."""
    (member,) = trainer.members
    rows = trainer.settings.batch_size
    n_batches = -(-member.world.pairs.n_visits // rows)
    if n_batches < WARM_UP_STEPS + MOST_STEPS:
        return 0.0
    together = trainer.settings.copies_together
    epochs = Epochs([member.world] * len(member.seeds), rows, member.seeds, copies_together=together)
    began = now()
    epochs.advance()
    return (now() - began) / n_batches


def _look_seconds(member: Member, model: EmbeddingModel, now: Clock) -> float:
    if member.validate is None:
        return 0.0
    began = now()
    scorer = model.scorer()
    for replica in range(len(member.seeds)):
        member.validate(scorer, replica)
    return now() - began


def _weigh_baselines(model: Any, trainer: Trainer, found: _Findings) -> None:
    for name in BASELINES:
        if name == part_name("models", model):
            continue
        baseline = find_part("models", name)()
        weighed = _fitting_bytes(baseline, trainer)
        assert weighed, "a baseline has no training loop"
        what, found.bytes_of_baselines[name] = weighed
        if isinstance(baseline, Ease):  # the others do not ask, and so are never left out
            try:
                trainer.members[0].world.memory.check(found.bytes_of_baselines[name], what)
            except MemoryBudgetError as error:
                found.left_out[name] = str(error)


def _fitting_bytes(model: Any, trainer: Trainer) -> tuple[str, int] | None:
    """What fitting a model without a training loop takes, in words and in bytes; None for any other model."""
    world = trainer.members[0].world
    match model:
        case Popular():
            return "popular", 16 * world.n_items
        case SvdRanking():
            rank = min(model.rank or max(CANDIDATE_RANKS), world.n_users, world.n_items)
            return f"svd of rank {rank}", svd_bytes(world.n_users, world.n_items, len(world.train), rank)
        case Ease():
            return _asked_for(model, trainer)
        case _:
            return None


def _asked_for(model: Any, trainer: Trainer) -> tuple[str, int]:
    """What a model asks the budget for before it begins: one that grants nothing is told, and nothing is done."""
    world = trainer.members[0].world
    refusing = _RecordingBudget(world.device, gib=1e-12)
    with suppress(MemoryBudgetError):
        model.fit(replace(world, memory=refusing), trainer)
    ((what, needed),) = refusing.asked.items()
    return what, needed


def _peak_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows has none
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # Linux counts in KiB


@contextmanager
def _threads(n: int | None) -> Iterator[None]:
    """So many CPU threads for a while, as the run would take."""
    before = torch.get_num_threads()
    try:
        if n:
            torch.set_num_threads(n)
        yield
    finally:
        torch.set_num_threads(before)


def in_time(seconds: float) -> str:
    """A length of time, as exactly as an estimate deserves.

    >>> [in_time(seconds) for seconds in (0.00012, 0.0123, 4.26, 59.7, 200, 5400, 260_000)]
    ['0.12 ms', '12 ms', '4.3 s', '60 s', '3.3 min', '1.5 h', '3 days']
    """
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= 2 * length or (unit in ("h", "s") and seconds >= length):
            return f"{_two_digits(seconds / length)} {unit}"
    return f"{_two_digits(1000 * seconds)} ms"


def in_size(n_bytes: float) -> str:
    """A number of bytes.

    >>> in_size(14.2 * 2**30), in_size(0.5 * 2**30), in_size(3000)
    ('14 GiB', '510 MiB', '2.9 KiB')
    """
    for unit, size in (("GiB", GIB), ("MiB", 2**20)):
        if n_bytes >= size:
            return f"{_two_digits(n_bytes / size)} {unit}"
    return f"{_two_digits(n_bytes / 1024)} KiB"


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


def _counted(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"
