"""DeCA: its loss against sums written out row by row, its gradients against one joint loss in double precision."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from denoiser_worlds import MODELS, denoised, pair_batch, rows_scored, train, world_of
from scipy.special import expit, rel_entr

from pspns.denoising.deca import CrossModelAgreement
from pspns.errors import SettingsError
from pspns.training.objective import slopes

TINY = 1e-5  # added before every logarithm
WORLD = world_of(np.random.default_rng(0).random((8, 9)) < 0.5)
N_ROWS = 16
LEARNED = ("h/users", "h/items", "h'/users", "h'/items", "g/users", "g/items")


def start(seeds=(3, 8), **settings):
    settings = {"c1": 7.0, "c2": 4.0, "alpha": 0.3, "size": 5, "learning_rate": 0.05, **settings}
    return CrossModelAgreement(**settings).start(denoised(*[WORLD] * len(seeds), loss="bce"), seeds)


def rows(number=0, n_replicas=2, *, scale=1.0, live=1.0, weights=None):
    """Random pairs and negatives with random scores."""
    rng = np.random.default_rng(number)
    batch = pair_batch(WORLD, rng.integers(len(WORLD.pairs), size=(n_replicas, N_ROWS)), live=live)
    if weights is not None:
        batch = dataclasses.replace(batch, weights=torch.tensor(weights).expand(n_replicas, N_ROWS))
    scores = scale * rng.standard_normal((2, n_replicas, N_ROWS))
    return rows_scored(*scores, batch=batch, negatives=rng.integers(9, size=(n_replicas, N_ROWS)))


def at_step(denoiser, step):
    denoiser.load_state({**denoiser.state(), "step": torch.tensor(step)})
    return denoiser


def tables(denoiser):
    return {name: denoiser.state()[f"{name}/table"] for name in LEARNED}


def chances(denoiser, model, given):
    """σ of a model's products for the positives and the negatives of `given`, `[2, replicas, rows]`, float64."""
    users, items = (tables(denoiser)[f"{model}/{side}"].double().numpy() for side in ("users", "items"))
    own = np.arange(users.shape[1])[:, None]
    numbers = np.stack([given.batch.items.numpy(), given.negatives.items.numpy()])
    return expit((users[given.batch.users.numpy(), own] * items[numbers, own]).sum(-1))


def log(p):
    return math.log(p + TINY)


def divergence(p, q):
    return p * (log(p) - log(q)) + (1 - p) * (log(1 - p) - log(1 - q))


def row_loss(f, g, h, h_liked, likelihood, alpha=0.3):
    """Of one row; each of the first four is (of the positive, of the negative)."""
    apart = sum(alpha * divergence(g[of], f[of]) + (1 - alpha) * divergence(f[of], g[of]) for of in (0, 1))
    return apart - likelihood(f, h, h_liked)


def doubting_positives(f, h, h_liked, c1=7.0):
    return (1 - f[0]) * log(h[0]) + (1 - f[1]) * log(1 - h[1]) - c1 * f[1]


def doubting_negatives(f, h, h_liked, c2=4.0):
    return f[0] * log(h_liked[0]) - c2 * (1 - f[0]) + f[1] * log(1 - h_liked[1])


def blindly(f, h, h_liked):
    of_positive = f[0] * log(h_liked[0]) + (1 - f[0]) * log(1 - h[0])
    return of_positive + f[1] * log(1 - h_liked[1]) + (1 - f[1]) * log(1 - h[1])


def losses_written_out(denoiser, given, likelihood):
    f = expit(torch.stack((given.positive, given.negative)).detach().double().numpy())
    g, h, h_liked = (chances(denoiser, model, given) for model in ("g", "h", "h'"))
    return [
        [
            row_loss(*(p[:, replica, row] for p in (f, g, h, h_liked)), likelihood)
            for row in range(given.positive.shape[1])
        ]
        for replica in range(given.positive.shape[0])
    ]


# The loss


@pytest.mark.parametrize(
    ("step", "likelihood"), [(0, doubting_positives), (1, doubting_negatives), (6, doubting_positives)]
)
def test_the_loss_is_that_of_the_rule_row_by_row(step, likelihood):
    denoiser, given = at_step(start(), step), rows()
    expected = losses_written_out(denoiser, given, likelihood)
    np.testing.assert_allclose(denoiser.judge(given).losses.detach(), expected, rtol=1e-4)


@pytest.mark.parametrize(("blind", "steps"), [("never", ()), ("first-step", (0,)), ("always", (0, 1, 2, 3))])
def test_blind_steps_take_positives_for_negatives(blind, steps):
    denoiser = start(blind=blind)
    for step in range(4):
        given = rows(step)
        usual = doubting_negatives if step % 2 else doubting_positives
        expected = losses_written_out(denoiser, given, blindly if step in steps else usual)
        before = tables(denoiser)
        np.testing.assert_allclose(denoiser.judge(given).losses.detach(), expected, rtol=1e-4)
        has_moved = {
            name.partition("/")[0] for name, table in tables(denoiser).items() if (table != before[name]).any()
        }
        assert has_moved == ({"g", "h", "h'"} if step in steps else {"g", "h'" if step % 2 else "h"})


