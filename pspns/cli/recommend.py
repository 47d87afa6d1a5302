"""`pspns recommend`: lists for one user, a new one, or everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from pspns.cli.screen import say, show_table
from pspns.errors import SettingsError
from pspns.recommender import Recommender
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
    model = open_model(folder)
    found = model.recommend(
        None if user is None else _as_id(user, model.split.user_ids),
        items=None if items is None else [_as_id(item, model.split.item_ids) for item in items.split(",")],
        k=k,
        exclude=exclude,
    )
    _explain(model, user, found)
    if out is None:
        rows = [
            [str(rank), str(item), f"{score:.4g}"] for rank, item, score in found["rank", "item", "score"].iter_rows()
        ]
        show_table(f"For {user or 'a new user'}", ["rank", "item", "score"], rows, text_columns=2)
    else:
        _write(found, out)
        say(f"wrote {len(found):,} rows to {out}")


def _explain(model: Recommender, user: str | None, found: pl.DataFrame) -> None:
    for how, n_users in found.group_by("how").agg(pl.col("user").n_unique()).sort("how").iter_rows():
        match how:
            case "folded in":
                say(
                    f"{n_users:,} not in train: folded in from their items"
                    if user is None
                    else "folded in from their items"
                )
            case "popularity":
                whom = f"user '{user}'" if user is not None else f"{n_users:,} users"
                say(f"nothing is known of {whom}: falling back to what is popular")


def _as_id(text: str, ids: Any) -> Any:
    """What was typed, in the type of the data's ids; what cannot be one is left as it is and so is unknown."""
    if ids.dtype == object:
        return text
    try:
        return int(text)
    except ValueError:
        return text


def _write(found: pl.DataFrame, out: Path) -> None:
    partial = out.with_name(f".{out.name}.partial")
    try:
        if out.suffix == ".csv":
            found.write_csv(partial)
        else:
            found.write_parquet(partial)
        partial.replace(out)
    except OSError as error:
        raise SettingsError(f"cannot write {out}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
