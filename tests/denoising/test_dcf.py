"""DCF beside the same rule in plain Python, pair by pair; and each of its promises on its own."""

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from denoiser_worlds import denoised, pair_batch, planted_world, rows_scored, same_bits, softplus, train, world_of
from sampler_worlds import view_with_scores
from scipy import stats
from toy import make_world, toy_world

from pspns.denoising.dcf import DoubleCorrection, LossHistory, Visits
from pspns.denoising.none import NoDenoising
from pspns.denoising.t_ce import TruncatedLoss
from pspns.errors import SettingsError
from pspns.positives.repeated import RepeatedPositives
from pspns.shapes import Negatives, ScoredRows
from pspns.training.epochs import Epochs

LOSSES = ("bpr", "bce")
BATCH = 50  # filled up to 64 rows
WORLD = toy_world(n_users=20, n_items=30, n_pairs=110)
# With two visits of each pair an epoch, often in one batch.
TWICE = make_world(WORLD.train, 20, 30, pairs=RepeatedPositives(copies=2).build(WORLD))
WORLDS, SEEDS = (WORLD, TWICE), (3, 8)
# Values of which a few epochs show something.
FAST = {"drop_rate": 0.4, "ramp_epochs": 1.5, "variance": 0.2, "relabel_share": 0.15, "relabel_epochs": 3.0}


def sigmoid(x):
    return np.exp(-softplus(-x))


@dataclass
class Verdict:
    """What becomes of a batch: sets of rows."""

    kept: set
    left_out: set
    relabelled: set


class SlowCorrection:
    """The rule for one replica, with a dictionary entry for each pair."""

    def __init__(self, settings, loss, n_batches):
        self.settings, self.loss, self.n_batches, self.step = settings, loss, n_batches, 0
        self.visits = defaultdict(list)  # φ of all visits
        self.mean = defaultdict(float)
        self.n_kept = defaultdict(int)
        self.was_kept = defaultdict(lambda: True)

    def take(self, epoch, pair_ids, losses, live) -> Verdict:
        settings = self.settings
        rows = [row for row in range(len(live)) if live[row]]
        keys = {row: pair_ids[row] if settings.history == "pair" else (self.step % self.n_batches, row) for row in rows}
        found = {row: self._bound(epoch, keys[row], losses[row]) for row in rows}  # ℓ* and what is to be noted
        by_size = sorted(rows, key=lambda row: (-found[row][0], row))
        n_worst, n_relabelled = self._counts(epoch, len(rows))
        worst, relabelled = set(by_size[:n_worst]), set(by_size[:n_relabelled])
        assert relabelled <= worst
        keeps_label = settings.relabel == "keep-label"
        kept = set(rows) - worst | (relabelled if keeps_label else set())
        for row in reversed(rows):  # so that of a pair's rows the first is what remains
            _, phi, mean, n_kept = found[row]
            key = keys[row]
            self.mean[key] = mean
            counts = row not in relabelled if keeps_label else row in kept
            self.n_kept[key] = n_kept + counts
            self.was_kept[pair_ids[row]] = row in kept
            if row == min(other for other in rows if keys[other] == key):
                self.visits[key].append(phi)
        self.step += 1
        return Verdict(kept, worst - kept, relabelled)

    def _bound(self, epoch, key, loss):
        settings = self.settings
        phi = math.log(1 + loss + loss**2 / 2)
        if settings.mean == "window":
            last = [*self.visits[key], phi][-settings.window :]
            mean, m, n_kept = sum(last) / len(last), len(self.visits[key]) + 1, self.n_kept[key]
            n = 1 + n_kept
        else:
            is_reset = epoch % settings.window == 0
            before, n_kept = (0.0, 0) if is_reset else (self.mean[key], self.n_kept[key])
            m, n = epoch + 1, 2 + n_kept
            mean = (before * m + phi) / (m + 1)
        variance = settings.variance
        if settings.bound_epochs:
            variance *= np.linspace(1, 0, settings.bound_epochs)[min(epoch, settings.bound_epochs - 1)]
        bound = mean - variance * (m + variance * math.log(2 * m) / m**2) / (n - variance)
        return max(0.0, bound), phi, mean, n_kept

    def _counts(self, epoch, n):
        settings = self.settings
        n *= 2 if self.loss == "bce" else 1
        exactly = lambda value: Fraction(str(value))  # noqa: E731
        length = settings.ramp_steps or exactly(settings.ramp_epochs) * self.n_batches
        share = exactly(settings.drop_rate) * min(Fraction(self.step) / length, Fraction(1))
        n_worst = n - max(1, math.floor((1 - share) * n))
        if settings.relabel == "keep-label":
            return n_worst, math.floor(exactly(settings.relabel_share) * n_worst)
        ratio = exactly(settings.relabel_share) * min(epoch / exactly(settings.relabel_epochs), Fraction(1))
        return n_worst, min(n_worst, math.floor(ratio * n))


@dataclass
class Step:
    """All that one step took and gave."""

    batch: object
    drawn: torch.Tensor  # the sampler's negatives
    scores: torch.Tensor  # [replicas, users, items]
    rows: ScoredRows  # after the exchange
    judged: object


