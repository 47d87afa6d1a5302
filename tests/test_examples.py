"""Trainers that are not ours learn from built positives."""

import math
import os
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from pspns.api import build_positives
from pspns.data.catalogue.planted_clustered import PlantedClustered

ROOT = Path(__file__).resolve().parent.parent
DATA = "planted-clustered"
SHOWN_USERS = 200
SHARE = re.compile(r"^(.+): (\S+) of the top 20 are true$", re.MULTILINE)
OFFER = re.compile(r"^(.+): user 0 is offered \[(.+)\]$", re.MULTILINE)


def run_example(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "examples" / name), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@cache
def output(name: str) -> str:
    done = run_example(name)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def share_of_a_random_ranking() -> float:
    """Counted user by user from the generated world, without the examples' own code."""
    world = PlantedClustered().plant()
    pairs, likes = world.interactions, world.preferences
    shares = []
    for user in range(SHOWN_USERS):
        unseen = set(range(likes.shape[1])) - set(pairs.items[pairs.users == user].tolist())
        liked = set(likes.indices[likes.indptr[user] : likes.indptr[user + 1]].tolist())
        shares.append(len(unseen & liked) / len(unseen))
    return sum(shares) / len(shares)


def check_recommendations(text: str, trainers: list[str]) -> None:
    expected = {f"{trainer}, {how} positives" for trainer in trainers for how in ("observed", "built")}
    shares = {name: float(value) for name, value in SHARE.findall(text)}
    chance = share_of_a_random_ranking()
    assert shares.pop("a random ranking") == pytest.approx(chance, abs=0.0006)
    assert shares.keys() == expected
    for name, share in shares.items():
        assert math.isfinite(share)
        assert 1.5 * chance < share <= 1, name

    offers = {name: [int(item) for item in items.split(", ")] for name, items in OFFER.findall(text)}
    assert offers.keys() == expected
    pairs = PlantedClustered().load()
    owned = set(pairs.items[pairs.users == 0].tolist())
    for items in offers.values():
        assert len(set(items)) == 5
        assert owned.isdisjoint(items)


def pairs_and_copies() -> list[tuple[int, int]]:
    frames = [build_positives(DATA, recipe=recipe).frame() for recipe in ("plain", "paper")]
    counts = [(len(frame), sum(frame["copies"].to_list())) for frame in frames]
    assert counts[0][0] == counts[0][1]
    assert counts[0][0] < counts[1][0] < counts[1][1]  # some pairs injected, some copied: else nothing is shown
    return counts


def test_implicit_learns_from_the_matrix():
    pytest.importorskip("implicit")
    text = output("with_implicit.py")
    check_recommendations(text, ["ALS", "BPR"])
    fitted = re.findall(r"fitting (\d+) pairs, of confidence (\d+) in all", text)
    assert [(int(pairs), int(copies)) for pairs, copies in fitted] == 2 * pairs_and_copies()


def test_pytorch_learns_from_the_data_set():
    text = output("with_pytorch.py")
    check_recommendations(text, ["MF"])
    assert [int(rows) for rows in re.findall(r"visited (\d+) rows", text)] == [n for _, n in pairs_and_copies()]


def test_pyg_learns_from_the_graph():
    pytest.importorskip("torch_geometric")
    text = output("with_pyg.py")
    check_recommendations(text, ["LightGCN"])
    seen = [(int(rows), int(edges)) for rows, edges in re.findall(r"visited (\d+) rows over (\d+) edges", text)]
    assert seen == [(copies, 2 * pairs) for pairs, copies in pairs_and_copies()]


def test_implicit_reads_copies_in_als_but_not_in_bpr():
    # What the example says of the two, so that nobody expects more of BPR than it can see.
    als = pytest.importorskip("implicit.als").AlternatingLeastSquares
    bpr = pytest.importorskip("implicit.bpr").BayesianPersonalizedRanking
    threadpoolctl = pytest.importorskip("threadpoolctl")
    copies = sparse.random(30, 20, density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    copies.data = np.where(copies.data < 0.5, 1, 3).astype(np.float32)
    once = copies.copy()
    once.data[:] = 1

    def item_factors(kind, matrix):
        model = kind(factors=4, iterations=3, random_state=0, num_threads=1, use_gpu=False)
        with threadpoolctl.threadpool_limits(1, "blas"):
            model.fit(sparse.csr_matrix(matrix), show_progress=False)
        return model.item_factors

    np.testing.assert_array_equal(item_factors(bpr, copies), item_factors(bpr, once))
    assert not np.allclose(item_factors(als, copies), item_factors(als, once))


def test_own_data_have_ids_and_no_truth(tmp_path):
    pytest.importorskip("implicit")
    pairs = PlantedClustered(n_users=120, n_items=80, mean_preferences=20, mean_interactions=10).load()
    rows = [f"u{user:03},item {item}" for user, item in zip(pairs.users, pairs.items, strict=True)]
    (tmp_path / "clicks.csv").write_text("\n".join(["user,item", *rows]), encoding="utf-8")
    done = run_example("with_implicit.py", "--data", str(tmp_path / "clicks.csv"))
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"user u000 is offered \['item \d+', ", done.stdout)) == 4
    assert "true" not in done.stdout


def test_a_wrong_name_gets_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["with_anything.py", "--data", "planted-clusterd"])
    compare = runpy.run_path(str(ROOT / "examples" / "side_by_side.py"))["compare"]
    with pytest.raises(SystemExit, match="2"):
        compare("Any trainer.", {})
    assert "did you mean 'planted-clustered'?" in capsys.readouterr().err


def test_the_list_of_examples_is_complete():
    listed = re.findall(r"^- `(\w+\.py)`", (ROOT / "examples" / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))
