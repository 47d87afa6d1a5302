"""Which column is the user, the item, the rating and the time: as told, or guessed from known names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pspns.errors import DataError, unknown_name

ROLES = ("user", "item", "rating", "time")

# Role → a column's name or 0-based position; None says that there is no such column.
AskedColumns = Mapping[str, str | int | None]


@dataclass(frozen=True)
class Columns:
    """Where each role stands among a table's columns."""

    labels: tuple[str, ...]  # [columns] as messages call them: 'quoted name', or position
    user: int
    item: int
    rating: int | None
    time: int | None

    def place(self, role: str) -> int | None:
        return {"user": self.user, "item": self.item, "rating": self.rating, "time": self.time}[role]

    @property
    def used(self) -> list[int]:
        """The places of the columns that have a role, from left to right."""
        return sorted(place for role in ROLES if (place := self.place(role)) is not None)

    def facts(self) -> tuple[str, ...]:
        roles = [
            f"no {role}" if (place := self.place(role)) is None else f"{role} = {self.labels[place]}" for role in ROLES
        ]
        ignored = [label for place, label in enumerate(self.labels) if place not in self.used]
        told = f"columns: {', '.join(roles)}"
        return (told, f"columns ignored: {_listing(ignored)}") if ignored else (told,)


def choose_columns(names: Sequence[str], asked: AskedColumns | None, source: str) -> Columns:
    """The columns of a table whose columns have names; roles not asked for are guessed.

    >>> choose_columns(["User ID", "movieId", "title"], None, "clicks.csv").facts()
    ("columns: user = 'User ID', item = 'movieId', no rating, no time", "columns ignored: 'title'")
    """
    if not names:
        raise DataError(f"{source}: there are no columns; expected one for the user and one for the item")
    labels = tuple(_quoted(name) for name in names)
    places = {
        role: None if column is None else _place(role, column, names, source)
        for role, column in _checked_roles(asked).items()
    }
    for role in ROLES:
        if role not in places:
            free = [place for place in range(len(names)) if place not in places.values()]
            places[role] = _guess(role, names, free, source)
    return _complete(places, labels, source, _HOW_TO_SET)


def choose_positions(width: int, asked: AskedColumns | None, source: str) -> Columns:
    """The columns of a table without names: user, item, then rating and time where there are four.

    A third and last column is called the rating here; only its values can tell whether it is a time.
    """
    labels = tuple(str(place) for place in range(width))
    if asked:
        places = {
            role: None if column is None else _position(role, column, width, source)
            for role, column in _checked_roles(asked).items()
        }
    elif 2 <= width <= 4:
        places = dict(zip(ROLES, range(width), strict=False))
    else:
        raise DataError(
            f"{source}: {width} columns and no header; expected two to four: user, item, and perhaps "
            f"rating and time. {_HOW_TO_SET_POSITIONS}"
        )
    return _complete(places, labels, source, _HOW_TO_SET_POSITIONS)


def is_known_name(name: str) -> bool:
    """Does a column of this name have a role that can be guessed?

    >>> is_known_name("Visitor_ID"), is_known_name("colour")
    (True, False)
    """
    return any(_plain(name) in names for tiers in _KNOWN.values() for names in tiers)


def asked_names(asked: AskedColumns | None) -> list[str]:
    """The columns that are asked for by name."""
    columns = _checked_roles(asked).values()
    return [column for column in columns if isinstance(column, str) and not column.isdecimal()]


def _with_id(*nouns: str) -> frozenset[str]:
    return frozenset(form for noun in nouns for form in (noun, f"{noun}id", f"id{noun}"))


