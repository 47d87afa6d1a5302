"""Every builder against the contract, a dense float64 oracle on 1,000 matrices, and the paper's properties."""

from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
import torch
from toy import CPU, best_by_sorting, random_pairs

from pspns import global_svd, spectral
from pspns.components import find_part, part_names
from pspns.data.split import Pairs
from pspns.errors import SettingsError
from pspns.global_svd import GlobalSvd
from pspns.memory import GIB, MemoryBudget, MemoryBudgetError
from pspns.positives import _proposals
from pspns.positives._merge import merge
from pspns.positives._proposals import GlobalPattern
from pspns.positives.agreement import AgreementPositives
from pspns.positives.merged import MergedPositives
from pspns.positives.merged_weighted import MergedWeightedPositives
from pspns.positives.observed import ObservedPositives
from pspns.positives.psp import PspPositives
from pspns.positives.repeated import RepeatedPositives
from pspns.rng import host_stream
from pspns.shapes import Ground
from pspns.spectral import truncated_svd
from pspns.top_k import MIN_ROWS, best_by_torch
from pspns.weightings.log import LogWeighting

NAMES = part_names("positives")
BUILDERS = {name: find_part("positives", name) for name in NAMES}
SPECTRAL = [name for name in NAMES if issubclass(BUILDERS[name], GlobalPattern)]
MEMORY = MemoryBudget(CPU)

# The implementation scores in float32, the oracle in float64: only scores closer than this may change places.
NEAR_TIE = 1e-5


def builder(name: str, **settings):
    return BUILDERS[name](**(settings if name in SPECTRAL else {}))


def ground_of(matrix: np.ndarray, data_seed: int = 0, memory: MemoryBudget = MEMORY) -> Ground:
    users, items = np.nonzero(matrix)
    return Ground(*matrix.shape, Pairs(users, items), data_seed, memory)


def random_matrix(n_users: int, n_items: int, density: float, rng: np.random.Generator) -> np.ndarray:
    """0/1, every row and column with at least one 1; popular items first."""
    likely = np.clip(density * np.linspace(1.8, 0.2, n_items), 0, 1)
    matrix = rng.random((n_users, n_items)) < likely
    matrix[np.arange(n_users), rng.integers(n_items, size=n_users)] = True
    matrix[rng.integers(n_users, size=n_items), np.arange(n_items)] = True
    return matrix.astype(int)


def random_ground(n_users: int = 60, n_items: int = 40, seed: int = 0, density: float = 0.15) -> Ground:
    return ground_of(random_matrix(n_users, n_items, density, np.random.default_rng(seed)))


def spread_out(matrix: np.ndarray, pairs, values) -> np.ndarray:
    """One value for each pair, as a dense matrix; 0 elsewhere."""
    table = np.zeros(matrix.shape, dtype=np.asarray(values).dtype)
    table[pairs.users, pairs.items] = values
    return table


def dense(pairs, matrix: np.ndarray) -> np.ndarray:
    return spread_out(matrix, pairs, np.ones(len(pairs), dtype=int))


def same_pairs(one, two) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(two, field.name)) for field in fields(one))


# --- the contract ---------------------------------------------------------------------------------------------------


def edge_cases() -> dict[str, Ground]:
    rng = np.random.default_rng(1)
    cases = {"random": random_matrix(50, 35, 0.2, rng), "wide": random_matrix(6, 200, 0.1, rng)}
    cases["tall"] = random_matrix(400, 8, 0.2, rng)
    cases["a user who owns all, an item that all own"] = random_matrix(40, 30, 0.1, rng)
    cases["a user who owns all, an item that all own"][7] = 1
    cases["a user who owns all, an item that all own"][:, 3] = 1
    cases["all but one"] = random_matrix(40, 500, 0.01, rng)
    cases["all but one"][0, 1:] = 1
    cases["everything owned"] = np.ones((12, 9), dtype=int)
    cases["strangers"] = np.eye(10, dtype=int)
    cases["one user"] = np.ones((1, 5), dtype=int)
    cases["one item"] = np.ones((5, 1), dtype=int)
    cases["one pair"] = np.ones((1, 1), dtype=int)
    return {name: ground_of(matrix) for name, matrix in cases.items()}


EDGE_CASES = edge_cases()


