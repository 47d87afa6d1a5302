"""Every denoiser of the folder at work in a training: with either model, in company, beside every other part.

What needs a GPU is at the end. On a machine that has little beside torch:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/denoising/test_training.py`
"""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
import torch
from denoiser_cases import CASES, USUAL
from denoiser_worlds import MODELS, same_bits, train
from safetensors.torch import load_file
from toy import CPU, given_split, make_world, toy_world

from pspns.components import find_part, part_name, part_names
from pspns.denoising.none import NoDenoising
from pspns.errors import SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.memory import MemoryBudget
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.observed import ObservedPositives
from pspns.positives.psp import PspPositives
from pspns.positives.repeated import RepeatedPositives
from pspns.run import build_world, make_split, run, run_together
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.starts.normal import NormalStart
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer
from pspns.weightings.log import LogWeighting

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DATA = given_split(60, 40, 600)
STEPS = 16  # five epochs of the observed pairs, two of the others


@pytest.fixture(params=MODELS)
def model(request):
    return request.param


def settings_of(name: str, model: str = "mf", device: str = "cpu", steps: int = STEPS, **changes) -> Settings:
    """Of a case of the contract."""
    denoiser, loss = CASES[name]
    common = Settings(
        denoiser=denoiser,
        model=MODELS[model],
        start=NormalStart(),
        training=TrainingSettings(loss=loss, batch_size=128, learning_rate=0.05, steps=steps, evaluate_every=6),
        evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=10),
        run=RunSettings(device=device, seeds=(0, 1), baselines=False),
    )
    return dataclasses.replace(common, **changes)


def fitted(*members: Settings, **more):
    return [one.model.fitted for one in run_together(DATA, members, judge_test=False, **more)]


def company(name: str, model: str, device: str = "cpu", steps: int = STEPS) -> list[Settings]:
    """Members with other pairs and weights, whose epochs end at different steps."""
    return [
        settings_of(name, model, device, steps, positives=ObservedPositives()),
        settings_of(name, model, device, steps, positives=PspPositives(rank=8), weighting=LogWeighting()),
    ]


@cache
def alone(name: str, model: str, device: str = "cpu"):
    """The fitted models of the company, each trained by itself."""
    return [fitted(settings)[0] for settings in company(name, model, device)]


@cache
def world_for(settings: Settings):
    protocol = find_protocol(settings.run.protocol)
    return build_world(make_split(DATA, settings, protocol), settings, protocol, MemoryBudget(CPU))


def plain(name: str) -> str:
    """The case of no denoiser with the same loss."""
    return f"none, {CASES[name][1]}"


def distance(found, expected) -> float:
    """Of two models' tables, beside the length of the second's."""
    one, two = (torch.cat([each.scorer.users, each.scorer.items]).double().cpu() for each in (found, expected))
    return float((one - two).norm() / two.norm())


def assert_same(found, expected) -> None:
    """Every bit of the model, of what pairs kept, and of the history, but the time it took."""
    assert same_bits(found, expected)
    histories = [[dataclasses.replace(look, seconds=0) for look in one.history] for one in (found, expected)]
    assert histories[0] == histories[1]
    assert len(found.pair_weights) == len(expected.pair_weights)
    assert all(map(np.array_equal, found.pair_weights, expected.pair_weights))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
def test_trains_and_says_what_it_kept(device, name, model):
    is_plain = CASES[name][0] == NoDenoising()
    n_pairs = [len(world_for(settings).pairs) for settings in company(name, model)]
    assert n_pairs[0] < n_pairs[1]
    for found, without, n in zip(alone(name, model, device), alone(plain(name), model, device), n_pairs, strict=True):
        assert all(math.isfinite(loss) for look in found.history for loss in look.losses.values())
        assert (distance(found, without) > 1e-4) != is_plain
        assert [look.step for look in found.history] == [6, 12, 16]
        for look in found.history:
            assert list(look.kept) == ([] if is_plain else [0, 1])
            for own in look.kept.values():
                assert list(own) == ["all"]
                assert 0 < own["all"] <= 1.25
        assert [weights.shape for weights in found.pair_weights] == ([] if is_plain else [(n,), (n,)])
        for weights in found.pair_weights:
            assert np.isfinite(weights).all()
            assert weights.min() >= 0