class Training:
    """A denoiser fed by the loader, with random scores that change at every step."""

    def __init__(self, settings, loss="bpr", worlds=WORLDS, seeds=SEEDS):
        self.worlds, self.seeds = worlds, list(seeds)
        self.denoised = denoised(*worlds, batch_size=BATCH, loss=loss)
        self.denoiser = settings.start(self.denoised, seeds)
        self.epochs = Epochs(worlds, BATCH, seeds)

    def random(self, number, *shape):
        """The same for a replica whoever else is there."""
        numbers = [np.random.default_rng([number, self.epochs.step, seed]).random(shape) for seed in self.seeds]
        return torch.from_numpy(np.stack(numbers).astype(np.float32))

    def step(self) -> Step:
        batch = self.epochs.next_batch()
        n_users, n_items = self.denoised.n_users, self.denoised.n_items
        scores = 6 * self.random(0, n_users, n_items) - 3
        drawn = (self.random(1, batch.users.shape[1]) * n_items).long()
        turned, negatives = self.denoiser.choose_positives(batch, Negatives(drawn), view_with_scores(scores))
        own = torch.arange(len(scores))[:, None]
        rows = ScoredRows(
            turned,
            negatives,
            scores[own, turned.users, turned.items].requires_grad_(),
            scores[own, turned.users, negatives.items].requires_grad_(),
        )
        return Step(batch, drawn, scores, rows, self.denoiser.judge(rows))

    def keep(self, places):
        for part in (self.denoiser, self.epochs):
            part.keep(torch.tensor(places))
        self.seeds = [self.seeds[place] for place in places]


