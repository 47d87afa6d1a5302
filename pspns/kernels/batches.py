"""The pairs that a batch visits, looked up in one loop."""

from __future__ import annotations

import numpy as np

from pspns.kernels._compiled import on_one_thread


@on_one_thread
def look_up(  # type: ignore[no-untyped-def]
    visits,
    first_visits,
    pairs_before,
    users,
    items,
    weights,
    visits_up_to,
    of_users,
    of_items,
    pair_ids,
    of_weights,
    live,
):
    """Fill the last five, `[replicas, rows]` each, for the `visits`, −1 being a dead row, filled with the first visit.

    Visit v belongs to the first pair whose running total `visits_up_to` exceeds v; where that is empty, to pair v.
    """
    n_replicas, n_rows = visits.shape
    for replica in range(n_replicas):
        for row in range(n_rows):
            visit = visits[replica, row]
            live[replica, row] = visit >= 0
            visit = visit if visit >= 0 else first_visits[replica, 0]
            pair = visit
            if len(visits_up_to):
                pair = np.searchsorted(visits_up_to, visit, side="right")
            of_users[replica, row], of_items[replica, row] = users[pair], items[pair]
            of_weights[replica, row] = weights[pair]
            pair_ids[replica, row] = pair - pairs_before[replica, 0]
