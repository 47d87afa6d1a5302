"""How much harm false positives do, and who withstands them: denoisers and recipes with noise added to train.

The share is `--noise`. Where nothing is built, `published` trains as `strict` does and differs by the mask `train`
alone, which every record has; so only `paper` is trained under it, too.
"""

from __future__ import annotations

from pspns.experiments._members import Tables, changed, recipe
from pspns.experiments.denoisers import with_its_loss


def members() -> dict[str, Tables]:
    paper = recipe("paper")
    compared: dict[str, Tables] = {
        "plain": recipe("plain"),
        "paper": paper,
        "paper (published)": changed(paper, {"run": {"protocol": "published"}}),
        "recommended": recipe("recommended"),
        **{name: changed(recipe("plain"), chosen) for name, chosen in with_its_loss().items() if name != "none"},
    }
    # What is judged beside plain training would be the same beside all others.
    return {name: changed(tables, {"run": {"baselines": name == "plain"}}) for name, tables in compared.items()}