# Role → the names that mean it, in small letters and digits alone. Names of an earlier set win over those of
# a later one: beside `item_id`, a column `movie` is a description.
_KNOWN: dict[str, tuple[frozenset[str], ...]] = {
    "user": (
        _with_id("user") | {"uid"},
        _with_id("visitor", "customer", "client", "member", "reviewer", "buyer", "listener", "reader", "person")
        | {"username"},
    ),
    "item": (
        _with_id("item") | {"iid"},
        _with_id("movie", "product", "track", "song", "artist", "book", "article", "business", "game", "video")
        | _with_id("anime", "recipe", "venue", "poi", "news", "sku")
        | {"asin", "isbn"},
    ),
    "rating": (
        frozenset({"rating"}),
        frozenset({"score", "stars", "star", "overall", "reviewscore", "userrating", "starrating"}),
    ),
    "time": (
        frozenset({"timestamp", "time", "ts"}),
        frozenset({"datetime", "date", "unixtime", "unixreviewtime", "createdat", "eventtime"}),
    ),
}

_HOW_TO_SET = "Set columns={'user': NAME, 'item': NAME} (on the command line: --columns user=NAME,item=NAME)"
_HOW_TO_SET_POSITIONS = (
    "Set columns={'user': 0, 'item': 1} with the right positions, counted from 0 "
    "(on the command line: --columns user=0,item=1)"
)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _checked_roles(asked: AskedColumns | None) -> dict[str, str | int | None]:
    for role in asked or {}:
        if role not in ROLES:
            raise unknown_name("column role", role, ROLES)
    # `--columns rating=` on the command line arrives as an empty text, and means that there is none.
    return {role: None if column == "" else column for role, column in (asked or {}).items()}


def _place(role: str, column: str | int, names: Sequence[str], source: str) -> int:
    if isinstance(column, str) and column in names:
        if names.count(column) > 1:
            raise DataError(
                f"{source}: {names.count(column)} columns are named {column!r} (asked for as the {role}); "
                f"give its position instead, counted from 0"
            )
        return names.index(column)
    if isinstance(column, str) and not column.isdecimal():
        close = difflib.get_close_matches(column, names, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        listing = _listing([_quoted(name) for name in names])
        raise DataError(f"{source}: no column {column!r} (asked for as the {role}); columns: {listing}{hint}")
    return _position(role, column, len(names), source)


def _position(role: str, column: str | int, width: int, source: str) -> int:
    if isinstance(column, str) and not column.isdecimal():
        raise DataError(
            f"{source}: columns asks for {column!r} as the {role}, but there is no header with names; "
            f"give positions 0 to {width - 1}"
        )
    position = int(column)
    if not 0 <= position < width:
        raise DataError(
            f"{source}: no column at position {position} (asked for as the {role}); "
            f"there are {width} columns, positions 0 to {width - 1}"
        )
    return position


def _guess(role: str, names: Sequence[str], free: Sequence[int], source: str) -> int | None:
    for known in _KNOWN[role]:
        found = [place for place in free if _plain(names[place]) in known]
        if len(found) > 1:
            candidates = " and ".join(_quoted(names[place]) for place in found)
            raise DataError(
                f"{source}: columns {candidates} could all be the {role}. Set columns={{'{role}': NAME}}, or its "
                f"position counted from 0 (on the command line: --columns {role}=NAME)"
            )
        if found:
            return found[0]
    return None


def _complete(places: Mapping[str, int | None], labels: tuple[str, ...], source: str, how_to_set: str) -> Columns:
    user, item = places.get("user"), places.get("item")
    if user is None or item is None:
        missing = " and the ".join(role for role in ("user", "item") if places.get(role) is None)
        raise DataError(
            f"{source}: cannot tell which column is the {missing}; columns: {_listing(labels)}. {how_to_set}"
        )
    columns = Columns(labels, user, item, places.get("rating"), places.get("time"))
    for place in set(columns.used):
        if columns.used.count(place) > 1:
            roles = " and ".join(role for role in ROLES if columns.place(role) == place)
            raise DataError(f"{source}: column {labels[place]} cannot be {roles} at once; mend columns")
    return columns


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:79]}…")


def _listing(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:20])
    return shown if len(labels) <= 20 else f"{shown} and {len(labels) - 20} more"
