"""The errors users meet, and the help each carries: what was given, what was expected, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class PspnsError(Exception):
    """Anything a user can mend; the command line prints it without a traceback."""

    exit_code = 1


class DataError(PspnsError):
    """The data could not be read or do not hold what the run needs."""


class DivergedError(PspnsError):
    """Training came to numbers that are not finite."""


class StoppedError(PspnsError):
    """The user stopped the run."""

    exit_code = 130  # 128 + SIGINT, as shells have it


class SettingsError(PspnsError, ValueError):
    """An unknown or impossible option, key or name."""

    exit_code = 2


def unknown_name(kind: str, given: str, available: Iterable[str]) -> SettingsError:
    """The error for a name that does not exist; the list is computed from what does.

    >>> print(unknown_name("negatives", "unifrom", ["uniform"]))
    no negatives named 'unifrom'; available: uniform (did you mean 'uniform'?)
    """
    names = sorted(available)
    return SettingsError(f"no {kind} named '{given}'; available: {', '.join(names)}{nearest(given, names)}")


def nearest(given: str, names: Iterable[str]) -> str:
    """The end of a message: the name that was perhaps meant, or nothing."""
    close = difflib.get_close_matches(given, list(names), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Settings errors from inside begin with what was set."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{what}: {error}") from error
