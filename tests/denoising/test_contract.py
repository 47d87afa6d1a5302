"""What every denoiser of the folder promises; `test_training.py` has what shows only in a whole training.

On a machine that has little beside torch, such as one with a GPU:
`python -m pytest --noconftest -o addopts="--import-mode=importlib" tests/denoising/test_contract.py`
"""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from denoiser_cases import CASES, USUAL
from denoiser_worlds import MODELS, denoised, pair_batch
from toy import CPU, make_world, toy_world

from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.psp import PspPositives
from pspns.shapes import Embeddings, PositiveBatch, ScoredRows, Vectors, take
from pspns.training.epochs import Epochs
from pspns.training.objective import drawn_rows
from pspns.training.settings import TrainingSettings

SEEDS = (3, 0, 8, 3, 5)
OWN_PAIRS = (0, 1, 0, 1, 0)  # what each replica is trained on: the observed pairs, or the longer epochs of others
BATCH_SIZE = 96  # of 128 rows, the last ones dead
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param)


@pytest.fixture(params=CASES)
def case(request):
    """A part and a loss that it allows."""
    return CASES[request.param]


@pytest.fixture(params=MODELS)
def model(request):
    return request.param


@cache
def worlds(device: torch.device):
    """The same train; of the second, the pairs have copies and weights and are more."""
    world = toy_world()
    rng = np.random.default_rng(0)
    pairs = PspPositives(rank=4).build(world)
    pairs = dataclasses.replace(pairs, pair_weights=rng.random(len(pairs)).astype(np.float32))
    weights = rng.random(world.n_users).astype(np.float32)
    other = make_world(world.train, world.n_users, world.n_items, pairs=pairs, user_weights=weights)
    assert other.pairs.n_visits > 2 * world.pairs.n_visits
    return [moved(one, device) for one in (world, other)]


def moved(world, device: torch.device):
    rejected = ItemSets(world.n_users, world.n_items, world.train, world.pairs.as_pairs(), device=device)
    return dataclasses.replace(world, memory=MemoryBudget(device), rejected=rejected)


class Maker:
    """Stands for a trainer: what a model's `fit` asks of it is how the model is made."""

    settings = TrainingSettings()

    def __init__(self, replicas, device: torch.device):
        self._replicas, self._device = replicas, device

    def train(self, make_model, size: int):
        tables = [
            [np.random.default_rng([replica, n]).standard_normal((n, size), np.float32) for n in (40, 30)]
            for replica in self._replicas
        ]
        return make_model(tables, self._device)


class Rows:
    """A denoiser for some of the replicas, told of batches and of the ends of epochs as the training loop does."""

    def __init__(self, case, model="mf", device=CPU, replicas=(0, 1, 2), seeds=SEEDS):
        part, loss = case
        own = [worlds(device)[OWN_PAIRS[replica]] for replica in replicas]
        seeds = [seeds[replica] for replica in replicas]
        self.worlds, self._device = own, device
        self._part = MODELS[model]
        self.model = self._part.fit(own[0], Maker(replicas, device))
        size = self._part.embedding_size
        teacher = None
        if getattr(part, "needs_teacher", False):
            tables = MODELS["mf"].__class__(embedding_size=size).fit(own[0], Maker([9 + r for r in replicas], device))
            teacher = Embeddings(tables.users.detach(), tables.items.detach())
        world = denoised(*own, batch_size=BATCH_SIZE, loss=loss, size=size, teacher=teacher)
        self.rejected = world.rejected
        self.denoiser = part.start(world, seeds)
        self._sampler, self._epochs = UniformNegatives().start(world, seeds), Epochs(own, BATCH_SIZE, seeds)

    def next_batch(self) -> PositiveBatch:
        ended = self._epochs.advance()
        if ended and self.denoiser.follows_epochs:
            self.denoiser.end_epoch(ended, self.model.propagate())
        return self._epochs.batch()

    def drawn(self, batch: PositiveBatch):
        """The rows that are scored, and their negatives."""
        view = self.model.propagate()
        return drawn_rows(self.denoiser.choose_users(batch), self._sampler, self.denoiser, view)

    def judged(self, batch: PositiveBatch) -> dict[str, torch.Tensor]:
        """All that comes of a batch, replica first; of scores also the slopes."""
        rows, negatives = self.drawn(batch)
        view = self.model.propagate()
        vectors = Vectors(*(take(table, numbers).detach().requires_grad_() for table, numbers in (
            (view.final.users, rows.users), (view.final.items, rows.items), (view.final.items, negatives.items),
        )))  # fmt: skip
        positive = (vectors.users * vectors.positives).sum(-1).detach().requires_grad_()
        negative = (vectors.users * vectors.negatives).sum(-1).detach().requires_grad_()
        needs_vectors = self.denoiser.reads == "gradients"
        scored = ScoredRows(rows, negatives, positive, negative, vectors if needs_vectors else None)
        judged = self.denoiser.judge(scored)
        value = (judged.losses * rows.weights * rows.live).sum()
        by_positive, by_negative = torch.autograd.grad(value, (positive, negative), retain_graph=True)
        found = {
            "pairs": rows.pair_ids,
            "weights": rows.weights,
            "negatives": negatives.items,
            "losses": judged.losses.detach(),
            "by positive": by_positive,
            "by negative": by_negative,
        }
        if judged.kept is not None:
            found["kept"] = judged.kept
        if judged.of_batch is not None:
            found["of the batch"] = judged.of_batch.detach()
            (found["of users"],) = torch.autograd.grad(judged.of_batch.sum(), vectors.users)
        return found

    def __next__(self):
        return self.judged(self.next_batch())

    def keep(self, places):
        index = torch.tensor(places, device=self._device)
        for thing in (self.denoiser, self._sampler, self._epochs, self.rejected, self.model):
            thing.keep(index)

    def at(self, step: int):
        """Go on with the batch after so many steps, and the negatives that come then."""
        self._epochs.seek(step)
        self._sampler.load_state({"calls": torch.tensor(step)})
        return self


