"""The story of a run: split, positives, negatives, model, training, evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pspns.components import find_part, part_name
from pspns.data.carve import carve_validation
from pspns.data.interactions import Interactions
from pspns.data.split import GivenSplit, Pairs, Part, Split
from pspns.data.splits.random import RandomSplit
from pspns.errors import DataError, SettingsError
from pspns.evaluation.protocol import Known, Protocol, find_protocol
from pspns.evaluation.ranking import FullRanking, Ranked
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget, MemoryBudgetError
from pspns.positives._facts import describe_positives, positives_words
from pspns.rng import host_stream
from pspns.settings import Settings
from pspns.shapes import Fitted, Ground, PositivePairs, Scorer, Validate, World
from pspns.training.loop import Watch
from pspns.training.trainer import Trainer

BASELINES = ("popular", "svd", "ease")

Say = Callable[[str], None]
"""Told in words what the run does and finds."""


@dataclass(frozen=True)
class Judged:
    """A fitted model and what every held-out part says of it."""

    name: str
    fitted: Fitted
    valid: list[Ranked]  # one entry for each replica; empty without that part
    test: list[Ranked]
    test_other_masks: dict[str, list[Ranked]]


@dataclass(frozen=True)
class Rankings:
    """The held-out parts under the masks of the protocol."""

    valid: FullRanking | None
    test: FullRanking | None
    test_other_masks: dict[str, FullRanking]


@dataclass(frozen=True)
class Run:
    """All that a run was and found."""

    settings: Settings
    protocol: Protocol
    split: Split
    positives: Pairs  # what the loss was summed over, once each
    positives_facts: dict[str, Any]  # see describe_positives
    rankings: Rankings
    model: Judged
    baselines: list[Judged]
    left_out: dict[str, str]  # baseline → why it was not run
    device: torch.device
    seconds: dict[str, float] = field(default_factory=dict)  # stage → wall time


def run(
    data: Interactions | GivenSplit,
    settings: Settings,
    *,
    watch: Watch = lambda step, last_step, evaluation: None,
    say: Say = lambda line: None,
) -> Run:
    """From interactions to a judged model; training and evaluation see the same frozen protocol."""
    seconds: dict[str, float] = {}
    protocol = find_protocol(settings.run.protocol)
    device = choose_device(settings.run.device)
    if settings.run.threads:
        torch.set_num_threads(settings.run.threads)
    memory = MemoryBudget(device, settings.run.memory_gib)

    with _timed(seconds, "split"):
        split = make_split(data, settings, protocol)
    say(_split_words(split))
    with _timed(seconds, "positives"):
        world = build_world(split, settings, protocol, memory)
        facts = describe_positives(world, settings.positives)
    say(positives_words(facts))
    rankings = prepare_rankings(split, settings, protocol, world.pairs.as_pairs(), memory)
    trainer = Trainer(
        world=world,
        start=settings.start,
        negatives=settings.negatives,
        settings=settings.training,
        seeds=settings.run.seeds,
        select_by=settings.evaluation.select_by,
        validate=_validator(rankings, protocol),
        watch=watch,
    )
    name = part_name("models", settings.model)
    with _timed(seconds, "training"):
        fitted = settings.model.fit(world, trainer)
    with _timed(seconds, "evaluation"):
        judged = judge(name, fitted, rankings)

    baselines, left_out = [], {}
    with _timed(seconds, "baselines"):
        for baseline in BASELINES if settings.run.baselines and rankings.test else ():
            if baseline == name:
                continue
            say(f"baseline {baseline}")
            try:
                baselines.append(judge(baseline, find_part("models", baseline)().fit(world, trainer), rankings))
            except (MemoryBudgetError, SettingsError) as error:
                left_out[baseline] = str(error)
                say(f"baseline {baseline} left out: {error}")
    return Run(
        settings, protocol, split, world.pairs.as_pairs(), facts, rankings, judged, baselines, left_out, device, seconds
    )


def make_split(data: Interactions | GivenSplit, settings: Settings, protocol: Protocol) -> Split:
    """The parts as given, or as `[split]` says; validation is carved from train, never from test."""
    rng = host_stream(settings.run.data_seed, "split")
    if isinstance(data, GivenSplit) and settings.split is None:
        given = data
        if protocol.needs_validation and not (given.parts == Part.VALID).any():
            given = carve_validation(given, rng)
        interactions, parts, made_by = given.interactions, given.parts, given.source
    else:
        interactions = data.interactions if isinstance(data, GivenSplit) else data
        rule = settings.split or RandomSplit()
        parts = rule.assign(interactions, rng)
        made_by = f"{rule.describe()}, data seed {settings.run.data_seed}"
    if not protocol.needs_validation and (parts == Part.VALID).any():
        parts = np.where(parts == Part.VALID, np.int8(Part.TRAIN), parts)
        made_by += "; validation joined to train, as best-on-test uses none"
    return Split.from_parts(interactions, parts, made_by)


def build_world(split: Split, settings: Settings, protocol: Protocol, memory: MemoryBudget) -> World:
    """What is built from train; held-out pairs touch it only where the protocol drops them."""
    ground = Ground(split.n_users, split.n_items, split.train, settings.run.data_seed, memory)
    built: PositivePairs = settings.positives.build(ground)
    positives = built
    if protocol.drop_held_out:
        positives = built.without(ItemSets(split.n_users, split.n_items, split.valid, split.test))
    if len(positives) == 0:
        raise DataError("no training pair is left: the protocol dropped all of them because they are held out")
    # Counted after dropping: what is held out must not be felt in a weight either.
    n_pairs = np.bincount(positives.users, minlength=split.n_users)
    return World(
        **vars(ground),
        pairs=positives,
        n_dropped=len(built) - len(positives),
        user_weights=settings.weighting.weights(n_pairs),
        rejected=ItemSets(
            split.n_users, split.n_items, *protocol.reject.pairs(split, positives.as_pairs()), device=memory.device
        ),
    )


def prepare_rankings(
    split: Split, settings: Settings, protocol: Protocol, positives: Pairs, memory: MemoryBudget
) -> Rankings:
    """Validation and test under the protocol's masks, and the test under mask `train` for comparison with papers."""
    counts = torch.from_numpy(np.bincount(split.train.items, minlength=split.n_items)).to(memory.device)

    def ranking(part: Any, mask: Known) -> FullRanking | None:
        if len(part) == 0:
            return None
        known = mask.pairs(split, positives)
        return FullRanking(part, known, counts, split.n_users, settings.evaluation.cutoffs, memory)

    others = {Known.TRAIN} - {protocol.mask_test}
    other_masks = {str(mask): ranking(split.test, mask) for mask in others}
    return Rankings(
        valid=ranking(split.valid, protocol.mask_valid),
        test=ranking(split.test, protocol.mask_test),
        test_other_masks={mask: found for mask, found in other_masks.items() if found is not None},
    )


