"""Steps worked by hand and by the engine, margins by brute force, and words that the figures decide."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from toy import toy_world

from pspns.data.planted import plant
from pspns.denoising._denoising import Denoising
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Terms
from pspns.experiments.records import Records
from pspns.experiments.reproduction import _theory_section as words_of_theory
from pspns.experiments.reproduction import find_experiment, theory
from pspns.experiments.reproduction._margins import (
    Positives,
    State,
    Triples,
    Weighing,
    batch_loss,
    first_order,
    margins,
    mean_change,
    walk,
)
from pspns.experiments.telling import Telling
from pspns.item_sets import ItemSets
from pspns.shapes import Embeddings, ModelView, Negatives, PositiveBatch
from pspns.training.objective import objective

TERMS = Terms(
    max_steps=12,
    seeds=2,
    device="cpu",
    changes=(("model.embedding_size", 8), ("training.learning_rate", 0.02), ("training.batch_size", 256)),
)


@pytest.fixture(scope="module")
def truth():
    return plant("clustered", n_users=90, n_items=70, rng=np.random.default_rng(0), mean_preferences=14)


@pytest.fixture(scope="module")
def lab(truth):
    return theory.Lab.of("toy", truth.interactions, TERMS)


@pytest.fixture(scope="module")
def said():
    return []


@pytest.fixture(scope="module")
def record(truth, said):
    telling = Telling(say=said.append)
    return json.loads(json.dumps(theory.measure("theory-toy", "toy", truth.interactions, TERMS, telling)))


def test_every_seed_is_told_three_times(record, said):
    told = [line for line in said if line.startswith("toy, seed ")]
    assert len(told) == 3 * len(record["seeds"])


def random_state(n_users=6, n_items=5, size=3, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return State(*(torch.randn(n, size, generator=rng, dtype=torch.float64) for n in (n_users, n_items)))


def triples(*rows):
    return Triples(*(torch.tensor(column) for column in zip(*rows, strict=True)))


def test_a_step_of_sgd_is_the_closed_form():
    state, (user, item, other) = random_state(), (2, 1, 4)
    weight, rate, l2 = 1.7, 0.3, 0.05
    weighing = Weighing(torch.full((6,), weight, dtype=torch.float64), l2)
    moved = walk(state, [triples((user, item, other))], "sgd", rate, weighing)
    e_u, e_i, e_j = state.users[user], state.items[item], state.items[other]
    missing = torch.sigmoid(-(e_u @ (e_i - e_j)))  # 1 − σ(m)
    expected = {
        "user": e_u + rate * (weight * missing * (e_i - e_j) - l2 * e_u),
        "item": e_i + rate * (weight * missing * e_u - l2 * e_i),
        "other": e_j + rate * (-weight * missing * e_u - l2 * e_j),
    }
    found = {"user": moved.users[user], "item": moved.items[item], "other": moved.items[other]}
    for name, vector in expected.items():
        torch.testing.assert_close(found[name], vector)
    untouched = [number for number in range(6) if number != user]
    assert torch.equal(moved.users[untouched], state.users[untouched])


def test_the_loss_is_the_engines_objective():
    state, size = random_state(), 40
    rng = np.random.default_rng(3)
    users, items, others = (torch.from_numpy(rng.integers(n, size=size)) for n in (6, 5, 5))
    weights = torch.from_numpy(rng.random(6))
    base = Embeddings(state.users[:, None], state.items[:, None])
    batch = PositiveBatch(
        users[None], items[None], torch.zeros_like(users)[None], weights[users][None], torch.ones(1, size),
        torch.zeros(1, dtype=torch.int64),
    )  # fmt: skip
    expected, _ = objective(batch, Negatives(items=others[None]), ModelView(base, base), Denoising("bpr"), 0.2)
    found = batch_loss(state, Triples(users, items, others), Weighing(weights, 0.2))
    torch.testing.assert_close(found, expected[0])


def test_adam_is_blind_to_a_common_factor_and_sgd_is_not():
    state, batches = random_state(), [triples((0, 1, 2), (3, 0, 4)), triples((1, 3, 2), (0, 1, 4))]
    ends = {
        (optimiser, factor): walk(
            state, batches, optimiser, 0.01, Weighing(factor * torch.ones(6, dtype=torch.float64), 0.0)
        )
        for optimiser in ("sgd", "adam")
        for factor in (1.0, 5.0)
    }
    torch.testing.assert_close(ends["adam", 1.0].users, ends["adam", 5.0].users, rtol=1e-5, atol=1e-6)
    moved = [(ends["sgd", factor].users - state.users).norm() for factor in (1.0, 5.0)]
    assert moved[1] > 4 * moved[0]


def test_a_users_l2_divided_by_the_weight_does_to_that_user_what_the_weight_does_under_adam():
    """Of the user's own vector; those of items hear many users."""
    state, batch = random_state(), triples((0, 1, 2), (0, 3, 4))
    weights, l2 = torch.full((6,), 4.0, dtype=torch.float64), 0.3
    alone = torch.ones_like(weights)
    by_weight = walk(state, [batch], "adam", 0.01, Weighing(weights, l2))
    by_l2 = walk(state, [batch], "adam", 0.01, Weighing(alone, l2, l2_of_users=l2 / weights))
    torch.testing.assert_close(by_weight.users, by_l2.users)
    # SGD takes the factor at its word.
    by_weight, by_l2 = (
        walk(state, [batch], "sgd", 0.01, weighing)
        for weighing in (Weighing(weights, l2), Weighing(alone, l2, l2_of_users=l2 / weights))
    )
    torch.testing.assert_close(by_weight.users[0] - state.users[0], 4 * (by_l2.users[0] - state.users[0]))


