"""The page of results: every figure of it comes from a record.

python -m pspns.experiments.results_page results docs/results.md
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

from pspns.cli.output_file import check_place
from pspns.components import part_names
from pspns.errors import PspnsError
from pspns.experiments._cells import DATA, MODELS, Record, limit, max_steps, pair, printed, value
from pspns.experiments._denoiser_tables import denoiser_tables
from pspns.experiments.records import check_records

BASELINES = ("popular", "svd", "ease")
MEMBERS = ("plain", "plain + start", "plain + copies", "plain + weights", "recommended")

INTRODUCTION = """\
# Results

Made by `python -m pspns.experiments.results_page results docs/results.md` from the records in [results](../results);
no measured figure was typed. How the records were made: [experiments](experiments.md). In percent; ± is the standard
deviation over seeds. **limit**: a replica reached the limit of steps before its patience was spent, so its figure may
still have been rising.

MovieLens-1M and Epinions chose the settings of `recommended`; the other three confirm them.
"""

PROTOCOLS = """\
## The paper's claim under two rules

Recall@20 / Precision@20, three seeds. `published` is the rule under which the paper's figures come back: held-out
labels shape its candidate set, so its column must not be compared with the others. Mask `train` ranks validation items
too, as most papers do; for `plain`, which constructs no pairs, `published` is that very rule. The last column is what
the paper prints for RNS and for PSP-NS; it does not state its test mask.
"""

WHAT_HELPS = """\
## What helps without looking at held-out labels

Protocol `strict`. The recipe `recommended` and its parts one by one over `plain`, all at the same learning rate and L2
weight, in one loop. *best step*: where validation was highest, mean over seeds. *steps to `plain`*: the first look at
validation that saw at least the best of `plain` within the limit, mean over seeds; *seconds*: the wall time of the
loop in proportion to those steps; all replicas of the loop share it.
"""

TO_THE_END = """\
## To the end

LightGCN learns slowly, and the table above stops it early on the larger sets. Here `plain` and `recommended` had up to
100,000 steps, other things equal.
"""

BY_ACTIVITY = """\
## By activity

Recall@20 on the test under `strict` for the 1,000 users with the fewest train pairs, and for each tenth of the users by
the number of their train pairs, from the least active to the most active. The paper weights users so that the least
active gain. `plain` and `paper` are the runs of the first table, `recommended` that of the second, which had fewer
steps.
"""

SAMPLERS = """\
## Negative samplers, alone and with PSP-NS's pairs

Every sampler [at its defaults](negatives.md), learning rate 0.001, L2 0.0001, three seeds; Recall@20 / Precision@20.
*observed* trains on the pairs of train, *+ PSP* on PSP-NS's pairs, copies and user weights, with the same sampler. As
above, mask `train` is what `published` gives on observed pairs, and `published` must not be compared with the other
columns but that one. *lift*: PSP against observed in Recall@20, under `strict`, and as the paper compares them:
`published` against mask `train`. The paper claims that PSP lifts DNS, MixGCF and AHNS (in a figure, without numbers).

Terms differ: *limit* shows most steps and patience. `uniform`, whose runs are those of the first table, had the most.
*validation* compares on equal terms as far as that goes: the best on observed pairs within the steps that every sampler
of the same data and model had; a run that lost patience before has no later looks.

Where negatives are too hard, PSP's pairs help under `strict` as well, likely because they may not be drawn, and among
them are items that score highest. What they are worth beside a sampler of the right hardness, the rows of `srns`,
`uniform` and `mixgcf` show. LightGCN with AHNS at its defaults stops learning after a few epochs: by then most items
score above AHNS's target, those nearest to it are the easiest, and nothing pushes down what scores high. IRGAN's best
step is in all rows the last of its ten epochs with uniform negatives: figures fall when its generator is first asked,
and patience ended the runs while some were rising again. DENS on observed pairs of MovieLens-1M ended before its choice
had moved to relevant scores alone, which takes 100 epochs.
"""

HARDNESS = """\
### How hard