VARIANTS = {
    "usual": {},
    "mean alone": {"variance": 0.0},
    "one visit": {"window": 1},
    "much doubt": {"variance": 0.9, "window": 2},
    "in steps": {"ramp_steps": 7},
    "discard": {"relabel": "discard"},
    "keep-label": {"relabel": "keep-label", "relabel_share": 0.3},
    "slots": {"history": "slot"},
    "since reset": {"mean": "since-reset", "window": 2},
    "falling doubt": {"bound_epochs": 4},
    "as published": {
        "relabel": "keep-label", "history": "slot", "mean": "since-reset", "bound_epochs": 5, "relabel_share": 0.3,
    },
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_as_the_rule_in_plain_python(loss, variant):
    settings = DoubleCorrection(**{**FAST, **VARIANTS[variant]})
    training = Training(settings, loss)
    n_batches = training.denoised.batches_an_epoch
    assert n_batches[0] != n_batches[1]
    slow = [SlowCorrection(settings, loss, n) for n in n_batches]
    n_left_out = n_relabelled = n_turned = 0
    for _ in range(5 * max(n_batches)):
        step = training.step()
        for replica, world in enumerate(WORLDS):
            users, items, ids, live = (
                getattr(step.batch, name)[replica].tolist() for name in ("users", "items", "pair_ids", "live")
            )
            drawn, scores = step.drawn[replica].tolist(), step.scores[replica].double().numpy()
            positive, negative = scores[users, items], scores[users, drawn]
            losses = softplus(-positive) if loss == "bce" else softplus(negative - positive)
            verdict = slow[replica].take(int(step.batch.epochs[replica]), ids, losses, live)

            kept = step.judged.kept[replica]
            assert set(kept.nonzero().ravel().tolist()) == verdict.kept
            turned = turned_rows(step, replica, slow[replica], verdict, world) if loss == "bpr" else set()
            flipped = verdict.relabelled if (loss, settings.relabel) == ("bce", "flip") else turned
            check_losses(step, replica, loss, verdict.kept, flipped)
            n_left_out += len(verdict.left_out)
            n_relabelled += len(verdict.relabelled)
            n_turned += len(turned)
    assert n_left_out > 100
    assert n_relabelled > 20
    assert (n_turned > 20) == (settings.relabel == "flip" and loss == "bpr")


def turned_rows(step, replica, slow, verdict, world) -> set:
    """Rows (u, i, j) that have become (u, k, i); all others must be as they were."""
    turned = set()
    for row, live in enumerate(step.batch.live[replica].tolist()):
        before = [int(values[replica, row]) for values in (step.batch.users, step.batch.items, step.drawn)]
        rows, negatives = step.rows.batch, step.rows.negatives.items
        after = [int(values[replica, row]) for values in (rows.users, rows.items, negatives)]
        pair, own = int(rows.pair_ids[replica, row]), int(step.batch.pair_ids[replica, row])
        assert (world.pairs.users[pair], world.pairs.items[pair]) == (after[0], after[1])
        if pair == own:
            assert after == before
            continue
        assert live
        assert row in verdict.relabelled
        assert slow.settings.relabel == "flip"
        assert after[0] == before[0]
        assert after[2] == before[1]
        assert slow.was_kept[pair]
        turned.add(row)
    return turned


def check_losses(step, replica, loss, kept, flipped) -> None:
    """The mean over what is trained, row by row; and rows that are not trained have no part in it."""
    positive, negative = (side[replica].detach().double().numpy() for side in (step.rows.positive, step.rows.negative))
    live = step.batch.live[replica].numpy()
    expected = 0.0
    for row in np.flatnonzero(live):
        if loss == "bpr":
            expected += softplus(negative[row] - positive[row]) * (row in kept or row in flipped)
        else:
            expected += softplus(negative[row])
            expected += softplus(-positive[row]) * (row in kept) + softplus(positive[row]) * (row in flipped)
    n_trained = len(kept | flipped) + (live.sum() if loss == "bce" else 0)
    found = (step.judged.losses[replica].detach().numpy() * live).sum() / live.sum()
    assert found == pytest.approx(expected / n_trained, rel=1e-5)


def fed(settings, pair_ids, losses, *, loss="bpr", world=WORLD, epochs=0, live=1.0, denoiser=None, size=200):
    """One replica's denoiser, after a batch of these pairs with these losses; and what it made of them."""
    denoiser = denoiser or settings.start(denoised(world, batch_size=size, loss=loss), [0])
    # A table of scores can hold one number for a pair; negatives are left at 0.
    batch = pair_batch(world, [list(pair_ids)], epochs=epochs, live=live)
    scores = torch.zeros(world.n_users, world.n_items + 1, dtype=torch.float64)
    scores[batch.users[0], batch.items[0]] = torch.from_numpy(score_of(losses))
    drawn = torch.full_like(batch.items, world.n_items)
    rows, negatives = denoiser.choose_positives(batch, Negatives(drawn), view_with_scores(scores))
    found = (scores[rows.users, items] for items in (rows.items, negatives.items))
    scored = rows_scored(*found, batch=rows, negatives=negatives.items)
    return denoiser, denoiser.judge(scored), scored


def score_of(losses):
    """s with softplus(−s) = loss."""
    return -np.log(np.expm1(np.asarray(losses, np.float64)))


def at_once(**settings):
    """Settings with which the second step already leaves out all that is to be left out."""
    return DoubleCorrection(**{"ramp_steps": 1, "drop_rate": 0.2, **settings})


def warmed(settings, **more):
    """After a step with a pair that is not used again."""
    last = len(more.get("world", WORLD).pairs) - 1
    return fed(settings, [last], [1.0], **more)[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_last_loss_alone_keeps_what_truncated_loss_keeps(loss):
    settings = DoubleCorrection(window=1, variance=0.0, relabel_share=0.0, drop_rate=0.3, ramp_epochs=1.5)
    training = Training(settings, loss)
    truncating = TruncatedLoss(drop_rate=0.3, ramp_epochs=1.5).start(training.denoised, SEEDS)
    for _ in range(20):
        step = training.step()
        expected = truncating.judge(step.rows)
        assert torch.equal(step.judged.kept, expected.kept * step.batch.live)
        live = step.batch.live
        torch.testing.assert_close(step.judged.losses * live, expected.losses * live)
    assert (step.judged.kept * step.batch.live).sum() < 0.75 * step.batch.live.sum()


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_training_by_the_last_loss_alone_is_one_with_truncated_loss(model, loss):
    world = toy_world()
    ramp = {"drop_rate": 0.2, "ramp_epochs": 2.0}
    corrected = train(
        world, DoubleCorrection(window=1, variance=0.0, relabel_share=0.0, **ramp), model=model, loss=loss
    )
    truncated = train(world, TruncatedLoss(**ramp), model=model, loss=loss)
    assert same_bits(corrected, truncated)
    assert [weights.tolist() for weights in corrected.pair_weights] == [
        weights.tolist() for weights in truncated.pair_weights
    ]


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_left_out_is_plain_training_to_the_bit(model, loss):
    world = toy_world()
    plain = train(world, NoDenoising(), model=model, loss=loss)
    assert same_bits(train(world, at_once(drop_rate=0.0), model=model, loss=loss), plain)
    assert not same_bits(train(world, at_once(), model=model, loss=loss), plain)


def kept_by_epoch(settings, orders, losses) -> list[set]:
    """Which pairs are kept in each epoch; `orders` is a list of batches of pairs for each."""
    denoiser, found = None, []
    for epoch, batches in enumerate(orders):
        kept = set()
        for ids in batches:
            denoiser, judged, _ = fed(settings, ids, losses[epoch][ids], epochs=epoch, denoiser=denoiser, size=len(ids))
            kept |= set(np.asarray(ids)[judged.kept[0].bool().numpy()].tolist())
        found.append(kept)
    return found


N_EPOCHS = 6
# What each pair costs in each epoch: something of its own, and luck.
OWN = np.random.default_rng(5).random(len(WORLD.pairs))
COSTS = 0.1 + OWN + 1.5 * np.random.default_rng(6).random((N_EPOCHS, len(WORLD.pairs)))


@pytest.mark.parametrize("history", ["pair", "slot"])
@pytest.mark.parametrize("n_batches", [1, 2])
def test_the_loader_shuffles_what_slots_remember_and_not_what_pairs_do(history, n_batches):
    """One batch of all pairs, or two that are the same but for the order in them."""
    settings = at_once(history=history, relabel="discard", variance=0.1)
    ids = np.arange(len(WORLD.pairs) // 2 * 2).reshape(n_batches, -1)
    rng = np.random.default_rng(7)
    sorted_epochs = kept_by_epoch(settings, [ids] * N_EPOCHS, COSTS)
    shuffled = [[rng.permutation(batch) for batch in ids] for _ in range(N_EPOCHS)]
    same = kept_by_epoch(settings, shuffled, COSTS) == sorted_epochs
    assert same == (history == "pair")
    # The luck of an epoch alone would keep others, so there is something to remember.
    assert kept_by_epoch(at_once(window=1, variance=0.0), [ids] * N_EPOCHS, COSTS) != sorted_epochs


def test_the_order_of_batches_does_not_matter_either():
    settings = at_once(relabel="discard", variance=0.1)
    ids = np.arange(100).reshape(4, 25)
    # The first step leaves nothing out: an epoch of its own, in one batch.
    whole = [[np.arange(100)]]
    one, two = (
        kept_by_epoch(settings, whole + [ids[order] for order in orders], COSTS)
        for orders in ([[0, 1, 2, 3]] * 5, [[3, 1, 0, 2], [2, 0, 1, 3], [1, 3, 2, 0], [0, 2, 3, 1], [3, 2, 1, 0]])
    )
    assert one == two
    assert len(one[0]) == 100
    assert len(one[1]) == 80


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 0, 4, 3, 2]])
def test_of_equal_means_the_one_that_was_kept_less_often_stays(order):
    settings = at_once(window=1, variance=0.3, relabel="discard")
    denoiser = warmed(settings)
    # Of five pairs one goes: 0, then 2.
    first, _, _ = fed(settings, [0, 2, 3, 4, 5], [2.0, 0.1, 0.1, 0.1, 0.1], denoiser=denoiser)
    _, judged, _ = fed(settings, [1, 2, 3, 4, 5], [0.1, 2.0, 0.1, 0.1, 0.1], denoiser=first)
    assert judged.kept[0].tolist() == [1, 0, 1, 1, 1]
    # 0 was left out once, 1 was kept once; now they cost the same, and the most.
    ids = np.array([0, 1, 3, 4, 5])[order]
    _, judged, _ = fed(settings, ids, np.array([1.0, 1.0, 0.1, 0.1, 0.1])[order], denoiser=denoiser)
    assert ids[judged.kept[0].numpy() == 0].tolist() == [1]


