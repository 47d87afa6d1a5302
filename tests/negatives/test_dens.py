"""DENS against loops over layers and candidates, its gates, and how they learn."""

import numpy as np
import pytest
import torch
from sampler_worlds import SmallWorld, each_row, random_view
from scipy.special import expit

from pspns.denoising._denoising import Denoising
from pspns.errors import SettingsError
from pspns.models._embedding_model import EmbeddingModel
from pspns.negatives.dens import GATES, DisentangledNegatives
from pspns.training.kept_weights import KeptWeights
from pspns.training.objective import objective
from pspns.training.plain_step import PlainStep

NAMES = [f"{gate}_{part}" for gate in GATES for part in ("map", "shift")]


def gates_of(world):
    """`[replicas, …]` of each name, in float64."""
    state = world.sampler.state()
    return {name: state[name].double().numpy() for name in NAMES}


def set_gates(world, shift=None, scale=1.0):
    """Maps made larger or 0, shifts all the same: −∞ closes gates and +∞ opens them."""
    state = world.sampler.state()
    for name in NAMES:
        state[name] = (
            state[name] * scale if name.endswith("map") or shift is None else torch.full_like(state[name], shift)
        )
    world.sampler.load_state(state)


def layers_of(view):
    return [tuple(t.detach().double().numpy() for t in (layer.users, layer.items)) for layer in view.layers]


class SlowDens:
    """The rule, one row at a time."""

    def __init__(self, layers, gates, replica):
        self.layers = [(users[:, replica], items[:, replica]) for users, items in layers]
        self.gates = {name: values[replica] for name, values in gates.items()}

    def _map(self, gate, vector):
        return self.gates[f"{gate}_map"] @ vector + self.gates[f"{gate}_shift"]

    def relevant_positive(self, layer, user, item):
        users, items = self.layers[layer]
        return items[item] * expit(self._map("item", items[item]) + self._map("user", users[user]))

    def relevant_negative(self, layer, user, item, k):
        own = self.layers[layer][1][k]
        return own * expit(
            self._map("negative", own) + self._map("positive", self.relevant_positive(layer, user, item))
        )

    def choose(self, layer, user, item, pool, share):
        users, items = self.layers[layer]

        def worth(k):
            relevant = self.relevant_negative(layer, user, item, k)
            return (1 - share) * users[user] @ (items[k] - relevant) - share * users[user] @ relevant

        return max(pool, key=worth)

    def loss(self, user, item, chosen, contrast):
        """The four terms for the items chosen in each layer."""
        every = range(len(self.layers))
        final_user = np.mean([self.layers[layer][0][user] for layer in every], 0)
        positive = np.mean([self.layers[layer][1][item] for layer in every], 0)
        negative = np.mean([self.layers[layer][1][chosen[layer]] for layer in every], 0)
        r_up = np.mean([self.relevant_positive(layer, user, item) for layer in every], 0)
        r_down = np.mean([self.relevant_negative(layer, user, item, chosen[layer]) for layer in every], 0)
        y_up, y_down = final_user @ r_up, final_user @ r_down
        x_up, x_down = final_user @ (positive - r_up), final_user @ (negative - r_down)
        terms = [x_up - y_up, y_down - x_down, y_down - y_up, x_up - x_down]
        return contrast / 4 * sum(np.log1p(np.exp(term)) for term in terms)


