"""A training before the training: the teacher that DeCA(p) compares the model with."""

import dataclasses
import hashlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from toy import make_world, toy_world

from pspns.components import find_part
from pspns.denoising.deca_p import PretrainedAgreement
from pspns.denoising.none import NoDenoising
from pspns.errors import SettingsError
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.repeated import RepeatedPositives
from pspns.starts.normal import NormalStart
from pspns.starts.xavier import XavierStart
from pspns.training import stopping
from pspns.training.checkpoint import Checkpoints
from pspns.training.loop import Saving
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import OF_TEACHER, Member, Trainer

INTERVAL = 4
SETTINGS = TrainingSettings(
    loss="bce", batch_size=100, learning_rate=0.02, max_steps=24, evaluate_every=INTERVAL, patience=2
)
FIXED = dataclasses.replace(SETTINGS, steps=10)
NEVER = 1e9  # seconds


def erratic(scorer, replica):
    """Validation that rises and falls without reason, so that replicas stop at different steps."""
    digest = hashlib.sha256(scorer.users[:, replica].numpy().tobytes()).digest()
    return {"recall@20": int.from_bytes(digest[:4], "big") / 2**32}


def members(seeds=((0, 4), (4,)), validate=erratic):
    """Over one graph; the second has longer epochs and another start."""
    world = toy_world()
    twice = make_world(world.train, world.n_users, world.n_items, pairs=RepeatedPositives(copies=2).build(world))
    lots = (world, XavierStart()), (twice, NormalStart(spread=0.3))
    return [Member(*lot, 1e-4, own, validate) for lot, own in zip(lots, seeds, strict=True) if own]


@dataclass(frozen=True, kw_only=True)
class Watched(PretrainedAgreement):
    """Which shows what it was started on, and what came of it."""

    c1: float = 10.0
    c2: float = 10.0
    given: list = field(default_factory=list, compare=False)
    at_work: list = field(default_factory=list, compare=False)

    def start(self, world, seeds):
        self.given.append(world.teacher)
        self.at_work.append(super().start(world, seeds))
        return self.at_work[-1]


def train(denoiser, own=None, *, model="mf", settings=SETTINGS, saving=None, watch=lambda *_: None):
    own = members() if own is None else own
    trainer = Trainer(own, UniformNegatives(), settings, "recall@20", watch, saving, denoiser)
    return find_part("models", model)(embedding_size=6).fit(own[0].world, trainer)


def with_other_seeds(own):
    return [dataclasses.replace(member, seeds=[seed ^ OF_TEACHER for seed in member.seeds]) for member in own]


def assert_same(found, expected):
    """Every bit of the model, and all of the history but the time it took."""
    assert (found.steps, found.best_steps) == (expected.steps, expected.best_steps)
    for name, tensor in expected.scorer.tensors().items():
        assert torch.equal(found.scorer.tensors()[name], tensor), name
    histories = [[dataclasses.replace(look, seconds=0) for look in one.history] for one in (found, expected)]
    assert histories[0] == histories[1]


def are_equal(teacher, scorer):
    return torch.equal(teacher.users, scorer.users) and torch.equal(teacher.items, scorer.items)


@pytest.mark.parametrize("settings", [SETTINGS, FIXED], ids=["stopping early", "fixed steps"])
@pytest.mark.parametrize("model", ["mf", "lightgcn"])
def test_is_a_plain_training_with_other_random_numbers(model, settings):
    """To the bit, and still so when the training it was made for has ended."""
    part = Watched()
    fitted = train(part, model=model, settings=settings)
    expected = train(NoDenoising(), with_other_seeds(members()), model=model, settings=settings)
    (teacher,) = part.given
    assert are_equal(teacher, expected.scorer)
    assert not are_equal(teacher, train(NoDenoising(), model=model, settings=settings).scorer)
    assert (fitted.scorer.users - teacher.users).abs().max() > 0.01


def test_or_with_the_same_ones():
    part = Watched(same_start=True)
    train(part)
    assert are_equal(part.given[0], train(NoDenoising()).scorer)


def test_what_it_says_shapes_what_is_trained():
    """The same training beside another teacher comes out otherwise."""
    one, two = (train(Watched(same_start=same), settings=FIXED) for same in (True, False))
    assert (one.scorer.users - two.scorer.users).abs().max() > 1e-3


def test_teachers_of_a_company_are_those_that_each_member_has_alone():
    part = Watched()
    together = train(part)
    assert len(set(together.steps)) > 1, "all stopped at the same step"
    for first, seeds in ((0, ((0, 4), ())), (2, ((), (4,)))):
        own, alone = members(seeds), Watched()
        fitted = train(alone, own)
        places = slice(first, first + len(own[0].seeds))
        assert torch.equal(alone.given[0].users, part.given[0].users[:, places])
        for name, tensor in fitted.scorer.tensors().items():
            assert torch.equal(together.scorer.tensors()[name][:, places], tensor)


def recorded(steps):
    """A watch that notes (step, last step)."""
    return lambda step, last_step, evaluation: steps.append((step, last_step))


def test_its_steps_are_watched_before_those_of_the_training():
    steps = []
    train(Watched(), settings=FIXED, watch=recorded(steps))
    assert steps == [(step, 10) for step in range(1, 11)] * 2


