"""Training on the CPU, matrix factorisation and LightGCN, against plain PyTorch loops on the same batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from benchmarks._pairs import Timed, time_pairs
from pspns.csr import degree_scales, to_torch
from pspns.data.split import Split
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives
from pspns.rng import host_stream
from pspns.shapes import World
from pspns.starts.xavier import XavierStart
from pspns.training.epochs import Epochs
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

Final = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def run(split: Split, world: World, mf_steps: int | None = None, lightgcn_steps: int = 60) -> list[Timed]:
    """`mf_steps` unset: those of one epoch."""
    mf_steps = mf_steps or -(-len(world.pairs) // 2048)
    return [
        _against_plain_loop(world, MatrixFactorisation(), mf_steps, "MF", "plain PyTorch, fused Adam", 3.0, _unchanged),
        _against_plain_loop(
            world,
            LightGcn(),
            lightgcn_steps,
            "LightGCN",
            "plain PyTorch, CSR products, fused Adam",
            1.3,
            _mean_of_layers(world),
        ),
    ]


def _against_plain_loop(
    world: World,
    model: MatrixFactorisation | LightGcn,
    n_steps: int,
    name: str,
    reference: str,
    target: float,
    final: Final,
) -> Timed:
    settings = TrainingSettings(steps=n_steps)
    member = Member(world, XavierStart(), settings.l2, (0,), None)
    trainer = Trainer([member], UniformNegatives(), settings, "recall@20", lambda *_: None)

    def ours() -> Tensor:
        found = model.fit(world, trainer).scorer.tensors()
        return torch.cat((found["users"], found["items"]))[:, 0]

    def plain() -> Tensor:
        start = XavierStart().embeddings(world, model.embedding_size, host_stream(0, "start"))
        users, items = (torch.from_numpy(table).requires_grad_() for table in start)
        adam = torch.optim.Adam([users, items], lr=settings.learning_rate, fused=True)
        epochs, sampler = Epochs([world], settings.batch_size, [0]), UniformNegatives().start(world, [0])
        for _ in range(n_steps):
            batch = epochs.next_batch()
            drawn = world.rejected._draw_by_torch(batch.users, 1, sampler._stream)[0, :, 0]
            numbers, n_live = (batch.users[0], batch.items[0], drawn), int(batch.live.sum())
            if n_live < len(drawn):  # the last batch of an epoch; its dead rows come last
                numbers = tuple(column[:n_live] for column in numbers)
            u, i, j = base = _vectors(users, items, *numbers)
            if final is not _unchanged:
                u, i, j = _vectors(*final(users, items), *numbers)
            loss = -F.logsigmoid((u * i).sum(1) - (u * j).sum(1)).mean()
            squares = sum(vectors.square().sum(1).mean() for vectors in base)
            adam.zero_grad()
            (loss + settings.l2 / 2 * squares).backward()
            adam.step()
        return torch.cat(final(users, items)).detach()

    return time_pairs(
        f"{n_steps} steps of {name}, batch {settings.batch_size}, size {model.embedding_size}",
        "all vectors to 1e-3",
        reference,
        ours,
        plain,
        lambda one, two: torch.allclose(one, two, rtol=1e-3, atol=1e-4),
        target=target,
    )


def _vectors(users: Tensor, items: Tensor, u: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return F.embedding(u, users), F.embedding(i, items), F.embedding(j, items)


def _unchanged(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    return users, items


def _mean_of_layers(world: World, layers: int = 3) -> Final:
    """As most write it: one sparse matrix over all nodes, the layers kept and averaged."""
    matrix = world.train.matrix(world.n_users, world.n_items)
    user_scale, item_scale = degree_scales(matrix)
    scaled = sparse.diags_array(user_scale) @ matrix @ sparse.diags_array(item_scale)
    graph = to_torch(sparse.csr_array(sparse.block_array([[None, scaled], [scaled.T, None]])), "cpu")

    class Product(torch.autograd.Function):
        """The graph is symmetric: torch, which does not know that, would transpose it at every step."""

        @staticmethod
        def forward(ctx: Any, table: Tensor) -> Tensor:
            return graph @ table

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return graph @ gradient

    def final(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        tables = [torch.cat((users, items))]
        for _ in range(layers):
            tables.append(Product.apply(tables[-1]))
        mean = torch.stack(tables).mean(0)
        return mean[: world.n_users], mean[world.n_users :]

    return final