@pytest.mark.parametrize("n_layers", [0, 2])
@pytest.mark.parametrize(
    ("settings", "epochs", "share"),
    [
        ({}, [0, 0, 0], [0.0, 0.0, 0.0]),
        ({"candidates": 20}, [25, 50, 99], [0.25, 0.5, 0.99]),
        ({"candidates": 1}, [25, 50, 99], [0.25, 0.5, 0.99]),
        ({"warm_up": 10, "contrast": 0.5}, [5, 10, 900], [0.5, 1.0, 1.0]),
        ({"constant_share": 1.0, "contrast": 0.5}, [0, 10, 900], [1.0, 1.0, 1.0]),
        ({"constant_share": 0.3}, [0, 10, 900], [0.3, 0.3, 0.3]),
    ],
)
def test_vectors_and_losses_are_those_of_the_slow_one(settings, epochs, share, n_layers):
    part = DisentangledNegatives(**settings)
    world = SmallWorld(part, n_layers=n_layers)
    set_gates(world, scale=3.0)  # far from halves
    layers, gates = layers_of(world.view), gates_of(world)
    for number in range(2):
        batch = world.batch(number, 16, epochs=torch.tensor(epochs))
        pool, found = world.pool(batch), world.sample(batch)
        assert found.items is None
        for replica, row, user, item in each_row(batch):
            slow = SlowDens(layers, gates, replica)
            chosen = [slow.choose(n, user, item, pool[replica, row], share[replica]) for n in range(len(layers))]
            vectors = [items[k, replica] for k, (_, items) in zip(chosen, layers, strict=True)]
            np.testing.assert_allclose(found.embeddings[replica, row].detach(), np.mean(vectors, 0), atol=1e-5)
            np.testing.assert_allclose(found.base_embeddings[replica, row].detach(), vectors[0], atol=1e-5)
            expected = slow.loss(user, item, chosen, part.contrast)
            assert found.row_losses[replica, row].item() == pytest.approx(expected, rel=1e-4)


def best_by(world, batch, pool, worth):
    """The mean over layers of each layer's candidate of highest worth, `[replicas, rows, size]`."""
    layers = layers_of(world.view)
    found = np.zeros((*batch.users.shape, layers[0][0].shape[-1]))
    for replica, row, user, item in each_row(batch):
        for number, (_, items) in enumerate(layers):
            best = max(pool[replica, row], key=lambda k: worth(replica, number, user, item, k))
            found[replica, row] += items[best, replica] / len(layers)
    return found


@pytest.mark.parametrize("shift", [0.0, -1e4])
def test_before_the_first_epoch_gates_that_know_nothing_give_dns_in_each_layer(shift):
    """All relevant parts are halves, or nothing: the highest score by the user's vector of that layer."""
    world = SmallWorld(DisentangledNegatives(), n_layers=2)
    set_gates(world, shift=shift, scale=0.0)
    batch = world.batch()
    layers = layers_of(world.view)
    expected = best_by(
        world, batch, world.pool(batch),
        lambda replica, layer, user, _, k: layers[layer][0][user, replica] @ layers[layer][1][k, replica],
    )  # fmt: skip
    np.testing.assert_allclose(world.sample(batch).embeddings.detach(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "epochs"), [({}, 100), ({}, 1000), ({"warm_up": 1}, 1), ({"constant_share": 1.0}, 0)]
)
def test_after_the_warm_up_the_lowest_relevant_score_is_chosen(settings, epochs):
    world = SmallWorld(DisentangledNegatives(**settings), n_layers=2)
    set_gates(world, scale=3.0)
    batch = world.batch(epochs=epochs)
    layers, gates = layers_of(world.view), gates_of(world)

    def worth(replica, layer, user, item, k):
        slow = SlowDens(layers, gates, replica)
        return -layers[layer][0][user, replica] @ slow.relevant_negative(layer, user, item, k)

    expected = best_by(world, batch, world.pool(batch), worth)
    np.testing.assert_allclose(world.sample(batch).embeddings.detach(), expected, atol=1e-5)


def test_a_constant_share_does_not_grow():
    def drawn(epochs, **settings):
        world = SmallWorld(DisentangledNegatives(**settings))
        set_gates(world, scale=3.0)
        return world.sample(world.batch(epochs=epochs)).embeddings.detach()

    assert torch.equal(drawn(0, constant_share=1.0), drawn(100))
    assert torch.equal(drawn(100, constant_share=0.0), drawn(0))
    assert not torch.equal(drawn(0, constant_share=1.0), drawn(0))
    assert not torch.equal(drawn(100, constant_share=0.0), drawn(100))


@pytest.mark.parametrize("is_open", [True, False])
def test_relevant_part_and_rest_are_the_whole(is_open):
    """Open gates leave no rest, closed ones nothing else: y and x are then all of the score."""
    world = SmallWorld(DisentangledNegatives(contrast=1.0), n_layers=2)
    set_gates(world, shift=1e4 if is_open else -1e4)
    batch = world.batch()
    found = world.sample(batch)
    users = world.view.final.users.detach()
    for replica, row, user, item in each_row(batch):
        up = world.scores[replica, user, item]
        down = (users[user, replica] @ found.embeddings[replica, row].detach()).item()
        terms = [-up, down, down - up, 0.0] if is_open else [up, -down, 0.0, up - down]
        expected = sum(np.log1p(np.exp(term)) for term in terms) / 4
        assert found.row_losses[replica, row].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


