"""The propositions as claims: what `theory` measured of them. Its steps are over the pairs of `strict`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pspns.experiments.data_sets import known_data
from pspns.experiments.records import Records
from pspns.experiments.reproduction._theory_section import OPTIMISERS, line_of, wider_margins
from pspns.experiments.verdicts import NOT_MEASURED, Outcome, Verdict, judge

OF_STRICT = Verdict(NOT_MEASURED, "margins are measured over pairs that are built as `strict` builds them")


def margins_widen(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Whether one step over PSP-NS's pairs widens the margins of held-out pairs more than one over observed pairs."""
    if protocol != "strict":
        return OF_STRICT
    outcomes = []
    for data in data_names:
        title = known_data(data).title
        for one in wider_margins(records.find(f"theory-{data}")):
            what = f"{title}, margins by a step of {one.what}"
            outcomes.append(replace(one, what=what, records=(f"theory-{data}",)))
    return judge(outcomes, of="changes of margins")


def margins_grow_with_weight(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Whether the margins of inactive users, in the rows of the steps, grow in proportion to their weight."""
    if protocol != "strict":
        return OF_STRICT
    outcomes = []
    for data in data_names:
        record = records.find(f"theory-{data}")
        for optimiser, how in OPTIMISERS.items():
            what = f"{known_data(data).title}, {how}"
            found = line_of(record, optimiser, "own") if record else None
            if found is None:
                outcomes.append(Outcome(what, None))
                continue
            figures = (
                f"with {found.last:g} times the weight {found.last_over_plain:.2f} times the change (R² of a line "
                f"{found.r_squared:.3f})"
            )
            outcomes.append(Outcome(what, found.is_in_proportion, figures, records=(f"theory-{data}",)))
    return judge(outcomes, of="growths of margins with the weight")
