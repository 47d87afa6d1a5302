"""One step of training on the CPU, its gradient written out and compiled; `plain_step` takes the same by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from pspns.kernels import pairs
from pspns.shapes import Embeddings, PositiveBatch, ScoredRows
from pspns.training.objective import slopes
from pspns.training.row_adam import RowAdam, Rows
from pspns.training.written_out_step import WrittenOutStep


class CpuStep(WrittenOutStep[RowAdam]):
    """Negatives, scores, their gradient, that of the tables, Adam.

    Without messages only the rows of the batch are read and moved. With messages, or where sampler or denoiser look
    at the items, all rows must be at the present step, and Adam goes through the whole table.
    """

    adam = RowAdam

    @torch.no_grad()
    def take(self, batch: PositiveBatch) -> Tensor:
        """Take the step; what it made smaller, `[replicas]`."""
        view = self._model.propagate()
        has_messages = view.final is not view.base
        offered, batch = batch, self._denoiser.choose_users(batch)
        user_rows = self._rows(self._users, batch.users, all_rows=has_messages)
        batch, negatives = self._drawn(batch, view)
        assert negatives.items is not None
        item_rows = self._rows(
            self._items, batch.items, negatives.items, all_rows=has_messages or self._chooses_by_scores
        )
        rows = _BatchRows(batch.users, batch.items, negatives.items)

        positive, negative, squares = rows.score(view.final)
        weights, by_square = self._shares(batch)
        judged, by_positive, by_negative = slopes(
            self._denoiser, ScoredRows(batch, negatives, positive, negative), weights
        )
        self._kept.note(offered, batch, judged.kept)
        gradient = Embeddings(self._users.gradient, self._items.gradient)
        if has_messages:
            nothing = torch.zeros_like(weights)
            rows.add_gradients(view.final, by_positive, by_negative, nothing, gradient)
            passed_back = Embeddings(*self._model.pull_back(gradient.users, gradient.items))
            gradient.users.zero_(), gradient.items.zero_()
            gradient = passed_back
            rows.add_gradients(view.base, nothing, nothing, by_square, gradient)
            squares = rows.score(view.base)[2]
        else:
            rows.add_gradients(view.final, by_positive, by_negative, by_square, gradient)
        self._users.apply(user_rows, gradient.users)
        self._items.apply(item_rows, gradient.items)
        return (weights * judged.losses.detach() + by_square * squares).sum(-1)

    def settle(self) -> None:
        """Have every row at the present step: before the model is read as a whole."""
        for adam in (self._users, self._items):
            adam.settle(adam.everyone)

    @staticmethod
    def _rows(adam: RowAdam, *numbers: Tensor, all_rows: bool) -> Rows:
        """The rows to be moved, and at the present step."""
        if all_rows:
            return adam.everyone
        rows = adam.rows_of(*numbers)
        adam.settle(rows)
        return rows


class _BatchRows:
    """The pairs of a batch, `[replicas, rows]` each."""

    def __init__(self, users: Tensor, positives: Tensor, negatives: Tensor):
        self._numbers = [numbers.contiguous().numpy() for numbers in (users, positives, negatives)]

    def score(self, tables: Embeddings) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of positives and negatives, and squared lengths."""
        users, positives, negatives = self._numbers
        positive, negative, squares = (torch.empty(users.shape) for _ in range(3))
        pairs.score_pairs(
            *_arrays(tables), users, positives, negatives, positive.numpy(), negative.numpy(), squares.numpy()
        )
        return positive, negative, squares

    def add_gradients(
        self, tables: Embeddings, by_positive: Tensor, by_negative: Tensor, by_square: Tensor, into: Embeddings
    ) -> None:
        users, positives, negatives = self._numbers
        pairs.add_gradients(
            *_arrays(tables), users, positives, negatives, by_positive.numpy(), by_negative.numpy(), by_square.numpy(),
            *_arrays(into),
        )  # fmt: skip


def _arrays(tables: Embeddings) -> tuple[object, object]:
    return tables.users.detach().numpy(), tables.items.detach().numpy()
