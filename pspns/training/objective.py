"""The number that training makes small: weighted loss of the rows plus L2 of the vectors they touch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pspns.shapes import ModelView, Negatives, PositiveBatch, take

Loss = Callable[[Tensor, Tensor], Tensor]


def objective(batch: PositiveBatch, negatives: Negatives, model: ModelView, loss: Loss, l2: Tensor | float) -> Tensor:
    """One number for each replica, `[replicas]`; so is `l2`, if it is not the same for all.

    Σ w·t_u·ℓ / live + λ·(‖e⁰_u‖² + ‖e⁰_i‖² + ‖e⁰_j‖²) / (2·live): sums over the replica's live rows, so that
    a replica is not weakened by rows that only fill its block. e⁰ are the parameters, not what is propagated.
    """
    users = take(model.final.users, batch.users)  # [replicas, rows, size]
    positive, negative = _item_vectors(model.final.items, batch, negatives.items, negatives.embeddings)
    if model.base is model.final and negatives.embeddings is None:
        base = users, positive, negative
    else:
        base_items = _item_vectors(model.base.items, batch, negatives.items, negatives.base_embeddings)
        base = take(model.base.users, batch.users), *base_items

    row_losses = loss((users * positive).sum(-1), (users * negative).sum(-1))  # [replicas, rows]
    if negatives.row_losses is not None:
        row_losses = row_losses + negatives.row_losses
    squares = sum(vectors.square().sum(-1) for vectors in base)
    weight = l2[:, None] if isinstance(l2, Tensor) else l2
    live = batch.live.sum(-1)  # [replicas]
    return ((batch.weights * row_losses + weight / 2 * squares) * batch.live).sum(-1) / live


def slopes(loss: Loss, positive: Tensor, negative: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rows' losses, and the gradients of their weighted sum by the scores of positives and of negatives."""
    with torch.enable_grad():
        row_losses = loss(positive.requires_grad_(), negative.requires_grad_())
    by_positive, by_negative = torch.autograd.grad(row_losses, (positive, negative), weights)
    return row_losses.detach(), by_positive, by_negative


def _item_vectors(
    table: Tensor, batch: PositiveBatch, drawn: Tensor | None, made: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Positives and negatives, both `[replicas, rows, size]`; `made` are negatives that are no items."""
    if made is not None:
        return take(table, batch.items), made
    assert drawn is not None, "a sampler gives items, vectors, or both"
    # One gather for both, since the backward pass of each fills a whole table; one after the other, so that both lie
    # in one piece: sums over pieces come out with other last bits in company than alone.
    both = take(table, torch.stack((batch.items, drawn)), replica_axis=1)  # [2, replicas, rows, size]
    return both[0], both[1]
