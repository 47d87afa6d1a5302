import numpy as np
import pytest
import torch

from pspns.errors import SettingsError
from pspns.memory import MemoryBudget, MemoryBudgetError, named_when_it_runs_out

CPU = torch.device("cpu")


def test_what_fits_passes_and_what_does_not_is_named():
    budget = MemoryBudget(CPU, gib=2)
    budget.check(2 * 2**30, "this")
    with pytest.raises(MemoryBudgetError, match=r"that needs about 3 GiB of memory on cpu, and the budget is 2 GiB"):
        budget.check(3 * 2**30, "that")


def test_rows_fill_the_budget_between_their_bounds():
    budget = MemoryBudget(CPU, gib=1)
    assert budget.rows(2**20, 1, 5000, "x") == 1024
    assert budget.rows(2**20, 1, 300, "x") == 300
    with pytest.raises(MemoryBudgetError, match="x needs about 2 GiB"):
        budget.rows(2**20, 2048, 4096, "x")


def test_unset_it_is_a_share_of_what_is_free():
    limit = MemoryBudget(CPU).limit
    assert limit is None or 0 < limit < 2**50


def test_impossible_budgets():
    with pytest.raises(SettingsError, match="memory_gib must be above 0, got 0"):
        MemoryBudget(CPU, gib=0)


@pytest.mark.parametrize(
    "ask", [lambda: torch.empty(2**55, dtype=torch.uint8), lambda: np.empty(2**55, dtype=np.uint8)]
)
def test_memory_that_runs_out_is_named(ask):
    told = pytest.raises(MemoryBudgetError, match="training ran out of memory; take less")
    with told, named_when_it_runs_out("training", "take less"):
        ask()


def test_other_errors_keep_their_names():
    with pytest.raises(RuntimeError, match="something else"), named_when_it_runs_out("training", "take less"):
        raise RuntimeError("something else")
