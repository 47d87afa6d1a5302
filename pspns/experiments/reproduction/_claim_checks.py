"""Claims that are no comparison of two methods: how each is checked, and what the paper itself prints of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pspns.experiments import published
from pspns.experiments._cells import MODELS
from pspns.experiments.cells import SEEDS_OF_HEADLINE
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Experiment
from pspns.experiments.methods import method_words
from pspns.experiments.records import Records, Seen, are_alike, relative
from pspns.experiments.reproduction import construction_time, convergence, parameters, seeds, theory, variants
from pspns.experiments.reproduction._beside import words
from pspns.experiments.reproduction._comparisons import (
    UNTESTED,
    Pair,
    Single,
    cell_of,
    compared,
    decide,
    figure,
    of_paper,
    run_on,
    see_tuned,
)
from pspns.experiments.reproduction._denoised_worlds import DENOISERS
from pspns.experiments.reproduction._full_svd import full_svd_is_costly
from pspns.experiments.reproduction._masks import RANDOM, SPARED, TRAIN
from pspns.experiments.reproduction._planted_checks import (
    accuracy_and_coverage,
    denoisers_err,
    false_pairs_harm,
    svd_suppresses_noise,
    truer_than_denoised,
)
from pspns.experiments.reproduction._popular_proposals import normalising_lessens_popularity_bias
from pspns.experiments.reproduction._protocol_section import NEVER_SAW_PSP, ROWS
from pspns.experiments.reproduction._theory_checks import margins_grow_with_weight, margins_widen
from pspns.experiments.reproduction._wavering_denoisers import denoisers_waver
from pspns.experiments.verdicts import CUT_SHORT, NOT_MEASURED, UNTESTABLE, Outcome, Verdict, judge

Check = Callable[[Records, Sequence[str], str], Verdict]
"""Records, data sets, protocol → verdict."""
A_MINUTE = 60.0
MODEL_TABLES = (("lightgcn", "overall"), ("mf", "mf"))


def cannot_be_tested(why: str) -> Check:
    return lambda records, data_names, protocol: Verdict(UNTESTABLE, why)


def where_run(experiment: Experiment, check: Check) -> Check:
    """On no other data sets than the experiment's."""
    return lambda records, data_names, protocol: check(records, run_on(experiment, data_names), protocol)


