"""Figures that the paper prints, in percent: what ours are set beside."""

from __future__ import annotations

# Tables 2 and 5 of the paper (5 is called 6 in its text): Recall@20 and Precision@20. The names of samplers and
# denoisers are ours.
PAPER: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("ml-1m", "lightgcn"): {
        "uniform": (26.68, 12.54),
        "dns": (26.16, 11.67),
        "mixgcf": (27.54, 12.46),
        "dns-m-n": (27.93, 12.86),
        "ahns": (27.47, 12.67),
        "t-ce": (23.56, 11.93),
        "r-ce": (22.25, 11.56),
        "deca": (25.32, 12.24),
        "dcf": (24.20, 12.27),
        "pld": (26.22, 12.36),
        "PSP-NS": (39.56, 21.31),
    },
    ("epinions", "lightgcn"): {
        "uniform": (10.93, 3.20),
        "dns": (11.94, 3.47),
        "mixgcf": (11.83, 3.47),
        "dns-m-n": (12.33, 3.59),
        "ahns": (11.66, 3.40),
        "t-ce": (11.17, 3.20),
        "r-ce": (10.56, 3.00),
        "deca": (11.33, 3.29),
        "dcf": (11.15, 3.23),
        "pld": (11.80, 3.43),
        "PSP-NS": (13.01, 4.50),
    },
    ("ml-1m", "mf"): {
        "uniform": (23.63, 11.05),
        "dns": (20.58, 9.46),
        "dns-m-n": (22.97, 10.86),
        "ahns": (23.42, 11.27),
        "t-ce": (22.93, 10.80),
        "r-ce": (22.12, 10.12),
        "deca": (23.11, 11.63),
        "dcf": (23.90, 11.17),
        "pld": (25.59, 12.20),
        "PSP-NS": (36.57, 19.32),
    },
    ("epinions", "mf"): {
        "uniform": (9.18, 2.65),
        "dns": (8.47, 2.47),
        "dns-m-n": (9.45, 2.75),
        "ahns": (9.58, 2.84),
        "t-ce": (8.24, 2.35),
        "r-ce": (8.46, 2.45),
        "deca": (8.79, 2.58),
        "dcf": (8.80, 2.51),
        "pld": (8.44, 2.56),
        "PSP-NS": (11.46, 3.90),
    },
}
