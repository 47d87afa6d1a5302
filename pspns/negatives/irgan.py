"""IRGAN: negatives from a second model, the generator, which learns to give items that the recommender scores high.

Rule: j ~ softmax(g_u / τ) over I ∖ P_u
      generator's loss = −mean[(p_j / q_j) ρ_j ln p_j] over 2 |T_u| items j ~ q, for each user
      p = softmax(g_u), q = (1 − λ) p + λ Uniform(T_u), ρ_j = 2 σ(s_uj) − 1, T_u = the user's items in train
Note: the generator g is an MF with item bias. It starts as a copy of the recommender, after some epochs with uniform
negatives, and learns after every epoch, the most active users first. What is judged is the recommender; the paper
reports the generator. At first its negatives are largely items that the user would like: in all that was tried here,
figures fell when it was first asked, and did not always recover.
Cost: |I| a row and |U| · |I| · d an epoch; |I| · d a row where |U| · |I| is above 2²⁷, too much to keep
Paper: Wang et al. 2017, IRGAN: A Minimax Game for Unifying Generative and Discriminative Information Retrieval Models
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from pspns.candidate_scores import candidate_scores
from pspns.item_sets import ItemSets
from pspns.needed_bytes import StepSizes
from pspns.negatives._stream_sampler import StreamSampler
from pspns.rng import ReplicaStream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_least, check_share
from pspns.shapes import Embeddings, ModelView, Negatives, PositiveBatch, SharedWorld, State, World, part_of

SCORES_AT_ONCE = 1 << 25  # of the generator: rows times items
TERMS_IN_A_SUM = 512  # on the CPU
# Users times items up to which a generator's running totals are kept, half a GiB. Not a share of what is free: how much
# that is must not show in the last bits of a result.
MOST_KEPT = 1 << 27


@dataclass(frozen=True, kw_only=True)
class GeneratedNegatives:
    temperature: float = 0.2
    """How evenly negatives are drawn from the generator (τ); large is uniform."""
    positive_share: float = 0.2
    """How many of the items that the generator learns from are the user's own (λ)."""
    warm_up: int = 10
    """Epochs with uniform negatives; then the generator starts as a copy of the recommender."""
    generator_learning_rate: float = 1e-3
    """Step size of the generator's Adam."""
    generator_batch: int = 256
    """Users in one step of the generator; fewer where there are so many items that a step would hold 2²⁵ scores."""
    owned_too: bool = False
    """Let the user's own items be negatives, as the published code for recommendation does."""

    search: ClassVar[Space] = {"temperature": Choices((0.2, 0.5, 1.0))}

    def __post_init__(self) -> None:
        check_above_zero(self, "temperature", "generator_learning_rate")
        check_share(self, "positive_share")
        check_least(self, warm_up=1, generator_batch=1)

    def start(self, world: SharedWorld, seeds: Sequence[int]) -> GeneratingSampler:
        return GeneratingSampler(world, seeds, self)

    def needed_bytes(self, world: World, sizes: StepSizes) -> int:
        n_users, n_items = world.n_users, world.n_items
        generators = sizes.of_nodes(n_users + n_items, 16, vectors=4)  # with their gradients and Adam's moments
        keeps_ends = n_users * n_items <= MOST_KEPT
        kept = 4 * sizes.n_replicas * n_users * n_items if keeps_ends else 0
        # One after the other: drawing, working out what to draw by, learning.
        drawing = 8 * sizes.n_rows * n_items
        n_ends = (n_users if keeps_ends else sizes.n_rows) * n_items
        working_out = 4 * n_ends + 20 * min(n_ends, SCORES_AT_ONCE)
        n_draws = 2 * int(np.bincount(world.train.users).max())
        learning = min(self.generator_batch, n_users) * (40 * n_items + 100 * n_draws)
        return generators + kept + max(drawing, working_out, learning) + 36 * len(world.train)


