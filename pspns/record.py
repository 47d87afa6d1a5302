"""A run as plain values, ready for JSON: what was run, on what, how well it did, how long it took."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
import torch

import pspns
from pspns.components import part_name
from pspns.data.interactions import Ints
from pspns.data.noise import describe_noise
from pspns.data.split import Split
from pspns.evaluation.groups import deciles, least_active
from pspns.evaluation.ranking import FullRanking, Ranked, mean_in_shards
from pspns.evaluation.selection import is_lower_better
from pspns.run import Judged, Run
from pspns.sorted_keys import are_in
from pspns.spectral import EXACT_UP_TO, OVERSAMPLING, POWER_PASSES


def describe_run(run: Run) -> dict[str, Any]:
    """The content of `result.json`."""
    split = run.split
    chooser = run.model.valid if run.protocol.select_on == "valid" else run.model.test
    return {
        "protocol": {
            "name": run.protocol.name,
            "meaning": run.protocol.meaning,
            "warning": run.protocol.warning,
            "mask_valid": str(run.protocol.mask_valid),
            "mask_test": str(run.protocol.mask_test),
            "select_on": run.protocol.select_on,
        },
        "model": run.model.name,
        "data": describe_data(split, run.settings.data.source),
        "noise": describe_noise(split, run.settings.data.noise),
        "evaluated": _evaluated(run),
        "positives": run.positives_facts,
        "seeds": list(run.settings.run.seeds),
        "served_replica": served_replica(chooser, run.settings.evaluation.select_by),
        **_figures(run.model),
        "denoiser": describe_denoiser(run),
        "groups": _groups(run),
        "baselines": {judged.name: _figures(judged) for judged in run.baselines},
        "baselines_left_out": run.left_out,
        "settings": run.settings.as_dict(),
        "svd": {"oversampling": OVERSAMPLING, "power_passes": POWER_PASSES, "exact_up_to": EXACT_UP_TO},
        "replicas_in_loop": run.replicas_in_loop,
        "seconds": {stage: round(seconds, 3) for stage, seconds in run.seconds.items()},
        "versions": describe_versions(),
        "machine": describe_machine(run.device),
    }


def describe_data(split: Split, source: str | None) -> dict[str, Any]:
    """What was read, how it was split, and a fingerprint that only the same data have."""
    return {
        "source": source,
        "fingerprint": split.fingerprint(),
        "split": split.made_by,
        "users": split.n_users,
        "items": split.n_items,
        "held_out_only_users": len(split.user_ids) - split.n_users,
        "held_out_only_items": len(split.item_ids) - split.n_items,
        "train": len(split.train),
        "valid": len(split.valid),
        "test": len(split.test),
        "facts": list(split.facts),
    }


def describe_versions() -> dict[str, str]:
    return {
        "pspns": pspns.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "torch": torch.__version__,
    }


def describe_machine(device: torch.device) -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
    }


def served_replica(chooser: Sequence[Ranked], select_by: str) -> int:
    """The replica that was best on the part that chooses; the first where nothing chooses."""
    values = [ranked.overall[select_by] for ranked in chooser]
    if not values:
        return 0
    return int(np.argmin(values) if is_lower_better(select_by) else np.argmax(values))


def summarise(ranked: Sequence[Ranked]) -> dict[str, Any]:
    """metric@k → mean over seeds and each seed's value."""
    if not ranked:
        return {}
    per_seed = {name: [replica.overall[name] for replica in ranked] for name in ranked[0].overall}
    return {
        name: {"mean": float(np.mean(values)), "per_seed": values}
        for name, values in per_seed.items()
        if np.isfinite(values).all()  # lists that are all empty have no mean popularity
    }


def _figures(judged: Judged) -> dict[str, Any]:
    fitted = judged.fitted
    return {
        "valid": summarise(judged.valid),
        "test": summarise(judged.test),
        "test_other_masks": {mask: summarise(ranked) for mask, ranked in judged.test_other_masks.items()},
        "chosen_on_validation": fitted.chosen,
        "steps": fitted.steps,
        "best_step": fitted.best_steps,
    }


def describe_denoiser(run: Run) -> dict[str, Any]:
    """Which one it was, and for each seed the mean weight it left to pairs: all of them, and true and false ones where
    noise tells them apart. Empty where it left all of them as they are."""
    fitted = run.model.fitted
    looks = {look.step: look.kept for look in fitted.history}

    def kept_at(steps: Sequence[int]) -> list[dict[str, float]]:
        seeds = run.settings.run.seeds[: len(steps)]  # none without a training loop
        return [looks.get(step, {}).get(seed, {}) for seed, step in zip(seeds, steps, strict=True)]

    return {
        "name": part_name("denoisers", run.settings.denoiser),
        "kept_at_last_step": kept_at(fitted.steps),
        "kept_at_best_step": kept_at(fitted.best_steps),
    }


def _evaluated(run: Run) -> dict[str, dict[str, int]]:
    """Whom each part judges and, if something is chosen by it, which pairs the validation loss is of."""
    rankings = {"valid": run.rankings.valid, "test": run.rankings.test}
    found = {part: _who(ranking, run.split.n_users) for part, ranking in rankings.items() if ranking}
    if loss := run.rankings.valid_loss:
        found["valid"] |= {"pairs_of_loss": len(loss.pairs), "pairs_left_out_of_loss": loss.n_left_out}
    return found


def _who(ranking: FullRanking, n_users: int) -> dict[str, int]:
    return {
        "users": len(ranking.users),
        "users_without_held_out_items": n_users - int((ranking.users < n_users).sum()),
        "users_unknown_to_train": ranking.n_cold,
    }


def _groups(run: Run) -> dict[str, Any]:
    """Test figures of the least active users and of each tenth of the users by activity, mean over seeds."""
    ranking = run.rankings.test
    if ranking is None:
        return {}
    train_counts = np.bincount(run.split.clean_train.users, minlength=run.split.n_users)
    n_inactive = run.settings.evaluation.inactive
    members = {}
    if 0 < n_inactive < run.split.n_users:
        members[f"least_active_{n_inactive}"] = least_active(train_counts, n_inactive)
    tenth = deciles(train_counts)
    members |= {f"decile_{number + 1}": np.flatnonzero(tenth == number) for number in range(10)}
    return {
        name: {
            "users": int(are_in(ranking.users, users).sum()),
            "mean_train_pairs": float(train_counts[users].mean()) if len(users) else 0.0,
            "test": _means(run.model.test, ranking, users),
        }
        for name, users in members.items()
    }


def _means(replicas: Sequence[Ranked], ranking: FullRanking, users: Ints) -> dict[str, float]:
    """metric@k → mean over these users, then over seeds; empty if none of them has held-out items."""
    inside = are_in(ranking.users, users)
    if not inside.any():
        return {}
    judged = ranking.users[inside]
    return {
        metric: float(np.mean([mean_in_shards(replica.per_user[metric][inside], judged) for replica in replicas]))
        for metric in replicas[0].per_user
    }
