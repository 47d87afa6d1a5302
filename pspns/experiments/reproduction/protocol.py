"""What the published gains rest on: the same models under several masks, random labels, and what leaks would give.

The leaks live in this file alone: no protocol and no setting of a run leads to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from pspns.components import find_part
from pspns.data.split import Pairs, Split
from pspns.errors import SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.evaluation.ranking import FullRanking, Ranked
from pspns.evaluation.significance import bootstrap_interval
from pspns.experiments.cells import SEEDS, Cell, Terms
from pspns.experiments.experiment import Data, Experiment, Job
from pspns.experiments.loops import BegunOtherwiseError
from pspns.experiments.records import Record
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.reproduction._masks import (
    SPARED,
    TRAIN,
    TRAIN_VALID,
    Masks,
    draw_labels,
    make_masks,
    spare,
)
from pspns.experiments.reproduction._protocol_section import METRICS, section
from pspns.experiments.telling import Telling
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget, MemoryBudgetError
from pspns.record import summarise
from pspns.resume import has_checkpoint, open_checkpoints
from pspns.rng import host_stream
from pspns.run import BASELINES, Say, build_world, choose_device, make_split, prepare_rankings, validator
from pspns.settings import Settings
from pspns.shapes import Fitted, Ground, PositivePairs, World
from pspns.training.trainer import Member, Trainer

MODEL = "lightgcn"
CUTOFF = 20


@dataclass(frozen=True)
class Stage:
    """One split on one device, where members are made, trained and judged."""

    split: Split
    memory: MemoryBudget

    @classmethod
    def of(cls, interactions: Data, settings: Settings) -> Stage:
        split = make_split(interactions, settings, find_protocol(settings.run.protocol))
        return cls(split, MemoryBudget(choose_device(settings.run.device)))

    def member(self, settings: Settings) -> Member:
        """As a run would train it."""
        world = build_world(self.split, settings, find_protocol(settings.run.protocol), self.memory)
        return self.member_in(world, settings)

    def member_in(self, world: World, settings: Settings) -> Member:
        """Trained in that world; validation is masked as the protocol says."""
        protocol = find_protocol(settings.run.protocol)
        rankings = prepare_rankings(
            self.split, settings, protocol, world.pairs.as_pairs(), self.memory, judge_test=False
        )
        return Member(
            world=world,
            start=settings.start,
            l2=settings.training.l2,
            seeds=settings.run.seeds,
            validate=validator(rankings, protocol),
        )

    def judge(self, fitted: Fitted, labels: Pairs, masks: Masks) -> dict[str, list[Ranked]]:
        """Mask → every replica's lists, judged by these labels."""
        counts = np.bincount(self.split.train.items, minlength=self.split.n_items)
        train_counts = torch.from_numpy(counts).to(self.memory.device)
        found = {}
        for name, known in masks.items():
            ranking = FullRanking(labels, known, train_counts, self.split.n_users, (CUTOFF,), self.memory)
            found[name] = [ranking.judge(fitted.scorer, replica) for replica in range(fitted.scorer.n_replicas)]
        return found


