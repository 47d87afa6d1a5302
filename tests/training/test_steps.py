"""The written-out step is the plain one: same batches, same negatives, tables equal to rounding."""

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.denoising._denoising import Denoising
from pspns.models._embedding_model import EmbeddingModel
from pspns.models._graph import edge_weights
from pspns.models._propagation import SparseLayers
from pspns.models.lightgcn import GraphModel
from pspns.negatives._stream_sampler import StreamSampler
from pspns.negatives.uniform import UniformSampler
from pspns.shapes import Negatives, take
from pspns.training.cpu_step import CpuStep
from pspns.training.epochs import Epochs
from pspns.training.kept_weights import KeptWeights
from pspns.training.plain_step import PlainStep
from pspns.training.row_adam import RowAdam

CPU = torch.device("cpu")
SEEDS = [3, 4]


class HardSampler(StreamSampler):
    """The best-scored of three random items."""

    reads = "scores"

    def sample(self, batch, model):
        drawn = self._rejected.draw_outside(batch.users, 3, self._stream)
        best = model.score(batch.users, drawn).argmax(-1, keepdim=True)
        return Negatives(items=drawn.gather(-1, best).squeeze(-1))


def steps_of(kind, *, layers, size, loss="bpr", reads="nothing", n_steps=40, keep=None):
    """Tables and losses after some steps; `keep` = (step, replicas) lets replicas go on the way."""
    world = toy_world()
    rng = np.random.default_rng(0)
    starts = [
        tuple(rng.normal(0, 0.3, (n, size)).astype(np.float32) for n in (world.n_users, world.n_items)) for _ in SEEDS
    ]
    model = EmbeddingModel(starts, CPU)
    if layers:
        model = GraphModel(starts, CPU, SparseLayers(edge_weights(world, "train"), layers, CPU))
    epochs = Epochs([world] * len(SEEDS), 64, SEEDS)
    sampler = (UniformSampler if reads == "nothing" else HardSampler)(world, SEEDS)
    step = kind(model, sampler, Denoising(loss), KeptWeights([world]), torch.tensor([0.02, 0.3]), 0.01)
    losses = []
    for number in range(n_steps):
        losses.append(step.take(epochs.next_batch()))
        if keep and keep[0] == number:
            step.settle()
            for part in (epochs, sampler, step):
                part.keep(torch.tensor(keep[1]))
    step.settle()
    return model, losses, step.state()


@pytest.mark.parametrize("reads", ["nothing", "scores"])
@pytest.mark.parametrize("loss", ["bpr", "bce"])
@pytest.mark.parametrize("size", [5, 64])
@pytest.mark.parametrize("layers", [0, 2])
def test_equals_autograd(layers, size, loss, reads):
    plain, compiled = (
        steps_of(kind, layers=layers, size=size, loss=loss, reads=reads) for kind in (PlainStep, CpuStep)
    )
    start, _, _ = steps_of(PlainStep, layers=layers, size=size, n_steps=0)
    for name, parameter in plain[0].named_parameters():
        torch.testing.assert_close(getattr(compiled[0], name), parameter, rtol=1e-3, atol=1e-5)
        assert (parameter - getattr(start, name)).abs().mean() > 0.05  # forty steps of 0.01 have moved it
    torch.testing.assert_close(torch.stack(compiled[1]), torch.stack(plain[1]), rtol=1e-4, atol=1e-6)
    for name, value in plain[2].items():
        torch.testing.assert_close(compiled[2][name], value.to(compiled[2][name]), rtol=1e-2, atol=1e-6)


class Looking(UniformSampler):
    """Says what all items score before its step."""

    reads = "scores"

    def __init__(self, world, seeds):
        super().__init__(world, seeds)
        self.seen = []

    def sample(self, batch, model):
        self.seen.append(all_scores(batch, model))
        return super().sample(batch, model)


class Doubting(Denoising):
    """The same of a denoiser."""

    reads = "scores"

    def __init__(self):
        super().__init__("bpr")
        self.seen = []

    def choose_positives(self, batch, negatives, model):
        self.seen.append(all_scores(batch, model))
        return batch, negatives


def all_scores(batch, model):
    n_items = len(model.final.items)
    return model.score(batch.users, torch.arange(n_items).expand(*batch.users.shape, n_items))