@pytest.mark.parametrize("case", EDGE_CASES)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, case):
    ground = EDGE_CASES[case]
    rank = min(4, ground.n_users, ground.n_items)
    pairs = builder(name, rank=rank).build(ground)
    keys = pairs.users * ground.n_items + pairs.items
    assert len(pairs) > 0
    assert {len(getattr(pairs, field.name)) for field in fields(pairs)} == {len(pairs)}
    assert (np.diff(keys) > 0).all(), "pairs must be distinct and sorted by user, then item"
    assert pairs.users.min() >= 0
    assert pairs.users.max() < ground.n_users
    assert pairs.items.min() >= 0
    assert pairs.items.max() < ground.n_items
    kinds = [getattr(pairs, field.name).dtype for field in fields(pairs)]
    assert kinds == [np.int64, np.int64, np.uint8, np.float32, np.bool_, np.bool_]
    assert (pairs.copies >= 1).all()
    assert (pairs.pair_weights > 0).all()
    assert np.array_equal(pairs.is_observed, np.isin(keys, ground.train.users * ground.n_items + ground.train.items))
    assert (pairs.is_observed | pairs.is_global).all()
    again = builder(name, rank=rank).build(replace(ground, svd=GlobalSvd()))
    assert same_pairs(pairs, again), "the same seed must give the same pairs"


@pytest.mark.parametrize("name", NAMES)
def test_what_train_was_is_not_changed(name):
    ground = random_ground()
    users, items = ground.train.users.copy(), ground.train.items.copy()
    ground.train.users.flags.writeable = ground.train.items.flags.writeable = False
    builder(name, rank=4).build(ground)
    assert np.array_equal(ground.train.users, users)
    assert np.array_equal(ground.train.items, items)


@pytest.mark.parametrize("exact_up_to", [0, 1000])
@pytest.mark.parametrize("name", SPECTRAL)
def test_memory_changes_no_bit(monkeypatch, name, exact_up_to):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", exact_up_to)
    ground = random_ground(700, 60, seed=3)
    whole = builder(name, rank=8).build(ground)
    for n_rows in (MIN_ROWS, MIN_ROWS + 1, 100):
        tight = MemoryBudget(CPU, n_rows * 16 * ground.n_items / GIB)
        assert same_pairs(whole, builder(name, rank=8).build(replace(ground, memory=tight)))


def watch_scores(monkeypatch) -> list[torch.Tensor]:
    """Every block of scores that proposals are chosen from, in the order in which they are made."""
    blocks, make_scores = [], _proposals._scores

    def watched(users, items):
        blocks.append(make_scores(users, items))
        return blocks[-1]

    monkeypatch.setattr(_proposals, "_scores", watched)
    return blocks


def test_a_block_of_one_user_scores_with_the_same_bits(monkeypatch):
    blocks, whole = watch_scores(monkeypatch), []
    ground = random_ground(257, 300, seed=3)
    for n_rows, n_last in ((128, 1), (100, 57)):  # 257 users leave a block of 1, or of 57
        blocks.clear()
        GlobalPattern(rank=50).propose(replace(ground, memory=MemoryBudget(CPU, n_rows * 16 * 300 / GIB)))
        assert len(blocks[-1]) == n_last
        whole.append(torch.cat(blocks))
    assert torch.equal(*whole)


def test_scores_of_all_users_are_never_held_at_once(monkeypatch):
    ground, blocks = random_ground(700, 60), watch_scores(monkeypatch)
    GlobalPattern(rank=3).propose(replace(ground, memory=MemoryBudget(CPU, 40 * 16 * 60 / GIB)))
    assert max(map(len, blocks)) == 40
    assert sum(map(len, blocks)) == 700
    with pytest.raises(MemoryBudgetError, match="proposing 60 items"):
        GlobalPattern(rank=3).propose(replace(ground, memory=MemoryBudget(CPU, 10 * 16 * 60 / GIB)))


@pytest.mark.parametrize("settings", [{}, {"neighbours": "fixed", "neighbour_count": 7}, {"times_root_degree": True}])
def test_what_a_gpu_would_do_proposes_the_same(monkeypatch, settings):
    ground = random_ground(300, 90, seed=5)
    counted = GlobalPattern(rank=9, **settings).propose(ground)
    monkeypatch.setattr(_proposals, "_found_by_counting", _proposals._found_by_sorting)
    monkeypatch.setattr(_proposals, "best_items", best_by_torch)
    by_sorting = GlobalPattern(rank=9, **settings).propose(ground)
    assert np.array_equal(counted.users, by_sorting.users)
    assert np.array_equal(counted.items, by_sorting.items)


