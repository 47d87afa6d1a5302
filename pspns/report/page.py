"""The report: one self-contained HTML page about one or several runs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pspns
from pspns.errors import SettingsError
from pspns.report.words import signed, title

if TYPE_CHECKING:
    from pspns.report.sections import Section


def write_page(folders: Sequence[Path], out: Path) -> None:
    """One section for each combination of data and protocol among the runs; written whole or not at all."""
    if not folders:
        raise SettingsError("a report needs at least one run's folder; give folders that `pspns train` wrote")
    try:
        import jinja2

        from pspns.report.sections import sections_of
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"a report needs {error.name}, which is not installed; pip install 'pspns[report]'"
        ) from error

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pspns", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"metric": title, "points": signed, "p_value": _p_value, "counts": _counts}
    sections = sections_of(folders)
    template = environment.get_template("page.html.jinja")
    _write_whole(out, template.render(sections=sections, why_apart=_why_apart(sections), version=pspns.__version__))


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


def _write_whole(out: Path, text: str) -> None:
    if out.is_dir():
        raise SettingsError(f"{out} is a folder; give --out the name of a file, such as {out / 'report.html'}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
            partial = Path(folder) / out.name
            partial.write_text(text, encoding="utf-8")
            partial.replace(out)
    except OSError as error:
        raise SettingsError(f"cannot write {out}: {error.strerror}; choose another --out") from error
