"""`pspns recommend`: lists for one user, a new one, or everybody."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import polars as pl

from pspns.cli.screen import say, show_table
from pspns.errors import SettingsError
from pspns.recommender import check_request
from pspns.run_folder import open_model


def recommend_and_show(
    folder: Path, user: str | None, items: str | None, everybody: bool, k: int, exclude: str, out: Path | None
) -> None:
    """A table on the terminal, or a file."""
    if everybody == (user is not None or items is not None):
        raise SettingsError("say for whom: --user ID, --items A,B,C for somebody new, or --all")
    if everybody and out is None:
        raise SettingsError("--all needs --out FILE.parquet or FILE.csv")
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise SettingsError(f"--out must end in .parquet or .csv, got {out}")
    if out is not None and not out.absolute().parent.is_dir():
        raise SettingsError(f"cannot write {out}: there is no folder {out.absolute().parent}")
    check_request(k, exclude)
    found = open_model(folder).recommend(user, items=None if items is None else items.split(","), k=k, exclude=exclude)
    _explain(found, "the new user" if user is None else f"user '{user}'", everybody=everybody)
    if out is None:
        rows = [
            [str(rank), str(item), f"{score:.4g}"] for rank, item, score in found["rank", "item", "score"].iter_rows()
        ]
        show_table(f"For {'a new user' if user is None else user}", ["rank", "item", "score"], rows, text_columns=2)
    else:
        _write(found, out)
        say(f"wrote {len(found):,} rows to {out}")


def _explain(found: pl.DataFrame, whom: str, *, everybody: bool) -> None:
    """Say who was not served by the model itself, and why a list is empty."""
    if found.is_empty():
        say(f"nothing is left to recommend to {whom}: every item the model knows is left out")
    for how, n_users in found.group_by("how").agg(pl.col("user").n_unique()).sort("how").iter_rows():
        if everybody:
            whom = f"{n_users:,} user{'s' if n_users > 1 else ''}"
        match how:
            case "folded in":
                say(f"{whom} not in train: folded in from their items")
            case "popularity":
                say(f"nothing is known of {whom}: falling back to what is popular")


def _write(found: pl.DataFrame, out: Path) -> None:
    partial = out.with_name(f".{out.name}.partial")
    try:
        with partial.open("wb") as file:
            if out.suffix == ".csv":
                found.write_csv(file)
            else:
                found.write_parquet(file)
        partial.replace(out)
    except OSError as error:
        raise SettingsError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()
