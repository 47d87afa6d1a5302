"""The page docs/reliability.md: what is promised, how it is tested, and in how many cases."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from promises import PROMISES, ROOT, Cases, Marked

COMMAND = "python -m pytest --collect-only -q --reliability-page=docs/reliability.md"

GPU_SPREAD = """Measured on one H200 (torch 2.11, MovieLens-1M, embedding size 64, one seed, ten runs each): MF after
20,000 steps and LightGCN after 5,000, in float32 and in mixed precision, came out with the same bits all ten times; the
spread was nothing. `python -m benchmarks.spread` measures it on a machine of yours."""

BEGINNING = f"""
Each sentence below is a promise, and each is tried in the test suite, in as many cases as the table says. One case that
fails is a failure of the suite, whose last lines count them. This page is generated from the tests (`{COMMAND}`), and a
test compares the two.
"""

NOT_PROMISED = f"""
**The same bits on a GPU.** {GPU_SPREAD} But torch does not promise it, another GPU or version may add up in another
order, and a run that carries more than 256 columns side by side does: then replicas agree with those trained alone to
rounding.

**The same bits elsewhere.** Another processor, other builds of torch or numpy, and more than two threads may round
otherwise. That is why a run goes on only with the versions and the kind of device it was begun with.

**A disk that lies.** A state counts as written when the system has said that it lies on the disk (`fsync`). A disk that
says so too early, and then loses its power, may lose the newest state; the one before it is kept for such cases.

**Who made a model.** Checksums tell damage, not authors: whoever can change a folder can put them right. Such a folder
runs nothing and is refused where it is no model, but its numbers may be anybody's.
"""


def page(marked: Iterable[Marked]) -> str:
    """The page in Markdown, given every test of the suite that is about a promise."""
    tests: dict[str, list[Marked]] = {key: [] for key in PROMISES}
    for one in marked:
        tests[one.promise].append(one)
    tested = {key: found for key, found in tests.items() if found}
    table = ["| promise | cases in `make test` | in `make test-long` |", "|---|---:|---:|"]
    for key, found in tested.items():
        cases = _total(found)
        table.append(f"| [{_title(key)}](#{key}) | {cases.normal:,} | {cases.long:,} |")
    sections = [_section(key, found) for key, found in tested.items()]
    parts = ["# What you can rely on", _wrapped(BEGINNING), "\n".join(table), *sections, "## What is not promised"]
    return "\n\n".join([*parts, _wrapped(NOT_PROMISED)]) + "\n"


def _section(key: str, marked: Sequence[Marked]) -> str:
    files: dict[str, list[Marked]] = {}
    for one in sorted(marked, key=lambda one: one.item.path):
        files.setdefault(one.item.path.relative_to(ROOT).as_posix(), []).append(one)
    where = "\n".join(_wrapped(f"* `{file}`: {_tests(found)}", indent="  ") for file, found in files.items())
    promise = PROMISES[key]
    return "\n\n".join([f"## {_title(key)}", _wrapped(f"**{promise.sentence}**"), _wrapped(promise.how), where])


def _tests(marked: Sequence[Marked]) -> str:
    """The tests of one file in words, each with its cases."""
    tests: dict[str, list[Marked]] = {}
    for one in marked:
        name = getattr(one.item, "originalname", one.item.name)
        tests.setdefault(name.removeprefix("test_").replace("_", " "), []).append(one)
    return ", ".join(f"{words} ({_counts(_total(found))})" for words, found in tests.items())


def _total(marked: Sequence[Marked]) -> Cases:
    return Cases(sum(one.cases.normal for one in marked), long=sum(one.cases.long for one in marked))


def _counts(cases: Cases) -> str:
    return f"{cases.normal:,}" + (f"; {cases.long:,} in `make test-long`" if cases.long != cases.normal else "")


def _title(key: str) -> str:
    return key.replace("-", " ").capitalize()


def _wrapped(text: str, indent: str = "") -> str:
    """Paragraphs folded as on the other pages; names stay whole."""
    fold = textwrap.TextWrapper(130, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(fold.fill(" ".join(paragraph.split())) for paragraph in text.strip().split("\n\n"))
