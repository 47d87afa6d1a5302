"""The story of a run: split, positives, negatives, model, training, evaluation."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pspns.components import find_part, part_name
from pspns.data.carve import carve_validation
from pspns.data.interactions import Interactions
from pspns.data.noise import add_noise, describe_noise, noise_words
from pspns.data.split import GivenSplit, Pairs, Part, Split
from pspns.data.splits.random import RandomSplit
from pspns.errors import DataError, SettingsError
from pspns.evaluation.protocol import Known, Protocol, find_protocol
from pspns.evaluation.ranking import FullRanking, Ranked
from pspns.evaluation.validation_loss import ValidationLoss
from pspns.global_svd import GlobalSvd
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget, MemoryBudgetError, named_when_it_runs_out
from pspns.positives._facts import describe_positives, positives_words
from pspns.resume import open_checkpoints
from pspns.rng import host_stream
from pspns.settings import Settings
from pspns.shapes import Fitted, Ground, PositivePairs, Scorer, Validate, World
from pspns.training.loop import Watch
from pspns.training.trainer import Member, Trainer

BASELINES = ("popular", "svd", "ease")
LESS_TO_TRAIN = "take fewer seeds, shorter vectors, smaller batches or fewer candidates"

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
    valid_loss: ValidationLoss | None = None  # unset: nothing is chosen by it


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
    replicas_in_loop: int  # other settings' too; they share the seconds of training
    seconds: dict[str, float]  # stage → wall time


def run(
    data: Interactions | GivenSplit,
    settings: Settings,
    *,
    judge_test: bool = True,
    checkpoints: Path | None = None,
    resume: bool = False,
    watch: Watch = lambda step, last_step, evaluation: None,
    say: Say = lambda line: None,
) -> Run:
    """From interactions to a judged model; training and evaluation see the same frozen protocol.

    Without `judge_test` the test is left alone, and so are the baselines. With a folder for `checkpoints` a training
    that is stopped can go on later: see `pspns.resume.unfinished`.
    """
    (finished,) = run_together(
        data, [settings], judge_test=judge_test, checkpoints=checkpoints, resume=resume, watch=watch, say=say
    )
    return finished


def run_together(
    data: Interactions | GivenSplit,
    members: Sequence[Settings],
    *,
    judge_test: bool = True,
    checkpoints: Path | None = None,
    resume: bool = False,
    watch: Watch = lambda step, last_step, evaluation: None,
    say: Say = lambda line: None,
) -> list[Run]:
    """Several settings over one graph, trained side by side in one loop; each comes out as it would alone."""
    check_company(members)
    seconds: dict[str, float] = {}
    settings = members[0]
    device = choose_device(settings.run.device)
    if settings.run.threads:
        torch.set_num_threads(settings.run.threads)
    memory = MemoryBudget(device, settings.run.memory_gib)

    with _timed(seconds, "split"):
        split = make_split(data, settings, find_protocol(settings.run.protocol))
    say(_split_words(split))
    if settings.data.noise:
        say(f"noise: {noise_words(describe_noise(split, settings.data.noise))}")
    with _timed(seconds, "positives"):
        prepared = _prepare_all(split, members, memory, say, judge_test=judge_test)
        _check_graphs(prepared)
    saving = None
    if checkpoints:
        saving = open_checkpoints(checkpoints, members, split, [one.world for one in prepared], resume=resume, say=say)
    trainer = Trainer(
        members=[_trained_as(one) for one in prepared],
        negatives=settings.negatives,
        denoiser=settings.denoiser,
        settings=settings.training,
        select_by=settings.evaluation.select_by,
        watch=watch,
        saving=saving,
    )
    if getattr(settings.denoiser, "needs_teacher", False):
        denoiser = part_name("denoisers", settings.denoiser)
        say(f"{denoiser} trains twice, first a plain model, then its own; steps are counted anew, seconds are not")
    with _timed(seconds, "training"), named_when_it_runs_out(f"training on {device}", LESS_TO_TRAIN):
        together = settings.model.fit(prepared[0].world, trainer)
    seconds["training"] += saving.seconds_before if saving else 0.0

    finished, first = [], 0
    for one, member in zip(prepared, trainer.members, strict=True):
        fitted = together.of(first, member.seeds)
        first += len(member.seeds)
        finished.append(_judge_beside_baselines(one, fitted, split, dict(seconds), len(together.steps), trainer, say))
    return finished


def check_company(members: Sequence[Settings]) -> None:
    """Settings can train in one loop if they differ only in what every replica has for itself."""
    first = members[0]
    for other in members[1:]:
        alike = dataclasses.replace(
            other,
            positives=first.positives,
            weighting=first.weighting,
            start=first.start,
            training=dataclasses.replace(other.training, l2=first.training.l2),
            run=dataclasses.replace(
                other.run, seeds=first.run.seeds, protocol=first.run.protocol, baselines=first.run.baselines
            ),
        )
        for section in dataclasses.fields(Settings):
            if getattr(alike, section.name) != getattr(first, section.name):
                raise SettingsError(
                    f"settings that train together must share [{section.name}], got {getattr(first, section.name)} and "
                    f"{getattr(other, section.name)}; positives, weighting, start, l2, seeds and protocol may differ"
                )
        protocols = find_protocol(first.run.protocol), find_protocol(other.run.protocol)
        if protocols[0].needs_validation != protocols[1].needs_validation:
            raise SettingsError(
                f"protocols {first.run.protocol} and {other.run.protocol} split the data differently; run them apart"
            )
        same_pairs = other.positives == first.positives and protocols[0].drop_held_out == protocols[1].drop_held_out
        if getattr(first.model, "graph", "train") != "train" and not same_pairs:
            raise SettingsError(
                f"with [model] graph = {first.model.graph} the positives are the graph, and replicas share a loop only "
                "if they share a graph; run them apart"
            )


@dataclass(frozen=True)
class _Prepared:
    settings: Settings
    protocol: Protocol
    world: World
    facts: dict[str, Any]
    rankings: Rankings


def _prepare_all(
    split: Split, members: Sequence[Settings], memory: MemoryBudget, say: Say, *, judge_test: bool
) -> list[_Prepared]:
    prepared: list[_Prepared] = []
    shared: dict[str, Rankings] = {}
    for settings in members:
        protocol = find_protocol(settings.run.protocol)
        world = build_world(split, settings, protocol, memory)
        facts = describe_positives(world, settings.positives)
        say(positives_words(facts))
        rankings = shared.get(protocol.name) or prepare_rankings(
            split, settings, protocol, world.pairs.as_pairs(), memory, judge_test=judge_test
        )
        if Known.TRAIN_PAIRS not in (protocol.mask_valid, protocol.mask_test):
            shared[protocol.name] = rankings  # no mask depends on the member's pairs
        prepared.append(_Prepared(settings, protocol, world, facts, rankings))
    return prepared


def _check_graphs(prepared: Sequence[_Prepared]) -> None:
    """Pairs may differ though their settings do not: a spectral start may ask for a wider SVD."""
    first = prepared[0]
    if getattr(first.settings.model, "graph", "train") == "train":
        return
    for one in prepared[1:]:
        if not first.world.pairs.equals(one.world.pairs):
            raise SettingsError(
                "these settings build different pairs, which are the graph, and replicas share a loop only if they "
                "share a graph; run them apart"
            )


def _trained_as(one: _Prepared) -> Member:
    return Member(
        world=one.world,
        start=one.settings.start,
        l2=one.settings.training.l2,
        seeds=one.settings.run.seeds,
        validate=validator(one.rankings, one.protocol),
    )


def _judge_beside_baselines(
    one: _Prepared,
    fitted: Fitted,
    split: Split,
    seconds: dict[str, float],
    n_replicas: int,
    trainer: Trainer,
    say: Say,
) -> Run:
    settings, rankings = one.settings, one.rankings
    name = part_name("models", settings.model)
    with _timed(seconds, "evaluation"):
        judged = judge(name, fitted, rankings)
    # Never by a loss: the scores of baselines are no log-odds, and a loss would choose weaker ones.
    select_by = settings.evaluation.ranks_by
    alone = dataclasses.replace(trainer, members=[_trained_as(one)], saving=None, select_by=select_by)
    baselines, left_out = [], {}
    with _timed(seconds, "baselines"):
        for baseline in BASELINES if settings.run.baselines and rankings.test else ():
            if baseline == name:
                continue
            say(f"baseline {baseline}")
            try:
                baselines.append(judge(baseline, find_part("models", baseline)().fit(one.world, alone), rankings))
            except (MemoryBudgetError, SettingsError) as error:
                left_out[baseline] = str(error)
                say(f"baseline {baseline} left out: {error}")
    return Run(
        settings=settings,
        protocol=one.protocol,
        split=split,
        positives=one.world.pairs.as_pairs(),
        positives_facts=one.facts,
        rankings=rankings,
        model=judged,
        baselines=baselines,
        left_out=left_out,
        device=one.world.device,
        replicas_in_loop=n_replicas,
        seconds=seconds,
    )


def make_split(data: Interactions | GivenSplit, settings: Settings, protocol: Protocol) -> Split:
    """The parts as given, or as `[split]` says, with noise in train if asked for; validation is carved from train,
    never from test."""
    rng = host_stream(settings.run.data_seed, "split")
    if isinstance(data, GivenSplit) and settings.split is None:
        given = data
        if protocol.needs_validation and not (given.parts == Part.VALID).any():
            given = carve_validation(given, rng)
        interactions, parts, made_by = given.interactions, given.parts, given.source
    else:
        interactions = data.interactions if isinstance(data, GivenSplit) else data
        rule = settings.split or interactions.usual_split or RandomSplit()
        parts = rule.assign(interactions, rng)
        made_by = f"{rule.describe()}, data seed {settings.run.data_seed}"
    if not protocol.needs_validation and (parts == Part.VALID).any():
        parts = np.where(parts == Part.VALID, np.int8(Part.TRAIN), parts)
        made_by += "; validation joined to train, as best-on-test uses none"
    split = Split.from_parts(interactions, parts, made_by)
    noise = settings.data.noise
    return add_noise(split, noise, host_stream(settings.run.data_seed, "noise")) if noise else split


def build_world(split: Split, settings: Settings, protocol: Protocol, memory: MemoryBudget) -> World:
    """What is built from train; held-out pairs touch it only where the protocol drops them."""
    svd = GlobalSvd(at_least=svd_rank_of_start(settings))
    ground = Ground(split.n_users, split.n_items, split.train, settings.run.data_seed, memory, svd=svd)
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
            split.n_users, split.n_items, *protocol.reject.to_reject(split, positives.as_pairs()), device=memory.device
        ),
        is_false=split.are_noise(positives.as_pairs()) if len(split.noise) else None,
    )


def svd_rank_of_start(settings: Settings) -> int:
    """How much of the SVD the model's start will ask for; 0 where one of the two needs nothing of it."""
    svd_rank = getattr(settings.start, "svd_rank", None)
    return svd_rank(settings.model.embedding_size) if svd_rank and hasattr(settings.model, "embedding_size") else 0


