"""What each user was given, small enough for a record: hits among 20, from which intervals and tests follow."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pspns.data.interactions import Floats, Ints
from pspns.evaluation.ranking import Ranked
from pspns.run import Judged, Run

K = 20


def describe_users(run: Run) -> dict[str, Any]:
    """Held-out items of each user of the test, in the order of user numbers, and hits summed over seeds: under the
    protocol's mask and under the others."""
    ranking = run.rankings.test
    if ranking is None:
        return {}
    return {
        "held_out": pack(ranking.n_held_out),
        **_hits(run.model),
        "baselines": {judged.name: _hits(judged) for judged in run.baselines},
    }


def recalls(users: dict[str, Any], hits: str, n_seeds: int) -> Floats:
    """Recall@20 of each user, the mean over seeds; `hits` is packed."""
    return unpack(hits) / (n_seeds * unpack(users["held_out"]))


def precisions(users: dict[str, Any], hits: str, n_seeds: int) -> Floats:
    """Precision@20 of each user, the mean over seeds; `hits` is packed."""
    return unpack(hits) / (n_seeds * K)


METRICS = {f"recall@{K}": recalls, f"precision@{K}": precisions}


def pack(counts: Ints) -> str:
    """Whole numbers from 0 to 65,535 as text.

    >>> unpack(pack(np.array([3, 0, 65535]))).tolist()
    [3, 0, 65535]
    """
    if len(counts) and not 0 <= counts.min() <= counts.max() < 2**16:
        raise ValueError(f"counts must be from 0 to 65,535, got {counts.min()} to {counts.max()}")
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode()


def unpack(text: str) -> Ints:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2").astype(np.int64)


def _hits(judged: Judged) -> dict[str, Any]:
    return {
        "hits": _summed(judged.test),
        "hits_other_masks": {mask: _summed(ranked) for mask, ranked in judged.test_other_masks.items()},
    }


def _summed(replicas: Sequence[Ranked]) -> str:
    counts = [np.rint(K * replica.per_user[f"precision@{K}"]).astype(np.int64) for replica in replicas]
    return pack(np.sum(counts, axis=0))
