"""The comparison with rivals, against rivals made for the test: nothing is installed."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.peers import __main__ as program
from benchmarks.peers import _contests, _venvs
from benchmarks.peers._blocked_lists import blocked_lists
from benchmarks.peers._contests import CONTESTS, Contest, Rival
from benchmarks.peers._given import LAYERS, SIZE, Given
from benchmarks.peers._ours import LightGcnTraining, MfTraining, NegativeDraws, Ranking
from benchmarks.peers._process import RivalFailedError, rival_process
from benchmarks.peers._table import Row, Unit, as_markdown, plain, write
from benchmarks.peers._venvs import venv_python
from pspns.data.planted import plant
from pspns.data.split import Part, Split
from pspns.data.splits.random import RandomSplit
from pspns.errors import SettingsError
from pspns.evaluation.protocol import STRICT
from pspns.memory import MemoryBudget
from pspns.run import build_world
from pspns.settings import Settings
from pspns.shapes import World

EFFORT = program.Effort(epochs=1, steps=2, draws=500, pairs=(2, 2))


@pytest.fixture(scope="module")
def data() -> tuple[Split, World, Given]:
    planted = plant(
        "clustered", n_users=90, n_items=70, rng=np.random.default_rng(0), mean_preferences=20, mean_interactions=12
    )
    parts = RandomSplit().assign(planted.interactions, np.random.default_rng(0))
    split = Split.from_parts(planted.interactions, parts, "test")
    world = build_world(split, Settings(), STRICT, MemoryBudget(torch.device("cpu")))
    return split, world, program.export(split, world, EFFORT)


@pytest.fixture
def folder(tmp_path: Path, data: tuple[Split, World, Given]) -> Path:
    """Where the program exchanges files with a rival."""
    data[2].write(tmp_path / "given.npz")
    return tmp_path


@pytest.fixture
def make_contest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Contest]:
    """A contest whose rival is a script with this body and the python of the test."""
    monkeypatch.setattr(_contests, "SCRIPTS", folder)
    monkeypatch.setattr(program, "venv_python", lambda *_: Path(sys.executable))

    def make(body: str, subject: str = "ranking") -> Contest:
        header = "from pathlib import Path\nimport time\nfrom benchmarks.peers._turns import Task, serve\n"
        (folder / "made_up.py").write_text(f"{header}{body}\nserve('numpy', {{'a-task': task}})\n")
        return Contest(subject, Rival("made-up", ("made-up==1",)), "a-task", "Made Up", "a note")

    return make


GOOD = """
def task(given):
    print("libraries print what they like")
    log = Path("log.txt")
    def turn():
        log.open("a").write("rival ")
        time.sleep(0.02)
        return given.train.sum()
    return Task(turn, lambda total: {"total": total}, units=1000)
