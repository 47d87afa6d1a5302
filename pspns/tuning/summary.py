"""What came of a study: the best trial of each method, and how the others did."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pspns.evaluation.protocol import Protocol
from pspns.settings_file import settings_file
from pspns.tuning.trials import Trial, best_of


@dataclass(frozen=True)
class Tuned:
    """All trials of a study, and the folder they are in."""

    folder: Path
    protocol: Protocol
    select_by: str
    trials: dict[str, list[Trial]]  # method → its trials

    @property
    def best(self) -> dict[str, Trial]:
        """Method → its best trial, the best method first; one whose trials all failed has none."""
        found = {method: best for method, trials in self.trials.items() if (best := best_of(trials))}
        return dict(sorted(found.items(), key=lambda one: -(one[1].value or 0.0)))

    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        return {
            "select_by": self.select_by,
            "part": "validation",
            "protocol": {"name": self.protocol.name, "warning": self.protocol.warning},
            "methods": {method: self._of(method) for method in self.trials},
        }

    def settings_files(self) -> dict[str, str]:
        """Method → the settings of its best trial as `pspns train --config` reads them."""
        return {method: settings_file(trial.settings) for method, trial in self.best.items()}

    def _of(self, method: str) -> dict[str, Any]:
        trials, best = self.trials[method], self.best.get(method)
        values = [trial.value for trial in trials if trial.value is not None]
        found: dict[str, Any] = {
            "trials": len(trials),
            "failed": sum(trial.failed is not None for trial in trials),
            "repeated": sum(trial.repeats is not None for trial in trials),
            "steps": sum(max(trial.steps) for trial in trials if trial.steps and trial.repeats is None),
        }
        if best:
            found |= {
                "best_trial": best.name,
                "best": best.valid[self.select_by],
                "median": statistics.median(values),
                "lowest": min(values),
                "values": best.values,
            }
        return found
