"""One step of training on the GPU, its gradient written out; `plain_step` takes the same one by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from pspns.gpu_kernels.adam import GpuAdam
from pspns.gpu_kernels.pairs import GpuPairs
from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import Embeddings, PositiveBatch, Sampler
from pspns.training.objective import Loss, slopes
from pspns.training.written_out_step import WrittenOutStep


class GpuStep(WrittenOutStep[GpuAdam]):
    """Negatives, scores, their gradient, that of the tables, Adam: for samplers that give items, not vectors."""

    def __init__(self, model: EmbeddingModel, sampler: Sampler, loss: Loss, l2: Tensor, learning_rate: float):
        """`l2` `[replicas]` is each replica's weight of the squared lengths."""
        super().__init__(GpuAdam, model, sampler, loss, l2, learning_rate)
        self._beside = torch.cuda.Stream(model.users.device)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def take(self, batch: PositiveBatch) -> Tensor:
        """Take the step; what it made smaller, `[replicas]`."""
        here = torch.cuda.current_stream()
        self._beside.wait_stream(here)
        view = self._model.propagate()
        if self._sampler.reads != "nothing":
            self._beside.wait_stream(here)
        # Few numbers, but long to sort: meanwhile messages pass.
        with torch.cuda.stream(self._beside):
            drawn = self._drawn(batch, view)
            pairs = GpuPairs(batch.users, batch.items, drawn)
        here.wait_stream(self._beside)

        positive, negative, squares = pairs.scores(view.final, view.base)
        weights, by_square = self._shares(batch)
        row_losses, by_positive, by_negative = slopes(self._loss, positive, negative, weights)
        of_final, of_squares = pairs.gradient(view.final, by_positive, by_negative, by_square)
        gradient = Embeddings(*self._model.pull_back(of_final.users, of_final.items))
        self._users.apply(gradient.users, of_squares.users)
        self._items.apply(gradient.items, of_squares.items)
        return (weights * row_losses + by_square * squares).sum(-1)

    def settle(self) -> None:
        """Have every row at the present step; here it always is."""