def history_of(**settings):
    return LossHistory(denoised(WORLD), 1, DoubleCorrection(**settings))


def bounds(history, ids, losses, epoch=0):
    ids = torch.tensor([ids])
    visits = Visits.of(ids, torch.ones(ids.shape))
    losses = torch.tensor(np.array([losses]), dtype=torch.float32)
    return history.lower_bound(losses, visits, torch.tensor([epoch]))[0].tolist(), visits


def test_losses_are_damped_the_more_the_larger_they_are():
    losses = np.linspace(0.0, 40, 100)
    damped, _ = bounds(history_of(window=1, variance=0.0), [*range(100)], losses)
    np.testing.assert_allclose(damped, np.log(1 + losses + losses**2 / 2), rtol=1e-5)
    assert (np.diff(damped) > 0).all()
    assert (np.array(damped) <= losses + 1e-6).all()
    assert damped[-1] < 7


def test_the_mean_of_a_window_by_hand():
    """φ(1) = ln 2.5, φ(2) = ln 5, φ(4) = ln 13, φ(0) = 0."""
    history = history_of(window=2, variance=0.0)
    found = [bounds(history, [7], [loss])[0][0] for loss in (1.0, 2.0, 4.0, 0.0)]
    means = [math.log(2.5), math.log(2.5 * 5) / 2, math.log(5 * 13) / 2, math.log(13) / 2]
    assert found == pytest.approx(means, rel=1e-5)


def test_the_mean_since_a_reset_by_hand():
    """Forgotten in epochs 0, 2 and 4, and divided by all epochs nevertheless."""
    history = history_of(window=2, variance=0.0, mean="since-reset")
    phi = math.log(2.5)
    found = [bounds(history, [7], [1.0], epoch)[0][0] for epoch in range(5)]
    expected = [phi / 2, (phi / 2 * 2 + phi) / 3, phi / 4, (phi / 4 * 4 + phi) / 5, phi / 6]
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_bound_by_hand():
    """Seen three times, kept once: m = 3, n = 2."""
    history = history_of(window=3, variance=0.1)
    for is_kept in (True, False):
        _, visits = bounds(history, [7], [4.0])
        history.count(torch.tensor([[is_kept]]), visits)
    found = bounds(history, [7], [4.0])[0][0]
    assert found == pytest.approx(math.log(13) - 0.1 * (3 + 0.1 * math.log(6) / 9) / (2 - 0.1), rel=1e-5)
    assert bounds(history_of(variance=0.9), [7], [0.01])[0] == [0.0]  # never below 0


@pytest.mark.parametrize("bound_epochs", [1, 2, 5])
def test_doubt_falls_to_nothing_in_as_many_epochs_as_said(bound_epochs):
    left = [*np.linspace(1, 0, bound_epochs), 0.0, 0.0]
    for epoch, share in enumerate(left):
        found = bounds(history_of(variance=0.2, bound_epochs=bound_epochs), [7], [4.0], epoch)[0][0]
        variance = 0.2 * share
        expected = math.log(13) - variance * (1 + variance * math.log(2)) / (1 - variance)
        assert found == pytest.approx(expected, rel=1e-5)


