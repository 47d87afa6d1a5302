from __future__ import annotations

from typing import Any

import pytest

from benchmarks import growth


@pytest.mark.parametrize("task", list(growth.TASKS))
def test_each_task_has_its_seconds_and_its_peak(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"USERS": 80, "ITEMS": 60, "PAIRS": 1_000, "MOST_REPEATS": 2}.items():
        monkeypatch.setattr(growth, name, value)
    found = growth.measure_one(task, 2)
    assert 0 < found["seconds"] < 60
    assert 0 < found["peak_mib"] < 1000


def test_exponents_are_those_of_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(module: str, _: str, task: str, factor: int) -> dict[str, Any]:
        # Seconds grow with the square beyond a fixed cost, memory in proportion.
        return {"seconds": 1000.0 + factor**2 if factor < 8 else float(factor**2), "peak_mib": 3.0 * factor}

    monkeypatch.setattr(growth, "in_a_process", measured)
    report = growth.run([2, 4, 8, 16, 32])
    assert [row[0] for row in report.rows[:3]] == [
        "PSP build, rank 50, s",
        "PSP build, rank 50, MiB",
        "PSP build, rank 50, ns a user × item",
    ]
    seconds, peaks, each = report.rows[:3]
    assert seconds[-2] < 1
    assert seconds[-1] == 2
    assert peaks[-2:] == (1, 1)
    assert each[-3] == each[-4] == f"{1e9 / (growth.USERS * growth.ITEMS):.2f}"
    assert len(report.rows) == 2 * len(growth.TASKS) + 2