# --- the oracle -----------------------------------------------------------------------------------------------------


def oracle_scores(matrix: np.ndarray, rank: int, *, times_root_degree: bool = False) -> np.ndarray:
    """Equations 1 to 3 in float64: normalise, decompose, keep `rank` singular values, multiply out."""
    degrees_u, degrees_i = matrix.sum(1), matrix.sum(0)
    M, sigma, Nt = np.linalg.svd(matrix / np.sqrt(np.outer(degrees_u, degrees_i)), full_matrices=False)
    scores = M[:, :rank] @ np.diag(sigma[:rank]) @ Nt[:rank]
    return scores * np.sqrt(degrees_i) if times_root_degree else scores


def is_unique(matrix: np.ndarray, rank: int) -> bool:
    """Where the last singular value kept equals the first one dropped, either could be kept; 0s add nothing."""
    sigma = np.linalg.svd(matrix / np.sqrt(np.outer(matrix.sum(1), matrix.sum(0))), compute_uv=False)
    return rank == len(sigma) or sigma[rank - 1] - sigma[rank] > 1e-4 or sigma[rank - 1] < 1e-6


def oracle_counts(matrix: np.ndarray, neighbours: str, count: int, share: str) -> list[int]:
    degrees = matrix.sum(1).tolist()
    wanted = {
        "degree": degrees,
        "fixed": [count] * len(degrees),
        "share": [ceil(degree * Fraction(share)) for degree in degrees],
    }[neighbours]
    return [min(k, matrix.shape[1]) for k in wanted]


def oracle_top(scores: np.ndarray, counts: list[int]) -> np.ndarray:
    """The `counts` best items of each user as a dense 0/1 matrix, ties to the lower item number."""
    rounded = scores.round(10)  # what is equal in real numbers is not quite so in float64
    chosen = np.zeros(scores.shape, dtype=int)
    for user, k in enumerate(counts):
        best = sorted(range(scores.shape[1]), key=lambda item: (-rounded[user, item], item))[:k]
        chosen[user, best] = 1
    return chosen


def differing_users(found: np.ndarray, expected: np.ndarray, scores: np.ndarray, counts: list[int]) -> int:
    """Users with another choice than the oracle's, all of them excused by near ties at the boundary."""
    assert found.sum(1).tolist() == counts
    users, items = np.nonzero(found != expected)
    for user, item in zip(users, items, strict=True):
        boundary = np.sort(scores[user])[::-1][counts[user] - 1]
        assert abs(scores[user, item] - boundary) < NEAR_TIE
    return len(np.unique(users))


def oracle_merge(name: str, observed: np.ndarray, proposed: np.ndarray, s: int) -> tuple[np.ndarray, np.ndarray]:
    """Copies and pair weights as dense matrices (equation 4); 0 copies where there is no pair."""
    both, either = observed * proposed, np.maximum(observed, proposed)
    ones = np.ones_like(observed)
    return {
        "global": (proposed, ones),
        "merged": (either, ones),
        "merged-weighted": (either, np.where(both, s, 1)),
        "psp": (either + (s - 1) * both, ones),
        "agreement": (observed + (s - 1) * both, ones),
    }[name]


def check_build(name: str, settings: dict, matrix: np.ndarray, proposed: np.ndarray, s: int, a: float) -> None:
    strength = {"merged-weighted": {"agreed_weight": float(s)}, "psp": {"copies": s}, "agreement": {"copies": s}}
    pairs = BUILDERS[name](**settings, **strength.get(name, {})).build(ground_of(matrix))
    copies, weights = oracle_merge(name, matrix, proposed, s)
    assert np.array_equal(spread_out(matrix, pairs, pairs.copies), copies)
    assert len(pairs) == np.count_nonzero(copies)
    assert np.array_equal(pairs.pair_weights, weights[pairs.users, pairs.items])
    assert np.array_equal(pairs.is_global, proposed[pairs.users, pairs.items])
    assert np.array_equal(pairs.is_observed, matrix[pairs.users, pairs.items])
    # Equation 5, user by user: distinct pairs count, not copies.
    degrees = (copies > 0).sum(1)
    found = LogWeighting(sensitivity=a).weights(np.bincount(pairs.users, minlength=len(matrix)))
    np.testing.assert_allclose(found, [1 / np.log(a * d + 1) if d else 0 for d in degrees], rtol=1e-5)


