"""A step on the GPU with its gradient written out, against the one that autograd takes.

With little beside torch:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/training/test_gpu_step.py`
"""

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.denoising._denoising import Denoising
from pspns.item_sets import ItemSets, RejectedItems
from pspns.memory import MemoryBudget
from pspns.models._embedding_model import EmbeddingModel
from pspns.models._propagation import best_operator
from pspns.models.lightgcn import GraphModel
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import PositiveBatch, SharedWorld
from pspns.training.kept_weights import KeptWeights
from pspns.training.plain_step import PlainStep

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")
N_REPLICAS, N_ROWS, SIZE = 3, 256, 16
WORLD = toy_world()


class Training:
    """A model, a step of the given kind, and batches that are the same for every kind."""

    def __init__(self, make_step, layers=2, loss="bpr"):
        rng = np.random.default_rng(0)
        shape = WORLD.n_users, WORLD.n_items
        starts = [[rng.normal(size=(n, SIZE)).astype(np.float32) for n in shape] for _ in range(N_REPLICAS)]
        edges = WORLD.train.matrix(*shape)
        self.model = (
            GraphModel(starts, GPU, best_operator(edges, layers, MemoryBudget(GPU)))
            if layers
            else EmbeddingModel(starts, GPU)
        )
        rejected = ItemSets(*shape, WORLD.train, device=GPU)
        world = SharedWorld(
            *shape,
            WORLD.train,
            0,
            MemoryBudget(GPU),
            rejected=RejectedItems([rejected] * N_REPLICAS),
            embedding_size=SIZE,
        )
        self.sampler = UniformNegatives().start(world, range(N_REPLICAS))
        self.l2 = torch.tensor([0.0, 0.1, 1.0], device=GPU)
        self.step = make_step(self.model, self.sampler, Denoising(loss), KeptWeights([]), self.l2, 0.01)
        self.rng = np.random.default_rng(1)

    def take(self, n_steps, n_replicas=N_REPLICAS):
        return [self.step.take(self.batch(n_replicas)) for _ in range(n_steps)]

    def batch(self, n_replicas):
        pair_ids = self.rng.integers(len(WORLD.train), size=(N_REPLICAS, N_ROWS))[:n_replicas]
        live = np.ones(pair_ids.shape, dtype=np.float32)
        live[0, 200:] = 0
        weights = self.rng.random((N_REPLICAS, N_ROWS), dtype=np.float32)[:n_replicas]
        parts = WORLD.train.users[pair_ids], WORLD.train.items[pair_ids], pair_ids, weights, live
        epochs = torch.zeros(n_replicas, dtype=torch.int64, device=GPU)
        return PositiveBatch(*(torch.from_numpy(part).to(GPU) for part in parts), epochs)

    def tables(self):
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def gpu_step(*arguments):
    from pspns.training.gpu_step import GpuStep  # needs Triton

    return GpuStep(*arguments)


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("loss", ["bpr", "bce"])
def test_equals_the_plain_step(layers, loss):
    plain, ours = (Training(kind, layers, loss) for kind in (PlainStep, gpu_step))
    start = ours.tables()
    for one, two in zip(plain.take(20), ours.take(20), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    for begun, one, two in zip(start, plain.tables(), ours.tables(), strict=True):
        assert (one - begun).abs().max() > 0.05
        assert (one - two).norm() / (one - begun).norm() < 1e-4


def test_same_bits_every_time():
    one, two = (Training(gpu_step) for _ in range(2))
    one.take(20), two.take(20)
    assert all(map(torch.equal, one.tables(), two.tables()))


def test_goes_on_from_its_state():
    whole, half = (Training(gpu_step) for _ in range(2))
    whole.take(10)
    half.take(5)
    half.step.load_state({name: tensor.clone() for name, tensor in half.step.state().items()})
    half.take(5)
    assert all(map(torch.equal, whole.tables(), half.tables()))


def test_replicas_that_stay_go_on_as_before():
    plain, ours = (Training(kind) for kind in (PlainStep, gpu_step))
    for training in (plain, ours):
        training.take(5)
        for part in (training.sampler, training.sampler._rejected, training.step):
            part.keep(torch.tensor([0, 1], device=GPU))
        training.take(5, n_replicas=2)
    for one, two in zip(plain.tables(), ours.tables(), strict=True):
        assert one.shape[1] == 2
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
