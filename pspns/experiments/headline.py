"""What comes first: which of the paper's figures come back, what is left under `strict`, what the mask alone does, and
what helps instead. All of it is worked out from records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pspns.experiments import published
from pspns.experiments._cells import MODELS
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import method_words
from pspns.experiments.on_top import on_top_words, ranking
from pspns.experiments.paper_figures import Figure, paper_figures, same_as_paper
from pspns.experiments.records import Difference, Records, Seen, relative
from pspns.experiments.reproduction import mf, overall
from pspns.experiments.reproduction import protocol as protocol_experiment
from pspns.experiments.reproduction._beside import FAR, against, differences, from_to, words
from pspns.experiments.reproduction._claim_checks import more_than_the_svd
from pspns.experiments.reproduction._comparisons import are_tuned, cell_of, is_given_up, run_on, see_alike
from pspns.experiments.reproduction._curves import CLEAR
from pspns.experiments.reproduction._masks import SPARED, TRAIN
from pspns.experiments.reproduction._protocol_section import mask_share
from pspns.experiments.sections import Number, Plot, Section, Series, Table, TableCell
from pspns.experiments.trials import MOST_STEPS, count_trials

RNS, PSP_NS = "uniform", "psp-ns"
INSTEAD = ("recommended", "ease")
INSTEAD_WORDS = {
    "recommended": "our recipe `recommended`",
    "ease": "EASE, which needs no training loop and whose one setting validation chose,",
}
METRIC = "recall@20"
TABLES = {"lightgcn": "overall", "mf": "mf"}
"""Of the paper, by model."""
NOT_APART = "not clearly apart from RNS"
NAMED = 2
"""Data sets and models that are named one by one; of more there is a range."""


@dataclass(frozen=True)
class Place:
    """A data set with a model: what is known there of PSP-NS and of what could stand in its place."""

    data: str
    model: str
    seen: Mapping[tuple[str, str], Seen]
    """(method, protocol) → record."""
    tested: Mapping[str, Difference]
    """Method → its difference from RNS in Recall@20 under `strict`."""
    n_trials: int = 0
    """Of RNS, PSP-NS and recommended under `strict`; none unless all of them had some."""
    given_up: tuple[str, ...] = ()
    """Methods whose defaults came to more on validation in the end than what their trials chose."""

    @property
    def is_tuned(self) -> bool:
        return self.n_trials > 0

    @property
    def title(self) -> str:
        return f"{known_data(self.data).title} with {MODELS.get(self.model, self.model)}"

    @property
    def short_title(self) -> str:
        """For a plot, which has no room for more."""
        return f"{known_data(self.data).title.partition(' (')[0]}, {MODELS.get(self.model, self.model)}"

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
    # What they lack is missed where all methods are shown.
    rankings = [(one.title, ranking(asked.since(), one.data, one.model, TABLES[one.model])) for one in places]
    return Section(
        name="headline",
        title="What comes of the paper",
        words=(
            gain_words(places),
            mask_words(asked, run_on(protocol_experiment.EXPERIMENT, data_names)),
            comes_back_words(figures, data_names),
            against_rns(places, PSP_NS),
            *(against_rns(places, method, INSTEAD_WORDS[method]) for method in INSTEAD),
            *svd_words(asked, list(dict.fromkeys(place.data for place in places))),
            *on_top_words(rankings),
            *settings_words(places),
            *limit_words(places),
        ),
        tables=(_places_table(places),),
        plots=tuple(_gains_plot(asked, places)),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


def place_at(records: Records, data: str, model: str) -> Place:
    """RNS and PSP-NS under both protocols, with the same say for trials; the rest under `strict`."""
    seen: dict[tuple[str, str], Seen] = {}
    compared = {"published": (RNS, PSP_NS), "strict": (RNS, PSP_NS, "recommended")}
    cells = {
        protocol: [cell_of(data, model, one, protocol) for one in methods] for protocol, methods in compared.items()
    }
    for protocol, methods in compared.items():
        alike = see_alike(records, cells[protocol])
        seen |= {(method, protocol): one for method, one in zip(methods, alike, strict=True) if one}
    as_it_is = records.see(cell_of(data, model, RNS))
    if as_it_is and (ease := as_it_is.of_baseline("ease")):
        seen["ease", "strict"] = ease
    strict = {method: one for (method, protocol), one in seen.items() if protocol == "strict"}
    n_trials = (
        max(count_trials(records, cell) for cell in cells["strict"]) if are_tuned(records, cells["strict"]) else 0
    )
    given_up = [cell.method for cell in cells["strict"] if n_trials and is_given_up(records, cell)]
    return Place(data, model, seen, differences(strict, RNS), n_trials, tuple(given_up))


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
            "Under `published` PSP-NS alone has trials, on the paper's grids, as in the paper. In the tables of all "
            "methods it stands at its defaults. *limit*: a seed of either reached the limit of steps before its "
            "patience was spent."
        ),
    )  # fmt: skip


def _gains_plot(records: Records, places: Sequence[Place]) -> Iterator[Plot]:
    """The gain in print and under both rules, and what the mask alone does for RNS; none where nothing is known."""
    points: dict[str, list[tuple[int, float, float, float]]] = {}  # label → place, gain, low, high

    def put(label: str, number: int, gain: float | None, low: float | None = None, high: float | None = None) -> None:
        if gain is not None:
            ends = (gain, gain) if low is None or high is None else (low, high)
            points.setdefault(label, []).append((number, gain, *ends))

    for number, place in enumerate(places):
        plain, tested = place.seen.get((RNS, "strict")), place.tested.get(PSP_NS)
        ends = [100 * end / plain.mean(METRIC) for end in (tested.low, tested.high)] if plain and tested else []
        put("in print", number, place.printed_gain())
        put("`published`", number, place.gain("published"))
        put("RNS, ranked under the mask of `published`", number, _gain_by_mask(records, place))
        put("`strict`", number, place.gain("strict"), *ends)
    if points.keys() - {"in print"}:
        yield Plot(
            name="gains",
            caption=(
                "What PSP-NS adds to the Recall@20 of RNS: in print, under `published`, under `strict` (bars: 95 % "
                "bootstrap intervals over users), and what RNS itself gains under the mask of `published`, without a "
                "constructed pair"
            ),
            x="data set, model",
            y="above RNS, %",
            series=tuple(_gains_series(label, found) for label, found in points.items()),
            ticks=tuple(place.short_title for place in places),
            levels=(("RNS", 0.0),),
            joined=False,
        )


def _gains_series(label: str, points: Sequence[tuple[int, float, float, float]]) -> Series:
    xs, ys, lows, highs = zip(*points, strict=True)
    bars = (lows, highs) if lows != highs else ()
    return Series(label, tuple(map(float, xs)), ys, *bars)


def _gain_by_mask(records: Records, place: Place) -> float | None:
    """Of RNS over itself, once it is ranked under the mask of `published`."""
    record = records.find(f"protocol-{place.data}") if place.model == protocol_experiment.MODEL else None
    if record is None:
        return None
    before, after = (record["rows"][RNS]["test"][mask][METRIC]["mean"] for mask in (TRAIN, SPARED))
    return relative(after, before)


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
        f"{'is' if len(near) == 1 else 'are'} within {FAR:g} % of what is printed{_of_the_two(seen)}{_furthest(seen)}."
        f"{_far_words(seen)}"
    )


def _of_the_two(seen: Sequence[Figure]) -> str:
    """Those that the paper's claim rests on."""
    of_two = [one for one in seen if one.method in (RNS, PSP_NS)]
    near = [one for one in of_two if not one.is_far]
    return (
        f", of those of {method_words(RNS)} and {method_words(PSP_NS)} {len(near)} of {len(of_two)}" if of_two else ""
    )