def test_pairs_copies_and_weights_equal_a_dense_float64_oracle_on_1000_matrices():
    rng = np.random.default_rng(0)
    found: Counter[str] = Counter()
    others = [name for name in SPECTRAL if name != "psp"]
    while found["matrices"] < 1000:
        n_users, n_items = rng.integers(2, 41, size=2).tolist()
        matrix = random_matrix(n_users, n_items, rng.choice([0.05, 0.1, 0.2, 0.4]), rng)
        rank = int(rng.integers(1, min(n_users, n_items, 12) + 1))
        if not is_unique(matrix, rank):
            found["not unique"] += 1
            continue
        neighbours = ("degree", "fixed", "share")[found["matrices"] % 3]
        count, share = int(rng.integers(1, 12)), str(rng.choice(["0.07", "0.2", "0.3", "0.5", "0.9", "1"]))
        by_degree = bool(rng.integers(2))
        settings = {
            "rank": rank,
            "neighbours": neighbours,
            "neighbour_count": count,
            "neighbour_share": float(share),
            "times_root_degree": by_degree,
        }
        scores = oracle_scores(matrix, rank, times_root_degree=by_degree)
        counts = oracle_counts(matrix, neighbours, count, share)
        proposed = dense(GlobalPattern(**settings).propose(ground_of(matrix)), matrix)
        found["users"] += n_users
        found["near ties"] += differing_users(proposed, oracle_top(scores, counts), scores, counts)
        s, a = int(rng.integers(1, 7)), float(rng.choice([0.01, 0.1, 1, 10]))
        for name in ("psp", others[found["matrices"] // 3 % len(others)]):
            check_build(name, settings, matrix, proposed, s, a)
        found["matrices"] += 1
    # Nearly all of these are items with the very same owners, equal in real numbers: 0.7 % of the users where written.
    assert found["near ties"] < 0.02 * found["users"], found
    assert found["not unique"] < 30, found


def test_three_users_worked_by_hand():
    # Rank 1 of a connected graph scores √(d_u · d_i) / pairs: everybody is proposed the most popular items.
    matrix = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]])  # item degrees 3, 1, 2, 1
    pairs = PspPositives(rank=1, copies=5).build(ground_of(matrix))
    proposed = np.array([[1, 0, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0]])  # user 2: items 1 and 3 tie, the lower wins
    assert spread_out(matrix, pairs, pairs.is_global).tolist() == proposed.tolist()
    assert spread_out(matrix, pairs, pairs.copies).tolist() == [[5, 1, 1, 0], [5, 0, 5, 0], [5, 1, 5, 1]]


def test_root_degree_turns_the_ranking_towards_popular_items():
    matrix = random_matrix(60, 40, 0.15, np.random.default_rng(2))
    plain, turned = (
        GlobalPattern(rank=20, times_root_degree=turn).propose(ground_of(matrix)) for turn in (False, True)
    )
    popularity = matrix.sum(0)
    assert popularity[turned.items].mean() > popularity[plain.items].mean() * 1.02


# --- properties -----------------------------------------------------------------------------------------------------


def without_ties(n_users: int, n_items: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    while True:
        matrix = random_matrix(n_users, n_items, 0.25, rng)
        ordered = -np.sort(-oracle_scores(matrix, rank), axis=1)
        at = matrix.sum(1)
        inside = at < n_items
        gaps = ordered[inside, at[inside] - 1] - ordered[inside, at[inside]]
        if is_unique(matrix, rank) and gaps.min() > NEAR_TIE:
            return matrix


@pytest.mark.parametrize("name", NAMES)
def test_relabelling_users_and_items_relabels_the_result(name):
    rng = np.random.default_rng(5)
    for _ in range(10):
        matrix = without_ties(25, 20, 5, rng)
        users, items = rng.permutation(25), rng.permutation(20)
        before = builder(name, rank=5).build(ground_of(matrix))
        after = builder(name, rank=5).build(ground_of(matrix[users][:, items]))
        for field in ("copies", "pair_weights", "is_observed", "is_global"):
            one = spread_out(matrix, before, getattr(before, field))
            two = spread_out(matrix, after, getattr(after, field))
            assert np.array_equal(one[users][:, items], two)


@pytest.mark.parametrize("name", SPECTRAL)
def test_flipping_singular_signs_changes_nothing(monkeypatch, name):
    before = builder(name, rank=10).build(random_ground())
    svd = global_svd.truncated_svd
    called = []

    def flipped(*arguments, **options):
        U, S, V = svd(*arguments, **options)
        signs = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0] * 2)
        called.append(True)
        return U * signs, S, V * signs

    monkeypatch.setattr(global_svd, "truncated_svd", flipped)
    assert same_pairs(before, builder(name, rank=10).build(random_ground()))
    assert called


