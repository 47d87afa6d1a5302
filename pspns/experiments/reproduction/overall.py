"""The paper's main table: all methods with LightGCN on four data sets, beside models without training."""

from __future__ import annotations

from pspns.experiments.reproduction._main_table import main_table_experiment

EXPERIMENT = main_table_experiment(
    "overall",
    title="All methods",
    shows="Table 2: eleven methods with LightGCN, beside popular, svd, ease and recommended",
    data=("ml-1m", "epinions", "pinterest", "yelp2018-part"),
)