@pytest.mark.parametrize("name", CASES)
def test_members_whose_epochs_end_at_different_steps_come_out_as_they_would_alone(name, model):
    members = fitted(*company(name, model))
    begun = [one.history[-1].epochs for one in members]
    assert min(begun[0].values()) > max(begun[1].values()) > 1
    for found, expected in zip(members, alone(name, model), strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize("name", USUAL)
def test_who_trains_twice_is_told_of(name):
    told = []
    fitted(settings_of(name, steps=1), say=told.append)
    twice = f"{part_name('denoisers', CASES[name][0])} trains twice, first a plain model, then its own"
    assert sum(line.startswith(twice) for line in told) == getattr(CASES[name][0], "needs_teacher", False)


def leaving_at(last_look: int):
    """Validation that is better at each of the first looks; with patience 1 the replica leaves at the next one."""
    looks = iter(range(1000))
    return lambda scorer, place: {"recall@20": min(next(looks), last_look)}


@pytest.mark.parametrize("name", [name for name in CASES if not getattr(CASES[name][0], "needs_teacher", False)])
def test_replicas_that_leave_do_not_touch_the_others(name, model):
    """One after the other, and not in the order of the axis; the second has longer epochs."""
    world, (denoiser, loss) = toy_world(), CASES[name]
    twice = make_world(world.train, world.n_users, world.n_items, pairs=RepeatedPositives(copies=2).build(world))
    settings = TrainingSettings(loss=loss, batch_size=64, learning_rate=0.02, evaluate_every=4, patience=1)
    lots = [(world, 4, 1), (twice, 2, 3), (world, 0, 2)]  # pairs, seed, last look that is better

    def trained(*lots):
        members = [Member(pairs, NormalStart(), 1e-4, [seed], leaving_at(last)) for pairs, seed, last in lots]
        trainer = Trainer(members, UniformNegatives(), settings, "recall@20", lambda *_: None, denoiser=denoiser)
        return MODELS[model].fit(world, trainer)

    found = trained(*lots)
    assert found.steps == [12, 20, 16]
    for replica, lot in enumerate(lots):
        expected = trained(lot)
        assert torch.equal(found.scorer.users[:, replica], expected.scorer.users[:, 0])
        assert torch.equal(found.scorer.items[:, replica], expected.scorer.items[:, 0])
        assert [look.kept.get(replica) for look in found.history if replica in look.metrics] == [
            look.kept.get(0) for look in expected.history
        ]
        assert all(map(np.array_equal, found.pair_weights[replica : replica + 1], expected.pair_weights))


# Large enough that torch does split the work, also sums over the rows of a batch; four batches are an epoch.
LARGE = given_split(1300, 1100, 1600, held_out=np.array([(0, 1, 1), (1, 2, 2)]))


def state_after(folder, n_steps: int, name: str, model: str, threads: int) -> dict[str, torch.Tensor]:
    """All that a checkpoint holds; of a training before the training, its steps are taken to the end."""
    common = settings_of(name)
    settings = dataclasses.replace(
        common,
        model=dataclasses.replace(MODELS[model], embedding_size=64),
        training=dataclasses.replace(common.training, batch_size=1024, steps=8, evaluate_every=8),
        run=RunSettings(device="cpu", threads=threads),
    )
    passes = [1] if getattr(common.denoiser, "needs_teacher", False) else [0]

    def stop(step, last_step, evaluation):
        passes[0] -= step == last_step
        if step == n_steps and not passes[0]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(LARGE, settings, judge_test=False, checkpoints=folder, watch=stop)
    (path,) = folder.glob("*.safetensors")
    return load_file(path)


@pytest.mark.parametrize("name", CASES)
def test_same_bits_on_one_thread_and_two(name, model, tmp_path):
    """Of the whole state: what a denoiser has learned may not have shown in a step yet."""
    before = torch.get_num_threads()
    try:
        one, two = (state_after(tmp_path / str(threads), 6, name, model, threads) for threads in (1, 2))
    finally:
        torch.set_num_threads(before)
    assert one.keys() == two.keys()
    assert any(key.startswith("denoiser/") for key in one) or "kept/sums" in one or name.startswith("none")
    assert [key for key, tensor in one.items() if not torch.equal(tensor, two[key])] == []


# Beside the other parts


def trains_or_is_refused(name: str, **changes):
    """A few steps, or why not; refused before anything is done."""
    try:
        settings = settings_of(name, steps=4, **changes)
    except SettingsError as error:
        return str(error)
    (found,) = fitted(settings)
    (loss,) = {*map(math.isfinite, found.history[-1].losses.values())}
    assert loss
    return None


@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("negatives", part_names("negatives"))
def test_every_sampler_works_or_is_refused_before_training(name, negatives):
    sampler, (denoiser, loss) = find_part("negatives", negatives)(), CASES[name]
    why = trains_or_is_refused(name, negatives=sampler)
    makes_vectors = getattr(denoiser, "needs_items", False) and not getattr(sampler, "only_items", True)
    if makes_vectors or loss not in (getattr(sampler, "losses", ()) or (loss,)):
        assert f"[negatives] {negatives} as it is set" in why
    else:
        assert why is None


def test_samplers_that_make_vectors_are_refused_only_where_items_are_needed():
    refused = {
        (negatives, name)
        for negatives in ("uniform", "mixgcf", "dens")
        for name in ("none, bpr", "r-ce, bpr", "t-ce, bpr", "bod, bpr", "dcf, bpr", "pld, bpr")
        if trains_or_is_refused(name, negatives=find_part("negatives", negatives)())
    }
    assert refused == {(negatives, name) for negatives in ("mixgcf", "dens") for name in ("dcf, bpr", "pld, bpr")}


@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("positives", part_names("positives"))
def test_every_builder_of_positives(name, positives):
    kind = find_part("positives", positives)
    rank = {"rank": 6} if "rank" in kind.__dataclass_fields__ else {}
    assert trains_or_is_refused(name, positives=kind(**rank)) is None


@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("weighting", part_names("weightings"))
def test_every_weighting(name, weighting):
    assert trains_or_is_refused(name, weighting=find_part("weightings", weighting)()) is None


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][0] != NoDenoising()])
@pytest.mark.parametrize("model", ["ease", "popular", "svd"])
def test_models_without_a_training_loop_are_refused(name, model):
    with pytest.raises(SettingsError, match=rf"{model} has no training loop, so \[denoiser\] .* has no effect"):
        dataclasses.replace(settings_of(name), model=find_part("models", model)())


