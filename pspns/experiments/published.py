"""Figures that the paper prints, in percent: what ours are set beside."""

from __future__ import annotations

# Tables 2 and 5 of the paper (5 is called 6 in its text): Recall@20 and Precision@20. The names of samplers are ours.
PAPER: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("ml-1m", "lightgcn"): {
        "uniform": (26.68, 12.54),
        "dns": (26.16, 11.67),
        "mixgcf": (27.54, 12.46),
        "dns-m-n": (27.93, 12.86),
        "ahns": (27.47, 12.67),
        "PSP-NS": (39.56, 21.31),
    },
    ("epinions", "lightgcn"): {
        "uniform": (10.93, 3.20),
        "dns": (11.94, 3.47),
        "mixgcf": (11.83, 3.47),
        "dns-m-n": (12.33, 3.59),
        "ahns": (11.66, 3.40),
        "PSP-NS": (13.01, 4.50),
    },
    ("ml-1m", "mf"): {
        "uniform": (23.63, 11.05),
        "dns": (20.58, 9.46),
        "dns-m-n": (22.97, 10.86),
        "ahns": (23.42, 11.27),
        "PSP-NS": (36.57, 19.32),
    },
    ("epinions", "mf"): {
        "uniform": (9.18, 2.65),
        "dns": (8.47, 2.47),
        "dns-m-n": (9.45, 2.75),
        "ahns": (9.58, 2.84),
        "PSP-NS": (11.46, 3.90),
    },
}
