"""The loop as a whole: it learns, the same bits come out, and company changes nothing."""

import contextlib
import dataclasses
import math

import numpy as np
import pytest
import torch
from toy import make_world, toy_world

from pspns.errors import PspnsError, SettingsError
from pspns.models._embedding_model import EmbeddingModel
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives, UniformSampler
from pspns.positives.repeated import RepeatedPositives
from pspns.rng import host_stream
from pspns.starts.normal import NormalStart
from pspns.starts.xavier import XavierStart
from pspns.training.checkpoint import Checkpoints
from pspns.training.loop import Saving
from pspns.training.settings import TrainingSettings
from pspns.training.trainer import Member, Trainer


def trainer(world, seeds, *, validate=None, watch=None, start=None, **settings) -> Trainer:
    chosen = TrainingSettings(**{"batch_size": 64, **settings})
    return Trainer(
        members=[Member(world, start or XavierStart(), chosen.l2, seeds, validate)],
        negatives=UniformNegatives(),
        settings=chosen,
        select_by="recall@20",
        watch=watch or (lambda step, last_step, evaluation: None),
    )


def trained(world, seeds, **settings):
    return trainer(world, seeds, **settings).train(EmbeddingModel, 8)


def test_equals_a_plain_loop_written_out():
    """One replica, three epochs, torch's own Adam on indexed tables, the negatives of the same streams."""
    world = toy_world()
    found = trained(world, [3], steps=15, learning_rate=0.01, l2=0.02).scorer

    from pspns.training.epochs import Epochs

    users, items = (torch.from_numpy(t).clone().requires_grad_() for t in XavierStart().embeddings(
        world, 8, host_stream(3, "start")))  # fmt: skip
    adam = torch.optim.Adam([users, items], lr=0.01)
    epochs, sampler = Epochs([world], 64, [3]), UniformNegatives().start(world, [3])
    for _ in range(15):
        batch = epochs.next_batch()
        live = batch.live[0].bool()
        drawn = world.rejected.draw_outside(batch.users, 1, sampler._stream)[0, :, 0][live]
        u, i, j = users[batch.users[0][live]], items[batch.items[0][live]], items[drawn]
        loss = -torch.nn.functional.logsigmoid((u * i).sum(1) - (u * j).sum(1)).mean()
        loss = loss + 0.02 * (u.square().sum() + i.square().sum() + j.square().sum()) / (2 * live.sum())
        adam.zero_grad()
        loss.backward()
        adam.step()
    torch.testing.assert_close(found.users[:, 0], users.detach(), rtol=2e-4, atol=2e-6)
    torch.testing.assert_close(found.items[:, 0], items.detach(), rtol=2e-4, atol=2e-6)


def test_training_separates_positives_from_the_rest():
    world = toy_world()
    scorer = trained(world, [0], steps=400, learning_rate=0.02).scorer
    scores = scorer.scores(torch.arange(40), 0)
    owned = torch.from_numpy(world.train.matrix(40, 30).toarray()) > 0
    assert scores[owned].mean() > scores[~owned].mean() + 1


def test_a_replica_comes_out_the_same_alone_and_in_company_to_the_bit():
    world = toy_world()
    alone = trained(world, [5], steps=60).scorer
    together = trained(world, [0, 5, 2], steps=60).scorer
    assert torch.equal(alone.users[:, 0], together.users[:, 1])
    assert torch.equal(alone.items[:, 0], together.items[:, 1])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_same_seed_same_bits_whatever_the_threads(n_threads, tmp_path_factory):
    # Large enough that torch does split the work: 3,000 users and items, 64 numbers each.
    world = toy_world(n_users=1500, n_items=1500, n_pairs=20_000)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        found = trained(world, [0, 1], steps=8, batch_size=2048).scorer
        torch.set_num_threads(1)
        again = trained(world, [0, 1], steps=8, batch_size=2048).scorer
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.users, again.users)
    assert torch.equal(found.items, again.items)


def scripted_validation(values: dict[int, list[float]], seen: list[int]):
    """Validation whose answer is written down: seed → value at each evaluation, for replicas as they remain."""
    looks = [0]
    alive = list(values)

    def validate(scorer, place):
        now = looks[0]
        answer = {"recall@20": values[alive[place]][now]}
        if place == scorer.n_replicas - 1:
            seen.append(scorer.n_replicas)
            looks[0] += 1
            # What the loop should decide with a patience of two.
            for seed in list(alive):
                if now - int(np.argmax(values[seed][: now + 1])) >= 2:
                    alive.remove(seed)
        return answer

    return validate