def test_with_the_published_mean_n_is_forgotten_too_and_begins_at_two():
    history = history_of(window=2, variance=0.1, mean="since-reset")
    phi, m_and_n = math.log(13), [(1, 2), (2, 3), (3, 2), (4, 3)]
    before = 0.0
    for epoch, (m, n) in enumerate(m_and_n):
        before = (phi + (before * m if epoch % 2 else 0)) / (m + 1)
        found, visits = bounds(history, [7], [4.0], epoch)
        history.count(torch.tensor([[True]]), visits)
        assert found[0] == pytest.approx(before - 0.1 * (m + 0.1 * math.log(2 * m) / m**2) / (n - 0.1), rel=1e-5)


def test_the_share_that_is_relabelled_grows_by_epochs_to_its_top():
    """Of 100 positives and 100 negatives. A positive that is flipped is pushed down, one that is left out stays."""
    settings = at_once(drop_rate=0.3, relabel_share=0.1, relabel_epochs=4.0)
    denoiser, losses, counts = warmed(settings, loss="bce"), COSTS[0][:100], []
    for epoch in range(7):
        _, judged, rows = fed(settings, range(100), losses, epochs=epoch, denoiser=denoiser, loss="bce")
        judged.losses.sum().backward()
        is_flipped, is_kept = (rows.positive.grad[0] > 0).numpy(), (judged.kept[0] > 0).numpy()
        assert is_kept.sum() == 40
        assert ((rows.positive.grad[0] < 0).numpy() == is_kept).all()
        assert losses[is_flipped].min(initial=9) > losses[~is_flipped].max()
        counts.append(int(is_flipped.sum()))
    assert counts == [0, 5, 10, 15, 20, 20, 20]


def test_with_bpr_as_many_are_turned_as_find_a_partner():
    settings = at_once(drop_rate=0.3, relabel_share=0.1, relabel_epochs=4.0)
    denoiser, counts = warmed(settings), []
    for epoch in range(7):
        _, judged, rows = fed(settings, range(100), COSTS[0][:100], epochs=epoch, denoiser=denoiser)
        is_turned = rows.batch.pair_ids[0] != torch.arange(100)
        assert not (is_turned & (judged.kept[0] > 0)).any()
        assert int(judged.kept.sum()) == 70
        counts.append(int(is_turned.sum()))
    most = [0, 2, 5, 7, 10, 10, 10]
    assert all(found <= expected for found, expected in zip(counts, most, strict=True))
    assert sum(counts) > 0.9 * sum(most)


def test_no_more_is_relabelled_than_left_out():
    settings = at_once(drop_rate=0.05, relabel_share=0.5, relabel_epochs=1.0)
    _, judged, rows = fed(
        settings, range(100), COSTS[0][:100], epochs=9, denoiser=warmed(settings, loss="bce"), loss="bce"
    )
    judged.losses.sum().backward()
    assert int((rows.positive.grad > 0).sum()) == 10
    assert int((judged.kept == 0).sum()) == 10


def test_a_flipped_row_of_bce_costs_what_a_negative_costs():
    settings = at_once(relabel_share=0.1, relabel_epochs=1.0)
    scores = score_of([3.0, 1.0, 0.5, 0.2, 0.1])
    denoiser = warmed(settings, loss="bce")
    _, judged, rows = fed(settings, range(5), softplus(-scores), epochs=1, denoiser=denoiser, loss="bce")
    # Of ten samples two are left out, the larger of which is flipped: 9 + … are trained, and scaled to 10.
    expected = (np.array([softplus(scores[0]), 0, *softplus(-scores[2:])]) + math.log(2)) / 2 * 10 / 9
    np.testing.assert_allclose(judged.losses.detach()[0], expected, rtol=1e-5)
    assert judged.kept.tolist() == [[0, 0, 1, 1, 1]]
    judged.losses.sum().backward()
    np.testing.assert_allclose(rows.positive.grad[0, 0], sigmoid(scores[0]) / 2 * 10 / 9, rtol=1e-5)


# User 0 has items 0 to 4, user 1 item 5 alone, user 2 items 0 and 1; pairs are numbered in this order.
FEW = world_of([[1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0], [1, 1, 0, 0, 0, 0, 0]])


def flipping(**more):
    return at_once(**{"relabel_share": 0.2, "relabel_epochs": 1.0, "window": 1, "variance": 0.0, **more})


