"""BOD: its losses against loops over rows, the step of its network against differences of a slow disagreement."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from denoiser_worlds import MODELS, denoised, pair_batch, same_bits, train, world_of
from toy import make_world, toy_world

from pspns.denoising import bod
from pspns.denoising.bod import BilevelWeights, WeightGenerator, disagreement, uniformity
from pspns.errors import SettingsError
from pspns.item_sets import RejectedItems
from pspns.models._embedding_model import EmbeddingModel
from pspns.models._propagation import SparseLayers
from pspns.models.lightgcn import GraphModel
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.repeated import RepeatedPositives
from pspns.rng import ReplicaStream
from pspns.shapes import Negatives, Vectors, take
from pspns.training.epochs import Epochs
from pspns.training.kept_weights import KeptWeights
from pspns.training.objective import objective
from pspns.training.plain_step import PlainStep

CPU = torch.device("cpu")
SIZE, N_ROWS = 5, 16
SEEDS = (3, 8)
OWNED = np.random.default_rng(0).random((8, 9)) < 0.4
OWNED[:, 8] = False  # so that everybody leaves something out
OWNED[:, 0] = True
WORLD = world_of(OWNED)
TWICE = make_world(WORLD.train, 8, 9, pairs=RepeatedPositives(copies=2).build(WORLD))  # whose epochs are longer


def start(seeds=SEEDS, worlds=None, batch_size=24, **settings):
    worlds = worlds or [WORLD] * len(seeds)
    return BilevelWeights(**settings).start(denoised(*worlds, batch_size=batch_size, size=SIZE), seeds)


def model_of(kind="mf", n_replicas=2, seed=0, spread=0.5):
    """Plain vectors, or those passed along the pairs twice."""
    rng = np.random.default_rng(seed)
    starts = [tuple(np.float32(spread * rng.standard_normal((n, SIZE))) for n in (8, 9)) for _ in range(n_replicas)]
    if kind == "mf":
        return EmbeddingModel(starts, CPU)
    return GraphModel(starts, CPU, SparseLayers(WORLD.train.matrix(8, 9), 2, CPU))


def rows(number=0, n_replicas=2, live=1.0):
    """Random pairs and their negatives."""
    rng = np.random.default_rng(number)
    batch = pair_batch(WORLD, rng.integers(len(WORLD.pairs), size=(n_replicas, N_ROWS)), live=live)
    return batch, Negatives(torch.from_numpy(rng.integers(9, size=(n_replicas, N_ROWS))))


def values_of(denoiser, model, batch, negatives):
    """What the step makes small, `[replicas]`, without L2."""
    return objective(batch, negatives, model.propagate(), denoiser, 0.0)[0]


# The network


def network_tables(denoiser):
    return {
        name: denoiser.state()[f"{name}/table"]
        for name in (f"{kind}{n}" for kind in ("weights", "bias") for n in (1, 2, 3))
    }


def network_by_hand(tables, replica, user, item):
    """One weight, by numpy, in double precision."""
    w = {name: table[replica].double().numpy() for name, table in tables.items()}
    hidden = np.maximum(w["weights1"] @ np.concatenate([user, item]) + w["bias1"], 0)
    hidden = w["weights2"] @ hidden + w["bias2"]
    return 1 / (1 + np.exp(-(w["weights3"] @ hidden + w["bias3"])[0]))


def final_vectors(model):
    view = model.propagate()
    return view.final.users.detach().double().numpy(), view.final.items.detach().double().numpy()


def weights_by_hand(denoiser, model, batch, negatives):
    """(of positives, of negatives), `[replicas, rows]` each."""
    users, items = final_vectors(model)
    tables = network_tables(denoiser)
    return [
        np.array([
            [network_by_hand(tables, r, users[u, r], items[i, r]) for u, i in zip(*row, strict=True)]
            for r, row in enumerate(zip(batch.users.tolist(), numbers.tolist(), strict=True))
        ])
        for numbers in (batch.items, negatives.items)
    ]  # fmt: skip


def test_a_weight_is_the_networks_word_on_user_and_item_together():
    denoiser, model = start(), model_of(spread=3.0)
    batch, negatives = rows()
    expected, _ = weights_by_hand(denoiser, model, batch, negatives)
    _, judged = objective(batch, negatives, model.propagate(), denoiser, 0.0)
    np.testing.assert_allclose(judged.kept, expected, rtol=1e-5)
    assert np.ptp(expected) > 0.01


def test_the_network_starts_as_torchs_layers_do_and_each_replica_with_one_of_its_own():
    tables = WeightGenerator.start(SIZE, range(200), CPU)
    assert {name: tuple(table.shape[1:]) for name, table in tables.items()} == {
        "weights1": (64, 10), "bias1": (64,), "weights2": (64, 64), "bias2": (64,), "weights3": (1, 64), "bias3": (1,)
    }  # fmt: skip
    for name, table in tables.items():
        bound = 1 / (10 if name.endswith("1") else 64) ** 0.5
        assert 0.95 * bound < table.abs().max() <= bound
        assert abs(table.mean()) < 0.1 * bound
        assert not torch.equal(table[0], table[1])


def test_a_block_of_rows_after_the_other_is_all_rows(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    users, items = torch.randn(2, 2, 40, SIZE, generator=generator)
    network = WeightGenerator(WeightGenerator.start(SIZE, SEEDS, CPU))
    whole, spread = network(users, items), uniformity(users, torch.ones(2, 40))
    monkeypatch.setattr(bod, "TERMS_IN_A_SUM", 7)
    torch.testing.assert_close(network(users, items), whole)
    torch.testing.assert_close(uniformity(users, torch.ones(2, 40)), spread)


# The inner loss


def unit(x):
    return x / np.linalg.norm(x)


def uniformity_by_hand(vectors):
    """By all pairs of rows."""
    pairs = list(itertools.combinations([unit(x) for x in vectors], 2))
    return np.log(np.mean([np.exp(-2 * np.sum((x - y) ** 2)) for x, y in pairs]))


def loss_by_hand(model, batch, negatives, replica, weights, settings):
    """Of one replica, a loop over its live rows; `weights` are (of positives, of negatives), `[replicas, rows]`."""
    users, items = (table[:, replica] for table in final_vectors(model))
    u, i, j, live = (x[replica].numpy() for x in (batch.users, batch.items, negatives.items, batch.live))
    ranking, alignment, places = [], [], np.flatnonzero(live)
    for row in places:
        up, down = (weights[of][replica, row] * users[u[row]] @ items[n[row]] for of, n in ((0, i), (1, j)))
        ranking.append(np.log1p(np.exp(down - up)))
        alignment.append(weights[0][replica, row] * np.sum((unit(users[u[row]]) - unit(items[i[row]])) ** 2))
    spread = [uniformity_by_hand(vectors[places]) for vectors in (users[u], users[u], items[i], items[j])]
    parts = np.mean(ranking), np.mean(alignment), np.mean(spread)
    return sum(share * part for share, part in zip(settings, parts, strict=True))


@pytest.mark.parametrize("live", [np.ones(N_ROWS), np.arange(N_ROWS) % 2], ids=["all live", "half live"])
@pytest.mark.parametrize("kind", ["mf", "lightgcn"])
def test_the_inner_loss_is_that_of_the_rule(kind, live):
    denoiser, model = start(ranking=0.9, alignment=0.7, uniformity=0.4), model_of(kind)
    batch, negatives = rows(live=live)
    weights = weights_by_hand(denoiser, model, batch, negatives)
    expected = [loss_by_hand(model, batch, negatives, r, weights, (0.9, 0.7, 0.4)) for r in (0, 1)]
    np.testing.assert_allclose(values_of(denoiser, model, batch, negatives).detach(), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["mf", "lightgcn"])
def test_without_weights_it_is_bpr_with_alignment_and_uniformity(kind):
    denoiser, model = start(weigh=False), model_of(kind)
    batch, negatives = rows()
    ones = np.ones((2, 2, N_ROWS))
    expected = [loss_by_hand(model, batch, negatives, replica, ones, (1, 1, 0.5)) for replica in (0, 1)]
    np.testing.assert_allclose(values_of(denoiser, model, batch, negatives).detach(), expected, rtol=1e-5)
    assert not denoiser.follows_epochs


class Anticorrelated(bod.Bilevel):
    """Gives small weights to those who are far apart."""

    def _weights(self, vectors):
        distances = (F.normalize(vectors.users, dim=-1) - F.normalize(vectors.positives, dim=-1)).square().sum(-1)
        return torch.exp(-2 * distances.detach()), 0.5 + torch.sigmoid(vectors.negatives[..., 0].detach())


def anticorrelated(**settings):
    return Anticorrelated(denoised(WORLD, WORLD, batch_size=24, size=SIZE), SEEDS, BilevelWeights(**settings))


def rows_by_hand(denoiser, model, batch, negatives, replica):
    """w⁺, w⁻, s⁺, s⁻ and the squared distances of the live rows, `[rows]` each."""
    users, items = (table[:, replica] for table in final_vectors(model))
    u, i, j = (x[replica].numpy() for x in (batch.users, batch.items, negatives.items))
    live = batch.live[replica].numpy() > 0
    view = model.propagate().final
    numbers = (view.users, batch.users), (view.items, batch.items), (view.items, negatives.items)
    weights = [w[replica].double().numpy() for w in denoiser._weights(Vectors(*(take(*one) for one in numbers)))]
    distances = np.array([np.sum((unit(users[a]) - unit(items[b])) ** 2) for a, b in zip(u, i, strict=True)])
    scores = (users[u] * items[i]).sum(-1), (users[u] * items[j]).sum(-1)
    return [values[live] for values in (*weights, *scores, distances)]


LAST_DEAD = (np.arange(N_ROWS) < 11).astype(np.float32)


def test_each_row_has_a_weight_of_its_own():
    """Σ w a / B is far from what the product of both means would be."""
    denoiser, model = anticorrelated(ranking=0.0, uniformity=0.0), model_of()
    batch, negatives = rows(live=LAST_DEAD)
    found = values_of(denoiser, model, batch, negatives).tolist()
    for replica in (0, 1):
        w, _, _, _, a = rows_by_hand(denoiser, model, batch, negatives, replica)
        assert found[replica] == pytest.approx(sum(w * a) / len(w), rel=1e-5)
        assert found[replica] < 0.7 * w.mean() * a.mean()


def test_or_everybody_elses_if_asked_to():
    model = model_of()
    batch, negatives = rows(live=LAST_DEAD)
    alignment = anticorrelated(ranking=0.0, uniformity=0.0, weights_of_other_rows=True)
    ranking = anticorrelated(alignment=0.0, uniformity=0.0, weights_of_other_rows=True)
    aligned, ranked = (values_of(one, model, batch, negatives).tolist() for one in (alignment, ranking))
    for replica in (0, 1):
        w, w_negative, s, s_negative, a = rows_by_hand(alignment, model, batch, negatives, replica)
        assert aligned[replica] == pytest.approx(w.mean() * a.mean(), rel=1e-5)
        crossed = np.log1p(np.exp(np.outer(w_negative, s_negative) - np.outer(w, s)))  # [whose weights, whose scores]
        assert ranked[replica] == pytest.approx(crossed.mean(), rel=1e-5)
        assert abs(np.diagonal(crossed).mean() - crossed.mean()) > 1e-3


def test_no_gradient_passes_through_the_weights():
    """They are the network's, and it is fixed."""
    denoiser, model = start(ranking=0.0, uniformity=0.0), model_of()
    batch, negatives = rows()
    values_of(denoiser, model, batch, negatives).sum().backward()
    weights, _ = weights_by_hand(denoiser, model, batch, negatives)
    users, items = (table.detach().double().requires_grad_() for table in (model.users, model.items))
    own = torch.arange(2)[:, None]
    apart = F.normalize(users[batch.users, own], dim=-1) - F.normalize(items[batch.items, own], dim=-1)
    (torch.from_numpy(weights) * apart.square().sum(-1)).mean(-1).sum().backward()
    torch.testing.assert_close(model.users.grad.double(), users.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(model.items.grad.double(), items.grad, rtol=1e-4, atol=1e-6)


# Uniformity


def test_uniformity_is_that_of_the_distances_of_live_rows():
    generator = torch.Generator().manual_seed(0)
    vectors, live = torch.randn(3, 40, SIZE, generator=generator), torch.ones(3, 40)
    live[1, 25:], live[2, 2:] = 0, 0
    mine, other = vectors.clone().requires_grad_(), vectors.double().requires_grad_()
    found = uniformity(mine, live)
    expected = []
    for rows, is_live in zip(other, live, strict=True):
        apart = torch.pdist(F.normalize(rows[is_live > 0], dim=-1))
        expected.append(torch.exp(-2 * apart.square()).mean().log())
    torch.testing.assert_close(found.double(), torch.stack(expected), rtol=1e-5, atol=1e-5)
    found.sum().backward(), torch.stack(expected).sum().backward()
    torch.testing.assert_close(mine.grad.double(), other.grad, rtol=1e-4, atol=1e-5)
    assert (mine.grad[live == 0] == 0).all()


def test_one_row_alone_has_nothing_to_be_apart_from():
    vectors = torch.randn(1, 8, SIZE, generator=torch.Generator().manual_seed(0)).requires_grad_()
    live = torch.zeros(1, 8)
    live[0, 3] = 1
    found = uniformity(vectors, live)
    found.sum().backward()
    assert found.tolist() == [0.0]
    assert (vectors.grad == 0).all()


def test_rows_that_are_all_alike_are_as_close_as_can_be():
    """And stay so: there is no direction in which to part."""
    vectors = torch.tensor([0.3, -0.1, 2.0]).repeat(1, 6, 1).requires_grad_()
    found = uniformity(vectors, torch.ones(1, 6))
    found.sum().backward()
    assert found.item() == pytest.approx(0.0, abs=1e-6)
    assert vectors.grad.abs().max() < 1e-5


def test_vectors_of_length_0_have_no_direction_and_get_no_gradient_from_it():
    """As distances have it: 0 is as far from every direction, and at no distance from another 0."""
    vectors = torch.eye(4)[None].clone()
    vectors[0, 2:] = 0
    vectors.requires_grad_()
    found = uniformity(vectors, torch.ones(1, 4))
    found.sum().backward()
    # One pair of directions at √2, one of zeros at 0, and four across, at 1.
    assert found.item() == pytest.approx(np.log((np.exp(-4) + 1 + 4 * np.exp(-2)) / 6), rel=1e-6)
    assert (vectors.grad[0, 2:] == 0).all()
    assert vectors.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["mf", "lightgcn"])
