"""Methods with settings that trials chose: as many trials for each, on validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pspns.experiments.cells import Cell
from pspns.experiments.methods import PSP_NS, method_words, trained_as
from pspns.experiments.records import Records, Seen, why_not_compared
from pspns.experiments.reproduction._beside import WHY_NOT_NOTE, against, captioned, differences
from pspns.experiments.reproduction._comparisons import is_given_up, see_tuned
from pspns.experiments.sections import Number, Table, TableCell
from pspns.experiments.trials import Trials, count_trials, tuned_cell

UNDER_PUBLISHED = (PSP_NS,)
"""As the paper did it: its own method chosen on its grids, the baselines at their defaults."""
NOTE = (
    "Recall@20 in percent; ± is the standard deviation over seeds. Under `strict` every method has as many trials: "
    "its defaults, and draws from what `pspns tune` searches, one seed each; validation chooses, and the test is not "
    "looked at. Under `published` only {psp} is tuned, as the paper did it, with as many trials from its grids of "
    "rank, copies and sensitivity, on a validation whose mask test labels shape, too. A trial ends after 20,000 steps "
    "at the latest, which favours what learns fast; so the choice and the defaults are both trained to the end, and "
    "what is ahead on validation then stands here. *against {reference}, both tuned*: under "
    "`strict`, in points, with a 95 % bootstrap interval over users; p is that of a sign-flip test over users, "
    f"Holm-corrected within the table. {WHY_NOT_NOTE}"
)


def to_tune(data: str, model: str, methods: Sequence[str]) -> Iterator[Cell]:
    """What trials are made of to show the methods tuned."""
    for method in methods:
        yield Cell(data, model, trained_as(method))
    for method in UNDER_PUBLISHED:
        yield Cell(data, model, method, "published")


def tuned_table(
    records: Records, name: str, data: str, model: str, methods: Sequence[str], *, reference: str = "uniform"
) -> Table:
    """Recall@20 of the methods as their trials chose them."""
    cells = {method: Cell(data, model, trained_as(method)) for method in methods}
    seen = {method: found for method, cell in cells.items() if (found := see_tuned(records, cell))}
    tested = differences(seen, reference)
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for method, cell in cells.items():
        masked = cell.but(protocol="published") if method in UNDER_PUBLISHED else None
        rows.append(((method_words(method),), (
            _n_trials(records, cell),
            _choice(records, cell),
            _number(seen.get(method)),
            *against(tested.get(method), why_not_compared(seen.get(method), seen.get(reference))),
            _choice(records, masked) if masked else None,
            _number(see_tuned(records, masked)) if masked else None,
        )))  # fmt: skip
    return Table(
        name=name,
        caption=captioned(data, "Recall@20 with settings chosen on validation"),
        heads=("method",),
        columns=(
            "trials", "chosen, strict", "ours, strict, tuned", f"against {method_words(reference)}, both tuned", "p",
            "chosen, published", "ours, published, tuned",
        ),
        rows=tuple(rows),
        note=NOTE.format(psp=method_words(PSP_NS), reference=method_words(reference)),
    )  # fmt: skip


def _number(seen: Seen | None) -> Number | None:
    return seen.number("recall@20") if seen else None


def _n_trials(records: Records, cell: Cell) -> Number | None:
    n_trials = count_trials(records, cell)
    return Number(n_trials, digits=0, record=Trials(cell).name) if n_trials else None


def _choice(records: Records, cell: Cell) -> str | None:
    """What trials chose, and where that was given up in the end."""
    tuned = tuned_cell(records, cell)
    if tuned is None:
        return None
    words = choice_words(tuned.changes)
    return f"defaults, not {words}" if is_given_up(records, cell) else words


def choice_words(changes: Sequence[tuple[str, Any]]) -> str:
    """
    >>> choice_words((("training.learning_rate", 0.005), ("positives.rank", 100))), choice_words(())
    ('learning rate 0.005, rank 100', 'defaults')
    """
    words = [
        f"{key.rpartition('.')[2].replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in changes
    ]
    return ", ".join(words) or "defaults"
