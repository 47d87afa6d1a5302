"""What comes first: which of the paper's figures come back, what is left under `strict`, what the mask alone does, and
what helps instead. All of it is worked out from records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pspns.experiments import published
from pspns.experiments._cells import MODELS
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import method_words
from pspns.experiments.paper_figures import Figure, paper_figures, same_as_paper
from pspns.experiments.records import Difference, Records, Seen, relative
from pspns.experiments.reproduction import mf, overall
from pspns.experiments.reproduction._beside import FAR, against, differences
from pspns.experiments.reproduction._comparisons import cell_of, run_on, see_alike
from pspns.experiments.reproduction._protocol_section import mask_share
from pspns.experiments.sections import Number, Section, Table, TableCell

RNS, PSP_NS = "uniform", "psp-ns"
INSTEAD = ("recommended", "ease")
METRIC = "recall@20"
TABLES = {"lightgcn": "overall", "mf": "mf"}
"""Of the paper, by model."""
CLEAR = 0.05
CHOSEN_BEFORE = (
    " Its learning rate and L2 weight are part of it, chosen on validation of MovieLens-1M and Epinions; RNS has its "
    "defaults unless it had trials, too."
)
NOT_APART = "not clearly apart from RNS"


@dataclass(frozen=True)
class Place:
    """A data set with a model: what is known there of PSP-NS and of what could stand in its place."""

    data: str
    model: str
    seen: Mapping[tuple[str, str], Seen]
    """(method, protocol) → record."""
    tested: Mapping[str, Difference]
    """Method → its difference from RNS in Recall@20 under `strict`."""

    @property
    def title(self) -> str:
        return f"{known_data(self.data).title} with {MODELS.get(self.model, self.model)}"

    def gain(self, protocol: str) -> float | None:
        """Of PSP-NS over RNS, in percent."""
        one, plain = (self.seen.get((method, protocol)) for method in (PSP_NS, RNS))
        return relative(one.mean(METRIC), plain.mean(METRIC)) if one and plain else None

    def printed_gain(self) -> float | None:
        one, plain = (
            published.printed(TABLES[self.model], known_data(self.data).printed_as, self.model, method, METRIC)
            for method in (PSP_NS, RNS)
        )
        return relative(one, plain) if one and plain else None


def headline(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    figures = paper_figures(asked, data_names)
    places = [
        place_at(asked, data, model)
        for model, experiment in (("lightgcn", overall.EXPERIMENT), ("mf", mf.EXPERIMENT))
        for data in run_on(experiment, data_names)
    ]
    return Section(
        name="headline",
        title="What comes of the paper",
        words=(
            comes_back_words(figures, data_names),
            gain_words(places),
            left_words(places),
            mask_words(asked, data_names),
            *(instead_words(places, method) for method in INSTEAD),
            *limit_words(places),
        ),
        tables=(_places_table(places),),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


def place_at(records: Records, data: str, model: str) -> Place:
    """RNS and PSP-NS under both protocols, with the same say for trials; the rest under `strict`."""
    seen: dict[tuple[str, str], Seen] = {}
    compared = {"published": (RNS, PSP_NS), "strict": (RNS, PSP_NS, "recommended")}
    for protocol, methods in compared.items():
        alike = see_alike(records, [cell_of(data, model, method, protocol) for method in methods])
        seen |= {(method, protocol): one for method, one in zip(methods, alike, strict=True) if one}
    as_it_is = records.see(cell_of(data, model, RNS))
    if as_it_is and (ease := as_it_is.of_baseline("ease")):
        seen["ease", "strict"] = ease
    strict = {method: one for (method, protocol), one in seen.items() if protocol == "strict"}
    return Place(data, model, seen, differences(strict, RNS))


def _places_table(places: Sequence[Place]) -> Table:
    rows: list[tuple[tuple[str, ...], tuple[TableCell, ...]]] = []
    for place in places:
        of_print = place.printed_gain()
        rows.append(((known_data(place.data).title, MODELS.get(place.model, place.model)), (
            Number(of_print, digits=1, sign=True, unit=" %") if of_print is not None else None,
            *(_gain_number(place, protocol) for protocol in ("published", "strict")),
            *(cell for method in (PSP_NS, *INSTEAD) for cell in against(place.tested.get(method))),
        )))  # fmt: skip
    compared = (method_words(PSP_NS), "recommended", "EASE")
    return Table(
        name="headline",
        caption="Recall@20 against RNS",
        heads=("data", "model"),
        columns=(
            "PSP-NS, paper", "PSP-NS, published", "PSP-NS, strict",
            *(column for one in compared for column in (f"{one}, strict, points", f"p of {one}")),
        ),
        rows=tuple(rows),
        note=(
            "The first three in percent of RNS under the same rule. *points*: of Recall@20 in percent, with a 95 % "
            "bootstrap interval over users; p is that of a sign-flip test over users, Holm-corrected within the row. "
            "RNS, PSP-NS and recommended under `strict` have the settings that trials on validation chose, if all "
            "three had trials and were trained with their choice; under `published` PSP-NS alone has trials, on the "
            "paper's grids, as in the paper. In the tables of all methods it stands at its defaults. *limit*: a seed "
            "of either reached the limit of steps before its patience was spent."
        ),
    )  # fmt: skip


def _gain_number(place: Place, protocol: str) -> Number | None:
    gain = place.gain(protocol)
    if gain is None:
        return None
    limit = place.seen[PSP_NS, protocol].limit or place.seen[RNS, protocol].limit
    return Number(gain, digits=1, sign=True, unit=" %", note=limit, record=place.seen[PSP_NS, protocol].name)


def comes_back_words(figures: Sequence[Figure], data_names: Iterable[str]) -> str:
    """Do the paper's figures come back under its rule?"""
    titles = listed([known_data(data).title for data in same_as_paper(data_names)])
    seen = [one for one in figures if one.ours is not None]
    if not figures:
        return "None of these data sets is one of the paper's as it had it, so none of its figures can come back."
    if not seen:
        return f"The paper prints {len(figures)} figures for {titles}; ours under `published` have no record yet."
    near = [one for one in seen if not one.is_far]
    share = "All" if len(near) == len(seen) else "None" if not near else f"{len(near)}"
    of_how_many = (
        f"the paper's {len(figures)}" if len(seen) == len(figures) else f"{len(seen)} of the paper's {len(figures)}"
    )
    return (
        f"Under `published` we have {of_how_many} figures for {titles}. {share} of them "
        f"{'is' if len(near) == 1 else 'are'} within {FAR:g} % of what is printed{_furthest(seen)}."
    )