def measure_masks(name: str, data: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """Models as `strict` and `published` train them, each under every mask, on the test and on random labels."""
    plain, strict, published = (_settings(data, terms, *which) for which in (
        ("uniform", "strict"), ("psp-ns", "strict"), ("psp-ns", "published"),
    ))  # fmt: skip
    stage = Stage.of(interactions, plain)
    split = stage.split
    members = {"uniform": stage.member(plain), "psp-ns": stage.member(strict), "published": stage.member(published)}
    rows = train(members, (plain, strict, published), split, telling)
    baselines, left_out = fit_baselines(members["uniform"], plain, telling.say)
    rows |= baselines

    built = members["psp-ns"].world.pairs
    masks = make_masks(split, built, host_stream(plain.run.data_seed, "random mask"))
    labels = draw_labels(split, host_stream(plain.run.data_seed, "random labels"))
    masks_of_labels = {TRAIN: masks[TRAIN], SPARED: [split.clean_train, spare(built.as_pairs(), split, labels)]}
    record: Record = {
        **describe_job(name, split, plain, stage.memory.device),
        "model": MODEL,
        "seeds": list(plain.run.seeds),
        "psp": {"positives": strict.as_dict()["positives"], "weighting": strict.as_dict()["weighting"]},
        "masks": {mask: _describe_mask(known, split) for mask, known in masks.items()},
        "rows": {},
        "random_labels": {"chance": _chance(split, labels), "rows": {}},
        "left_out": left_out,
    }
    for row, one in rows.items():
        judged = stage.judge(one, split.test, masks)
        record["rows"][row] = {
            "test": {mask: _figures(ranked) for mask, ranked in judged.items()},
            "spared_minus_train": _interval(judged[SPARED], judged[TRAIN]),
            "steps": one.steps,
            "best_step": one.best_steps,
            "chosen_on_validation": one.chosen,
        }
        of_labels = stage.judge(one, labels, masks_of_labels)
        record["random_labels"]["rows"][row] = {mask: _figures(ranked) for mask, ranked in of_labels.items()}
    return record


def measure_leaks(name: str, data: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """What training gains that sees held-out pairs: in what it rejects as negatives, or in the SVD."""
    plain, strict, published = (_settings(data, terms, *which) for which in (
        ("uniform", "strict"), ("psp-ns", "strict"), ("psp-ns", "published"),
    ))  # fmt: skip
    stage = Stage.of(interactions, plain)
    split = stage.split
    honest = stage.member(plain)
    everything = all_pairs(split)
    kept, dropped = pairs_of_everything(everything, split, strict, stage.memory)
    members = {
        "uniform, test rejected": stage.member_in(rejecting_test(honest.world, split), plain),
        "psp-ns of all, kept": stage.member_in(world_with(honest.world, kept, strict), strict),
        "psp-ns of all, dropped": stage.member_in(world_with(honest.world, dropped, published), published),
    }
    rows = train(members, (plain, strict, published), split, telling)
    rows["svd of all"] = svd_of_all(honest, everything, plain)

    masks: Masks = {TRAIN: [split.clean_train], TRAIN_VALID: [split.clean_train, split.valid]}
    of_all: Masks = {SPARED: [split.clean_train, dropped.as_pairs()]}
    record = {
        **describe_job(name, split, plain, stage.memory.device),
        "model": MODEL,
        "seeds": list(plain.run.seeds),
        "psp": {"positives": strict.as_dict()["positives"], "weighting": strict.as_dict()["weighting"]},
        "held_out_in_pairs_of_all": len(kept) - len(dropped),
        "rows": {},
    }
    for row, one in rows.items():
        judged = stage.judge(one, split.test, masks if row.startswith("uniform") else {**masks, **of_all})
        record["rows"][row] = {
            "test": {mask: _figures(ranked) for mask, ranked in judged.items()},
            "steps": one.steps,
            "best_step": one.best_steps,
            "chosen_on_validation": one.chosen,
        }
    return record


def train(
    members: Mapping[str, Member], settings: Sequence[Settings], split: Split, telling: Telling
) -> dict[str, Fitted]:
    """All members in one loop, which can be stopped and goes on."""
    together = list(members.values())
    saving = None
    if place := telling.unfinished:
        worlds = [member.world for member in together]
        resume = has_checkpoint(place)
        try:
            saving = open_checkpoints(place, settings, split, worlds, resume=resume, say=telling.say)
        except SettingsError as error:
            raise BegunOtherwiseError(f"{error}; here that is: remove {place}") from error
    trainer = dataclasses.replace(_trainer(together, settings[0]), watch=telling.watch, saving=saving)
    fitted = settings[0].model.fit(together[0].world, trainer)
    firsts = np.cumsum([0, *(len(member.seeds) for member in together)]).tolist()
    return {name: fitted.of(first, one.seeds) for (name, one), first in zip(members.items(), firsts, strict=False)}


def fit_baselines(member: Member, settings: Settings, say: Say) -> tuple[dict[str, Fitted], dict[str, str]]:
    """Models without a training loop, chosen on validation under the member's mask; and which were left out, why."""
    rows, left_out = {}, {}
    for name in BASELINES:
        try:
            rows[name] = find_part("models", name)().fit(member.world, _alone(member, settings))
        except (MemoryBudgetError, SettingsError) as error:
            left_out[name] = str(error)
            say(f"{name} left out: {error}")
    return rows, left_out


# Leaks, on purpose.


def rejecting_test(world: World, split: Split) -> World:
    """Test pairs are never drawn as negatives."""
    rejected = ItemSets(split.n_users, split.n_items, split.train, split.test, device=world.device)
    return dataclasses.replace(world, rejected=rejected)


def all_pairs(split: Split) -> Pairs:
    """Train, validation and test, as far as train knows their users and items."""
    parts = split.train, split.valid, split.test
    users, items = (np.concatenate([getattr(part, side) for part in parts]) for side in ("users", "items"))
    known = (users < split.n_users) & (items < split.n_items)
    return Pairs.sorted_from(users[known], items[known])


def pairs_of_everything(
    everything: Pairs, split: Split, settings: Settings, memory: MemoryBudget
) -> tuple[PositivePairs, PositivePairs]:
    """PSP of all pairs, held-out ones among them: with those, and after they were dropped."""
    ground = Ground(split.n_users, split.n_items, everything, settings.run.data_seed, memory)
    built: PositivePairs = settings.positives.build(ground)
    held_out = ItemSets(split.n_users, split.n_items, split.valid, split.test)
    # Not `without`: here held-out pairs are observed ones, which it keeps.
    is_held_out = held_out.contains(torch.from_numpy(built.users), torch.from_numpy(built.items)).numpy()
    return built, built.only(~is_held_out)


def world_with(world: World, pairs: PositivePairs, settings: Settings) -> World:
    """Other pairs on the same train, which stays the graph."""
    n_pairs = np.bincount(pairs.users, minlength=world.n_users)
    rejected = ItemSets(world.n_users, world.n_items, world.train, pairs.as_pairs(), device=world.device)
    return dataclasses.replace(
        world, pairs=pairs, user_weights=settings.weighting.weights(n_pairs), rejected=rejected, n_dropped=0
    )


def svd_of_all(honest: Member, everything: Pairs, settings: Settings) -> Fitted:
    """The SVD ranking of all pairs, at the rank that validation chooses for that of train."""
    svd = find_part("models", "svd")
    rank = svd().fit(honest.world, _alone(honest, settings)).chosen["rank"]
    seeing = dataclasses.replace(honest.world, train=everything)
    fitted: Fitted = svd(rank=rank).fit(seeing, _alone(honest, settings))
    return dataclasses.replace(fitted, chosen={"rank": rank})


def _settings(data: str, terms: Terms, method: str, protocol: str) -> Settings:
    return Cell(data, MODEL, method, protocol).settings(dataclasses.replace(terms, seeds=terms.seeds or SEEDS), data)


def _trainer(members: Sequence[Member], settings: Settings) -> Trainer:
    return Trainer(
        members=members,
        negatives=settings.negatives,
        denoiser=settings.denoiser,
        settings=settings.training,
        select_by=settings.evaluation.select_by,
        watch=lambda step, last_step, evaluation: None,
    )


def _alone(member: Member, settings: Settings) -> Trainer:
    """For models without a training loop."""
    return dataclasses.replace(_trainer([member], settings), select_by=settings.evaluation.ranks_by)


def _figures(replicas: Sequence[Ranked]) -> dict[str, Any]:
    found = summarise(replicas)
    return {metric: found[metric] for metric in METRICS}


def _interval(one: Sequence[Ranked], other: Sequence[Ranked]) -> dict[str, float]:
    """One minus the other in Recall@20, with a bootstrap interval over users."""
    by_user = np.mean([a.per_user[METRICS[0]] - b.per_user[METRICS[0]] for a, b in zip(one, other, strict=True)], 0)
    low, high = bootstrap_interval(by_user, rng=np.random.default_rng(0))
    return {"mean": float(by_user.mean()), "low": low, "high": high}


def _describe_mask(known: list[Pairs], split: Split) -> dict[str, float]:
    """How much is left out, and how much of it is in the test."""
    masked = ItemSets(split.n_users, split.n_items, *known)
    test = ItemSets(split.n_users, split.n_items, split.test)
    hidden = test.contains(masked.keys // split.n_items, masked.keys % split.n_items)
    return {"pairs": len(masked.keys), "test_pairs": int(hidden.sum())}


def _chance(split: Split, labels: Pairs) -> float:
    """Recall@20 of a random ranking under mask train, mean over the users who have labels."""
    n_free = split.n_items - np.bincount(split.train.users, minlength=split.n_users)
    return float((np.minimum(CUTOFF, n_free) / n_free)[np.unique(labels.users)].mean())


def jobs(data: str) -> Iterable[Job]:
    for name, measure in ((f"protocol-{data}", measure_masks), (f"protocol-leaks-{data}", measure_leaks)):
        yield Job(name, data, partial(measure, name, data))


EXPERIMENT = Experiment(
    title="What the gain rests on",
    shows="Models under five masks, random test labels and leaks made on purpose; how much of the gain the mask buys",
    section=section,
    jobs=jobs,
    data=("ml-1m", "epinions", "pinterest", "yelp2018-part"),
)
