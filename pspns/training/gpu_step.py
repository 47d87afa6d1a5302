"""One step of training on the GPU, its gradient written out; `plain_step` takes the same one by autograd."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from pspns.gpu_kernels.adam import GpuAdam
from pspns.gpu_kernels.pairs import GpuPairs
from pspns.shapes import Embeddings, PositiveBatch, ScoredRows
from pspns.training.objective import slopes
from pspns.training.written_out_step import WrittenOutStep


class GpuStep(WrittenOutStep[GpuAdam]):
    """Negatives, scores, their gradient, that of the tables, Adam: for samplers that give items, not vectors."""

    adam = GpuAdam

    @cached_property
    def _beside(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self._model.users.device)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def take(self, batch: PositiveBatch) -> Tensor:
        """Take the step; what it made smaller, `[replicas]`."""
        here = torch.cuda.current_stream()
        self._beside.wait_stream(here)
        view = self._model.propagate()
        if self._chooses_by_scores:
            self._beside.wait_stream(here)
        # Few numbers, but long to sort: meanwhile messages pass.
        with torch.cuda.stream(self._beside):
            rows, negatives = self._drawn(self._denoiser.choose_users(batch), view)
            assert negatives.items is not None
            pairs = GpuPairs(rows.users, rows.items, negatives.items)
        here.wait_stream(self._beside)

        positive, negative, squares = pairs.scores(view.final, view.base)
        weights, by_square = self._shares(rows)
        judged, by_positive, by_negative = slopes(
            self._denoiser, ScoredRows(rows, negatives, positive, negative), weights
        )
        self._kept.note(batch, rows, judged.kept)
        of_final, of_squares = pairs.gradient(view.final, by_positive, by_negative, by_square)
        gradient = Embeddings(*self._model.pull_back(of_final.users, of_final.items))
        self._users.apply(gradient.users, of_squares.users)
        self._items.apply(gradient.items, of_squares.items)
        return (weights * judged.losses.detach() + by_square * squares).sum(-1)

    def settle(self) -> None:
        """Have every row at the present step; here it always is."""
