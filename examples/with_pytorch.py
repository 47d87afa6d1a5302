"""Built positives in a plain PyTorch loop: matrix factorisation, BPR loss, Adam.

The data set yields each pair once for each copy, with the weight of its visit: pair weight times user weight.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from scipy import sparse
from side_by_side import Lists, compare, top_unobserved
from torch import nn
from torch.utils.data import DataLoader

from pspns.built_positives import BuiltPositives

STEPS = 300


def main() -> None:
    compare(__doc__, {"MF": factorise})


def factorise(positives: BuiltPositives, seen: sparse.csr_matrix) -> Lists:
    torch.manual_seed(0)
    n_items = len(positives.item_ids)
    user_table, item_table = nn.Embedding(len(positives.user_ids), 32), nn.Embedding(n_items, 32)
    for table in (user_table, item_table):
        nn.init.xavier_uniform_(table.weight)
    optimiser = torch.optim.Adam([user_table.weight, item_table.weight], lr=0.01)

    visits = DataLoader(positives.dataset(), batch_size=512, shuffle=True)
    # Copies lengthen an epoch: with steps for a measure, both sets of positives get about the same training.
    for _ in range(max(1, round(STEPS / len(visits)))):
        n_rows = 0
        for users, items, weights in visits:
            # Any item, the user's own included: a simple stand-in for a sampler that rejects them.
            negatives = torch.randint(n_items, items.shape)
            margins = (user_table(users) * (item_table(items) - item_table(negatives))).sum(dim=-1)
            loss = -(weights * F.logsigmoid(margins)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            n_rows += len(users)
    print(f"the last epoch visited {n_rows} rows")

    with torch.no_grad():
        scores = user_table.weight[: seen.shape[0]] @ item_table.weight.T
    return top_unobserved(scores.numpy(), seen)


if __name__ == "__main__":
    main()