def _furthest(seen: Sequence[Figure]) -> str:
    furthest = max(seen, key=lambda one: abs(one.percent or 0.0))
    place = f"{method_words(furthest.method)} on {known_data(furthest.data).title}"
    return f"; the furthest away is {place}, {furthest.percent:+.1f} %"


def gain_words(places: Sequence[Place]) -> str:
    """PSP-NS over RNS: in print, under `published`, under `strict`."""
    told = []
    for place in places:
        of_print, of_published, of_strict = place.printed_gain(), place.gain("published"), place.gain("strict")
        if of_published is not None and of_strict is not None:
            in_print = f"{of_print:+.1f} % in print, " if of_print is not None else ""
            told.append(
                f"{place.title} {in_print}{of_published:+.1f} % under `published`, {of_strict:+.1f} % under `strict`"
            )
    if not told:
        return "How far PSP-NS is above RNS under the two rules has no record yet."
    return f"What PSP-NS adds to the Recall@20 of RNS: {'; '.join(told)}."


def left_words(places: Sequence[Place]) -> str:
    return against_rns(places, PSP_NS, "Under `strict`, where no held-out label shapes what is ranked, ")


def mask_words(records: Records, data_names: Iterable[str]) -> str:
    """How much of the published gain a model has that never saw a constructed pair, once it is masked alike."""
    shares, without_gain = [], []
    for data in data_names:
        record = records.find(f"protocol-{data}")
        if record is None:
            continue
        found, title = mask_share(record), known_data(data).title
        if found.share is None:
            without_gain.append(title)
        else:
            shares.append(f"{100 * found.share:.0f} %{found.over_seeds} on {title}")
    if not shares and not without_gain:
        return "What the mask of `published` does to a model that never saw a constructed pair has no record yet."
    told = "RNS never saw a constructed pair. "
    if shares:
        told += f"Ranked under the mask of `published`, it has this much of PSP-NS's gain there: {listed(shares)}. "
    if without_gain:
        told += f"On {listed(without_gain)} PSP-NS gains nothing under `published`, so there is nothing to share out. "
    return told.rstrip()


def instead_words(places: Sequence[Place], method: str) -> str:
    label = {
        "ease": "EASE, which needs no training loop and whose one setting validation chose,",
        "recommended": "our recipe `recommended`",
    }[method]
    told = against_rns(places, method, "Under `strict` ", label)
    has_records = any(method in place.tested for place in places)
    return told + CHOSEN_BEFORE if method == "recommended" and has_records else told


def limit_words(places: Sequence[Place]) -> Iterator[str]:
    """Where training was cut short, so that what is compared may still move."""
    found: dict[str, list[str]] = {}
    for place in places:
        for (method, protocol), seen in place.seen.items():
            if seen.limit:
                steps = seen.record["settings"]["training"]["max_steps"]
                label = f"{method_words(method)} under `{protocol}`"
                found.setdefault(f"{place.title} after {steps:,} steps", []).append(label)
    if found:
        told = "; ".join(f"{where} ({', '.join(dict.fromkeys(labels))})" for where, labels in found.items())
        yield f"A limit of steps ended training before patience was spent, so that figures may still move: {told}."


def against_rns(places: Sequence[Place], method: str, begin: str, label: str = "") -> str:
    """Where the method is above RNS, where below, and where nobody can tell."""
    label = label or method_words(method)
    tested = {place.title: place.tested[method] for place in places if method in place.tested}
    if not tested:
        return f"{begin}{label} beside RNS has no record yet."
    groups: dict[str, list[str]] = {"above RNS": [], "below RNS": [], NOT_APART: []}
    for title, found in tested.items():
        side = "above RNS" if found.mean > 0 else "below RNS"
        group = side if found.p_value < CLEAR else NOT_APART
        groups[group].append(f"{title} {difference_words(found)}")
    filled = {group: told for group, told in groups.items() if told}
    if len(filled) == 1:
        ((group, told),) = filled.items()
        how = f"{group} in all cases" if len(told) > 1 else f"{group} in the one case there is"
        if group == NOT_APART and len(told) > 1:
            how = "in no case clearly apart from RNS"
        return f"{begin}{label} is {how}: {'; '.join(told)}."
    parts = [f"{group} in {len(told)} of {len(tested)} ({'; '.join(told)})" for group, told in filled.items()]
    return f"{begin}{label} is {listed(parts)}."


def difference_words(found: Difference) -> str:
    """In points, with its interval.

    >>> difference_words(Difference(-0.0179, -0.02, -0.0157, 0.0001))
    '-1.79 points (-2.00 to -1.57, p < 0.001)'
    """
    p = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.3f}"
    return f"{100 * found.mean:+.2f} points ({100 * found.low:+.2f} to {100 * found.high:+.2f}, {p})"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
