"""Held-out data must not touch what is built: scrambling them 200 times changes no bit of it."""

import hashlib
from dataclasses import fields

import numpy as np
import pytest
import torch
from toy import given_split, random_pairs

from pspns import spectral
from pspns.components import find_part, part_names
from pspns.data.interactions import Interactions
from pspns.data.settings import DataSettings
from pspns.data.split import GivenSplit, Part
from pspns.evaluation.protocol import find_protocol
from pspns.memory import MemoryBudget
from pspns.models.ease import Ease
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.models.popular import Popular
from pspns.models.svd import SvdRanking
from pspns.positives._proposals import GlobalPattern
from pspns.positives.agreement import AgreementPositives
from pspns.positives.psp import PspPositives
from pspns.run import build_world, make_split, run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.starts.spectral import SpectralStart
from pspns.training.settings import TrainingSettings
from pspns.weightings.log import LogWeighting

N_USERS, N_ITEMS, N_PAIRS = 25, 20, 120
MEMORY = MemoryBudget(torch.device("cpu"))


def digest(*arrays) -> str:
    sha = hashlib.sha256()
    for array in arrays:
        array = array.cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
        sha.update(str((array.dtype, array.shape)).encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def scrambled(seed: int) -> GivenSplit:
    """Always the same train part; held-out pairs at random, some of users, items or odd ids unknown to train."""
    train = random_pairs(N_USERS, N_ITEMS, N_PAIRS, np.random.default_rng(0))
    users, items = [str(u) for u in train.users], [str(i) for i in train.items]
    parts = [Part.TRAIN] * len(users)
    taken = set(zip(users, items, strict=True))
    rng = np.random.default_rng(1000 + seed)
    for _ in range(int(rng.integers(2, 60))):
        user, item = (str(rng.integers(-3, 2 * n)) for n in (N_USERS, N_ITEMS))
        user, item = (name if rng.random() < 0.9 else f"{rng.choice(['a', '00'])}{name}" for name in (user, item))
        if (user, item) not in taken:
            taken.add((user, item))
            users.append(user), items.append(item), parts.append(Part(int(rng.integers(1, 3))))
    parts[-2:] = [Part.VALID, Part.TEST]
    shuffled = rng.permutation(len(users))
    interactions = Interactions.from_arrays([users[n] for n in shuffled], [items[n] for n in shuffled])
    place = {}
    for user, item, part in zip(users, items, parts, strict=True):
        place[user, item] = part
    ids = zip(interactions.user_ids[interactions.users], interactions.item_ids[interactions.items], strict=True)
    return GivenSplit(interactions, np.array([place[str(u), str(i)] for u, i in ids], np.int8), "scrambled")


def settings(model, protocol="strict", **parts) -> Settings:
    return Settings(
        model=model,
        **parts,
        training=TrainingSettings(steps=12, batch_size=64),
        evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=5),
        run=RunSettings(protocol=protocol, seeds=(0, 1), device="cpu", baselines=False),
    )


def test_the_scrambling_does_scramble():
    splits = [make_split(scrambled(seed), settings(Popular()), find_protocol("strict")) for seed in range(5)]
    assert len({split.fingerprint() for split in splits}) == 5
    assert len({len(split.item_ids) for split in splits}) > 1


MF = MatrixFactorisation(embedding_size=8)
NO_NOISE, NOISE = DataSettings(), DataSettings(noise=0.4)


@pytest.mark.parametrize(
    "chosen",
    [
        settings(MF),
        settings(MF, positives=PspPositives(rank=4), weighting=LogWeighting()),
        settings(MF, positives=AgreementPositives(rank=4), start=SpectralStart()),
        settings(LightGcn(embedding_size=8)),
        settings(LightGcn(embedding_size=8, graph="merged-weighted"), positives=PspPositives(rank=4)),
        settings(SvdRanking(rank=4)),
        settings(Ease(l2=10.0)),
        settings(Popular()),
        settings(LightGcn(embedding_size=8), positives=PspPositives(rank=4), weighting=LogWeighting(), data=NOISE),
    ],
    ids=lambda chosen: (
        f"{type(chosen.model).__name__} on {type(chosen.positives).__name__}{' and noise' * (chosen.data.noise > 0)}"
    ),
)
def test_scrambling_validation_and_test_changes_no_bit_of_what_is_built(chosen):
    found = set()
    for seed in range(200):
        finished = run(scrambled(seed), chosen)
        split = finished.split
        world = build_world(split, chosen, finished.protocol, MEMORY)
        found.add(
            (
                digest([str(i) for i in split.user_ids[: split.n_users]]),
                digest([str(i) for i in split.item_ids[: split.n_items]]),
                digest(split.train.users, split.train.items, split.noise.users, split.noise.items),
                digest(world.pairs.users, world.pairs.items, world.pairs.copies, world.pairs.pair_weights),
                digest(world.rejected.keys, world.user_weights, [] if world.is_false is None else world.is_false),
                digest(*finished.model.fitted.scorer.tensors().values()),
            )
        )
    assert len(found) == 1


