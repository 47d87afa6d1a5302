"""One SVD for a whole run: how often it is made, at which rank, and what each part gets of it."""

import numpy as np
import pytest
import torch
from toy import CPU, given_split, make_world, random_pairs

from pspns import global_svd, spectral
from pspns.data.split import Pairs
from pspns.evaluation.protocol import find_protocol
from pspns.global_svd import GlobalSvd
from pspns.memory import MemoryBudget
from pspns.models.mf import MatrixFactorisation
from pspns.models.popular import Popular
from pspns.positives._facts import describe_positives
from pspns.positives.agreement import AgreementPositives
from pspns.positives.psp import PspPositives
from pspns.rng import host_stream
from pspns.run import build_world, make_split, run
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.shapes import Ground
from pspns.spectral import truncated_svd
from pspns.starts.spectral import SpectralStart
from pspns.starts.xavier import XavierStart
from pspns.training.settings import TrainingSettings

MEMORY = MemoryBudget(CPU)
TRAIN = random_pairs(60, 50, 500, np.random.default_rng(0))


def ground(at_least: int = 0, train: Pairs = TRAIN) -> Ground:
    return Ground(60, 50, train, 3, MEMORY, svd=GlobalSvd(at_least))


def from_scratch(rank: int, stream: str = "svd", *, exact: bool = False) -> tuple[torch.Tensor, ...]:
    return truncated_svd(TRAIN.matrix(60, 50), rank, host_stream(3, stream), exact=exact)


def same(found, expected) -> bool:
    return all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def first(factors, rank: int) -> list[torch.Tensor]:
    return [factor[..., :rank] for factor in factors]


@pytest.fixture
def made(monkeypatch) -> list[tuple[int, bool]]:
    """Rank and exactness of every SVD that is made, none of them exact because it is small."""
    calls: list[tuple[int, bool]] = []

    def counted(matrix, rank, rng, device, *, exact):
        calls.append((rank, exact))
        return truncated_svd(matrix, rank, rng, device, exact=exact)

    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    monkeypatch.setattr(global_svd, "truncated_svd", counted)
    return calls


def test_made_once_and_anew_only_for_a_larger_rank(made):
    here = ground()
    for rank in (8, 8, 3):
        assert [factor.shape[-1] for factor in here.svd.factors(here, rank)] == [rank] * 3
    assert made == [(8, False)]
    here.svd.factors(here, 9)
    here.svd.factors(here, 8)
    assert made == [(8, False), (9, False)]


def test_made_at_the_rank_that_a_later_part_will_ask_for(made):
    here = ground(at_least=12)
    for rank in (5, 12):
        assert same(here.svd.factors(here, rank), first(from_scratch(12), rank))
    assert made == [(12, False)]
    # A randomized SVD of another rank is another one, which is why the rank is recorded.
    assert not torch.equal(here.svd.factors(here, 5)[1], from_scratch(5)[1])


@pytest.mark.parametrize("at_least", [0, 80])
def test_no_more_columns_than_the_smaller_side_has_rows(made, at_least):
    here = ground(at_least)
    assert here.svd.computed_rank(here, 70) == 50
    U, S, V = here.svd.factors(here, 70)
    assert (U.shape, S.shape, V.shape) == ((60, 50), (50,), (50, 50))
    here.svd.factors(here, 60)
    assert made == [(50, False)]


def test_exact_and_randomized_are_kept_apart(made):
    here = ground(at_least=6)
    for _ in range(2):
        assert same(here.svd.factors(here, 5, exact=True), first(from_scratch(6, exact=True), 5))
        assert same(here.svd.factors(here, 5), first(from_scratch(6), 5))
    assert made == [(6, True), (6, False)]


def test_where_the_data_are_small_asking_for_exact_changes_nothing(monkeypatch, made):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 1000)
    here = ground()
    assert same(here.svd.factors(here, 5, exact=True), here.svd.factors(here, 5))
    assert made == [(5, True)]


