"""One hundred steps of matrix factorisation with BPR against a plain PyTorch loop on the same batches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._pairs import Timed, time_pairs
from pspns.data.split import Split
from pspns.models._embedding_model import EmbeddingModel
from pspns.negatives.uniform import UniformNegatives
from pspns.rng import host_stream
from pspns.shapes import World
from pspns.starts.xavier import XavierStart
from pspns.training.epochs import Epochs
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

N_STEPS = 100


def run(split: Split, world: World) -> Timed:
    settings = TrainingSettings(steps=N_STEPS)
    member = Member(world, XavierStart(), settings.l2, (0,), None)
    trainer = Trainer([member], UniformNegatives(), settings, "recall@20", lambda *_: None)

    def ours() -> Tensor:
        return trainer.train(EmbeddingModel, 64).scorer.tensors()["items"][:, 0]

    def reference() -> Tensor:
        start = XavierStart().embeddings(world, 64, host_stream(0, "start"))
        users, items = (torch.from_numpy(table).requires_grad_() for table in start)
        adam = torch.optim.Adam([users, items], lr=settings.learning_rate)
        epochs, sampler = Epochs([world], settings.batch_size, [0]), UniformNegatives().start(world, [0])
        for _ in range(N_STEPS):
            batch = epochs.next_batch()
            drawn = world.rejected.draw_outside(batch.users, 1, sampler._stream)[0, :, 0]
            u, i, j = F.embedding(batch.users[0], users), F.embedding(batch.items[0], items), F.embedding(drawn, items)
            loss = -F.logsigmoid((u * i).sum(1) - (u * j).sum(1)).mean()
            loss = loss + settings.l2 / 2 * sum(v.square().sum(1).mean() for v in (u, i, j))
            adam.zero_grad()
            loss.backward()
            adam.step()
        return items.detach()

    def check(one: Tensor, two: Tensor) -> bool:
        return bool(torch.allclose(one, two, rtol=1e-3, atol=1e-5))

    return time_pairs(
        f"{N_STEPS} steps of MF, batch 2048, dim 64",
        "item vectors to 1e-3",
        "plain PyTorch loop",
        ours,
        reference,
        check,
    )
