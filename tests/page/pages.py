"""The pages that are looked at: one that shows all there is, one of real records, a run's report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import section_samples as samples
from page.chromium import Page

from pspns.api import fit
from pspns.data.planted import plant
from pspns.experiments.headline import headline
from pspns.experiments.records import Records
from pspns.experiments.reproduction import find_experiment
from pspns.experiments.sections import Section
from pspns.report.page import write_page
from pspns.report.reproduction import write_reproduction


@dataclass(frozen=True)
class Made:
    """A page, and the sections it shows."""

    path: Path
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True)
class Opened:
    page: Page
    made: Made


def all_kinds(folder: Path) -> Made:
    samples.write_records(folder / "cells")
    write_reproduction(samples.SECTIONS, samples.HEADLINE, folder / "cells", folder / "page.html")
    return Made(folder / "page.html", samples.SECTIONS)


def real_records(folder: Path) -> Made:
    """A part of the reproduction, from the records that this project keeps: all of it would take minutes."""
    records = Records(Path(__file__).parents[2] / "results" / "cells")
    names = ["ml-1m", "epinions"]
    first = headline(records, names)
    sections = [find_experiment(name).section(records, names) for name in ("inactive", "convergence")]
    write_reproduction(sections, first, records.folder, folder / "page.html")
    return Made(folder / "page.html", (first, *sections))


def run_report(folder: Path) -> Made:
    rng = np.random.default_rng(0)
    world = plant("clustered", n_users=120, n_items=60, rng=rng, mean_preferences=20, mean_interactions=15).interactions
    common = {"model": "mf", "seeds": (0, 1), "embedding_size": 8, "max_steps": 12, "evaluate_every": 4, "inactive": 30}
    runs = {"plain": {}, "published": {"protocol": "published"}, "noisy": {"denoiser": "t-ce", "noise": 0.3}}
    for name, options in runs.items():
        fit(world, out=folder / name, **common, **options)
    write_page([folder / name for name in runs], folder / "report.html")
    return Made(folder / "report.html")


PAGES = {"all kinds": all_kinds, "real records": real_records, "run report": run_report}
