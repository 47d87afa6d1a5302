"""The written-out step is the plain one: same batches, same negatives, tables equal to rounding."""

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.components import find_part
from pspns.models._embedding_model import EmbeddingModel
from pspns.models._graph import edge_weights
from pspns.models._propagation import SparseLayers
from pspns.models.lightgcn import GraphModel
from pspns.negatives._stream_sampler import StreamSampler
from pspns.negatives.uniform import UniformSampler
from pspns.shapes import Negatives
from pspns.training.cpu_step import CpuStep
from pspns.training.epochs import Epochs
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
    step = kind(model, sampler, find_part("losses", loss), torch.tensor([0.02, 0.3]), 0.01)
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


@pytest.mark.parametrize("layers", [0, 1])
def test_a_replica_is_the_same_to_the_bit_after_another_has_left(layers):
    whole, _, _ = steps_of(CpuStep, layers=layers, size=8)
    rest, losses, _ = steps_of(CpuStep, layers=layers, size=8, keep=(17, [1]))
    assert losses[-1].shape == (1,)
    assert torch.equal(rest.users[:, 0], whole.users[:, 1])
    assert torch.equal(rest.items[:, 0], whole.items[:, 1])


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
