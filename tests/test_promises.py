"""The plugin that counts promises kept, run on small suites of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SUITE = """
    import pytest
    from promises import Cases

    pytestmark = pytest.mark.promise("archives")

    @pytest.mark.parametrize("n", range(3))
    def test_parametrised(n):
        assert n != FAILING

    @pytest.mark.promise("same-bits", cases=Cases(4, long=40))
    def test_loop(case_counter):
        for _ in range(case_counter.planned - MISSING):
            case_counter.count()

    @pytest.mark.skip(reason="why not")
    def test_skipped():
        pass

    class TestNearest:
        pytestmark = pytest.mark.promise("downloads")

        def test_one(self):
            pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """A suite with the plugin; words are pytest's, the rest is put into the suite."""
    monkeypatch.delenv("PSPNS_LONG", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each would be imported anew

    def run_suite(*words: str, suite: str = SUITE, FAILING: int = 9, MISSING: int = 0) -> pytest.RunResult:
        pytester.makepyfile(suite.replace("FAILING", str(FAILING)).replace("MISSING", str(MISSING)))
        return pytester.runpytest("-p", "promises", "-p", "no:cacheprovider", *words)

    return run_suite


def summary(result: pytest.RunResult) -> list[str]:
    """The last lines: a promise and what became of it."""
    (start,) = (place for place, line in enumerate(result.outlines) if "= promises (docs/reliability.md) =" in line)
    lines = [" ".join(line.split()) for line in result.outlines[start + 1 :]]
    return lines[: next(place for place, line in enumerate(lines) if line.startswith("="))]


@pytest.mark.parametrize("words", [(), ("-p", "xdist.plugin", "-n", "2")])
def test_cases_are_counted_in_one_process_and_in_several(run, words) -> None:
    result = run(*words)
    assert result.ret == 0
    assert summary(result) == [
        "same-bits 4 of 4 cases kept",
        "downloads 1 of 1 cases kept",
        "archives 3 of 4 cases kept, 1 skipped",
    ]


@pytest.mark.parametrize("how", ["option", "environment"])
def test_in_long_mode_there_are_more(run, monkeypatch, how) -> None:
    if how == "environment":
        monkeypatch.setenv("PSPNS_LONG", "1")
    assert "same-bits 40 of 40 cases kept" in summary(run(*["--long"][how == "environment" :]))


def test_a_failure_is_a_promise_broken(run) -> None:
    result = run(FAILING=1)
    assert result.ret == 1
    assert summary(result)[-1] == "archives 2 of 4 cases kept, 1 broken, 1 skipped"


def test_an_error_after_the_test_is_one_too(run) -> None:
    suite = """
        import pytest

        @pytest.fixture
        def fragile():
            yield
            raise OSError

        @pytest.mark.promise("archives")
        def test_it(fragile):
            pass
    """
    assert summary(run(suite=suite)) == ["archives 0 of 1 cases kept, 1 broken"]


def test_a_case_left_out_fails(run) -> None:
    result = run(MISSING=1)
    assert result.ret == 1
    assert "same-bits 0 of 4 cases kept, 4 broken" in summary(result)
    result.stdout.fnmatch_lines(["*4 cases were declared, 3 were tried*"])


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ('"arquives"', "no promise named 'arquives'; available: archives, "),
        ("", "write promise(key)"),
        ('"archives", n=3', "write promise(key)"),
        ('"archives", cases=3', "go together"),
    ],
)
def test_markers_that_cannot_be_meant(run, marker, complaint) -> None:
    result = run(suite=f"import pytest\n@pytest.mark.promise({marker})\ndef test_it(): assert True")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert complaint in "\n".join(result.errlines)
    assert "passed" not in "\n".join(result.outlines)


def test_without_promises_nothing_is_said(run) -> None:
    assert "reliability.md" not in "\n".join(run(suite="def test_it(): assert True").outlines)


def test_a_part_of_the_suite_makes_no_page(run, tmp_path) -> None:
    result = run(f"--reliability-page={tmp_path / 'page.md'}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "needs the whole suite" in "\n".join(result.errlines)
    assert not (tmp_path / "page.md").exists()
