"""Everything a model needs to train itself: members and their replicas, negatives, loss, stopping."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pspns.denoising.none import NoDenoising
from pspns.errors import SettingsError
from pspns.item_sets import RejectedItems
from pspns.models._dot_product import DotProduct
from pspns.models._embedding_model import EmbeddingModel, Starts
from pspns.needed_bytes import StepSizes, denoiser_bytes, sampler_bytes, training_bytes
from pspns.rng import host_stream
from pspns.shapes import DenoisedWorld, Embeddings, Fitted, Validate, World
from pspns.starts._score_spread import score_deviation
from pspns.training.epochs import Epochs
from pspns.training.kept_weights import KeptWeights
from pspns.training.loop import Loop, Saving, Watch
from pspns.training.settings import TrainingSettings
from pspns.training.stopping import EarlyStopping

# What makes another seed of a seed: a bit that users' seeds rarely have.
OF_TEACHER = 1 << 61

MakeModel = Callable[[Starts, torch.device], EmbeddingModel]


@dataclass(frozen=True)
class Member:
    """One setting that trains in a loop, with a replica for each seed."""

    world: World
    start: Any  # a part of starts/
    l2: float
    seeds: Sequence[int]
    validate: Validate | None


@dataclass(frozen=True)
class Trainer:
    """Handed to a model's `fit`; a model without a training loop uses only `validate`."""

    members: Sequence[Member]  # all on the same ground
    negatives: Any  # a part of negatives/
    settings: TrainingSettings  # l2 is each member's own
    select_by: str  # what chooses, such as recall@20 or valid-loss
    watch: Watch
    saving: Saving | None = None  # unset: nothing is written, and a training that is stopped is lost
    denoiser: Any = field(default_factory=NoDenoising)  # a part of denoising/

    @property
    def validate(self) -> Validate | None:
        """For a model without a training loop, which is fitted for one member alone."""
        if len(self.members) > 1:
            raise SettingsError("a model without a training loop has no replicas to train together; run settings apart")
        return self.members[0].validate

    def train(self, make_model: MakeModel, size: int) -> Fitted:
        """Train all members' replicas together, member after member on the replica axis."""
        if any(member.validate is None for member in self.members) and self.settings.steps is None:
            raise SettingsError(
                "without a validation part nothing tells when to stop; set --training.steps to a fixed number"
            )
        self._check_memory(size)
        teacher, seconds_before, saving = self._teacher(make_model, size)
        replicas = [(member, seed) for member in self.members for seed in member.seeds]
        seeds = [seed for _, seed in replicas]
        ground = self.members[0].world
        model = make_model(
            [m.start.embeddings(m.world, size, host_stream(s, "start")) for m, s in replicas], ground.device
        )
        _spread_scores(model, [member.start for member, _ in replicas])
        rejected = RejectedItems([member.world.rejected for member, _ in replicas])
        worlds = [member.world for member, _ in replicas]
        shared = DenoisedWorld(
            ground.n_users,
            ground.n_items,
            ground.train,
            ground.data_seed,
            ground.memory,
            svd=ground.svd,
            rejected=rejected,
            embedding_size=size,
            worlds=worlds,
            batch_size=self.settings.batch_size,
            loss=self.settings.loss,
            teacher=teacher,
        )
        validators = [member.validate for member, _ in replicas]
        stopping = EarlyStopping(model, self.settings, self.select_by, validators, seconds_before)
        loop = Loop(
            model,
            Epochs(worlds, self.settings.batch_size, seeds, copies_together=self.settings.copies_together),
            rejected,
            self.negatives.start(shared, seeds),
            self.denoiser.start(shared, seeds),
            KeptWeights(worlds),
            stopping,
            learning_rate=self.settings.learning_rate,
            l2=torch.tensor([member.l2 for member, _ in replicas], device=ground.device),
        )
        if saving and saving.resume_from:
            loop.load(saving.resume_from)
        last_step, interval = self.settings.steps or self.settings.max_steps, self.settings.interval(len(ground.train))
        loop.run(last_step, interval, self.watch, saving)
        return Fitted(
            scorer=model.scorer(),
            steps=stopping.last_step,
            best_steps=stopping.best_step,
            history=stopping.history,
            pair_weights=[stopping.pair_weights[place] for place in sorted(stopping.pair_weights)],
        )

    def _check_memory(self, size: int) -> None:
        """Before hours of training, not after: what negatives, denoiser and tables need, each by itself."""
        n_replicas = sum(len(member.seeds) for member in self.members)
        worlds = [member.world for member in self.members]
        # Without the layers of a graph, of which nothing is known here: at least so much.
        sizes = StepSizes(n_replicas, self.settings.batch_size, size, n_layers=0)
        memory, most_pairs = worlds[0].memory, max(worlds, key=lambda world: len(world.pairs))
        memory.check(sampler_bytes(self.negatives, worlds[0], sizes), "drawing negatives", "take fewer candidates")
        of_denoiser = denoiser_bytes(self.denoiser, most_pairs, sizes)
        memory.check(of_denoiser, "denoising", "take fewer seeds or smaller batches")
        tables = sum(training_bytes(most_pairs, size, n_replicas, self.settings.batch_size).values())
        what = f"training {n_replicas:,} replica{'s' if n_replicas > 1 else ''}"
        memory.check(tables, what, "take fewer seeds or smaller vectors")

    def _teacher(self, make_model: MakeModel, size: int) -> tuple[Embeddings | None, float, Saving | None]:
        """A model like the one to be trained, trained plainly, if the denoiser compares the two; the seconds it took;
        and where the training proper goes on from."""
        saving = self.saving
        then = saving.resume_from if saving else None
        is_done = then is not None and not then.notes["is_teacher"]  # and is found in the state of the denoiser
        if not getattr(self.denoiser, "needs_teacher", False) or is_done:
            return None, 0.0, saving
        members = self.members
        if not getattr(self.denoiser, "same_start", False):
            members = [replace(member, seeds=[seed ^ OF_TEACHER for seed in member.seeds]) for member in members]
        of_teacher = replace(saving, is_teacher=True) if saving else None
        plain = replace(self, members=members, denoiser=NoDenoising(), saving=of_teacher)
        fitted = plain.train(make_model, size)
        assert isinstance(fitted.scorer, DotProduct)
        anew = replace(saving, resume_from=None) if saving else None
        return Embeddings(fitted.scorer.users, fitted.scorer.items), fitted.history[-1].seconds, anew


def _spread_scores(model: EmbeddingModel, starts: Sequence[Any]) -> None:
    """A start that promises a spread of the scores promises it for what the model makes of its tables."""
    view = model.propagate()
    if view.base is view.final:
        return  # the tables themselves are what scores are made of
    for place, start in enumerate(starts):
        if wanted := getattr(start, "score_spread", None):
            found = score_deviation(view.final.users[:, place].detach(), view.final.items[:, place].detach())
            model.scale_replica(place, math.sqrt(wanted / found) if found > 0 else 1.0)
