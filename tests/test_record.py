from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import pspns
from pspns.api import fit
from pspns.evaluation.ranking import Ranked
from pspns.record import served_replica, summarise


def ranked(**overall: float) -> Ranked:
    return Ranked({}, overall)


def test_summary_has_the_mean_and_each_seed() -> None:
    found = summarise([ranked(a=0.25, b=1.0), ranked(a=0.75, b=0.0)])
    assert found == {"a": {"mean": 0.5, "per_seed": [0.25, 0.75]}, "b": {"mean": 0.5, "per_seed": [1.0, 0.0]}}
    assert summarise([]) == {}


def test_figures_that_do_not_exist_are_left_out() -> None:
    assert summarise([ranked(a=0.5, b=float("nan"))]) == {"a": {"mean": 0.5, "per_seed": [0.5]}}


def test_the_served_replica_is_the_first_of_the_best() -> None:
    assert served_replica([ranked(a=0.1), ranked(a=0.3), ranked(a=0.3)], "a") == 1
    assert served_replica([], "a") == 0


def test_of_losses_the_lowest_is_best() -> None:
    replicas = [ranked(**{"valid-loss": loss, "recall@20": loss}) for loss in (0.6, 0.4, 0.4, 0.7)]
    assert served_replica(replicas, "valid-loss") == 1
    assert served_replica(replicas, "recall@20") == 3


class TestResult:
    @pytest.fixture
    def result(self, fitted: Callable[[str], Any]) -> dict[str, Any]:
        found: dict[str, Any] = fitted("mf").model.result
        return found

    def test_protocol(self, result: dict[str, Any]) -> None:
        protocol = result["protocol"]
        assert (protocol["name"], protocol["mask_valid"], protocol["mask_test"]) == ("strict", "train", "train+valid")
        assert "train alone" in protocol["meaning"]
        assert protocol["warning"] == ""

    def test_data(self, result: dict[str, Any], clicks: pl.DataFrame, fitted: Callable[[str], Any]) -> None:
        data, split = result["data"], fitted("mf").model.split
        assert data["fingerprint"] == split.fingerprint()
        assert data["train"] + data["valid"] + data["test"] == len(clicks)
        assert data["users"] + data["held_out_only_users"] == clicks["user"].n_unique()
        assert data["items"] + data["held_out_only_items"] == clicks["item"].n_unique()
        assert data["split"] == "random 80:10:10, data seed 0"
        assert "columns: user = 'user', item = 'item', no rating, no time" in data["facts"]

    def test_machine_and_versions(self, result: dict[str, Any]) -> None:
        assert result["versions"]["pspns"] == pspns.__version__
        assert result["versions"]["python"] == platform.python_version()
        assert result["versions"]["numpy"] == np.__version__
        assert result["versions"]["torch"] == torch.__version__
        assert result["machine"]["device"] == "cpu"
        assert result["machine"]["threads"] == 1

    def test_settings_and_seeds(self, result: dict[str, Any]) -> None:
        assert result["seeds"] == [3, 0, 7]
        assert result["settings"]["training"]["steps"] == 20
        assert result["settings"]["positives"] == {"name": "observed"}
        assert result["steps"] == result["best_step"] == [20, 20, 20]

    def test_figures(self, result: dict[str, Any]) -> None:
        for part in ("valid", "test"):
            assert {"recall@5", "precision@10", "ndcg@20", "hit-rate@5", "mrr@5", "map@5", "item-coverage@10"} <= set(
                result[part]
            )
            assert all(len(figures["per_seed"]) == 3 for figures in result[part].values())
        assert list(result["test_other_masks"]) == ["train"]
        assert result["test_other_masks"]["train"] != result["test"]
        assert set(result["baselines"]) == {"popular", "svd", "ease"}
        assert result["baselines"]["ease"]["chosen_on_validation"]["l2"] in (100, 200, 500, 1000)
        assert len(result["baselines"]["ease"]["test"]["recall@5"]["per_seed"]) == 1

    def test_seconds(self, result: dict[str, Any]) -> None:
        assert set(result["seconds"]) >= {"split", "positives", "training", "evaluation", "baselines"}
        assert all(seconds >= 0 for seconds in result["seconds"].values())

    def test_who_was_judged(self, result: dict[str, Any], fitted: Callable[[str], Any]) -> None:
        split = fitted("mf").model.split
        users = set(split.test.users.tolist())
        assert result["evaluated"]["test"] == {
            "users": len(users),
            "users_without_held_out_items": split.n_users - len([user for user in users if user < split.n_users]),
            "users_unknown_to_train": len([user for user in users if user >= split.n_users]),
        }

    def test_groups(self, result: dict[str, Any], fitted: Callable[[str], Any]) -> None:
        split = fitted("mf").model.split
        frame = pl.read_parquet(fitted("mf").folder / "per_user.parquet")
        frame = frame.filter(model="mf", part="test", mask="train+valid")
        counts = np.bincount(split.train.users)
        least = sorted(range(split.n_users), key=lambda user: (counts[user], user))[:20]
        group = result["groups"]["least_active_20"]
        rows = frame.filter(pl.col("user").is_in(split.user_ids[least].tolist()))
        assert group["users"] == rows["user"].n_unique()
        assert group["mean_train_pairs"] == pytest.approx(counts[least].mean())
        assert group["test"]["ndcg@10"] == pytest.approx(rows["ndcg@10"].mean())
        deciles = [result["groups"][f"decile_{number}"] for number in range(1, 11)]
        in_train = frame.filter(pl.col("train_pairs") > 0)["user"].n_unique()
        assert sum(decile["users"] for decile in deciles) == in_train
        activity = [decile["mean_train_pairs"] for decile in deciles]
        assert activity == sorted(activity)


def test_published_figures_carry_their_warning(clicks: pl.DataFrame) -> None:
    result = fit(clicks, model="popular", protocol="published", baselines=False).result
    assert result["protocol"]["mask_test"] == "train+pairs"
    assert "must not be compared" in result["protocol"]["warning"]


def test_best_on_test_has_no_validation(clicks: pl.DataFrame) -> None:
    result = fit(clicks, model="popular", protocol="best-on-test", baselines=False).result
    assert (result["data"]["valid"], result["valid"]) == (0, {})
    assert "too good" in result["protocol"]["warning"]
    assert "validation joined to train" in result["data"]["split"]


def test_a_baseline_that_cannot_be_run_says_why(clicks: pl.DataFrame) -> None:
    result = fit(clicks, model="popular", memory_gib=0.00002).result
    assert set(result["baselines"]) == {"svd"}
    assert "memory" in result["baselines_left_out"]["ease"]