def test_weights_of_items_alone_leave_users_to_plain_steps():
    state, batch = random_state(), triples((0, 1, 2), (3, 0, 4))
    weights = torch.tensor([3.0, 1.0, 1.0, 0.5, 1.0, 1.0], dtype=torch.float64)
    plain, weighed, alone = (
        walk(state, [batch], "sgd", 0.1, weighing)
        for weighing in (
            Weighing(torch.ones_like(weights), 0.1),
            Weighing(weights, 0.1),
            Weighing(weights, 0.1, items_alone=True),
        )
    )
    torch.testing.assert_close(alone.users, plain.users)
    torch.testing.assert_close(alone.items, weighed.items)
    assert not torch.allclose(plain.users, weighed.users)
    assert not torch.allclose(plain.items, weighed.items)


def test_a_small_step_moves_its_own_margin_by_the_promised_term():
    state, batch = random_state(), triples((2, 1, 4))
    weighing, rate = Weighing(torch.full((6,), 2.5, dtype=torch.float64), 0.0), 1e-5
    moved = walk(state, [batch], "sgd", rate, weighing)
    assert mean_change(state, moved, batch) == pytest.approx(first_order(state, batch, rate, weighing), rel=1e-3)
    doubled = Weighing(2 * weighing.users, 0.0)
    assert first_order(state, batch, rate, doubled) == pytest.approx(2 * first_order(state, batch, rate, weighing))


def test_batches_visit_pairs_by_their_copies_and_draw_what_is_not_rejected():
    world = toy_world()
    copies = np.ones(len(world.pairs), dtype=np.uint8)
    copies[:10] = 20
    pairs = dataclasses.replace(world.pairs, copies=copies)
    positives = Positives(pairs, world.rejected)
    rows = list(positives.batches(20, 500, 0, "rows"))
    users, items, negatives = (
        torch.cat([getattr(one, side) for one in rows]) for side in ("users", "positives", "negatives")
    )
    keys = users * world.n_items + items
    own = torch.from_numpy(pairs.users * world.n_items + pairs.items)
    counts = (keys[:, None] == own[None]).sum(0)
    assert counts.sum() == len(keys) == 10_000
    share = counts[:10].sum() / 10_000
    assert share == pytest.approx(200 / copies.sum(dtype=int), abs=0.03)
    assert not world.rejected.contains(users, negatives).any()
    weights = torch.arange(world.n_users, dtype=torch.float32)
    expected = (copies * pairs.users).sum() / copies.sum(dtype=int)
    assert positives.mean_weight(weights) == pytest.approx(expected)


