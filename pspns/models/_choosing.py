"""Choosing one setting of a model without a training loop on validation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from pspns.errors import SettingsError
from pspns.evaluation.selection import is_better
from pspns.shapes import Fitted, Scorer

if TYPE_CHECKING:
    from pspns.training.trainer import Trainer

T = TypeVar("T", int, float)


def best_on_validation(name: str, candidates: Iterable[tuple[T, Scorer]], trainer: Trainer) -> Fitted:
    """The candidate that is best on validation, by what selects; the first of equals."""
    if trainer.validate is None:
        raise SettingsError(
            f"[model] {name} is chosen on validation unless it is set, and there is no validation part; "
            f"set --model.{name}"
        )
    best: tuple[float, T, Scorer] | None = None
    for value, scorer in candidates:
        found = trainer.validate(scorer, 0)[trainer.select_by]
        if best is None or is_better(trainer.select_by, found, best[0]):
            best = (found, value, scorer)
    assert best is not None
    return Fitted(scorer=best[2], chosen={name: best[1]})
