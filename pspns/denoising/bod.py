"""BOD, bi-level optimisation: a small network weighs the rows, and learns to make two losses pull the same way.

Rule: w_ui = G(e_u ‖ e_i), G: 2d → 64 → ReLU → 64 → 1 → σ
      inner: L = λ_b softplus(−(w_ui s_ui − w_uj s_uj)) + λ_a w_ui ‖ê_u − ê_i‖² + λ_u ¼ (2 U(u) + U(i) + U(j)), G fixed
      U(x) = log mean exp(−2 ‖x̂ − ŷ‖²) over the pairs of a batch, hats for vectors of length 1
      outer, at each epoch's end, on one batch, the model fixed: G makes Σ_d 1 − cos(∂L_b/∂e⁰_d, ∂L_a/∂e⁰_d) small
Note: G takes one step an epoch, so its weights move slowly; `weigh = false` (all are 1) tells what is theirs and what
      comes from alignment and uniformity.
Cost: G of two pairs a row, the distances of all rows of a batch
Paper: Wang et al. 2023, Efficient Bi-Level Optimization for Recommendation Denoising
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from pspns.denoising._denoising import Denoising
from pspns.denoising._own_pairs import OwnPairs, own_pairs_bytes
from pspns.needed_bytes import VECTORS_A_ROW, StepSizes, gradient_bytes
from pspns.rng import ReplicaStream, host_stream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_least
from pspns.shapes import DenoisedWorld, JudgedRows, ModelView, ScoredRows, State, Vectors, World, take
from pspns.training.epochs import ROWS_AT_ONCE
from pspns.training.replica_adam import ReplicaAdam

HIDDEN = 64
# On the CPU, sums of more terms than this have other last bits on two threads.
TERMS_IN_A_SUM = 512
LEAST_SQUARE = 1e-30  # what is shorter has no direction


@dataclass(frozen=True, kw_only=True)
class BilevelWeights:
    ranking: float = 1.0
    """Weight of the ranking loss (λ_b)."""
    alignment: float = 1.0
    """Weight of the distance between a user and their item (λ_a)."""
    uniformity: float = 0.5
    """Weight of how evenly vectors are spread (λ_u)."""
    outer_steps: int = 1
    """Steps of the network at each epoch's end."""
    generator_learning_rate: float = 1e-3
    """Step size of its Adam."""
    generator_l2: float = 1e-3
    """Weight of the squared length of what it has learned. (The published code penalises the model instead, which does
    nothing to the network.)"""
    weigh: bool = True
    """Whether rows are weighed at all; if not, all weights are 1."""
    weights_of_other_rows: bool = False
    """Pair every row's scores with every other row's weights, as the published code does by a slip of shapes, inside
    and outside: no row then has a weight of its own."""
    outer_user_twice: bool = False
    """Weigh positives by G(e_u ‖ e_u) in the outer step, as the published code does."""

    losses: ClassVar[tuple[str, ...]] = ("bpr",)
    search: ClassVar[Space] = {
        "alignment": Choices((0.1, 0.5, 1.0, 2.0)),
        "uniformity": Choices((0.1, 0.5, 1.0, 2.0)),
        "outer_steps": Choices((1, 10)),
    }

    def __post_init__(self) -> None:
        check_least(self, ranking=0, alignment=0, uniformity=0, outer_steps=0, generator_l2=0)
        check_above_zero(self, "generator_learning_rate")

    def start(self, world: DenoisedWorld, seeds: Sequence[int]) -> Bilevel:
        return Bilevel(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        generators = sizes.n_replicas * 4 * 4 * HIDDEN * (2 * sizes.embedding_size + HIDDEN + 2)  # and all for Adam
        of_rows = sizes.of_rows(8 * 2 * HIDDEN, vectors=VECTORS_A_ROW)
        # Of users, positives and negatives, how close each row is to each other; and of one block what that is made of.
        a_block = sizes.n_rows if world.device.type == "cuda" else min(sizes.n_rows, TERMS_IN_A_SUM)
        closeness = sizes.of_rows(3 * 4 * sizes.n_rows) + 3 * 4 * a_block**2
        inner, outer = closeness + gradient_bytes(world, sizes), 0
        if self.weights_of_other_rows:
            inner += sizes.of_rows(4 * 4 * sizes.n_rows)
        if self.weigh and self.outer_steps:
            # Gradients of two losses by all vectors, and what it takes to differentiate them.
            outer = sizes.of_nodes(world.n_users + world.n_items, vectors=6)
            if self.weights_of_other_rows:
                outer += sizes.of_rows(10 * 4 * sizes.n_rows)
        return own_pairs_bytes(world) + generators + of_rows + max(inner, outer)


class Bilevel(Denoising):
    reads = "gradients"

    def __init__(self, world: DenoisedWorld, seeds: Sequence[int], settings: BilevelWeights):
        super().__init__(world.loss)
        self._settings, self._seeds = settings, list(seeds)
        self._rejected, self._batch_size, self._device = world.rejected, world.batch_size, world.device
        self._pairs = OwnPairs(world)
        self._adam = ReplicaAdam(
            WeightGenerator.start(world.embedding_size, seeds, world.device), settings.generator_learning_rate
        )
        self._n_outer = torch.zeros(len(seeds), dtype=torch.int64)  # steps that each replica's network has taken
        self.follows_epochs = settings.weigh and settings.outer_steps > 0

    def judge(self, rows: ScoredRows) -> JudgedRows:
        assert rows.vectors is not None
        settings, vectors, live = self._settings, rows.vectors, rows.batch.live
        of_positives, of_negatives = self._weights(vectors)
        distances = (_unit(vectors.users) - _unit(vectors.positives)).square().sum(-1)
        ranking, alignment = self._row_losses(rows.positive, rows.negative, distances, of_positives, of_negatives, live)
        losses = settings.ranking * ranking + settings.alignment * alignment
        spread = [uniformity(x, live) for x in (vectors.users, vectors.positives, vectors.negatives)]
        of_batch = settings.uniformity * (2 * spread[0] + spread[1] + spread[2]) / 4
        return JudgedRows(losses, of_positives, of_batch)

    def _weights(self, vectors: Vectors) -> tuple[Tensor, Tensor]:
        """Of positives and negatives, `[replicas, rows]` each, without gradient."""
        if not self._settings.weigh:
            ones = torch.ones_like(vectors.users[..., 0])
            return ones, ones
        with torch.no_grad():
            generator = WeightGenerator(self._adam.tables)
            users = vectors.users.detach()
            return generator(users, vectors.positives.detach()), generator(users, vectors.negatives.detach())

    def _row_losses(
        self,
        positive: Tensor,
        negative: Tensor,
        distances: Tensor,
        of_positives: Tensor,
        of_negatives: Tensor,
        live: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Ranking and alignment by scores, distances and weights, all `[replicas, rows]`."""
        if not self._settings.weights_of_other_rows:
            return F.softplus(of_negatives * negative - of_positives * positive), of_positives * distances
        n = live.sum(-1, keepdim=True)
        # [replicas, whose weights, whose scores]
        apart = of_negatives[..., None] * negative[:, None] - of_positives[..., None] * positive[:, None]
        ranking = (F.softplus(apart) * live[..., None]).sum(1) / n
        return ranking, (of_positives * live).sum(-1, keepdim=True) / n * distances

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        for _ in range(self._settings.outer_steps):
            self._step_of_network(replicas, model)

    def _step_of_network(self, replicas: Sequence[int], model: ModelView) -> None:
        users, positives, negatives, live = self._outer_batch(replicas)
        tables = {name: table.detach().requires_grad_() for name, table in self._adam.tables.items()}
        generator = WeightGenerator(tables)
        with torch.enable_grad():
            of_users = take(model.final.users, users)
            of_items = take(model.final.items, torch.stack((positives, negatives)), replica_axis=1)
            fixed_users, fixed_items = of_users.detach(), of_items.detach()
            first = fixed_users if self._settings.outer_user_twice else fixed_items[0]
            of_positives, of_negatives = generator(fixed_users, first), generator(fixed_users, fixed_items[1])
            scores = (of_users * of_items).sum(-1)
            distances = (_unit(of_users) - _unit(of_items[0])).square().sum(-1)
            row_losses = self._row_losses(scores[0], scores[1], distances, of_positives, of_negatives, live)
            apart = disagreement(*(_slopes(losses, live, model) for losses in row_losses))
            squares = sum(table.flatten(1).square().sum(-1) for table in tables.values())
            value = apart + self._settings.generator_l2 / 2 * squares  # [replicas]
            gradients = torch.autograd.grad(value.sum(), list(tables.values()))
        takes_part = torch.zeros(len(self._seeds), dtype=torch.bool, device=self._device)
        takes_part[list(replicas)] = True
        for name, gradient in zip(tables, gradients, strict=True):
            self._adam.step(name, gradient, takes_part)
        self._n_outer[list(replicas)] += 1

    def _outer_batch(self, replicas: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Random pairs and negatives, and which rows do not only fill the block, `[replicas, rows]` each; a replica's
        depend on its own steps alone."""
        n_rows = -(-self._batch_size // ROWS_AT_ONCE) * ROWS_AT_ONCE
        pair_ids = torch.zeros(len(self._seeds), n_rows, dtype=torch.int64, device=self._device)
        streams = {}
        for replica in replicas:
            stream = streams[replica] = ReplicaStream([self._seeds[replica]], "denoiser", self._device)
            stream.calls = 2 * int(self._n_outer[replica])
            below = self._pairs.n_pairs[replica].expand(1, n_rows)
            pair_ids[replica] = stream.integers(below)[0, :, 0]
        users, positives = self._pairs.users(pair_ids), self._pairs.items(pair_ids)
        negatives, rows = positives.clone(), self._rejected.rows(users)
        for replica, stream in streams.items():
            negatives[replica] = self._rejected.sets.draw_outside(rows[replica : replica + 1], 1, stream)[0, :, 0]
        live = (torch.arange(n_rows, device=self._device) < self._batch_size).float().expand(users.shape)
        return users, positives, negatives, live

    def keep(self, replicas: Tensor) -> None:
        self._adam.keep(replicas)
        self._pairs.keep(replicas)
        self._seeds = [self._seeds[place] for place in replicas.tolist()]
        self._n_outer = self._n_outer[replicas.cpu()]

    def state(self) -> State:
        return {**self._adam.state(), "n_outer": self._n_outer.clone()}

    def load_state(self, state: State) -> None:
        self._adam.load_state(state)
        self._n_outer = state["n_outer"].cpu().clone()


class WeightGenerator:
    """The network G of each replica, made of the tables of its Adam."""

    def __init__(self, tables: dict[str, Tensor]):
        self._tables = tables

    @staticmethod
    def start(size: int, seeds: Sequence[int], device: torch.device) -> dict[str, Tensor]:
        """Uniform within 1 / √inputs, as torch begins its layers; replicas first."""
        tables = {}
        for layer, (n_in, n_out) in enumerate(((2 * size, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)), 1):
            for name, shape in ((f"weights{layer}", (n_out, n_in)), (f"bias{layer}", (n_out,))):
                own = [host_stream(seed, f"denoiser {name}").uniform(-1, 1, shape) / n_in**0.5 for seed in seeds]
                tables[name] = torch.stack([torch.from_numpy(one).float() for one in own]).to(device)
        return tables

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        """`[replicas, rows, size]` of both → weights from 0 to 1, `[replicas, rows]`."""
        both = torch.cat((users, items), -1)
        # One replica at a time: products of stacks of matrices round otherwise, and no replica may feel its company.
        return torch.stack([self._of_replica(replica, rows) for replica, rows in enumerate(both)])

    def _of_replica(self, replica: int, rows: Tensor) -> Tensor:
        blocks = [rows] if rows.is_cuda else torch.split(rows, TERMS_IN_A_SUM)
        return torch.cat([self._of_block(replica, block) for block in blocks])

    def _of_block(self, replica: int, rows: Tensor) -> Tensor:
        layers = [(self._tables[f"weights{n}"][replica], self._tables[f"bias{n}"][replica]) for n in (1, 2, 3)]
        hidden = F.linear(F.relu(F.linear(rows, *layers[0])), *layers[1])
        return torch.sigmoid(F.linear(hidden, *layers[2])).squeeze(-1)


def uniformity(vectors: Tensor, live: Tensor) -> Tensor:
    """log mean exp(−2 ‖x̂ − ŷ‖²) over all pairs of live rows of `[replicas, rows, size]`; `[replicas]`."""
    found = []
    for rows, is_live in zip(_unit(vectors), live, strict=True):
        n_terms = len(rows) if rows.is_cuda else TERMS_IN_A_SUM
        blocks = list(zip(torch.split(rows, n_terms), torch.split(is_live, n_terms), strict=True))
        # Row by row, then over rows: a sum over everything at once depends on the number of threads.
        sums = [((_closeness(x, y, x is y) * of_y).sum(-1) * of_x).sum() for x, of_x in blocks for y, of_y in blocks]
        n = is_live.sum()
        mean = torch.stack(sums).sum() / (n * (n - 1)).clamp_min(1)
        found.append(torch.log(torch.where(n > 1, mean, 1.0)))  # one row alone has nothing to be apart from
    return torch.stack(found)


def _closeness(x: Tensor, y: Tensor, are_same: bool) -> Tensor:
    """exp(−2 ‖x − y‖²), `[rows of x, rows of y]`; 0 for a row and itself."""
    # Squared lengths are 1, but those of vectors without direction are 0.
    of_x, of_y = (rows.square().sum(-1) for rows in (x, y))
    found = torch.exp(4 * (x @ y.T) - 2 * of_x[:, None] - 2 * of_y)
    return found.masked_fill(torch.eye(len(x), dtype=torch.bool, device=x.device), 0.0) if are_same else found


def disagreement(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Σ 1 − cosine, over tables `[nodes, replicas, size]` and columns; `[replicas]`."""
    found = []
    for x, y in zip(first, second, strict=True):
        lengths = _inverse_roots(_column_sums(x * x)) * _inverse_roots(_column_sums(y * y))
        found.append((1 - _column_sums(x * y) * lengths).sum(-1))
    return functools.reduce(torch.add, found)


def _column_sums(table: Tensor) -> Tensor:
    """`[nodes, replicas, size]` → `[replicas, size]`."""
    # Each column lies in one piece: how sums over rows of columns are rounded depends on how many columns there are.
    columns = table.permute(1, 2, 0).contiguous()
    blocks = [columns] if table.is_cuda else torch.split(columns, TERMS_IN_A_SUM, -1)
    return functools.reduce(torch.add, [block.sum(-1) for block in blocks])


def _slopes(losses: Tensor, live: Tensor, model: ModelView) -> tuple[Tensor, ...]:
    """The gradients of the mean over live rows by the model's tables, themselves to be differentiated."""
    means = (losses * live).sum(-1) / live.sum(-1)
    return torch.autograd.grad(means.sum(), (model.base.users, model.base.items), create_graph=True)


def _unit(vectors: Tensor) -> Tensor:
    # Not by F.normalize, which gives to vectors of length 0 gradients of 10¹²: Adam's memory of one freezes them.
    return vectors * _inverse_roots(vectors.square().sum(-1, keepdim=True))


def _inverse_roots(squares: Tensor) -> Tensor:
    """1 / √squares; 0, and without gradient, where there is next to nothing."""
    return torch.where(squares > LEAST_SQUARE, squares, torch.inf).rsqrt()


COMPONENT = BilevelWeights
