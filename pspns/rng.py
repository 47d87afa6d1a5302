"""Randomness: one seed, split into named streams that never disturb each other.

Two forms, both functions of (seed, name) alone:

* `host_stream` is a numpy generator for what is drawn once: splits, starting embeddings.
* `ReplicaStream` serves the training loop. Its numbers are a hash of (seed, name, call, position), so they
  are the same on every device, for a replica alone and in company, and after a resume: the number of calls
  made so far is its whole state.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def host_stream(seed: int, name: str) -> np.random.Generator:
    """A numpy generator for `name`; adding a name changes no other stream.

    >>> bool(host_stream(0, "split").random() == host_stream(0, "start").random())
    False
    """
    return np.random.default_rng([seed, _number(name) % 2**63])


class ReplicaStream:
    """Device numbers for a set of replicas, one independent stream for each seed."""

    def __init__(self, seeds: Sequence[int], name: str, device: torch.device | str = "cpu"):
        keys = [_number(f"{name}/{seed}") for seed in seeds]
        self._keys = torch.tensor(keys, dtype=torch.int64, device=device)
        # On the device, so that a step recorded there once and replayed draws new numbers every time.
        self._calls = torch.zeros((), dtype=torch.int64, device=device)

    @property
    def calls(self) -> int:
        """How often numbers were asked for: all that a resume needs to restore."""
        return int(self._calls)

    @calls.setter
    def calls(self, calls: int) -> None:
        self._calls.fill_(calls)

    def state(self) -> dict[str, Tensor]:
        return {"calls": self._calls.clone()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._calls.copy_(state["calls"])

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        self._keys = self._keys[replicas]

    def bits(self, *shape: int) -> Tensor:
        """64 random bits each, int64 `[replicas, *shape]`."""
        positions = torch.arange(math.prod(shape), device=self._keys.device)
        # Each call has a key of its own, each position a place in that key's SplitMix64 sequence.
        call_keys = _mix(self._keys + self._calls * _GOLDEN)
        self.count_call()
        return _mix(call_keys[:, None] + (positions + 1) * _GOLDEN).view(-1, *shape)

    def fractions(self, *shape: int) -> Tensor:
        """Numbers from [0, 1), float64 `[replicas, *shape]`, all 53 bits of them random."""
        return _shift_right(self.bits(*shape), 11).double() * 2.0**-53

    @property
    def keys_and_calls(self) -> tuple[Tensor, Tensor]:
        """All that the numbers of the next call are made of, for kernels that make them; `count_call` afterwards."""
        return self._keys, self._calls

    def count_call(self) -> None:
        self._calls += 1

    def integers(self, below: Tensor, n: int = 1) -> Tensor:
        """`n` whole numbers, each uniform on [0, below); `[*below.shape, n]`, `below` being `[replicas, rows]`.

        The share of one value differs from another's by at most below / 2³².
        """
        draws = self.bits(below.shape[1], n)
        return (_shift_right(draws, 32) * below[..., None]) >> 32

    def order(self, n: int) -> Tensor:
        """A random order of n things for each replica, `[replicas, n]`."""
        # No two bits are alike, so there is one order.
        if self._keys.is_cuda:
            return self.bits(n).argsort(dim=-1)
        from pspns.kernels.draws import fill_with_bits  # waits for numba, which a GPU does not need

        bits = np.empty((len(self._keys), n), dtype=np.int64)
        fill_with_bits(self._keys.numpy(), int(self._calls), bits)
        self.count_call()
        return torch.from_numpy(np.argsort(bits, axis=-1))  # five times as fast as torch


# SplitMix64 (Steele, Lea, Flood 2014): the step of its counter and the two multipliers of its finaliser.
# Torch has no unsigned 64-bit arithmetic: products wrap as they should, right shifts must clear the sign.


def _wrap(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


_GOLDEN = _wrap(0x9E3779B97F4A7C15)
_MULTIPLY_1 = _wrap(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = _wrap(0x94D049BB133111EB)


def _shift_right(x: Tensor, places: int) -> Tensor:
    return (x >> places) & ((1 << (64 - places)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _MULTIPLY_1
    x = (x ^ _shift_right(x, 27)) * _MULTIPLY_2
    return x ^ _shift_right(x, 31)


def _number(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return _wrap(int.from_bytes(digest, "little"))