def test_the_first_columns_of_an_exact_svd_are_the_same_bits_at_any_rank():
    wide, narrow = ground(at_least=40), ground()
    assert same(wide.svd.factors(wide, 7), narrow.svd.factors(narrow, 7))
    one, two = (PspPositives(rank=7).build(here) for here in (wide, narrow))
    assert np.array_equal(one.items, two.items)


def test_factors_lie_in_memory_alike_whatever_the_rank(made):
    for exact in (False, True):
        for at_least in (0, 40):
            here = ground(at_least)
            assert all(factor.is_contiguous() for factor in here.svd.factors(here, 7, exact=exact))


def test_the_computed_rank_is_that_of_the_svd_the_columns_come_from(made):
    here = ground(at_least=6)
    assert [here.svd.computed_rank(here, rank) for rank in (5, 6, 9)] == [6, 6, 9]
    here.svd.factors(here, 20)
    assert [here.svd.computed_rank(here, rank) for rank in (5, 30)] == [20, 30]
    assert here.svd.computed_rank(here, 5, exact=True) == 6
    assert made == [(20, False)]


def test_another_seed_gives_another_svd_of_the_same_width_which_is_not_kept(made):
    here = ground(at_least=12)
    ours = here.svd.factors(here, 5)
    assert same(here.svd.factors_of_another_seed(here, 5), first(from_scratch(12, "another svd"), 5))
    assert same(here.svd.factors(here, 5), ours)
    assert made == [(12, False)] * 2


def test_another_train_is_refused():
    here = ground()
    here.svd.factors(here, 5)
    other = Ground(60, 50, random_pairs(60, 50, 500, np.random.default_rng(1)), 3, MEMORY, svd=here.svd)
    with pytest.raises(AssertionError, match="another train"):
        other.svd.factors(other, 5)


def test_every_ground_has_an_svd_of_its_own_and_shares_it_with_the_world_built_on_it():
    one, two = (Ground(60, 50, TRAIN, 3, MEMORY) for _ in range(2))
    assert one.svd is not two.svd
    assert vars(one)["svd"] is one.svd
    world = make_world(TRAIN, 60, 50)
    assert world.svd.factors(world, 4)[1].shape == (4,)


def settings(start, model=None) -> Settings:
    return Settings(
        positives=AgreementPositives(rank=5),
        start=start,
        model=model or MatrixFactorisation(embedding_size=8),
        training=TrainingSettings(steps=3, batch_size=64),
        evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=5),
        run=RunSettings(seeds=(0, 1), device="cpu", baselines=False),
    )


@pytest.mark.parametrize(
    ("start", "model", "computed_rank"),
    [
        (SpectralStart(), MatrixFactorisation(embedding_size=8), 8),
        (SpectralStart(), MatrixFactorisation(embedding_size=3), 5),
        (SpectralStart(), Popular(), 5),  # a model without vectors asks for no start
        (XavierStart(), MatrixFactorisation(embedding_size=8), 5),
    ],
    ids=["wide start", "narrow start", "no start", "random start"],
)
def test_pairs_and_start_share_one_svd(made, start, model, computed_rank):
    chosen, protocol = settings(start, model), find_protocol("strict")
    world = build_world(make_split(given_split(60, 40, 600), chosen, protocol), chosen, protocol, MEMORY)
    assert made == [(computed_rank, False)]
    facts = describe_positives(world, chosen.positives)
    assert (facts["svd"]["rank"], facts["svd"]["computed_rank"]) == (5, computed_rank)
    assert 0 < facts["svd"]["seed_agreement"] <= 1
    assert made == [(computed_rank, False)] * 2, "one more, of the other seed, to see how far the two agree"
    start.embeddings(world, getattr(model, "embedding_size", 5), np.random.default_rng(0))
    assert len(made) == 2


def test_a_run_makes_one_svd_and_one_more_to_see_how_far_two_seeds_agree(made):
    finished = run(given_split(60, 40, 600), settings(SpectralStart()))
    assert made == [(8, False)] * 2
    assert finished.positives_facts["svd"]["computed_rank"] == 8
