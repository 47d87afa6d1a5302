"""IRGAN: draws against a walk along the generator's softmax, loss and gradient against sums over draws and items."""

import numpy as np
import pytest
import torch
from sampler_worlds import SmallWorld, each_row, in_proportion, p_value, random_owned, random_view, scores_of
from scipy.special import expit, log_softmax, softmax

from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.item_sets import ItemSets
from pspns.negatives import irgan
from pspns.negatives.irgan import GeneratedNegatives, Generator, draw_in_proportion, running_totals
from pspns.rng import ReplicaStream
from pspns.shapes import Embeddings

HARDLY = 1e-30  # a learning rate with which the generator stays the copy it was
# Users with three, two and one items and with none.
OWNED = np.array([[1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]], bool)
TRAIN = ItemSets(4, 6, Pairs(*np.nonzero(OWNED)))
USERS = torch.tensor([0, 3, 2])


def end_epoch(world, view, replicas=(0, 1, 2)):
    with torch.no_grad():
        world.sampler.end_epoch(list(replicas), view)


def tables_of(world, replica):
    """The generator's, as numpy arrays."""
    return {name: world.sampler.state()[f"{replica}/tables/{name}"].numpy() for name in ("users", "items", "bias")}


def generator_scores(world):
    """`[replicas, users, items]`, in float64."""
    tables = [tables_of(world, replica) for replica in range(len(world.seeds))]
    return np.stack([t["users"].astype(np.float64) @ t["items"].T.astype(np.float64) + t["bias"] for t in tables])


# Drawing


def test_draws_in_proportion_gives_each_column_its_share_of_all_fractions():
    p = torch.tensor([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0], [0.5, 0.0, 0.0, 0.0, 0.0, 0.5]])
    fractions = ((torch.arange(64, dtype=torch.float64) + 0.5) / 64).expand(2, -1).contiguous()
    found = draw_in_proportion(running_totals(p), fractions)
    assert [np.bincount(row, minlength=6).tolist() for row in found] == [[0, 16, 0, 32, 16, 0], [32, 0, 0, 0, 0, 32]]
    # Neither end of the line is an item of weight 0, though the weights do not add up to 1.
    ends = torch.tensor([[0.0, 1 - 2.0**-53]] * 2, dtype=torch.float64)
    assert draw_in_proportion(running_totals(p * 0.3), ends).tolist() == [[1, 4], [0, 5]]


@pytest.mark.parametrize("owned_too", [False, True])
@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_is_the_item_where_the_stream_points_on_the_line_of_the_generators_softmax(temperature, owned_too):
    part = GeneratedNegatives(temperature=temperature, owned_too=owned_too, warm_up=1, generator_learning_rate=0.3)
    world = SmallWorld(part)
    for seed in range(3):  # so that tables and bias have moved away from the model
        end_epoch(world, random_view(world.n_users, world.n_items, 3, seed=seed))
    scores = generator_scores(world) / temperature
    drawn_owned = 0
    for number in range(4):
        batch = world.batch(number)
        # One call for uniform draws, one for the generator's.
        found, fractions = world.items(batch), world.stream(2 * number + 1).fractions(64).numpy()
        for replica, row, user, _ in each_row(batch):
            free = world.free[replica, user] | owned_too
            ends = np.cumsum(softmax(np.where(free, scores[replica, user], -np.inf)))
            item = next(i for i, end in enumerate(ends) if fractions[replica, row] < end)
            assert found[replica, row] == item
            drawn_owned += not world.free[replica, user, item]
    assert (drawn_owned > 20) == owned_too


