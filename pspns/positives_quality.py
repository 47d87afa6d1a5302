"""How good positives are: accuracy and coverage, exact where the truth is known, else estimated from held-out pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pspns.data.interactions import Floats, Ids
from pspns.data.planted import PlantedWorld
from pspns.data.split import Split
from pspns.errors import DataError
from pspns.shapes import PositivePairs


@dataclass(frozen=True)
class Quality:
    """Acc = P(p ∈ D_u | p ∈ S_u⁺), pairs counted once for each copy, and Cov = P(p ∈ S_u⁺ | p ∈ D_u), once each.

    S_u⁺ are the positives of user u and D_u what u truly likes. The probabilities are over all pairs of all users.
    """

    accuracy: float | None  # None: nothing was injected, so there is nothing to estimate
    coverage: float
    is_exact: bool  # against a planted truth; otherwise see estimate_quality

    def words(self) -> str:
        """A sentence for the screen."""
        if self.is_exact:
            return (
                f"accuracy {_percent(self.accuracy)}, coverage {_percent(self.coverage)}: exact, the truth is planted"
            )
        accuracy = "" if self.accuracy is None else f"{_percent(self.accuracy)} of the injected pairs are held out; "
        return (
            f"estimated: {accuracy}{_percent(self.coverage)} of the held-out pairs are among the positives; a true "
            f"preference that nobody observed counts as wrong, so accuracy is at least this where held-out pairs are "
            f"true; this looks at held-out labels: for reports, never for choosing"
        )


def exact_quality(
    pairs: PositivePairs, user_ids: Ids, item_ids: Ids, world: PlantedWorld, weights: Floats | None = None
) -> Quality:
    """Against everything that the users of a planted world truly like, seen or not.

    With `weights` `[pairs]`, such as a denoiser gives, a pair counts that much in Acc, and in Cov that much of once.
    """
    users, items = user_ids[pairs.users], item_ids[pairs.items]
    counts = pairs.copies if weights is None else pairs.copies * weights
    return Quality(
        accuracy=world.accuracy(users, items, counts), coverage=world.coverage(users, items, weights), is_exact=True
    )


def estimate_quality(pairs: PositivePairs, split: Split) -> Quality:
    """Against the held-out pairs of the split that the positives were built from.

    Accuracy is that of the injected pairs alone: the share of their copies that are held out. It is too low, since a
    true preference that nobody observed counts as wrong. Coverage is the share of held-out pairs among the
    positives; those of users or items that train does not know are missed. Both look at held-out labels: they are
    for reports, never for choosing.
    """
    n_items = len(split.item_ids)
    held_out = np.concatenate([part.users * n_items + part.items for part in (split.valid, split.test)])
    if len(held_out) == 0:
        raise DataError("there are no held-out pairs, so the quality of positives cannot be estimated from them")
    built = pairs.users * n_items + pairs.items
    is_injected = ~pairs.is_observed
    copies = pairs.copies[is_injected].astype(np.int64)
    is_held_out = np.isin(built[is_injected], held_out)
    return Quality(
        accuracy=float(copies[is_held_out].sum() / copies.sum()) if len(copies) else None,
        coverage=float(np.isin(held_out, built).mean()),
        is_exact=False,
    )


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"