@pytest.mark.parametrize("who", ["sampler", "denoiser"])
def test_whoever_reads_scores_finds_every_item_at_the_present_step(who):
    # Of batches this small most items have no part, and the compiled step could leave those behind.
    world, found = toy_world(), []
    for kind in (PlainStep, CpuStep):
        rng = np.random.default_rng(0)
        tables = [rng.normal(0, 0.3, (n, 8)).astype(np.float32) for n in (world.n_users, world.n_items)]
        sampler = Looking(world, [3]) if who == "sampler" else UniformSampler(world, [3])
        denoiser = Doubting() if who == "denoiser" else Denoising("bpr")
        model, epochs = EmbeddingModel([tuple(tables)], CPU), Epochs([world], 4, [3])
        step = kind(model, sampler, denoiser, KeptWeights([world]), torch.tensor([0.02]), 0.01)
        for _ in range(12):
            step.take(epochs.next_batch())
        found.append(torch.stack({"sampler": sampler, "denoiser": denoiser}[who].seen))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [0, 1])
def test_a_replica_is_the_same_to_the_bit_after_another_has_left(layers):
    whole, _, _ = steps_of(CpuStep, layers=layers, size=8)
    rest, losses, _ = steps_of(CpuStep, layers=layers, size=8, keep=(17, [1]))
    assert losses[-1].shape == (1,)
    assert torch.equal(rest.users[:, 0], whole.users[:, 1])
    assert torch.equal(rest.items[:, 0], whole.items[:, 1])


class BendingSampler(StreamSampler):
    """Random items whose vectors it learns to bend; what it adds to the loss only the sampler learns from."""

    reads = "gradients"

    def __init__(self, world, seeds, size):
        super().__init__(world, seeds)
        generator = torch.Generator().manual_seed(0)
        self.values = {
            "map": torch.nn.Parameter(torch.randn(len(seeds), size, size, generator=generator)),
            "shift": torch.nn.Parameter(torch.randn(len(seeds), size, generator=generator)),
        }

    def sample(self, batch, model):
        items = self._rejected.draw_outside(batch.users, 1, self._stream).squeeze(-1)
        base = take(model.base.items, items)
        bent, added = zip(*map(bend, base, self.values["map"], self.values["shift"]), strict=True)
        return Negatives(embeddings=torch.stack(bent), base_embeddings=base, row_losses=torch.stack(added))

    def parameters(self):
        return dict(self.values)

    def keep(self, replicas):
        super().keep(replicas)
        self.restore({name: values[replicas] for name, values in self.values.items()})

    def restore(self, values):
        self.values = {name: torch.nn.Parameter(tensor.detach().clone()) for name, tensor in values.items()}


def bend(vectors, of_map, shift):
    """Of `[rows, size]` vectors: those that are negatives instead, and what is added to the loss of the rows."""
    return vectors @ of_map + shift, (vectors.detach() @ of_map - shift).square().mean(-1)


class Learning:
    """Two replicas of matrix factorisation with a sampler that learns beside them."""

    SIZE, LEARNING_RATE, L2 = 16, 0.01, (0.02, 30.0)

    def __init__(self):
        world, rng = toy_world(), np.random.default_rng(0)
        self.starts = [
            [rng.normal(0, 0.3, (n, self.SIZE)).astype(np.float32) for n in (world.n_users, world.n_items)]
            for _ in SEEDS
        ]
        self.model = EmbeddingModel(self.starts, CPU)
        self.sampler = BendingSampler(world, SEEDS, self.SIZE)
        self.epochs = Epochs([world] * len(SEEDS), 64, SEEDS)
        self.step = PlainStep(
            self.model, self.sampler, Denoising("bpr"), KeptWeights([world]), torch.tensor(self.L2), self.LEARNING_RATE
        )

    def take(self, n_steps):
        for _ in range(n_steps):
            self.step.take(self.epochs.next_batch())
        return self

    def tables(self):
        """Of the model, then of the sampler; replicas are the second axis, and the first."""
        return [*self.model.parameters()], [*self.sampler.parameters().values()]


def test_what_a_sampler_learns_is_moved_by_the_same_adam():
    """Against a loop written out in float64, which does not hold the sampler's own small."""
    learning = Learning()
    (users, items), own = ([values.detach().double() for values in tables] for tables in learning.tables())
    learning.take(20)
    epochs, sampler = Epochs([toy_world()] * 2, 64, SEEDS), UniformSampler(toy_world(), SEEDS)
    batches = [(batch := epochs.next_batch(), sampler.sample(batch, None).items) for _ in range(20)]
    for replica in range(2):
        learned = [users[:, replica], items[:, replica], *(values[replica] for values in own)]
        user_table, item_table, of_map, shift = learned = [values.clone().requires_grad_() for values in learned]
        adam = torch.optim.Adam(learned, lr=Learning.LEARNING_RATE)
        for batch, drawn in batches:
            is_live = batch.live[replica].bool()
            numbers = (values[replica][is_live] for values in (batch.users, batch.items, drawn))
            u, i, j = (table[rows] for table, rows in zip((user_table, item_table, item_table), numbers, strict=True))
            bent, added = bend(j, of_map, shift)
            loss = torch.nn.functional.softplus((u * (bent - i)).sum(1)) + added
            loss = loss + Learning.L2[replica] / 2 * sum(vectors.square().sum(1) for vectors in (u, i, j))
            adam.zero_grad()
            loss.mean().backward()
            adam.step()
        found, moved = learning.tables()
        found = [*(values[:, replica] for values in found), *(values[replica] for values in moved)]
        for one, two in zip(found, learned, strict=True):
            torch.testing.assert_close(one.double(), two, rtol=1e-3, atol=1e-5)
        for before, after in zip(own, moved, strict=True):
            assert (after[replica] - before[replica]).abs().mean() > 0.05


