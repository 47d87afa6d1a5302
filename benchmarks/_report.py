"""What a benchmark found, as Markdown to read and JSON to compute with, beside the machine it was found on."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def describe_machine() -> dict[str, Any]:
    """Processor, threads and versions."""
    cpu_info = Path("/proc/cpuinfo")
    lines = cpu_info.read_text().splitlines() if cpu_info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "torch", "numba")},
    }


@dataclass
class Report:
    """One table; every row is shown as soon as it is known."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        print("\n".join(self._head()), flush=True)

    def add(self, *cells: Any) -> None:
        """One row, a cell for each column; None is shown as a dash."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns: {cells}")
        self.rows.append(cells)
        print(_line(cells), flush=True)

    def write(self, folder: Path, name: str) -> None:
        """`name.md` and `name.json`."""
        machine = describe_machine()
        described = ", ".join(f"{key} {value}" for key, value in machine.items() if value is not None)
        lines = [f"# {self.title}", "", described, "", *self._head(), *map(_line, self.rows)]
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        content = {"title": self.title, "note": self.note, "machine": machine, "results": rows}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _head(self) -> list[str]:
        return [self.note, "", _line(self.columns), _line(["---"] * len(self.columns))]


def _line(cells: Any) -> str:
    return "| " + " | ".join("–" if cell is None else str(cell) for cell in cells) + " |"
