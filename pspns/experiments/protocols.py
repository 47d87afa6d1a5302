"""The paper's claim under two rules: plain training and PSP-NS as published, under `strict` and under `published`."""

from __future__ import annotations

from pspns.experiments._members import Tables, changed, recipe


def members() -> dict[str, Tables]:
    paper = recipe("paper")
    return {
        "plain": recipe("plain"),
        "paper": changed(paper, {"run": {"baselines": False}}),
        "paper, published": changed(paper, {"run": {"protocol": "published"}}),
    }
