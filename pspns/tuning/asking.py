"""Which values to try next, asked of optuna's tree-structured Parzen estimator (Bergstra et al. 2011)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pspns.errors import SettingsError
from pspns.search_space import Choices, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

RANDOM_BEFORE = 10
"""A round is drawn at random while fewer trials than these have finished."""

Finished = tuple[dict[str, Any], float | None]
"""The values of a trial and how good it was; None for one that failed."""


def find_optuna() -> ModuleType:
    """The library, which not every install has."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise SettingsError(f"tuning needs {error.name}, which is not installed; pip install 'pspns[tune]'") from error
    return optuna


def ask(space: Space, finished: Sequence[Finished], count: int, seed: int) -> list[dict[str, Any]]:
    """Values for the next `count` trials, setting → value.

    They follow from the arguments alone: the library's memory of a study is made anew each time, from the trials that
    have finished. Until ten have, all are drawn at random, however many are asked for at once; later ones follow what
    was found, and those that are asked for at once keep apart.
    """
    optuna = find_optuna()
    distributions = {name: _distribution(optuna, values) for name, values in space.items()}
    with _quiet(optuna):
        sampler = optuna.samplers.TPESampler(n_startup_trials=RANDOM_BEFORE, seed=seed)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for values, value in finished:
            # A failed trial counts as worse than any other; optuna's own state for failures would leave it out, and
            # the search would come back to where it failed.
            state = optuna.trial.TrialState.PRUNED if value is None else optuna.trial.TrialState.COMPLETE
            study.add_trial(
                optuna.trial.create_trial(state=state, value=value, params=values, distributions=distributions)
            )
        asked = [study.ask(distributions).params for _ in range(count)]
    return [{name: values[name] for name in space} for values in asked]


def _distribution(optuna: ModuleType, values: Any) -> BaseDistribution:
    kinds = optuna.distributions
    if isinstance(values, Choices):
        found = kinds.CategoricalDistribution(values.values)
    else:
        kind = kinds.IntDistribution if values.whole else kinds.FloatDistribution
        found = kind(values.low, values.high, log=values.log)
    return found  # type: ignore[no-any-return]


@contextmanager
def _quiet(optuna: ModuleType) -> Iterator[None]:
    """It tells of every study that is made."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
