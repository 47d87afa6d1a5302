"""Model folders as somebody would forge them: changed, and then with checksums that fit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

BLANK = "0" * 64


def reseal(run: Path, **changes: Any) -> None:
    """Change entries of the manifest, None removes one, and make all checksums fit what is there."""
    path = run / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["sha256"]:
        file = run / "model" / name
        file = file if file.exists() else run / name
        manifest["sha256"][name] = hashlib.sha256(file.read_bytes()).hexdigest() if file != path else BLANK
    write_sealed(path, {key: value for key, value in (manifest | changes).items() if value is not None})


def write_sealed(path: Path, manifest: dict[str, Any]) -> None:
    seal(path, json.dumps(manifest))


def seal(path: Path, text: str) -> None:
    """Write a manifest whose own checksum stands as zeros in the text."""
    path.write_text(text.replace(BLANK, hashlib.sha256(text.encode()).hexdigest()))
