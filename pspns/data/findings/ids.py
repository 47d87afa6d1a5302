"""Ids that look alike, that look missing, or that are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from pspns.data.findings._data import FEW_ROWS, Data, Finding, Side, counted, share, shown

_BLANKS = "blanks"
_CASE = "upper and lower case"
_UNICODE = "invisible characters or how Unicode composes letters"
_NUMBERS = "how a number is written"

# What ids may differ by → ids without that difference.
_WITHOUT: dict[str, Callable[[pl.Series], pl.Series]] = {
    _BLANKS: lambda ids: ids.str.replace_all(r"\s", ""),
    _CASE: lambda ids: ids.str.to_lowercase(),
    _UNICODE: lambda ids: ids.str.replace_all(r"[\p{Cf}\p{Cc}]", "").str.normalize("NFKC"),
    _NUMBERS: lambda ids: ids.str.replace(r"^\+?(-?)0*(\d+)(?:\.0*)?$", "${1}${2}"),
}


def that_look_alike(data: Data) -> Iterator[Finding]:
    for side in data.sides:
        if side.ids.dtype != pl.String:  # numbers are written in one way only
            continue
        form = side.ids
        for without in _WITHOUT.values():
            form = without(form)
        alike = pl.DataFrame({"id": side.ids, "rows": side.rows, "form": form}).filter(form.is_duplicated())
        alike = alike.with_columns(is_named=False)
        for difference, without in _WITHOUT.items():
            form = without(alike["id"])
            groups = alike.with_columns(form=form).filter(form.is_duplicated())
            yield from _alike(side, groups.filter(~pl.col("is_named").all().over("form")), difference)
            alike = alike.with_columns(is_named=pl.col("is_named") | form.is_duplicated())
        # Those that differ in two ways at once, such as 'Anna' and 'ANNA '.
        rest = alike.filter(~pl.col("is_named").any().over("form"))
        yield from _alike(side, rest, f"{_BLANKS}, {_CASE} and the like")
        unclean = side.ids.filter(side.ids.str.contains(r"^\s|\s$|\p{Cf}") & ~side.ids.is_in(alike["id"].implode()))
        if len(unclean):
            yield Finding(
                "note",
                f"ids in column {side.label} that begin or end with a blank, or hold an invisible character: "
                f"{len(unclean):,}, such as {shown(unclean)}",
                "An id is never changed here, so it must be asked for in just this form.",
            )


def _alike(side: Side, ids: pl.DataFrame, difference: str) -> Iterator[Finding]:
    """Ids of which each has the same form as another."""
    if ids.is_empty():
        return
    groups = ids.group_by("form").agg(pl.col("id").sort(), pl.col("rows").sum())
    groups = groups.sort("rows", "form", descending=[True, False])
    quote = ascii if difference == _UNICODE else repr
    examples = [" and ".join(quote(text[:40]) for text in group[:3]) for group in groups["id"].head(3).to_list()]
    # Random codes such as 'dQw4w9WgXcQ' mix both cases, and mean it.
    mixes_case = int(side.ids.str.contains(r"\p{Ll}.*\p{Lu}").sum()) > len(side.ids) / 2
    yield Finding(
        "note" if difference == _CASE and mixes_case else "warning",
        f"ids in column {side.label} that differ only by {difference}: {len(ids):,} ids for "
        f"{counted(len(groups), side.role)}, such as {'; '.join(examples)}",
        f"They count as different {side.role}s; if they mean the same, write them in one way.",
    )


def that_look_missing(data: Data) -> Iterator[Finding]:
    for side in data.sides:
        if n_rows := int(side.rows[side.looks_missing.to_numpy()].sum()):
            is_frequent = n_rows > 0.01 * data.n_rows or n_rows > 10 * data.n_rows / len(side.ids)
            yield Finding(
                "warning" if is_frequent else "note",
                f"rows whose {side.role} looks like a missing one, such as "
                f"{shown(side.ids.filter(side.looks_missing))}: {share(n_rows, data.n_rows)}",
                f"Equal ids count as one {side.role}; leave these rows out if their {side.role} is not known.",
            )


def that_number_the_rows(data: Data) -> Iterator[Finding]:
    for side in data.sides:
        if len(side.ids) == data.n_rows >= FEW_ROWS:
            yield Finding(
                "warning",
                f"every row has another {side.role} (column {side.label}), so there is nothing to learn from",
                f"If that column numbers the rows, say which one is the {side.role}: --columns {side.role}=NAME.",
            )


def with_one_pair(data: Data) -> Iterator[Finding]:
    for side in data.sides:
        n_single = int((side.pairs == 1).sum())
        if n_single >= len(side.ids) / 2 and len(side.ids) < data.n_rows:
            yield Finding(
                "note",
                f"{side.role}s with a single pair: {share(n_single, len(side.ids))}",
                f"If a split holds that pair out, train does not know the {side.role}.",
            )
