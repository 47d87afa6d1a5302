"""The number that training makes small: weighted loss of the rows plus L2 of the vectors they touch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pspns.shapes import (
    Denoiser,
    JudgedRows,
    ModelView,
    Negatives,
    PositiveBatch,
    Sampler,
    ScoredRows,
    Vectors,
    take,
)

Loss = Callable[[Tensor, Tensor], Tensor]


def drawn_rows(
    batch: PositiveBatch, sampler: Sampler, denoiser: Denoiser, model: ModelView
) -> tuple[PositiveBatch, Negatives]:
    """The rows of a step whose users are chosen: their positives and negatives, unless the denoiser exchanges some."""
    return denoiser.choose_positives(batch, sampler.sample(batch, model), model)


def objective(
    batch: PositiveBatch, negatives: Negatives, model: ModelView, denoiser: Denoiser, l2: Tensor | float
) -> tuple[Tensor, JudgedRows]:
    """One number for each replica, `[replicas]`, and what the denoiser says; `l2` may be `[replicas]`, too.

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

    vectors = Vectors(users, positive, negative)
    scores = (users * positive).sum(-1), (users * negative).sum(-1)  # [replicas, rows] each
    judged = denoiser.judge(ScoredRows(batch, negatives, *scores, vectors))
    row_losses = judged.losses
    if negatives.row_losses is not None:
        row_losses = row_losses + negatives.row_losses
    squares = sum(vectors.square().sum(-1) for vectors in base)
    weight = l2[:, None] if isinstance(l2, Tensor) else l2
    live = batch.live.sum(-1)  # [replicas]
    values = ((batch.weights * row_losses + weight / 2 * squares) * batch.live).sum(-1) / live
    return (values if judged.of_batch is None else values + judged.of_batch), judged


def slopes(denoiser: Denoiser, rows: ScoredRows, weights: Tensor) -> tuple[JudgedRows, Tensor, Tensor]:
    """What the denoiser says, and the gradients of the rows' weighted sum by the scores of positives and negatives."""
    with torch.enable_grad():
        scores = rows.positive.requires_grad_(), rows.negative.requires_grad_()
        judged = denoiser.judge(rows)
    assert judged.of_batch is None, "a denoiser that judges a batch as a whole must say that it reads gradients"
    by_positive, by_negative = torch.autograd.grad(judged.losses, scores, weights)
    return judged, by_positive, by_negative


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
