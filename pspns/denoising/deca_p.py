"""DeCA(p): as DeCA, but the second model is one like the first, trained plainly before and left as it is.

Rule: as DeCA, with g = a copy of the model, trained by bce until validation no longer improves; only f, h, h′ learn
Note: trains twice. The loss is its own, pointwise: set `--loss bce`.
Cost: a plain training before, and two more models, d = 32
Paper: Wang et al. 2022, Learning Robust Recommenders through Cross-Model Agreement
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pspns.denoising._agreement import Agreement, AgreementSettings
from pspns.needed_bytes import StepSizes
from pspns.shapes import DenoisedWorld, Embeddings, ScoredRows, State, World, take


@dataclass(frozen=True, kw_only=True)
class PretrainedAgreement(AgreementSettings):
    same_start: bool = False
    """Begin both trainings with the same vectors and the same random numbers, as the published code does."""

    needs_teacher: ClassVar[bool] = True

    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> AgreeingWithTeacher:
        return AgreeingWithTeacher(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        teacher = sizes.of_nodes(world.n_users + world.n_items, vectors=1) + sizes.of_rows(vectors=4)
        return teacher + self._models_bytes(2, world, sizes)


class AgreeingWithTeacher(Agreement):
    def __init__(self, world: DenoisedWorld, seeds: Sequence[int], settings: PretrainedAgreement):
        super().__init__(world, seeds, settings)
        # A training that is taken up again finds its teacher in its state.
        self._teacher = world.teacher or Embeddings(
            *(
                torch.zeros(n, len(seeds), world.embedding_size, device=world.device)
                for n in (world.n_users, world.n_items)
            )
        )

    def _other_logits(self, tables: Mapping[str, Tensor], rows: ScoredRows) -> Tensor:
        assert rows.negatives.items is not None
        items = torch.stack((rows.batch.items, rows.negatives.items))
        users = take(self._teacher.users, rows.batch.users)
        return (users * take(self._teacher.items, items, replica_axis=1)).sum(-1)

    def keep(self, replicas: Tensor) -> None:
        super().keep(replicas)
        self._teacher = Embeddings(self._teacher.users[:, replicas], self._teacher.items[:, replicas])

    def state(self) -> State:
        return {**super().state(), "teacher_users": self._teacher.users, "teacher_items": self._teacher.items}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._teacher = Embeddings(state["teacher_users"].clone(), state["teacher_items"].clone())


COMPONENT = PretrainedAgreement