def test_a_part_from_outside_the_package_does_what_it_says(model):
    """Half the weight in the denoiser, or for every user: the same number, and powers of two round nothing."""
    kind, world = find_part("denoisers", "denoisers_for_tests:COMPONENT"), toy_world()
    half = dataclasses.replace(world, user_weights=np.full(world.n_users, 0.5, np.float32))
    found = train(world, kind(weight=0.5), model=model)
    assert same_bits(found, train(half, NoDenoising(), model=model))
    assert same_bits(train(world, kind(weight=1.0), model=model), train(world, NoDenoising(), model=model))
    assert not same_bits(found, train(world, NoDenoising(), model=model))
    assert [look.kept for look in found.history] == [{0: {"all": 0.5}, 1: {"all": 0.5}}] * 3


# From here on, what runs on a GPU alone.


class Unrecorded:
    """A denoiser that does not let itself be recorded."""

    def __init__(self, part):
        self._part = part

    def __getattr__(self, name):
        return getattr(self._part, name)

    def start(self, world, seeds):
        denoiser = self._part.start(world, seeds)
        denoiser.stays_on_device = False
        return denoiser


@on_gpu
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_comes_close_to_the_cpu(name, model):
    """The same draws, and so the same choices, as long as scores differ by more than rounding."""
    pytest.importorskip("numba", reason="the CPU's loops need numba")
    for cpu, gpu in zip(alone(name, model), alone(name, model, "cuda"), strict=True):
        assert distance(gpu, cpu) < 0.02


@on_gpu
@pytest.mark.parametrize("name", CASES)
def test_recorded_training_equals_training_step_by_step(name, model):
    """Also what happens between recorded steps, at the ends of epochs, must reach the tensors that they read."""
    members = company(name, model, "cuda", steps=30)
    unrecorded = Unrecorded(members[0].denoiser)
    apart = [dataclasses.replace(settings, denoiser=unrecorded) for settings in members]
    for one, two in zip(fitted(*members), fitted(*apart), strict=True):
        assert distance(one, two) < 1e-3
