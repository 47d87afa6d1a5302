"""LightGCN: what is passed along, what is trained, and what the start promises.

What is below the line needs a GPU; such a machine may have little beside torch:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/models/test_lightgcn.py`
"""

import dataclasses

import numpy as np
import pytest
import torch
from toy import CPU, make_world, random_pairs, toy_world

from pspns.errors import SettingsError
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.models._embedding_model import EmbeddingModel
from pspns.models._graph import edge_weights
from pspns.models._propagation import SparseLayers
from pspns.models.lightgcn import GraphModel, ItemsOfNewUsers, LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives
from pspns.rng import host_stream
from pspns.shapes import PositivePairs
from pspns.starts.normal import NormalStart
from pspns.starts.spectral import SpectralStart
from pspns.starts.xavier import XavierStart
from pspns.training.epochs import Epochs
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIZE = 8


def injected_world():
    """Positives that lose some train pairs, gain others, and are copied."""
    rng = np.random.default_rng(0)
    train, positives = random_pairs(40, 30, 300, rng), random_pairs(40, 30, 200, rng)
    n_pairs = len(positives)
    pairs = PositivePairs(
        users=positives.users,
        items=positives.items,
        copies=rng.integers(1, 5, n_pairs).astype(np.uint8),
        pair_weights=np.ones(n_pairs, np.float32),
        is_observed=np.zeros(n_pairs, bool),
        is_global=np.ones(n_pairs, bool),
    )
    return make_world(train, 40, 30, pairs=pairs)


def dense_weights(world, graph: str) -> np.ndarray:
    weights = np.zeros((world.n_users, world.n_items))
    if graph == "train":
        weights[world.train.users, world.train.items] = 1
    else:
        weights[world.pairs.users, world.pairs.items] = world.pairs.copies if graph == "merged-weighted" else 1
    return weights


def dense_operator(weights: np.ndarray, layers: int) -> torch.Tensor:
    """(1 / (L+1)) Σ_l Ã^l over users and items together, where every node has edges."""
    adjacency = np.block([[np.zeros((len(weights),) * 2), weights], [weights.T, np.zeros((weights.shape[1],) * 2)]])
    normalised = adjacency / np.sqrt(np.outer(adjacency.sum(1), adjacency.sum(1)))
    powers = [np.linalg.matrix_power(normalised, power) for power in range(layers + 1)]
    return torch.from_numpy(sum(powers) / (layers + 1))


def starts_of(world, *seeds: int):
    return [NormalStart().embeddings(world, SIZE, host_stream(seed, "start")) for seed in seeds]


def members_trainer(members, *, negatives=None, **settings) -> Trainer:
    chosen = TrainingSettings(**{"batch_size": 64, "steps": 20, **settings})
    return Trainer(members, negatives or UniformNegatives(), chosen, "recall@20", lambda *_: None)


def fitted(model, world, seeds, *, start=None, **settings):
    """What a model's training gives."""
    l2 = settings.pop("l2", 1e-4)
    return model.fit(world, members_trainer([Member(world, start or XavierStart(), l2, seeds, None)], **settings))


def distance(found, expected) -> float:
    """Of two scorers' tables, beside the length of the second's."""
    found, expected = (torch.cat([scorer.users, scorer.items]).double().cpu() for scorer in (found, expected))
    return float((found - expected).norm() / expected.norm())


class ModelOnly:
    """A trainer that makes the model and leaves it as it is."""

    settings = TrainingSettings()

    def __init__(self, starts):
        self._starts = starts

    def train(self, make_model, size):
        return make_model(self._starts, CPU)


@pytest.mark.parametrize("graph", ["train", "merged", "merged-weighted"])
@pytest.mark.parametrize("layers", range(5))
def test_scores_are_made_of_the_mean_of_all_layers_over_the_chosen_graph(graph, layers):
    world = injected_world()
    starts = starts_of(world, 0, 1, 2)
    model = LightGcn(embedding_size=SIZE, layers=layers, graph=graph).fit(world, ModelOnly(starts))
    operator = dense_operator(dense_weights(world, graph), layers)
    scorer, base = model.scorer(), model.propagate().base
    for replica, (users, items) in enumerate(starts):
        expected = operator @ torch.from_numpy(np.concatenate((users, items))).double()
        found = torch.cat((scorer.users[:, replica], scorer.items[:, replica])).double()
        assert (found - expected).norm() < 2e-7 * expected.norm()
        scores = scorer.scores(torch.arange(40), replica).double()
        torch.testing.assert_close(scores, expected[:40] @ expected[40:].T, rtol=1e-5, atol=1e-6)
        # What L2 holds small is layer 0.
        assert np.array_equal(base.users[:, replica].detach().numpy(), users)
        assert np.array_equal(base.items[:, replica].detach().numpy(), items)