def test_a_flipped_row_of_bpr_stands_against_a_pair_of_the_user_that_was_kept():
    """Of five pairs the dearest goes at every step, and is flipped from the second epoch on."""
    partners = []
    for seed in range(40):
        denoiser = flipping().start(denoised(FEW, batch_size=5), [seed])
        for ids, losses, epoch in (
            ([7], [1.0], 0),
            ([0, 1, 2, 3, 4], [0.1, 0.1, 0.1, 0.1, 3.0], 0),  # 4 is left out
            ([0, 1, 2, 3, 7], [0.1, 3.0, 0.1, 0.1, 0.1], 0),  # 1 is left out
        ):
            fed(None, ids, losses, world=FEW, epochs=epoch, denoiser=denoiser)
        _, judged, rows = fed(None, [0, 2, 3, 5, 7], [3.0, 0.1, 0.1, 0.1, 0.1], world=FEW, epochs=1, denoiser=denoiser)
        assert judged.kept.tolist() == [[0, 1, 1, 1, 1]]
        partner = int(rows.batch.pair_ids[0, 0])
        partners.append(partner)
        assert rows.batch.users[0].tolist() == [0, 0, 0, 1, 2]
        assert rows.batch.pair_ids[0, 1:].tolist() == [2, 3, 5, 7]
        if partner != 0:
            assert int(rows.batch.items[0, 0]) == FEW.pairs.items[partner]
            assert int(rows.negatives.items[0, 0]) == FEW.pairs.items[0]
            # The partner costs 0.1 beside an item at 0, the other 3.
            margin = score_of(0.1) - score_of(3.0)
            assert float(judged.losses.detach()[0, 0]) == pytest.approx(softplus(-margin), rel=1e-5)
        else:
            assert judged.losses[0, 0] == 0
    # Eight draws among five pairs miss both 2 and 3 once in sixty times; ten misses in forty have a chance of 10⁻⁹.
    assert set(partners) <= {0, 2, 3}
    assert {2, 3} <= set(partners)
    assert partners.count(0) < 10


def test_a_flipped_row_is_remembered_as_its_own_pair_and_not_as_its_partner():
    settings = flipping(window=2)
    denoiser = warmed(settings, world=FEW)
    fed(settings, [0, 1, 2, 3, 5], [3.0, 0.1, 0.1, 0.1, 0.1], world=FEW, epochs=1, denoiser=denoiser)
    _, _, rows = fed(settings, [0, 5, 6, 7, 4], [2.0, 0.1, 0.1, 0.1, 0.1], world=FEW, epochs=1, denoiser=denoiser)
    assert int(rows.batch.pair_ids[0, 0]) in (1, 2, 3, 4)
    state = denoiser.state()
    assert state["n_seen"][0].tolist() == [2, 1, 1, 1, 1, 2, 1, 2]
    np.testing.assert_allclose(state["last"][0, 0], [math.log(1 + 3 + 4.5), math.log(1 + 2 + 2)], rtol=1e-5)
    np.testing.assert_allclose(state["last"][0, 1:5].amax(-1), np.full(4, math.log(1.105)), rtol=1e-5)
    assert state["was_kept"][0].tolist() == [False] + 7 * [True]


def test_who_has_no_other_pair_that_was_kept_is_left_out():
    """The only pair of user 1; and one of user 2, whose other one has just been left out."""
    settings = flipping()
    denoiser = warmed(settings, world=FEW)
    _, judged, rows = fed(settings, [5, 0, 1, 2, 3], [3.0, 0.1, 0.1, 0.1, 0.1], world=FEW, epochs=1, denoiser=denoiser)
    assert rows.batch.pair_ids[0].tolist() == [5, 0, 1, 2, 3]
    assert judged.losses[0, 0] == 0
    assert judged.kept.tolist() == [[0, 1, 1, 1, 1]]
    assert float(judged.losses.detach()[0, 1]) == pytest.approx(0.1 * 5 / 4, rel=1e-5)
    fed(settings, [6, 0, 1, 2, 3], [3.0, 0.1, 0.1, 0.1, 0.1], world=FEW, denoiser=denoiser)
    _, judged, rows = fed(settings, [7, 0, 1, 2, 3], [3.0, 0.1, 0.1, 0.1, 0.1], world=FEW, epochs=1, denoiser=denoiser)
    assert int(rows.batch.pair_ids[0, 0]) == 7
    assert judged.losses[0, 0] == 0


def test_no_pair_is_its_own_partner_though_another_row_of_it_was_kept():
    """Pair 5 is all that user 1 has; beside item 0 it costs little, beside item 1 the most."""
    denoiser = warmed(flipping(), world=FEW)
    batch, drawn = pair_batch(FEW, [[5, 5, 6, 7, 4]], epochs=1), torch.tensor([[0, 1, 6, 6, 6]])
    scores = torch.zeros(FEW.n_users, FEW.n_items)
    scores[1, :2] = torch.tensor([-3.0, 3.0])
    rows, negatives = denoiser.choose_positives(batch, Negatives(drawn), view_with_scores(scores))
    assert torch.equal(rows.pair_ids, batch.pair_ids)
    assert torch.equal(negatives.items, drawn)
    judged = denoiser.judge(rows_scored(torch.zeros(5), torch.zeros(5), batch=rows))
    assert judged.kept.tolist() == [[1, 0, 1, 1, 1]]
    assert judged.losses[0, 1] == 0


