from __future__ import annotations

import contextlib
from typing import Any

import pytest

from pspns.components import find_part, part_names
from pspns.data.settings import DataSettings
from pspns.data.splits.random import RandomSplit
from pspns.errors import SettingsError
from pspns.models.ease import Ease
from pspns.models.popular import Popular
from pspns.models.svd import SvdRanking
from pspns.negatives.dns import DynamicNegatives
from pspns.negatives.dns_m_n import BestOfManyNegatives
from pspns.negatives.uniform import UniformNegatives
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings


def test_cutoffs_are_those_shown_and_the_one_that_selects() -> None:
    assert EvaluationSettings(k=(30, 5), select_by="ndcg@10").cutoffs == (5, 10, 30)
    assert EvaluationSettings(k=(20,), select_by="recall@20").cutoffs == (20,)
    assert EvaluationSettings(k=(7, 5), select_by="valid-loss").cutoffs == (5, 7)


def test_tables_are_ranked_by_what_selects_unless_it_is_a_loss() -> None:
    assert EvaluationSettings(select_by="ndcg@10").ranks_by == "ndcg@10"
    assert EvaluationSettings(k=(7, 5), select_by="revised-valid-loss").ranks_by == "recall@7"


def test_as_dict_names_the_parts_and_leaves_unset_sections_out() -> None:
    plain = Settings().as_dict()
    assert "split" not in plain
    assert plain["model"] == {"name": "mf", "embedding_size": 64}
    chosen = Settings(split=RandomSplit(test_share=0.2), model=SvdRanking(rank=3)).as_dict()
    assert chosen["split"] == {"name": "random", "valid_share": 0.1, "test_share": 0.2}
    assert chosen["model"] == {"name": "svd", "rank": 3}


@pytest.mark.parametrize(
    ("section", "given", "complaint"),
    [
        (EvaluationSettings, {"k": ()}, "k must be whole numbers of at least 1"),
        (EvaluationSettings, {"k": (5, 0)}, "k must be whole numbers of at least 1"),
        (EvaluationSettings, {"inactive": -1}, "inactive must be at least 0, got -1"),
        (EvaluationSettings, {"select_by": "recall"}, "such as recall@20, got 'recall'"),
        (EvaluationSettings, {"select_by": "recall@0"}, "such as recall@20, got 'recall@0'"),
        (EvaluationSettings, {"select_by": "recall@²"}, "such as recall@20, got 'recall@²'"),
        (EvaluationSettings, {"select_by": "ndgc@5"}, "did you mean 'ndcg'?"),
        (EvaluationSettings, {"select_by": "valid-los"}, "did you mean 'valid-loss'?"),
        (EvaluationSettings, {"select_by": "valid-loss@20"}, "only for metrics, got 'valid-loss@20'; write valid-loss"),
        (EvaluationSettings, {"loss_trim": 1.0}, "loss_trim must be at least 0 and below 1, got 1"),
        (EvaluationSettings, {"loss_trim": -0.1}, "loss_trim must be at least 0 and below 1, got -0.1"),
        (EvaluationSettings, {"loss_trim": float("nan")}, "loss_trim must be at least 0 and below 1, got nan"),
        (
            Settings,
            {"evaluation": EvaluationSettings(select_by="valid-loss"), "run": RunSettings(protocol="best-on-test")},
            "select_by = valid-loss is a loss on validation, and protocol best-on-test has no validation part",
        ),
        (RunSettings, {"seeds": ()}, "seeds must be distinct"),
        (RunSettings, {"seeds": (1, 1)}, "seeds must be distinct"),
        (RunSettings, {"seeds": (0, 2**63)}, "from 0 to 2⁶³ − 1"),
        (RunSettings, {"data_seed": -1}, "data_seed must be a whole number from 0"),
        (RunSettings, {"threads": 0}, "threads must be from 1 to 1,024, got 0"),
        (RunSettings, {"threads": 20_000}, "threads must be from 1 to 1,024, got 20000"),
        (RunSettings, {"memory_gib": float("nan")}, "memory_gib must be above 0, got nan"),
        (RunSettings, {"memory_gib": float("inf")}, "memory_gib must be above 0, got inf"),
        (RunSettings, {"checkpoint_seconds": -1}, "checkpoint_seconds must be at least 0, got -1"),
        (RunSettings, {"checkpoint_seconds": float("nan")}, "checkpoint_seconds must be at least 0, got nan"),
        (RunSettings, {"checkpoint_seconds": float("inf")}, "checkpoint_seconds must be at least 0, got inf"),
        (RunSettings, {"protocol": "strickt"}, "did you mean 'strict'?"),
        (DataSettings, {"columns": {"usr": "a"}}, "did you mean 'user'?"),
        (Settings, {"training": TrainingSettings(loss="brp")}, "loss: no losses named 'brp'"),
        (
            Settings,
            {"training": TrainingSettings(loss="bce"), "negatives": BestOfManyNegatives(sum_over_best=True)},
            "loss must be bpr with [negatives] dns-m-n as it is set, got bce",
        ),
        (
            Settings,
            {"model": Popular(), "negatives": DynamicNegatives()},
            "popular has no training loop, so [negatives] dns has no effect; leave it out",
        ),
        (
            Settings,
            {"model": Ease(), "negatives": UniformNegatives(owned_too=True)},
            "[negatives] uniform has no effect",
        ),
    ],
)
def test_impossible_settings_are_refused_before_anything_runs(section: Any, given: Any, complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        section(**given)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("model", part_names("models"))
def test_only_models_that_train_take_other_negatives_than_the_default(model: str) -> None:
    part = find_part("models", model)()
    Settings(model=part, negatives=UniformNegatives())  # no complaint
    trains = model in ("mf", "lightgcn")
    with contextlib.nullcontext() if trains else pytest.raises(SettingsError, match="has no training loop"):
        Settings(model=part, negatives=DynamicNegatives())
