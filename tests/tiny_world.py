"""A generated world small enough for jobs of all worlds, in place of the real ones."""

import numpy as np
import pytest

from pspns.data.planted import plant
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction import _denoised_worlds
from pspns.experiments.sections import Section


class TinyWorld:
    def plant(self):
        return plant("clustered", n_users=60, n_items=60, rng=np.random.default_rng(0), mean_preferences=20)


def record_of_job(module, terms, folder):
    """What the module's job for `planted-clustered` with MF writes, the world being the tiny one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_denoised_worlds, "WORLDS", ("planted-clustered",))
        patch.setattr(_denoised_worlds, "MODELS", ("mf",))
        real = module.find_part
        patch.setattr(module, "find_part", lambda kind, name: TinyWorld if kind == "datasets" else real(kind, name))
        records = Records(folder)
        only_jobs = Experiment("", "", lambda records, data: Section("", "", ()), jobs=module.jobs)
        carry_out({"other": [only_jobs]}, records, terms, lambda name: TinyWorld().plant().interactions)
        return records.find(module.record_name("planted-clustered", "mf"))