@pytest.mark.parametrize("seed", range(5))
def test_one_copy_makes_psp_equal_merged(seed):
    ground = random_ground(seed=seed)
    merged = MergedPositives(rank=6).build(ground)
    assert same_pairs(PspPositives(rank=6, copies=1).build(ground), merged)
    assert same_pairs(MergedWeightedPositives(rank=6, agreed_weight=1.0).build(ground), merged)
    assert not same_pairs(PspPositives(rank=6, copies=2).build(ground), merged)


@pytest.mark.parametrize("seed", range(5))
def test_agreement_is_psp_without_what_was_injected(seed):
    ground = random_ground(seed=seed)
    psp = PspPositives(rank=6, copies=4).build(ground)
    agreement = AgreementPositives(rank=6, copies=4).build(ground)
    assert same_pairs(agreement, psp.only(psp.is_observed))
    assert len(agreement) == len(ground.train) < len(psp)


def test_repeated_is_observed_in_copies():
    ground = random_ground()
    observed = ObservedPositives().build(ground)
    assert np.array_equal(observed.users, ground.train.users)
    assert np.array_equal(observed.items, ground.train.items)
    assert observed.n_visits == len(ground.train)
    repeated = RepeatedPositives(copies=255).build(ground)
    assert same_pairs(replace(repeated, copies=observed.copies), observed)
    assert (repeated.copies == 255).all()
    assert repeated.n_visits == 255 * len(ground.train)
    assert RepeatedPositives().build(ground).n_visits == 2 * len(ground.train)


def test_merging_by_hand():
    ground = Ground(3, 4, Pairs(np.array([0, 0, 2]), np.array([1, 3, 0])), 0, MEMORY)
    merged = merge(ground, Pairs(np.array([0, 1, 2]), np.array([3, 2, 0])))
    assert list(zip(merged.users.tolist(), merged.items.tolist(), strict=True)) == [(0, 1), (0, 3), (1, 2), (2, 0)]
    assert merged.is_observed.tolist() == [True, True, False, True]
    assert merged.is_global.tolist() == [False, True, True, True]
    assert merged.is_agreed.tolist() == [False, True, False, True]


# --- the two ways to the SVD ----------------------------------------------------------------------------------------


def test_exact_where_asked_for_is_the_exact_path(monkeypatch):
    matrix = random_matrix(300, 250, 0.05, np.random.default_rng(0))
    exact = PspPositives(rank=10).build(ground_of(matrix))
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    assert same_pairs(PspPositives(rank=10, exact=True).build(ground_of(matrix)), exact)
    # The randomized one is close, but not the same, so that the comparison above says something.
    randomized = PspPositives(rank=10).build(ground_of(matrix))
    assert not same_pairs(randomized, exact)


def planted_matrix(n_users: int, n_items: int, n_groups: int, rng: np.random.Generator) -> np.ndarray:
    """As many strong singular values as groups, then a gap."""
    users, items = rng.integers(n_groups, size=n_users), rng.integers(n_groups, size=n_items)
    matrix = rng.random((n_users, n_items)) < np.where(users[:, None] == items, 0.35, 0.02)
    matrix[np.arange(n_users), rng.integers(n_items, size=n_users)] = True
    matrix[rng.integers(n_users, size=n_items), np.arange(n_items)] = True
    return matrix.astype(int)


def test_randomized_equals_a_float64_implementation_with_the_same_start_and_passes(monkeypatch):
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    rank, data_seed = 10, 7
    matrix = planted_matrix(300, 250, rank, np.random.default_rng(0))
    pairs = BUILDERS["global"](rank=rank).build(ground_of(matrix, data_seed))

    A = matrix / np.sqrt(np.outer(matrix.sum(1), matrix.sum(0)))
    start = host_stream(data_seed, "svd").standard_normal((250, rank + 10)).astype(np.float32)
    Q, _ = np.linalg.qr(A @ start)
    for _ in range(7):
        Q, _ = np.linalg.qr(A @ np.linalg.qr(A.T @ Q)[0])
    W, sigma, Nt = np.linalg.svd(Q.T @ A, full_matrices=False)
    scores = Q @ (W[:, :rank] * sigma[:rank]) @ Nt[:rank]
    counts = matrix.sum(1).tolist()
    found = dense(pairs, matrix)
    assert differing_users(found, oracle_top(scores, counts), scores, counts) <= 3