def test_watched_pairs_are_held_out_ones_against_random_and_against_the_best(lab):
    state = lab.states[0]
    watched = theory.watch_pairs(lab, state, 0)
    split = lab.split
    train = ItemSets(split.n_users, split.n_items, split.train)
    assert len(watched["test"]) == len(split.test)
    assert not train.contains(watched["test"].users, watched["test"].negatives).any()
    assert train.contains(watched["train"].users, watched["train"].positives).all()
    owned = {part: set(zip(pairs.users.tolist(), pairs.items.tolist(), strict=True)) for part, pairs in (
        ("train", split.train), ("valid", split.valid), ("test", split.test),
    )}  # fmt: skip
    scores = state.users @ state.items.T
    best = watched["test, against the best"]
    for user, item, other in zip(
        *(side.tolist() for side in (best.users, best.positives, best.negatives)), strict=True
    ):
        assert (user, item) in owned["test"]
        free = [i for i in range(split.n_items) if not any((user, i) in own for own in owned.values())]
        ranked = sorted(free, key=lambda i: (-float(scores[user, i]), i))
        assert other in ranked[:20]
    assert margins(state, best).mean() < margins(state, watched["test"]).mean()


def test_true_preferences_that_are_watched_are_unseen_and_liked(lab, truth):
    watched = theory.watch_truth(lab, truth, 0)
    likes = truth.preferences.toarray()
    users = lab.split.user_ids[watched.users.numpy()]
    assert likes[users, lab.split.item_ids[watched.positives.numpy()]].all()
    assert not likes[users, lab.split.item_ids[watched.negatives.numpy()]].any()
    train = set(zip(lab.split.train.users.tolist(), lab.split.train.items.tolist(), strict=True))
    found = set(zip(watched.users.tolist(), watched.positives.tolist(), strict=True))
    assert not found & train
    known_items = set(lab.split.item_ids[: lab.split.n_items].tolist())
    n_liked = sum(likes[user, item] for user in lab.split.user_ids[: lab.split.n_users] for item in known_items)
    n_liked_in_train = sum(likes[lab.split.user_ids[u], lab.split.item_ids[i]] for u, i in train)
    assert len(found) == n_liked - n_liked_in_train


def test_the_states_are_those_of_plain_training(lab, truth):
    from pspns.experiments.cells import Cell
    from pspns.run import run

    settings = Cell("toy", "mf", "uniform").settings(TERMS, "toy")
    settings = dataclasses.replace(settings, training=dataclasses.replace(settings.training, steps=12))
    scorer = run(truth.interactions, settings).model.fitted.scorer
    assert lab.n_steps == 12
    for replica, state in enumerate(lab.states):
        assert torch.equal(state.users, scorer.users[:, replica])
        assert torch.equal(state.items, scorer.items[:, replica])
    assert lab.positives["psp"].mean_weight(lab.normalised()) == pytest.approx(1)


def test_weights_of_mean_1_change_the_steps_of_sgd_by_their_factor(record):
    for one in record["one_step"]:
        raw, normalised = (one[kind] for kind in ("psp-ns", "psp-ns, mean 1"))
        factor = raw["mean_weight"] / normalised["mean_weight"]
        assert normalised["mean_weight"] == pytest.approx(1)
        # To first order.
        assert raw["sgd"]["train"]["mean"] / normalised["sgd"]["train"]["mean"] == pytest.approx(factor, rel=0.05)
        assert raw["adam"]["train"]["mean"] == pytest.approx(normalised["adam"]["train"]["mean"], rel=0.05)
        for kind in one.values():
            assert kind["sgd"]["train"]["mean"] > 0


def test_margins_grow_with_the_weight_under_sgd_and_not_under_adam(record):
    assert record["factors"] == [0.5, 1.0, 2.0, 4.0, 8.0]
    by_sgd, by_adam = (words_of_theory.line_of(record, optimiser, "own") for optimiser in ("sgd", "adam"))
    assert by_sgd.is_in_proportion
    assert by_sgd.last_over_plain == pytest.approx(8, rel=0.2)
    assert by_adam.last_over_plain < 2
    for one in record["growth"]:
        assert one["sgd"]["train"]["errors"][1] == 0
        assert one["sgd"]["train"]["errors"][4] > one["sgd"]["train"]["errors"][2] > 0
        assert one["adam"]["train"]["errors"] == [0] * 5


def test_growth_is_watched_in_the_steps_own_rows_of_the_group_alone(lab, monkeypatch):
    seen = []

    def noted(before, after, triples):
        seen.append(triples.users.tolist())
        return 1.0

    monkeypatch.setattr(theory, "mean_change", noted)
    inactive = np.array([3, 5, 8])
    found = theory.growth(lab, lab.states[0], theory.watch_pairs(lab, lab.states[0], 0), inactive, 0)
    assert {user for users in seen for user in users} == {3, 5, 8}
    batches = lab.batches("psp", lab.n_batches, 0)
    own = [[user for user in batch.users.tolist() if user in (3, 5, 8)] for batch in batches]
    assert [users for users in own if users] == [users for users in seen if users in own][: sum(map(bool, own))]
    assert [user for users in own for user in users] in seen  # Adam walks over all of them
    assert found["sgd"]["own"] == {"means": [1.0] * 5, "errors": [0.0] * 5}


