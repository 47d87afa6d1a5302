"""Masks by brute force, rows that are those of a run, and leaks that do leak."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from toy import given_split, random_pairs

from pspns.data.split import Pairs
from pspns.evaluation.protocol import PROTOCOLS, STRICT
from pspns.experiments import cells
from pspns.experiments.carrying_out import NotTrainedError, carry_out
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment, protocol
from pspns.experiments.reproduction._masks import MASKS, NOT_SPARED, RANDOM, SPARED, TRAIN, TRAIN_VALID, make_masks
from pspns.experiments.reproduction._protocol_section import NEVER_SAW_PSP, mask_share
from pspns.experiments.telling import Telling
from pspns.global_svd import GlobalSvd
from pspns.memory import MemoryBudget
from pspns.rng import ReplicaStream
from pspns.run import build_world, make_split, run

N_USERS, N_ITEMS = 70, 60
CPU = MemoryBudget(torch.device("cpu"))
TERMS = Terms(
    max_steps=20,
    patience=2,
    seeds=2,
    device="cpu",
    changes=(("model.embedding_size", 8), ("training.evaluate_every", 10), ("training.learning_rate", 0.02)),
)


@pytest.fixture(scope="module", autouse=True)
def _few_singular_values():
    """At the default rank a world as small as this comes back whole, and nothing is proposed that is not in train."""
    plain = cells.method_tables

    def of_low_rank(method):
        tables = plain(method)
        return {**tables, "positives": {**tables["positives"], "rank": 5}} if method == "psp-ns" else tables

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cells, "method_tables", of_low_rank)
        yield


@pytest.fixture(scope="module")
def data():
    """Some held-out pairs are of a user or an item that train does not know."""
    train = random_pairs(N_USERS, N_ITEMS, 900, np.random.default_rng(0))
    taken = set(zip(train.users.tolist(), train.items.tolist(), strict=True))
    free = [(u, i) for u in range(N_USERS) for i in range(N_ITEMS) if (u, i) not in taken]
    chosen = np.random.default_rng(1).permutation(len(free))[:400]
    held_out = [(*free[place], 1 + n % 2) for n, place in enumerate(chosen)]
    held_out += [(N_USERS, 3, 2), (N_USERS, 4, 1), (5, N_ITEMS, 2), (6, N_ITEMS, 1)]
    return given_split(N_USERS, N_ITEMS, 900, held_out=np.array(held_out))


@pytest.fixture(scope="module")
def split(data):
    return make_split(data, settings("uniform"), STRICT)


@pytest.fixture(scope="module")
def record(data):
    return json.loads(json.dumps(protocol.measure_masks("a", "toy", data, TERMS, Telling())))


@pytest.fixture(scope="module")
def leaks(data):
    return json.loads(json.dumps(protocol.measure_leaks("b", "toy", data, TERMS, Telling())))


def settings(method, rule="strict"):
    return Cell("toy", "lightgcn", method, rule).settings(TERMS, "toy")


def psp_world(split, rule="strict"):
    return build_world(split, settings("psp-ns", rule), PROTOCOLS[rule], CPU)


def as_set(*parts):
    return {pair for part in parts for pair in zip(part.users.tolist(), part.items.tolist(), strict=True)}


def test_masks_are_those_of_sets(split):
    built = psp_world(split).pairs
    masks = {name: as_set(*known) for name, known in make_masks(split, built, np.random.default_rng(0)).items()}
    train, valid, test, pairs = (as_set(part) for part in (split.train, split.valid, split.test, built))
    assert tuple(masks) == MASKS
    assert masks[TRAIN] == train
    assert masks[TRAIN_VALID] == train | valid
    assert masks[SPARED] == train | (pairs - valid - test)
    assert masks[NOT_SPARED] == train | pairs
    # Sparing decides about held-out pairs and nothing else.
    assert masks[NOT_SPARED] - masks[SPARED] == pairs & (valid | test)
    assert masks[SPARED] < masks[NOT_SPARED]
    assert masks[SPARED] == as_set(split.train, psp_world(split, "published").pairs)


def test_the_random_mask_is_as_large_for_every_user_and_spares_what_is_held_out(split):
    built = psp_world(split).pairs
    one, other = (make_masks(split, built, np.random.default_rng(seed)) for seed in (0, 1))

    def sizes(known):
        return np.bincount([user for user, _ in as_set(*known)], minlength=split.n_users).tolist()

    assert sizes(one[RANDOM]) == sizes(other[RANDOM]) == sizes(one[SPARED])
    assert as_set(*one[RANDOM]) != as_set(*other[RANDOM])
    assert not as_set(*one[RANDOM]) & as_set(split.valid, split.test)
    assert as_set(split.train) < as_set(*one[RANDOM])


def test_random_items_are_uniform_over_what_is_not_taken(split):
    drawn = np.zeros((split.n_users, split.n_items))
    for seed in range(300):
        pairs = protocol.draw_labels(split, np.random.default_rng(seed))
        np.add.at(drawn, (pairs.users, pairs.items), 1)
    wanted = np.bincount(split.test.users[split.test.users < split.n_users], minlength=split.n_users)
    assert (drawn.sum(1) == 300 * wanted).all()
    owned = split.train.matrix(split.n_users, split.n_items).toarray() > 0
    assert (drawn[owned] == 0).all()
    expected = np.broadcast_to(300 * wanted[:, None] / (~owned).sum(1)[:, None], drawn.shape)[~owned]
    assert np.abs(drawn[~owned] - expected).max() < 6 * np.sqrt(expected.max())


@pytest.mark.parametrize(
    ("row", "method", "rule", "mask"),
    [
        ("uniform", "uniform", "strict", TRAIN_VALID),
        ("psp-ns", "psp-ns", "strict", TRAIN_VALID),
        ("published", "psp-ns", "published", SPARED),
    ],
)
def test_rows_are_those_of_a_run_to_the_last_bit(record, data, row, method, rule, mask):
    alone = run(data, settings(method, rule))
    for metric in ("recall@20", "precision@20"):
        expected = [ranked.overall[metric] for ranked in alone.model.test]
        assert record["rows"][row]["test"][mask][metric]["per_seed"] == expected
        under_train = [ranked.overall[metric] for ranked in alone.model.test_other_masks["train"]]
        assert record["rows"][row]["test"][TRAIN][metric]["per_seed"] == under_train
    assert record["rows"][row]["best_step"] == alone.model.fitted.best_steps
    if rule == "strict":
        for judged in alone.baselines:
            found = record["rows"][judged.name]["test"][mask]["recall@20"]["per_seed"]
            assert found == [judged.test[0].overall["recall@20"]]


def test_popular_under_every_mask_by_hand(record, split):
    masks = make_masks(split, psp_world(split).pairs, protocol.host_stream(0, "random mask"))
    counts = np.bincount(split.train.items, minlength=split.n_items)
    by_count = sorted(range(split.n_items), key=lambda item: (-counts[item], item))
    test = as_set(split.test)
    for name, known in masks.items():
        masked = as_set(*known)
        recalls = []
        for user in np.unique(split.test.users).tolist():
            wanted = {item for owner, item in test if owner == user}
            best = [item for item in by_count if (user, item) not in masked][:20]
            recalls.append(len(wanted & set(best)) / len(wanted))
        assert record["rows"]["popular"]["test"][name]["recall@20"]["mean"] == pytest.approx(np.mean(recalls))
    difference = record["rows"]["popular"]["spared_minus_train"]
    figures = record["rows"]["popular"]["test"]
    expected = figures[SPARED]["recall@20"]["mean"] - figures[TRAIN]["recall@20"]["mean"]
    assert difference["mean"] == pytest.approx(expected)
    assert difference["low"] <= difference["mean"] <= difference["high"]


def test_sparing_masks_never_lower_recall_and_hiding_the_test_does(record):
    for row in NEVER_SAW_PSP:
        found = {mask: figures["recall@20"]["mean"] for mask, figures in record["rows"][row]["test"].items()}
        assert found[SPARED] >= found[TRAIN]
        assert found[RANDOM] >= found[TRAIN]
        assert found[NOT_SPARED] < found[SPARED]
    assert record["masks"][SPARED]["test_pairs"] == record["masks"][RANDOM]["test_pairs"] == 0
    assert record["masks"][NOT_SPARED]["test_pairs"] > 0
    assert record["masks"][SPARED]["pairs"] == record["masks"][RANDOM]["pairs"]


def test_random_labels_are_judged_by_the_mask_that_spares_them(record, split):
    labels = protocol.draw_labels(split, protocol.host_stream(0, "random labels"))
    masked = as_set(split.train) | (as_set(psp_world(split).pairs) - as_set(labels))
    counts = np.bincount(split.train.items, minlength=split.n_items)
    by_count = sorted(range(split.n_items), key=lambda item: (-counts[item], item))
    recalls, chances = [], []
    for user in np.unique(labels.users).tolist():
        wanted = {item for owner, item in as_set(labels) if owner == user}
        best = [item for item in by_count if (user, item) not in masked][:20]
        recalls.append(len(wanted & set(best)) / len(wanted))
        chances.append(20 / sum((user, item) not in as_set(split.train) for item in range(split.n_items)))
    found = record["random_labels"]
    assert found["rows"]["popular"][SPARED]["recall@20"]["mean"] == pytest.approx(np.mean(recalls))
    assert found["chance"] == pytest.approx(np.mean(chances))
    assert found["rows"]["popular"][SPARED]["recall@20"]["mean"] > found["rows"]["popular"][TRAIN]["recall@20"]["mean"]


def test_rejected_test_pairs_are_never_drawn(split):
    world = build_world(split, settings("uniform"), STRICT, CPU)
    leaking = protocol.rejecting_test(world, split)
    users = torch.arange(split.n_users).repeat(20)[None]

    def drawn(rejected):
        items = rejected.draw_outside(users, 20, ReplicaStream([0], "draws"))[0]
        return as_set(Pairs(users[0].repeat_interleave(20).numpy(), items.flatten().numpy()))

    test = {pair for pair in as_set(split.test) if pair[0] < split.n_users and pair[1] < split.n_items}
    assert test <= drawn(world.rejected)
    assert not test & drawn(leaking.rejected)
    assert not as_set(split.train) & drawn(leaking.rejected)
    assert leaking.pairs is world.pairs


def test_pairs_of_everything_are_what_psp_builds_of_all_parts(split):
    everything = protocol.all_pairs(split)
    held_out = {p for p in as_set(split.valid, split.test) if p[0] < split.n_users and p[1] < split.n_items}
    assert as_set(everything) == as_set(split.train) | held_out
    kept, dropped = protocol.pairs_of_everything(everything, split, settings("psp-ns"), CPU)
    honest = psp_world(split)
    seeing = dataclasses.replace(honest, train=everything, svd=GlobalSvd())
    assert kept.equals(settings("psp-ns").positives.build(seeing))
    assert held_out < as_set(kept)
    assert as_set(dropped) == as_set(kept) - held_out
    world = protocol.world_with(honest, dropped, settings("psp-ns"))
    assert world.train is honest.train
    weights = settings("psp-ns").weighting.weights(np.bincount(dropped.users, minlength=split.n_users))
    assert np.array_equal(world.user_weights, weights)
    assert as_set(split.train, dropped) == {
        (k // split.n_items, k % split.n_items) for k in world.rejected.keys.tolist()
    }


def test_what_saw_the_test_finds_it(record, leaks):
    def recall(found, row):
        return found["rows"][row]["test"][TRAIN_VALID]["recall@20"]["mean"]

    assert recall(leaks, "svd of all") > recall(record, "svd") + 0.1
    assert recall(leaks, "psp-ns of all, kept") > recall(record, "psp-ns")
    assert leaks["held_out_in_pairs_of_all"] > 0
    assert leaks["rows"]["svd of all"]["chosen_on_validation"] == record["rows"]["svd"]["chosen_on_validation"]


def made(plain, plain_masked, published):
    def figures(values):
        return {"recall@20": {"mean": float(np.mean(values)), "per_seed": values}}

    rows = {"uniform": {"test": {TRAIN: figures(plain), SPARED: figures(plain_masked)}}}
    return {"rows": {**rows, "published": {"test": {SPARED: figures(published)}}}}


def test_the_mask_share_is_worked_by_hand():
    share = mask_share(made([0.2, 0.3], [0.3, 0.36], [0.4, 0.4]))
    # Means 25, 33, 40: 8 of 15. Seeds 10 of 20 and 6 of 10: 0.5 and 0.6.
    assert share.share == pytest.approx(8 / 15)
    assert share.spread == pytest.approx(0.1 / 2**0.5)
    assert "[33.00 − 25.00] / [40.00 − 25.00] = 53 % (± 7.1 over seeds)" in share.words()
    assert mask_share(made([0.2], [0.3], [0.4])).words().endswith("= 50 % (one seed)")
    # Of two seeds one has no gain: there is a share of the means, and no deviation.
    assert mask_share(made([0.2, 0.4], [0.3, 0.4], [0.5, 0.3])).words().endswith("= 50 %")
    nothing = mask_share(made([0.3], [0.31], [0.29]))
    assert nothing.share is None
    assert "no gain to share out" in nothing.words()


def test_the_section_shows_what_the_records_have(record, leaks, tmp_path):
    records = Records(tmp_path)
    records.write("protocol-toy", record)
    records.write("protocol-leaks-toy", leaks)
    section = find_experiment("protocol").section(records, ["toy", "ml-1m"])
    assert section.missing == ("protocol-ml-1m", "protocol-leaks-ml-1m")
    assert section.is_shaped_by_test
    recalls, precisions, labels, leaked, *of_missing = section.tables
    for column, mask in enumerate(MASKS):
        shown = recalls.rows[2][1][column]
        expected = record["rows"]["published"]["test"][mask]
        assert (shown.value, shown.record) == (pytest.approx(100 * expected["recall@20"]["mean"]), "protocol-toy")
        assert precisions.rows[2][1][column].value == pytest.approx(100 * expected["precision@20"]["mean"])
    assert all(cell is None for table in of_missing for _, cells in table.rows for cell in cells)
    assert labels.rows[0][1][1].value > 0
    assert leaked.rows[-1][1][1].record == "protocol-leaks-toy"
    words = " ".join(section.words)
    assert mask_share(record).words() in words
    svd = [100 * record["rows"]["svd"]["test"][mask]["recall@20"]["mean"] for mask in (TRAIN, SPARED)]
    assert f"SVD ranking {svd[0]:.2f} → {svd[1]:.2f}" in words
    assert "MovieLens" not in words


def test_a_training_that_reached_the_limit_is_marked(record, leaks, tmp_path):
    records = Records(tmp_path)
    changed = json.loads(json.dumps(record))
    for row, steps in (("uniform", [10, 10]), ("psp-ns", [10, 20])):
        changed["rows"][row]["steps"] = steps
    records.write("protocol-toy", changed)
    records.write("protocol-leaks-toy", leaks)
    recalls, _, _, leaked = find_experiment("protocol").section(records, ["toy"]).tables
    notes = {heads[0]: cells[0].note for heads, cells in recalls.rows}
    assert (notes["RNS"], notes["PSP-NS, built from train alone"]) == ("", "limit")
    assert (notes["EASE"], leaked.rows[0][1][0].note) == ("", "")


@pytest.mark.parametrize("stopped", ["protocol-toy", "protocol-leaks-toy"])
def test_stopped_in_the_middle_it_goes_on_to_the_same_record(data, record, leaks, tmp_path, stopped):
    (job,) = (job for job in find_experiment("protocol").jobs("toy") if job.name == stopped)
    experiment = dataclasses.replace(find_experiment("protocol"), jobs=lambda name: [job])
    records, place = Records(tmp_path / "cells"), tmp_path / "unfinished"

    def stop_at_13(step, last_step, evaluation):
        if step == 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out({"toy": [experiment]}, records, TERMS, lambda name: data, unfinished=place, watch=stop_at_13)
    assert not list(records.folder.glob("*"))
    with pytest.raises(NotTrainedError, match=f"remove {place / stopped}.job"):
        carry_out({"toy": [experiment]}, records, TERMS, lambda name: given_split(70, 60, 901), unfinished=place)
    steps = []
    carry_out(
        {"toy": [experiment]},
        records,
        TERMS,
        lambda name: data,
        unfinished=place,
        watch=lambda step, last_step, evaluation: steps.append(step),
    )
    assert steps[0] == 14
    assert not place.exists()
    whole = record if stopped == "protocol-toy" else leaks
    assert records.find(stopped)["rows"] == whole["rows"]


def test_the_experiment_has_a_job_for_the_masks_and_one_for_the_leaks(data, tmp_path, monkeypatch):
    for measure in ("measure_masks", "measure_leaks"):
        monkeypatch.setattr(protocol, measure, lambda name, *rest: {"job": name})
    records = Records(tmp_path)
    carry_out({"toy": [find_experiment("protocol")]}, records, TERMS, lambda name: data)
    assert {path.stem for path in tmp_path.iterdir()} == {"protocol-toy", "protocol-leaks-toy"}
