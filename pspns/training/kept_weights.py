"""How much of its say each pair kept, since the last evaluation: what a denoiser did, seen from outside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pspns.data.interactions import Floats
from pspns.shapes import PositiveBatch, State, World


class KeptWeights:
    """Sums over the rows of steps; empty until a denoiser first says what it kept.

    A pair's weight is what it was trained with, as a multiple of what plain training would have given it: the sum of
    `kept` over rows that were trained on it, by the number of rows in which it was offered. A method that draws a pair
    more often than it is offered gives it more than 1.
    """

    def __init__(self, worlds: Sequence[World]):
        """One for each replica."""
        self._worlds = list(worlds)
        most = max((len(world.pairs) for world in worlds), default=0)
        self._shape = (2, len(self._worlds), most)
        self._sums: Tensor | None = None  # [2, replicas, pairs] trained, offered

    @property
    def is_empty(self) -> bool:
        return self._sums is None

    def note(self, offered: PositiveBatch, trained: PositiveBatch, kept: Tensor | None) -> None:
        """One step; without `kept` everything was."""
        if kept is None:
            return
        if self._sums is None:
            self._sums = torch.zeros(self._shape, device=kept.device)
        self._sums[0].scatter_add_(1, trained.pair_ids, kept.detach() * trained.live)
        self._sums[1].scatter_add_(1, offered.pair_ids, offered.live)

    def weights(self) -> list[Floats]:
        """`[pairs]` for each replica; 1 for a pair that has not been offered."""
        if self._sums is None:
            return [np.ones(len(world.pairs)) for world in self._worlds]
        found = []
        for place in range(len(self._worlds)):
            trained, offered = self._sums_of(place)
            found.append(np.where(offered > 0, trained / np.maximum(offered, 1), 1.0))
        return found

    def by_truth(self) -> list[dict[str, float]]:
        """The mean weight of all pairs for each replica and, where false ones are known, of true and of false pairs."""
        if self._sums is None:
            return [{} for _ in self._worlds]
        found = []
        for place, world in enumerate(self._worlds):
            trained, offered = self._sums_of(place)
            groups = {"all": np.ones(len(world.pairs), dtype=bool)}
            if world.is_false is not None:
                groups |= {"true": ~world.is_false, "false": world.is_false}
            totals = {name: (trained[group].sum(), offered[group].sum()) for name, group in groups.items()}
            found.append({name: float(given / of) for name, (given, of) in totals.items() if of > 0})
        return found

    def _sums_of(self, place: int) -> Floats:
        """`[2, pairs]` of one replica; one at a time, because there may be many pairs."""
        assert self._sums is not None
        return self._sums[:, place, : len(self._worlds[place].pairs)].cpu().double().numpy()

    def forget(self) -> None:
        """Begin anew."""
        if self._sums is not None:
            self._sums.zero_()

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        self._worlds = [self._worlds[place] for place in replicas.tolist()]
        self._shape = (2, len(self._worlds), self._shape[2])
        if self._sums is not None:
            self._sums = self._sums[:, replicas].contiguous()

    def state(self) -> State:
        return {} if self._sums is None else {"sums": self._sums}

    def load_state(self, state: State) -> None:
        self._sums = state.get("sums")
