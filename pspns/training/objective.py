"""The number that training makes small: weighted loss of the rows plus L2 of the vectors they touch."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from pspns.shapes import ModelView, Negatives, PositiveBatch, take

Loss = Callable[[Tensor, Tensor], Tensor]


def objective(batch: PositiveBatch, negatives: Negatives, model: ModelView, loss: Loss, l2: float) -> Tensor:
    """One number for each replica, `[replicas]`.

    Σ w·t_u·ℓ / live + λ·(‖e⁰_u‖² + ‖e⁰_i‖² + ‖e⁰_j‖²) / (2·live): sums over the replica's live rows, so that
    a replica is not weakened by rows that only fill its block. e⁰ are the parameters, not what is propagated.
    """
    users = take(model.final.users, batch.users)  # [replicas, rows, size]
    items = take(model.final.items, batch.items)
    if model.base is model.final:
        base_users, base_items = users, items
    else:
        base_users, base_items = take(model.base.users, batch.users), take(model.base.items, batch.items)

    row_losses = loss((users * items).sum(-1), (users * negatives.embeddings).sum(-1))  # [replicas, rows]
    squares = sum(vectors.square().sum(-1) for vectors in (base_users, base_items, negatives.base_embeddings))
    live = batch.live.sum(-1)  # [replicas]
    return ((batch.weights * row_losses + l2 / 2 * squares) * batch.live).sum(-1) / live