def dense_layers_of(world, graph: str, layers: int, tables: torch.Tensor) -> list[torch.Tensor]:
    """Ã^l on `[nodes, replicas, size]` tables, l from 0 on, users first, in float64."""
    # Of operators that are means of powers, the differences are the powers.
    totals = [(layer + 1) * dense_operator(dense_weights(world, graph), layer) for layer in range(layers + 1)]
    powers = [after - before for before, after in zip([0 * totals[0], *totals], totals, strict=False)]
    return [torch.einsum("nm,mrs->nrs", power, tables.double()) for power in powers]


@pytest.mark.parametrize("graph", ["train", "merged-weighted"])
@pytest.mark.parametrize("layers", range(4))
def test_layers_by_themselves_and_what_is_made_of_their_mean(graph, layers):
    world = injected_world()
    model = LightGcn(embedding_size=SIZE, layers=layers, graph=graph).fit(world, ModelOnly(starts_of(world, 0, 1)))
    view, together = model.propagate_layers(), model.propagate()
    expected = dense_layers_of(world, graph, layers, torch.cat((model.users, model.items)).detach())
    found = [torch.cat((layer.users, layer.items)).detach().double() for layer in view.layers]
    assert len(found) == layers + 1
    for one, two in zip(found, expected, strict=True):
        assert (one - two).norm() < 1e-6 * two.norm()
    assert view.base.users is view.layers[0].users is model.users
    assert view.base.items is view.layers[0].items is model.items
    final = torch.cat((view.final.users, view.final.items)).double()
    torch.testing.assert_close(final, sum(expected) / (layers + 1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        final, torch.cat((together.final.users, together.final.items)).double(), rtol=0, atol=1e-6
    )


def test_matrix_factorisation_is_one_layer():
    model = EmbeddingModel(starts_of(injected_world(), 0), CPU)
    view = model.propagate_layers()
    assert view.base is view.final
    assert list(view.layers) == [view.base]
    assert view.base.users is model.users
    assert view.base.items is model.items


@pytest.mark.parametrize("layers", range(4))
def test_the_gradient_passes_back_through_every_layer(layers):
    world = injected_world()
    model = LightGcn(embedding_size=SIZE, layers=layers).fit(world, ModelOnly(starts_of(world, 0, 1)))
    generator = torch.Generator().manual_seed(0)
    coefficients = [torch.randn(70, 2, SIZE, generator=generator) for _ in range(layers + 2)]

    def value(*read):
        """Not linear, and of each layer as well as of their mean."""
        return sum((table.tanh() * factors).sum() for table, factors in zip(read, coefficients, strict=True))

    view = model.propagate_layers()
    value(*(torch.cat((tables.users, tables.items)) for tables in (*view.layers, view.final))).backward()
    table = torch.cat((model.users, model.items)).detach().double().requires_grad_()
    expected = dense_layers_of(world, "train", layers, table)
    value(*expected, sum(expected) / (layers + 1)).backward()
    found = torch.cat((model.users.grad, model.items.grad)).double()
    assert (found - table.grad).norm() < 1e-6 * table.grad.norm()


def test_positives_do_not_change_the_graph_unless_asked():
    world = injected_world()
    plain = make_world(world.train, 40, 30)
    starts = starts_of(world, 0)
    for graph, is_same in (("train", True), ("merged", False), ("merged-weighted", False)):
        part = LightGcn(embedding_size=SIZE, graph=graph)
        with_injected, without = (part.fit(one, ModelOnly(starts)).scorer() for one in (world, plain))
        assert torch.equal(with_injected.users, without.users) == is_same


@pytest.mark.parametrize("graph", ["train", "merged-weighted"])
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_passes_messages_as_pytorch_geometric_does(layers, graph):
    """The same vectors in, the same out; its `alpha` is 1 / (layers + 1) for every layer unless given."""
    models = pytest.importorskip("torch_geometric.nn.models")
    world = injected_world()
    users, items = starts_of(world, 0)[0]
    theirs = models.LightGCN(num_nodes=70, embedding_dim=SIZE, num_layers=layers)
    with torch.no_grad():
        theirs.embedding.weight.copy_(torch.from_numpy(np.concatenate((users, items))))
    weights = torch.from_numpy(dense_weights(world, graph)).float()
    edges = weights.nonzero().T + torch.tensor([[0], [40]])
    both_ways = torch.cat((edges, edges.flip(0)), dim=1)
    expected = theirs.get_embedding(both_ways, weights[weights > 0].repeat(2)).detach()
    operator = SparseLayers(edge_weights(world, graph), layers, CPU)
    ours = GraphModel([(users, items)], CPU, operator).scorer()
    torch.testing.assert_close(ours.users[:, 0], expected[:40], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(ours.items[:, 0], expected[40:], rtol=1e-5, atol=1e-7)


def test_training_equals_a_plain_loop_over_the_dense_form():
    """One replica, torch's own Adam in float64, the batches and negatives of the same streams."""
    world = toy_world()
    settings = {"steps": 15, "learning_rate": 0.01}
    found = fitted(LightGcn(embedding_size=SIZE), world, [3], l2=0.02, **settings).scorer

    operator = dense_operator(dense_weights(world, "train"), 3)
    start = np.concatenate(XavierStart().embeddings(world, SIZE, host_stream(3, "start")))
    table = torch.from_numpy(start).double().requires_grad_()
    adam = torch.optim.Adam([table], lr=0.01)
    epochs, sampler = Epochs([world], 64, [3]), UniformNegatives().start(world, [3])
    for _ in range(15):
        batch = epochs.next_batch()
        live = batch.live[0].bool()
        drawn = sampler.sample(batch, None).items[0]
        rows = [batch.users[0][live], 40 + batch.items[0][live], 40 + drawn[live]]
        final = operator @ table
        u, i, j = (final[row] for row in rows)
        loss = -torch.nn.functional.logsigmoid((u * (i - j)).sum(1)).mean()
        loss = loss + 0.02 * sum(table[row].square().sum() for row in rows) / (2 * live.sum())
        adam.zero_grad()
        loss.backward()
        adam.step()
    expected = (operator @ table).detach()
    assert (torch.cat((found.users, found.items))[:, 0] - expected).norm() < 1e-4 * expected.norm()


def test_training_separates_positives_from_the_rest():
    world = toy_world()
    scorer = fitted(LightGcn(embedding_size=SIZE), world, [0], steps=400, learning_rate=0.02).scorer
    scores = scorer.scores(torch.arange(40), 0)
    owned = torch.from_numpy(world.train.matrix(40, 30).toarray()) > 0
    assert scores[owned].mean() > scores[~owned].mean() + 1


def test_without_layers_it_is_matrix_factorisation():
    """To the bit without L2; with it to rounding, because the two terms' gradients are then summed in another order."""
    world = injected_world()
    for l2, is_same in ((0.0, True), (0.01, False)):
        graph, plain = (
            fitted(part, world, [0, 4], steps=60, l2=l2).scorer
            for part in (LightGcn(embedding_size=SIZE, layers=0), MatrixFactorisation(embedding_size=SIZE))
        )
        assert distance(graph, plain) < 1e-4
        if is_same:
            assert torch.equal(graph.users, plain.users)
            assert torch.equal(graph.items, plain.items)


@pytest.mark.parametrize("size", [8, 16, 64])
def test_a_replica_comes_out_the_same_alone_and_in_company_to_the_bit(size):
    world, part = injected_world(), LightGcn(embedding_size=size)
    alone, together = (fitted(part, world, seeds, steps=40).scorer for seeds in ([5], [0, 5, 2]))
    assert torch.equal(alone.users[:, 0], together.users[:, 1])
    assert torch.equal(alone.items[:, 0], together.items[:, 1])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_same_seed_same_bits_whatever_the_threads(n_threads):
    # Large enough that torch does split the work: 3,000 users and items, 64 numbers each.
    world = toy_world(n_users=1500, n_items=1500, n_pairs=20_000)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        found = fitted(LightGcn(), world, [0, 1], steps=5, batch_size=2048).scorer
        torch.set_num_threads(1)
        again = fitted(LightGcn(), world, [0, 1], steps=5, batch_size=2048).scorer
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.users, again.users)
    assert torch.equal(found.items, again.items)


@pytest.mark.parametrize(
    "part",
    [
        MatrixFactorisation(embedding_size=SIZE),
        LightGcn(embedding_size=SIZE, layers=1),
        LightGcn(embedding_size=SIZE, layers=3, graph="merged-weighted"),
    ],
)
def test_untrained_scores_have_the_spread_that_the_start_promises(part):
    """Of what scores are made of, for every member its own; a start that promises nothing is left as it is."""
    world = injected_world()
    starts = [SpectralStart(score_spread=0.3), XavierStart(), SpectralStart(score_spread=4.0)]
    # One step, too short to move anything.
    trainer = members_trainer([Member(world, start, 0.0, [7], None) for start in starts], steps=1, learning_rate=1e-12)
    scorer = part.fit(world, trainer).scorer
    operator = dense_operator(dense_weights(world, getattr(part, "graph", "train")), getattr(part, "layers", 0))
    for replica, start in enumerate(starts):
        tables = np.concatenate(start.embeddings(world, SIZE, host_stream(7, "start")))
        final = (operator @ torch.from_numpy(tables).double()).numpy()
        expected = final[:40] @ final[40:].T
        found = scorer.scores(torch.arange(40), replica).double().numpy()
        if isinstance(start, SpectralStart):
            assert found.std() == pytest.approx(start.score_spread, rel=1e-5)
            # One factor for both tables: nothing but the size has changed.
            expected *= start.score_spread / expected.std()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("embedding_size", 0, "embedding_size must be at least 1, got 0"),
        ("layers", -1, "layers must be at least 0, got -1"),
        ("graph", "valid", "graph must be one of train, merged, merged-weighted, got 'valid'"),
    ],
)
def test_impossible_settings_name_themselves(field, value, reason):
    with pytest.raises(SettingsError, match=reason):
        LightGcn(**{field: value})


