"""`pspns recommend`: lists for one user, a new one, or everybody."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import polars as pl

from pspns.cli.output_file import check_free
from pspns.cli.screen import say, show_table
from pspns.errors import SettingsError
from pspns.recommender import check_request
from pspns.run_folder import open_model


def recommend_and_show(
    folder: Path,
    user: str | None,
    items: str | None,
    everybody: bool,
    k: int,
    exclude: str,
    out: Path | None,
    *,
    overwrite: bool,
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
    if out is not None:
        check_free(out, overwrite=overwrite)
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
        if out.suffix == ".csv":
            _explain_apostrophes(found)


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


def _explain_apostrophes(found: pl.DataFrame) -> None:
    """Say how many ids a CSV file does not hold as they are."""
    texts = [found[column].unique() for column in ("user", "item") if found[column].dtype == pl.String]
    n_changed = sum(int(text.str.contains(_FORMULA).sum()) for text in texts)
    if n_changed:
        ids = "1 id begins" if n_changed == 1 else f"{n_changed:,} ids begin"
        say(f"{ids} as a formula does: a ' stands in front there; write .parquet to have ids as they are")


def _write(found: pl.DataFrame, out: Path) -> None:
    partial = out.with_name(f".{out.name}.partial")
    try:
        with partial.open("wb") as file:
            if out.suffix == ".csv":
                found.with_columns(_harmless(pl.col(pl.String))).write_csv(file)
            else:
                found.write_parquet(file)
        partial.replace(out)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SettingsError(f"cannot write {out}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


# What spreadsheets take for the beginning of a formula, full-width twins included (OWASP, "CSV injection").
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"


def _harmless(text: pl.Expr) -> pl.Expr:
    """Text that a spreadsheet shows and does not compute."""
    return pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep()
