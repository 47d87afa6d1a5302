"""Who competes in what: the rivals' pinned requirements, and what a reader must know of each comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "rivals"
TORCH = "torch==2.13.0"  # first, as constraints.txt says


@dataclass(frozen=True)
class Rival:
    """A library; its script has the same name."""

    name: str
    requirements: tuple[str, ...]  # each for one call of pip

    @property
    def script(self) -> Path:
        return SCRIPTS / f"{self.name.replace('-', '_')}.py"


@dataclass(frozen=True)
class Contest:
    """One rival in one subject, by one of its ways."""

    subject: str
    rival: Rival
    task: str  # as the script calls it
    called: str
    note: str


IMPLICIT = Rival("implicit", ("implicit==0.7.3",))
CORNAC = Rival("cornac", (TORCH, "cornac==3.0.1 dgl<2"))  # dgl is undeclared; 2.1.0 fails
# What it declares installs, and then does not run.
RECBOLE = Rival("recbole", (TORCH, "recbole==1.2.1 setuptools<81 numpy<2 pandas<3 scipy<=1.12"))
LENSKIT = Rival("lenskit", (TORCH, "lenskit==2025.8.1 torch-geometric==2.8.1"))  # the latter for LightGCN, undeclared
PYG = Rival("pyg", (TORCH, "torch-geometric==2.8.1 scipy"))
RANX = Rival("ranx", (TORCH, "ranx==0.3.21"))
IR_MEASURES = Rival("ir-measures", (TORCH, "ir-measures==0.4.3"))

CONTESTS = (
    Contest("mf", IMPLICIT, "mf", "implicit", "SGD; leaves a pair out where its negative is rejected"),
    Contest(
        "mf", CORNAC, "mf", "Cornac", "SGD, also leaves pairs out; rate 0.05, as its 0.001 learns little in 20 epochs"
    ),
    Contest("mf", RECBOLE, "mf", "RecBole", "Adam, rate 0.001 as ours"),
    Contest("mf", LENSKIT, "mf", "LensKit", "AdamW, rate 0.01: both its defaults; torch.compile off"),
    Contest("lightgcn", PYG, "lightgcn-csr", "PyG, CSR", "loop after its documentation; no negative is rejected"),
    Contest("lightgcn", PYG, "lightgcn-edge-index", "PyG, edge_index", "the same"),
    Contest("lightgcn", RECBOLE, "lightgcn", "RecBole", "a turn of ten steps begins an epoch"),
    Contest("lightgcn", CORNAC, "lightgcn", "Cornac", "a turn of ten steps begins an epoch"),
    Contest(
        "lightgcn", LENSKIT, "lightgcn", "LensKit, FlexMF", "torch.compile off; a turn of ten steps begins an epoch"
    ),
    Contest("lightgcn", LENSKIT, "lightgcn-graph", "LensKit, graphs", "edges one way only, so nothing is passed on"),
    Contest("ranking", RECBOLE, "ranking", "RecBole, 512 users a batch", ""),
    Contest("ranking", RECBOLE, "ranking-default", "RecBole, default batch", "ranks one user a batch"),
    Contest("ranking", IR_MEASURES, "ranking", "torch + ir-measures", "lists by blocked torch"),
    Contest("ranking", RANX, "ranking", "torch + ranx", "lists by blocked torch; timed warm"),
    Contest("ranking", CORNAC, "ranking", "Cornac", ""),
    Contest("ranking", LENSKIT, "ranking", "LensKit", "one process"),
    Contest("negatives", LENSKIT, "negatives", "LensKit", "Rust"),
    Contest("negatives", RECBOLE, "negatives", "RecBole", ""),
)