def test_the_seed_and_nothing_else_moves_the_randomized_path(monkeypatch):
    matrix = random_matrix(300, 250, 0.05, np.random.default_rng(0))
    exact = [PspPositives(rank=10).build(ground_of(matrix, seed)) for seed in (0, 1)]
    assert same_pairs(*exact)
    monkeypatch.setattr(spectral, "EXACT_UP_TO", 0)
    one, again, other = (PspPositives(rank=10).build(ground_of(matrix, seed)) for seed in (0, 0, 1))
    assert same_pairs(one, again)
    assert not same_pairs(one, other)


def test_agreement_of_two_seeds_is_the_share_of_proposals_they_have_in_common():
    # Larger than the exact path goes, and without structure, so that seeds do differ.
    rng = np.random.default_rng(0)
    ground = Ground(1100, 1050, random_pairs(1100, 1050, 9000, rng), 3, MEMORY)
    pattern = PspPositives(rank=15)
    matrix = ground.train.matrix(1100, 1050)

    def proposed(stream: str) -> set[tuple[int, int]]:
        U, S, V = truncated_svd(matrix, 15, host_stream(3, stream))
        best = best_by_sorting(((U * S) @ V.T).numpy(), 1050)
        counts = np.diff(matrix.indptr)
        return {(user, item) for user in range(1100) for item in best[user][: counts[user]]}

    one, two = proposed("svd"), proposed("another svd")
    assert len(one) == len(two) == len(ground.train)
    agreement = pattern.seed_agreement(ground)
    assert agreement == pytest.approx(len(one & two) / len(one), abs=5 / len(one))  # near-ties may fall otherwise
    assert 0.05 < agreement < 0.99
    assert PspPositives(rank=15, exact=True).seed_agreement(ground) == 1
    assert PspPositives(rank=5).seed_agreement(random_ground()) == 1


# --- settings that make no sense ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "^rank must be at least 1, got 0"),
        ({"neighbours": "most"}, "^neighbours must be one of degree, fixed, share, got 'most'"),
        ({"neighbour_count": 0}, "^neighbour_count must be at least 1, got 0"),
        ({"neighbour_share": 0.0}, "^neighbour_share must be above 0 and at most 1, got 0"),
        ({"neighbour_share": 1.5}, "^neighbour_share must be above 0 and at most 1, got 1.5"),
        ({"neighbour_share": float("nan")}, "^neighbour_share must be above 0 and at most 1, got nan"),
    ],
)
def test_impossible_settings_of_the_pattern_are_refused(name, settings, message):
    with pytest.raises(SettingsError, match=message):
        BUILDERS[name](**settings)


@pytest.mark.parametrize("name", ["psp", "agreement", "repeated"])
@pytest.mark.parametrize("copies", [0, -1, 256])
def test_copies_that_do_not_fit_a_byte_are_refused(name, copies):
    with pytest.raises(SettingsError, match=f"^copies must be between 1 and 255, got {copies}"):
        BUILDERS[name](copies=copies)


@pytest.mark.parametrize("weight", [0.0, -1.0, 2e6, float("inf"), float("nan")])
def test_an_impossible_weight_is_refused(weight):
    with pytest.raises(SettingsError, match=r"^agreed_weight must be above 0 and at most 1,000,000, got"):
        MergedWeightedPositives(agreed_weight=weight)


@pytest.mark.parametrize("name", SPECTRAL)
def test_more_rank_than_the_data_have_is_refused(name):
    ground = random_ground(30, 20)
    with pytest.raises(SettingsError, match=r"^rank must be at most min\(n_users, n_items\) = 20, got 21; lower"):
        BUILDERS[name](rank=21).build(ground)
    assert len(BUILDERS[name](rank=20).build(ground)) >= len(ground.train)


def test_a_share_is_rounded_up_and_not_once_too_often():
    # 0.07 · 100 is 7.000000000000001 in floating point.
    matrix = np.zeros((3, 110), dtype=int)
    matrix[0, :100], matrix[1, :101], matrix[2] = 1, 1, 1
    proposed = GlobalPattern(rank=2, neighbours="share", neighbour_share=0.07).propose(ground_of(matrix))
    assert np.bincount(proposed.users).tolist() == [7, 8, 8]