def test_what_a_sampler_learns_stays_with_its_replica():
    whole, rest = Learning().take(30), Learning().take(17)
    for part in (rest.epochs, rest.sampler, rest.step):
        part.keep(torch.tensor([1]))
    rest.take(13)
    for axis, ones, twos in zip((1, 0), rest.tables(), whole.tables(), strict=True):
        assert all(torch.equal(one, two[:, 1:] if axis else two[1:]) for one, two in zip(ones, twos, strict=True))


def test_what_a_sampler_learns_goes_on_from_a_state():
    whole, first, second = Learning().take(30), Learning().take(17), Learning()
    state = {name: values.clone() for name, values in first.step.state().items()}
    assert {name.partition("/")[0] for name in state} == {"users", "items", "sampler-map", "sampler-shift"}
    second.model.restore(first.model.snapshot())
    second.sampler.restore(first.sampler.values)
    second.sampler.load_state(first.sampler.state())
    second.step.load_state(state)
    second.epochs.seek(17)
    second.take(13)
    for ones, twos in zip(second.tables(), whole.tables(), strict=True):
        assert all(map(torch.equal, ones, twos))


class TestRowAdam:
    """Against torch's Adam, which moves all rows at every step."""

    LEARNING_RATE = 0.02

    @staticmethod
    def gradients(n_steps):
        """Of a `[6, 2, 3]` table: rows come at very different intervals, one never, one only at first."""
        rng = np.random.default_rng(1)
        every = np.array([1, 2, 7, 40, 10**9, 10**9])
        for step in range(n_steps):
            gradient = rng.normal(0, 1, (6, 2, 3)).astype(np.float32)
            gradient[(step % every != 0) | ((every == 10**9) & ((np.arange(6) == 4) | (step > 0)))] = 0
            yield torch.from_numpy(gradient)

    def by_torch(self, n_steps):
        table = torch.nn.Parameter(torch.linspace(-1, 1, 36).view(6, 2, 3))
        adam = torch.optim.Adam([table], lr=self.LEARNING_RATE)
        for gradient in self.gradients(n_steps):
            table.grad = gradient
            adam.step()
        return table.detach(), adam.state[table]

    def by_rows(self, n_steps, settle_at=(), resume_at=()):
        table = torch.linspace(-1, 1, 36).view(6, 2, 3).clone()
        adam = RowAdam(table, self.LEARNING_RATE)
        for step, gradient in enumerate(self.gradients(n_steps)):
            nodes = torch.nonzero(gradient.abs().sum((1, 2))).flatten()
            rows = adam.rows_of(torch.stack([nodes, nodes]))
            adam.settle(rows)
            adam.gradient += gradient
            adam.apply(rows, adam.gradient)
            assert not adam.gradient.any()
            if step in settle_at or step in resume_at:
                adam.settle(adam.everyone)
            if step in resume_at:
                adam = RowAdam(table, self.LEARNING_RATE, {name: t.clone() for name, t in adam.state().items()})
        adam.settle(adam.everyone)
        return table, adam.state()

    def test_equals_dense_adam(self):
        table, state = self.by_rows(2500)  # beyond the first thousand steps, whose sizes are planned ahead
        expected, expected_state = self.by_torch(2500)
        torch.testing.assert_close(table, expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(table[4], torch.linspace(-1, 1, 36).view(6, 2, 3)[4])  # no gradient, no move
        assert not torch.equal(table[5], torch.linspace(-1, 1, 36).view(6, 2, 3)[5])
        for name, value in state.items():
            torch.testing.assert_close(value, expected_state[name], rtol=1e-3, atol=1e-7)

    @pytest.mark.parametrize("pauses", [{"settle_at": range(0, 300, 7)}, {"resume_at": (3, 50, 51, 299)}])
    def test_when_rows_are_settled_changes_no_bit(self, pauses):
        expected, found = self.by_rows(300), self.by_rows(300, **pauses)
        assert torch.equal(found[0], expected[0])
        assert all(torch.equal(found[1][name], value) for name, value in expected[1].items())
