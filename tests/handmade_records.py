"""Records made by hand: of a cell as small as they can be, with the figures that a test wants."""

import numpy as np

from pspns.experiments.cells import Cell
from pspns.experiments.user_hits import pack

METRICS = ("recall@20", "precision@20", "recall@30", "precision@30", "ndcg@20")


def figures(values):
    """Every metric alike, or those that are given; a list is one value for each seed."""
    given = values if isinstance(values, dict) else dict.fromkeys(METRICS, values)
    seeds = {metric: [value] * 3 if isinstance(value, float) else list(value) for metric, value in given.items()}
    return {metric: {"mean": float(np.mean(each)), "per_seed": each} for metric, each in seeds.items()}


def make_record(
    test,
    *,
    valid=None,
    masked=None,
    inactive=None,
    hits=None,
    baselines=None,
    fingerprint="same",
    limit=100,
    steps=None,
):
    """`test`, `valid` and `masked` (the test under mask train), the latter two the same if unset, as `figures` takes
    them; `inactive`: metric → value of a tenth of 1,000 users; `hits`: those of each user, of one held-out item and
    three seeds; `steps`: to be trained, whatever validation says."""
    record = {
        "valid": figures(test if valid is None else valid),
        "test": figures(test),
        "test_other_masks": {"train": figures(test if masked is None else masked)},
        "baselines": {},
        "groups": {},
        "evaluated": {"test": {"users": 1000}},
        "settings": {"training": {"steps": steps, "max_steps": limit}, "evaluation": {"inactive": 100}},
        "steps": [50, 50, 50],
        "data": {"fingerprint": fingerprint, "users": 1000, "items": 500},
        "machine": {"device": "cpu"},
    }
    if inactive:
        record["groups"]["least_active_100"] = {"users": 100, "mean_train_pairs": 2.0, "test": inactive}
    for name, values in (baselines or {}).items():
        record["baselines"][name] = {"test": figures(values), "test_other_masks": {"train": figures(values)}}
    if hits is not None:
        packed = {"hits": pack(np.asarray(hits)), "hits_other_masks": {"train": pack(np.asarray(hits))}}
        of_baselines = {name: {"hits": packed["hits"], "hits_other_masks": {}} for name in record["baselines"]}
        record["users"] = {"held_out": pack(np.ones(len(hits), np.int64)), **packed, "baselines": of_baselines}
    return record


def put(records, method, test, *, data="ml-1m", model="lightgcn", protocol="strict", changes=(), **others):
    """Write the record of a cell, and give its name."""
    cell = Cell(data, model, method, protocol, changes)
    records.write(cell.name, make_record(test, **others))
    return cell.name
