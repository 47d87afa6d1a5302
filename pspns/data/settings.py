"""What is read, and how, and what is made of it before training: the settings of `[data]`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pspns.data.columns import ROLES
from pspns.errors import SettingsError, blaming, unknown_name


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    source: str | None = None
    """A file, a folder with train, valid and test files, or the name of a known data set."""
    format: str | None = None
    """How a file is written: delimited, lines, npz or parquet; unset: told from its name and first lines."""
    columns: dict[str, str | int | None] | None = None
    """Which column is which, as user=NAME,item=NAME,rating=NAME,time=NAME, or by position, counted from 0; unset:
    guessed, and said."""
    header: bool | None = None
    """Whether the first line of a delimited file names the columns; unset: told from its words."""
    separator: str | None = None
    """What stands between the cells of a delimited file: tab, comma, or the characters themselves; unset: guessed, and
    said."""
    encoding: str | None = None
    """How a text file writes its characters, such as utf-16 or latin-1; unset: UTF-8."""
    time_format: str | None = None
    """How times are written, such as %d/%m/%Y; unset: told from the first of them."""
    min_rating: float | None = None
    """Rows rated lower are left out; unset: every row is an interaction."""
    min_user_pairs: int | None = None
    """Users with fewer pairs are left out, before the split and until none is left; unset: none is."""
    min_item_pairs: int | None = None
    """Items with fewer pairs are left out, in the same way."""
    core: int | None = None
    """Both at once: what is left is the k-core."""
    folder: str | None = None
    """Where data sets lie on this machine; unset: the environment variable PSPNS_DATA."""
    noise: float = 0.0
    """False pairs that are added to train after the split, at random, as a share of its pairs; 0: none."""

    def __post_init__(self) -> None:
        for role in self.columns or {}:
            if role not in ROLES:
                with blaming("columns"):
                    raise unknown_name("column role", role, ROLES)
        if not 0 <= self.noise < math.inf:
            raise SettingsError(f"noise must be a finite number of at least 0, got {self.noise:g}; change [data] noise")
