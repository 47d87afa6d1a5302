"""What the steps have in common whose gradient is written out instead of found by autograd."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from torch import Tensor

from pspns.models._embedding_model import EmbeddingModel
from pspns.shapes import Denoiser, ModelView, Negatives, PositiveBatch, Sampler, State, part_of
from pspns.training.kept_weights import KeptWeights
from pspns.training.objective import drawn_rows


class TableAdam(Protocol):
    """Adam on one table, which it changes in place."""

    def __init__(self, table: Tensor, learning_rate: float, state: State | None = None):
        """`state` is that of another one, whose table this is now."""

    def state(self) -> State:
        """Under torch's names: exp_avg, exp_avg_sq, step."""


A = TypeVar("A", bound=TableAdam)


class WrittenOutStep(Generic[A]):
    """Base of steps for samplers that give items, not vectors; what is left to write is `take` and `settle`."""

    adam: type[A]

    def __init__(
        self,
        model: EmbeddingModel,
        sampler: Sampler,
        denoiser: Denoiser,
        kept: KeptWeights,
        l2: Tensor,
        learning_rate: float,
    ):
        """`l2` `[replicas]` is each replica's weight of the squared lengths."""
        self._learning_rate = learning_rate
        self._model, self._sampler, self._denoiser, self._kept, self._l2 = model, sampler, denoiser, kept, l2
        self._users, self._items = (self.adam(table, learning_rate) for table in (model.users, model.items))

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones); all rows must be settled."""
        state = {
            name: value[:, replicas].contiguous() if value.dim() else value for name, value in self.state().items()
        }
        self._l2 = self._l2[replicas]
        self._model.keep(replicas)
        self.load_state(state)

    def state(self) -> State:
        """All rows must be settled."""
        return {
            f"{table}/{name}": value
            for table, adam in (("users", self._users), ("items", self._items))
            for name, value in adam.state().items()
        }

    def load_state(self, state: State) -> None:
        """Go on with a model that has been restored."""
        self._users, self._items = (
            self.adam(table, self._learning_rate, part_of(state, name))
            for name, table in (("users", self._model.users), ("items", self._model.items))
        )

    @property
    def _chooses_by_scores(self) -> bool:
        """Whether sampler or denoiser look at the model before rows are scored."""
        return "scores" in (self._sampler.reads, self._denoiser.reads)

    def _drawn(self, batch: PositiveBatch, view: ModelView) -> tuple[PositiveBatch, Negatives]:
        """The rows, negatives being items; all else that a sampler can give needs the plain step."""
        rows, given = drawn_rows(batch, self._sampler, self._denoiser, view)
        made = (given.embeddings, given.base_embeddings, given.row_losses)
        assert given.items is not None, "a sampler that makes vectors must say that it reads gradients"
        assert made == (None, None, None), "a sampler that gives more than items must say that it reads gradients"
        return rows, given

    def _shares(self, batch: PositiveBatch) -> tuple[Tensor, Tensor]:
        """How much each row's loss and its squared lengths count in the mean, `[replicas, rows]` both."""
        share = batch.live / batch.live.sum(-1, keepdim=True)
        return batch.weights * share, self._l2[:, None] / 2 * share
