"""A pytest plugin that counts, promise by promise, the cases in which the suite has seen it kept.

A test says which promise it is about: `@pytest.mark.promise("hostile-models")`, on a function, on a class, or as the
`pytestmark` of a module; the nearest counts. Every item that pytest collects is a case. A test that goes through many
cases declares how many, `@pytest.mark.promise("killed-runs", cases=Cases(20, long=200))`, and takes the fixture
`case_counter`: it loops over `case_counter.planned` and calls `case_counter.count()` once for each case really tried.
Parameters must not depend on `--long`, so that docs/reliability.md can tell both numbers from either.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Promise:
    """What users may rely on, and how the suite tries to catch it broken."""

    sentence: str
    how: str


@dataclass(frozen=True)
class Cases:
    """How many cases one test goes through, in `make test` and in `make test-long`."""

    normal: int
    long: int


PROMISES = {
    "killed-runs": Promise(
        "A run that is killed, at whatever moment, goes on with `--resume` and ends with the same bits as one that was "
        "not, on the CPU. What was done since the last checkpoint is lost: at most one interval between two.",
        "Whole processes of `pspns train` get `kill -9` at random moments, a quarter each at the start, in training, "
        "while a checkpoint is written and while the result is written. Each is resumed to its end, and model, "
        "metrics and history are compared byte by byte with a run nobody touched.",
    ),
    "damaged-checkpoints": Promise(
        "A checkpoint that is torn, cut short or changed in any bit is never used: the older one is, with a message "
        "that names the damaged file, or the run is refused if both are damaged.",
        "Checkpoints of a real training are damaged at random places: bits flipped, ends cut off, sectors zeroed or "
        "left over from an earlier file, other bytes appended. Every tenth time, the older one is damaged too.",
    ),
    "full-disk-and-signals": Promise(
        "A full disk, a folder that may not be written to, SIGTERM and Ctrl-C end a command with a clear message and a "
        "non-zero exit code, and the last good state is kept. A second Ctrl-C stops at once.",
        "Writing fails at every place where something is written; limits on the size of files stand for a full disk "
        "where the system itself is to refuse. Then room is made, and the run goes on to the same bits.",
    ),
    "same-bits": Promise(
        "The same data, settings and seed give the same bits on the CPU of the same machine and build: with 1 and with "
        "2 threads, and as often as it is repeated.",
        "Models are trained again and again, in turn with 1 and with 2 threads, in forked processes and in new ones "
        "with other hash seeds, on data large enough for torch to divide the work. The files are compared by sha256.",
    ),
    "nothing-overwritten": Promise(
        "Of two runs into one folder, the second is refused while the first lives. No command replaces anything unless "
        "`--overwrite` is given; a folder only by a whole one of the same kind.",
        "Commands are pointed at runs, builds, checkpoints, other people's files and folders in use, with and without "
        "`--overwrite` and `--resume`; what was there must be there afterwards.",
    ),
    "hostile-models": Promise(
        "A model folder that is damaged or made to do harm is refused with a message that names the file: a changed "
        "byte anywhere, a pickle in disguise, tensors that overlap, ids that are none. Nothing in it is executed, even "
        "if whoever made it has put the checksums right.",
        "Each way of spoiling a folder is tried on a copy of a good one, mostly with checksums that fit. Pickles carry "
        "a payload that would leave a file behind.",
    ),
    "harmless-ids": Promise(
        "Ids such as `=cmd`, `<script>` or a terminal's escape codes are shown as text wherever they appear: in CSV "
        "files, in the report and in the terminal. Parquet files hold them unchanged.",
        "Users, items, columns and files are given hostile names; the output is read back as a spreadsheet, a browser "
        "and a terminal would read it.",
    ),
    "malformed-files": Promise(
        "A data file that cannot be understood is refused with one error that names the file, and line and column "
        "where the format has them, says what was found and expected, and what to do. Nothing is half loaded.",
        "Files written by hand, spoilt in the ways that exports, editors, disks and strangers spoil them; some of them "
        "are odd and still to be read, and then every pair is compared.",
    ),
    "generated-files": Promise(
        "Whatever the bytes: a file is read whole or refused with that same error. Refusing takes less than a minute, "
        "and four times the size of the file and 200 MB of memory at most. Reading stays within that, too, but for "
        "packed files, where the unpacked size counts, and ids that are text, which take about 250 bytes each.",
        "Files of every format are generated at random and damaged in one of many ways. What is read must be what "
        "another reader finds there, row by row: Python's csv and zip modules, Arrow, scipy.",
    ),
    "downloads": Promise(
        "A downloaded data set is used only if every byte of it is the one that was published, and a download that was "
        "broken off goes on where it stopped.",
        "A package index on localhost breaks off, stalls, ignores ranges, answers with errors and sends other bytes; "
        "processes are killed, and run two at a time.",
    ),
    "archives": Promise(
        "Reading an archive writes nothing but a temporary file of its own, follows no link, and stops where it "
        "unpacks to far more than its size.",
        "Archives with hostile names, links and sizes, damaged and encrypted ones, are read.",
    ),
}


class CaseCounter:
    """Counts the cases of a test that goes through several."""

    def __init__(self, planned: int):
        self.planned = planned
        """How many there are to be, in this mode."""
        self.tried = 0

    def count(self) -> None:
        self.tried += 1


def promise_of(item: pytest.Item) -> tuple[str, Cases] | None:
    """The promise a test is about and the cases it declares."""
    marker = item.get_closest_marker("promise")
    if marker is None:
        return None
    if len(marker.args) != 1 or marker.kwargs.keys() - {"cases"}:
        raise pytest.UsageError(f"{item.nodeid}: write promise(key) or promise(key, cases=…)")
    (key,) = marker.args
    if key not in PROMISES:
        raise pytest.UsageError(f"{item.nodeid}: no promise named '{key}'; available: {', '.join(sorted(PROMISES))}")
    given = marker.kwargs.get("cases")
    if (given is not None) != ("case_counter" in getattr(item, "fixturenames", ())):
        raise pytest.UsageError(f"{item.nodeid}: cases=… and the fixture case_counter go together, or neither is there")
    return key, given if isinstance(given, Cases) else Cases(given or 1, given or 1)


def is_long(config: pytest.Config) -> bool:
    return config.getoption("--long") or os.environ.get("PSPNS_LONG") == "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="more cases where a test can have any number (PSPNS_LONG=1)")
    parser.addoption("--reliability-page", type=Path, metavar="FILE", help="write the page of promises (collect all)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(key, cases=1): what users may rely on; see tests/promises.py")


@dataclass(frozen=True)
class Marked:
    """A test that is about a promise."""

    item: pytest.Item
    promise: str
    cases: Cases


@dataclass
class Collected:
    """What pytest found before -k and its like took some of it away."""

    marked: list[Marked] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)


COLLECTED = pytest.StashKey[Collected]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    collected = config.stash.setdefault(COLLECTED, Collected())
    for item in items:
        collected.files.add(item.path)
        if found := promise_of(item):
            key, cases = found
            collected.marked.append(Marked(item, key, cases))
            # Reports carry these properties, from the processes of pytest-xdist, too.
            item.user_properties.append(("promise", [key, cases.long if is_long(config) else cases.normal]))


def all_marked(config: pytest.Config) -> list[Marked] | None:
    """Every test that is about a promise, or None if only a part of the suite was collected."""
    collected = config.stash.get(COLLECTED, Collected())
    files = {path for path in (ROOT / "tests").rglob("test_*.py") if "mark.promise(" in path.read_text("utf-8")}
    has_all = files <= collected.files and not any("::" in word for word in config.args)
    return collected.marked if has_all else None


def pytest_collection_finish(session: pytest.Session) -> None:
    out = session.config.getoption("--reliability-page")
    if out is not None:
        from reliability_page import page

        marked = all_marked(session.config)
        if marked is None:
            raise pytest.UsageError("--reliability-page needs the whole suite; name no files or tests")
        out.write_text(page(marked), encoding="utf-8")


@pytest.fixture
def case_counter(request: pytest.FixtureRequest) -> CaseCounter:
    """For a test that declares `cases`; it fails unless as many were counted."""
    (planned,) = (value[1] for name, value in request.node.user_properties if name == "promise")
    return CaseCounter(planned)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    result = yield  # a test that fails ends here
    counter = pyfuncitem.funcargs.get("case_counter")
    if isinstance(counter, CaseCounter) and counter.tried != counter.planned:
        pytest.fail(f"{counter.planned:,} cases were declared, {counter.tried:,} were tried", pytrace=False)
    return result


def cases_by_outcome(reports: Iterable[tuple[str, pytest.TestReport]]) -> dict[str, Counter[str]]:
    """Promise → passed, skipped, failed → cases, given outcomes and reports; a test's worst outcome counts."""
    severity = ("passed", "skipped", "failed")
    marked: dict[str, Any] = {}  # test → its promise and its cases
    outcomes: dict[str, str] = {}
    for outcome, report in reports:
        if properties := [value for name, value in report.user_properties if name == "promise"]:
            (marked[report.nodeid],) = properties
            outcomes[report.nodeid] = max(outcome, outcomes.get(report.nodeid, "passed"), key=severity.index)
    found: dict[str, Counter[str]] = {key: Counter() for key in PROMISES}
    for test, (key, cases) in marked.items():
        found[key][outcomes[test]] += cases
    return {key: cases for key, cases in found.items() if cases}


def in_words(cases: Counter[str]) -> str:
    """Outcomes in one line.

    >>> in_words(Counter(passed=1000, failed=1, skipped=2))
    '1,000 of 1,003 cases kept, 1 broken, 2 skipped'
    """
    others = {"broken": cases["failed"], "skipped": cases["skipped"]}
    kept = f"{cases['passed']:,} of {cases.total():,} cases kept"
    return ", ".join([kept, *(f"{n:,} {outcome}" for outcome, n in others.items() if n)])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    # An error is a failure before or after the test itself.
    kinds = {"passed": "passed", "skipped": "skipped", "failed": "failed", "error": "failed"}
    reports = [(outcome, report) for kind, outcome in kinds.items() for report in terminalreporter.stats.get(kind, [])]
    found = cases_by_outcome(pair for pair in reports if isinstance(pair[1], pytest.TestReport))
    if found:
        terminalreporter.write_sep("=", "promises (docs/reliability.md)")
    for key, cases in found.items():
        terminalreporter.write_line(f"{key:<24}{in_words(cases)}", red=bool(cases["failed"]))