def only_apart(alpha, f_logits, g_logits):
    """K of positives alone: the negatives agree, C₁ is 0, and h explains everything."""
    denoiser = start(seeds=(0,), alpha=alpha, c1=0.0)
    f, g = (torch.stack((torch.as_tensor(x).float(), torch.zeros(len(x))))[:, None] for x in (f_logits, g_logits))
    h = torch.tensor([100.0, -100.0]).view(2, 1, 1).expand(f.shape)
    return denoiser._losses(f, {"g": g, "h": h, "h'": h})[0].numpy()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_the_models_are_apart_by_nothing_if_and_only_if_they_agree(alpha):
    logits = np.linspace(-6, 6, 25)
    f, g = (x.ravel() for x in np.meshgrid(logits, logits))
    found = only_apart(alpha, f, g)
    assert (found > -1e-4).all()
    np.testing.assert_allclose(found[f == g], 0.0, atol=3e-5)  # h explains all but 10⁻⁵ of it
    assert (found[f != g] > 5e-5).all()


def test_alpha_chooses_between_the_two_directed_divergences():
    rng = np.random.default_rng(1)
    logits = rng.uniform(-3, 3, (2, 50))
    f, g = expit(logits)

    def kl(p, q):
        return rel_entr(p, q) + rel_entr(1 - p, 1 - q)

    for alpha, expected in ((1.0, kl(g, f)), (0.0, kl(f, g)), (0.25, 0.25 * kl(g, f) + 0.75 * kl(f, g))):
        np.testing.assert_allclose(only_apart(alpha, *logits), expected, rtol=2e-3, atol=1e-4)
    assert np.abs(kl(g, f) - kl(f, g)).max() > 0.1


# Its slopes


@pytest.mark.parametrize("step", [0, 1])
def test_slopes_besides_the_divergence(step):
    """Where the models agree the divergence is flat; ∂L/∂f is then that of the likelihood alone."""
    denoiser = at_step(start(seeds=(0,)), step)
    logits = torch.linspace(-2, 2, 12).repeat(2, 1, 1)
    others = {
        name: torch.randn(2, 1, 12, generator=torch.Generator().manual_seed(n)) for n, name in enumerate(("h", "h'"))
    }
    mine = logits.clone().requires_grad_()
    denoiser._losses(mine, {"g": logits, **others}).sum().backward()
    f, h, h_liked = (torch.sigmoid(x).double() for x in (logits, others["h"], others["h'"]))
    found = mine.grad.double() / (f * (1 - f))  # ∂L/∂f
    if step == 0:
        expected = [torch.log(h[0] + TINY), 7.0 + torch.log(1 - h[1] + TINY)]
    else:
        expected = [-4.0 - torch.log(h_liked[0] + TINY), -torch.log(1 - h_liked[1] + TINY)]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("step", [0, 1])
