"""What a run would take: bytes against real tensors, seconds against a clock that only we move."""

import dataclasses
import random
import tempfile
import tracemalloc
import weakref

import numpy as np
import pytest
import torch
from denoiser_cases import CASES
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from toy import CPU, given_split, make_world, random_pairs, toy_world

import pspns.training.trainer as trainer_module
from pspns.components import find_part, part_names
from pspns.data.split import GivenSplit
from pspns.data.splits.none import NoSplit
from pspns.denoising.bod import BilevelWeights
from pspns.denoising.dcf import DoubleCorrection
from pspns.denoising.deca import CrossModelAgreement
from pspns.denoising.deca_p import AgreeingWithTeacher, PretrainedAgreement
from pspns.denoising.none import NoDenoising
from pspns.denoising.pld import PersonalLossDraw
from pspns.dry_run import (
    LEAST_STEPS,
    MOST_STEPS,
    WARM_UP_STEPS,
    Estimate,
    Pace,
    estimate,
)
from pspns.errors import SettingsError
from pspns.evaluation.ranking import FullRanking
from pspns.item_sets import ItemSets
from pspns.memory import GIB, MemoryBudget, MemoryBudgetError
from pspns.models.ease import Ease
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.models.popular import Counts, Popular
from pspns.models.svd import SvdRanking
from pspns.needed_bytes import (
    StepSizes,
    denoiser_bytes,
    held_bytes,
    message_bytes,
    sampler_bytes,
    svd_bytes,
    training_bytes,
)
from pspns.negatives.ahns import AdaptiveNegatives
from pspns.negatives.dens import DisentangledNegatives
from pspns.negatives.dns import DynamicNegatives
from pspns.negatives.dns_m_n import BestOfManyNegatives
from pspns.negatives.irgan import GeneratedNegatives
from pspns.negatives.mixgcf import MixedNegatives
from pspns.negatives.srns import RememberedNegatives
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.psp import PspPositives
from pspns.positives.repeated import RepeatedPositives
from pspns.rng import ReplicaStream, host_stream
from pspns.run import run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.spectral import truncated_svd
from pspns.starts.xavier import XavierStart
from pspns.top_k import max_rows
from pspns.training.loop import Loop
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer


def settings(*, training=None, run_=None, **changes) -> Settings:
    return dataclasses.replace(
        Settings(
            model=MatrixFactorisation(embedding_size=8),
            training=TrainingSettings(**{"batch_size": 64, "max_steps": 1000, **(training or {})}),
            evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=10),
            run=RunSettings(**{"seeds": (0, 1), "device": "cpu", **(run_ or {})}),
        ),
        **changes,
    )


@pytest.fixture(scope="module")
def data() -> GivenSplit:
    return given_split(60, 40, 600)


LOOPS = [MatrixFactorisation(embedding_size=8), LightGcn(embedding_size=8, layers=2)]


# Bytes


