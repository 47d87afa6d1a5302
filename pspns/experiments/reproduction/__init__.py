"""The paper's tables and claims, a file each. The folder is the registry: its file names are the experiments' names."""

from __future__ import annotations

import importlib
import pkgutil

from pspns.errors import unknown_name
from pspns.experiments.experiment import Experiment

# As the report tells them; what else lies in the folder comes after.
ORDER = (
    "overall", "variants", "inactive", "mf", "samplers", "parameters", "convergence", "construction-time", "seeds",
    "theory", "protocol", "claims",
)  # fmt: skip


def experiment_names() -> tuple[str, ...]:
    found = {module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"}
    return (*(name for name in ORDER if name in found), *sorted(found - set(ORDER)))


def find_experiment(name: str) -> Experiment:
    if name not in experiment_names():
        raise unknown_name("experiment", name, experiment_names())
    found: Experiment = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT
    return found