# From here on, what runs on a GPU alone.


def moved(world):
    """The same world on the GPU."""
    rejected = ItemSets(world.n_users, world.n_items, world.train, world.pairs.as_pairs(), device="cuda")
    return dataclasses.replace(world, memory=MemoryBudget(torch.device("cuda")), rejected=rejected)


@on_gpu
@pytest.mark.parametrize("graph", ["train", "merged-weighted"])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_the_same_seed_gives_the_same_bits_twice_on_the_gpu(graph, precision):
    world, part = moved(injected_world()), LightGcn(embedding_size=SIZE, graph=graph)
    one, two = (fitted(part, world, [0, 1], steps=40, precision=precision).scorer for _ in range(2))
    assert torch.equal(one.users, two.users)
    assert torch.equal(one.items, two.items)


@on_gpu
@pytest.mark.parametrize("graph", ["train", "merged", "merged-weighted"])
def test_the_gpu_comes_close_to_the_cpu(graph):
    world, part = injected_world(), LightGcn(embedding_size=SIZE, graph=graph)
    cpu, gpu = (fitted(part, one, [0, 1], start=NormalStart()).scorer for one in (world, moved(world)))
    assert distance(gpu, cpu) < 1e-4


@on_gpu
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_mixed_precision_comes_close_to_float32(share):
    # A thin graph is followed edge by edge, in bfloat16; a dense one is one matrix, in TF32.
    n_users, n_items = 500, 400
    pairs = random_pairs(n_users, n_items, int(share * n_users * n_items), np.random.default_rng(0))
    world = moved(make_world(pairs, n_users, n_items))
    plain, mixed = (
        fitted(LightGcn(), world, [0, 1], start=NormalStart(), precision=precision).scorer
        for precision in ("float32", "mixed")
    )
    assert 0 < distance(mixed, plain) < 5e-3


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_someone_new_is_folded_in_as_the_graph_would_have_them(layers):
    """A user without a vector of their own joins the graph; the other nodes' messages are left as they were."""
    world = toy_world()
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(world.n_users, 4)), rng.normal(size=(world.n_items, 4))
    edges = edge_weights(world, "train")
    fold = ItemsOfNewUsers(edges, layers, world.memory)
    starts = [(users.astype(np.float32), items.astype(np.float32))]
    operator = SparseLayers(edges, layers, torch.device("cpu"))
    scorer = GraphModel(starts, torch.device("cpu"), operator, fold=fold).scorer()

    dense = edges.toarray().astype(np.float64)
    normalised = dense / np.sqrt(np.outer(dense.sum(1), dense.sum(0)))
    owned = np.array([2, 5, 11])
    to_newcomer = 1 / np.sqrt(len(owned) * dense.sum(0)[owned])
    of_users, of_items = users, items
    newcomer, mean_items = np.zeros(4), items.copy()
    for _ in range(layers):
        newcomer += to_newcomer @ of_items[owned]
        of_users, of_items = normalised @ of_items, normalised.T @ of_users
        mean_items += of_items
    expected = mean_items @ newcomer
    found = scorer.fold_in(torch.from_numpy(owned), 0).numpy()
    assert np.corrcoef(found, expected)[0, 1] > 1 - 1e-9  # the same but for a factor
    assert found @ expected > 0
