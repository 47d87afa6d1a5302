"""Ranking metrics: one contract for all, numbers worked by hand, and ir-measures as a second opinion."""

from __future__ import annotations

from math import log2

import ir_measures
import pytest
import torch
from ir_measures import AP, RR, P, R, Success, nDCG
from torch import Tensor

from pspns.components import find_part, part_names

CUT_OFFS = (1, 5, 20, 100)
N_USERS, N_RANKED = 3000, 60

# Our name → theirs: RR@k is computed by MS MARCO's script, the others by trec_eval.
THEIRS = {"recall": R, "precision": P, "ndcg": nDCG, "hit-rate": Success, "mrr": RR, "map": AP}

each_metric = pytest.mark.parametrize("name", part_names("metrics"))


def compute(name: str, hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    result = find_part("metrics", name)(hits, n_relevant, k)
    assert isinstance(result, Tensor)
    return result


def one_user(name: str, hits: list[int], n_relevant: int, k: int) -> float:
    return compute(name, torch.tensor([hits]).bool(), torch.tensor([n_relevant]), k).item()


@pytest.fixture(scope="module")
def rankings() -> tuple[Tensor, Tensor]:
    """Random hits of lists of 60, some users with none, and held-out items found or not, `[users]`."""
    rng = torch.Generator().manual_seed(0)
    # From lists almost without hits to lists that are mostly hits.
    shares = torch.rand(N_USERS, 1, generator=rng) ** 4
    hits = torch.rand(N_USERS, N_RANKED, generator=rng) < shares
    n_missed = torch.randint(0, 15, (N_USERS,), generator=rng)
    return hits, (hits.sum(-1) + n_missed).clamp(min=1)


class TestContract:
    @each_metric
    @pytest.mark.parametrize("k", CUT_OFFS)
    def test_one_double_from_0_to_1_for_each_user(self, name, k, rankings):
        values = compute(name, *rankings, k)
        assert values.shape == (N_USERS,)
        assert values.dtype == torch.float64
        assert ((values >= 0) & (values <= 1)).all()
        assert len(values.unique()) > 1

    @each_metric
    def test_no_hits_give_0(self, name):
        assert compute(name, torch.zeros(4, 10).bool(), torch.tensor([1, 2, 10, 50]), 10).tolist() == [0] * 4

    @each_metric
    @pytest.mark.parametrize("k", CUT_OFFS)
    def test_k_hits_of_k_held_out_items_give_exactly_1(self, name, k):
        assert one_user(name, [1] * k, n_relevant=k, k=k) == 1

    # Recall and MAP cannot reach 1 with more than k held-out items, precision not with fewer.
    @pytest.mark.parametrize("name", sorted({*part_names("metrics")} - {"precision"}))
    def test_all_held_out_items_first_give_exactly_1(self, name):
        for n_relevant in range(1, 21):
            assert one_user(name, [1] * n_relevant + [0] * (20 - n_relevant), n_relevant, k=20) == 1

    @each_metric
    @pytest.mark.parametrize("k", [1, 5, 20])
    @pytest.mark.parametrize("is_hit", [False, True])
    def test_what_comes_after_k_changes_nothing(self, name, k, is_hit, rankings):
        hits, n_relevant = rankings
        later = torch.full((N_USERS, 7), is_hit)
        longer = torch.cat((hits[:, :k], later), dim=1)
        assert torch.equal(compute(name, longer, n_relevant, k), compute(name, hits[:, :k], n_relevant, k))

    @each_metric
    def test_ranks_that_a_short_list_lacks_are_misses(self, name, rankings):
        hits, n_relevant = rankings
        padded = torch.cat((hits, torch.zeros(N_USERS, 40).bool()), dim=1)
        torch.testing.assert_close(
            compute(name, hits, n_relevant, 100), compute(name, padded, n_relevant, 100), rtol=1e-14, atol=0
        )

    @each_metric
    def test_arguments_are_left_as_they_were(self, name, rankings):
        hits, n_relevant = (given.clone() for given in rankings)
        compute(name, hits, n_relevant, 20)
        assert torch.equal(hits, rankings[0])
        assert torch.equal(n_relevant, rankings[1])

    @each_metric
    def test_everything_stays_on_the_device_of_the_hits(self, name, rankings):
        # The meta device computes nothing but refuses to be mixed with tensors of the CPU, as a GPU would.
        hits, n_relevant = (given.to("meta") for given in rankings)
        assert compute(name, hits, n_relevant, 20).device.type == "meta"

    @each_metric
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    @pytest.mark.parametrize("k", CUT_OFFS)
    def test_cuda_agrees_with_the_cpu(self, name, k, rankings):
        hits, n_relevant = (given.cuda() for given in rankings)
        values = compute(name, hits, n_relevant, k)
        assert values.is_cuda
        torch.testing.assert_close(values.cpu(), compute(name, *rankings, k), rtol=1e-12, atol=0)


class TestByHand:
    """Hits at ranks 2 and 3; four held-out items."""

    @pytest.mark.parametrize(
        ("name", "k", "expected"),
        [
            ("recall", 2, 1 / 4),
            ("recall", 3, 2 / 4),
            ("precision", 2, 1 / 2),
            ("precision", 10, 2 / 10),
            ("hit-rate", 1, 0),
            ("hit-rate", 2, 1),
            ("mrr", 1, 0),
            ("mrr", 3, 1 / 2),
            ("map", 2, (1 / 2) / 4),
            ("map", 5, (1 / 2 + 2 / 3) / 4),
            # min(k, 4) held-out items in the best list: two at k = 2, all four at k = 5.
            ("ndcg", 2, (1 / log2(3)) / (1 + 1 / log2(3))),
            ("ndcg", 5, (1 / log2(3) + 1 / 2) / (1 + 1 / log2(3) + 1 / 2 + 1 / log2(5))),
        ],
    )
    def test_value(self, name, k, expected):
        assert one_user(name, [0, 1, 1, 0], n_relevant=4, k=k) == pytest.approx(expected, rel=1e-14, abs=0)

    def test_more_held_out_items_than_places(self):
        # Five held-out items, both places hits: the divisor of recall and MAP is 5, that of NDCG is 2.
        expected = {"recall": 0.4, "map": 0.4, "precision": 1, "ndcg": 1, "hit-rate": 1, "mrr": 1}
        assert {name: one_user(name, [1, 1], n_relevant=5, k=2) for name in expected} == expected


@pytest.fixture(scope="module")
def ir_measures_values(rankings) -> dict[tuple[str, int], Tensor]:
    """(metric, k) → what ir-measures says of each user."""
    hits, n_relevant = rankings
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for user, (row, n) in enumerate(zip(hits.tolist(), n_relevant.tolist(), strict=True)):
        # The item at rank r is called "r"; scores fall strictly, so that no tie has to be broken.
        run[str(user)] = {str(rank): float(-rank) for rank in range(N_RANKED)}
        found = [str(rank) for rank, is_hit in enumerate(row) if is_hit]
        missed = [f"missed {i}" for i in range(n - len(found))]
        qrels[str(user)] = dict.fromkeys(found + missed, 1)
    wanted = {theirs @ k: (name, k) for name, theirs in THEIRS.items() for k in CUT_OFFS}
    values = {key: torch.full((N_USERS,), torch.nan, dtype=torch.float64) for key in wanted.values()}
    for entry in ir_measures.iter_calc(list(wanted), qrels, run):
        values[wanted[entry.measure]][int(entry.query_id)] = entry.value
    return values


@pytest.mark.parametrize("name", sorted(THEIRS))
@pytest.mark.parametrize("k", CUT_OFFS)
def test_ir_measures_says_the_same(name, k, rankings, ir_measures_values):
    difference = compute(name, *rankings, k) - ir_measures_values[name, k]
    assert difference.abs().max() <= 1e-9  # false for nan, that is for a user whom ir-measures left out