"""


class MadeUpSubject:
    """Ours: notes its turns in the same file as the rival, and what it is given to compare."""

    unit = Unit("A title", "seconds", "a meaning", plain(3))

    def __init__(self, log: Path):
        self._log = log
        self.seen: Mapping[str, Any] = {}

    def turn(self) -> float:
        with self._log.open("a") as log:
            log.write("ours ")
        return 2.0

    def compare(self, answer: Mapping[str, Any]) -> str:
        self.seen = answer
        return "equal"


def test_arrays_come_back_as_they_were(data: tuple[Split, World, Given], tmp_path: Path) -> None:
    given = data[2]
    given.write(tmp_path / "given.npz")
    back = Given.read(tmp_path / "given.npz")
    for field in dataclasses.fields(Given):
        one, two = getattr(given, field.name), getattr(back, field.name)
        assert type(one) is type(two)
        assert np.array_equal(one, two)
        assert np.asarray(one).dtype == np.asarray(two).dtype


def test_export_holds_the_split(data: tuple[Split, World, Given]) -> None:
    split, _, given = data
    for name in ("train", "valid", "test"):
        pairs = getattr(split, name)
        assert getattr(given, name).tolist() == list(map(list, zip(pairs.users, pairs.items, strict=True)))
    assert given.user_vectors.shape == (split.n_users, SIZE)
    assert set(given.draw_for) <= set(split.train.users)
    assert (given.epochs, given.steps, len(given.draw_for)) == (1, 2, 500)


def test_turns_alternate_and_the_answer_arrives(
    make_contest: Callable[..., Contest], folder: Path, data: tuple[Split, World, Given]
) -> None:
    ours = MadeUpSubject(folder / "log.txt")
    row = program.compete(make_contest(GOOD), ours, folder, EFFORT)
    assert (folder / "log.txt").read_text() == "rival ours rival ours rival "  # the first one warms up
    assert ours.seen["total"] == data[2].train.sum()
    assert (row.rival, row.subject, row.answer, row.failed) == ("Made Up", "ranking", "equal", "")
    assert row.versions["numpy"] == np.__version__
    assert row.ours_seconds == [2.0, 2.0]
    assert all(0.02 / 1000 <= seconds < 0.02 for seconds in row.rival_seconds)  # for one of a thousand units
    assert row.ratio == np.median(row.rival_seconds) / 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("def task(given):\n    raise ValueError('no such data')", "stopped: ValueError: no such data (exit code 1)"),
        (
            "def task(given):\n    return Task(lambda: 1 / 0, dict)",
            "stopped: ZeroDivisionError: division by zero (exit code 1)",
        ),
        (
            "def task(given):\n    return Task(int, lambda _: 1 / 0)",
            "did not answer: ZeroDivisionError: division by zero (exit code 1)",
        ),
        (
            "print('hello')\ntask = None",
            "said 'hello\\n', which is no JSON: TypeError: 'NoneType' object is not callable",
        ),
    ],
)
def test_a_rival_that_fails_is_a_row_with_the_reason(
    make_contest: Callable[..., Contest], folder: Path, body: str, reason: str
) -> None:
    row = program.compete(make_contest(body), MadeUpSubject(folder / "log.txt"), folder, EFFORT)
    assert row.failed.startswith(reason)
    assert row.ratio is None


def test_a_rival_that_takes_too_long_is_stopped(make_contest: Callable[..., Contest], folder: Path) -> None:
    contest = make_contest("def task(given):\n    time.sleep(60)")
    with (
        pytest.raises(RivalFailedError, match=r"took longer than 0\.5 s"),
        rival_process(
            Path(sys.executable), contest.rival.script, "a-task", folder / "given.npz", folder, limit=0.5
        ) as rival,
    ):
        rival.turn()


def test_a_venv_is_made_once_for_the_same_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def note(command: list[str]) -> None:
        commands.append(command)
        (tmp_path / "made-up").mkdir(exist_ok=True)

    monkeypatch.setattr(_venvs, "_run", note)
    for _ in range(2):
        python = venv_python("made-up", ("torch==1", "made-up==1 numpy<2"), tmp_path)
    assert python == tmp_path / "made-up" / "bin" / "python"
    assert [command[-2:] for command in commands[1:]] == [["--quiet", "torch==1"], ["made-up==1", "numpy<2"]]
    venv_python("made-up", ("torch==1", "made-up==2"), tmp_path)
    assert commands[-1][-1] == "made-up==2"


def test_an_installation_that_fails_is_a_row_with_the_reason(
    make_contest: Callable[..., Contest], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = make_contest(GOOD)
    monkeypatch.setattr(program, "venv_python", lambda *_: _venvs._run([sys.executable, "-c", "1 / 0"]))
    row = program.compete(contest, MadeUpSubject(folder / "log.txt"), folder, EFFORT)
    assert row.failed == "not installed: ZeroDivisionError: division by zero"


def test_page_and_file(tmp_path: Path) -> None:
    rows = [
        Row("a", "One", "first", "equal", [2.0, 4.0, 3.0], [9.0, 12.0, 6.0], {"one": "1.0", "numpy": "2.0"}),
        Row("a", "Two", "second", failed="stopped: a | b"),
    ]
    units = {"a": Unit("A title", "seconds", "a meaning", plain(1))}
    assert as_markdown("2 cores", units, rows).splitlines()[2:] == [
        "2 cores",
        "",
        "## A title",
        "",
        "Figures: seconds; medians. Answer: a meaning",
        "",
        "| rival | answer | rival's | ours | times faster (by the least) | pairs | note |",
        "|---|---|---|---|---|---|---|",
        "| One | equal | 9.0 | 3.0 | 3.00 (3.00) | 3 | first |",
        "| Two | **no figures**: stopped: a / b | – | – | – | 0 | second |",
        "",
        "## Versions",
        "",
        "- one 1.0, numpy 2.0",
    ]
    write(tmp_path, {"cores": 2}, units, rows)
    found = json.loads((tmp_path / "peers.json").read_text())
    assert found["machine"] == {"cores": 2}
    assert found["results"][0]["rival_seconds"] == [9.0, 12.0, 6.0]
    assert [row["ratio"] for row in found["results"]] == [3.0, None]
    assert (tmp_path / "peers.md").read_text() == as_markdown("cores 2", units, rows)


def test_choosing_contests() -> None:
    kept = program.chosen(CONTESTS, "recbole,pyg", "lightgcn,ranking")
    assert {(one.rival.name, one.subject) for one in kept} == {
        ("recbole", "lightgcn"),
        ("recbole", "ranking"),
        ("pyg", "lightgcn"),
    }
    assert program.chosen(CONTESTS, None, None) == list(CONTESTS)
    with pytest.raises(SettingsError, match=r"no rival named 'recbol'; available: .*did you mean 'recbole'"):
        program.chosen(CONTESTS, "recbol", None)
    with pytest.raises(SettingsError, match="no subject named 'speed'"):
        program.chosen(CONTESTS, None, "speed")


@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: f"{contest.rival.name}-{contest.task}")
def test_every_contest_has_its_script_and_task(contest: Contest) -> None:
    assert f'"{contest.task}": ' in contest.rival.script.read_text()
    assert contest.subject in program.SUBJECTS


def dense_recall(given: Given) -> float:
    """Recall@20 by sorting every score."""
    scores = given.user_vectors.astype(np.float64) @ given.item_vectors.T.astype(np.float64)
    for part in (given.train, given.valid):
        scores[part[:, 0], part[:, 1]] = -np.inf
    best = np.argsort(-scores, kind="stable")[:, :20]
    wanted = {user: given.test[given.test[:, 0] == user, 1] for user in set(given.test[:, 0].tolist())}
    return float(np.mean([np.isin(items, best[user]).mean() for user, items in wanted.items()]))


@pytest.fixture(scope="module")
def known(data: tuple[Split, World, Given]) -> tuple[Split, World, Given]:
    """Held-out pairs of users and items unknown to train left out."""
    split, world, _ = data
    kept = dataclasses.replace(split, valid=program._known(split, split.valid), test=program._known(split, split.test))
    return kept, world, program.export(kept, world, EFFORT)


def test_ranking_is_compared_by_recall(known: tuple[Split, World, Given]) -> None:
    subject, recall = Ranking(*known), dense_recall(known[2])
    assert recall > 0
    assert subject.turn() > 0
    assert subject.compare({"recall": recall}) == f"{recall:.6f}, equal"
    assert subject.compare({"recall": recall + 1e-5}).endswith(", equal to 1e-05")
    assert "not the same answer" in subject.compare({"recall": recall + 1e-3})
    assert "it reports 0.900000" in subject.compare({"recall": recall, "own_recall": 0.9})


def test_blocked_lists_rank_as_sorting_does(known: tuple[Split, World, Given]) -> None:
    given = known[2]
    users, rank = blocked_lists(given)
    items, _ = rank()
    shares = [
        np.isin(given.test[given.test[:, 0] == user, 1], row).mean()
        for user, row in zip(users, items.numpy(), strict=True)
    ]
    assert np.mean(shares) == pytest.approx(dense_recall(given), abs=1e-12)


def test_trained_vectors_are_judged_by_our_evaluator(known: tuple[Split, World, Given]) -> None:
    given = known[2]
    subject = MfTraining(*known)
    assert subject.turn() > 0
    # A number more in each vector, as libraries with biases have it.
    users = np.hstack([given.user_vectors, np.ones((given.n_users, 1))])
    items = np.hstack([given.item_vectors, np.zeros((given.n_items, 1))])
    words = subject.compare({"users": users, "items": items})
    assert words.startswith(f"Recall@20 {dense_recall(given):.4f}, ours 0.")


def test_propagated_vectors_are_compared(known: tuple[Split, World, Given]) -> None:
    given = known[2]
    subject = LightGcnTraining(*known)
    assert subject.turn() > 0
    matrix = np.zeros((given.n_users, given.n_items))
    matrix[given.train[:, 0], given.train[:, 1]] = 1
    matrix /= np.sqrt(np.outer(matrix.sum(1), matrix.sum(0)))
    users, items = [given.user_vectors], [given.item_vectors]
    for _ in range(LAYERS):
        new_users, new_items = matrix @ items[-1], matrix.T @ users[-1]
        users.append(new_users)
        items.append(new_items)
    answer = {"users": np.mean(users, axis=0), "items": np.mean(items, axis=0)}
    assert subject.compare(answer).startswith("equal to ")
    answer["items"][3, 3] += 1
    assert subject.compare(answer).startswith("not the same answer: ")


def test_drawn_train_items_are_counted(known: tuple[Split, World, Given]) -> None:
    given = known[2]
    subject = NegativeDraws(*known)
    assert subject.turn() > 0
    owned = {(user, item) for user, item in given.train.tolist()}
    allowed = np.array(
        [next(item for item in range(given.n_items) if (user, item) not in owned) for user in given.draw_for.tolist()]
    )
    assert subject.compare({"items": allowed}) == "none is a train item"
    allowed[0] = given.train[given.train[:, 0] == given.draw_for[0]][0, 1]
    assert subject.compare({"items": allowed}) == "1 of 500 are train items"


def test_the_whole_program(
    make_contest: Callable[..., Contest],
    data: tuple[Split, World, Given],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    split = data[0]
    for part in Part:
        pairs = getattr(split, part.name.lower())
        lines = [f"{user}\t{item}" for user, item in zip(pairs.users.tolist(), pairs.items.tolist(), strict=True)]
        if part is Part.TEST:
            lines.append("0\t100000")  # unknown to train: left out
        (folder / "files").mkdir(exist_ok=True)
        (folder / "files" / f"{part.name.lower()}.tsv").write_text("\n".join(lines) + "\n")
    good = (
        "def task(given):\n"
        "    assert given.test[:, 1].max() < given.n_items, 'an item unknown to train'\n"
        "    return Task(int, lambda _: {'recall': 0.5})"
    )
    monkeypatch.setattr(program, "CONTESTS", (make_contest(good), make_contest(good, "mf")))
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    options = ["--quick", "--subjects", "ranking", "--data", str(folder / "files"), "--out", str(folder / "out")]
    monkeypatch.setattr(sys, "argv", ["peers", *options])
    program.main()
    page = (folder / "out" / "peers.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| Made Up")]
    assert "| 0.500000, not the same answer: ours 0." in line
    assert line in capsys.readouterr().out
    assert "files (" in page
    (row,) = json.loads((folder / "out" / "peers.json").read_text())["results"]
    assert (row["subject"], len(row["rival_seconds"])) == ("ranking", 1)
