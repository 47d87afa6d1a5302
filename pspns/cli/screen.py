"""What the terminal shows: tables, messages and progress, with ids made harmless."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from pspns.evaluation.selection import figure

if TYPE_CHECKING:
    # Not at run time: listing and help must not wait for torch.
    from pspns.training.loop import Watch
    from pspns.training.stopping import Evaluation

# Results go to standard output, everything else to standard error, so that output can be piped.
results = Console(highlight=False)
messages = Console(stderr=True, highlight=False)

# Where the output is no terminal, rich assumes 80 columns and folds; a log or a pipe may have longer lines.
if not results.is_terminal:
    results = Console(highlight=False, width=160)
if not messages.is_terminal:
    messages = Console(stderr=True, highlight=False, width=160)


def say(line: str) -> None:
    """One line about what is going on."""
    messages.print(Text(printable(line)), soft_wrap=not messages.is_terminal)


def tell(line: str) -> None:
    """One line of the result."""
    results.print(Text(printable(line)), soft_wrap=not results.is_terminal)


def complain(line: str) -> None:
    """One error."""
    messages.print(Text("pspns: error: ", style="bold red") + Text(printable(line)), soft_wrap=not messages.is_terminal)


def warn(line: str) -> None:
    messages.print(Text("warning: ", style="bold yellow") + Text(printable(line)), soft_wrap=not messages.is_terminal)


def printable(text: str) -> str:
    """Control characters shown, not obeyed: an id may hold a terminal escape, or a line that looks like ours.

    >>> printable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int | Collection[int] = 1
) -> None:
    """A table; the first `text_columns`, or those at these places, are words, the others figures."""
    are_words = range(text_columns) if isinstance(text_columns, int) else text_columns
    table = RichTable(title=Text(printable(title)), title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="left" if number in are_words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    results.print(table)


@contextmanager
def training_progress(select_by: str, part: str) -> Iterator[Watch]:
    """A bar in a terminal, a plain line for each evaluation elsewhere; `part` is the one that chooses."""
    select_by_part = f"{select_by} on {part}"
    if not messages.is_terminal:
        yield (
            lambda step, last_step, evaluation: (
                say(_line(evaluation, select_by, select_by_part)) if evaluation else None
            )
        )
        return
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Progress(*columns, console=messages, transient=True) as bars:
        bar = bars.add_task("", total=None, state="")
        shown = [0.0]

        def watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
            # Ten times a second is enough for the eye; a step may take a thousandth.
            now = time.monotonic()
            if evaluation:
                bars.update(bar, state=_line(evaluation, select_by, select_by_part))
            if evaluation or now - shown[0] > 0.1:
                bars.update(bar, completed=step, total=last_step)
                shown[0] = now

        yield watch


def best_alone(watch: Watch, select_by: str) -> Watch:
    """A loop may have dozens of replicas; one of them is enough to see that it learns."""

    def watch_best(step: int, last_step: int, evaluation: Evaluation | None) -> None:
        if evaluation:
            metrics = evaluation.metrics
            best = max(metrics, key=lambda replica: metrics[replica][select_by])
            evaluation = dataclasses.replace(evaluation, metrics={best: metrics[best]})
        watch(step, last_step, evaluation)

    return watch_best


def _line(evaluation: Evaluation, select_by: str, shown_as: str) -> str:
    values = [metrics[select_by] for metrics in evaluation.metrics.values() if select_by in metrics]
    losses = list(evaluation.losses.values())
    shown = f"{shown_as} {' '.join(figure(select_by, value) for value in values)}" if values else ""
    return f"step {evaluation.step:,} ({evaluation.seconds:.0f} s) {shown} loss {sum(losses) / len(losses):.4f}"
