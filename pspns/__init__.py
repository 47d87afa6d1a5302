"""Train recommenders from clicks, plays and purchases, and learn the truth about what helps on your data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pspns.api import build_positives, evaluate, fit, load, open_model, tune

__all__ = ["__version__", "build_positives", "evaluate", "fit", "load", "open_model", "tune"]


def __getattr__(name: str) -> Any:
    # Importing the package must be quick and must not need what only the edges need (polars, pydantic).
    if name in __all__:
        from pspns import api

        return getattr(api, name)
    raise AttributeError(f"module 'pspns' has no attribute '{name}'")
