"""Scores of a few items for each row of a batch, to choose among them: no gradient passes through a choice."""

from __future__ import annotations

import torch
from torch import Tensor

from pspns import gpu_kernels


@torch.no_grad()
def candidate_scores(user_table: Tensor, item_table: Tensor, users: Tensor, items: Tensor) -> Tensor:
    """`[replicas, rows]` users by `[replicas, rows, n]` items, from `[nodes, replicas, size]` tables of one replica
    each: `[replicas, rows, n]`."""
    if not users.is_cuda:
        from pspns.kernels.candidates import score_candidates  # waits for numba, which a GPU does not need

        found = torch.empty(items.shape)
        given = (user_table, item_table, users, items, found)
        score_candidates(*(tensor.detach().contiguous().numpy() for tensor in given))
        return found
    if gpu_kernels.are_there():
        from pspns.gpu_kernels.candidates import score_candidates as score_on_gpu

        return score_on_gpu(user_table, item_table, users, items)
    own = torch.arange(len(users), device=users.device)
    vectors = user_table[users, own[:, None]]  # [replicas, rows, size]
    return (vectors[..., None, :] * item_table[items, own[:, None, None]]).sum(-1)
