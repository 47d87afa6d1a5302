"""JSON files: read with a clear error, written so that only valid JSON can come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pspns.errors import DataError


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Indented, ids and words as they are."""
    # NaN and Infinity are not JSON: better an error here than a file that only Python reads.
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
