"""What the stages hand to each other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pspns.candidate_scores import candidate_scores
from pspns.data.interactions import Floats, Ints
from pspns.data.split import Pairs
from pspns.global_svd import GlobalSvd
from pspns.item_sets import ItemSets, RejectedItems
from pspns.memory import MemoryBudget

if TYPE_CHECKING:
    from pspns.training.stopping import Evaluation


@dataclass(frozen=True)
class PositivePairs:
    """What the loss is summed over: which pairs, how often, how much."""

    users: Ints  # [pairs] each pair once, sorted by user, then item
    items: Ints  # [pairs]
    copies: NDArray[np.uint8]  # [pairs] how often an epoch visits the pair
    pair_weights: NDArray[np.float32]  # [pairs] how much one visit counts in the loss
    is_observed: NDArray[np.bool_]  # [pairs] in train
    is_global: NDArray[np.bool_]  # [pairs] proposed by the global pattern

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_visits(self) -> int:
        """Rows of one epoch."""
        return int(self.copies.sum(dtype=np.int64))

    def as_pairs(self) -> Pairs:
        return Pairs(self.users, self.items)

    @property
    def is_agreed(self) -> NDArray[np.bool_]:
        """Both observed and proposed."""
        return self.is_observed & self.is_global

    def equals(self, other: PositivePairs) -> bool:
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def only(self, kept: NDArray[np.bool_]) -> PositivePairs:
        """Those pairs for which `kept` is true."""
        return PositivePairs(*(getattr(self, field.name)[kept] for field in fields(self)))

    def without(self, held_out: ItemSets) -> PositivePairs:
        """These pairs less those that were constructed and are in the given sets.

        A pair of train is in them only if it was added as noise, which knows nothing of what is held out.
        """
        is_held_out = held_out.contains(torch.from_numpy(self.users), torch.from_numpy(self.items)).numpy()
        return self.only(self.is_observed | ~is_held_out)


@dataclass(frozen=True)
class Ground:
    """All that may be built upon: train, and nothing held out."""

    n_users: int
    n_items: int
    train: Pairs
    data_seed: int  # drives what all replicas share, such as the SVD
    memory: MemoryBudget
    # Of train, made when first asked for. By keyword only, so that fields without a default may follow in World.
    svd: GlobalSvd = field(default_factory=GlobalSvd, compare=False, kw_only=True)

    @property
    def device(self) -> torch.device:
        return self.memory.device


@dataclass(frozen=True)
class World(Ground):
    """The ground and what is built on it: all that training may know."""

    pairs: PositivePairs
    n_dropped: int  # constructed pairs that the protocol dropped because they are held out
    user_weights: NDArray[np.float32]  # [n_users] how much a user's pairs count in the loss
    rejected: ItemSets  # what may not be a negative
    # [pairs] known to be false, because they were added as noise; None: nothing is known. For the record alone.
    is_false: NDArray[np.bool_] | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True)
class SharedWorld(Ground):
    """What a sampler may know: the ground all replicas of a loop share, and what each of them may not draw."""

    rejected: RejectedItems
    embedding_size: int


@dataclass(frozen=True)
class PositiveBatch:
    """One step's positives; a row with `live` 0 only fills the block at the end of an epoch."""

    users: Tensor  # [replicas, rows]
    items: Tensor  # [replicas, rows]
    pair_ids: Tensor  # [replicas, rows] places in PositivePairs, for methods that keep a history per pair
    weights: Tensor  # [replicas, rows] pair weight × user weight
    live: Tensor  # [replicas, rows] 1 or 0
    epochs: Tensor  # [replicas] epochs that ended before this step


@dataclass(frozen=True)
class Embeddings:
    """One vector for each node and replica."""

    users: Tensor  # [n_users, replicas, size]
    items: Tensor  # [n_items, replicas, size]


def take(table: Tensor, numbers: Tensor, replica_axis: int = 0) -> Tensor:
    """Rows of a `[nodes, replicas, size]` table, each replica from its own: `[replicas, …]` → `[replicas, …, size]`."""
    n_replicas = table.shape[1]
    own = torch.arange(n_replicas, device=numbers.device).view(-1, *[1] * (numbers.dim() - 1 - replica_axis))
    # F.embedding, because the backward pass of table[numbers] differs from run to run on two threads.
    return F.embedding(numbers * n_replicas + own, table.flatten(0, 1))


def mean_of(layers: Sequence[Tensor]) -> Tensor:
    """The mean of tensors of one shape."""
    return functools.reduce(torch.add, layers) / len(layers)