def test_a_high_temperature_is_uniform_and_a_low_one_takes_the_best():
    hot, cold = (
        SmallWorld(GeneratedNegatives(temperature=temperature, warm_up=1, generator_learning_rate=HARDLY))
        for temperature in (1e5, 1e-3)
    )
    for world in (hot, cold):
        end_epoch(world, world.view)
    # 2,000 draws for each of 30 users: with a temperature of 50 scores would still be seen.
    counts = hot.counts(hot.everybody(2000))
    assert p_value(counts, in_proportion(np.ones(()), hot.free)) > 1e-4
    assert p_value(counts, in_proportion(softmax(hot.scores / 50, axis=-1), hot.free)) < 1e-3
    best = np.where(cold.free, cold.scores, -np.inf).argmax(-1)
    batch = cold.everybody(10)
    assert np.array_equal(cold.items(batch), best[np.arange(3)[:, None], batch.users])


@pytest.mark.parametrize("few", ["SCORES_AT_ONCE", "MOST_KEPT"])
def test_draws_are_the_same_however_few_scores_are_held(few, monkeypatch):
    part = GeneratedNegatives(warm_up=1, generator_learning_rate=0.1)
    roomy = SmallWorld(part)
    end_epoch(roomy, roomy.view)
    monkeypatch.setattr(irgan, few, 3 * roomy.n_items)
    tight = SmallWorld(part)
    tight.sampler.load_state(roomy.sampler.state())
    assert (tight.sampler._ends[0] is None) == (few == "MOST_KEPT")
    assert np.array_equal(roomy.items(roomy.batch()), tight.items(roomy.batch()))


# The way from uniform draws to the generator's


def test_draws_are_uniform_until_the_warm_up_ends_then_the_generator_is_a_copy_of_the_model():
    world = SmallWorld(GeneratedNegatives(warm_up=2, generator_learning_rate=HARDLY, temperature=1e-3))
    views = [random_view(world.n_users, world.n_items, 3, seed=seed) for seed in (1, 2, 3)]
    for number in range(2):
        batch = world.batch(number)
        uniform = world.world.rejected.draw_outside(batch.users, 1, world.stream(2 * number)).squeeze(-1)
        assert np.array_equal(world.items(batch), uniform)
        assert not any("tables" in name for name in world.sampler.state())
        end_epoch(world, views[number])
    for number in (1, 2):  # the copy is of the second view, and is not made again
        for replica in range(3):
            found = tables_of(world, replica)
            assert np.array_equal(found["users"], views[1].final.users[:, replica].detach())
            assert np.array_equal(found["items"], views[1].final.items[:, replica].detach())
            assert np.abs(found["bias"]).max() < 1e-20
        best = np.where(world.free, scores_of(views[1].final), -np.inf).argmax(-1)
        batch = world.batch(number)
        assert np.array_equal(world.items(batch), best[np.arange(3)[:, None], batch.users])
        end_epoch(world, views[2])


def test_each_replica_ends_its_own_warm_up():
    world = SmallWorld(GeneratedNegatives(warm_up=2, temperature=1e-3, generator_learning_rate=HARDLY))
    end_epoch(world, world.view, [0, 1, 2])
    end_epoch(world, world.view, [1])
    assert {name[0] for name in world.sampler.state() if "tables" in name} == {"1"}
    batch = world.everybody(20)
    found, best = world.items(batch), np.where(world.free, world.scores, -np.inf).argmax(-1)
    is_best = found == best[np.arange(3)[:, None], batch.users]
    assert is_best[1].all()
    assert is_best[[0, 2]].mean() < 0.4


# Learning


def random_tables(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        "users": torch.randn(4, 3, generator=generator),
        "items": torch.randn(6, 3, generator=generator),
        "bias": torch.randn(6, generator=generator),
    }


