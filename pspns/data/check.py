"""What looks wrong in data that can be read, in plain words, with examples and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pspns.data.findings import columns, ids, ratings, rows, times
from pspns.data.findings import parts as parts_of_a_split
from pspns.data.findings._data import Data, Finding
from pspns.data.gather import Gathered
from pspns.data.split import Part

LOOKS: tuple[Callable[[Data], Iterator[Finding]], ...] = (
    parts_of_a_split.pairs_in_two_parts,
    parts_of_a_split.sizes_of_parts,
    parts_of_a_split.unknown_to_train,
    columns.user_and_item_are_swapped,
    columns.user_and_item_are_one,
    ids.that_number_the_rows,
    ids.that_look_alike,
    ids.that_look_missing,
    rows.of_one_id,
    rows.repeated_rows,
    ratings.odd_ratings,
    times.odd_times,
    rows.too_few_to_train,
    ids.with_one_pair,
)


def check(
    gathered: Gathered,
    *,
    parts: Sequence[Part] = (Part.TRAIN,),
    labels: Mapping[str, str],
    now: float,
    min_rating: float | None = None,
) -> list[Finding]:
    """Everything odd about the tables, warnings first.

    parts: which part each table is; a single file is all train.
    labels: role → its column, as messages call it.
    now: seconds since 1970; later times are in the future.
    """
    data = Data(gathered, dict(zip(parts, gathered.tables, strict=True)), labels, now, min_rating)
    found = [finding for look in LOOKS for finding in look(data)]
    return sorted(found, key=lambda finding: finding.severity == "note")