def test_replicas_stop_one_by_one_and_keep_their_best():
    world, seen = toy_world(), []
    values = {0: [0.1, 0.3, 0.2, 0.2, 9, 9, 9], 1: [0.5, 0.4, 0.4, 9, 9, 9, 9], 2: [0.1, 0.2, 0.3, 0.4, 0.5, 0.4, 0.1]}
    kept = {}

    def watch(step, last_step, evaluation):
        if evaluation:
            kept[step] = evaluation

    found = trained(
        world, [0, 1, 2], evaluate_every=10, patience=2, validate=scripted_validation(values, seen), watch=watch
    )
    assert found.steps == [40, 30, 70]
    assert found.best_steps == [20, 10, 50]
    assert seen == [3, 3, 3, 2, 1, 1, 1]
    assert list(kept[40].metrics) == [0, 2]
    # The kept state is the state at the best step: training exactly so long gives the same bits.
    for replica, steps in enumerate(found.best_steps):
        alone = trained(world, [replica], steps=steps).scorer
        assert torch.equal(found.scorer.users[:, replica], alone.users[:, 0])
        assert torch.equal(found.scorer.items[:, replica], alone.items[:, 0])


def test_the_step_after_which_no_replica_goes_on_is_told_as_the_last():
    told = []
    trained(
        toy_world(),
        [0],
        evaluate_every=3,
        patience=2,
        max_steps=100,
        validate=lambda s, place: {"recall@20": 0.5},
        watch=lambda step, last_step, evaluation: told.append((step, last_step)),
    )
    assert told == [*((step, 100) for step in range(1, 9)), (9, 9)]


def test_equal_values_are_no_improvement():
    found = trained(toy_world(), [0], evaluate_every=5, patience=3, validate=lambda s, place: {"recall@20": 0.5})
    assert (found.best_steps, found.steps) == ([5], [20])


@pytest.mark.parametrize(
    ("select_by", "best_step"), [("valid-loss", 15), ("revised-valid-loss", 15), ("ndcg@20", 20), ("recall@20", 20)]
)
def test_losses_are_better_low_and_metrics_high(select_by, best_step):
    values = iter([0.5, 0.4, 0.3, 0.9, 0.6, 0.5, 0.8, 0.3])
    given = trainer(toy_world(), [0], evaluate_every=5, patience=4, validate=lambda s, place: {select_by: next(values)})
    found = dataclasses.replace(given, select_by=select_by).train(EmbeddingModel, 8)
    assert (found.best_steps, found.steps) == ([best_step], [best_step + 20])


def test_a_fixed_number_of_steps_keeps_the_last_state_whatever_validation_says():
    falling = iter(range(100, 0, -1))
    world = toy_world()
    watched = trained(world, [0], steps=23, evaluate_every=5, validate=lambda s, place: {"recall@20": next(falling)})
    assert watched.steps == watched.best_steps == [23]
    assert [e.step for e in watched.history] == [5, 10, 15, 20, 23]
    assert torch.equal(watched.scorer.users, trained(world, [0], steps=23).scorer.users)


def test_max_steps_ends_training_that_still_improves():
    rising = iter(range(100))
    found = trained(
        toy_world(), [0], max_steps=12, evaluate_every=5, validate=lambda s, place: {"recall@20": next(rising)}
    )
    assert found.steps == found.best_steps == [12]


def test_evaluations_come_every_five_passes_over_train_whatever_the_copies():
    assert TrainingSettings(batch_size=2048).interval(669_182) == 5 * 327
    assert TrainingSettings(batch_size=2048, evaluate_every=7).interval(669_182) == 7


def test_without_validation_the_number_of_steps_must_be_given():
    with pytest.raises(SettingsError, match="without a validation part nothing tells when to stop"):
        trained(toy_world(), [0])


def test_divergence_is_an_error_with_the_remedy():
    with pytest.raises(PspnsError, match=r"training diverged.*lower"):
        trained(toy_world(), [0], steps=10, evaluate_every=5, start=NormalStart(spread=1e30))


@dataclasses.dataclass(frozen=True)
class FollowingNegatives:
    """Uniform ones that note when they are told of an epoch's end, and what the model is then."""

    told: list = dataclasses.field(default_factory=list)  # (seed, steps taken, its users, its items)

    def start(self, world, seeds):
        return FollowingSampler(world, seeds, self.told)


class FollowingSampler(UniformSampler):
    follows_epochs = True

    def __init__(self, world, seeds, told):
        super().__init__(world, seeds)
        self._seeds, self._told = list(seeds), told

    def end_epoch(self, replicas, model):
        assert not torch.is_grad_enabled()
        for place in replicas:
            tables = (table[:, place].clone() for table in (model.final.users, model.final.items))
            self._told.append((self._seeds[place], self._stream.calls, *tables))

    def keep(self, replicas):
        super().keep(replicas)
        self._seeds = [self._seeds[place] for place in replicas.tolist()]