# Learning


def test_the_gradient_of_the_four_terms_is_that_of_finite_differences():
    """By gates and by the vectors of all layers; with one candidate, so that no choice changes."""
    world = SmallWorld(
        DisentangledNegatives(candidates=1), own_sets=(0,), seeds=(5,), view=random_view(10, 14, 1, n_layers=1)
    )
    batch = world.batch(0, 3)
    pool = world.pool(batch)
    world.sample(batch).row_losses.sum().backward()
    layers, gates = layers_of(world.view), gates_of(world)

    def value():
        slow = SlowDens(layers, gates, 0)
        return sum(slow.loss(user, item, [pool[0, row, 0]] * 2, 0.3) for _, row, user, item in each_row(batch))

    def by(table):
        gradient = np.zeros_like(table)
        for place in zip(*np.nonzero(np.ones_like(table)), strict=True):
            before = table[place]
            table[place] = before + 1e-5
            up = value()
            table[place] = before - 1e-5
            gradient[place] = (up - value()) / 2e-5
            table[place] = before
        return gradient

    for name, parameter in world.sampler.parameters().items():
        np.testing.assert_allclose(parameter.grad, by(gates[name]), rtol=1e-3, atol=1e-5)
        assert parameter.grad.abs().max() > 1e-4
    touched = np.unique(np.concatenate((batch.items[0], pool[0, :, 0])))
    for layer, (users, items) in zip(world.view.layers, layers, strict=True):
        np.testing.assert_allclose(
            layer.users.grad[batch.users[0]], by_rows(by, users, batch.users[0]), rtol=1e-3, atol=1e-5
        )
        np.testing.assert_allclose(layer.items.grad[touched], by_rows(by, items, touched), rtol=1e-3, atol=1e-5)


def by_rows(by, table, rows):
    """Of some rows only."""
    found = []
    for row in rows:
        own = table[int(row)]  # a view: what is changed in it is changed in the table
        found.append(by(own))
    return np.stack(found)


def gate_gradients(world, l2, n_rows=64):
    batch = world.batch(0, n_rows)
    value = objective(batch, world.sample(batch), world.view, Denoising("bpr"), l2)[0].sum()
    parameters = world.sampler.parameters()
    return dict(zip(parameters, torch.autograd.grad(value, parameters.values()), strict=True))


def test_gates_learn_from_the_four_terms_alone():
    nothing = gate_gradients(SmallWorld(DisentangledNegatives(contrast=0.0), n_layers=1), l2=0.5)
    assert set(nothing) == set(NAMES)
    assert all((gradient == 0).all() for gradient in nothing.values())
    # Neither does L2 hold them small: their gradient is what it is without.
    with_l2, without = (gate_gradients(SmallWorld(DisentangledNegatives(), n_layers=1), l2=l2) for l2 in (10.0, 0.0))
    assert all(torch.equal(with_l2[name], without[name]) for name in NAMES)
    assert all((without[name] != 0).any() for name in NAMES)


def test_gates_begin_small_and_each_seed_has_its_own():
    one, two = (
        SmallWorld(DisentangledNegatives(), seeds=seeds).sampler.parameters() for seeds in ((3, 0, 8), (0, 3, 5))
    )
    for name in NAMES:
        assert torch.equal(one[name][[0, 1]], two[name][[1, 0]])
        assert not torch.equal(one[name][2], two[name][2])
        assert one[name].abs().max() <= 5**-0.5
        assert one[name].abs().mean() > 0.1
        assert one[name].requires_grad


