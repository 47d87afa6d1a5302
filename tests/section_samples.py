"""Invented sections that show all that a page can draw, and records for their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pspns.experiments.records import Records
from pspns.experiments.sections import Detail, Number, Plot, Section, Series, Table, Words

STRICT, PUBLISHED = "lightgcn-ml-1m-psp-ns-strict", "lightgcn-ml-1m-psp-ns-published"
UNIFORM, JOB = "lightgcn-ml-1m-uniform-strict", "construction-time-ml-1m"

ALL_KINDS = Table(
    name="sample-ml-1m",
    caption="MovieLens-1M, Recall@20 under `published` & `strict`",
    heads=("method",),
    columns=("paper", "ours, published", "difference", "ours, strict", "against RNS, strict", "p", "seconds"),
    rows=(
        (("RNS",), (
            Number(26.68), Number(26.2049, spread=0.114, record=UNIFORM), Number(-1.78, 1, sign=True, unit=" %"),
            Number(28.5123, spread=0.121, note="limit", record=UNIFORM), None, None, Number(1234.5678, digits=1),
        )),
        (("PSP-NS",), (
            Number(39.56), Number(37.4017, spread=0.23, record=PUBLISHED),
            Number(-5.456, 1, sign=True, unit=" %", record=PUBLISHED), Number(25.0031, spread=0.19, record=STRICT),
            Number(-3.509, sign=True, low=-3.81, high=-3.2, tone="worse", record=STRICT), "< 0.001",
            Number(99.5, digits=1),
        )),
        (("50 % of_{x} & <b>",), (
            None, None, Number(-31.2, 1, sign=True, unit=" %", tone="worse"),
            Number(29.6, spread=0.08, record="lightgcn-ml-1m-recommended-strict"),
            Number(1.09, sign=True, low=0.7, high=1.45, tone="better"), "0.012", Number(-0.0001, digits=1),
        )),
    ),
    note="In percent; ± is the *standard deviation* over seeds.",
)  # fmt: skip

GROUPED = Table(
    name="sample-grouped",
    caption="Two parts of a row's name",
    heads=("data", "users"),
    columns=tuple(f"metric {number}" for number in range(1, 13)),
    rows=tuple(
        ((data, users), tuple(Number(10 * place + number, record=STRICT) for number in range(12)))
        for place, (data, users) in enumerate(
            (data, users) for data in ("MovieLens-1M", "Epinions") for users in ("inactive", "other", "all")
        )
    ),
    note="In percent; ± is the *standard deviation* over seeds.",
)

CLAIMS = Table(
    name="sample-claims",
    caption="Claims in words",
    heads=("claim", "where"),
    columns=("published", "strict"),
    rows=(
        (
            ("PSP-NS is above every baseline", "Table 2"),
            (
                Words("**holds**: all of 40 comparisons", "better"),
                Words(
                    "**does not hold**: none of 40 comparisons, such as RNS: 25.00 against 28.51",
                    "worse",
                    (
                        Detail("RNS: 25.00 against 28.51 & <more>", "worse", (STRICT, UNIFORM)),
                        Detail("DNS: 25.00 against 24.10", "better", (STRICT, "not-there")),
                    ),
                ),
            ),
        ),
        (("Weights help", "Table 3, called 4"), ("not measured: no record yet", None)),
    ),
)

BANDS = Plot(
    name="sample-convergence",
    caption="Validation Recall@20 against steps",
    x="step",
    y="Recall@20, validation, %",
    series=(
        Series("RNS", (0, 20000, 40000, 60000), (1, 18, 24, 26.5), (0.8, 17.5, 23.6, 26.2), (1.2, 18.5, 24.4, 27.0)),
        Series("PSP-NS, `strict`", (0, 20000, 40000), (2.0, 23.0, 24.5), (1.5, 22.8, 24.0), (2.5, 23.2, 25.0)),
    ),
    levels=(("ease", 28.2), ("popular", 11.5)),
)  # fmt: skip
LOGARITHMIC = Plot(
    name="sample-sensitivity",
    caption="Recall@20 against a",
    x="a",
    y="Recall@20, %",
    series=(Series("strict", (0.001, 0.01, 0.1, 1.0), (25.1, 25.4, 26.0, 24.2)),),
    logarithmic=True,
)
DOTS = Plot(
    name="sample-dots",
    caption="Points gained by each sampler.",
    x="sampler",
    y="points",
    series=(
        Series("MovieLens-1M", (0, 1, 2), (0.5, -0.2, 0.9), (0.3, -0.4, 0.6), (0.7, 0.0, 1.2)),
        Series("Epinions", (0, 1, 2), (0.1, 0.4, -0.3), (0.0, 0.2, -0.5), (0.2, 0.6, -0.1)),
    ),
    ticks=("DNS", "MixGCF", "AHNS with a long name"),
    joined=False,
)

HEADLINE = Section(
    name="headline",
    title="What reproduces, and what does not",
    words=("Under `published` the figures come back; under `strict` **PSP-NS is below RNS**.", "Why: see below."),
    is_shaped_by_test=True,
)
SHAPED = Section(
    name="sample",
    title="All methods",
    words=("Every method, with marks: `strict`, *emphasis*, **weight**, and a <tag>.",),
    tables=(ALL_KINDS, GROUPED),
    plots=(BANDS, DOTS),
    is_shaped_by_test=True,
    missing=("lightgcn-ml-1m-dns-strict", *(f"lightgcn-epinions-dns-strict-n-{number}" for number in range(7))),
)
PLAIN = Section(
    name="plain",
    title="Claims",
    words=("Nothing here is under the other rule.",),
    tables=(CLAIMS,),
    plots=(LOGARITHMIC,),
    missing=("claims-epinions",),
)
SECTIONS = (SHAPED, PLAIN)


def training_record(method: str, protocol: str, **settings: dict[str, Any]) -> dict[str, Any]:
    """What the page reads of a training's record."""
    return {
        "cell": {"method": method, "changes": {}, "trained_with": [UNIFORM, STRICT, PUBLISHED]},
        "protocol": {"name": protocol},
        "model": "lightgcn",
        "data": {
            "source": "ml-1m", "fingerprint": "f00d", "split": "given", "users": 6039, "items": 3628, "train": 800_000,
            "valid": 100_000, "test": 100_001,
        },
        "seeds": [0, 1, 2],
        "steps": [12_000, 13_000, 14_000],
        "settings": settings,
        "seconds": {"split": 0.5, "training": 90.25, "evaluation": 3.0},
        "versions": {"pspns": "0.1.0", "torch": "2.13.0"},
        "machine": {"device": "NVIDIA H200", "system": "Linux", "processor": "x86_64", "threads": 8},
    }  # fmt: skip


def write_records(folder: Path) -> Records:
    records = Records(folder)
    psp = {"positives": {"name": "psp", "rank": 30, "copies": 3}, "weighting": {"name": "log", "sensitivity": 0.01}}
    training = {"training": {"loss": "bpr", "max_steps": 200_000}, "model": {"name": "lightgcn", "layers": 3}}
    records.write(UNIFORM, training_record("uniform", "strict", **training))
    records.write(STRICT, training_record("psp-ns", "strict", **psp, **training))
    records.write(PUBLISHED, training_record("psp-ns", "published", **psp, **training))
    records.write(
        JOB,
        {
            "job": JOB,
            "seconds": {"all": {"median": 12.5}},
            "machine": {"device": "cpu", "processor": "x86_64", "threads": 2},
        },
    )
    return records