def test_the_gradient_is_that_of_one_joint_loss(step):
    """Of f, g, h and h′ together, in double precision; half of the rows count, and not all alike."""
    live = np.arange(N_ROWS) % 2
    weights = np.linspace(0.5, 2, N_ROWS, dtype=np.float32)
    denoiser, given = at_step(start(), step), rows(live=live, weights=weights)
    leaves = {name: table.double().requires_grad_() for name, table in tables(denoiser).items()}
    scores = [x.detach().double().requires_grad_() for x in (given.positive, given.negative)]
    own = torch.arange(2)[:, None]
    users, items = given.batch.users, torch.stack((given.batch.items, given.negatives.items))
    f = torch.sigmoid(torch.stack(scores))
    g, h, h_liked = (
        torch.sigmoid((leaves[f"{model}/users"][users, own] * leaves[f"{model}/items"][items, own]).sum(-1))
        for model in ("g", "h", "h'")
    )

    def log(p):
        return torch.log(p + TINY)

    apart = 0.0
    for share, p, q in ((0.3, g, f), (0.7, f, g)):
        apart = apart + share * (p * (log(p) - log(q)) + (1 - p) * (log(1 - p) - log(1 - q))).sum(0)
    explained = (
        (1 - f[0]) * log(h[0]) + (1 - f[1]) * log(1 - h[1]) - 7.0 * f[1]
        if step == 0
        else f[0] * log(h_liked[0]) - 4.0 * (1 - f[0]) + f[1] * log(1 - h_liked[1])
    )
    shares = torch.from_numpy(weights * live / live.sum()).double()
    ((apart - explained) * shares).sum().backward()

    _, by_positive, by_negative = slopes(denoiser, given, shares.float().expand(2, -1))
    torch.testing.assert_close(by_positive.double(), scores[0].grad, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(by_negative.double(), scores[1].grad, rtol=1e-3, atol=1e-6)
    for name, leaf in leaves.items():
        found = denoiser.state()[f"{name}/first"] * 10  # of its first step, Adam remembers a tenth of the gradient
        rests = name.startswith("h/" if step else "h'/")
        assert (leaf.grad is None) == rests
        torch.testing.assert_close(found.double(), torch.zeros_like(leaf) if rests else leaf.grad, rtol=1e-3, atol=1e-6)


def test_rows_that_only_fill_the_block_teach_nothing():
    live = (np.arange(N_ROWS) < 5).astype(np.float32)
    one, two = start(), start()
    given = rows(live=live)
    others = rows(7, live=live)
    batch = dataclasses.replace(
        given.batch,
        users=torch.where(given.batch.live > 0, given.batch.users, others.batch.users),
        items=torch.where(given.batch.live > 0, given.batch.items, others.batch.items),
    )
    for step in range(4):
        one.judge(given)
        two.judge(dataclasses.replace(given, batch=batch))
        assert all(torch.equal(table, tables(two)[name]) for name, table in tables(one).items()), step
    assert not torch.equal(tables(one)["g/users"], tables(start())["g/users"])


@pytest.mark.parametrize("step", [0, 1])
def test_scores_without_bounds_have_losses_and_slopes_with(step):
    denoiser, given = at_step(start(), step), rows(scale=1e4)
    judged, *found = slopes(denoiser, given, torch.ones(2, N_ROWS))
    assert all(values.isfinite().all() for values in (judged.losses, *found, *tables(denoiser).values()))


# What learns when


def test_h_learns_in_even_steps_and_h_liked_in_odd_ones_and_nothing_moves_by_momentum():
    denoiser = start()
    for step in range(8):
        before = denoiser.state()
        denoiser.judge(rows(step))
        after = denoiser.state()
        resting, learning = ("h/", "h'/") if step % 2 else ("h'/", "h/")
        for name, values in after.items():
            if name.startswith(resting):
                assert torch.equal(values, before[name]), (step, name)
            elif name.startswith((learning, "g/")):
                assert (values != before[name]).any(), (step, name)


def test_what_is_learned_makes_the_loss_of_the_same_rows_smaller():
    """Every second step is of the same kind."""
    denoiser, found = start(c1=1.0, c2=1.0), []
    for _ in range(60):
        found.append(float(denoiser.judge(rows()).losses.detach().mean()))
    assert found[58] < found[0] - 0.05
    assert found[59] < found[1] - 0.05


def test_the_kept_share_of_a_positive_is_its_posterior():
    given = rows()
    torch.testing.assert_close(start().judge(given).kept, torch.sigmoid(given.positive.detach()))


@pytest.mark.parametrize("model", MODELS)
def test_scores_are_those_of_the_model_alone(model):
    fitted = train(WORLD, CrossModelAgreement(size=3), model=model, loss="bce", steps=8)
    tables = fitted.scorer.tensors()
    assert {table.shape[-1] for table in tables.values()} == {MODELS[model].embedding_size}
    for replica in (0, 1):
        expected = tables["users"][:, replica] @ tables["items"][:, replica].T
        torch.testing.assert_close(fitted.scorer.scores(torch.arange(8), replica), expected)


# Whole trainings


def planted_world():
    """Three groups of users, each with items of its own, and a fifth of all pairs across."""
    rng = np.random.default_rng(0)
    is_inside = np.arange(40)[:, None] % 3 == np.arange(30) % 3
    drawn = rng.random((40, 30))
    world = world_of(drawn < np.where(is_inside, 0.7, 0.08))
    return dataclasses.replace(world, is_false=~is_inside[world.pairs.users, world.pairs.items])


@pytest.mark.parametrize(("c1", "c2", "alpha"), [(1.0, 1.0, 1.0), (100.0, 100.0, 0.0)])
def test_false_pairs_come_to_weigh_less_than_true_ones(c1, c2, alpha):
    part = CrossModelAgreement(c1=c1, c2=c2, alpha=alpha, learning_rate=0.05)
    fitted = train(planted_world(), part, loss="bce", steps=60, evaluate_every=20, learning_rate=0.05)
    for replica in (0, 1):
        kept = [look.kept[replica] for look in fitted.history]
        assert kept[-1]["true"] > 0.8
        assert kept[-1]["false"] < kept[-1]["true"] - 0.25
        assert kept[-1]["true"] - kept[-1]["false"] > kept[0]["true"] - kept[0]["false"] + 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"c1": -1.0}, r"c1 must be at least 0, got -1; change \[denoiser\] c1"),
        ({"c2": float("nan")}, "c2 must be a finite number"),
        ({"alpha": 1.5}, r"alpha must be from 0 to 1, got 1.5; change \[denoiser\] alpha"),
        ({"size": 0}, "size must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"blind": "often"}, "blind must be never or first-step or always, got 'often'"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        CrossModelAgreement(**settings)