def _far_words(seen: Sequence[Figure]) -> str:
    """Whose figures are far from what is printed, and which of them might have come nearer."""
    far = [one for one in seen if one.is_far]
    if not far:
        return ""
    counts = Counter(method_words(one.method) for one in far).most_common()
    limited = sum(one.is_limited for one in far)
    stopped = f" {limited} of them are of trainings that a limit of steps stopped." if limited else ""
    return f" Further away are {listed([f'{name} ({n})' for name, n in counts])}.{stopped}"


def _furthest(seen: Sequence[Figure]) -> str:
    furthest = max(seen, key=lambda one: abs(one.percent or 0.0))
    place = f"{method_words(furthest.method)} on {known_data(furthest.data).title}"
    return f"; the furthest away is {place}, {furthest.percent:+.1f} %"


def gain_words(places: Sequence[Place]) -> str:
    """PSP-NS over RNS: in print, under `published`, under `strict`."""
    told = []
    for place in places:
        masked, strict = place.gain("published"), place.gain("strict")
        if masked is not None and strict is not None:
            told.append((place.printed_gain(), masked, strict))
    if not told:
        return "How far PSP-NS is above RNS under the two rules has no record yet."
    printed = [gain for gain, _, _ in told if gain is not None]
    in_print = f"{ranged(printed)} % in print, " if printed else ""
    how_many = f"{len(told)} pairs of data set and model" if len(told) > 1 else "one data set and model"
    of_published, of_strict = [masked for _, masked, _ in told], [strict for _, _, strict in told]
    return (
        f"What PSP-NS adds to the Recall@20 of RNS: {in_print}{ranged(of_published)} % under `published`, and "
        f"{ranged(of_strict)} % under `strict`, where no held-out label shapes what is ranked ({how_many}, one by one "
        "in the table)."
    )