The same on observed pairs, away from the defaults, which are too hard for these data at this learning rate. What one
sampler is worth beside another depends on how hard its negatives are. *validation* is what a choice should be made by;
[`pspns tune`](tuning.md) does.
"""

TRIALS = """\
## How the settings of `recommended` were chosen

Nine trials for each rival on validation of MovieLens-1M and Epinions, one seed, at most 30,000 and 15,000 steps,
patience 5; nothing of the test was recorded. Recall@20 on validation. *share* is the mean over the four columns of the
value divided by the best of the column; the highest is the recipe. (The limit holds back rivals that learn slowly:
`plain` on LightGCN above all.)
"""


def page(folder: Path) -> str:
    """The whole page, from the records of a folder."""

    def read(name: str) -> Record | None:
        path = folder / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    return "\n".join(
        [
            INTRODUCTION,
            *_protocols(read),
            *_what_helps(read),
            *_to_the_end(read),
            *_by_activity(read),
            *_samplers(read),
            *_hardness(folder),
            *denoiser_tables(folder),
            *_trials(read),
        ]
    )


def _protocols(read: Callable[[str], Record | None]) -> Iterable[str]:
    yield from (
        PROTOCOLS,
        "| data | model | | `strict` | mask `train` | `published` | paper |",
        "|---|---|---|---|---|---|---|",
    )
    for data, data_name in DATA.items():
        beside: dict[str, Record] = {}  # the baselines' figures are the same whatever stands beside them
        for model, model_name in MODELS.items():
            found = _protocol_records(read, data, model)
            if not found:
                continue
            beside = beside or found
            for recipe, words, method in (
                ("plain", "`plain` (RNS)", "uniform"),
                ("paper", "`paper` (PSP-NS)", "psp-ns"),
            ):
                strict, published = found[recipe], found.get(f"{recipe}, published")
                cells = (
                    pair(strict["test"], "precision@20") + limit(strict),
                    pair(strict["test_other_masks"]["train"], "precision@20") + limit(strict),
                    pair(published["test"], "precision@20") + limit(published) if published else "as mask `train`",
                    printed(data, model, method),
                )
                yield f"| {data_name} | {model_name} | {words} | {' | '.join(cells)} |"
        if beside:
            for baseline in BASELINES:
                strict = beside["plain"]["baselines"][baseline]
                published = beside["paper, published"]["baselines"][baseline]
                shown = (strict["test"], strict["test_other_masks"]["train"], published["test"])
                figures = " | ".join(pair(test, "precision@20") for test in shown)
                yield f"| {data_name} | `{baseline}` | | {figures} | – |"
    yield ""


def _protocol_records(read: Callable[[str], Record | None], data: str, model: str) -> dict[str, Record]:
    if together := read(f"protocols-{model}-{data}"):
        members: dict[str, Record] = together["members"]
        return members
    names = {"plain": f"strict-{model}-{data}", "paper": f"strict-{model}-psp-{data}"}
    names["paper, published"] = f"published-{model}-psp-{data}"
    found = {member: read(name) for member, name in names.items()}
    return {member: record for member, record in found.items() if record}


def _what_helps(read: Callable[[str], Record | None]) -> Iterable[str]:
    yield from (
        WHAT_HELPS,
        "| data | model | | Recall@20 | NDCG@20 | best step | steps to `plain` | seconds | seeds, device |",
        "|---|---|---|---|---|---|---|---|---|",
    )
    for data, data_name in DATA.items():
        shown: Record | None = None
        for model, model_name in MODELS.items():
            record = read(f"what-helps-{model}-{data}")
            if record is None:
                continue
            members = record["members"]
            shown = shown or members["plain"]
            for member in MEMBERS:
                cells = _member_cells(members[member], members)
                yield f"| {data_name} | {model_name} | {_code(member)} | {' | '.join(cells)} |"
        for baseline in BASELINES:
            if shown and baseline in shown["baselines"]:
                test = shown["baselines"][baseline]["test"]
                figures = f"{value(test['recall@20'])} | {value(test['ndcg@20'])}"
                yield f"| {data_name} | `{baseline}` | | {figures} | | | | |"
    yield ""


def _to_the_end(read: Callable[[str], Record | None]) -> Iterable[str]:
    yield from (
        TO_THE_END,
        "| data | model | | Recall@20 | NDCG@20 | best step | steps to `plain` | seconds | seeds, device |",
        "|---|---|---|---|---|---|---|---|---|",
    )
    for data, data_name in DATA.items():
        for model, model_name in MODELS.items():
            record = read(f"what-helps-{model}-{data}-to-the-end")
            members = record["members"] if record else {}
            for member, figures in members.items():
                cells = " | ".join(_member_cells(figures, members))
                yield f"| {data_name} | {model_name} | {_code(member)} | {cells} |"
    yield ""


def _member_cells(record: Record, members: dict[str, Record]) -> tuple[str, ...]:
    goal = statistics.mean(members["plain"]["valid"]["recall@20"]["per_seed"])
    reached = [
        next((step for step, value in curve if value >= goal), None) for curve in record["curve_recall@20"].values()
    ]
    steps = statistics.mean(step for step in reached if step) if all(reached) else None
    last_step = max(step for member in members.values() for step in member["steps"])
    seconds = record["seconds"]["training"]
    return (
        value(record["test"]["recall@20"]),
        value(record["test"]["ndcg@20"]),
        f"{statistics.mean(record['best_step']):,.0f}{limit(record)}",
        "–" if record is members["plain"] else f"{steps:,.0f}" if steps else "not by all",
        f"{seconds * steps / last_step:.0f} of {seconds:.0f}" if steps and record is not members["plain"] else "–",
        f"{len(record['seeds'])}, {record['machine']['device']}",
    )


def _by_activity(read: Callable[[str], Record | None]) -> Iterable[str]:
    yield from (
        BY_ACTIVITY,
        f"| data | model | recipe | least active 1,000 | {' | '.join(str(n) for n in range(1, 11))} |",
        f"|{'---|' * 14}",
    )
    for data in ("ml-1m", "epinions"):
        for model, model_name in MODELS.items():
            protocols, helps = _protocol_records(read, data, model), read(f"what-helps-{model}-{data}")
            records: dict[str, Record] = {name: protocols[name] for name in ("plain", "paper") if name in protocols}
            if helps:
                records["recommended"] = helps["members"]["recommended"]
            for recipe, record in records.items():
                groups = ("least_active_1000", *(f"decile_{n}" for n in range(1, 11)))
                cells = [f"{100 * record['groups'][group]['test']['recall@20']:.2f}" for group in groups]
                yield f"| {DATA[data]} | {model_name} | `{recipe}`{limit(record)} | {' | '.join(cells)} |"
    yield ""


def _samplers(read: Callable[[str], Record | None]) -> Iterable[str]:
    yield from (
        SAMPLERS,
        "| data | model | sampler | limit | validation | observed, `strict` | observed, mask `train` | paper "
        "| + PSP, `strict` | + PSP, `published` | lift, `strict` | lift, as the paper compares |",
        f"|{'---|' * 12}",
    )
    for data in ("ml-1m", "epinions"):
        for model, model_name in MODELS.items():
            records = {name: _sampler_records(read, data, model, name) for name in part_names("negatives")}
            records = {name: found for name, found in records.items() if len(found) == 3}
            common = min((max_steps(observed) for observed, *_ in records.values()), default=0)
            for sampler, (observed, strict, published) in records.items():
                masked = observed["test_other_masks"]["train"]
                cells = (
                    f"{max_steps(observed):,}, {observed['settings']['training']['patience']}",
                    _best_within(observed, common),
                    pair(observed["test"], "precision@20") + limit(observed),
                    pair(masked, "precision@20") + limit(observed),
                    printed(data, model, sampler),
                    pair(strict["test"], "precision@20") + limit(strict),
                    pair(published["test"], "precision@20") + limit(published),
                    _lift(strict["test"], observed["test"]),
                    _lift(published["test"], masked),
                )
                yield f"| {DATA[data]} | {model_name} | `{sampler}` | {' | '.join(cells)} |"
    yield ""


def _hardness(folder: Path) -> Iterable[str]:
    yield from (
        HARDNESS,
        "| data | model | sampler | validation | `strict` | mask `train` | paper |",
        f"|{'---|' * 7}",
    )
    for data in ("ml-1m", "epinions"):
        for model, model_name in MODELS.items():
            for path in sorted(folder.glob(f"hardness-{model}-{data}*.json")):
                for name, figures in json.loads(path.read_text(encoding="utf-8"))["members"].items():
                    cells = (
                        value(figures["valid"]["recall@20"]),
                        pair(figures["test"], "precision@20") + limit(figures),
                        pair(figures["test_other_masks"]["train"], "precision@20") + limit(figures),
                        printed(data, model, name.partition(",")[0]),
                    )
                    yield f"| {DATA[data]} | {model_name} | {name} | {' | '.join(cells)} |"
    yield ""


def _sampler_records(read: Callable[[str], Record | None], data: str, model: str, sampler: str) -> list[Record]:
    """On observed pairs, and with PSP under `strict` and under `published`."""
    if sampler == "uniform":  # whose runs are those of the first table
        return list(_protocol_records(read, data, model).values())
    record = read(f"samplers-{model}-{data}-{sampler}")
    return list(record["members"].values()) if record else []


def _best_within(record: Record, steps: int) -> str:
    """The best look of each seed at validation, none later than `steps`."""
    curves = record.get("curve_recall@20")
    if not curves:  # in the oldest records
        return "–"
    best = [max(value for step, value in curve if step <= steps) for curve in curves.values()]
    return value({"per_seed": best})


def _lift(one: Record, other: Record) -> str:
    return f"{100 * (one['recall@20']['mean'] / other['recall@20']['mean'] - 1):+.1f} %"


def _trials(read: Callable[[str], Record | None]) -> Iterable[str]:
    yield from (
        TRIALS,
        "| rival | learning rate | L2 | rank | copies | sensitivity | spread | MF, ML-1M | LightGCN, ML-1M "
        "| MF, Epinions | LightGCN, Epinions | share |",
        f"|{'---|' * 12}",
    )
    cells = [(model, data) for data in ("ml-1m", "epinions") for model in ("mf", "lightgcn")]
    records = [read(f"choose-{model}-{data}") for model, data in cells]
    members = [record["members"] for record in records if record]
    if len(members) < len(cells):
        return
    values = {trial: [m[trial]["valid"]["recall@20"]["mean"] for m in members] for trial in members[0]}
    best = [max(column) for column in zip(*values.values(), strict=True)]
    shares = {
        trial: statistics.mean(value / top for value, top in zip(row, best, strict=True))
        for trial, row in values.items()
    }
    for trial in sorted(values, key=lambda name: -shares[name]):
        settings = members[0][trial]["settings"]
        tried = [
            settings["training"]["learning_rate"],
            settings["training"]["l2"],
            settings["positives"].get("rank", "–"),
            settings["positives"].get("copies", "–"),
            settings["weighting"].get("sensitivity", "–"),
            settings["start"].get("score_spread", "–"),
        ]
        figures = [f"{100 * value:.2f}" for value in values[trial]]
        rival = trial.rpartition(" ")[0]
        yield f"| `{rival}` | {' | '.join(map(str, [*tried, *figures]))} | {shares[trial]:.4f} |"
    yield ""


def _code(member: str) -> str:
    recipe, plus, part = member.partition(" + ")
    return f"`{recipe}`{plus}{part}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m pspns.experiments.results_page", description="The page of results."
    )
    parser.add_argument("records", type=Path, help="folder of records")
    parser.add_argument("out", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    try:
        check_records(options.records)
        check_place(options.out, overwrite=True)  # which is made anew whenever there are other records
    except PspnsError as error:
        parser.error(str(error))
    options.out.write_text(page(options.records), encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