def test_a_model_that_starts_at_zero_trains(kind):
    """Items that nobody has may begin there, or everything."""
    model, denoiser = model_of(kind), start()
    with torch.no_grad():
        model.items[5:] = 0
        model.users[:, 1] = 0
        model.items[:, 1] = 0
    batch, negatives = rows()
    values = values_of(denoiser, model, batch, negatives)
    values.sum().backward()
    assert values.isfinite().all()
    assert all(table.grad.isfinite().all() and table.grad.abs().max() < 10 for table in (model.users, model.items))
    denoiser.end_epoch([0, 1], model.propagate())
    assert all(table.isfinite().all() for table in network_tables(denoiser).values())


# The disagreement of two gradients


def random_slopes(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 2, SIZE, generator=generator) for n in (700, 9)]


def test_disagreement_is_the_sum_over_columns_of_what_cosines_lack():
    first, second = random_slopes(0), random_slopes(1)
    expected = [
        sum(
            1 - np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y)
            for one, two in zip(first, second, strict=True)
            for x, y in zip(one[:, r].double().numpy().T, two[:, r].double().numpy().T, strict=True)
        )
        for r in (0, 1)
    ]
    np.testing.assert_allclose(disagreement(first, second), expected, rtol=1e-5)


@pytest.mark.parametrize("factor", [1e-9, 1e-4, 1e6])
def test_disagreement_does_not_care_how_long_the_gradients_are(factor):
    first, second = random_slopes(0), random_slopes(1)
    expected = disagreement(first, second)
    torch.testing.assert_close(disagreement([factor * x for x in first], second), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        disagreement([factor * x for x in first], [factor * x for x in second]), expected, rtol=1e-5, atol=1e-5
    )