def ranged(values: Sequence[float], digits: int = 1) -> str:
    """From the least to the most.

    >>> ranged([5.14, -6.9]), ranged([2.0])
    ('-6.9 to +5.1', '+2.0')
    """
    low, high = (f"{end:+.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def mask_words(records: Records, data_names: Iterable[str]) -> str:
    """How much of the published gain a model has that never saw a constructed pair, once it is masked alike."""
    shares, of_gain, without_gain = [], [], []
    for data in data_names:
        record = records.find(f"protocol-{data}")
        if record is None:
            continue
        found, title = mask_share(record), known_data(data).title
        if found.share is None:
            without_gain.append(title)
        else:
            of_gain.append(found.share)
            shares.append(f"{100 * found.share:.0f} %{found.over_seeds} on {title}")
    if not shares and not without_gain:
        return "What the mask of `published` does to a model that never saw a constructed pair has no record yet."
    told = "RNS never saw a constructed pair. "
    if shares:
        told += (
            "Ranked under the mask of `published`, it has this much of the gain that PSP-NS at its defaults has there: "
            f"{listed(shares)}. "
        )
        if min(of_gain) > 0.5:
            told += "So most of that gain is the mask's, not the pairs'. "
    if without_gain:
        told += f"On {listed(without_gain)} PSP-NS gains nothing under `published`, so there is nothing to share out. "
    return told.rstrip()


def svd_words(records: Records, data_names: Sequence[str]) -> Iterator[str]:
    """Whether PSP-NS ranks better than the SVD that it takes its proposals from does by itself."""
    told = []
    for protocol in ("published", "strict"):
        found = [one for one in more_than_the_svd(records, data_names, protocol).outcomes if words(METRIC) in one.what]
        if found:
            n_below = sum(not one.holds for one in found)
            at = ", where PSP-NS stands at its defaults," if protocol == "published" else ""
            told.append(f"in {n_below} of {len(found)} under `{protocol}`{at}")
    if told:
        yield (
            "The SVD by itself, its items scaled back by the roots of their degrees and its rank chosen on validation, "
            f"ranks better than PSP-NS {listed(told)}; both have the same mask."
        )


def settings_words(places: Sequence[Place]) -> Iterator[str]:
    """Who has which settings under `strict`, and where the choice of short trials was given up."""
    seen = [place for place in places if (RNS, "strict") in place.seen]
    tuned = [place.title for place in seen if place.is_tuned]
    others = [place.title for place in seen if not place.is_tuned]
    told = []
    if tuned:
        n_trials = from_to([place.n_trials for place in seen if place.is_tuned])
        told.append(
            f"RNS, PSP-NS and recommended had {n_trials} trials each on {listed(tuned)} (the defaults and random "
            f"draws, one seed, at most {MOST_STEPS:,} steps), judged on validation"
        )
    if others:
        told.append(
            f"on {listed(others)}, RNS and PSP-NS have their defaults, and recommended the learning rate and L2 weight "
            "that validation of MovieLens-1M and Epinions chose"
        )
    if told:
        yield f"Settings under `strict`: {'; '.join(told)}."
    given_up = [f"{listed(list(map(method_words, one.given_up)))} on {one.title}" for one in seen if one.given_up]
    if given_up:
        yield (
            "Trials are short and favour what learns fast. Where the defaults were ahead on validation once both had "
            f"trained as long as they may, they stand in place of what trials chose: {'; '.join(given_up)}."
        )


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


def against_rns(places: Sequence[Place], method: str, label: str = "") -> str:
    """Where the method is above RNS, where below, and where nobody can tell."""
    label = label or method_words(method)
    tested = {place.title: place.tested[method] for place in places if method in place.tested}
    if not tested:
        return f"Under `strict` {label} beside RNS has no record yet."
    groups: dict[str, dict[str, Difference]] = {"above RNS": {}, "below RNS": {}, NOT_APART: {}}
    for title, found in tested.items():
        side = "above RNS" if found.mean > 0 else "below RNS"
        groups[side if found.p_value < CLEAR else NOT_APART][title] = found
    filled = {group: told for group, told in groups.items() if told}
    if len(filled) == 1:
        ((group, told),) = filled.items()
        how = f"{group} in all {len(told)} cases" if len(told) > 1 else f"{group} in the one case there is"
        if group == NOT_APART and len(told) > 1:
            how = "in no case clearly apart from RNS"
        return f"Under `strict` {label} is {how}: {_apart_words(told)}."
    parts = [f"{group} in {len(told)} of {len(tested)} ({_apart_words(told)})" for group, told in filled.items()]
    return f"Under `strict` {label} is {listed(parts)}."


def _apart_words(found: Mapping[str, Difference]) -> str:
    """A few one by one; of more the range, and the p that all are below."""
    if len(found) <= NAMED:
        return "; ".join(f"{title} {difference_words(one)}" for title, one in found.items())
    most = max(one.p_value for one in found.values())
    p = f", each p {'< 0.001' if most < 0.001 else f'≤ {most:.3f}'}" if most < CLEAR else ""
    return f"{ranged([100 * one.mean for one in found.values()], digits=2)} points{p}"


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
