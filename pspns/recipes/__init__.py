"""Named bundles of settings, one TOML file each; the comment in a file's first line says what it is."""

from __future__ import annotations

from importlib import resources


def recipe_names() -> list[str]:
    files = resources.files("pspns.recipes").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def recipe_text(name: str) -> str:
    return resources.files("pspns.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8")