def steps(rows: Rows, n: int):
    return [next(rows) for _ in range(n)]


def assert_same(found, expected, device=CPU):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if device.type == "cpu":
            assert torch.equal(found[name], values), name
        else:  # where sums may be taken in another order
            torch.testing.assert_close(found[name], values, rtol=1e-3, atol=1e-5)


# Nine steps are two epochs of the one and one of the other pairs, and more.
N_STEPS = 9


def test_says_what_each_row_costs(case, model, device):
    rows = Rows(case, model, device)
    for found in steps(rows, N_STEPS):
        losses = found["losses"]
        assert losses.shape == (3, 128)
        assert losses.dtype == torch.float32
        assert losses.isfinite().all()
        assert losses.abs().sum() > 0
        if "kept" in found:
            assert found["kept"].shape == losses.shape
            assert found["kept"].isfinite().all()
            assert (found["kept"] >= 0).all()
            assert not found["kept"].requires_grad
            assert (found["kept"].sum(-1) > 0).all()
        assert ("of the batch" in found) <= (rows.denoiser.reads == "gradients")
        if "of the batch" in found:
            assert found["of the batch"].shape == (3,)
            assert found["of the batch"].isfinite().all()


def test_rows_stay_rows_of_the_replica_s_own_pairs(case, model, device):
    rows = Rows(case, model, device)
    for _ in range(N_STEPS):
        batch = rows.next_batch()
        chosen = rows.denoiser.choose_users(batch)
        found, _ = drawn_rows(chosen, rows._sampler, rows.denoiser, rows.model.propagate())
        assert torch.equal(found.users, chosen.users)
        for changed in (chosen, found):
            host = PositiveBatch(*(values.cpu() for values in vars(changed).values()))
            expected = pair_batch(rows.worlds, host.pair_ids, epochs=batch.epochs.cpu(), live=batch.live.cpu())
            is_live = expected.live > 0
            for name, values in vars(expected).items():
                heard = is_live if values.dim() == 2 else ...
                assert torch.equal(getattr(host, name)[heard], values[heard]), name


