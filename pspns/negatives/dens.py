"""DENS, disentangled negatives: in each layer the random item that scores by anything but what the user seeks.

Rule: r_i⁽ˡ⁾ = e_i⁽ˡ⁾ ⊙ σ(A_item e_i⁽ˡ⁾ + A_user e_u⁽ˡ⁾)
      r_k⁽ˡ⁾ = e_k⁽ˡ⁾ ⊙ σ(A_neg e_k⁽ˡ⁾ + A_pos r_i⁽ˡ⁾)
      k_l = argmax_{k ∈ C} (1 − a) e_u⁽ˡ⁾ · (e_k⁽ˡ⁾ − r_k⁽ˡ⁾) − a e_u⁽ˡ⁾ · r_k⁽ˡ⁾, a = min(1, epochs ended / T₀)
      negative = mean of e⁽ˡ⁾ of k_l over layers l = 0 … L
      added loss = (γ/4) [sp(x⁺ − y⁺) + sp(y⁻ − x⁻) + sp(y⁻ − y⁺) + sp(x⁺ − x⁻)]
      y = e_u · mean of r⁽ˡ⁾, x = e_u · mean of e⁽ˡ⁾ − r⁽ˡ⁾; ⁺ of the positive, ⁻ of the negative
      C = n items, uniform from I ∖ P_u
Note: gates, four affine maps A, tell what the user seeks in an item, r, from the rest; they learn from the added loss
alone.
Cost: n · (L + 1) · (d² + d) a row
Paper: Lai et al. 2023, Disentangled Negative Sampling for Collaborative Filtering
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pspns.needed_bytes import VECTORS_A_ROW, StepSizes, gradient_bytes
from pspns.negatives._pool_sampler import PoolSampler, pick, pool_bytes
from pspns.rng import host_stream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_least, check_share
from pspns.shapes import Embeddings, ModelView, Negatives, PositiveBatch, SharedWorld, State, World, mean_of, take

GATES = ("user", "item", "positive", "negative")
ROWS_IN_A_SUM = 512


@dataclass(frozen=True, kw_only=True)
class DisentangledNegatives:
    candidates: int = 6
    """Items drawn for each row (n)."""
    warm_up: int = 100
    """Epochs over which the choice moves from high irrelevant to low relevant scores (T₀)."""
    contrast: float = 0.3
    """Weight of the loss that teaches the gates (γ)."""
    constant_share: float | None = None
    """The share a of the relevant score at all times, as the copy of DENS in the code of AHNS has it (there 1); unset:
    it grows over `warm_up`."""

    only_items: ClassVar[bool] = False
    search: ClassVar[Space] = {"candidates": Choices((2, 4, 8)), "contrast": Choices((0.1, 0.2, 0.3, 0.4, 0.5))}

    def __post_init__(self) -> None:
        check_least(self, candidates=1, warm_up=1, contrast=0)
        check_share(self, "constant_share")

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> DisentanglingSampler:
        return DisentanglingSampler(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        # With their gradient and Adam's moments.
        gates = sizes.of_nodes(len(GATES) * (sizes.embedding_size + 1), vectors=4)
        choosing = 3 * self.candidates
        learning = VECTORS_A_ROW + 8 * (sizes.n_layers + 1)
        vectors = sizes.of_rows(vectors=choosing + learning)
        return gates + pool_bytes(sizes, self.candidates) + vectors + gradient_bytes(world, sizes, by_layers=True)


class DisentanglingSampler(PoolSampler):
    reads = "layers"

    def __init__(self, world: SharedWorld, seeds: Sequence[int], settings: DisentangledNegatives):
        super().__init__(world, seeds, settings.candidates)
        self._settings = settings
        self._gates = _Gates(world.embedding_size, seeds, world.device)

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        pool = self._pool(batch)
        positives, negatives, relevant_positives, relevant_negatives = [], [], [], []
        for layer in model.layers:
            user, positive = take(layer.users, batch.users), take(layer.items, batch.items)  # [replicas, rows, size]
            relevant = self._gates.relevant_positive(user, positive)
            items = pick(pool, self._worth(batch, layer, pool, user, relevant).argmax(-1))
            negative = take(layer.items, items)
            positives.append(positive)
            negatives.append(negative)
            relevant_positives.append(relevant)
            relevant_negatives.append(self._gates.relevant_negative(negative, relevant))
        user = take(model.final.users, batch.users)
        negative = mean_of(negatives)
        y_up, y_down = ((user * mean_of(parts)).sum(-1) for parts in (relevant_positives, relevant_negatives))
        x_up, x_down = (user * mean_of(positives)).sum(-1) - y_up, (user * negative).sum(-1) - y_down
        contrasts = (x_up - y_up, y_down - x_down, y_down - y_up, x_up - x_down)
        row_losses = self._settings.contrast / 4 * torch.stack([F.softplus(margin) for margin in contrasts], -1).sum(-1)
        return Negatives(embeddings=negative, base_embeddings=negatives[0], row_losses=row_losses)

    @torch.no_grad()
    def _worth(self, batch: PositiveBatch, layer: Embeddings, pool: Tensor, user: Tensor, relevant: Tensor) -> Tensor:
        """How good a negative each candidate is in this layer, `[replicas, rows, candidates]`."""
        candidates = take(layer.items, pool)
        score = (user[..., None, :] * candidates).sum(-1)
        relevant_parts = self._gates.relevant_negative(candidates, relevant[..., None, :])
        relevant_score = (user[..., None, :] * relevant_parts).sum(-1)
        share = self._share(batch.epochs)[:, None, None]
        return (1 - share) * (score - relevant_score) - share * relevant_score

    def _share(self, epochs: Tensor) -> Tensor:
        if self._settings.constant_share is not None:
            return torch.full(epochs.shape, self._settings.constant_share, device=epochs.device)
        return (epochs / self._settings.warm_up).clamp_max(1.0).float()

    def parameters(self) -> dict[str, Tensor]:
        return dict(self._gates.parameters)

    def keep(self, replicas: Tensor) -> None:
        super().keep(replicas)
        self._gates.restore({name: values[replicas] for name, values in self._gates.values().items()})

    def state(self) -> State:
        return {**super().state(), **{name: values.clone() for name, values in self._gates.values().items()}}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._gates.restore({name: state[name].clone() for name in self._gates.parameters})


class _Gates:
    """Four affine maps for each replica, the same in all layers."""

    def __init__(self, size: int, seeds: Sequence[int], device: torch.device):
        bound = size**-0.5
        shapes = {
            f"{gate}_{part}": shape for gate in GATES for part, shape in (("map", (size, size)), ("shift", (size,)))
        }
        streams = [host_stream(seed, "gates") for seed in seeds]
        drawn = {
            name: torch.stack([torch.from_numpy(stream.uniform(-bound, bound, shape)).float() for stream in streams])
            for name, shape in shapes.items()
        }
        self.restore({name: values.to(device) for name, values in drawn.items()})

    def restore(self, values: State) -> None:
        self.parameters = {name: nn.Parameter(tensor) for name, tensor in values.items()}

    def values(self) -> State:
        return {name: parameter.detach() for name, parameter in self.parameters.items()}

    def relevant_positive(self, user: Tensor, positive: Tensor) -> Tensor:
        return positive * torch.sigmoid(self._map("item", positive) + self._map("user", user))

    def relevant_negative(self, negative: Tensor, relevant_positive: Tensor) -> Tensor:
        """Of one negative a row, or of several: `[replicas, rows, (n,) size]`."""
        return negative * torch.sigmoid(self._map("negative", negative) + self._map("positive", relevant_positive))

    def _map(self, gate: str, vectors: Tensor) -> Tensor:
        maps, shifts = self.parameters[f"{gate}_map"], self.parameters[f"{gate}_shift"]
        rows = vectors.flatten(1, -2)
        if not rows.is_cuda:
            # One product after the other: some processors round those of a stack otherwise than one alone. In blocks of
            # rows: a long sum over all of them, which a map's gradient is, has other last bits on two threads.
            of_replicas = [
                torch.cat([torch.addmm(shift, block, own.mT) for block in torch.split(of_one, ROWS_IN_A_SUM)])
                for of_one, own, shift in zip(rows, maps, shifts, strict=True)
            ]
            return torch.stack(of_replicas).view(vectors.shape)
        return torch.baddbmm(shifts[:, None], rows, maps.mT).view(vectors.shape)


COMPONENT = DisentangledNegatives