def judge(name: str, fitted: Fitted, rankings: Rankings) -> Judged:
    """Every replica on every held-out part."""
    return Judged(
        name=name,
        fitted=fitted,
        valid=_all_replicas(rankings.valid, fitted.scorer),
        test=_all_replicas(rankings.test, fitted.scorer),
        test_other_masks={
            mask: _all_replicas(ranking, fitted.scorer) for mask, ranking in rankings.test_other_masks.items()
        },
    )


def choose_device(name: str) -> torch.device:
    """`auto` is cuda where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(f"no device named '{name}'; use cpu, cuda or auto") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingsError(f"device '{name}' is not supported; use cpu, cuda or auto")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device cuda was asked for, but torch finds no GPU here; use --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingsError(f"device '{name}' does not exist: torch finds {torch.cuda.device_count()} GPU(s) here")
    return device


def _validator(rankings: Rankings, protocol: Protocol) -> Validate | None:
    chooser = rankings.valid if protocol.select_on == "valid" else rankings.test
    if chooser is None:
        return None
    return lambda scorer: [ranked.overall for ranked in _all_replicas(chooser, scorer)]


def _all_replicas(ranking: FullRanking | None, scorer: Scorer) -> list[Ranked]:
    return [ranking.judge(scorer, replica) for replica in range(scorer.n_replicas)] if ranking else []


def _split_words(split: Split) -> str:
    return (
        f"{split.n_users:,} users, {split.n_items:,} items; train {len(split.train):,}, "
        f"validation {len(split.valid):,}, test {len(split.test):,} pairs ({split.made_by})"
    )


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - began