class LiveTensors(TorchDispatchMode):
    """Counts the bytes of all tensors made under it that are still alive."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._sizes = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                self._note(tensor.untyped_storage())
        return made

    def _note(self, storage):
        address = storage._cdata
        if address not in self._sizes:
            self._sizes[address] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, lambda: self._forget(address))

    def _forget(self, address):
        self.now -= self._sizes.pop(address)


def trained(world, model, n_replicas, batch_size, watch, steps=6, negatives=None, denoiser=None, loss="bpr"):
    trainer = Trainer(
        members=[Member(world, XavierStart(), 1e-4, range(n_replicas), None)],
        negatives=negatives or UniformNegatives(),
        settings=TrainingSettings(steps=steps, batch_size=batch_size, loss=loss),
        select_by="recall@20",
        watch=watch,
        denoiser=denoiser or NoDenoising(),
    )
    return model.fit(world, trainer)


@pytest.mark.parametrize("model", LOOPS)
def test_the_tables_of_training_are_those_that_a_loop_holds(model, monkeypatch):
    world, loops = toy_world(), []
    monkeypatch.setattr(trainer_module, "Loop", lambda *args, **more: loops.append(Loop(*args, **more)) or loops[0])
    found = training_bytes(world, 8, 3, 64)
    seen = {}

    def watch(step, last_step, evaluation):
        (loop,) = loops
        parameters = list(loop._model.parameters())
        adams = [loop._step._users, loop._step._items]
        seen["embeddings"] = sum(p.nbytes for p in parameters)
        seen["gradients"] = sum(adam.gradient.nbytes for adam in adams)
        schedules = [held_bytes(CPU, adam._step_sizes, adam._root_factors) for adam in adams]
        seen["Adam"] = held_bytes(CPU, adams) - sum(schedules) - seen["embeddings"] - seen["gradients"]
        seen["the best state"] = sum(table.nbytes for table in loop._stopping._best_state.values())
        seen["the order of epochs"] = held_bytes(CPU, loop._epochs)

    trained(world, model, 3, 64, watch)
    order = found.pop("the order of epochs") - 2 * 8 * world.pairs.n_visits  # that of making one
    assert order == pytest.approx(seen.pop("the order of epochs"), abs=3 * 64)  # the replicas' keys and counters
    found.pop("a batch")
    assert found == seen


@pytest.mark.parametrize(
    ("n_users", "n_items", "n_pairs", "batch_size"),
    [pytest.param(3000, 2000, 8000, 64, id="large tables"), pytest.param(100, 80, 1000, 4096, id="a large batch")],
)
@pytest.mark.parametrize("layers", [None, 1, 3])
def test_a_step_holds_as_much_as_was_estimated(n_users, n_items, n_pairs, batch_size, layers):
    world = toy_world(n_users=n_users, n_items=n_items, n_pairs=n_pairs)
    model = MatrixFactorisation(embedding_size=32) if layers is None else LightGcn(embedding_size=32, layers=layers)
    live = LiveTensors()

    def watch(step, last_step, evaluation):
        if step == 2:
            live.peak = live.now  # leaving out how the model was made

    with live:
        trained(world, model, 2, batch_size, watch)
    found = training_bytes(world, 32, 2, batch_size)
    total = sum(found.values()) + (0 if layers is None else message_bytes(found["embeddings"], layers, CPU))
    assert 0.75 * total < live.peak < 1.1 * total


def check_bytes_of_sampler(negatives, n_users, n_items, n_pairs, batch_size, layers):
    return check_bytes(toy_world(n_users=n_users, n_items=n_items, n_pairs=n_pairs), batch_size, layers, negatives)


def check_bytes(world, batch_size, layers, negatives=None, denoiser=None, loss="bpr"):
    """Over an epoch and a bit, with what happens at its end and the last look; of all that a training holds."""
    negatives, denoiser = negatives or UniformNegatives(), denoiser or NoDenoising()
    model = MatrixFactorisation(embedding_size=32) if layers is None else LightGcn(embedding_size=32, layers=layers)
    live, peaks = LiveTensors(), []

    def watch(step, last_step, evaluation):
        peaks.append(live.peak)
        live.peak = live.now

    with live:
        n_steps = -(-world.pairs.n_visits // batch_size) + 2
        trained(world, model, 2, batch_size, watch, n_steps, negatives, denoiser, loss)
    found, sizes = training_bytes(world, 32, 2, batch_size), StepSizes(2, batch_size, 32, layers or 0)
    beside = sum(found.values()) + (0 if layers is None else message_bytes(found["embeddings"], layers, CPU))
    total = beside + sampler_bytes(negatives, world, sizes) + denoiser_bytes(denoiser, world, sizes)
    peak = max(peaks[1:])  # the first step makes Adam's moments
    assert 0.97 * peak < total < 2 * peak
    return beside, peak


@pytest.mark.parametrize(
    ("n_users", "n_items", "n_pairs", "batch_size"),
    [pytest.param(1200, 800, 200, 512, id="large tables"), pytest.param(100, 80, 1000, 4096, id="a large batch")],
)
@pytest.mark.parametrize("layers", [None, 1, 3])
@pytest.mark.parametrize("name", part_names("negatives"))
def test_a_step_holds_as_much_as_was_estimated_whatever_the_negatives(
    name, layers, n_users, n_items, n_pairs, batch_size
):
    kind = find_part("negatives", name)
    at_once = {"warm_up": 1} if "warm_up" in kind.__dataclass_fields__ else {}
    check_bytes_of_sampler(kind(**at_once), n_users, n_items, n_pairs, batch_size, layers)


@pytest.mark.parametrize("layers", [None, 2])
@pytest.mark.parametrize(
    "negatives",
    [
        AdaptiveNegatives(candidates=300),
        BestOfManyNegatives(best=150),
        BestOfManyNegatives(candidates=30, best=2, sum_over_best=True),
        BestOfManyNegatives(candidates=30, best=30, sum_over_best=True),
        DisentangledNegatives(candidates=1),
        DisentangledNegatives(candidates=40),
        DynamicNegatives(candidates=300),
        GeneratedNegatives(warm_up=1, generator_batch=1000),
        MixedNegatives(candidates=1),
        MixedNegatives(candidates=300),
        RememberedNegatives(memory=70, fresh=2),
        RememberedNegatives(memory=2, fresh=100),
    ],
)
def test_and_whatever_their_settings(negatives, layers):
    beside, peak = check_bytes_of_sampler(negatives, 200, 150, 1000, 960, layers)
    assert peak > 1.5 * beside, "the sampler's own did not weigh enough to be seen"


@pytest.mark.parametrize(
    ("n_users", "n_items", "n_pairs", "batch_size", "layers"),
    [
        pytest.param(1200, 800, 200, 128, None, id="large tables"),
        pytest.param(1200, 800, 200, 128, 2, id="large tables, messages"),
        pytest.param(100, 80, 300, 1500, None, id="a large batch"),
        pytest.param(100, 80, 6000, 512, None, id="many pairs"),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_a_step_holds_as_much_as_was_estimated_whatever_the_denoiser(
    name, n_users, n_items, n_pairs, batch_size, layers
):
    denoiser, loss = CASES[name]
    world = toy_world(n_users=n_users, n_items=n_items, n_pairs=n_pairs)
    check_bytes(world, batch_size, layers, denoiser=denoiser, loss=loss)


@pytest.mark.parametrize("layers", [None, 2])
@pytest.mark.parametrize(
    ("denoiser", "loss", "times"),
    [
        (BilevelWeights(outer_steps=2), "bpr", 5),
        (BilevelWeights(weights_of_other_rows=True), "bpr", 10),
        (CrossModelAgreement(size=100), "bce", 5),
        (DoubleCorrection(window=100), "bpr", 1.5),
        (DoubleCorrection(window=40, history="slot"), "bce", 1.5),
        (PersonalLossDraw(pool=100, warm_up=0), "bpr", 3),
        (PretrainedAgreement(size=2), "bce", 1.5),
        (PretrainedAgreement(size=100), "bce", 5),
    ],
)
def test_and_whatever_its_settings(denoiser, loss, times, layers):
    beside, peak = check_bytes(toy_world(n_pairs=400), 960, layers, denoiser=denoiser, loss=loss)
    assert peak > times * beside, "the denoiser's own did not weigh enough to be seen"


def test_copies_of_pairs_that_a_denoiser_looks_up_count():
    world = toy_world(n_users=100, n_items=80, n_pairs=4000)
    twice = make_world(world.train, 100, 80, pairs=RepeatedPositives(copies=2).build(world))
    denoiser = PersonalLossDraw(pool=2, warm_up=0)
    check_bytes(twice, 128, None, denoiser=denoiser)
    one, two = (denoiser_bytes(denoiser, own, StepSizes(2, 128, 32, 0)) for own in (world, twice))
    assert two - one == 8 * len(world.pairs)


@pytest.mark.parametrize("model", LOOPS)
def test_the_bytes_of_a_denoiser_are_part_of_the_estimate(data, model, monkeypatch):
    assert "denoiser" not in estimate(data, settings(model=model)).bytes_by_stage
    corrected = settings(
        model=model, denoiser=DoubleCorrection(window=5, relabel="discard"), training={"batch_size": 100}
    )
    found = estimate(data, corrected)
    stages, n = found.bytes_by_stage, found.n_train
    # Of every pair and replica five losses, two counts and a mark; users, items and weights of the pairs, three numbers
    # of each user; of each row its losses before and after. And what was kept: two sums and their quotient; of one
    # replica at a time in double precision.
    own = 2 * n * (4 * 5 + 8 + 1) + 20 * n + 24 * 60 + 2 * 128 * (8 * 5 + 40)
    assert stages["denoiser"] == own + 2 * n * (8 + 8) + 40 * n
    without = sum(stages.values()) - stages.get("the graph", 0) - stages["denoiser"]
    monkeypatch.setattr(Loop, "_take_step", lambda _: pytest.fail("a step was taken"))
    tight = dataclasses.replace(corrected.run, memory_gib=(without + 1) / GIB)
    assert estimate(data, dataclasses.replace(corrected, run=tight)).refusal.startswith("training 2 replicas needs")


@pytest.mark.parametrize("denoiser", [PretrainedAgreement(size=500), CrossModelAgreement(size=500)])
def test_a_training_whose_denoiser_does_not_fit_is_refused_before_a_step(denoiser, monkeypatch):
    """Also before the steps of a training that comes first."""
    monkeypatch.setattr(Loop, "_take_step", lambda _: pytest.fail("a step was taken"))
    world = toy_world()
    needed = denoiser_bytes(denoiser, world, StepSizes(3, 64, 8, 0))
    tight = dataclasses.replace(world, memory=MemoryBudget(CPU, (needed - 1) / GIB))
    with pytest.raises(MemoryBudgetError, match=r"denoising needs about .* or take fewer seeds or smaller batches"):
        trained(tight, LOOPS[0], 3, 64, lambda *_: None, denoiser=denoiser, loss="bce")


def test_of_members_in_one_loop_the_most_pairs_count(monkeypatch):
    monkeypatch.setattr(Loop, "_take_step", lambda _: pytest.fail("a step was taken"))
    world, denoiser = toy_world(), DoubleCorrection(window=500)
    more = make_world(world.train, 40, 30, pairs=PspPositives(rank=4).build(world))
    assert len(more.pairs) > 1.2 * len(world.pairs)
    needed = denoiser_bytes(denoiser, more, StepSizes(2, 64, 8, 0))
    tight = [dataclasses.replace(own, memory=MemoryBudget(CPU, 0.95 * needed / GIB)) for own in (world, more)]
    members = [Member(own, XavierStart(), 1e-4, [0], None) for own in tight]
    trainer = Trainer(
        members, UniformNegatives(), TrainingSettings(steps=1, batch_size=64), "recall@20", print, denoiser=denoiser
    )
    with pytest.raises(MemoryBudgetError, match="denoising needs about"):
        LOOPS[0].fit(tight[0], trainer)


@pytest.mark.parametrize("model", LOOPS)
def test_the_bytes_of_negatives_are_part_of_the_estimate(data, model, monkeypatch):
    assert "negatives" not in estimate(data, settings(model=model)).bytes_by_stage
    remembered = settings(
        model=model, negatives=RememberedNegatives(memory=5, fresh=3), training={"batch_size": 100, "max_steps": 1}
    )
    found = estimate(data, remembered).bytes_by_stage
    # Five pasts of all vectors; five numbers for each user, and one more; past scores of what is remembered.
    assert found["negatives"] == 2 * (5 * (60 + 40) * 4 * 8 + 8 * 60 * (5 + 1) + 128 * 22 * 5 * (5 + 1))
    # Without room for them no step is taken.
    without = sum(found.values()) - found.get("the graph", 0) - found["negatives"]
    monkeypatch.setattr(Loop, "_take_step", lambda _: pytest.fail("a step was taken"))
    tight = dataclasses.replace(remembered.run, memory_gib=(without + 1) / GIB)
    assert estimate(data, dataclasses.replace(remembered, run=tight)).refusal.startswith("training 2 replicas needs")


def test_layers_that_a_sampler_reads_count(data):
    negatives = MixedNegatives(candidates=1)  # so that choosing takes less than following the gradient
    one, two = (estimate(data, settings(model=model, negatives=negatives)).bytes_by_stage for model in LOOPS)
    # Two tables for each of two layers.
    assert two["negatives"] - one["negatives"] == 2 * 2 * one["embeddings"]


def test_an_order_is_made_of_two_columns():
    stream = ReplicaStream([0], "shuffle")
    stream.order(10)  # compiled
    tracemalloc.start()
    try:
        stream.order(10_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak == pytest.approx(2 * 8 * 10_000, rel=0.05)


@pytest.mark.parametrize(("n_users", "n_items"), [(6000, 1500), (1500, 6000), (2000, 2000), (900, 1000), (6000, 800)])
def test_an_svd_holds_as_much_as_was_estimated(n_users, n_items):
    pairs = random_pairs(n_users, n_items, 20_000, np.random.default_rng(0))
    matrix, live = pairs.matrix(n_users, n_items), LiveTensors()
    with live:
        truncated_svd(matrix, 64, host_stream(0, "svd"))
    # Only tensors are seen, not LAPACK's workspace, which is about two of the three tables of an exact one.
    assert 0.9 * live.peak < svd_bytes(n_users, n_items, len(pairs), 64) < 1.8 * live.peak


def test_what_can_be_reached_is_counted_once():
    base = np.zeros(100, dtype=np.int64)
    table = torch.zeros(10, 4)
    sets = ItemSets(5, 7, random_pairs(5, 7, 9, np.random.default_rng(0)))
    assert held_bytes(CPU, [base, base[10:20], torch.from_numpy(base)]) == 800
    assert held_bytes(CPU, {"a": table}, (table[:2], table.T)) == 160
    # keys, items and gaps of every entry; starts and sizes of every user
    assert held_bytes(CPU, sets) == (8 + 8 + 4) * len(sets.keys) + 8 * (5 + 1) + 8 * 5
    rows, columns, values = torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1]), torch.ones(3)
    matrix = torch.sparse_csr_tensor(rows, columns, values, (2, 3), check_invariants=True)
    assert held_bytes(CPU, matrix) == 8 * 3 + (8 + 4) * 3
    assert held_bytes(torch.device("cuda"), base, table) == 0


def bytes_of_rankings(data: GivenSplit) -> int:
    """Strict: validation under mask train, the test under train + valid and under train."""
    n_train, n_valid, n_test = np.bincount(data.parts).tolist()
    judged = [len(np.unique(data.interactions.users[data.parts == part])) for part in (1, 2, 2)]
    known, held_out = (n_train, n_train + n_valid, n_train), (n_valid, n_test, n_test)
    sets = sum(20 * n_entries + 8 * (60 + 1) + 8 * 60 for n_entries in (*known, *held_out))
    # The items' counts as they are, once, and as scores, for each ranking.
    return sets + 8 * sum(judged) + 8 * 40 + 3 * 4 * 40


@pytest.mark.parametrize("negatives", [UniformNegatives(), MixedNegatives()])
@pytest.mark.parametrize("model", LOOPS)
def test_stages_of_a_model_with_a_loop(data, model, negatives):
    found = estimate(data, settings(model=model, negatives=negatives))
    n_users, n_items, n_train = found.n_users, found.n_items, found.n_train
    assert (n_users, n_items) == (60, 40)
    assert n_train == int((data.parts == 0).sum())
    assert found.n_parameters == (60 + 40) * 8 * 2
    stages = found.bytes_by_stage
    assert stages["embeddings"] == 4 * found.n_parameters
    assert stages["ranking 40 items"] == 16 * 40 * max_rows(CPU)
    # train pairs once, the positives' own columns, the rejected sets, the users' weights
    assert stages["pairs"] == 16 * n_train + 7 * n_train + (20 * n_train + 16 * 60 + 8) + 4 * 60
    assert stages["held-out and known items"] == bytes_of_rankings(data)
    # Edges in CSR form, from which operators are made of two such matrices with numbers of 32 bits: for messages, for
    # who is folded in, which also needs the items' degrees, and for samplers that read layers.
    edges, operator = (4 + 8) * n_train + 8 * (n_users + 1), 2 * (4 + 4) * n_train + 4 * (n_users + 1 + n_items + 1)
    graph = edges + (2 if negatives == UniformNegatives() else 3) * operator + 4 * n_items
    assert stages.get("the graph", 0) == (graph if isinstance(model, LightGcn) else 0)
    assert stages.get("messages", 0) == (4 * stages["embeddings"] if isinstance(model, LightGcn) else 0)
    assert found.bytes_needed == sum(stages.values()) < found.budget
    assert found.fits
    assert found.peak_bytes > found.bytes_needed


@pytest.mark.parametrize(
    ("model", "stage", "n_bytes"),
    [
        (Ease(), "ease with 40 items", 7 * 4 * 40**2),
        (SvdRanking(rank=4), "svd of rank 4", None),
        (SvdRanking(), "svd of rank 40", None),
        (Popular(), "popular", 16 * 40),
    ],
)
def test_models_without_a_loop_are_weighed_but_not_fitted(data, model, stage, n_bytes, monkeypatch):
    for part in (SvdRanking, Popular):
        monkeypatch.setattr(part, "fit", lambda *_: pytest.fail("fitted"))
    monkeypatch.setattr("pspns.models.ease.closed_form", lambda *_: pytest.fail("fitted"))
    found = estimate(data, settings(model=model))
    n_train = found.n_train
    assert found.pace is None
    assert found.n_parameters is None
    rank = model.rank or 40 if isinstance(model, SvdRanking) else 0
    assert found.bytes_by_stage[stage] == (svd_bytes(60, 40, n_train, rank) if n_bytes is None else n_bytes)
    assert set(found.bytes_of_baselines) == {"popular", "svd", "ease"} - {found.model}
    assert f"{found.model} has no training loop: there are no steps to measure" in found.words()


def test_baselines_are_left_out_as_a_run_leaves_them_out():
    data = given_split(60, 120, 600)  # of so many items that ease needs more than training does
    tight = settings(run_={"memory_gib": 0.0003}, training={"steps": 5})
    left_out = run(data, tight).left_out
    assert set(left_out) == {"ease"}
    found = estimate(data, tight)
    assert found.left_out == left_out
    assert f"baseline ease would be left out: {left_out['ease']}" in found.words()
    assert found.bytes_of_baselines["ease"] == 7 * 4 * 120**2
    assert estimate(data, settings(run_={"baselines": False})).bytes_of_baselines == {}


# Refusals


def test_a_stage_that_does_not_fit_is_part_of_the_estimate(data):
    found = estimate(data, settings(run_={"memory_gib": 1e-5}))
    assert not found.fits
    assert found.refusal.startswith("ranking 40 items needs about")
    assert (found.n_users, found.n_items, found.pace) == (60, 40, None)
    assert set(found.bytes_by_stage) == {"pairs"}
    assert found.budget == 1e-5 * GIB
    assert f"does not fit: {found.refusal}" in found.words()
    assert "no steps were measured, because the run would not fit into memory" in found.words()


def test_training_that_does_not_fit_is_not_tried(data, monkeypatch):
    enough = estimate(data, settings()).bytes_needed
    fitting, too_small = (settings(run_={"memory_gib": share * enough / GIB}) for share in (1.001, 0.999))
    assert estimate(data, fitting).fits
    monkeypatch.setattr(Loop, "_take_step", lambda _: pytest.fail("a step was taken"))
    found = estimate(data, too_small)
    assert found.refusal.startswith("training 2 replicas needs about")
    assert found.bytes_needed == enough
    ease = estimate(data, settings(model=Ease(), run_={"memory_gib": 0.00004}))
    assert ease.refusal.startswith("ease with 40 items needs about")


@pytest.mark.parametrize("error", [MemoryError("1 TiB"), torch.OutOfMemoryError("1 TiB")])
def test_memory_that_is_not_there_after_all(data, monkeypatch, error):
    def take_step(loop):
        raise error

    monkeypatch.setattr(Loop, "_take_step", take_step)
    found = estimate(data, settings())
    assert found.refusal == "there was no more memory on cpu: 1 TiB"
    assert found.pace is None


def test_settings_that_a_run_refuses_are_refused(data):
    with pytest.raises(SettingsError, match=r"set --training\.steps"):
        estimate(data, settings(split=NoSplit()))


# Seconds


class HandClock:
    """Stands still but when moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def moved_by(self, seconds, function):
        def slowed(*args, **more):
            self.now += seconds
            return function(*args, **more)

        return slowed


