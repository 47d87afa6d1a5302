"""`pspns report`: one self-contained page about runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pspns.cli.output_file import check_free
from pspns.cli.screen import say
from pspns.report.page import write_page


def write_report(folders: Sequence[Path], out: Path, *, overwrite: bool) -> None:
    check_free(out, overwrite=overwrite)
    write_page(folders, out)
    say(f"wrote {out}")
