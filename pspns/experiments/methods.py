"""The methods that experiments compare, by name: those of the paper, with the parts it builds them of, and our own."""

from __future__ import annotations

from pspns.components import find_part
from pspns.errors import unknown_name
from pspns.experiments import published
from pspns.experiments._members import Tables, recipe

OURS = ("recommended",)
# What these build is observed already, so that dropping held-out pairs takes nothing from them.
BUILDS_NOTHING_NEW = ("observed", "repeated", "agreement")


def method_names() -> tuple[str, ...]:
    """The paper's in its order, then ours."""
    return (*published.methods(), *OURS)


def method_tables(name: str) -> Tables:
    """The settings that make the method what it is; parts are at their defaults, which are the authors'.

    >>> method_tables("psp-ns")["positives"], method_tables("deca")["training"]
    ({'name': 'psp'}, {'loss': 'bce'})
    """
    if name in OURS:
        return recipe(name)
    if name not in published.methods():
        raise unknown_name("method", name, method_names())
    parts = published.methods()[name].parts
    tables: Tables = {section: {"name": part} for section, part in parts.items()}
    losses = getattr(find_part("denoisers", parts["denoiser"]), "losses", ())
    return tables if not losses or "bpr" in losses else {**tables, "training": {"loss": losses[0]}}


def method_words(name: str) -> str:
    """As the paper calls it; ours by their own names."""
    return published.methods()[name].paper if name in published.methods() else name


def builds_pairs(name: str) -> bool:
    """Whether it trains on pairs that nobody observed. If not, `published` is `strict` under mask `train`."""
    return method_tables(name)["positives"]["name"] not in BUILDS_NOTHING_NEW