@pytest.fixture
def clock(monkeypatch) -> HandClock:
    """A look at one replica takes a quarter of a second."""
    hand = HandClock()
    monkeypatch.setattr(FullRanking, "judge", hand.moved_by(0.25, FullRanking.judge))
    return hand


@pytest.mark.parametrize("model", LOOPS)
@pytest.mark.parametrize(
    ("seconds", "n_steps"), [(0.001, MOST_STEPS), (0.02, MOST_STEPS), (0.125, 8), (0.5, LEAST_STEPS), (2, LEAST_STEPS)]
)
def test_steps_and_looks_are_timed(data, clock, monkeypatch, model, seconds, n_steps):
    taken = []
    take_step = clock.moved_by(seconds, Loop._take_step)
    monkeypatch.setattr(Loop, "_take_step", lambda loop: (taken.append(loop), take_step(loop)))
    pace = estimate(data, settings(model=model, training={"patience": 4}), clock=clock).pace
    assert len(taken) == WARM_UP_STEPS + n_steps
    assert pace.seconds_per_step == pytest.approx(seconds)
    assert pace.seconds_per_look == pytest.approx(2 * 0.25)
    assert pace.looks_at == "validation"
    assert (pace.limit, pace.patience) == (1000, 4)
    n_train = int((data.parts == 0).sum())
    assert pace.interval == 5 * -(-n_train // 64)


def test_the_first_steps_do_not_count(data, clock, monkeypatch):
    take_step = Loop._take_step

    def slow_at_first(loop):
        clock.now += 100 if loop.step < WARM_UP_STEPS - 1 else 0.5
        take_step(loop)

    monkeypatch.setattr(Loop, "_take_step", slow_at_first)
    assert estimate(data, settings(), clock=clock).pace.seconds_per_step == pytest.approx(0.5)


def test_new_orders_of_long_epochs_are_shared_out(data, clock, monkeypatch):
    monkeypatch.setattr(ReplicaStream, "order", clock.moved_by(1.5, ReplicaStream.order))
    n_batches = -(-int((data.parts == 0).sum()) // 8)
    assert n_batches > WARM_UP_STEPS + MOST_STEPS
    pace = estimate(data, settings(training={"batch_size": 8}), clock=clock).pace
    assert pace.seconds_per_step == pytest.approx(2 * 1.5 / n_batches)


@pytest.mark.parametrize("model", LOOPS)
def test_a_training_that_comes_first_is_timed_too(data, clock, monkeypatch, model):
    """Its steps take half a second, those of the other two; looks at both are alike."""
    take_step, taken = Loop._take_step, {True: 0, False: 0}

    def slow(loop):
        is_second = isinstance(loop._denoiser, AgreeingWithTeacher)
        taken[is_second] += 1
        clock.now += 2 if is_second else 0.5
        take_step(loop)

    monkeypatch.setattr(Loop, "_take_step", slow)
    twice = settings(model=model, denoiser=PretrainedAgreement(), training={"loss": "bce", "patience": 4})
    found = estimate(data, twice, clock=clock)
    assert taken == {True: WARM_UP_STEPS + LEAST_STEPS, False: WARM_UP_STEPS + LEAST_STEPS}
    assert found.n_parameters == (60 + 40) * 8 * 2
    assert found.pace.teacher_seconds_per_step == pytest.approx(0.5)
    assert found.pace.seconds_per_step == pytest.approx(2)
    n_looks = -(-1000 // found.pace.interval)
    assert found.pace.seconds_to_limit == pytest.approx(1000 * (0.5 + 2) + 2 * n_looks * 2 * 0.25)
    assert found.words()[2] == (
        "trains twice: a plain model comes first, a step of which takes 500 ms; the times that follow are of both"
    )
    once = settings(model=model, denoiser=CrossModelAgreement(), training={"loss": "bce"})
    assert estimate(data, once, clock=clock).pace.teacher_seconds_per_step is None


def test_without_validation_there_is_nothing_to_look_at(data, clock):
    found = estimate(data, settings(split=NoSplit(), training={"steps": 7}), clock=clock)
    assert (found.pace.seconds_per_look, found.pace.looks_at) == (0.0, None)
    assert (found.pace.limit, found.pace.patience) == (7, None)
    assert found.bytes_of_baselines == {}
    best_on_test = estimate(data, settings(run_={"protocol": "best-on-test"}), clock=clock)
    assert (best_on_test.pace.seconds_per_look, best_on_test.pace.looks_at) == (0.5, "the test")


def pace(**changes) -> Pace:
    by_hand = Pace(seconds_per_step=0.5, seconds_per_look=2.0, looks_at="validation", interval=10, limit=95, patience=3)
    return dataclasses.replace(by_hand, **changes)


def test_seconds_worked_by_hand():
    assert pace().seconds_to_limit == 95 * 0.5 + 10 * 2  # the last look is at the last step
    assert pace().least_seconds == 40 * 0.5 + 4 * 2  # one look that is better, three that are not
    assert pace(patience=20).least_seconds == pace().seconds_to_limit
    assert pace(patience=None).least_seconds == pace().seconds_to_limit
    twice = pace(teacher_seconds_per_step=0.25)
    assert twice.seconds_to_limit == 95 * (0.5 + 0.25) + 2 * 10 * 2
    assert twice.least_seconds == 40 * (0.5 + 0.25) + 2 * 4 * 2


def test_the_least_and_the_limit_are_those_of_a_run(data):
    """With vectors that hardly move no look is better than the first."""
    still = settings(training={"learning_rate": 1e-30, "evaluate_every": 7, "patience": 3, "max_steps": 100})
    steps = run(data, still).model.fitted.steps
    one_a_step = dataclasses.replace(estimate(data, still).pace, seconds_per_step=1, seconds_per_look=0)
    assert steps == [one_a_step.least_seconds] * 2 == [28, 28]
    assert one_a_step.seconds_to_limit == 100


# Beside the run


@pytest.mark.parametrize("positives", [None, PspPositives(rank=4)])
@pytest.mark.parametrize("protocol", ["strict", "published", "best-on-test"])
def test_the_trainer_is_that_of_the_run(data, positives, protocol):
    caught = []

    class CaughtModel:
        def fit(self, world, trainer):
            caught.append(trainer)
            raise StopIteration

    same = settings(model=CaughtModel(), run_={"protocol": protocol, "baselines": False})
    same = dataclasses.replace(same, positives=positives or same.positives)
    for function in (run, estimate):
        with pytest.raises(StopIteration):
            function(data, same)
    one, two = caught

    def differ(this, that):
        names = [field.name for field in dataclasses.fields(this)]
        return {name for name in names if getattr(this, name) != getattr(that, name)}

    (first,), (second,) = one.members, two.members
    assert differ(one.settings, two.settings) == {"max_steps", "evaluate_every"}
    one, two = (dataclasses.replace(trainer, members=[], settings=None, watch=None) for trainer in (one, two))
    assert vars(one) == vars(two)
    for name in ("users", "items", "copies", "pair_weights"):
        assert np.array_equal(getattr(first.world.pairs, name), getattr(second.world.pairs, name))
    assert np.array_equal(first.world.user_weights, second.world.user_weights)
    assert torch.equal(first.world.rejected.keys, second.world.rejected.keys)
    scorer = Counts(torch.arange(40.0))
    assert first.validate(scorer, 0) == second.validate(scorer, 0)
    first, second = (dataclasses.replace(member, world=None, validate=None) for member in (first, second))
    assert vars(first) == vars(second)


@pytest.mark.parametrize("model", [*LOOPS, Ease(), SvdRanking(), Popular()])
def test_nothing_is_left_behind(data, model, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    wanted = settings(model=model, training={"steps": 20}, run_={"threads": 2, "baselines": False})
    n_threads, seen_threads = torch.get_num_threads(), []
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    estimate(data, wanted, say=lambda line: seen_threads.append(torch.get_num_threads()))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]
    assert set(seen_threads) == {2}
    assert torch.get_num_threads() == n_threads
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", [*LOOPS, Ease(), SvdRanking(), Popular()])
def test_a_run_after_it_gives_the_same_bits(data, model):
    wanted = settings(model=model, training={"steps": 20}, run_={"baselines": False})
    without = run(data, wanted).model
    estimate(data, wanted)
    after = run(data, wanted).model
    for name, tensor in without.fitted.scorer.tensors().items():
        assert torch.equal(tensor, after.fitted.scorer.tensors()[name])
    assert [ranked.overall for ranked in without.test] == [ranked.overall for ranked in after.test]


# Words


def by_hand(**changes) -> Estimate:
    estimated = Estimate(
        model="mf",
        device=CPU,
        n_users=6000,
        n_items=3600,
        n_train=700_000,
        n_replicas=3,
        n_parameters=1_843_200,
        bytes_by_stage={"a": 1 * GIB, "b": 5 * GIB, "c": 2 * GIB, "d": 4 * GIB, "e": 3 * GIB, "f": 2**19, "g": 2**19},
        bytes_of_baselines={"popular": 100, "svd": 3 * 2**20, "ease": 300 * 2**20},
        left_out={},
        budget=20 * GIB,
        refusal=None,
        peak_bytes=2 * GIB,
        pace=pace(seconds_per_step=0.012, seconds_per_look=0.4, interval=1635, limit=200_000, patience=10),
    )
    return dataclasses.replace(estimated, **changes)


STAGES = "b 5 GiB, d 4 GiB, e 3 GiB, c 2 GiB, a 1 GiB, the rest 1 MiB"


def test_words():
    assert by_hand().words() == [
        "6,000 users, 3,600 items, 700,000 train pairs; 1,843,200 parameters of mf in 3 replicas",
        "one step of 3 replicas: 12 ms; a look at validation every 1,635 steps: 400 ms",
        "training to the limit of 200,000 steps: about 41 min; the least it can take: 3.7 min",
        "a replica stops on its own after 10 looks without improvement, so the limit is an upper bound",
        f"memory on cpu: about 15 GiB, the budget is 20 GiB: {STAGES}",
        "this process has held at most 2 GiB so far, data and libraries included",
        "the largest baseline, after training: ease, about 300 MiB",
    ]


def test_words_of_what_is_not_known():
    fixed = by_hand(pace=pace(patience=None, looks_at=None), budget=None, peak_bytes=None, bytes_of_baselines={})
    assert fixed.words()[1:] == [
        "one step of 3 replicas: 500 ms",
        "training for exactly 95 steps: about 68 s",
        f"memory on cpu: about 15 GiB: {STAGES}",
    ]
    refused = by_hand(pace=None, refusal="too large", left_out={"ease": "larger still"})
    assert not refused.fits
    assert "baseline ease would be left out: larger still" in refused.words()
    assert "the largest baseline, after training: svd, about 3 MiB" in refused.words()
    assert refused.words()[3].startswith("memory on cpu: at least 15 GiB, the budget is 20 GiB: ")


def test_a_budget_is_a_run_s_own(data):
    assert estimate(data, settings(run_={"memory_gib": 0.5})).budget == MemoryBudget(CPU, 0.5).limit


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("model", LOOPS)
def test_on_a_gpu(data, model):
    found = estimate(data, settings(model=model, run_={"device": "cuda"}))
    assert found.fits
    assert found.pace.seconds_per_step > 0
    assert found.peak_bytes > 5 * found.bytes_by_stage["embeddings"]