def prepare_rankings(
    split: Split,
    settings: Settings,
    protocol: Protocol,
    positives: Pairs,
    memory: MemoryBudget,
    *,
    judge_test: bool = True,
) -> Rankings:
    """Validation and test under the protocol's masks, and the test under mask `train` for comparison with papers."""
    counts = torch.from_numpy(np.bincount(split.train.items, minlength=split.n_items)).to(memory.device)

    def ranking(part: Any, mask: Known) -> FullRanking | None:
        if len(part) == 0:
            return None
        known = mask.to_mask(split, positives)
        return FullRanking(part, known, counts, split.n_users, settings.evaluation.cutoffs, memory)

    valid, valid_loss = ranking(split.valid, protocol.mask_valid), None
    if valid and settings.evaluation.selects_by_loss:
        valid_loss = ValidationLoss(split, settings.run.data_seed, settings.evaluation.loss_trim, memory)
    if not judge_test:
        return Rankings(valid=valid, test=None, test_other_masks={}, valid_loss=valid_loss)
    others = {Known.TRAIN} - {protocol.mask_test}
    other_masks = {str(mask): ranking(split.test, mask) for mask in others}
    return Rankings(
        valid=valid,
        test=ranking(split.test, protocol.mask_test),
        test_other_masks={mask: found for mask, found in other_masks.items() if found is not None},
        valid_loss=valid_loss,
    )