def test_walks_without_rows_of_the_group_do_not_count():
    changes = np.array([[np.nan, 1.0, 2.0], [np.nan, 2.0, 4.0], *[[np.nan, 3.0, 3.0]] * 3])
    found = theory._by_factor(changes)
    assert found["means"] == [1.5, 3.0, 3.0, 3.0, 3.0]
    # From factor 1: −1 and −2, deviation 0.5, over √2.
    assert found["errors"][:2] == [pytest.approx(0.5 / 2**0.5), 0.0]
    assert theory._by_factor(np.full((5, 2), np.nan)) == {"means": [], "errors": []}


def test_the_record_has_every_control_and_where_it_came_from(record, truth):
    assert (record["job"], record["model"], record["steps_before"], record["batches"]) == ("theory-toy", "mf", 12, 12)
    assert record["least_active_users"] == 9
    assert record["steps_of_controls"] == 12
    for one in record["controls"]:
        assert set(one) == set(words_of_theory.WEIGHTS)
        by_adam = {name: figures["adam"]["inactive"]["train"] for name, figures in one.items()}
        assert by_adam["t_u"] == pytest.approx(by_adam["t_u, mean 1"], rel=0.02)
        assert by_adam["t_u"] != by_adam["none"]
    assert record["data"]["fingerprint"]
    assert record["settings"]["positives"]["name"] == "psp"


def test_a_straight_line_is_known_by_its_fit():
    factors = (0.5, 1.0, 2.0, 4.0, 8.0)
    # 3 + 2 f: at factor 1 five, at 8 nineteen.
    found = words_of_theory.line(factors, [3 + 2 * factor for factor in factors])
    assert (found.slope, found.r_squared) == (pytest.approx(2 / 5), pytest.approx(1))
    assert found.last_over_plain == pytest.approx(19 / 5)
    assert not found.is_in_proportion  # straight, but by too little
    assert words_of_theory.line(factors, [0.5 + 2 * factor for factor in factors]).is_in_proportion
    assert not words_of_theory.line(factors, [factor**1.5 for factor in factors]).is_in_proportion
    assert not words_of_theory.line(factors, [3 - 0.1 * factor for factor in factors]).is_in_proportion
    assert not words_of_theory.line(factors, [3.0] * 5).is_in_proportion


def made(ours, plain, *, sgd=(0.5, 1, 2, 4, 8), adam=(1, 1, 1, 1, 1), l2=1.0, items=3.0):
    """A record whose figures are given."""

    def step(mean):
        watched = {
            name: {"mean": mean, "error": 1e-7} for name in ("test", "test, against the best", "train", "own", "true")
        }
        return {"mean_weight": 1.0, "promised_of_own": 1e-6, "sgd": watched, "adam": watched}

    def end(train):
        groups = {group: {"train": train, "test": train, "length": 1.0} for group in ("inactive", "others")}
        return {"sgd": groups, "adam": groups}

    kinds = {"observed": plain, "psp": ours, "psp-ns": ours, "psp-ns, mean 1": ours}
    ends = {"none": 1.0, "t_u": 3.0, "t_u, mean 1": 3.0, "l2 / t_u": l2, "t_u for items alone": items}
    return {
        "steps_before": 5,
        "batches": 7,
        "steps_of_controls": 9,
        "factors": [0.5, 1.0, 2.0, 4.0, 8.0],
        "one_step": [{kind: step(mean) for kind, mean in kinds.items()}],
        "growth": [
            {
                optimiser: {pairs: {"means": list(means), "errors": [0.0] * 5} for pairs in ("own", "train", "test")}
                for optimiser, means in (("sgd", sgd), ("adam", adam))
            }
        ],
        "controls": [{name: end(train) for name, train in ends.items()}],
    }


