"""Triton kernels for what a training step does on the GPU; whatever is here has a plain form that tests hold it to."""

from importlib.util import find_spec


def are_there() -> bool:
    """Is Triton installed? It comes with torch for CUDA, though not on every system."""
    return find_spec("triton") is not None