def test_disagreement_lies_between_that_of_parallel_and_of_opposite_gradients():
    first = random_slopes(0)
    torch.testing.assert_close(disagreement(first, [3 * x for x in first]), torch.zeros(2), rtol=0, atol=1e-5)
    torch.testing.assert_close(disagreement(first, [-x for x in first]), torch.full((2,), 2.0 * SIZE * 2))
    assert (disagreement(first, random_slopes(1)) <= 2 * SIZE * 2).all()


def test_a_column_without_gradient_neither_agrees_nor_disagrees():
    first, second = random_slopes(0), random_slopes(1)
    first[0][:, :, 2] = 0
    leaf = first[0].requires_grad_()
    found = disagreement(first, second)
    found.sum().backward()
    expected = disagreement([first[0][..., [0, 1, 3, 4]].detach(), first[1]], [second[0][..., [0, 1, 3, 4]], second[1]])
    torch.testing.assert_close(found.detach(), expected + 1)
    assert (leaf.grad[:, :, 2] == 0).all()


@pytest.mark.parametrize("size", [5, 16, 64, 100])
def test_disagreement_has_the_same_bits_alone_and_in_company(size):
    generator = torch.Generator().manual_seed(0)
    first, second = ([torch.randn(n, 5, size, generator=generator) for n in (700, 9)] for _ in range(2))
    found = disagreement(first, second)
    for replica in range(5):
        own = [[table[:, [replica]].contiguous() for table in tables] for tables in (first, second)]
        assert torch.equal(disagreement(*own)[0], found[replica])


