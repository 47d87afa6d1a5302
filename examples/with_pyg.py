"""Built positives in PyTorch Geometric: its LightGCN, on the graph of the built pairs.

An edge is there once however many copies its pair has, and messages pass along injected pairs too. The copies come in
through the loss, which visits a pair once for each; it is written out because `recommendation_loss` takes no weights.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from scipy import sparse
from side_by_side import Lists, compare, top_unobserved
from torch.utils.data import DataLoader
from torch_geometric.nn import LightGCN

from pspns.built_positives import BuiltPositives

STEPS = 60


def main() -> None:
    compare(__doc__, {"LightGCN": propagate})


def propagate(positives: BuiltPositives, seen: sparse.csr_matrix) -> Lists:
    torch.manual_seed(0)
    n_users, n_items = len(positives.user_ids), len(positives.item_ids)
    edges = positives.edge_index()
    model = LightGCN(n_users + n_items, embedding_dim=32, num_layers=2)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)

    visits = DataLoader(positives.dataset(), batch_size=1024, shuffle=True)
    # Copies lengthen an epoch: with steps for a measure, both sets of positives get about the same training.
    for _ in range(max(1, round(STEPS / len(visits)))):
        n_rows = 0
        for users, items, weights in visits:
            # Any item, the user's own included: a simple stand-in for a sampler that rejects them.
            negatives = torch.randint(n_items, items.shape)
            # Item nodes are numbered after the users.
            wanted = torch.stack([users.repeat(2), n_users + torch.cat([items, negatives])])
            liked, unliked = model(edges, wanted).chunk(2)
            loss = -(weights * F.logsigmoid(liked - unliked)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            n_rows += len(users)
    print(f"the last epoch visited {n_rows} rows over {edges.shape[1]} edges")

    with torch.no_grad():
        nodes = model.get_embedding(edges)
    scores = nodes[: seen.shape[0]] @ nodes[n_users:].T
    return top_unobserved(scores.numpy(), seen)


if __name__ == "__main__":
    main()
