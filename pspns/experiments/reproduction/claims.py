"""Every claim of the paper in a row: what its own figures say of it, and whether it holds under both protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment, Job
from pspns.experiments.methods import method_words
from pspns.experiments.published import Claim
from pspns.experiments.records import Records, relative
from pspns.experiments.reproduction import (
    _denoised_worlds,
    _full_svd,
    _planted_copies,
    _popular_proposals,
    _wavering_denoisers,
)
from pspns.experiments.reproduction._beside import FAR, words
from pspns.experiments.reproduction._claim_checks import CAVEATS, CHECKED_FOR_LESS, CHECKS, PRINTED
from pspns.experiments.reproduction._comparisons import (
    cell_of,
    cells_of,
    figure,
    in_print,
    is_about,
    measured,
    see_alike,
    singles,
)
from pspns.experiments.reproduction._planted_checks import noisy_cells
from pspns.experiments.sections import Detail, Section, Table, Tone, Words
from pspns.experiments.verdicts import (
    DECIDED,
    FAILS,
    HOLDS,
    IN_PART,
    NO_RECORD,
    NOT_MEASURED,
    Outcome,
    Verdict,
    count_words,
    judge,
    together,
)

PROTOCOLS = ("published", "strict")
TONES: Mapping[str, Tone] = {HOLDS: "better", FAILS: "worse"}


def cells(data: str) -> Iterable[Cell]:
    """Those of other experiments that the comparisons need, and those with false pairs."""
    compared = (cell for claim in published.claims().values() for cell in cells_of(claim, data))
    return dict.fromkeys((*compared, *noisy_cells(data)))


def jobs(data: str) -> Iterable[Job]:
    for measured_apart in (_denoised_worlds, _wavering_denoisers, _planted_copies, _popular_proposals, _full_svd):
        yield from measured_apart.jobs(data)


def section(records: Records, data_names: Sequence[str]) -> Section:
    asked = records.since()
    verdicts = {
        name: {protocol: verdict(claim, asked, data_names, protocol) for protocol in PROTOCOLS}
        for name, claim in published.claims().items()
    }
    rows = [
        (
            (claim.says, where(claim)),
            (printed_words(claim), *(told(verdicts[name][protocol]) for protocol in PROTOCOLS), note(claim)),
        )
        for name, claim in published.claims().items()
    ]
    table = Table(
        name="claims",
        caption="What the paper claims, and what became of it",
        heads=("claim", "made in"),
        columns=("in print", *PROTOCOLS, "note"),
        rows=tuple(rows),
        note=(
            "Figures in percent. A comparison holds if the mean over seeds is on the claimed side, however little; "
            "where that may be luck, it says so: p is that of a sign-flip test over users in Recall@20 and "
            "Precision@20, else, and where train differs, that of Welch's test over seeds, Holm-corrected within each "
            "way of looking at the claim, of curves for their two ends; *not tested* is what has neither. "
            "Margins must be wider by more than two standard errors. A setting has a best value if the one that "
            "validation chose is above both ends of the grid on the test; between them it may go up and down. "
            "Methods have the settings that trials on validation chose, if all that are compared had trials; under "
            "`published` only those that build pairs can have. *in print*: what the paper's own figures say. *made "
            "in*: sections; tables and figures as the paper's source numbers them, and as its text calls them."
        ),
    )
    return Section(
        name="claims",
        title="Claim by claim",
        words=(
            f"What the paper claims in words or in percent, in our words: {len(verdicts)} claims.",
            *(f"Under `{protocol}` {count_words(of[protocol] for of in verdicts.values())}." for protocol in PROTOCOLS),
            "A claim holds as far as there are records; what is not measured yet stands beside it. Where methods are "
            "compared, and the paper says it of all data sets, methods or metrics, one comparison that clearly fails "
            "refutes it, unless the note says that a failure is no last word. What is measured otherwise (worlds with "
            "planted truth, groups of users, curves, margins, seconds) holds in part if some of it does. A claim of "
            "which nothing holds does not hold, even where luck cannot be told.",
        ),
        tables=(table,),
        is_shaped_by_test=True,
        missing=tuple(asked.missing),
    )


def verdict(claim: Claim, records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """From the claim's comparisons, and from the measurement that it has of its own."""
    found = []
    if claim.percent is not None:
        found.append(_percent_verdict(claim, records, data_names, protocol))
    elif claim.comparisons:
        outcomes = measured(claim, records, data_names, protocol)
        everywhere = not claim.often and claim.name not in CHECKED_FOR_LESS
        judged = judge(outcomes, often=claim.often, everywhere=everywhere)
        found.append(with_weak_rivals(judged, claim, records, data_names, outcomes))
    if claim.name in CHECKS:
        found.append(CHECKS[claim.name](records, data_names, protocol))
    return together(*found)


def with_weak_rivals(
    judged: Verdict, claim: Claim, records: Records, data_names: Sequence[str], outcomes: Sequence[Outcome]
) -> Verdict:
    """Told, too, in how many of the comparisons that hold the other method is further below its printed figure than
    our figures usually are: to be above it is no feat."""
    weak = 0
    compared = singles(claim, [data for data in data_names if is_about(claim, data)])
    for single, outcome in zip(compared, outcomes, strict=True):
        printed_as = known_data(single.data).printed_as
        if claim.shown_in not in published.tables() or not printed_as or known_data(single.data).note:
            continue
        of_print = published.printed(
            claim.shown_in, printed_as, single.model, single.worse, single.metric, users=single.users
        )
        ours = records.see(cell_of(single.data, single.model, single.worse, "published"))
        mean = figure(ours, single.metric, single.users) if ours else None
        weak += bool(outcome.holds and of_print and mean and relative(mean, of_print) < -FAR)
    if not weak:
        return judged
    return replace(
        judged,
        why=f"{judged.why}; {weak} of those that hold are over a method that came out more than {FAR:g} % below print",
    )