def test_its_time_counts(monkeypatch):
    """Each reading of the clock takes a second."""
    clock = iter(range(10_000))
    monkeypatch.setattr(stopping, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    looks = []
    fitted = train(Watched(), settings=FIXED, watch=lambda step, last_step, look: looks.append(look))
    seconds = [look.seconds for look in looks if look]
    assert len(seconds) == 6
    assert seconds == sorted(set(seconds))
    assert [look.seconds for look in fitted.history] == seconds[3:]


# Stopped, and gone on with


class Notebook(Checkpoints):
    """Also notes what was written, and what lies in the folder afterwards."""

    def __init__(self, folder):
        super().__init__(folder, {})
        self.written = []

    def write(self, step, tensors, notes):
        super().write(step, tensors, notes)
        self.written.append((notes["is_teacher"], step, sorted(self.steps_written())))


def stopping_at(count, error=KeyboardInterrupt):
    """Stops at this step, counted through both trainings."""
    counted = []

    def watch(step, last_step, evaluation):
        counted.append(step)
        if len(counted) == count:
            raise error

    return watch


def latest(folder):
    return Checkpoints(folder, {}).latest(pytest.fail)


def in_pieces(folder, every, **how):
    """Stopped after every so many steps, each time to go on from the file; and whose those files were."""
    used = []
    for _ in range(30):
        found = latest(folder)
        used += [(found.notes["is_teacher"], found.step)] if found else []
        try:
            saving = Saving(Checkpoints(folder, {}), NEVER, found)
            return train(Watched(), saving=saving, watch=stopping_at(every), **how), used
        except KeyboardInterrupt:
            continue
    pytest.fail("it comes to no end")


@pytest.mark.parametrize("model", ["mf", "lightgcn"])
@pytest.mark.parametrize("every", [3, 5])
def test_stopped_again_and_again_it_ends_with_the_same_bits(model, every, tmp_path):
    steps = []
    expected = train(Watched(), model=model, watch=recorded(steps))
    n_of_teacher = steps[1:].index((1, 24)) + 1
    found, used = in_pieces(tmp_path, every, model=model)
    assert_same(found, expected)
    assert used[0] == (True, every)
    assert {is_teacher for is_teacher, _ in used} == {True, False}
    assert max(step for is_teacher, step in used if is_teacher) <= n_of_teacher


def test_stopped_after_every_step(tmp_path):
    """Also after the last of the teacher's, and the first of the training proper."""
    settings = dataclasses.replace(FIXED, steps=5)
    found, used = in_pieces(tmp_path, 1, settings=settings)
    assert_same(found, train(Watched(), settings=settings))
    assert used == [(is_teacher, step) for is_teacher in (True, False) for step in range(1, 6)]


def test_a_teacher_that_is_done_is_not_trained_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(Watched(), settings=FIXED, saving=Saving(Notebook(tmp_path), NEVER), watch=stopping_at(13))
    steps, part = [], Watched()
    train(part, settings=FIXED, saving=Saving(Notebook(tmp_path), NEVER, latest(tmp_path)), watch=recorded(steps))
    assert [step for step, _ in steps] == [4, 5, 6, 7, 8, 9, 10]
    assert part.given == [None]
    expected = train(NoDenoising(), with_other_seeds(members()), settings=FIXED)
    assert are_equal(part.at_work[0]._teacher, expected.scorer)


def test_its_checkpoints_go_when_there_is_one_of_the_training(tmp_path):
    notebook = Notebook(tmp_path)
    train(Watched(), settings=FIXED, saving=Saving(notebook, 0))
    assert notebook.written == [
        (True, 4, [4]),
        (True, 8, [4, 8]),
        (True, 10, [8, 10]),
        (False, 4, [4]),
        (False, 8, [4, 8]),
        (False, 10, [8, 10]),
    ]


def test_killed_before_the_first_checkpoint_of_the_training_it_goes_on_from_the_teachers_last(tmp_path):
    with pytest.raises(RuntimeError):
        train(Watched(), settings=FIXED, saving=Saving(Notebook(tmp_path), 0), watch=stopping_at(13, RuntimeError))
    found = latest(tmp_path)
    assert (found.notes["is_teacher"], found.step) == (True, 10)
    resumed = train(Watched(), settings=FIXED, saving=Saving(Notebook(tmp_path), 0, found))
    assert_same(resumed, train(Watched(), settings=FIXED))


def test_the_teachers_stands_in_for_a_damaged_one_of_the_training(tmp_path):
    """The last of the teacher is at step 4, the first of the training at 6: both are kept."""
    for count in (4, 12):
        with pytest.raises(KeyboardInterrupt):
            train(
                Watched(), settings=FIXED, saving=Saving(Notebook(tmp_path), NEVER, latest(tmp_path)),
                watch=stopping_at(count),
            )  # fmt: skip
    older, newer = sorted(tmp_path.iterdir())
    assert (older.name, newer.name) == ("step-000000004.safetensors", "step-000000006.safetensors")
    newer.write_bytes(newer.read_bytes()[:-1])
    said, checkpoints = [], Notebook(tmp_path)
    found = checkpoints.latest(said.append)
    assert len(said) == 1
    assert (found.notes["is_teacher"], found.step) == (True, 4)
    resumed = train(Watched(), settings=FIXED, saving=Saving(checkpoints, 0, found))
    assert_same(resumed, train(Watched(), settings=FIXED))


@pytest.mark.parametrize("denoiser", [Watched(), NoDenoising()], ids=["teacher", "none"])
def test_without_validation_a_teacher_needs_a_number_of_steps_as_any_training(denoiser):
    own, steps = members(validate=None), []
    with pytest.raises(SettingsError, match=r"nothing tells when to stop; set --training\.steps"):
        train(denoiser, own, watch=recorded(steps))
    assert not steps
    fitted = train(denoiser, own, settings=FIXED, watch=recorded(steps))
    assert fitted.steps == [10, 10, 10]
    assert len(steps) == (20 if denoiser == Watched() else 10)


def test_who_needs_no_teacher_has_none():
    steps = []
    train(find_part("denoisers", "deca")(), settings=FIXED, watch=recorded(steps))
    assert len(steps) == 10
