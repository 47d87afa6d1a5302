"""The methods that experiments compare, by name: those of the paper, with the parts it builds them of, and our own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pspns.components import find_part, part_names
from pspns.errors import unknown_name
from pspns.experiments import published
from pspns.experiments._members import Tables, recipe

OURS = ("recommended",)
"""Recipes."""
PSP_NS = "psp-ns"
# What these build is observed already, so that dropping held-out pairs takes nothing from them.
BUILDS_NOTHING_NEW = ("observed", "repeated", "agreement")


def method_names() -> tuple[str, ...]:
    """The paper's in its order, then ours."""
    return (*_parts(), *OURS)


def method_tables(name: str) -> Tables:
    """The settings that make the method what it is; parts are at their defaults, which are the authors'.

    >>> method_tables("psp-ns")["positives"], method_tables("deca")["training"]
    ({'name': 'psp'}, {'loss': 'bce'})
    """
    if name in OURS:
        return recipe(name)
    if name not in _parts():
        raise unknown_name("method", name, method_names())
    parts = _parts()[name]
    tables: Tables = {section: {"name": part} for section, part in parts.items()}
    losses = getattr(find_part("denoisers", parts["denoiser"]), "losses", ())
    return tables if not losses or "bpr" in losses else {**tables, "training": {"loss": losses[0]}}


def method_words(name: str) -> str:
    """As the paper calls it; ours by their own names.

    >>> method_words("dns-m-n"), method_words("dns-m-n-psp"), method_words("recommended")
    ('DNS(M,N)', 'DNS(M,N)-PSP', 'recommended')
    """
    if name in published.methods():
        return published.methods()[name].paper
    sampler = name.removesuffix("-psp")
    return f"{published.methods()[sampler].paper}-PSP" if sampler in published.methods() and sampler != name else name


def trained_as(name: str) -> str:
    """Of methods that are made of the same parts the first one, so that they are trained once.

    >>> trained_as("observed"), trained_as("psp")
    ('uniform', 'psp')
    """
    parts = _parts().get(name)
    return next((other for other in _parts() if _parts()[other] == parts), name)


def builds_pairs(name: str) -> bool:
    """Whether it trains on pairs that nobody observed. If not, `published` is `strict` under mask `train`."""
    return method_tables(name)["positives"]["name"] not in BUILDS_NOTHING_NEW


def with_psp(sampler: str) -> str:
    """The method that has this sampler and PSP-NS's pairs and weights.

    >>> with_psp("dns"), with_psp("uniform")
    ('dns-psp', 'psp-ns')
    """
    return PSP_NS if published.methods()[PSP_NS].parts["negatives"] == sampler else f"{sampler}-psp"


@cache
def _parts() -> Mapping[str, Mapping[str, str]]:
    """Method → its parts: the paper's, and every other sampler alone and with PSP-NS's pairs and weights."""
    found = {name: method.parts for name, method in published.methods().items()}
    for sampler in part_names("negatives"):
        for name, parts in ((sampler, published.PLAIN), (with_psp(sampler), found[PSP_NS])):
            found.setdefault(name, {**parts, "negatives": sampler})
    return found
