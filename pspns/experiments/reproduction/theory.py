"""The paper's two propositions as measurements: what a step does to margins, and what a user's weight does to that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pspns.components import find_part
from pspns.data.interactions import Floats, Ints
from pspns.data.planted import PlantedWorld
from pspns.data.split import Pairs, Split
from pspns.evaluation.groups import least_active
from pspns.evaluation.protocol import STRICT
from pspns.evaluation.top_lists import TopLists
from pspns.experiments.cells import SEEDS, Cell, Terms
from pspns.experiments.experiment import Data, Experiment, Job
from pspns.experiments.planted_truth import WORLDS, builders
from pspns.experiments.records import Record
from pspns.experiments.reproduction._jobs import describe_job
from pspns.experiments.reproduction._margins import (
    Optimiser,
    Positives,
    State,
    Triples,
    Weighing,
    first_order,
    joined,
    mean_change,
    times,
    walk,
    with_negatives,
)
from pspns.experiments.reproduction._theory_section import section
from pspns.experiments.telling import Telling
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct
from pspns.record import describe_machine, describe_versions
from pspns.rng import ReplicaStream, host_stream
from pspns.run import Run, build_world, choose_device, run
from pspns.settings import Settings
from pspns.shapes import World

STEPS_BEFORE = 10_000
"""Of plain training; all measurements start from there."""
BATCHES = 100
LONG_WALK = 2_000
FACTORS = (0.5, 1.0, 2.0, 4.0, 8.0)
SGD_RATE = 1.0  # its size is free: small enough that a step is one of first order, and only comparisons are read
MOST_WATCHED = 100_000
TOP = 20
OPTIMISERS: tuple[Optimiser, ...] = ("sgd", "adam")


@dataclass(frozen=True)
class Lab:
    """A data set, both kinds of positives, and plainly trained states to step from."""

    split: Split
    settings: Settings
    memory: MemoryBudget
    states: list[State]  # one for each seed
    positives: dict[str, Positives]  # observed, psp
    weights: Tensor  # [n_users] those of PSP-NS
    n_steps: int
    """Of plain training, which led to the states."""
    n_batches: int
    """Single steps whose mean is taken, each from the same state."""

    @classmethod
    def of(cls, data: str, interactions: Data, terms: Terms) -> Lab:
        terms = replace(terms, seeds=terms.seeds or SEEDS)
        plain, psp = (Cell(data, "mf", method).settings(terms, data) for method in ("uniform", "psp-ns"))
        n_steps = min(STEPS_BEFORE, terms.max_steps)
        trained = run(interactions, replace(plain, training=replace(plain.training, steps=n_steps)), judge_test=False)
        memory = MemoryBudget(trained.device)
        worlds = {
            "observed": build_world(trained.split, plain, STRICT, memory),
            "psp": build_world(trained.split, psp, STRICT, memory),
        }
        return cls(
            split=trained.split,
            settings=psp,
            memory=memory,
            states=_states(trained),
            positives={kind: Positives(world.pairs, world.rejected) for kind, world in worlds.items()},
            weights=_on_device(worlds["psp"]),
            n_steps=n_steps,
            n_batches=min(BATCHES, terms.max_steps),
        )

    def rate(self, optimiser: Optimiser) -> float:
        return SGD_RATE if optimiser == "sgd" else self.settings.training.learning_rate

    def batches(self, kind: str, n: int, seed: int) -> list[Triples]:
        return list(self.positives[kind].batches(n, self.settings.training.batch_size, seed, f"theory, {kind}"))

    def weighing(self, weights: Tensor | None = None) -> Weighing:
        return Weighing(torch.ones_like(self.weights) if weights is None else weights, self.settings.training.l2)

    def normalised(self) -> Tensor:
        """PSP-NS's weights, with mean 1 over what an epoch visits."""
        return self.weights / self.positives["psp"].mean_weight(self.weights)