def judge(name: str, fitted: Fitted, rankings: Rankings) -> Judged:
    """Every replica on every held-out part."""
    return Judged(
        name=name,
        fitted=fitted,
        valid=_all_replicas(rankings.valid, fitted.scorer, rankings.valid_loss),
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


def validator(rankings: Rankings, protocol: Protocol) -> Validate | None:
    """What the part that chooses says of a replica; None where there is no such part."""
    chooser = rankings.valid if protocol.select_on == "valid" else rankings.test
    if chooser is None:
        return None
    return lambda scorer, replica: _ranked(chooser, scorer, replica, rankings.valid_loss).overall


def _all_replicas(
    ranking: FullRanking | None, scorer: Scorer, valid_loss: ValidationLoss | None = None
) -> list[Ranked]:
    if ranking is None:
        return []
    return [_ranked(ranking, scorer, replica, valid_loss) for replica in range(scorer.n_replicas)]


def _ranked(ranking: FullRanking, scorer: Scorer, replica: int, valid_loss: ValidationLoss | None) -> Ranked:
    """How good the lists are and, if asked for, what the validation loss is."""
    found = ranking.judge(scorer, replica)
    if valid_loss is None:
        return found
    return dataclasses.replace(found, overall=found.overall | valid_loss.of(scorer, replica))


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