# The outer step


def dense_final(model, kind, users, items):
    """The vectors that scores are made of, by a dense matrix in double precision."""
    if kind == "mf":
        return users, items
    joined = np.zeros((17, 17))
    joined[:8, 8:] = OWNED
    joined += joined.T
    degrees = np.maximum(joined.sum(0), 1)
    passed = torch.from_numpy(joined / np.sqrt(np.outer(degrees, degrees)))
    layers = [torch.cat((users, items))]
    for _ in range(2):
        layers.append(passed @ layers[-1])
    mean = sum(layers) / 3
    return mean[:8], mean[8:]


def slow_disagreement(model, kind, replica, batch, tables, *, user_twice=False, weights_of_others=False):
    """Of one replica's network with these tables, in double precision; the rule as it stands."""
    base = [table[:, replica].detach().double().requires_grad_() for table in (model.users, model.items)]
    users, items = dense_final(model, kind, *base)
    u, i, j = ([int(n) for n in numbers[replica][:24]] for numbers in batch[:3])

    def weight(user, item):
        hidden = torch.relu(tables["weights1"] @ torch.cat((user, item)) + tables["bias1"])
        return torch.sigmoid(tables["weights3"] @ (tables["weights2"] @ hidden + tables["bias2"]) + tables["bias3"])[0]

    fixed_users, fixed_items = users.detach(), items.detach()
    w = torch.stack([
        weight(fixed_users[a], fixed_users[a] if user_twice else fixed_items[b]) for a, b in zip(u, i, strict=True)
    ])  # fmt: skip
    w_negative = torch.stack([weight(fixed_users[a], fixed_items[b]) for a, b in zip(u, j, strict=True)])
    s, s_negative = (users[u] * items[i]).sum(-1), (users[u] * items[j]).sum(-1)
    distances = (F.normalize(users[u], dim=-1) - F.normalize(items[i], dim=-1)).square().sum(-1)
    if weights_of_others:
        ranking = F.softplus(w_negative[:, None] * s_negative - w[:, None] * s).mean()
        alignment = w.mean() * distances.mean()
    else:
        ranking, alignment = F.softplus(w_negative * s_negative - w * s).mean(), (w * distances).mean()
    first, second = (torch.autograd.grad(loss, base, retain_graph=True) for loss in (ranking, alignment))
    return sum(float((1 - F.cosine_similarity(x, y, dim=0)).sum()) for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", ["mf", "lightgcn"])
@pytest.mark.parametrize("switch", [None, "outer_user_twice", "weights_of_other_rows"])
def test_the_outer_gradient_is_that_of_the_disagreement(kind, switch):
    """By central differences along random directions, one for each table of the network."""
    denoiser = start(generator_l2=0.0, **({switch: True} if switch else {}))
    model = model_of(kind)
    before, batch = network_tables(denoiser), denoiser._outer_batch([0, 1])
    denoiser.end_epoch([0, 1], model.propagate())
    rng = np.random.default_rng(0)
    for replica in (0, 1):
        own = {name: table[replica].double() for name, table in before.items()}
        for name in own:
            direction = torch.from_numpy(rng.standard_normal(own[name].shape))
            ends = [
                slow_disagreement(
                    model, kind, replica, batch, {**own, name: own[name] + sign * 1e-6 * direction},
                    user_twice=switch == "outer_user_twice", weights_of_others=switch == "weights_of_other_rows",
                )
                for sign in (1, -1)
            ]  # fmt: skip
            # Of its first step, Adam remembers a tenth of the gradient.
            gradient = 10 * denoiser.state()[f"{name}/first"][replica].double()
            expected = (ends[0] - ends[1]) / 2e-6
            assert float((gradient * direction).sum()) == pytest.approx(expected, rel=2e-3, abs=1e-4), name
            assert gradient.abs().max() > 1e-4


def test_what_the_network_has_learned_is_held_small():
    with_l2, without = (start(generator_l2=l2) for l2 in (0.3, 0.0))
    before = network_tables(without)
    for denoiser in (with_l2, without):
        denoiser.end_epoch([0, 1], model_of().propagate())
    for name, table in before.items():
        difference = 10 * (with_l2.state()[f"{name}/first"] - without.state()[f"{name}/first"])
        torch.testing.assert_close(difference, 0.3 * table, rtol=1e-3, atol=1e-5)


def test_steps_of_the_network_make_the_gradients_agree_more():
    denoiser, model = start(outer_steps=30, generator_learning_rate=0.02, generator_l2=0.0), model_of()
    batch = denoiser._outer_batch([0, 1])

    def found():
        tables = network_tables(denoiser)
        own = [{name: table[r].double() for name, table in tables.items()} for r in (0, 1)]
        return np.array([slow_disagreement(model, "mf", r, batch, own[r]) for r in (0, 1)])

    before = found()
    denoiser.end_epoch([0, 1], model.propagate())
    assert (found() < before - 0.1).all()


@pytest.mark.parametrize("kind", ["mf", "lightgcn"])
def test_inner_steps_leave_the_network_and_outer_steps_the_model_as_they_are(kind):
    denoiser, model = start(outer_steps=2), model_of(kind)
    before, vectors = denoiser.state(), [table.detach().clone() for table in (model.users, model.items)]
    values_of(denoiser, model, *rows()).sum().backward()
    assert all(torch.equal(values, before[name]) for name, values in denoiser.state().items())
    gradients = [table.grad.clone() for table in (model.users, model.items)]
    denoiser.end_epoch([0, 1], model.propagate())
    for place, table in enumerate((model.users, model.items)):
        assert torch.equal(table.detach(), vectors[place])
        assert torch.equal(table.grad, gradients[place])
    assert all((values != before[name]).any() for name, values in denoiser.state().items())


def test_a_network_whose_epoch_has_not_ended_rests():
    denoiser, model = start(), model_of()
    denoiser.end_epoch([0, 1], model.propagate())
    before = denoiser.state()
    denoiser.end_epoch([1], model.propagate())
    for name, values in denoiser.state().items():
        assert torch.equal(values[0], before[name][0])
        assert not torch.equal(values[1], before[name][1])


def test_outer_rows_are_pairs_of_the_replica_with_negatives_outside():
    worlds = [WORLD, world_of(OWNED & (np.arange(9) < 6))]
    denoiser = start(worlds=worlds, batch_size=200)
    users, positives, negatives, live = denoiser._outer_batch([0, 1])
    assert users.shape == (2, 256)
    assert live.tolist() == [[1.0] * 200 + [0.0] * 56] * 2
    for replica, world in enumerate(worlds):
        owned = world.train.matrix(8, 9).toarray() > 0
        assert owned[users[replica], positives[replica]].all()
        assert not owned[users[replica], negatives[replica]].any()
        assert len(set(zip(users[replica].tolist(), positives[replica].tolist(), strict=True))) > 0.8 * owned.sum()


def test_outer_rows_are_those_of_the_replicas_own_stream():
    """Uniform over pairs and over what is outside; two calls for each step."""
    denoiser, model = start(outer_steps=3), model_of()
    denoiser.end_epoch([0, 1], model.propagate())
    users, positives, negatives, _ = denoiser._outer_batch([0, 1])
    for replica, seed in enumerate(SEEDS):
        stream = ReplicaStream([seed], "denoiser")
        stream.calls = 6
        ids = stream.integers(torch.full((1, 64), len(WORLD.pairs)))[0, :, 0].numpy()
        assert users[replica].tolist() == WORLD.pairs.users[ids].tolist()
        assert positives[replica].tolist() == WORLD.pairs.items[ids].tolist()
        expected = RejectedItems([WORLD.rejected]).draw_outside(users[[replica]], 1, stream)
        assert negatives[replica].tolist() == expected[0, :, 0].tolist()


def test_outer_rows_depend_on_the_replicas_own_epochs_alone():
    together, alone = start(), start(seeds=SEEDS[1:])
    model = model_of()
    for _ in range(3):
        together.end_epoch([0], model.propagate())
    for one, two in zip(together._outer_batch([0, 1]), alone._outer_batch([0]), strict=True):
        assert torch.equal(one[1], two[0])
    assert not torch.equal(together._outer_batch([0, 1])[0][0], start()._outer_batch([0, 1])[0][0])


# Company, threads, resumption


def own_model(model, replica):
    """A model that is one replica of another."""
    starts = [(model.users[:, replica].detach().numpy().copy(), model.items[:, replica].detach().numpy().copy())]
    if type(model) is EmbeddingModel:
        return EmbeddingModel(starts, CPU)
    return GraphModel(starts, CPU, SparseLayers(WORLD.train.matrix(8, 9), 2, CPU))


@pytest.mark.parametrize("kind", ["mf", "lightgcn"])
@pytest.mark.parametrize("switches", [{}, {"weights_of_other_rows": True, "outer_user_twice": True}])
def test_a_network_learns_the_same_to_the_bit_alone_and_in_company(kind, switches):
    seeds = (3, 8, 0, 5)
    together, model = start(seeds, **switches), model_of(kind, 4)
    for ended in ([0, 1, 2, 3], [1, 3], [0, 1]):
        together.end_epoch(ended, model.propagate())
    for replica, n_epochs in enumerate((2, 3, 1, 2)):
        alone = start(seeds[replica : replica + 1], **switches)
        for _ in range(n_epochs):
            alone.end_epoch([0], own_model(model, replica).propagate())
        for name, values in alone.state().items():
            assert torch.equal(values[0], together.state()[name][replica]), name


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("switches", [{}, {"weights_of_other_rows": True}])
def test_whole_trainings_are_the_same_alone_and_in_company(model, switches):
    """Of members with epochs of different lengths, four and seven steps."""
    world = toy_world()
    twice = make_world(world.train, world.n_users, world.n_items, pairs=RepeatedPositives(copies=2).build(world))
    part = BilevelWeights(outer_steps=2, generator_learning_rate=0.02, **switches)
    together = train([world, twice], part, model=model)
    for first, one in ((0, world), (2, twice)):
        alone = train(one, part, model=model)
        assert same_bits(together.of(first, (0, 3)), alone)


def test_replicas_that_stay_go_on_as_if_nobody_had_left():
    whole, fewer = (start((3, 8, 0), worlds=[WORLD, TWICE, WORLD]) for _ in range(2))
    model = model_of(n_replicas=3)
    for ended in ([0, 2], [2]):
        whole.end_epoch(ended, model.propagate()), fewer.end_epoch(ended, model.propagate())
    index = torch.tensor([2, 1])
    fewer.keep(index), fewer._rejected.keep(index)  # which the loop does beside
    rest = model_of(n_replicas=3)
    rest.keep(index)
    for _ in range(2):
        whole.end_epoch([1, 2], model.propagate()), fewer.end_epoch([0, 1], rest.propagate())
    for name, values in fewer.state().items():
        assert torch.equal(values, whole.state()[name][index]), name


def test_goes_on_from_a_state_to_the_same_bits():
    denoiser, model = start(), model_of()
    denoiser.end_epoch([0, 1], model.propagate())
    denoiser.end_epoch([1], model.propagate())
    state = denoiser.state()
    written = {name: values.clone() for name, values in state.items()}
    resumed = start()
    resumed.load_state(state)
    for one in (denoiser, resumed):
        one.end_epoch([0, 1], model.propagate())
    assert all(torch.equal(values, resumed.state()[name]) for name, values in denoiser.state().items())
    assert all(torch.equal(values, written[name]) for name, values in state.items())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("switches", [{}, {"weights_of_other_rows": True}])
def test_same_bits_on_one_thread_and_two(model, switches):
    """Large enough that torch does split the work."""
    world, before, found = toy_world(n_users=1300, n_items=1100, n_pairs=1600), torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            part = BilevelWeights(**switches)
            found.append(train(world, part, model=model, steps=7, seeds=(0,), batch_size=700, evaluate_every=7))
    finally:
        torch.set_num_threads(before)
    assert found[0].history[-1].epochs == {0: 2}  # and so the network has learned
    assert same_bits(*found)


# Steps and trainings


def test_the_step_adds_what_is_of_the_batch_once():
    """With L2, and a weight for every pair; a batch of 24 rows fills a block of 64."""
    weights = np.linspace(0.5, 1.5, len(WORLD.pairs)).astype(np.float32)
    world = dataclasses.replace(WORLD, pairs=dataclasses.replace(WORLD.pairs, pair_weights=weights))
    denoiser, model, shared = start(worlds=[world, world]), model_of(), denoised(world, world, size=SIZE)
    epochs, sampler = Epochs([world, world], 24, SEEDS), UniformNegatives().start(shared, SEEDS)
    step = PlainStep(model, sampler, denoiser, KeptWeights([world, world]), torch.tensor([0.2, 0.0]), 1e-3)
    batch, before = epochs.next_batch(), model_of()
    found = step.take(batch)
    again = UniformNegatives().start(shared, SEEDS).sample(batch, before.propagate())
    users, items = final_vectors(before)
    u, i, j = (x.numpy() for x in (batch.users, batch.items, again.items))
    for replica, l2 in ((0, 0.2), (1, 0.0)):
        w, w_negative, s, s_negative, a = rows_by_hand(denoiser, before, batch, again, replica)
        share = batch.weights[replica, :24].numpy()
        rows = share @ (np.log1p(np.exp(w_negative * s_negative - w * s)) + w * a) / 24
        vectors = [table[n[replica, :24], replica] for table, n in ((users, u), (items, i), (items, j))]
        of_batch = sum(uniformity_by_hand(x) for x in (vectors[0], *vectors)) / 4
        squares = sum((x**2).sum() for x in vectors) / 24
        assert found[replica].item() == pytest.approx(rows + 0.5 * of_batch + l2 / 2 * squares, rel=1e-5)
    assert not torch.equal(model.users, before.users)


def test_batches_of_one_row_are_trained():
    """Ten pairs by nine: the last batch of an epoch has one live row."""
    owned = np.zeros((5, 6), bool)
    owned[:, :2] = True
    fitted = train(world_of(owned), BilevelWeights(), steps=12, batch_size=9, evaluate_every=1)
    losses = np.array([list(look.losses.values()) for look in fitted.history])
    assert np.isfinite(losses).all()
    assert np.abs(np.diff(losses, axis=0)).max() < 5
    assert fitted.scorer.users.abs().max() < 5


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weigh", [True, False])
def test_a_training_pulls_users_to_their_items_and_apart_from_others(model, weigh):
    rng = np.random.default_rng(0)
    is_inside = np.arange(40)[:, None] % 3 == np.arange(30) % 3
    world = world_of((rng.random((40, 30)) < 0.8) & is_inside)
    part = BilevelWeights(weigh=weigh)
    fitted = train(world, part, model=model, steps=80, seeds=(0,), evaluate_every=20, learning_rate=0.05)
    losses = [look.losses[0] for look in fitted.history]
    assert losses[-1] < losses[0] - 0.3
    users, items = (F.normalize(table[:, 0], dim=-1) for table in (fitted.scorer.users, fitted.scorer.items))
    cosines, inside = (users @ items.T), torch.from_numpy(is_inside)
    assert cosines[inside].mean() > 0.5
    assert cosines[~inside].mean() < -0.2
    kept = [look.kept[0]["all"] for look in fitted.history]
    assert (kept == [1.0] * 4) if not weigh else (0 < min(kept) < max(kept) < 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ranking": -1.0}, r"ranking must be at least 0, got -1; change \[denoiser\] ranking"),
        ({"alignment": float("inf")}, "alignment must be a finite number"),
        ({"uniformity": -0.1}, "uniformity must be at least 0"),
        ({"outer_steps": -1}, "outer_steps must be at least 0"),
        ({"generator_l2": -1.0}, "generator_l2 must be at least 0"),
        ({"generator_learning_rate": 0.0}, "generator_learning_rate must be above 0"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        BilevelWeights(**settings)