def model_of(seed=5, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return Embeddings(*(scale * torch.randn(n, 1, 3, generator=generator) for n in (4, 6)))


def generator_of(tables, seed=0, **settings):
    return Generator(
        tables, ReplicaStream([seed], "generator"), **{"learning_rate": 0.1, "batch_size": 256, **settings}
    )


def logits(tables):
    users, items, bias = (np.asarray(tables[name], np.float64) for name in ("users", "items", "bias"))
    return users @ items.T + bias


def pulled_back(by_logits, tables):
    """The gradient by the tables, given that by the logits `[users, items]`."""
    users, items = (np.asarray(tables[name], np.float64) for name in ("users", "items"))
    return {"users": by_logits @ items, "items": by_logits.T @ users, "bias": by_logits.sum(0)}


def gradient_of(generator, users, model, positive_share):
    tables = list(generator._tables.values())
    loss = generator.loss(users, model, TRAIN, positive_share)
    return loss.item(), dict(zip(generator._tables, torch.autograd.grad(loss, tables), strict=True))


def loss_by_hand(tables, rewards, positive_share, which, where):
    """The rule, draw by draw: the loss, and its gradient by the logits from ∂ ln p_j / ∂ g_k = [j = k] − p_k."""
    g = logits(tables)
    loss, by_logits = 0.0, np.zeros_like(g)
    for row, user in enumerate(USERS.tolist()):
        p, log_p, own = softmax(g[user]), log_softmax(g[user]), np.flatnonzero(OWNED[user])
        n = 2 * len(own)
        for place in range(n):
            if which[row, place] < positive_share:
                item = own[int(where[row, place] * len(own))]
            else:
                item = next(i for i, end in enumerate(np.cumsum(p)) if where[row, place] < end)
            q = (1 - positive_share) * p[item] + positive_share * (item in own) / len(own)
            share = p[item] / q * rewards[user, item] / n / len(USERS)
            loss -= share * log_p[item]
            by_logits[user] -= share * ((np.arange(6) == item) - p)
    return loss, by_logits


@pytest.mark.parametrize("positive_share", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_loss_and_gradient_are_the_sum_over_its_draws(positive_share, seed):
    tables, model = random_tables(seed), model_of(seed + 10)
    loss, gradient = gradient_of(generator_of(tables, seed), USERS, model, positive_share)
    rewards = 2 * expit(scores_of(model)[0]) - 1
    which, where = ReplicaStream([seed], "generator").fractions(2, 3, 6)[0].numpy()
    expected, by_logits = loss_by_hand(tables, rewards, positive_share, which, where)
    assert loss == pytest.approx(expected, rel=1e-4)
    for name, values in pulled_back(by_logits, tables).items():
        np.testing.assert_allclose(gradient[name], values, rtol=1e-3, atol=1e-5)


def test_without_positives_all_weights_are_one():
    # λ = 0: the loss is −ρ ln p, the mean over draws and then over users, without a word of weights.
    tables, model = random_tables(), model_of()
    loss, _ = gradient_of(generator_of(tables), USERS, model, 0.0)
    p, rewards = softmax(logits(tables), axis=-1), 2 * expit(scores_of(model)[0]) - 1
    where = ReplicaStream([0], "generator").fractions(2, 3, 6)[0, 1].numpy()
    means = []
    for row, user in enumerate(USERS.tolist()):
        items = np.searchsorted(np.cumsum(p[user]), where[row, : 2 * OWNED[user].sum()])
        means.append(np.mean([-rewards[user, item] * np.log(p[user, item]) for item in items]))
    assert loss == pytest.approx(np.mean(means), rel=1e-4)


@pytest.mark.parametrize("positive_share", [0.0, 0.2, 0.6])
def test_the_expected_gradient_is_that_of_the_expected_reward(positive_share):
    """E_q[(p / q) ρ ∇ ln p] = ∇ Σ_j p_j ρ_j, whatever λ < 1: finite differences of a sum over all items."""
    tables, model = random_tables(), model_of(scale=1.5)
    rewards = 2 * expit(scores_of(model)[0]) - 1

    def lost_reward(changed):
        return -np.mean([softmax(logits(changed)[user]) @ rewards[user] for user in USERS.tolist()])

    exact = {name: np.zeros(table.shape) for name, table in tables.items()}
    for name, table in tables.items():
        for place in np.ndindex(table.shape):
            up, down = ({key: values.double().numpy() for key, values in tables.items()} for _ in range(2))
            up[name][place] += 1e-5
            down[name][place] -= 1e-5
            exact[name][place] = (lost_reward(up) - lost_reward(down)) / 2e-5

    generator, many = generator_of(tables), USERS.repeat(200)
    found = [gradient_of(generator, many, model, positive_share)[1] for _ in range(150)]
    for name, expected in exact.items():
        draws = np.stack([one[name].numpy() for one in found])
        error = draws.std(0) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(0) - expected) < 4.5 * error + 1e-6).all()
        # What would pass for this gradient must be near it: weights left out are 20 % off and more.
        assert np.linalg.norm(error) < 0.03 * np.linalg.norm(expected)