def test_a_partner_was_kept_as_a_pair_also_where_slots_are_remembered():
    """Pair 1 is left out at place 2 of its batch: it is no partner, and pair 2 is one."""
    settings = flipping(history="slot")
    partners = []
    for seed in range(40):
        denoiser = settings.start(denoised(FEW, batch_size=5), [seed])
        fed(None, [7], [1.0], world=FEW, denoiser=denoiser)
        fed(None, [3, 0, 1, 4, 2], [0.1, 0.1, 3.0, 0.1, 0.1], world=FEW, denoiser=denoiser)
        _, _, rows = fed(None, [0, 5, 6, 7, 7], [3.0, 0.1, 0.1, 0.1, 0.1], world=FEW, epochs=1, denoiser=denoiser)
        partners.append(int(rows.batch.pair_ids[0, 0]))
    # One of the three is never drawn three times in ten million.
    assert set(partners) - {0} == {2, 3, 4}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_discarded_is_left_out_as_if_nothing_were_relabelled(loss):
    discarding, plain = (
        Training(DoubleCorrection(**{**FAST, **more}), loss)
        for more in ({"relabel": "discard", "relabel_share": 0.3}, {"relabel_share": 0.0})
    )
    for _ in range(20):
        one, two = discarding.step(), plain.step()
        assert torch.equal(one.judged.kept, two.judged.kept)
        assert torch.equal(one.judged.losses, two.judged.losses)
        assert torch.equal(one.rows.batch.pair_ids, one.batch.pair_ids)
    assert (one.judged.kept * one.batch.live).sum() < 0.7 * one.batch.live.sum()


@pytest.mark.parametrize("loss", LOSSES)
def test_as_published_the_worst_of_the_worst_keep_their_label(loss):
    """Of 100 rows 20, or with bce 40, are the worst, and of these a tenth are trained, from the first epoch on."""
    settings = at_once(relabel="keep-label", relabel_share=0.1)
    losses = np.random.default_rng(1).permutation(np.linspace(0.1, 3, 100))
    _, judged, rows = fed(settings, range(100), losses, denoiser=warmed(settings, loss=loss), loss=loss)
    n_worst, n_back = (40, 4) if loss == "bce" else (20, 2)
    by_size = np.argsort(-losses)
    expected = np.ones(100)
    expected[by_size[n_back:n_worst]] = 0
    assert judged.kept[0].tolist() == expected.tolist()
    judged.losses.sum().backward()
    assert ((rows.positive.grad[0] < 0).numpy() == (expected > 0)).all()


def test_as_published_n_counts_the_visits_of_those_that_are_not_taken_back():
    settings = at_once(relabel="keep-label", relabel_share=0.5, drop_rate=0.4)
    denoiser = warmed(settings)
    fed(settings, range(5), [3.0, 2.0, 0.1, 0.1, 0.1], denoiser=denoiser)  # 0 is taken back, 1 is left out
    assert denoiser.state()["n_kept"][0, :5].tolist() == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("history", ["pair", "slot"])
def test_a_pair_that_is_twice_in_a_batch_is_noted_once(history):
    settings = at_once(window=3, history=history)
    denoiser = warmed(settings)
    ids = torch.tensor([[4, 9, 4, 4, 2]])
    scores = np.zeros((WORLD.n_users, WORLD.n_items))
    batch = pair_batch(WORLD, ids)
    negatives = Negatives(torch.tensor([[5, 6, 7, 8, 9]]))  # so that even equal pairs cost different amounts
    scores[batch.users[0], negatives.items[0]] += [1, 2, 3, 4, 5]
    denoiser.choose_positives(batch, negatives, view_with_scores(scores))
    n_seen = denoiser.state()["n_seen"][0]
    if history == "slot":
        assert n_seen[:5].tolist() == [2, 1, 1, 1, 1]
        return
    assert n_seen[[4, 9, 2]].tolist() == [1, 1, 1]
    assert int(n_seen.sum()) == 4
    loss = softplus(scores[batch.users[0, 0], 5] - scores[batch.users[0, 0], batch.items[0, 0]])
    assert float(denoiser.state()["last"][0, 4, 0]) == pytest.approx(math.log(1 + loss + loss**2 / 2), rel=1e-5)