class GeneratingSampler(StreamSampler):
    follows_epochs = True
    reads = "nothing"  # at an epoch's end it is shown the model

    def __init__(self, world: SharedWorld, seeds: Sequence[int], settings: GeneratedNegatives):
        super().__init__(world, seeds)
        self._world, self._settings, self._seeds = world, settings, list(seeds)
        self._train = ItemSets(world.n_users, world.n_items, world.train, device=world.device)
        self._epochs = [0] * len(seeds)
        self._generators: list[Generator | None] = [None] * len(seeds)
        # Between two epochs' ends a generator does not change. So what is drawn by is worked out once for all users and
        # kept, `[n_users, n_items]` for each replica, unless that is too much.
        self._keeps_ends = world.n_users * world.n_items <= MOST_KEPT
        self._ends: list[Tensor | None] = [None] * len(seeds)

    @torch.no_grad()
    def sample(self, batch: PositiveBatch, model: ModelView) -> Negatives:
        items = self._rejected.draw_outside(batch.users, 1, self._stream).squeeze(-1)
        fractions = self._stream.fractions(batch.users.shape[1])
        for replica, generator in enumerate(self._generators):
            if generator:
                users, kept = batch.users[replica], self._ends[replica]
                ends = self._ends_of(replica, generator, users) if kept is None else kept[users]
                items[replica] = draw_in_proportion(ends, fractions[replica, :, None]).squeeze(-1)
        return Negatives(items=items)

    def _ends_of(self, replica: int, generator: Generator, users: Tensor) -> Tensor:
        """Running totals of the weights of all items, `[users, n_items]`."""
        rows = self._rejected.rows(users.expand(len(self._generators), -1))[replica]
        n_parts = -(-len(users) * self._world.n_items // SCORES_AT_ONCE)
        found = []
        for own, own_rows in zip(*(torch.tensor_split(x, n_parts) for x in (users, rows)), strict=True):
            scores = generator.scores(own) / self._settings.temperature
            if not self._settings.owned_too:
                scores[self._rejected.sets.entries(own_rows)] = -torch.inf
            found.append(running_totals(scores.softmax(-1)))
        return torch.cat(found)

    def end_epoch(self, replicas: Sequence[int], model: ModelView) -> None:
        for replica in replicas:
            self._epochs[replica] += 1
            if self._epochs[replica] < self._settings.warm_up:
                continue
            own = Embeddings(*(table[:, [replica]].contiguous() for table in (model.final.users, model.final.items)))
            generator = self._generators[replica] = self._generators[replica] or self._new_generator(replica, own)
            generator.learn(own, self._train, self._settings.positive_share)
            self._keep_ends(replica, generator)

    @torch.no_grad()
    def _keep_ends(self, replica: int, generator: Generator) -> None:
        if self._keeps_ends:
            everybody = torch.arange(self._world.n_users, device=self._world.device)
            self._ends[replica] = self._ends_of(replica, generator, everybody)

    def _new_generator(self, replica: int, model: Embeddings) -> Generator:
        tables = {
            "users": model.users[:, 0],
            "items": model.items[:, 0],
            "bias": model.items.new_zeros(self._world.n_items),
        }
        return self._generator(replica, tables)

    def _generator(self, replica: int, tables: State) -> Generator:
        settings, stream = self._settings, ReplicaStream([self._seeds[replica]], "generator", self._world.device)
        return Generator(tables, stream, settings.generator_learning_rate, settings.generator_batch)

    def keep(self, replicas: Tensor) -> None:
        super().keep(replicas)
        going_on = replicas.tolist()
        self._seeds, self._epochs, self._generators, self._ends = (
            [values[place] for place in going_on]
            for values in (self._seeds, self._epochs, self._generators, self._ends)
        )

    def state(self) -> State:
        generators = {
            f"{place}/{name}": values
            for place, generator in enumerate(self._generators)
            if generator
            for name, values in generator.state().items()
        }
        return {**super().state(), **generators, "epochs": torch.tensor(self._epochs)}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._epochs = state["epochs"].tolist()
        for place in range(len(self._epochs)):
            own = part_of(state, str(place))
            self._generators[place] = generator = self._generator(place, part_of(own, "tables")) if own else None
            self._ends[place] = None
            if generator:
                generator.load_state(own)
                self._keep_ends(place, generator)


class Generator:
    """The second model of one replica, with the Adam that moves it."""

    def __init__(self, tables: State, stream: ReplicaStream, learning_rate: float, batch_size: int):
        """`tables`: users `[n_users, size]`, items `[n_items, size]`, bias `[n_items]`."""
        self._tables = {name: nn.Parameter(table.detach().clone()) for name, table in tables.items()}
        self._adam = torch.optim.Adam(self._tables.values(), lr=learning_rate)
        self._stream, self._batch_size = stream, batch_size

    def scores(self, users: Tensor) -> Tensor:
        """Of all items, `[users, n_items]`."""
        rows, items, bias = self._tables["users"][users], self._tables["items"], self._tables["bias"]
        if items.is_cuda:
            return torch.addmm(bias, rows, items.T)
        # In blocks: sums over more items or users, which the gradients are, have other last bits on two threads.
        columns = list(zip(torch.split(items, TERMS_IN_A_SUM), torch.split(bias, TERMS_IN_A_SUM), strict=True))
        # Of about the same size, because a block of one or two rows has other last bits, too.
        blocks = torch.tensor_split(rows, -(-len(rows) // TERMS_IN_A_SUM))
        return torch.cat([torch.cat([torch.addmm(own, block, of.T) for of, own in columns], -1) for block in blocks])

    def learn(self, model: Embeddings, train: ItemSets, positive_share: float) -> None:
        """Go once through all users who have items; the most active together, because they draw as often."""
        order = train.sizes.sort(descending=True, stable=True).indices
        at_once = min(self._batch_size, max(1, SCORES_AT_ONCE // train.n_items))
        for users in torch.split(order[: int((train.sizes > 0).sum())], at_once):
            with torch.enable_grad():
                loss = self.loss(users, model, train, positive_share)
                self._adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
            self._adam.step()

    def loss(self, users: Tensor, model: Embeddings, train: ItemSets, positive_share: float) -> Tensor:
        """The mean over users of what their draws say; `model` has one replica."""
        log_p = self.scores(users).log_softmax(-1)  # [users, n_items]
        with torch.no_grad():
            sizes = train.sizes[users, None]
            items, is_drawn = self._draw(log_p.exp(), users, train, positive_share)  # [users, draws]
            p = log_p.exp().gather(-1, items)
            owned = train.contains(users[:, None].expand_as(items), items) / sizes
            weights = p / ((1 - positive_share) * p + positive_share * owned)
            reward = 2 * torch.sigmoid(candidate_scores(model.users, model.items, users[None], items[None])[0]) - 1
            share = is_drawn * weights * reward / (2 * sizes)
        return -(share * log_p.gather(-1, items)).sum(-1).mean()

    def _draw(self, p: Tensor, users: Tensor, train: ItemSets, positive_share: float) -> tuple[Tensor, Tensor]:
        """Twice as many items for each user as they have; rows are as long as the longest, and which places count."""
        sizes = train.sizes[users]
        n = 2 * int(sizes.max())
        which, where = self._stream.fractions(2, len(users), n)[0]
        generated = draw_in_proportion(running_totals(p), where)
        owned = train.items[train.starts[users, None] + (where * sizes[:, None]).long()]
        is_drawn = torch.arange(n, device=users.device) < 2 * sizes[:, None]
        return torch.where(which < positive_share, owned, generated), is_drawn

    def state(self) -> State:
        """Copies."""
        tables = {f"tables/{name}": table.detach().clone() for name, table in self._tables.items()}
        moments = {
            f"adam/{name}/{key}": value.clone()
            for name, table in self._tables.items()
            for key, value in self._adam.state.get(table, {}).items()
        }
        return {**tables, **moments, **self._stream.state()}

    def load_state(self, state: State) -> None:
        """In a generator made with the tables of this state."""
        self._stream.load_state(state)
        for name, table in self._tables.items():
            moments = part_of(state, f"adam/{name}")
            if moments:
                self._adam.state[table] = {key: value.clone() for key, value in moments.items()}


def running_totals(weights: Tensor) -> Tensor:
    """Of `[rows, columns]` weights; summed in float64, lest small ones be lost beside the sum."""
    return weights.double().cumsum(-1).float()


def draw_in_proportion(totals: Tensor, fractions: Tensor) -> Tensor:
    """Columns of `[rows, columns]` running totals, drawn in proportion to the weights: one for each of `[rows, n]`
    fractions."""
    whole = totals[:, -1:]
    # Below the whole, lest the last columns be drawn whose weight is 0.
    places = (fractions * whole).float().minimum(whole * (1 - 2**-23))
    return torch.searchsorted(totals, places, right=True)


COMPONENT = GeneratedNegatives