def note(claim: Claim) -> str | None:
    return " ".join(filter(None, (claim.note, CAVEATS.get(claim.name)))) or None


def printed_words(claim: Claim) -> str:
    """What the paper's own figures say of it.

    >>> printed_words(published.claims()["log-weights-best"])
    'holds but for 1 of 24: Ml-1m, Precision@20, PSP-NS against CRW: 21.31 against 21.31'
    """
    if claim.percent is not None and claim.shown_in:
        return _printed_lead(claim)
    if claim.percent is not None:
        return f"not shown; {claim.percent:+.2f} % claimed"
    outcomes = PRINTED[claim.name]() if claim.name in PRINTED else in_print(claim)
    failed = [one for one in outcomes if not one.holds]
    if not outcomes:
        return "not shown"
    if claim.often:
        return f"{judge(outcomes, often=True).word}: {len(outcomes) - len(failed)} of {len(outcomes)}"
    if 2 * len(failed) >= len(outcomes):
        return str(judge(outcomes))
    if failed:
        return f"holds but for {len(failed)} of {len(outcomes)}: {'; '.join(map(str, failed))}"
    return f"holds: {outcomes[0]}" if len(outcomes) == 1 else f"holds: all {len(outcomes)}"


def told(found: Verdict) -> Words:
    """With marks, so that what was decided is seen among what was not.

    >>> told(Verdict("holds", "all 4")), told(Verdict("not measured", "no record yet"))
    (Words(text='**holds**: all 4', tone='better', details=()),
     Words(text='not measured: no record yet', tone='', details=()))
    """
    text = f"**{found.word}**{str(found).removeprefix(found.word)}" if found.word in DECIDED else str(found)
    details = [Detail(str(one), "better" if one.holds else "worse", one.records) for one in found.outcomes]
    return Words(text, TONES.get(found.word, ""), tuple(details))


def where(claim: Claim) -> str:
    """Sections, and what shows it.

    >>> where(published.claims()["lifts-samplers"]), where(published.claims()["no-leak"])
    ('abstract, 1, 3.6, 4.5, 5; Figure 2(c)–(d), called Figure 4', '4.1')
    """
    called = "" if claim.called in ("", claim.number) else f", called {claim.called}"
    if claim.called.startswith("Section"):
        called = f", by way of {claim.called}"
    return ", ".join(claim.sections) + (f"; {claim.number}{called}" if claim.number else "")


def _percent_verdict(claim: Claim, records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """How far the better is above the best of the others, beside what is claimed."""
    too_few = NO_RECORD
    for data in (name for name in data_names if is_about(claim, name)):
        wanted = list(singles(claim, [data]))
        model, metric = wanted[0].model, wanted[0].metric
        methods = [wanted[0].better, *dict.fromkeys(single.worse for single in wanted)]
        seen = see_alike(records, [cell_of(data, model, method, protocol) for method in methods])
        found = {method: 100 * one.mean(metric) for method, one in zip(methods, seen, strict=True) if one}
        if len(found) == len(methods):  # the best of some is not the best
            word, figures = _lead(claim, found, methods[0])
            what = f"{known_data(data).title}, {words(metric)}, {method_words(methods[0])}"
            names = tuple(dict.fromkeys(one.name for one in seen if one))
            return Verdict(word, f"{what} {figures}", (Outcome(what, word == HOLDS, figures, records=names),))
        if found:
            missing = ", ".join(method_words(method) for method in methods if method not in found)
            too_few = Verdict(NOT_MEASURED, f"{len(found)} of {len(methods)} methods have records; missing {missing}")
    return too_few


def _printed_lead(claim: Claim) -> str:
    """The same from printed figures."""
    wanted = list(singles(claim, claim.data))
    methods = [wanted[0].better, *(single.worse for single in wanted)]
    of_table = published.tables()[claim.shown_in].figures["all"][claim.data[0]]
    place = published.tables()[claim.shown_in].metrics.index(claim.metrics[0])
    word, why = _lead(claim, {method: of_table[method][place] for method in methods}, methods[0])
    return f"{word}: {why}"


def _lead(claim: Claim, found: Mapping[str, float], better: str) -> tuple[str, str]:
    assert claim.percent is not None
    rivals = {method: value for method, value in found.items() if method != better}
    best = max(rivals, key=lambda method: rivals[method])
    percent = relative(found[better], rivals[best])
    word = HOLDS if percent >= claim.percent * (1 - FAR / 100) else IN_PART if percent > 0 else FAILS
    figures = f"{found[better]:.2f} against {rivals[best]:.2f} of {method_words(best)}, the best of {len(rivals)}"
    claimed = "" if f"{percent:.2f}" == f"{claim.percent:.2f}" else f", where {claim.percent:+.2f} % is claimed"
    return word, f"{figures}: {percent:+.2f} %{claimed}"


EXPERIMENT = Experiment(
    title="Claim by claim",
    shows="Every claim of the paper, one row each: does it hold under published, and under strict?",
    section=section,
    cells=cells,
    jobs=jobs,
    data=("ml-1m", "epinions", "pinterest", "yelp2018-part"),
)
