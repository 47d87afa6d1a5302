"""How well people are served who are folded in from their items, beside the same people as trained.

    python -m benchmarks.folding_in demo/mf/plain

Takes a run's folder and prints the validation metric that chose its model, for the users' own vectors and for those
made of their train items (docs/decisions/0010).
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from pspns.api import open_model
from pspns.evaluation.protocol import STRICT
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct
from pspns.run import prepare_rankings
from pspns.settings import Settings


def main(folder: Path) -> None:
    model = open_model(folder)
    split, scorer, replica = model.split, model.scorer, model.replica
    if not isinstance(scorer, DotProduct):
        sys.exit(f"{folder}: only models of user and item vectors can be compared so")
    settings = Settings()
    rankings = prepare_rankings(split, settings, STRICT, model.positives, MemoryBudget(torch.device("cpu")))
    assert rankings.valid is not None
    matrix = split.train.matrix(split.n_users, split.n_items)
    folded = torch.from_numpy(matrix @ scorer.fold[:, replica].numpy())[:, None]
    one = DotProduct(folded, scorer.items[:, replica : replica + 1])
    for name, found in (
        ("trained", rankings.valid.judge(scorer, replica)),
        ("folded in", rankings.valid.judge(one, 0)),
    ):
        print(f"{name}: validation {settings.evaluation.select_by} {100 * found.overall['recall@20']:.2f} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
