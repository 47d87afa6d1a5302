"""What a reader of the reproduction must know first: which paper, what it proposes, and what the names mean."""

from __future__ import annotations

from collections.abc import Mapping

from pspns.experiments import published

METHOD = (
    "PSP-NS constructs *positive sample pairs*. An SVD of the interactions proposes to each user as many items as the "
    "user has already; observed and proposed pairs together are what a recommender is trained on; pairs that are both "
    "come several times; and users with few interactions count more. Negatives may come from any sampler."
)
RULES = (
    "Figures stand under two rules, and each says which. Under `strict` everything is built from train, and train and "
    "validation are left out of the test's ranking, as for any recommender. Under `published` train is left out, and "
    "what PSP-NS constructed unless it is held out: so an item that the SVD proposes stays in the ranking only if the "
    "user did choose it. Trained methods that construct nothing have train alone left out, and validation pairs stay "
    "in the ranking; popular, svd and EASE are ranked as PSP-NS is. The paper does not state its rule; of those tried "
    "this one brings its figures back."
)
NAMES: Mapping[str, str] = {
    "RNS": "uniform random negatives, plain training",
    "DNS, DNS(M,N), MixGCF, AHNS": "samplers of harder negatives",
    "T-CE, R-CE, DeCA, DCF, PLD": "denoisers, which doubt observed pairs",
    "1-hop, SVD-hop, W-hop": "observed pairs alone, proposed ones alone, both",
    "W-hop-lw": "both, agreed ones with a weight in the loss",
    "W-ew": "both, agreed ones with copies: PSP-NS without user weights",
    "ISW, EDW, CRW": "PSP-NS with other user weights",
    "popular, svd, EASE": "models that need no training loop",
    "recommended": "our recipe: starts from the SVD, copies agreed observed pairs, weights users, adds nothing",
    "planted-clustered, planted-low-rank, planted-unstructured": "generated data whose true pairs are known",
}
"""Names as tables have them → what they stand for."""


def introduction() -> tuple[str, ...]:
    """In three paragraphs; `*` and backticks are marks."""
    paper = published.paper()
    *others, last = paper["authors"]
    return f"The paper: {', '.join(others)} and {last}, *{paper['title']}*.", METHOD, RULES


def names_words() -> str:
    """The names in one paragraph."""
    return f"Names: {'; '.join(f'*{name}*: {meaning}' for name, meaning in NAMES.items())}."
