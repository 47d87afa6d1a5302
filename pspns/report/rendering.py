"""From a template and values to a file, which is written whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pspns
from pspns.errors import SettingsError


@contextmanager
def report_libraries() -> Iterator[None]:
    """Names what the extra `report` would install, if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"a report needs {error.name}, which is not installed; pip install 'pspns[report]'"
        ) from error


def render(template: str, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """A template of this folder; everything is escaped, and a name that is not there is an error."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pspns", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= filters
    return environment.get_template(template).render(**values, version=pspns.__version__)


def write_whole(out: Path, text: str) -> None:
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
