"""Adam for what a denoiser learns beside the model: each replica may take a step or sit it out."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pspns.shapes import State

# Those of torch's own Adam, which cannot leave a replica as it is: it would drift on by its momentum.
BETAS = 0.9, 0.999
EPSILON = 1e-8


class ReplicaAdam:
    """Changes its tables in place; `replica_axis` is where the replicas lie in each of them."""

    def __init__(self, tables: Mapping[str, Tensor], learning_rate: float, replica_axis: int = 0):
        self.tables = dict(tables)
        self._learning_rate, self._axis = learning_rate, replica_axis
        self._moments = {
            name: [torch.zeros_like(table), torch.zeros_like(table)] for name, table in self.tables.items()
        }
        self._steps = {
            name: torch.zeros(table.shape[replica_axis], dtype=torch.int64, device=table.device)
            for name, table in self.tables.items()
        }

    @torch.no_grad()
    def step(self, name: str, gradient: Tensor, takes_part: Tensor) -> None:
        """One step of one table, for the replicas of which `takes_part` `[replicas]` is true."""
        table, steps = self.tables[name], self._steps[name]
        steps += takes_part.long()
        is_moved = self._spread(takes_part, table)
        for moment, beta, news in zip(self._moments[name], BETAS, (gradient, gradient.square()), strict=True):
            moment.copy_(torch.where(is_moved, beta * moment + (1 - beta) * news, moment))
        first, second = (
            moment / self._spread((1 - beta ** steps.clamp_min(1).double()).float(), table)
            for moment, beta in zip(self._moments[name], BETAS, strict=True)
        )
        table.copy_(torch.where(is_moved, table - self._learning_rate * first / (second.sqrt() + EPSILON), table))

    def _spread(self, of_replicas: Tensor, table: Tensor) -> Tensor:
        return of_replicas.view(*(len(of_replicas) if axis == self._axis else 1 for axis in range(table.dim())))

    def keep(self, replicas: Tensor) -> None:
        """Only these replicas go on (indices into the present ones)."""
        self.tables = {name: table.index_select(self._axis, replicas) for name, table in self.tables.items()}
        self._moments = {
            name: [moment.index_select(self._axis, replicas) for moment in moments]
            for name, moments in self._moments.items()
        }
        self._steps = {name: steps[replicas] for name, steps in self._steps.items()}

    def state(self) -> State:
        """Copies."""
        found: State = {}
        for name, table in self.tables.items():
            first, second = self._moments[name]
            of_table = {"table": table, "first": first, "second": second, "steps": self._steps[name]}
            found |= {f"{name}/{key}": values.clone() for key, values in of_table.items()}
        return found

    def load_state(self, state: State) -> None:
        for name in self.tables:
            self.tables[name] = state[f"{name}/table"].clone()
            self._moments[name] = [state[f"{name}/first"].clone(), state[f"{name}/second"].clone()]
            self._steps[name] = state[f"{name}/steps"].clone()