class Training:
    """Steps of MF with DENS."""

    def __init__(self, contrast=0.3):
        self.small = SmallWorld(DisentangledNegatives(contrast=contrast))
        rng = np.random.default_rng(0)
        starts = [
            tuple(rng.normal(0, 0.5, (n, 5)).astype(np.float32) for n in (self.small.n_users, self.small.n_items))
            for _ in self.small.seeds
        ]
        self.sampler, self.model = self.small.sampler, EmbeddingModel(starts, torch.device("cpu"))
        self.step = PlainStep(
            self.model, self.sampler, Denoising("bpr"), KeptWeights([]), torch.tensor([0.0, 0.1, 0.2]), 0.01
        )

    def run(self, numbers, replicas=(0, 1, 2)):
        for number in numbers:
            batch = self.small.batch(number)
            own = [values[list(replicas)] for values in vars(batch).values()]
            self.step.take(type(batch)(*own))
        return self

    def keep(self, replicas):
        for part in (self.small.world.rejected, self.sampler, self.step):
            part.keep(torch.tensor(replicas))

    def gates(self):
        return {name: values.detach().clone() for name, values in self.sampler.parameters().items()}


def test_a_step_changes_gates_and_without_contrast_it_does_not():
    for contrast in (0.3, 0.0):
        training = Training(contrast)
        before = training.gates()
        after = training.run(range(3)).gates()
        for name in NAMES:
            has_moved = (before[name] != after[name]).flatten(1).any(-1)
            assert has_moved.tolist() == [contrast > 0] * 3


def test_training_makes_the_four_terms_smaller():
    training = Training(contrast=1.0)
    batch = training.small.batch(0)

    def mean_loss():
        state = training.sampler.state()
        found = training.sampler.sample(batch, training.model.propagate_layers()).row_losses
        training.sampler.load_state(state)
        return found.detach().mean(-1)

    # Only gates move: what they learn shows by itself.
    start, before = training.model.snapshot(), mean_loss()
    optimiser = torch.optim.Adam(training.sampler.parameters().values(), lr=0.02)
    for _ in range(60):
        loss = training.sampler.sample(batch, training.model.propagate_layers()).row_losses.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert all(torch.equal(start[name], values) for name, values in training.model.snapshot().items())
    assert (mean_loss() < before - 0.02).all()


def test_adams_moments_of_gates_stay_with_replicas_that_go_on():
    whole, rest = Training().run(range(5)), Training().run(range(5))
    rest.keep([2, 0])
    moments = rest.step.state()
    assert {name for name in moments if name.endswith("exp_avg")} >= {f"sampler-{name}/exp_avg" for name in NAMES}
    for name in NAMES:
        assert torch.equal(
            moments[f"sampler-{name}/exp_avg_sq"], whole.step.state()[f"sampler-{name}/exp_avg_sq"][[2, 0]]
        )
    whole.run(range(5, 10)), rest.run(range(5, 10), replicas=[2, 0])
    for name, values in whole.gates().items():
        assert torch.equal(values[[2, 0]], rest.gates()[name])


@pytest.mark.parametrize("with_moments", [True, False])
def test_training_of_gates_goes_on_from_a_state(with_moments):
    whole = Training().run(range(5))
    states = [
        {name: tensor.clone() for name, tensor in state.items()}
        for state in (whole.model.snapshot(), whole.sampler.state(), whole.step.state())
    ]
    resumed = Training()
    resumed.model.restore(states[0])
    resumed.sampler.load_state(states[1])
    # Without its moments Adam starts anew from where the gates are, which must make a difference.
    resumed.step.load_state(states[2] if with_moments else {})
    whole.run(range(5, 10)), resumed.run(range(5, 10))
    is_equal = [torch.equal(values, resumed.gates()[name]) for name, values in whole.gates().items()]
    assert is_equal == [with_moments] * len(NAMES)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": 0}, r"candidates must be at least 1, got 0; change \[negatives\] candidates"),
        ({"warm_up": 0}, r"warm_up must be at least 1, got 0; change \[negatives\] warm_up"),
        ({"contrast": -0.1}, r"contrast must be at least 0, got -0.1; change \[negatives\] contrast"),
        ({"contrast": float("inf")}, r"contrast must be a finite number, got inf"),
        ({"constant_share": 1.5}, r"constant_share must be from 0 to 1, got 1.5; change \[negatives\] constant_share"),
        ({"constant_share": -0.5}, r"constant_share must be from 0 to 1, got -0.5"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        DisentangledNegatives(**settings)
