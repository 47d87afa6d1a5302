"""What DeCA and DeCA(p) have in common: the likelihood of noisy labels, and how far two models agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from pspns.denoising._denoising import Denoising
from pspns.needed_bytes import StepSizes
from pspns.rng import host_stream
from pspns.search_space import Choices, Space
from pspns.setting_checks import check_above_zero, check_choice, check_least, check_share
from pspns.shapes import DenoisedWorld, JudgedRows, ScoredRows, State, World, take
from pspns.training.replica_adam import ReplicaAdam

EPSILON = 1e-5  # added before every logarithm
START_SPREAD = 0.1  # of what is learned beside the model

Blind = Literal["never", "first-step", "always"]


@dataclass(frozen=True, kw_only=True)
class AgreementSettings:
    c1: float = 1.0
    """What it costs to like a negative while positives are doubted (C₁). The published program begins with 1,000, and
    its authors chose from 1 to 1,000 for each data set; where C₁ is far above C₂, hardly anything is liked any more."""
    c2: float = 1.0
    """What it costs not to like a positive while negatives are doubted (C₂); 10 in the published program."""
    alpha: float = 1.0
    """Which way round the two models are compared (α): 1 is KL(g‖f), 0 is KL(f‖g)."""
    size: int = 32
    """Length of the vectors of g, h and h′."""
    learning_rate: float = 1e-3
    """Step size of their Adam."""
    blind: Blind = "never"
    """In which steps both are doubted at once and positives are taken for negatives (log(1 − h) for both): the
    published code does so in the first step, and with one of its settings always."""

    losses: ClassVar[tuple[str, ...]] = ("bce",)
    needs_items: ClassVar[bool] = True
    search: ClassVar[Space] = {
        "c1": Choices((1.0, 10.0, 100.0, 1000.0)),
        "c2": Choices((1.0, 10.0, 100.0, 1000.0)),
        "alpha": Choices((0.0, 0.5, 1.0)),
    }

    def __post_init__(self) -> None:
        check_least(self, c1=0, c2=0, size=1)
        check_share(self, "alpha")
        check_above_zero(self, "learning_rate")
        check_choice(self, "blind", Blind)

    def _models_bytes(self, n_models: int, world: World, sizes: StepSizes) -> int:
        """What so many models of its own need: each with its gradient and Adam's moments."""
        of_tables = sizes.of_nodes(world.n_users + world.n_items, 4 * 4 * self.size * n_models)
        # One after the other: of each row a user's and two items' vectors and what is made of them; what Adam makes of
        # one table at a time.
        of_rows = sizes.of_rows(5 * 4 * self.size * n_models + 200)
        return of_tables + max(of_rows, sizes.of_nodes(max(world.n_users, world.n_items), 6 * 4 * self.size))


