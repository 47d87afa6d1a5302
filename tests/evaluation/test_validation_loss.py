"""Validation loss against a loop in double, what it is drawn from, and runs that are chosen by it."""

import dataclasses
import json
import math

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats
from toy import given_split

from pspns import dry_run
from pspns.components import find_part
from pspns.data.noise import add_noise
from pspns.data.planted import plant
from pspns.data.split import Pairs, Split
from pspns.data.splits.none import NoSplit
from pspns.errors import DataError, SettingsError
from pspns.evaluation.validation_loss import ValidationLoss
from pspns.memory import GIB, MemoryBudget
from pspns.models._dot_product import DotProduct
from pspns.models.ease import Ease
from pspns.models.mf import MatrixFactorisation
from pspns.models.svd import SvdRanking
from pspns.record import describe_run
from pspns.run import run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings

CPU = torch.device("cpu")
LOSSES = ("valid-loss", "revised-valid-loss")


def split_of(train, valid, n_users=3, n_items=5) -> Split:
    """From lists of (user, item); numbers beyond the first are unknown to train."""
    parts = [Pairs(*np.array(pairs or np.empty((0, 2)), dtype=np.int64).T) for pairs in (train, valid, [])]
    return Split(*parts, n_users, n_items, np.arange(n_users), np.arange(n_items), "by hand")


def random_split(seed=0) -> Split:
    given = given_split(30, 20, 200, seed)
    return Split.from_parts(given.interactions, given.parts, "toy")


def random_scorer(split: Split, n_replicas=2, seed=1) -> DotProduct:
    rng = np.random.default_rng(seed)
    shapes = [(n, n_replicas, 6) for n in (split.n_users, split.n_items)]
    return DotProduct(*(torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape in shapes))


def loss_of(split, *, seed=0, trim=0.2, memory=None) -> ValidationLoss:
    return ValidationLoss(split, seed, trim, memory or MemoryBudget(CPU))


def by_a_loop(loss: ValidationLoss, scores: np.ndarray, trim: float) -> dict[str, float]:
    """From `[users, items]` scores in double, one pair after the other."""
    positive, negative = [], []
    for user, item, other in zip(loss.pairs.users, loss.pairs.items, loss.negatives, strict=True):
        positive.append(-math.log(1 / (1 + math.exp(-scores[user, item]))))
        negative.append(-math.log(1 - 1 / (1 + math.exp(-scores[user, other]))))
    kept = sorted(positive, reverse=True)[int(trim * len(positive)) :]
    return {
        "valid-loss": sum(positive + negative) / (2 * len(positive)),
        "revised-valid-loss": sum(kept + negative) / (len(kept) + len(negative)),
    }