def denoisers_leave_inactive_users_behind(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """What a denoiser changes against plain training is worse for inactive users than for the others."""
    if protocol == "published":
        return Verdict(NOT_MEASURED, "records keep groups of users under the mask of `strict` alone for such methods")
    outcomes = []
    for data in of_paper(data_names, "overall"):
        plain = records.see(cell_of(data, "lightgcn", "uniform"))
        for method in DENOISERS:
            what = f"{known_data(data).title}, {method_words(method)}"
            seen = records.see(cell_of(data, "lightgcn", method))
            outcomes.append(_by_group(what, seen, plain, lambda inactive, other: inactive < other))
    return judge(outcomes)


def copies_bring_new_negatives(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """The same with the copies of a pair in one step, which differs from weights in the number of negatives alone."""
    pairs = []
    for data in (name for name in of_paper(data_names, "variants") if name not in variants.BY_USER):
        copies = cell_of(data, variants.MODEL, variants.COPIES, protocol).but(changes=variants.TOGETHER)
        weights = cell_of(data, variants.MODEL, variants.WEIGHTS, protocol)
        what = f"{known_data(data).title}, Recall@20, {variants.IN_ONE_STEP}, against {method_words(variants.WEIGHTS)}"
        pairs.append(Pair(what, records.see(copies), records.see(weights)))
    return judge(decide(pairs), everywhere=True)


def inactive_users_are_harder(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Recall of inactive users is below that of the others, without user weights. (Precision depends on how much is
    held out, which is less.)"""
    outcomes = []
    for data in of_paper(data_names, "inactive-users"):
        # Of methods that build nothing, records keep groups under the mask of `strict` alone.
        for method in ("uniform", "psp") if protocol == "strict" else ("psp",):
            seen = records.see(cell_of(data, "lightgcn", method, protocol))
            low, high = (figure(seen, "recall@20", users) if seen else None for users in ("inactive", "other"))
            what = f"{known_data(data).title}, {method_words(method)}, inactive users against others"
            if seen is None or low is None or high is None:
                outcomes.append(Outcome(what, None))
            else:
                figures = f"{low:.2f} against {high:.2f}"
                outcomes.append(Outcome(what, low < high, figures, UNTESTED, records=(seen.name,)))
    return judge(outcomes)


def printed_of_inactive_users() -> list[Outcome]:
    table = published.tables()["inactive-users"]
    found = []
    for data in table.data:
        low, high = (table.figures[users][data]["psp"][0] for users in ("inactive", "other"))
        found.append(Outcome(published.data_sets()[data].paper, low < high, f"{low:.2f} against {high:.2f}"))
    return found


def weights_lessen_activity_bias(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """What user weights change of Recall@20 is better for inactive users than for the others."""
    outcomes = []
    for data in of_paper(data_names, "inactive-users"):
        what = known_data(data).title
        weighted, plain = (records.see(cell_of(data, "lightgcn", method, protocol)) for method in ("psp-ns", "psp"))
        outcomes.append(_by_group(what, weighted, plain, lambda inactive, other: inactive > other))
    return judge(outcomes, of="data sets")


def printed_of_activity_bias() -> list[Outcome]:
    table = published.tables()["inactive-users"]
    found = []
    for data in table.data:
        inactive, other = (
            relative(table.figures[users][data]["psp-ns"][0], table.figures[users][data]["psp"][0])
            for users in ("inactive", "other")
        )
        found.append(Outcome(published.data_sets()[data].paper, inactive > other, _of_groups(inactive, other)))
    return found


def _by_group(what: str, one: Seen | None, plain: Seen | None, holds: Callable[[float, float], bool]) -> Outcome:
    """Whether changes against plain training, of inactive users and of the others, are as claimed."""
    if one is None or plain is None or not are_alike(one, plain):
        return Outcome(what, None, why_not=CUT_SHORT if one and plain else "")
    changes = _changes(one, plain)
    if changes is None:
        return Outcome(what, None)
    return Outcome(what, holds(*changes), _of_groups(*changes), UNTESTED, records=(one.name, plain.name))


def _of_groups(inactive: float, other: float) -> str:
    return f"Recall@20 {inactive:+.1f} % for inactive users, {other:+.1f} % for the others"


def more_than_the_svd(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """What is made of the SVD ranks better than the SVD does by itself, whose own rank validation chose. Under
    `published` every choice of PSP-NS has a mask of its own, and records have the SVD under that of the defaults."""
    pairs = []
    for model, table in MODEL_TABLES:
        for data in of_paper(data_names, table):
            cell = cell_of(data, model, "psp-ns", protocol)
            at_defaults = records.see(cell)
            svd = at_defaults.of_baseline("svd") if at_defaults else None
            seen = (protocol == "strict" and see_tuned(records, cell)) or at_defaults
            what = f"{MODELS[model]}, {known_data(data).title}, {method_words('psp-ns')} against the svd alone"
            pairs += [Pair(f"{what}, {words(metric)}", seen, svd, metric) for metric in ("recall@20", "precision@20")]
    return judge(decide(pairs), everywhere=True)


def no_leak(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Nothing leaks if leaving out constructed pairs, unless they are held out, helps no model that never saw them."""
    if protocol == "strict":
        return Verdict(UNTESTABLE, "nothing is taken out, and neither pairs nor masks know what the test holds")
    outcomes = []
    for data in data_names:
        record = records.find(f"protocol-{data}")
        rows = record["rows"] if record else {}
        for row in (row for row in NEVER_SAW_PSP if row in rows):
            before, after, at_random = (
                100 * rows[row]["test"][mask]["recall@20"]["mean"] for mask in (TRAIN, SPARED, RANDOM)
            )
            figures = f"Recall@20 {before:.2f} → {after:.2f}, under a random mask of that size {at_random:.2f}"
            what = f"{known_data(data).title}, {ROWS[row]}"
            outcomes.append(Outcome(what, after <= at_random, figures, records=(f"protocol-{data}",)))
    return judge(outcomes, of="models that never saw PSP are left as they are")


def built_quickly(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """Under a minute; held-out pairs are dropped afterwards, so both protocols construct alike."""
    outcomes = []
    for data in data_names:
        name, title = f"construction-time-{data}", known_data(data).title
        record = records.find(name)
        if record is None:
            outcomes.append(Outcome(title, None))
            continue
        seconds = record["seconds"][construction_time.WHOLE]["median"]
        figures = f"{seconds:.3g} s on {record['machine']['device']}"
        outcomes.append(Outcome(title, seconds < A_MINUTE, figures, records=(name,)))
    return judge(outcomes, of="data sets")


def printed_seconds() -> list[Outcome]:
    return [
        Outcome(data.paper, data.construction_seconds < A_MINUTE, f"{data.construction_seconds} s")
        for data in published.data_sets().values()
    ]


def stable_over_seeds(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    """No seed is further from the mean than the percentages that are stated, read so because they are called what it
    varies by at most."""
    outcomes = []
    for data in of_paper(data_names, "overall"):
        stated = published.data_sets().get(known_data(data).printed_as)
        seen = records.see(cell_of(data, "lightgcn", seeds.STATED_OF, protocol))
        for metric in seeds.METRICS if stated else ():
            what = f"{known_data(data).title}, {words(metric)}"
            values = seen.per_seed(metric) if seen else []
            if seen is None or stated is None or len(values) < SEEDS_OF_HEADLINE:  # fewer vary less
                outcomes.append(Outcome(what, None))
                continue
            furthest, most = seeds.furthest(values), stated.variation_percent[metric]
            figures = (
                f"{len(values)} seeds up to {furthest:.2f} % from their mean, their deviation "
                f"{seeds.deviation(values):.2f} % of it, {most:.2f} % stated"
            )
            outcomes.append(Outcome(what, furthest <= most, figures, records=(seen.name,)))
    return judge(outcomes, of="figures")


def printed_variation() -> list[Outcome]:
    stated = [percent for data in published.data_sets().values() for percent in data.variation_percent.values()]
    return [Outcome("variation over seeds, at most", True, f"{min(stated)} to {max(stated)} %, by data set and metric")]


def lifts_models(records: Records, data_names: Sequence[str], protocol: str) -> Verdict:
    wanted = [
        Single(data, model, metric, "all", "psp-ns", "uniform")
        for model, table in MODEL_TABLES
        for data in of_paper(data_names, table)
        for metric in ("recall@20", "precision@20")
    ]
    outcomes = compared(records, wanted, protocol)
    titles = [MODELS[single.model] for single in wanted]
    named = [replace(one, what=f"{title}, {one.what}") for title, one in zip(titles, outcomes, strict=True)]
    return judge(named, everywhere=True)


def _changes(one: Seen, plain: Seen) -> tuple[float, float] | None:
    """Recall@20 against plain training in percent: of inactive users, and of the others."""
    found = []
    for users in ("inactive", "other"):
        ours, reference = (figure(seen, "recall@20", users) for seen in (one, plain))
        if ours is None or not reference:
            return None
        found.append(relative(ours, reference))
    return found[0], found[1]


CHECKS: dict[str, Check] = {
    "denoisers-err": denoisers_err,
    "denoisers-waver": denoisers_waver,
    "denoisers-leave-inactive-users-behind": denoisers_leave_inactive_users_behind,
    "false-pairs-harm": false_pairs_harm,
    "normalising-lessens-popularity-bias": normalising_lessens_popularity_bias,
    "full-svd-is-costly": full_svd_is_costly,
    "svd-suppresses-noise": svd_suppresses_noise,
    "as-many-neighbours-as-interactions": where_run(parameters.EXPERIMENT, parameters.degree_does_best),
    "copies-bring-new-negatives": copies_bring_new_negatives,
    "inactive-users-are-harder": inactive_users_are_harder,
    "weights-lessen-activity-bias": weights_lessen_activity_bias,
    "wider-margins": where_run(theory.EXPERIMENT, margins_widen),
    "accuracy-and-coverage": accuracy_and_coverage,
    "truer-than-denoised": truer_than_denoised,
    "inactive-users-gain-by-their-weight": where_run(theory.EXPERIMENT, margins_grow_with_weight),
    "construction-cost": cannot_be_tested(
        "an upper bound for ever larger data, which no finite number of times refutes; the passes of a randomized SVD "
        "cost interactions × rank, and scoring all items for all users costs users × items × rank"
    ),
    "no-leak": no_leak,
    "built-quickly": built_quickly,
    "better-sooner": where_run(convergence.EXPERIMENT, convergence.better_sooner),
    "stable-over-seeds": stable_over_seeds,
    **{name: where_run(parameters.EXPERIMENT, parameters.has_a_best_value(name)) for name in parameters.PARAMETERS},
    "mixgcf-needs-layers": cannot_be_tested(
        "a matter of words: its rule can be followed without layers, and is then DNS with margins that chance lessens"
    ),
    "user-weights-help": where_run(parameters.EXPERIMENT, parameters.weights_help_as_validation_chose_them),
    "lifts-models": lifts_models,
    "more-than-the-svd": more_than_the_svd,
}
"""Name of the claim → how it is checked; beside its comparisons, where it has some."""

AT_ONE_SENSITIVITY = "Every weighting at a = 0.01 unless said, where the paper tuned it: a failure is no last word."
UNTESTED_GROUPS = "Records keep means of groups of users, so that luck cannot be told."
CAVEATS: dict[str, str] = {
    "user-weights-help": AT_ONE_SENSITIVITY,
    "log-weights-best": AT_ONE_SENSITIVITY,
    "inactive-users-gain": f"{AT_ONE_SENSITIVITY} {UNTESTED_GROUPS}",
    "other-users-gain-too": f"{AT_ONE_SENSITIVITY} {UNTESTED_GROUPS}",
    "weights-lessen-activity-bias": f"{AT_ONE_SENSITIVITY} {UNTESTED_GROUPS}",
    "inactive-users-gain-by-their-weight": f"{AT_ONE_SENSITIVITY} {UNTESTED_GROUPS}",
    "denoisers-leave-inactive-users-behind": UNTESTED_GROUPS,
    "inactive-users-are-harder": (
        f"{UNTESTED_GROUPS} Under `published` more is left out of the ranking of active users, who have more "
        "proposals, so that it says more of the mask than of users."
    ),
    "as-many-neighbours-as-interactions": (
        "Under `published` more proposals leave more out of the ranking, and look better for it."
    ),
    "better-sooner": "Some baselines are far below what the paper prints for them.",
}
"""What a reader must know of how a claim was checked."""
CHECKED_FOR_LESS = {name for name, caveat in CAVEATS.items() if AT_ONE_SENSITIVITY in caveat}
"""Claims that a single comparison does not refute."""

PRINTED: dict[str, Callable[[], list[Outcome]]] = {
    "weights-lessen-activity-bias": printed_of_activity_bias,
    "inactive-users-are-harder": printed_of_inactive_users,
    "built-quickly": printed_seconds,
    "stable-over-seeds": printed_variation,
}
"""What the paper prints of claims that are no comparisons of its tables."""