def test_without_reward_nothing_is_learned():
    """A model that scores everything 0 rewards nothing: ρ = 2 σ(0) − 1 = 0."""
    generator, model = generator_of(random_tables()), model_of(scale=0.0)
    _, gradient = gradient_of(generator, USERS, model, 0.2)
    assert all((values == 0).all() for values in gradient.values())
    before = generator.state()
    generator.learn(model, TRAIN, 0.2)
    after = generator.state()
    assert all(torch.equal(before[f"tables/{name}"], after[f"tables/{name}"]) for name in ("users", "items", "bias"))
    generator.learn(model_of(), TRAIN, 0.2)
    after = generator.state()
    assert all((before[f"tables/{name}"] != after[f"tables/{name}"]).any() for name in ("users", "items", "bias"))


@pytest.mark.parametrize(("batch_size", "n_steps"), [(256, 1), (2, 2), (1, 3)])
def test_learning_visits_everybody_who_has_items_once(batch_size, n_steps):
    generator = generator_of(random_tables(), batch_size=batch_size)
    visited = []
    loss = generator.loss
    generator.loss = lambda users, *rest: (visited.extend(users.tolist()), loss(users, *rest))[1]
    generator.learn(model_of(), TRAIN, 0.2)
    assert visited == [0, 2, 3]  # the most active first; user 1 has nothing
    assert int(generator.state()["adam/users/step"]) == n_steps
    has_moved = (generator.state()["tables/users"] != random_tables()["users"]).any(-1)
    assert has_moved.tolist() == [True, False, True, True]


def test_learning_takes_the_gradient_step_of_adam():
    tables, model = random_tables(), model_of()
    generator = generator_of(tables, learning_rate=0.01)
    _, gradient = gradient_of(generator_of(tables), torch.tensor([0, 2, 3]), model, 0.2)
    generator.learn(model, TRAIN, 0.2)
    for name, values in gradient.items():  # Adam's first step is the learning rate against the gradient's sign
        moved = generator.state()[f"tables/{name}"] - tables[name]
        expected = -0.01 * values.sign() * (values.abs() > 1e-5)
        torch.testing.assert_close(moved[values.abs() > 1e-5], expected[values.abs() > 1e-5], rtol=1e-2, atol=1e-5)


def test_what_it_draws_scores_higher_and_higher_for_a_model_that_stays():
    world = SmallWorld(GeneratedNegatives(warm_up=1, temperature=1.0, generator_learning_rate=0.02))
    end_epoch(world, random_view(world.n_users, world.n_items, 3, seed=1))  # the copy knows nothing of world.view
    batch, means = world.everybody(300), []
    for _ in range(4):
        found = world.items(batch)
        means.append(world.scores[np.arange(3)[:, None], batch.users.numpy(), found].mean(-1))
        for _ in range(12):
            end_epoch(world, world.view)
    # [times, replicas] The mean of 3,000 draws is known to 0.04.
    assert (np.diff(means, axis=0) > 0.1).all()


