"""The paper's table of MF: all methods that a model without a graph can have."""

from __future__ import annotations

from pspns.experiments.reproduction._main_table import main_table_experiment

EXPERIMENT = main_table_experiment(
    "mf",
    title="All methods with MF",
    shows="Table 5: ten methods with MF, beside popular, svd, ease and recommended",
    data=("ml-1m", "epinions"),
    words="MixGCF is not among them, as it mixes the layers of a graph model, and MF has none.",
)