class Agreement(Denoising):
    """Base of both; what is left to write is `_other_logits`, the second opinion g.

    h(u, i) = P(observed | not liked) and h′(u, i) = P(observed | liked) are matrix factorisations. Steps take turns:
    in even ones positives are doubted and h is learned, in odd ones negatives are doubted and h′ is learned.
    """

    def __init__(self, world: DenoisedWorld, seeds: Sequence[int], settings: AgreementSettings, *models: str):
        """`models` are learned beside h and h′."""
        super().__init__(world.loss)
        self._settings = settings
        self._adam = ReplicaAdam(
            _start(world, seeds, settings.size, ("h", "h'", *models)), settings.learning_rate, replica_axis=1
        )
        self._step = torch.zeros((), dtype=torch.int64, device=world.device)

    def _other_logits(self, tables: Mapping[str, Tensor], rows: ScoredRows) -> Tensor:
        """Of g, `[2, replicas, rows]`: for positives and negatives."""
        raise NotImplementedError

    def judge(self, rows: ScoredRows) -> JudgedRows:
        tables = {name: table.detach().requires_grad_() for name, table in self._adam.tables.items()}
        with torch.enable_grad():
            logits = {name: logits_of(tables, name, rows) for name in ("h", "h'")}
            logits["g"] = self._other_logits(tables, rows)
            mine = torch.stack((rows.positive, rows.negative))
            # The gradient of the model and that of the others come from the same number; taken apart, no step of the
            # others can touch what the model's still needs.
            learned = self._losses(mine.detach(), logits)
            share = rows.batch.weights * rows.batch.live / rows.batch.live.sum(-1, keepdim=True)
            gradients = torch.autograd.grad((learned * share).sum(), list(tables.values()))
            losses = self._losses(mine, {name: of_one.detach() for name, of_one in logits.items()})
        self._learn(dict(zip(tables, gradients, strict=True)))
        self._step += 1
        return JudgedRows(losses, torch.sigmoid(rows.positive.detach()))

    def _losses(self, mine: Tensor, others: Mapping[str, Tensor]) -> Tensor:
        """`[2, replicas, rows]` logits of positives and negatives → `[replicas, rows]`."""
        f, g, h, h_liked = (torch.sigmoid(logits) for logits in (mine, others["g"], others["h"], others["h'"]))
        alpha = self._settings.alpha
        apart = (alpha * _divergence(g, f) + (1 - alpha) * _divergence(f, g)).sum(0)
        doubts_positives = (1 - f[0]) * _log(h[0]) + (1 - f[1]) * _log(1 - h[1]) - self._settings.c1 * f[1]
        doubts_negatives = f[0] * _log(h_liked[0]) - self._settings.c2 * (1 - f[0]) + f[1] * _log(1 - h_liked[1])
        likelihood = torch.where(self._step % 2 == 0, doubts_positives, doubts_negatives)
        if self._settings.blind != "never":
            blindly = f[0] * _log(h_liked[0]) + (1 - f[0]) * _log(1 - h[0])
            blindly = blindly + f[1] * _log(1 - h_liked[1]) + (1 - f[1]) * _log(1 - h[1])
            likelihood = torch.where(self._is_blind(), blindly, likelihood)
        return apart - likelihood

    def _is_blind(self) -> Tensor:
        return self._step == 0 if self._settings.blind == "first-step" else self._step >= 0

    def _learn(self, gradients: Mapping[str, Tensor]) -> None:
        is_even = self._step % 2 == 0
        is_blind = self._is_blind() if self._settings.blind != "never" else torch.zeros_like(is_even)
        for name, gradient in gradients.items():
            model = name.partition("/")[0]
            moves = {"h": is_even | is_blind, "h'": ~is_even | is_blind}.get(model, torch.ones_like(is_even))
            self._adam.step(name, gradient, moves.expand(gradient.shape[1]))

    def keep(self, replicas: Tensor) -> None:
        self._adam.keep(replicas)

    def state(self) -> State:
        return {**self._adam.state(), "step": self._step.clone()}

    def load_state(self, state: State) -> None:
        self._adam.load_state(state)
        self._step.copy_(state["step"])


def _start(world: DenoisedWorld, seeds: Sequence[int], size: int, models: Sequence[str]) -> dict[str, Tensor]:
    """Normal, each replica from its own stream; `[nodes, replicas, size]`."""
    found = {}
    for model in models:
        for side, n in (("users", world.n_users), ("items", world.n_items)):
            own = [
                torch.from_numpy(host_stream(seed, f"denoiser {model} {side}").standard_normal((n, size), "float32"))
                for seed in seeds
            ]
            found[f"{model}/{side}"] = (START_SPREAD * torch.stack(own, 1)).to(world.device)
    return found


def logits_of(tables: Mapping[str, Tensor], model: str, rows: ScoredRows) -> Tensor:
    """`[2, replicas, rows]` of positives and negatives."""
    assert rows.negatives.items is not None
    users = take(tables[f"{model}/users"], rows.batch.users)
    items = take(tables[f"{model}/items"], torch.stack((rows.batch.items, rows.negatives.items)), replica_axis=1)
    return (users * items).sum(-1)


def _log(p: Tensor) -> Tensor:
    return torch.log(p + EPSILON)


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """Kullback and Leibler's, of two coins."""
    return p * (_log(p) - _log(q)) + (1 - p) * (_log(1 - p) - _log(1 - q))