def test_the_gradient_reaches_the_scores(case, model, device):
    """Of either side, in every replica."""
    for found in steps(Rows(case, model, device), N_STEPS):
        for side in ("by positive", "by negative"):
            assert found[side].isfinite().all()
            assert (found[side].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("name", USUAL)
def test_positives_are_pulled_up_and_negatives_down(name, model):
    """On the whole: a denoiser may turn a few labels round, but not the training."""
    found = steps(Rows(USUAL[name], model), N_STEPS)
    assert sum(one["by positive"].sum() for one in found) < 0 < sum(one["by negative"].sum() for one in found)


class NotedSeeds(list):
    """Says whether anybody has read a seed."""

    are_read = False

    def __iter__(self):
        self.are_read = True
        return super().__iter__()

    def __getitem__(self, place):
        self.are_read = True
        return super().__getitem__(place)


def draws(case) -> bool:
    """Whether it reads the seeds, and draws by them in a few steps."""
    part, loss = case
    seeds, teacher = NotedSeeds([0]), Embeddings(torch.zeros(40, 1, 5), torch.zeros(30, 1, 5))
    part.start(denoised(worlds(CPU)[0], loss=loss, teacher=teacher), seeds)
    rows = Rows(case)
    steps(rows, N_STEPS)
    return seeds.are_read and rows.denoiser.state().get("calls", torch.tensor(1)) > 0


@pytest.mark.parametrize("name", USUAL)
def test_the_same_seed_judges_the_same_and_another_only_if_nothing_is_drawn(name, model):
    case = USUAL[name]
    one, two, other = Rows(case, model), Rows(case, model), Rows(case, model)
    other.denoiser = Rows(case, model, seeds=(1, 2, 4)).denoiser  # with batches and negatives as they were
    differ = False
    for _ in range(N_STEPS):
        found = next(one)
        assert_same(next(two), found)
        by_others = next(other)
        differ |= any(not torch.equal(by_others[name], values) for name, values in found.items())
    assert differ == draws(case)


@pytest.mark.parametrize("n_rows", [1, 128])
def test_a_batch_with_one_live_row(case, model, n_rows):
    rows = Rows(case, model)
    for _ in range(N_STEPS):
        batch = rows.next_batch()
        batch = PositiveBatch(*(values[:, :n_rows] if values.dim() == 2 else values for values in vars(batch).values()))
        live = torch.zeros_like(batch.live)
        live[:, 0] = 1
        found = rows.judged(dataclasses.replace(batch, live=live))
        for values in found.values():
            assert values.isfinite().all()
        assert (found["losses"][:, 0] != 0).all()


def test_dead_rows_change_nothing(case, model):
    """Whatever they hold, now and later, live rows cost the same."""
    one, two = Rows(case, model), Rows(case, model)
    for number in range(N_STEPS):
        batch, same = one.next_batch(), two.next_batch()
        generator = torch.Generator().manual_seed(number)
        ids = torch.randint(len(worlds(CPU)[0].pairs), batch.users.shape, generator=generator)
        others = pair_batch(two.worlds, ids)
        is_live = batch.live > 0
        assert 0 < is_live.sum() < is_live.numel()
        changed = {
            name: torch.where(is_live, getattr(same, name), getattr(others, name))
            for name in ("users", "items", "pair_ids", "weights")
        }
        found, expected = two.judged(dataclasses.replace(same, **changed)), one.judged(batch)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            heard = is_live if values.shape[:2] == is_live.shape else ...
            assert torch.equal(found[name][heard], values[heard]), name


@pytest.mark.parametrize("replicas", [[0], [1], [4], [1, 0], [2, 3]], ids=str)
def test_a_replica_judges_the_same_alone_and_in_company(case, model, device, replicas):
    together, fewer = Rows(case, model, device, range(5)), Rows(case, model, device, replicas)
    for found in steps(fewer, N_STEPS):
        assert_same(found, {name: values[replicas] for name, values in next(together).items()}, device)


@pytest.mark.parametrize("staying", [[1], [0, 2]], ids=str)
def test_replicas_that_stay_go_on_as_if_nobody_had_left(case, model, device, staying):
    whole, smaller = Rows(case, model, device), Rows(case, model, device)
    steps(whole, 5), steps(smaller, 5)
    smaller.keep(staying)
    for found in steps(smaller, N_STEPS):
        assert_same(found, {name: values[staying] for name, values in next(whole).items()}, device)


def test_goes_on_from_a_state_with_the_same_judgement(case, model, device):
    rows = Rows(case, model, device)
    steps(rows, 5)  # into the middle of an epoch
    state = {name: tensor.clone() for name, tensor in rows.denoiser.state().items()}
    following = steps(rows, N_STEPS)
    resumed = Rows(case, model, device).at(5)
    resumed.denoiser.load_state(state)
    for found in following:
        assert_same(next(resumed), found, device)
    # A state is a copy: what happened since has not changed it, and going back works as well.
    rows.at(5).denoiser.load_state(state)
    for found in following:
        assert_same(next(rows), found, device)


def test_a_state_is_no_window_on_the_denoiser(case, model, device):
    rows = Rows(case, model, device)
    steps(rows, 5)
    state = rows.denoiser.state()
    before = {name: tensor.clone() for name, tensor in state.items()}
    steps(rows, N_STEPS)
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in before.items())


def test_all_that_is_kept_lies_on_the_device_and_in_the_state_without_a_gradient(case, device):
    rows = Rows(case, device=device)
    steps(rows, 3)
    for tensor in rows.denoiser.state().values():
        assert not tensor.requires_grad
    if rows.denoiser.stays_on_device:
        # BOD's count of outer steps is read by the host after an epoch, never within a step.
        within_steps = {name: tensor for name, tensor in rows.denoiser.state().items() if name != "n_outer"}
        assert all(tensor.device.type == device.type for tensor in within_steps.values())


def test_a_batch_of_one_pair_again_and_again(case, model):
    """As copies may bring it."""
    rows = Rows(case, model)
    for _ in range(N_STEPS):
        batch = rows.next_batch()
        alike = {name: getattr(batch, name)[:, :1].expand_as(batch.users).clone() for name in
                 ("users", "items", "pair_ids", "weights")}  # fmt: skip
        found = rows.judged(dataclasses.replace(batch, **alike))
        assert all(values.isfinite().all() for values in found.values())


def test_says_what_it_needs(case):
    denoiser = Rows(case).denoiser
    assert denoiser.reads in ("nothing", "scores", "gradients")
    assert isinstance(denoiser.stays_on_device, bool)
    assert isinstance(denoiser.follows_epochs, bool)
