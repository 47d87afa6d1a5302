"""The report: one self-contained HTML page about one or several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pspns.errors import SettingsError
from pspns.report.rendering import render, report_libraries, write_whole
from pspns.report.words import signed, title

if TYPE_CHECKING:
    from pspns.report.sections import Section


def write_page(folders: Sequence[Path], out: Path) -> None:
    """One section for each combination of data and protocol among the runs; written whole or not at all."""
    if not folders:
        raise SettingsError("a report needs at least one run's folder; give folders that `pspns train` wrote")
    filters: dict[str, Callable[..., str]] = {
        "metric": title,
        "points": signed,
        "p_value": _p_value,
        "counts": _counts,
    }
    with report_libraries():
        from pspns.report.sections import sections_of

        sections = sections_of(folders)
        text = render("page.html.jinja", filters, sections=sections, why_apart=_why_apart(sections))
    write_whole(out, text)


def _why_apart(sections: Sequence[Section]) -> str:
    """What the sections differ in, in words; empty where there is but one."""
    protocols = sorted({section.table.protocol for section in sections})
    shares = sorted({section.table.noise for section in sections})
    # Noise changes the fingerprint: data are counted among those with the same share of it.
    n_data = max(
        len({section.data["fingerprint"] for section in sections if section.table.noise == share}) for share in shares
    )
    reasons = []
    if len(protocols) > 1:
        reasons.append(f"under {len(protocols)} protocols ({', '.join(protocols)})")
    if n_data > 1:
        reasons.append(f"on {n_data} data sets or splits")
    if len(shares) > 1:
        reasons.append(f"after training with {len(shares)} shares of noise ({', '.join(f'{s:g}' for s in shares)})")
    return " and ".join(reasons)


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _counts(numbers: Sequence[int]) -> str:
    return " · ".join(f"{number:,}" for number in numbers) or "no training loop"