def measure(name: str, data: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    lab = Lab.of(data, interactions, terms)
    telling.say(f"{data}: margins after {lab.n_steps:,} plain steps")
    found: dict[str, list[Any]] = {"one_step": [], "growth": [], "controls": []}
    train_counts = np.bincount(lab.split.train.users, minlength=lab.split.n_users)
    inactive = least_active(train_counts, max(1, lab.split.n_users // 10))
    n_long = min(LONG_WALK, terms.max_steps)
    for seed, state in zip(lab.settings.run.seeds, lab.states, strict=True):
        watched = watch_pairs(lab, state, seed)
        telling.say(f"{data}, seed {seed}: single steps from there")
        found["one_step"].append(one_step(lab, state, watched, seed))
        telling.say(f"{data}, seed {seed}: the same with other weights of inactive users")
        found["growth"].append(growth(lab, state, watched, inactive, seed))
        telling.say(f"{data}, seed {seed}: {n_long:,} steps with weights, and with what might do the same")
        found["controls"].append(controls(lab, state, watched, inactive, n_long, seed))
    return {
        **describe_job(name, lab.split, lab.settings, lab.memory.device),
        "model": "mf",
        **_about(lab),
        "least_active_users": len(inactive),
        "steps_of_controls": n_long,
        **found,
    }


def measure_planted(name: str, interactions: Data, terms: Terms, telling: Telling) -> Record:
    """Where the truth is known; `interactions` are of another data set, and not looked at."""
    device = choose_device(terms.device)
    worlds = {}
    for kind in WORLDS:
        truth: PlantedWorld = find_part("datasets", kind)().plant()
        lab = Lab.of(kind, truth.interactions, terms)
        steps = []
        for seed, state in zip(lab.settings.run.seeds, lab.states, strict=True):
            telling.say(f"{kind}, seed {seed}: margins of true preferences after {lab.n_steps:,} plain steps")
            watched = {**watch_pairs(lab, state, seed), "true": watch_truth(lab, truth, seed)}
            steps.append(one_step(lab, state, watched, seed))
        telling.say(f"{kind}: what builders make of it")
        worlds[kind] = {
            "builders": {
                builder: {"accuracy": accuracy, "coverage": coverage}
                for builder, accuracy, coverage in builders(truth, device.type)
            },
            "data": {"fingerprint": lab.split.fingerprint(), "users": lab.split.n_users, "items": lab.split.n_items},
            "one_step": steps,
        }
    return {
        "job": name,
        "model": "mf",
        **_about(lab),
        "worlds": worlds,
        "settings": lab.settings.as_dict(),
        "versions": describe_versions(),
        "machine": describe_machine(device),
    }


# (a) What one step does.


def one_step(lab: Lab, state: State, watched: Mapping[str, Triples], seed: int) -> dict[str, Any]:
    """Kind of positives → optimiser → mean change of the watched margins over single steps from the same state."""
    kinds = {
        "observed": ("observed", lab.weighing()),
        "psp": ("psp", lab.weighing()),
        "psp-ns": ("psp", lab.weighing(lab.weights)),
        "psp-ns, mean 1": ("psp", lab.weighing(lab.normalised())),
    }
    found: dict[str, Any] = {}
    for kind, (positives, weighing) in kinds.items():
        batches = lab.batches(positives, lab.n_batches, seed)
        promised = [first_order(state, batch, SGD_RATE, weighing) for batch in batches]
        found[kind] = {
            "mean_weight": lab.positives[positives].mean_weight(weighing.users),
            "promised_of_own": float(np.mean(promised)),  # by SGD
        }
        for optimiser in OPTIMISERS:
            changes: dict[str, list[float]] = {name: [] for name in (*watched, "own")}
            for batch in batches:
                moved = walk(state, [batch], optimiser, lab.rate(optimiser), weighing)
                for name, triples in {**watched, "own": batch}.items():
                    changes[name].append(mean_change(state, moved, triples))
            found[kind][optimiser] = {
                name: {"mean": float(np.mean(values)), "error": float(np.std(values) / len(values) ** 0.5)}
                for name, values in changes.items()
            }
    return found


def watch_pairs(lab: Lab, state: State, seed: int) -> dict[str, Triples]:
    """Held-out pairs against random items and against what the model ranks highest, and train pairs."""
    split, device = lab.split, lab.memory.device
    known = (split.test.users < split.n_users) & (split.test.items < split.n_items)
    test, train = (_some(pairs, seed) for pairs in (split.test.only(known), split.train))
    outside_train = ItemSets(split.n_users, split.n_items, split.train, device=device)
    draws = ReplicaStream([seed], "watched", device)
    return {
        "test": with_negatives(test.users, test.items, outside_train, draws),
        "test, against the best": _against_the_best(lab, state, test, seed),
        "train": with_negatives(train.users, train.items, outside_train, draws),
    }


def watch_truth(lab: Lab, truth: PlantedWorld, seed: int) -> Triples:
    """What users truly like and did not do in train, against what they do not like."""
    split, device = lab.split, lab.memory.device
    users, items = (ids[: size].astype(np.int64) for ids, size in (
        (split.user_ids, split.n_users), (split.item_ids, split.n_items),
    ))  # fmt: skip
    liked = Pairs(*(side.astype(np.int64) for side in truth.preferences[users][:, items].nonzero()))
    owned = split.train.matrix(split.n_users, split.n_items)[liked.users, liked.items]
    unseen = _some(liked.only(np.asarray(owned).ravel() == 0), seed)
    draws = ReplicaStream([seed], "watched truth", device)
    return with_negatives(
        unseen.users, unseen.items, ItemSets(split.n_users, split.n_items, liked, split.train, device=device), draws
    )


def _against_the_best(lab: Lab, state: State, pairs: Pairs, seed: int) -> Triples:
    """Each pair with one of the 20 items that the model would wrongly offer its user first."""
    split, device = lab.split, lab.memory.device
    counts = torch.from_numpy(np.bincount(split.train.items, minlength=split.n_items)).to(device)
    owned = ItemSets(split.n_users, split.n_items, split.train, split.valid, split.test, device=device)
    lists = TopLists(owned, counts, split.n_users, lab.memory)
    users, places = np.unique(pairs.users, return_inverse=True)
    scorer = DotProduct(state.users[:, None], state.items[:, None])
    n_best = min(TOP, split.n_items)
    best, _ = lists.best(scorer, 0, torch.from_numpy(users).to(device), n_best)
    column = torch.from_numpy(host_stream(seed, "watched, best").integers(n_best, size=len(pairs))).to(device)
    negatives = best[torch.from_numpy(places).to(device), column]
    numbers = torch.from_numpy(pairs.users).to(device), torch.from_numpy(pairs.items).to(device)
    return Triples(*numbers, negatives).only(negatives >= 0)  # −1: nothing is left to offer


# (b) How the change grows with a user's weight.


def growth(
    lab: Lab, state: State, watched: Mapping[str, Triples], inactive: Ints, seed: int
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Optimiser → watched pairs of the least active users → change for each factor of those users' weights.

    Own pairs are the rows of the steps themselves, of which the proof speaks. Errors are those of the difference from
    the change at factor 1; there are none of a single walk.
    """
    batches = lab.batches("psp", lab.n_batches, seed)
    group = {name: of_users(watched[name], inactive) for name in ("train", "test")}
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for optimiser in OPTIMISERS:
        # SGD as the proposition has it, each step from the same state. Adam needs steps to find its scale.
        walks = [[batch] for batch in batches] if optimiser == "sgd" else [batches]
        changes = {name: np.full((len(FACTORS), len(walks)), np.nan) for name in ("own", *group)}
        for row, factor in enumerate(FACTORS):
            factors = torch.ones_like(lab.weights)
            factors[torch.from_numpy(inactive)] = factor
            weighing = times(lab.weighing(lab.weights), factors)
            for column, steps in enumerate(walks):
                end = walk(state, steps, optimiser, lab.rate(optimiser), weighing)
                for name, triples in {"own": of_users(joined(steps), inactive), **group}.items():
                    if len(triples):
                        changes[name][row, column] = mean_change(state, end, triples)
        found[optimiser] = {name: _by_factor(values) for name, values in changes.items()}
    return found


def _by_factor(changes: Floats) -> dict[str, list[float]]:
    """Means over walks that had such pairs; empty where none had."""
    known = changes[:, ~np.isnan(changes[0])]
    if known.shape[1] == 0:
        return {"means": [], "errors": []}
    apart = known - known[FACTORS.index(1.0)]
    return {"means": known.mean(1).tolist(), "errors": (apart.std(1) / known.shape[1] ** 0.5).tolist()}


def of_users(triples: Triples, users: Ints) -> Triples:
    """The rows of these users."""
    return triples.only(torch.isin(triples.users, torch.from_numpy(users).to(triples.users.device)))


# (c) What the weights do, and what else does it.


def controls(
    lab: Lab, state: State, watched: Mapping[str, Triples], inactive: Ints, n_steps: int, seed: int
) -> dict[str, Any]:
    """Weights → optimiser → changes of margins and lengths, of the least active users and of the others."""
    others = np.setdiff1d(np.arange(lab.split.n_users), inactive)
    groups = {"inactive": inactive, "others": others}
    batches = lab.batches("psp", n_steps, seed)
    found: dict[str, Any] = {}
    for name, weighing in weighings(lab).items():
        found[name] = {}
        for optimiser in OPTIMISERS:
            end = walk(state, batches, optimiser, lab.rate(optimiser), weighing)
            figures: dict[str, Any] = {}
            for group, members in groups.items():
                figures[group] = {
                    "length": float(end.users[torch.from_numpy(members)].norm(dim=-1).double().mean()),
                    **{
                        pairs: mean_change(state, end, rows)
                        for pairs in ("train", "test")
                        if len(rows := of_users(watched[pairs], members))
                    },
                }
            found[name][optimiser] = figures
    return found


def weighings(lab: Lab) -> dict[str, Weighing]:
    """None, PSP-NS's, and what might do the same as those."""
    plain = lab.weighing()
    # Under Adam a factor t of a row's whole gradient cancels: t·g + λe moves as g + (λ/t)e does.
    as_l2 = torch.where(lab.weights > 0, plain.l2 / lab.weights, plain.l2)
    return {
        "none": plain,
        "t_u": lab.weighing(lab.weights),
        "t_u, mean 1": lab.weighing(lab.normalised()),
        "l2 / t_u": replace(plain, l2_of_users=as_l2),
        "t_u for items alone": replace(lab.weighing(lab.weights), items_alone=True),
    }


def _states(trained: Run) -> list[State]:
    scorer = trained.model.fitted.scorer
    assert isinstance(scorer, DotProduct)
    return [
        State(scorer.users[:, replica].contiguous(), scorer.items[:, replica].contiguous())
        for replica in range(scorer.n_replicas)
    ]


def _on_device(world: World) -> Tensor:
    return torch.from_numpy(world.user_weights).to(world.device)


def _some(pairs: Pairs, seed: int) -> Pairs:
    """At most so many that a step is watched quickly."""
    if len(pairs) <= MOST_WATCHED:
        return pairs
    chosen = np.sort(host_stream(seed, "watched pairs").choice(len(pairs), MOST_WATCHED, replace=False))
    return Pairs(pairs.users[chosen], pairs.items[chosen])


def _about(lab: Lab) -> dict[str, Any]:
    return {
        "seeds": list(lab.settings.run.seeds),
        "steps_before": lab.n_steps,
        "batches": lab.n_batches,
        "rates": {optimiser: lab.rate(optimiser) for optimiser in OPTIMISERS},
        "factors": list(FACTORS),
    }


def jobs(data: str) -> Iterator[Job]:
    yield Job(f"theory-{data}", data, partial(measure, f"theory-{data}", data))
    # Made for the first data set that is asked for, and found by the others.
    yield Job("theory-planted-worlds", data, partial(measure_planted, "theory-planted-worlds"))


EXPERIMENT = Experiment(
    title="The propositions, measured",
    shows="Propositions 1 and 2: margins after one step, their growth with a user's weight, accuracy and coverage",
    section=section,
    jobs=jobs,
)