def test_dead_rows_are_not_remembered_wherever_they_stand():
    settings = at_once()
    denoiser = warmed(settings)
    live = [0.0, 1, 1, 0, 1, 1, 1]
    _, judged, _ = fed(
        settings, [4, 4, 5, 6, 7, 8, 9], [0.1, 0.1, 0.2, 9.0, 1.0, 0.3, 0.4], denoiser=denoiser, live=live
    )
    assert judged.kept.tolist() == [[0, 1, 1, 0, 0, 1, 1]]
    assert denoiser.state()["n_seen"][0, 4:10].tolist() == [1, 1, 0, 1, 1, 1]
    assert denoiser.state()["n_kept"][0, 4:10].tolist() == [1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("loss", LOSSES)
def test_one_row_stays_in_a_batch_of_one(loss):
    settings = at_once(drop_rate=0.9)
    _, judged, rows = fed(settings, [3], [5.0], denoiser=warmed(settings, loss=loss), loss=loss)
    judged.losses.sum().backward()
    if loss == "bpr":
        assert judged.kept.tolist() == [[1]]
        assert float(judged.losses.detach()) == pytest.approx(5.0)
    else:  # one sample of the two: the negative
        assert judged.kept.tolist() == [[0]]
        assert float(judged.losses.detach()) == pytest.approx(math.log(2))
        assert rows.positive.grad.tolist() == [[0]]


def steps(training, n=10) -> list:
    return [training.step() for _ in range(n)]


def are_same(one: list, two: list, places=slice(None)) -> bool:
    """All that steps gave; `places` are the replicas of the first that the second has."""
    found = [
        [[getattr(step.judged, name)[place] for name in ("losses", "kept")] for step in of_one]
        for of_one, place in ((one, places), (two, slice(None)))
    ]
    rows = [
        [[step.rows.batch.pair_ids[place], step.rows.negatives.items[place]] for step in of_one]
        for of_one, place in ((one, places), (two, slice(None)))
    ]
    return all(
        torch.equal(*pair)
        for first, second in zip([*found[0], *rows[0]], [*found[1], *rows[1]], strict=True)
        for pair in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_goes_on_from_a_state_in_the_middle_of_an_epoch(loss, variant):
    settings = DoubleCorrection(**{**FAST, **VARIANTS[variant]})
    training = Training(settings, loss)
    before = steps(training)
    assert all(10 % n for n in training.denoised.batches_an_epoch)
    state = training.denoiser.state()
    copied = {name: tensor.clone() for name, tensor in state.items()}
    after = steps(training)
    assert all(torch.equal(state[name], tensor) for name, tensor in copied.items())  # no window on what goes on
    resumed = Training(settings, loss)
    resumed.epochs.seek(10)
    resumed.denoiser.load_state(state)
    assert are_same(after, steps(resumed))
    forgetful = Training(settings, loss)
    forgetful.epochs.seek(10)
    assert not are_same(after, steps(forgetful))
    assert not are_same(before, after)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("replica", [0, 1])
def test_a_replica_that_stays_goes_on_as_if_nobody_had_left(replica, variant):
    settings = DoubleCorrection(**{**FAST, **VARIANTS[variant]})
    whole, smaller = Training(settings), Training(settings)
    steps(whole), steps(smaller)
    smaller.keep([replica])
    assert are_same(steps(whole), steps(smaller), [replica])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("replica", [0, 1])
def test_a_replica_is_judged_alone_as_in_company(replica, variant):
    settings = DoubleCorrection(**{**FAST, **VARIANTS[variant]})
    whole = Training(settings)
    alone = Training(settings, worlds=WORLDS[replica : replica + 1], seeds=SEEDS[replica : replica + 1])
    assert are_same(steps(whole, 16), steps(alone, 16), [replica])


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_training_reports_random_positives_as_left_out(model, loss):
    """If which pairs go had nothing to do with noise, this would fail in all but one of 10⁹ worlds."""
    world, is_false = planted_world()
    n_batches = -(-len(world.pairs) // 100)
    settings = at_once(drop_rate=0.1, relabel_epochs=5.0)
    more = {"steps": 20 * n_batches, "evaluate_every": n_batches, "seeds": [0]}
    weights = train(world, settings, model=model, loss=loss, **more).pair_weights[0]
    assert set(weights) == {0.0, 1.0}  # an epoch lies between two looks, and flipped pairs keep no say either
    is_dropped = weights == 0
    sizes = [100] * (n_batches - 1) + [len(world.pairs) - 100 * (n_batches - 1)]
    twice = 2 if loss == "bce" else 1
    assert is_dropped.sum() == sum(twice * n - math.floor(Fraction(9, 10) * twice * n) for n in sizes)
    p = stats.hypergeom.sf((is_dropped & is_false).sum() - 1, len(is_false), is_false.sum(), is_dropped.sum())
    assert p < 1e-9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drop_rate": 1.0}, r"drop_rate must be at least 0 and below 1, got 1; change \[denoiser\] drop_rate"),
        ({"ramp_epochs": -1.0}, r"ramp_epochs must be above 0, got -1; change \[denoiser\] ramp_epochs"),
        ({"ramp_steps": 0}, r"ramp_steps must be at least 1, got 0; change \[denoiser\] ramp_steps"),
        ({"window": 0}, r"window must be at least 1, got 0; change \[denoiser\] window"),
        ({"variance": -0.1}, r"variance must be at least 0, got -0.1; change \[denoiser\] variance"),
        ({"variance": 1.0}, r"variance must be below 1, got 1; change \[denoiser\] variance"),
        ({"relabel_share": 1.0}, r"relabel_share must be below 1, got 1; change \[denoiser\] relabel_share"),
        ({"relabel_share": float("nan")}, r"relabel_share must be a finite number, got nan"),
        ({"relabel_epochs": 0.0}, r"relabel_epochs must be above 0, got 0; change \[denoiser\] relabel_epochs"),
        ({"bound_epochs": 0}, r"bound_epochs must be at least 1, got 0; change \[denoiser\] bound_epochs"),
        ({"relabel": "code"}, r"relabel must be flip or discard or keep-label, got 'code'; change \[denoiser\]"),
        ({"history": "user"}, r"history must be pair or slot, got 'user'; change \[denoiser\] history"),
        ({"mean": "all"}, r"mean must be window or since-reset, got 'all'; change \[denoiser\] mean"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingsError, match=message):
        DoubleCorrection(**settings)