class TestTheFigure:
    @pytest.mark.parametrize("trim", [0.0, 0.25, 0.5])
    def test_equals_a_loop_over_pairs(self, trim):
        split = random_split()
        loss, scorer = loss_of(split, trim=trim), random_scorer(split)
        for replica in range(2):
            users, items = (table[:, replica].double().numpy() for table in (scorer.users, scorer.items))
            expected = by_a_loop(loss, users @ items.T, trim)
            assert loss.of(scorer, replica) == pytest.approx(expected, rel=1e-6)
        both = loss.of(scorer, 0)
        assert (both["valid-loss"] - both["revised-valid-loss"] > 1e-6) == (trim > 0)
        assert loss.of(scorer, 0) != loss.of(scorer, 1)

    def test_worked_by_hand(self):
        # Five users have one item in train and one in validation, and of three items one is left, the negative.
        split = split_of([(u, 0) for u in range(5)], [(u, 1) for u in range(5)], n_users=5, n_items=3)
        loss = loss_of(split, trim=0.4)
        assert loss.negatives.tolist() == [2] * 5
        # s⁺ = 0, ln 3, ln 7, ln 15, ln 31 have the losses ln 2, ln 4/3, ln 8/7, …; s⁻ = 0 has ln 2.
        scores = torch.tensor([0, math.log(3), math.log(7), math.log(15), math.log(31)])
        scorer = DotProduct(scores[:, None, None], torch.tensor([[[9.0]], [[1.0]], [[0.0]]]))
        losses = [math.log(x) for x in (2, 4 / 3, 8 / 7, 16 / 15, 32 / 31)]
        negatives = 5 * math.log(2)
        found = loss.of(scorer, 0)
        assert found["valid-loss"] == pytest.approx((sum(losses) + negatives) / 10, rel=1e-6)
        assert found["revised-valid-loss"] == pytest.approx((sum(losses[2:]) + negatives) / 8, rel=1e-6)

    def test_scores_far_from_0_stay_finite(self):
        split = split_of([(0, 0)], [(0, 1)], n_users=1, n_items=3)
        scorer = DotProduct(torch.ones(1, 1, 1), torch.tensor([[[0.0]], [[-500.0]], [[300.0]]]))
        assert loss_of(split).of(scorer, 0) == dict.fromkeys(LOSSES, 400.0)

    @pytest.mark.parametrize(("trim", "n_pairs", "n_kept"), [(0.2, 4, 4), (0.2, 5, 4), (0.29, 100, 71), (0.99, 3, 1)])
    def test_how_many_are_left_out(self, trim, n_pairs, n_kept):
        # One pair is hopeless and the others are certain: what is left of it shows how many are.
        split = split_of([(u, 0) for u in range(n_pairs)], [(u, 1) for u in range(n_pairs)], n_pairs, n_items=3)
        scores = torch.full((n_pairs, 1, 1), -100.0)
        found = loss_of(split, trim=trim).of(DotProduct(scores, torch.tensor([[[0.0]], [[1.0]], [[1.0]]])), 0)
        assert found["revised-valid-loss"] == pytest.approx(100 * n_kept / (n_kept + n_pairs))

    @pytest.mark.parametrize("model", ["popular", "svd", "ease"])
    def test_models_without_a_training_loop(self, model):
        split = random_split()
        part = find_part("models", model)(**{"popular": {}, "svd": {"rank": 4}, "ease": {"l2": 5.0}}[model])
        settings = Settings(model=part, evaluation=EvaluationSettings(k=(5,)), run=RunSettings(baselines=False))
        scorer = run(given_split(30, 20, 200), settings).model.fitted.scorer
        loss = loss_of(split)
        scores = scorer.scores(torch.arange(split.n_users), 0).double().numpy()
        assert loss.of(scorer, 0) == pytest.approx(by_a_loop(loss, scores, 0.2), rel=1e-5)

    @pytest.mark.parametrize("model", ["vectors", "scores"])
    def test_blocks_change_no_bit(self, model, monkeypatch):
        split = random_split()
        scorer = random_scorer(split)
        if model == "scores":
            scorer = ByScores(scorer)
        whole = loss_of(split).of(scorer, 1)
        asked = []
        memory = MemoryBudget(CPU, 32 * 8 * split.n_items / GIB if model == "scores" else 7 * 20 * 6 / GIB)
        monkeypatch.setattr(
            memory, "rows", lambda *args: asked.append(type(memory).rows(memory, *args)) or max(1, asked[-1] // 8)
        )
        assert loss_of(split, memory=memory).of(scorer, 1) == whole
        assert asked == ([32] if model == "scores" else [7])

    def test_threads_change_no_bit(self):
        given = given_split(400, 300, 30_000)
        split = Split.from_parts(given.interactions, given.parts, "toy")
        loss, scorer = loss_of(split), random_scorer(split)
        one = loss.of(scorer, 0)
        torch.set_num_threads(2)
        try:
            assert loss.of(scorer, 0) == one
        finally:
            torch.set_num_threads(1)


class ByScores:
    """A scorer that has no vectors to be asked for."""

    n_replicas = 2

    def __init__(self, scorer):
        self._scorer = scorer

    def scores(self, users, replica):
        # Row by row, so that how many are asked for at once cannot be felt.
        return torch.stack([self._scorer.scores(user[None], replica)[0] for user in users])


class TestNegatives:
    def test_are_outside_train_and_validation(self):
        split = random_split()
        owned = {*zip(split.train.users, split.train.items, strict=True)}
        owned |= {*zip(split.valid.users, split.valid.items, strict=True)}
        found = loss_of(split)
        assert len(found.negatives) == len(found.pairs) == len(split.valid)
        assert owned.isdisjoint(zip(found.pairs.users, found.negatives, strict=True))
        assert set(found.negatives) <= set(range(split.n_items))

    def test_are_uniform(self):
        # One user of 3,000 items in validation; of 3,006 items five are left.
        n_items, free = 3006, [0, 17, 1500, 1501, 3005]
        valid = [(0, item) for item in range(n_items) if item not in (*free, 4)]
        found = loss_of(split_of([(0, 4)], valid, n_users=1, n_items=n_items)).negatives
        counts = [int((found == item).sum()) for item in free]
        assert sum(counts) == len(valid)
        assert stats.chisquare(counts).pvalue > 1e-3

    def test_follow_the_data_seed_alone(self):
        split = random_split()
        first, again, other = (loss_of(split, seed=seed).negatives.tolist() for seed in (3, 3, 4))
        assert first == again != other
        torch.manual_seed(5)
        np.random.seed(5)
        assert loss_of(split, seed=3, trim=0.5).negatives.tolist() == first

    def test_do_not_change_with_the_noise_that_was_added_to_train(self):
        split = random_split()
        noisy = add_noise(split, 0.3, np.random.default_rng(0))
        assert len(noisy.train) > len(split.train)
        assert loss_of(noisy).negatives.tolist() == loss_of(split).negatives.tolist()

    def test_pairs_that_cannot_be_judged_are_left_out_and_counted(self):
        # User 3 and item 5 are unknown to train; user 2 has every item in train or validation.
        train = [(0, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)]
        split = split_of(train, [(0, 1), (0, 5), (1, 2), (2, 4), (3, 0)])
        found = loss_of(split)
        assert list(zip(found.pairs.users, found.pairs.items, strict=True)) == [(0, 1), (1, 2)]
        assert found.n_left_out == 3

    def test_nothing_to_judge_is_an_error_with_the_remedy(self):
        with pytest.raises(DataError, match=r"of 1 validation pairs none .*--select-by recall@20"):
            loss_of(split_of([(0, 0)], [(7, 0)]))


# Runs


def settings(select_by="recall@5", *, protocol="strict", baselines=False, **training) -> Settings:
    usual = {"loss": "bce", "batch_size": 64, "learning_rate": 0.02, "max_steps": 200, "evaluate_every": 10}
    return Settings(
        model=MatrixFactorisation(embedding_size=8),
        training=TrainingSettings(**{**usual, **training}),
        evaluation=EvaluationSettings(k=(5,), select_by=select_by, inactive=5),
        run=RunSettings(protocol=protocol, seeds=(0, 1), device="cpu", baselines=baselines),
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return plant("clustered", n_users=80, n_items=40, rng=rng, mean_preferences=12, mean_interactions=9).interactions


class TestRuns:
    @pytest.mark.parametrize("select_by", LOSSES)
    def test_the_step_of_the_lowest_loss_is_kept(self, data, select_by):
        found = run(data, settings(select_by, patience=3))
        for place, seed in enumerate((0, 1)):
            looks = [look for look in found.model.fitted.history if seed in look.metrics]
            values = {look.step: look.metrics[seed][select_by] for look in looks}
            best = min(values, key=lambda step: values[step])
            assert found.model.fitted.best_steps[place] == best
            assert found.model.fitted.steps[place] == best + 30  # it stops for lack of patience, not at the limit
            assert found.model.valid[place].overall[select_by] == values[best]
        assert 10 < min(found.model.fitted.best_steps) < 90
        losses = [ranked.overall[select_by] for ranked in found.model.valid]
        assert describe_run(found)["served_replica"] == losses.index(min(losses))
        assert losses[0] != losses[1]

    def test_both_losses_are_recorded_and_only_if_one_is_asked_for(self, data):
        asked, plain = (run(data, settings(select_by, steps=10)) for select_by in ("valid-loss", "recall@5"))
        assert {*asked.model.valid[0].overall} - {*plain.model.valid[0].overall} == set(LOSSES)
        (with_losses,), (without,) = asked.model.fitted.history, plain.model.fitted.history
        for seed in (0, 1):
            assert {*with_losses.metrics[seed]} - {*without.metrics[seed]} == set(LOSSES)
        assert asked.model.test[0].overall == plain.model.test[0].overall
        results = [describe_run(found) for found in (asked, plain)]
        assert {*results[0]["valid"]} - {*results[1]["valid"]} == set(LOSSES)
        evaluated, without_loss = (result["evaluated"] for result in results)
        judged = {"pairs_of_loss": len(asked.split.valid), "pairs_left_out_of_loss": 0}
        assert evaluated == {**without_loss, "valid": {**without_loss["valid"], **judged}}

    def test_trimming_is_as_set(self, data):
        half = dataclasses.replace(settings("valid-loss", steps=10).evaluation, loss_trim=0.5)
        found = run(data, dataclasses.replace(settings(steps=10), evaluation=half))
        loss = loss_of(found.split, trim=0.5)
        assert found.model.valid[1].overall["revised-valid-loss"] == loss.of(found.model.fitted.scorer, 1)[LOSSES[1]]
        assert (
            found.model.valid[1].overall["revised-valid-loss"]
            != loss_of(found.split).of(found.model.fitted.scorer, 1)[LOSSES[1]]
        )

    def test_no_loss_chooses_the_setting_of_a_baseline(self, data):
        """Their scores are no log-odds."""
        by_loss, by_metric = (
            run(data, settings(select_by, baselines=True, steps=1)).baselines
            for select_by in ("valid-loss", "recall@5")
        )
        chosen = {judged.name: judged.fitted.chosen for judged in by_loss}
        assert chosen == {judged.name: judged.fitted.chosen for judged in by_metric}
        ranks = {rank: dataclasses.replace(settings("valid-loss"), model=SvdRanking(rank=rank)) for rank in (16, 32)}
        losses = {rank: run(data, one).model.valid[0].overall["valid-loss"] for rank, one in ranks.items()}
        assert chosen["svd"] == {"rank": max(losses, key=lambda rank: losses[rank])}

    def test_a_loss_chooses_the_setting_of_a_model_without_a_loop_if_asked_to(self, data):
        losses = {}
        for l2 in (100.0, 200.0, 500.0, 1000.0):
            found = run(data, dataclasses.replace(settings("valid-loss"), model=Ease(l2=l2)))
            losses[l2] = found.model.valid[0].overall["valid-loss"]
        assert len(set(losses.values())) == 4
        found = run(data, dataclasses.replace(settings("valid-loss"), model=Ease()))
        assert found.model.fitted.chosen == {"l2": min(losses, key=lambda l2: losses[l2])}

    def test_going_on_after_a_stop_chooses_the_same(self, data, tmp_path):
        whole = run(data, settings("revised-valid-loss", patience=3))

        def stop(step, last_step, evaluation):
            if step == 35:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(data, settings("revised-valid-loss", patience=3), checkpoints=tmp_path / "c", watch=stop)
        again = run(data, settings("revised-valid-loss", patience=3), checkpoints=tmp_path / "c", resume=True)
        assert again.model.fitted.best_steps == whole.model.fitted.best_steps
        assert [look.metrics for look in again.model.fitted.history] == [
            look.metrics for look in whole.model.fitted.history
        ]

    def test_without_validation_there_is_no_loss(self, data):
        found = run(data, dataclasses.replace(settings("valid-loss", steps=5), split=NoSplit()))
        assert found.rankings.valid_loss is None
        assert describe_run(found)["served_replica"] == 0

    def test_no_test_chooses_by_a_loss(self):
        for select_by in LOSSES:
            with pytest.raises(SettingsError, match=rf"{select_by} is a loss on validation, and protocol best-on-test"):
                settings(select_by, protocol="best-on-test")


def test_from_the_command_line_to_the_report(command, clicks_file, tmp_path):
    runs = {name: tmp_path / name for name in ("loss", "recall")}
    quick = ("--data", clicks_file, "--threads", 1, "--embedding-size", 4, "--k", "5,10", "--loss", "bce")
    quick += ("--max-steps", 60, "--evaluate-every", 20, "--seeds", "0-1", "--learning-rate", 0.05)
    done = command("train", *quick, "--select-by", "revised-valid-loss", "--loss-trim", 0.3, "--out", runs["loss"])
    assert done.code == 0, done.err
    assert "Recall@5" in done.out
    assert "Best steps were chosen by the lowest revised-valid-loss." in done.out
    result = json.loads((runs["loss"] / "result.json").read_text())
    assert result["settings"]["evaluation"]["loss_trim"] == 0.3
    judged = result["evaluated"]["valid"]
    assert judged["pairs_left_out_of_loss"] >= judged["users_unknown_to_train"] > 0
    assert judged["pairs_of_loss"] == result["data"]["valid"] - judged["pairs_left_out_of_loss"] > 0
    lines = [json.loads(line) for line in (runs["loss"] / "metrics.jsonl").read_text().splitlines()]
    by_step = {line["step"]: line["metrics"]["revised-valid-loss"] for line in lines if line["seed"] == 0}
    assert result["best_step"][0] == min(by_step, key=lambda step: by_step[step])
    shown = " ".join(f"{line['metrics']['revised-valid-loss']:.4f}" for line in lines if line["step"] == 20)
    assert f"revised-valid-loss on validation {shown} loss" in done.err
    for name in ("popular", "svd", "ease"):
        assert set(LOSSES) <= set(result["baselines"][name]["valid"])
        assert set(LOSSES).isdisjoint(result["baselines"][name]["test"])

    assert command("train", *quick, "--select-by", "recall@5", "--no-baselines", "--out", runs["recall"]).code == 0
    compared = command("compare", *runs.values(), "--metric", "recall@5")
    assert compared.code == 0, compared.err
    again = command("evaluate", runs["loss"], "--json")
    assert json.loads(again.out)["valid"] == result["valid"]
    page = tmp_path / "report.html"
    assert command("report", *runs.values(), "--out", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "chosen by the lowest revised-valid-loss (mf (loss)); the highest Recall@5 (mf (recall))." in text
    assert command("report", runs["recall"], "--out", page, "--overwrite").code == 0
    assert "the step that was kept. Dashed" in page.read_text(encoding="utf-8")
    assert pl.read_parquet(runs["loss"] / "per_user.parquet").columns == pl.read_parquet(
        runs["recall"] / "per_user.parquet"
    ).columns  # fmt: skip


def test_a_dry_run_looks_at_the_loss_too(data, monkeypatch):
    looked = []
    of = ValidationLoss.of
    monkeypatch.setattr(dry_run, "SECONDS_OF_STEPS", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(ValidationLoss, "of", lambda self, *args: looked.append(args) or of(self, *args))
        found = dry_run.estimate(data, settings("valid-loss"))
    assert found.fits
    assert len(looked) == 2  # replicas
    stage = "held-out and known items"
    plain = dry_run.estimate(data, settings()).bytes_by_stage[stage]
    # A user, an item and a negative of each pair that is judged, at least.
    n_pairs = describe_run(run(data, settings("valid-loss", steps=1)))["evaluated"]["valid"]["pairs_of_loss"]
    assert found.bytes_by_stage[stage] - plain >= 3 * 8 * n_pairs
