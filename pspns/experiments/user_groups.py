"""Groups of users by activity, as a record has them: the least active, the others, and ten of equal size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pspns.experiments.records import Seen

INACTIVE, OTHER = "inactive", "other"
N_TENTHS = 10


@dataclass(frozen=True)
class Group:
    """Those of the test; their figures are means over users, then over seeds, as shares."""

    users: int
    figures: Mapping[str, float]
    mean_train_pairs: float | None = None  # of the others it is not kept


def groups(seen: Seen) -> dict[str, Group]:
    """The least active and all others, under the names that the paper's tables have; none where nobody is judged apart.

    A record has groups of its model under its own mask alone.
    """
    if seen.mask or seen.baseline:
        return {}
    kept = next((group for name, group in seen.record["groups"].items() if name.startswith("least_active_")), None)
    n_all = seen.record["evaluated"]["test"]["users"]
    if kept is None or not 0 < kept["users"] < n_all:
        return {}
    inactive = Group(kept["users"], kept["test"], kept["mean_train_pairs"])
    n_others = n_all - inactive.users
    # The mean over all is that of both, weighted by their sizes.
    others = {
        metric: (n_all * seen.mean(metric) - inactive.users * mean) / n_others for metric, mean in kept["test"].items()
    }
    return {INACTIVE: inactive, OTHER: Group(n_others, others)}


def tenths(seen: Seen) -> list[Group]:
    """The least active first; users without a train pair are in none of them."""
    if seen.mask or seen.baseline:
        return []
    kept = [seen.record["groups"].get(f"decile_{number + 1}") for number in range(N_TENTHS)]
    return [Group(group["users"], group["test"], group["mean_train_pairs"]) for group in kept if group]
