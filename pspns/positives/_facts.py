"""What was built, in numbers and in words."""

from __future__ import annotations

from typing import Any

from pspns.positives._proposals import GlobalPattern
from pspns.shapes import World
from pspns.sorted_keys import distinct
from pspns.spectral import OVERSAMPLING, POWER_PASSES, is_exact


def describe_positives(world: World, builder: Any) -> dict[str, Any]:
    """Counts of the pairs, how the SVD was made and how far two of its seeds agree, and the users' weights."""
    pairs = world.pairs
    # Of users with pairs; a weight may be 0 all the same, where it is too small for float32.
    weights = world.user_weights[distinct(pairs.users)]
    facts: dict[str, Any] = {
        "pairs": len(pairs),
        "visits_an_epoch": pairs.n_visits,
        "observed": int(pairs.is_observed.sum()),
        "agreed": int(pairs.is_agreed.sum()),
        "injected": int((~pairs.is_observed).sum()),
        "observed_left_out": len(world.train) - int(pairs.is_observed.sum()),
        "dropped_because_held_out": world.n_dropped,
        "user_weights": {
            "mean": float(weights.mean(dtype="float64")),
            "least": float(weights.min()),
            "most": float(weights.max()),
        },
    }
    if isinstance(builder, GlobalPattern):
        exact = is_exact((world.n_users, world.n_items), exact=builder.exact)
        facts["svd"] = {
            "rank": builder.rank,
            "computed_rank": world.svd.computed_rank(world, builder.rank, exact=builder.exact),
            "exact": exact,
            "oversampling": None if exact else OVERSAMPLING,
            "power_passes": None if exact else POWER_PASSES,
            "seed_agreement": builder.seed_agreement(world, pairs),
        }
    return facts


def positives_words(facts: dict[str, Any]) -> str:
    """One line for the screen."""
    text = f"positives: {facts['pairs']:,} pairs, {facts['visits_an_epoch']:,} visits an epoch"
    if "svd" in facts:
        text += (
            f"; {facts['agreed']:,} agreed, {facts['injected']:,} injected, "
            f"{facts['dropped_because_held_out']:,} dropped because held out; "
            f"two seeds of the SVD share {100 * facts['svd']['seed_agreement']:.1f} % of their proposals"
        )
    return text
