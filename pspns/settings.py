"""All settings of a run, as plain frozen values."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from pspns.components import find_part, part_name, part_names
from pspns.data.settings import DataSettings
from pspns.denoising.none import NoDenoising
from pspns.errors import SettingsError, blaming, unknown_name
from pspns.evaluation.protocol import find_protocol
from pspns.evaluation.selection import LOSSES
from pspns.models.mf import MatrixFactorisation
from pspns.negatives.uniform import UniformNegatives
from pspns.positives.observed import ObservedPositives
from pspns.starts.xavier import XavierStart
from pspns.training.settings import TrainingSettings
from pspns.weightings.none import NoWeighting

# Where systems and libraries still start them; more end the process.
MOST_THREADS = 1_024


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    k: tuple[int, ...] = (20, 30)
    """Lengths of the lists that are judged."""
    select_by: str = "recall@20"
    """What chooses the best step on validation: a metric and a cut-off, or the lowest valid-loss or
    revised-valid-loss."""
    loss_trim: float = 0.2
    """The share of the validation pairs, those with the highest loss, that revised-valid-loss leaves out."""
    inactive: int = 1000
    """How many of the least active users are judged apart, where there are more users than that."""

    def __post_init__(self) -> None:
        if not self.k or min(self.k) < 1:
            raise SettingsError(f"k must be whole numbers of at least 1, got {self.k}; change [evaluation] k")
        if self.inactive < 0:
            raise SettingsError(f"inactive must be at least 0, got {self.inactive}; change [evaluation] inactive")
        if not 0 <= self.loss_trim < 1:
            raise SettingsError(
                f"loss_trim must be at least 0 and below 1, got {self.loss_trim:g}; change [evaluation] loss_trim"
            )
        if self.selects_by_loss:
            return
        metric, _, cutoff = self.select_by.partition("@")
        if metric in LOSSES:
            raise SettingsError(f"select_by has a cut-off only for metrics, got '{self.select_by}'; write {metric}")
        with blaming("select_by"):
            if metric not in part_names("metrics"):
                raise unknown_name("metric", metric, [*part_names("metrics"), *LOSSES])
        if not cutoff.isdecimal() or int(cutoff) < 1:
            raise SettingsError(f"select_by must be a metric and a cut-off such as recall@20, got '{self.select_by}'")

    @property
    def selects_by_loss(self) -> bool:
        return self.select_by in LOSSES

    @property
    def ranks_by(self) -> str:
        """The metric that tables of the test are ranked by: the one that selects, unless that is a loss."""
        return f"recall@{self.k[0]}" if self.selects_by_loss else self.select_by

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """Every list length that is needed, those shown and the one that selects."""
        return tuple(sorted({*self.k, int(self.ranks_by.partition("@")[2])}))


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    protocol: str = "strict"
    """The evaluation rule: strict, published or best-on-test."""
    seeds: tuple[int, ...] = (0,)
    """One replica for each seed: start, shuffle, negatives."""
    data_seed: int = 0
    """Drives what all replicas share: split, SVD."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    threads: int | None = None
    """CPU threads; unset: as many as torch takes."""
    memory_gib: float | None = None
    """Memory that large tables may take; unset: 80 % of what is free."""
    baselines: bool = True
    """Whether popular, svd and ease are judged beside the model."""
    checkpoint_seconds: float = 30.0
    """Seconds between two checkpoints, at least; they are written after evaluations. 0: after every one."""

    def __post_init__(self) -> None:
        with blaming("protocol"):
            find_protocol(self.protocol)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or not all(0 <= s < 2**63 for s in self.seeds):
            raise SettingsError(f"seeds must be distinct whole numbers from 0 to 2⁶³ − 1, got {self.seeds}")
        if not 0 <= self.data_seed < 2**63:
            raise SettingsError(f"data_seed must be a whole number from 0 to 2⁶³ − 1, got {self.data_seed}")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise SettingsError(f"threads must be from 1 to {MOST_THREADS:,}, got {self.threads}")
        if self.memory_gib is not None and not 0 < self.memory_gib < math.inf:
            raise SettingsError(f"memory_gib must be above 0, got {self.memory_gib:g}")
        if not 0 <= self.checkpoint_seconds < math.inf:
            raise SettingsError(f"checkpoint_seconds must be at least 0, got {self.checkpoint_seconds:g}")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One section for each stage; those that hold a part are chosen by its name."""

    data: DataSettings = field(default_factory=DataSettings)
    split: Any = None  # unset: a folder's own parts, or random 8:1:1
    positives: Any = field(default_factory=ObservedPositives)
    weighting: Any = field(default_factory=NoWeighting)
    negatives: Any = field(default_factory=UniformNegatives)
    denoiser: Any = field(default_factory=NoDenoising)
    model: Any = field(default_factory=MatrixFactorisation)
    start: Any = field(default_factory=XavierStart)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    run: RunSettings = field(default_factory=RunSettings)

    def __post_init__(self) -> None:
        with blaming("loss"):
            find_part("losses", self.training.loss)
        self._check_training_parts()
        self._check_company_of_denoiser()
        if self.evaluation.selects_by_loss and not find_protocol(self.run.protocol).needs_validation:
            raise SettingsError(
                f"[evaluation] select_by = {self.evaluation.select_by} is a loss on validation, and protocol "
                f"{self.run.protocol} has no validation part; use strict or published, or a metric such as recall@20"
            )

    def _check_training_parts(self) -> None:
        """Negatives and denoiser must suit the model and the loss."""
        for section, usual in (("negatives", UniformNegatives()), ("denoiser", NoDenoising())):
            part = getattr(self, section)
            name = part_name(PART_SECTIONS[section], part)
            # Models that train have vectors of a size.
            if not hasattr(self.model, "embedding_size") and part != usual:
                model = part_name("models", self.model)
                raise SettingsError(f"{model} has no training loop, so [{section}] {name} has no effect; leave it out")
            losses = getattr(part, "losses", ())  # empty: any
            if losses and self.training.loss not in losses:
                raise SettingsError(
                    f"loss must be {' or '.join(losses)} with [{section}] {name} as it is set, got "
                    f"{self.training.loss}; set --loss {losses[0]}"
                )

    def _check_company_of_denoiser(self) -> None:
        """Some denoisers exchange positives or look at negatives, which then must be items and no more."""
        if getattr(self.denoiser, "needs_items", False) and not getattr(self.negatives, "only_items", True):
            denoiser, negatives = part_name("denoisers", self.denoiser), part_name("negatives", self.negatives)
            raise SettingsError(
                f"[denoiser] {denoiser} needs negatives that are items, and [negatives] {negatives} as it is set gives "
                "vectors or losses; choose another sampler, such as uniform or dns"
            )

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Every section that is set and its keys, as a settings file would write them."""
        sections = {}
        for section in dataclasses.fields(self):
            value = getattr(self, section.name)
            if value is None:
                continue
            entries = dataclasses.asdict(value)
            if kind := PART_SECTIONS.get(section.name):
                entries = {"name": part_name(kind, value), **entries}
            sections[section.name] = entries
        return sections


PART_SECTIONS = {
    "split": "splits",
    "positives": "positives",
    "weighting": "weightings",
    "negatives": "negatives",
    "denoiser": "denoisers",
    "model": "models",
    "start": "starts",
}
"""Section → the kind of part it chooses."""