def test_words_say_whether_the_propositions_hold(tmp_path):
    def words(**given):
        records = Records(tmp_path)
        records.write("theory-toy", made(**given))
        return find_experiment("theory").section(records, ["toy"]).words[1:]

    first, second, control = words(ours=3e-6, plain=2e-6)
    assert "widens margins more than one over observed pairs holds:" in first
    assert "SGD, held-out: 3.0 ± 0.1 against 2.0 ± 0.1 millionths" in first
    assert "3.00 times the first-order term" in first
    assert "so it holds; 7 steps of Adam: 1.00 times the change at 8 times the weight" in second
    assert second.count("so it does not hold") == 1
    assert "8.00 ± 0.00 times as large for train pairs" in second
    assert "t_u acts through the items' vectors" in control
    first, second, control = words(ours=2.1e-6, plain=2e-6, sgd=(1, 1, 1.1, 1, 1), l2=3.0, items=1.0)
    # Above, but by less than two errors.
    assert "over observed pairs does not hold:" in first
    assert second.count("so it does not hold") == 2
    assert "So t_u acts as an L2 of each user" in control
    assert "neither" in words(ours=1e-6, plain=2e-6, l2=2.0, items=2.0)[2]


def test_the_section_shows_records_and_names_what_is_missing(record, tmp_path):
    records = Records(tmp_path)
    records.write("theory-toy", record)
    section = find_experiment("theory").section(records, ["toy", "ml-1m"])
    assert section.missing == ("theory-ml-1m", "theory-planted-worlds")
    steps, growth, controls = section.tables[:3]
    shown = steps.rows[0][1][1]
    means = [one["observed"]["sgd"]["test"]["mean"] for one in record["one_step"]]
    errors = [one["observed"]["sgd"]["test"]["error"] for one in record["one_step"]]
    assert shown.value == pytest.approx(1e6 * np.mean(means))
    assert shown.spread == pytest.approx(1e6 * np.hypot(*errors) / 2)
    assert growth.rows[0][1][1].value == pytest.approx(1)
    ends = [one["t_u"]["adam"]["inactive"]["length"] for one in record["controls"]]
    assert controls.rows[1][1][4].value == pytest.approx(np.mean(ends))
    assert all(cell is None for table in section.tables[3:6] for _, cells in table.rows for cell in cells)
    (plot,) = section.plots
    assert plot.name == "theory-toy-growth"
    assert [one.is_guide for one in plot.series] == [True, False, False]
    assert plot.logarithmic_y == all(y > 0 for one in plot.series for y in one.ys)
    assert not section.is_shaped_by_test


def test_planted_worlds_are_measured_once_whatever_the_data(truth, tmp_path, monkeypatch):
    plants = []

    class Small:
        def plant(self):
            plants.append(truth)
            return truth

    planted = {"planted-clustered": Small}
    monkeypatch.setattr(theory, "WORLDS", tuple(planted))
    monkeypatch.setattr(theory, "find_part", lambda kind, name: planted[name])
    monkeypatch.setattr(theory, "measure", lambda name, *rest: made(1.0, 1.0))
    records = Records(tmp_path)
    experiments = [find_experiment("theory")]
    for data_names in (("one", "other"), ("one", "other", "third")):
        carry_out(dict.fromkeys(data_names, experiments), records, TERMS, lambda name: truth.interactions)
    assert len(plants) == 1
    assert records.has("theory-third")
    record = records.find("theory-planted-worlds")
    (world,) = record["worlds"].values()
    assert set(world["builders"]) == set(words_of_theory.BUILDERS)
    assert 0.5 < world["builders"]["observed"]["accuracy"] < 1
    assert world["builders"]["psp"]["coverage"] > world["builders"]["observed"]["coverage"]
    for one in world["one_step"]:
        assert set(one["psp-ns"]["sgd"]) == {"test", "test, against the best", "train", "true", "own"}
    section = find_experiment("theory").section(records, ["one"])
    quality = section.tables[3]
    assert quality.rows[0][1][0].value == pytest.approx(100 * world["builders"]["observed"]["accuracy"])
    assert "cover more of the truth in 1 (planted-clustered)" in section.words[-1]


def test_controls_are_what_might_do_the_same_as_the_weights(lab):
    found = theory.weighings(lab)
    l2 = lab.settings.training.l2
    assert set(found) == set(words_of_theory.WEIGHTS)
    assert (found["none"].users == 1).all()
    assert torch.equal(found["t_u"].users, lab.weights)
    torch.testing.assert_close(found["l2 / t_u"].l2_of_users * lab.weights, torch.full_like(lab.weights, l2))
    assert (found["l2 / t_u"].users == 1).all()
    assert found["t_u for items alone"].items_alone
    assert {weighing.l2 for weighing in found.values()} == {l2}
