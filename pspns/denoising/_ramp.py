"""A share that grows linearly from 0 with the steps of training, then stays."""

from __future__ import annotations

import torch
from torch import Tensor

from pspns.shapes import DenoisedWorld, State


class Ramp:
    """Each replica's own, because replicas may have epochs of different lengths."""

    def __init__(self, world: DenoisedWorld, top: float, epochs: float, steps: int | None = None):
        """To `top` in so many epochs, or steps if they are set."""
        lengths = [steps or max(1.0, epochs * n_batches) for n_batches in world.batches_an_epoch]
        self._top = top
        self._lengths = torch.tensor(lengths, dtype=torch.float64, device=world.device)
        # On the device, so that a step recorded there once and replayed goes on counting.
        self._step = torch.zeros((), dtype=torch.int64, device=world.device)

    @property
    def step(self) -> Tensor:
        """Steps taken before this one."""
        return self._step

    def share(self) -> Tensor:
        """`[replicas]`."""
        return self._top * (self._step / self._lengths).clamp_max(1.0)

    def advance(self) -> None:
        self._step += 1

    def keep(self, replicas: Tensor) -> None:
        self._lengths = self._lengths[replicas]

    def state(self) -> State:
        return {"step": self._step.clone()}

    def load_state(self, state: State) -> None:
        self._step.copy_(state["step"])


def share_of(share: Tensor | float, n: Tensor) -> Tensor:
    """⌊share · n⌋, for each replica."""
    # A little more, lest (1 − 0.2) · 10 be 7.
    return (share * n.double() + 1e-6).floor().long()


def n_kept(share_dropped: Tensor, n: Tensor) -> Tensor:
    """⌊(1 − ε) n⌋, but at least one; `[replicas]` all."""
    return share_of(1 - share_dropped, n).clamp_min(1)


def are_largest(keys: Tensor, n: Tensor, live: Tensor) -> Tensor:
    """The live rows with each replica's `n` `[replicas]` largest keys, the first of equals, as `[replicas, rows]`."""
    return (places_by_size(keys, live) < n[:, None]) & (live > 0)


def places_by_size(keys: Tensor, live: Tensor) -> Tensor:
    """Where each row stands among its replica's, the largest first, the first of equals first, dead rows last."""
    order = keys.detach().masked_fill(live == 0, -torch.inf).sort(descending=True, stable=True).indices
    places = torch.arange(keys.shape[-1], device=keys.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)