@dataclass(frozen=True)
class ModelView:
    """The model as one step sees it: propagated once, read by sampler and loss."""

    base: Embeddings  # the parameters (layer 0), which the L2 term holds small
    final: Embeddings  # what scores are made of; for matrix factorisation the same object
    layers: Sequence[Embeddings] = ()  # each layer, from 0 on, whose mean is final; only for samplers that read them

    def score(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores of `[replicas, rows]` users for `[replicas, rows, n]` items, without gradient: to choose by."""
        return candidate_scores(self.final.users, self.final.items, users, items)


@dataclass(frozen=True)
class Negatives:
    """One step's negatives: items, or vectors that are no item's; these with what the L2 term holds small for them."""

    items: Tensor | None = None  # [replicas, rows]
    embeddings: Tensor | None = None  # [replicas, rows, size] unset: those of the items
    base_embeddings: Tensor | None = None  # [replicas, rows, size]
    row_losses: Tensor | None = None  # [replicas, rows] what the sampler adds to the loss of each row


State = dict[str, Tensor]
"""All that a part must be given back to go on, to the bit, where it was."""


def part_of(state: State, name: str) -> State:
    """What is filed under a name: `name/key` → `key`."""
    return {key.removeprefix(f"{name}/"): tensor for key, tensor in state.items() if key.startswith(f"{name}/")}


Reads = Literal["nothing", "scores", "gradients", "layers"]


@dataclass(frozen=True)
class DenoisedWorld(SharedWorld):
    """What a denoiser may know: also the pairs that each replica is trained on, and how."""

    worlds: Sequence[World]  # one for each replica; those that share their pairs give the same object
    batch_size: int
    loss: str
    teacher: Embeddings | None = None  # the final vectors of a model trained before, for denoisers that need one

    @property
    def batches_an_epoch(self) -> list[int]:
        """For each replica."""
        return [-(-world.pairs.n_visits // self.batch_size) for world in self.worlds]


@dataclass(frozen=True)
class Vectors:
    """The final vectors of a batch, `[replicas, rows, size]` each."""

    users: Tensor
    positives: Tensor
    negatives: Tensor


@dataclass(frozen=True)
class ScoredRows:
    """A batch and what the model says of it."""

    batch: PositiveBatch
    negatives: Negatives
    positive: Tensor  # [replicas, rows] scores
    negative: Tensor  # [replicas, rows]
    vectors: Vectors | None = None  # only for denoisers that read gradients


@dataclass(frozen=True)
class JudgedRows:
    """What the rows of a batch say to the model."""

    losses: Tensor  # [replicas, rows] before the weights of users and pairs
    kept: Tensor | None = None  # [replicas, rows] how much of each positive's say is left; unset: all of it
    of_batch: Tensor | None = None  # [replicas] what comes on top once; needs `reads` gradients


class Sampler(Protocol):
    """A negative sampler at work."""

    reads: Reads
    """What `sample` takes from the model: nothing; vectors of the batch's users and of any items, to choose by;
    anything, also to make vectors or losses through which the gradient must pass; or, besides, each layer's vectors.
    The less it is, the faster a step."""

    stays_on_device: bool
    """Whether `sample` asks nothing of the host, so that a GPU may record it once and replay it. Tensors that it keeps
    must then be changed in place."""

    follows_epochs: bool
    """Whether `end_epoch` is to be called."""

    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives: ...

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        """These replicas (places on the axis) have just ended an epoch; the model is as their next batch finds it."""

    def parameters(self) -> dict[str, Tensor]:
        """What a step's gradient changes beside the model, by the same Adam, `[replicas, …]`; needs `reads` gradients
        or layers."""

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None: ...


class Denoiser(Protocol):
    """A denoiser at work: it may exchange the rows of a batch, and says what each of them costs."""

    reads: Reads
    """What it takes from the model, beside the scores of the rows: nothing; vectors of any users and items, to choose
    by; or the rows' vectors, through which the gradient must pass."""

    stays_on_device: bool
    """As for samplers."""

    follows_epochs: bool
    """Whether `end_epoch` is to be called."""

    def choose_users(self, batch: PositiveBatch) -> PositiveBatch:
        """The rows for which negatives are drawn."""

    def choose_positives(
        self, batch: PositiveBatch, negatives: Negatives, model: ModelView
    ) -> tuple[PositiveBatch, Negatives]:
        """The rows that are scored; users stay as they are."""

    def judge(self, rows: ScoredRows) -> JudgedRows:
        """What the rows cost; the gradient follows the scores (and vectors) of `rows`."""

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        """These replicas have just ended an epoch; gradients may be taken through `model`."""

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None: ...


class Scorer(Protocol):
    """A finished model: scores for every item, and the tensors it is made of."""

    @property
    def n_replicas(self) -> int: ...

    def scores(self, users: Tensor, replica: int) -> Tensor:
        """`[users]` → `[users, n_items]`."""

    def fold_in(self, items: Tensor, replica: int) -> Tensor:
        """Scores `[n_items]` for somebody unknown who has these items."""

    def tensors(self) -> dict[str, Tensor]:
        """What a file must hold to make the scorer anew."""


class _Divisible(Scorer, Protocol):
    """A scorer of several replicas, as training leaves it."""

    def part(self, first: int, n: int) -> Scorer:
        """The n replicas from `first` on."""


@dataclass(frozen=True)
class Fitted:
    """A model after fitting; the lists have one entry for each replica and are empty without a training loop."""

    scorer: Scorer
    chosen: dict[str, float] = field(default_factory=dict)  # settings that validation chose
    steps: list[int] = field(default_factory=list)
    best_steps: list[int] = field(default_factory=list)
    history: list[Evaluation] = field(default_factory=list)
    # [pairs] each: what a denoiser gave to every pair between the last two evaluations; empty without one.
    pair_weights: list[Floats] = field(default_factory=list)

    def of(self, first: int, seeds: Sequence[int]) -> Fitted:
        """The share of one member of a loop: the replicas from `first` on."""
        if not self.steps:
            return self
        last = first + len(seeds)
        return Fitted(
            scorer=cast("_Divisible", self.scorer).part(first, len(seeds)),
            chosen=self.chosen,
            steps=self.steps[first:last],
            best_steps=self.best_steps[first:last],
            history=[own for evaluation in self.history if (own := evaluation.of(first, seeds)).metrics],
            pair_weights=self.pair_weights[first:last],
        )


Validate = Callable[[Scorer, int], dict[str, float]]
"""The metrics of one replica on the part that chooses: all that fitting learns of held-out data."""
