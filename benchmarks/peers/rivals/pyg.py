"""PyTorch Geometric: its LightGCN in a training loop as its documentation has it."""

from __future__ import annotations

from functools import partial

import torch
from torch_geometric.nn import LightGCN
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_torch_csr_tensor

from benchmarks.peers._given import BATCH, LAYERS, SIZE, Given
from benchmarks.peers._turns import Task, serve


def lightgcn(given: Given, *, as_csr: bool) -> Task:
    torch.manual_seed(0)
    pairs = torch.from_numpy(given.train.T.copy())
    pairs[1] += given.n_users  # users and items are nodes of one graph
    graph = edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    n_nodes = given.n_users + given.n_items
    if as_csr:
        # Normalised once: a sparse matrix that each step would normalise anew costs more than it saves.
        graph = to_torch_csr_tensor(*gcn_norm(edges, num_nodes=n_nodes, add_self_loops=False), size=(n_nodes, n_nodes))
    model = LightGCN(n_nodes, SIZE, LAYERS, normalize=not as_csr)
    with torch.no_grad():
        model.embedding.weight[: given.n_users] = torch.from_numpy(given.user_vectors)
        model.embedding.weight[given.n_users :] = torch.from_numpy(given.item_vectors)
        propagated = model.get_embedding(graph).numpy()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def take_steps() -> None:
        for _ in range(given.steps):
            positive = pairs[:, torch.randint(pairs.shape[1], (BATCH,))]
            items = torch.randint(given.n_users, n_nodes, (BATCH,))
            negative = torch.stack([positive[0], items])
            ranks = model(graph, torch.cat([positive, negative], dim=1))
            nodes = torch.cat([positive.flatten(), items]).unique()
            optimiser.zero_grad()
            model.recommendation_loss(*ranks.chunk(2), node_id=nodes).backward()
            optimiser.step()

    answer = {"users": propagated[: given.n_users], "items": propagated[given.n_users :]}
    return Task(take_steps, lambda _: answer, given.steps)


if __name__ == "__main__":
    serve(
        "torch-geometric",
        {
            "lightgcn-csr": partial(lightgcn, as_csr=True),
            "lightgcn-edge-index": partial(lightgcn, as_csr=False),
        },
    )