def test_noise_takes_held_out_pairs_as_often_as_any_others():
    """A rule that avoided them would tell training what is held out."""
    n_found, n_expected = 0, 0.0
    for seed in range(200):
        split = make_split(scrambled(seed), settings(Popular(), data=NOISE), find_protocol("strict"))
        held_out = {
            pair
            for part in (split.valid, split.test)
            for pair in zip(part.users, part.items, strict=True)
            if pair[0] < split.n_users and pair[1] < split.n_items
        }
        noise = set(zip(split.noise.users, split.noise.items, strict=True))
        n_found += len(noise & held_out)
        n_free = split.n_items - np.bincount(split.clean_train.users, minlength=split.n_users)
        given = np.bincount(split.noise.users, minlength=split.n_users)
        n_expected += sum(given[user] / n_free[user] for user, _ in held_out)
    assert n_expected > 100
    assert abs(n_found - n_expected) < 4 * n_expected**0.5


def test_scrambling_changes_no_bit_of_what_is_trained_with_any_negatives():
    # Small pools, an early end of IRGAN's warm-up and a target that AHNS's scores reach, so that twelve steps show the
    # difference between samplers.
    small = {
        "ahns": {"beta": 0.0},
        "dns-m-n": {"candidates": 4},
        "irgan": {"warm_up": 1},
        "srns": {"memory": 2, "fresh": 3},
    }
    found = {}
    for name in part_names("negatives"):
        part = find_part("negatives", name)(**small.get(name, {}))
        chosen = settings(LightGcn(embedding_size=8), positives=PspPositives(rank=4), negatives=part)
        trained = (run(scrambled(seed), chosen).model.fitted.scorer for seed in range(10))
        found[name] = {digest(*scorer.tensors().values()) for scorer in trained}
    assert {name: len(digests) for name, digests in found.items()} == dict.fromkeys(found, 1)
    assert len(set.union(*found.values())) == len(found), "samplers that all choose the same would prove little"


def worlds_found(protocol: str, builders: dict, n: int, data: DataSettings = NO_NOISE) -> dict[str, set[str]]:
    """Builder → the different worlds that `n` scramblings make of it."""
    found = {name: set() for name in builders}
    for seed in range(n):
        split = make_split(scrambled(seed), settings(Popular(), protocol, data=data), find_protocol(protocol))
        for name, builder in builders.items():
            chosen = settings(Popular(), protocol, positives=builder, weighting=LogWeighting(), data=data)
            world = build_world(split, chosen, find_protocol(protocol), MEMORY)
            built = [getattr(world.pairs, field.name) for field in fields(world.pairs)]
            found[name].add(digest(*built, world.user_weights, world.rejected.keys, world.n_dropped))
    return found


def all_builders() -> dict:
    parts = {name: find_part("positives", name) for name in part_names("positives")}
    return {name: part(rank=4) if issubclass(part, GlobalPattern) else part() for name, part in parts.items()}


@pytest.mark.parametrize("data", [NO_NOISE, NOISE], ids=["", "and noise"])
def test_scrambling_changes_no_bit_of_any_positives(data):
    found = worlds_found("strict", all_builders(), 200, data)
    assert {name: len(worlds) for name, worlds in found.items()} == dict.fromkeys(found, 1)
    assert len(set.union(*found.values())) == len(found), "builders that all make the same would prove little"


def test_scrambling_changes_no_bit_of_what_the_randomized_svd_proposes(monkeypatch):
    exact = worlds_found("strict", {"psp": PspPositives(rank=4)}, 1)
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    monkeypatch.setattr(spectral, "POWER_PASSES", 0)  # or so small a matrix would be decomposed exactly anyway
    found = worlds_found("strict", {"psp": PspPositives(rank=4)}, 200)
    assert len(found["psp"]) == 1
    assert found != exact


def test_the_canary_hears_the_published_rule_drop_held_out_pairs():
    found = worlds_found("published", {"psp": PspPositives(rank=4)}, 5)
    assert len(found["psp"]) > 1


def test_the_order_of_rows_changes_nothing():
    given = given_split(N_USERS, N_ITEMS, N_PAIRS)
    pairs = given.interactions
    rng = np.random.default_rng(0)
    digests = set()
    for _ in range(5):
        order = rng.permutation(len(pairs))
        shuffled = Interactions.from_arrays(pairs.user_ids[pairs.users[order]], pairs.item_ids[pairs.items[order]])
        finished = run(shuffled, settings(MatrixFactorisation(embedding_size=8)))
        digests.add(digest(*finished.model.fitted.scorer.tensors().values(), finished.split.test.items))
    assert len(digests) == 1


def test_the_canary_can_sing():
    """A model that peeks at the test part is caught by the same comparison."""
    digests = set()
    for seed in range(3):
        split = make_split(scrambled(seed), settings(Popular()), find_protocol("strict"))
        digests.add(digest(np.bincount(split.test.items, minlength=len(split.item_ids))[: split.n_items]))
    assert len(digests) > 1