def long_and_short_worlds():
    """Over the same items; so many users that a batch misses most of them."""
    world = toy_world(n_users=200, n_items=100, n_pairs=100)
    twice = make_world(world.train, 200, 100, pairs=RepeatedPositives(copies=2).build(world))
    return [world, twice], [-(-one.pairs.n_visits // 64) for one in (world, twice)]


MF = MatrixFactorisation(embedding_size=8)


def following(members, model=MF):
    """What the sampler was told in a training of at most 40 steps, and those of each replica."""
    negatives = FollowingNegatives()
    settings = TrainingSettings(batch_size=64, max_steps=40, evaluate_every=4, patience=1)
    fitted = model.fit(members[0].world, Trainer(members, negatives, settings, "recall@20", lambda *_: None))
    return negatives.told, fitted.steps


def until(last_step):
    """Validation that is better at every look, until a step; with patience 1 the replica leaves there."""
    looks = iter(range(4, 1000, 4))
    return lambda scorer, place: {"recall@20": min(next(looks), last_step - 4)}


def test_a_sampler_is_told_of_every_epoch_of_every_replica_once():
    worlds, (short, long) = long_and_short_worlds()
    members = [
        Member(world, XavierStart(), 1e-4, [seed], until(last))
        for world, seed, last in ((worlds[0], 5, 40), (worlds[1], 6, 40), (worlds[0], 7, 28))
    ]
    told, steps = following(members)
    assert steps == [40, 40, 28]
    assert (short, long) == (7, 13)
    # After its last step a replica is told nothing: there is no batch for which it would matter.
    expected = {5: [7, 14, 21, 28, 35], 6: [13, 26, 39], 7: [7, 14, 21]}
    assert {own: [step for seed, step, *_ in told if seed == own] for own in expected} == expected


@pytest.mark.parametrize("model", [MF, LightGcn(embedding_size=8, layers=2)])
def test_the_model_of_an_epochs_end_is_that_of_a_training_that_ended_there(model):
    """Also rows that no batch has had for a while: without gradient Adam still moves them."""
    worlds, n_batches = long_and_short_worlds()
    members = [Member(world, XavierStart(), 1e-4, [seed], until(40)) for seed, world in enumerate(worlds)]
    told, _ = following(members, model)
    assert len(told) == sum(39 // n for n in n_batches)
    for seed, step, users, items in told:
        alone = [Member(worlds[seed], XavierStart(), 1e-4, [seed], None)]
        settings = TrainingSettings(batch_size=64, steps=step)
        scorer = model.fit(
            worlds[seed], Trainer(alone, UniformNegatives(), settings, "recall@20", lambda *_: None)
        ).scorer
        assert torch.equal(users, scorer.users[:, 0])
        assert torch.equal(items, scorer.items[:, 0])


def test_a_training_that_is_stopped_at_an_epochs_end_tells_the_sampler_once_when_it_goes_on(tmp_path):
    worlds, (n_batches, _) = long_and_short_worlds()
    expected, _ = following([Member(worlds[0], XavierStart(), 1e-4, [0], until(40))])
    told, checkpoints = [], Checkpoints(tmp_path, {})

    def stop(step, last_step, evaluation):
        if step in (n_batches - 1, n_batches, n_batches + 1, 3 * n_batches):
            raise KeyboardInterrupt

    negatives, is_done = FollowingNegatives(told), False
    settings = TrainingSettings(batch_size=64, steps=40)
    while not is_done:
        saving = Saving(checkpoints, 1e9, checkpoints.latest(pytest.fail))
        members = [Member(worlds[0], XavierStart(), 1e-4, [0], None)]
        with contextlib.suppress(KeyboardInterrupt):
            Trainer(members, negatives, settings, "recall@20", stop, saving).train(EmbeddingModel, 8)
            is_done = True
    assert len(told) == len(expected) > 3
    for (_, step, *found), (_, at, *tables) in zip(told, expected, strict=True):
        assert step == at
        assert all(map(torch.equal, found, tables))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("learning_rate", math.inf),
        ("l2", -1.0),
        ("patience", 0),
        ("steps", 0),
    ],
)
def test_impossible_settings_name_themselves(field, value):
    with pytest.raises(SettingsError, match=rf"{field} must be .*change \[training\] {field}"):
        TrainingSettings(**{field: value})


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainingSettings().l2 = 1.0