@pytest.mark.parametrize("replica", [0, 1, 2])
def test_a_generator_learns_the_same_to_the_bit_alone_and_in_company(replica):
    part = GeneratedNegatives(warm_up=1, generator_batch=4)
    together = SmallWorld(part)
    alone = SmallWorld(
        part, own_sets=together.own_sets[replica : replica + 1], seeds=together.seeds[replica : replica + 1],
        view=together.view,
    )  # fmt: skip
    for seed in range(4):
        view = random_view(together.n_users, together.n_items, 3, seed=seed)
        end_epoch(together, view)
        own = Embeddings(view.final.users[:, [replica]], view.final.items[:, [replica]])
        end_epoch(alone, type(view)(base=own, final=own), [0])
    found, expected = together.sampler.state(), alone.sampler.state()
    names = [name.removeprefix("0/") for name in expected if name.startswith("0/")]
    assert len(names) == 3 + 9 + 1  # tables, Adam's three for each, calls
    assert all(torch.equal(found[f"{replica}/{name}"], expected[f"0/{name}"]) for name in names)


def large_generator():
    """Larger than the blocks in which scores are made."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"users": (1100, 16), "items": (1300, 16), "bias": (1300,)}
    tables = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
    return tables, generator_of(tables, learning_rate=0.01)


def test_scores_of_many_users_and_items_are_plain_products():
    tables, generator = large_generator()
    users = torch.arange(1100).flip(0)
    expected = tables["users"][users].double() @ tables["items"].T.double() + tables["bias"]
    torch.testing.assert_close(generator.scores(users).double(), expected, rtol=1e-5, atol=1e-5)


def test_learning_has_the_same_bits_with_one_thread_and_with_two():
    own = np.random.default_rng(0).random((1100, 1300)) < 0.005
    train, model = (
        ItemSets(1100, 1300, Pairs(*np.nonzero(own))),
        Embeddings(torch.ones(1100, 1, 4), torch.ones(1300, 1, 4)),
    )
    found, before = [], torch.get_num_threads()
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            _, generator = large_generator()
            generator.learn(model, train, 0.2)
            found.append(generator.state())
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(values, found[1][name]) for name, values in found[0].items())
    assert (found[0]["tables/items"] != large_generator()[0]["items"]).any()


def test_replicas_learn_each_their_own():
    world = SmallWorld(GeneratedNegatives(warm_up=1))
    view = random_view(world.n_users, world.n_items, 1)
    same = Embeddings(*(table.expand(-1, 3, -1) for table in (view.final.users, view.final.items)))
    end_epoch(world, type(view)(base=same, final=same))
    users = [tables_of(world, replica)["users"] for replica in range(3)]
    assert not np.array_equal(users[0], users[1])  # the same model, but draws of their own
    assert not np.array_equal(users[0], users[2])


def test_positives_are_those_of_train_not_all_that_is_rejected():
    """λ speaks of pairs the user has; a second set, rejected besides, changes nothing of what the generator learns."""
    owned = random_owned()
    less = owned.copy()
    less[1] = owned[0]
    worlds = [SmallWorld(GeneratedNegatives(warm_up=1, positive_share=0.9), owned=own) for own in (owned, less)]
    for world in worlds:
        end_epoch(world, world.view)
    one, two = (tables_of(world, 1) for world in worlds)
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, r"temperature must be above 0, got 0; change \[negatives\] temperature"),
        ({"temperature": float("inf")}, r"temperature must be a finite number, got inf"),
        (
            {"positive_share": -0.1},
            r"positive_share must be from 0 to 1, got -0.1; change \[negatives\] positive_share",
        ),
        ({"positive_share": 1.1}, r"positive_share must be from 0 to 1, got 1.1"),
        ({"warm_up": 0}, r"warm_up must be at least 1, got 0; change \[negatives\] warm_up"),
        ({"generator_learning_rate": 0.0}, r"generator_learning_rate must be above 0, got 0"),
        ({"generator_batch": 0}, r"generator_batch must be at least 1, got 0; change \[negatives\] generator_batch"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        GeneratedNegatives(**settings)
