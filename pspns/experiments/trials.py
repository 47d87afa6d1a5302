"""Trials: as many settings of every method, judged on validation alone, and the choice between them.

Under `strict` a method's trials are its defaults and draws from what `pspns tune` searches. Under `published` only
methods that build pairs are tuned, over the paper's grids, as the paper did.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pspns.errors import DivergedError, SettingsError
from pspns.evaluation.selection import is_better, worst
from pspns.experiments import published
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.data_sets import known_data
from pspns.experiments.experiment import Data
from pspns.experiments.loops import TRYING, BegunOtherwiseError, loops, trained
from pspns.experiments.records import Record, Records
from pspns.experiments.same_settings import Tables, check_same, meant
from pspns.experiments.telling import Telling
from pspns.memory import MemoryBudgetError
from pspns.record import describe_run
from pspns.rng import host_stream
from pspns.run import Run
from pspns.search_space import Choices, Space, Span
from pspns.settings import Settings
from pspns.tuning.methods import searched

MOST_STEPS, MOST_PATIENCE = 20_000, 5
"""Of a trial, unless the terms allow less: it must show which settings are better, not how good they are."""
DRAWS_BEFORE_GIVING_UP = 1_000
OF_ALL = ("protocol", "model", "data", "versions", "machine")
OF_EACH = ("seeds", "valid", "steps", "best_step", "settings", "replicas_in_loop", "seconds")


@dataclass(frozen=True)
class Trials:
    """What is tried of a cell: itself, and itself with other settings."""

    of: Cell

    @property
    def name(self) -> str:
        """Of the record.

        >>> Trials(Cell("ml-1m", "mf", "dns")).name
        'trials-mf-ml-1m-dns-strict'
        """
        return f"trials-{self.of.name}"

    def cells(self, terms: Terms) -> list[Cell]:
        """One for each trial, the defaults first, all of them different."""
        defaults = self.of.settings(terms, self.of.data)
        found = {repr(defaults): self.of}
        space = search_space(self.of, defaults)
        drawn = draws(space, max(1, terms.trials - 1))
        for values in itertools.islice(drawn, DRAWS_BEFORE_GIVING_UP):
            if len(found) == terms.trials:
                break
            changes = tuple((key, value) for key, value in values.items() if value != _setting(defaults, key))
            cell = self.of.but(changes=(*self.of.changes, *changes))
            try:
                found.setdefault(repr(cell.settings(terms, cell.data)), cell)
            except SettingsError:  # of values that do not go together
                continue
        return list(found.values())

    def is_done(self, records: Records, terms: Terms, *, keep: bool = False) -> bool:
        """Whether the choice is made; a choice between other trials is another one, unless any will do."""
        record = records.find(self.name)
        if record is None:
            return False
        if not keep:
            self._check(record, records.folder / f"{self.name}.json", terms)
        if "chosen" not in record:
            records.forget(self.name)  # whoever is at it writes it again
        return "chosen" in record

    def _check(self, record: Record, path: Path, terms: Terms) -> None:
        cells = {cell.name: cell for cell in self.cells(terms)}
        names = [trial["name"] for trial in record["trials"]]
        if not cells.keys() >= set(names) or ("chosen" in record and len(names) < len(cells)):
            raise SettingsError(
                f"{path} has the trials {', '.join(names)}, and now {', '.join(cells)} are asked for; ask for the "
                "same, say --keep to take it as it is, or give another --out"
            )
        for trial in record["trials"]:
            if trial["failed"] is None:
                cell = cells[trial["name"]]
                check_same(path, cell.settings(trial_terms(terms), cell.data), trial["settings"])


def tuned_cell(records: Records, cell: Cell) -> Cell | None:
    """The cell with the settings that its trials chose; None while they are not there, or if all of them failed."""
    record = records.find(Trials(cell).name)
    chosen = record.get("chosen") if record else None
    return None if chosen is None else cell.but(changes=(*cell.changes, *chosen.items()))


def tried(records: Records) -> set[str]:
    """The names that loops of trials have, of those whose choice is made."""
    found = (records.find(path.stem) or {} for path in records.folder.glob("trials-*.json"))
    return {f"{TRYING}{trial['name']}" for record in found if "chosen" in record for trial in record["trials"]}


def trial_terms(terms: Terms) -> Terms:
    """One seed, and not to the end."""
    return dataclasses.replace(
        terms, max_steps=min(terms.max_steps, MOST_STEPS), patience=min(terms.patience, MOST_PATIENCE), seeds=1
    )


def search_space(cell: Cell, settings: Settings) -> Space:
    """What is drawn from."""
    if cell.protocol == "strict":
        return searched(settings)
    grids = published.grids()
    data = published.data_sets().get(known_data(cell.data).printed_as)
    found: Space = {}
    if hasattr(settings.positives, "rank"):
        # The paper's ranks depend on the data set; of another one, what the builder itself proposes.
        found["positives.rank"] = Choices(data.ranks) if data else settings.positives.search["rank"]
    if hasattr(settings.positives, "copies"):
        found["positives.copies"] = Choices(grids["copies"])
    if hasattr(settings.weighting, "sensitivity"):
        found["weighting.sensitivity"] = Choices(grids["sensitivity"])
    return found


def draws(space: Space, at_once: int) -> Iterator[dict[str, Any]]:
    """Values without end; every `at_once` of them are spread over the whole of each setting (a Latin hypercube).

    A setting has a stream of its own, so that all methods meet the same learning rates and weights of L2: luck is
    shared, and so are loops.
    """
    streams = {key: host_stream(0, f"trials of {key}") for key in space}
    while space:
        columns = {}
        for key, rng in streams.items():
            places = (rng.permutation(at_once) + rng.random(at_once)) / at_once
            columns[key] = [_at(space[key], place) for place in places.tolist()]
        for number in range(at_once):
            yield {key: column[number] for key, column in columns.items()}


def count_trials(records: Records, cell: Cell) -> int:
    """How many the method had."""
    found = records.find(Trials(cell).name)
    return len(found["trials"]) if found else 0


def in_company(units: Sequence[Trials], terms: Terms) -> list[list[Trials]]:
    """Those whose trials share loops together, as one process must write all of their records."""
    owners = {cell.name: unit for unit in units for cell in unit.cells(terms)}
    cells = [cell for unit in units for cell in unit.cells(terms)]
    groups: list[set[Trials]] = []
    for loop in loops(cells, trial_terms(terms)):
        company = {owners[cell.name] for cell in loop}
        groups = [
            company.union(*(one for one in groups if one & company)),
            *(one for one in groups if not one & company),
        ]
    return sorted(
        ([unit for unit in units if unit in group] for group in groups), key=lambda group: units.index(group[0])
    )


def hold(units: Sequence[Trials], data: Data, records: Records, terms: Terms, telling: Telling) -> None:
    """Train what is to be tried, those that can in one loop, and write every choice down; the test stays untouched.

    A training to the end that has a record began as its trial would, and is not begun anew.
    """
    short = trial_terms(terms)
    owners = {cell.name: unit for unit in units for cell in unit.cells(terms)}
    cells = {cell.name: cell for unit in units for cell in unit.cells(terms)}
    known: dict[str, Record] = {}
    for unit in units:
        for trial in (records.find(unit.name) or {"trials": []})["trials"]:
            cell = cells.get(trial["name"])
            if cell and (trial["failed"] or _is_asked(trial, cell.settings(short, cell.data))):
                known[trial["name"]] = trial
    for name, cell in cells.items():
        record = records.find(name) if name not in known else None
        begun = _beginning_of(record, cell, cell.settings(short, cell.data)) if record else None
        if record and begun:
            known[name] = begun
            _write(owners[name], known, records, terms, {key: record[key] for key in OF_ALL})
    for unit in units:
        if all(cell.name in known for cell in unit.cells(terms)):  # fewer are asked for now than were begun
            _write(unit, known, records, terms, {})
    waiting = loops((cell for name, cell in cells.items() if name not in known), short)
    while waiting:
        loop = waiting.pop(0)
        names = [cell.name for cell in loop]
        telling.say(f"{len(loop)} trials in one loop: {', '.join(names)}")
        facts: Record = {}
        try:
            with trained(loop, data, short, telling, judge_test=False) as runs:
                for cell, run in zip(loop, runs, strict=True):
                    known[cell.name] = _describe(cell, run, names)
                    facts = {key: describe_run(run)[key] for key in OF_ALL}
                    _write(owners[cell.name], known, records, terms, facts)
        except BegunOtherwiseError:
            raise
        except (SettingsError, DivergedError, MemoryBudgetError) as error:  # other values would have trained
            middle = len(loop) // 2
            if middle:
                waiting[:0] = [loop[:middle], loop[middle:]]
                continue
            known[names[0]] = {"name": names[0], "changes": dict(loop[0].changes), "failed": str(error)}
            _write(owners[names[0]], known, records, terms, {})


def _beginning_of(record: Record, cell: Cell, settings: Settings) -> Record | None:
    """The trial that a training with a record began with: the same steps from the same seed, and looks at validation
    after the same steps. None where the two are not the same."""
    training, select_by = settings.training, settings.evaluation.select_by
    (seed,) = settings.run.seeds
    curve = record.get(f"curve_{select_by}", {}).get(str(seed))
    alike = _but_for_limits(settings.as_dict()) == _but_for_limits(record["settings"])
    # The limits are a teacher's, too, so that after others it teaches something else.
    has_teacher = getattr(settings.denoiser, "needs_teacher", False)
    if not curve or not alike or has_teacher or training.steps is not None:
        return None
    value, best_step, last_step, waited = worst(select_by), 0, 0, 0
    interval = curve[0][0]
    for step, found in curve:
        # Whatever stops a training, it looks once more: the record's last look need not be one of the trial's.
        is_shared = step % interval == 0 or step == training.max_steps
        if step > training.max_steps or not is_shared or waited == training.patience:
            break
        last_step, waited = step, waited + 1
        if is_better(select_by, found, value):
            value, best_step, waited = found, step, 0
    if waited < training.patience and last_step != training.max_steps:
        return None
    return {
        "name": cell.name,
        "changes": dict(cell.changes),
        "failed": None,
        "value": value,
        "beginning_of": cell.name,
        "trained_with": record["cell"]["trained_with"],
        "seeds": [seed],
        "valid": {select_by: {"mean": value, "per_seed": [value]}},
        "steps": [last_step],
        "best_step": [best_step],
        "settings": settings.as_dict(),
    }


def _is_asked(trial: Record, settings: Settings) -> bool:
    """One of other limits is nobody's to choose between."""
    return meant(trial["settings"]) == meant(settings.as_dict())


def _but_for_limits(settings: Tables) -> Tables:
    """What a trial and a training to the end of the same cell share."""
    found = meant(settings)
    for section, key in (("training", "max_steps"), ("training", "patience"), ("run", "seeds")):
        del found[section][key]
    return found


def _describe(cell: Cell, run: Run, trained_with: list[str]) -> Record:
    result = describe_run(run)
    select_by = run.settings.evaluation.select_by
    return {
        "name": cell.name,
        "changes": dict(cell.changes),
        "failed": None,
        "value": result["valid"][select_by]["mean"],
        "trained_with": trained_with,
        **{key: result[key] for key in OF_EACH},
    }


def _write(unit: Trials, known: dict[str, Record], records: Records, terms: Terms, facts: Record) -> None:
    """What is known of a cell's trials so far; the choice once all of them are over."""
    names = [cell.name for cell in unit.cells(terms)]
    before = records.find(unit.name) or {}
    trials = [known[name] for name in names if name in known]
    settings = unit.of.settings(terms, unit.of.data)
    record = {
        "cell": {"data": unit.of.data, "model": unit.of.model, "method": unit.of.method, "protocol": unit.of.protocol},
        "select_by": settings.evaluation.select_by,
        "searched": {key: dataclasses.asdict(values) for key, values in search_space(unit.of, settings).items()},
        **{key: before[key] for key in OF_ALL if key in before},
        **facts,
        "trials": trials,
    }
    if len(trials) == len(names):
        record["chosen"] = _choice(trials, settings.evaluation.select_by)
    records.write(unit.name, record)


def _choice(trials: Sequence[Record], select_by: str) -> Record | None:
    """The changes of the best, the first among equals; None if all of them failed."""
    best: Record | None = None
    for trial in trials:
        if trial["failed"] is None and (best is None or is_better(select_by, trial["value"], best["value"])):
            best = trial
    return best["changes"] if best else None


def _setting(settings: Settings, key: str) -> Any:
    section, _, entry = key.partition(".")
    return getattr(getattr(settings, section), entry)


def _at(values: Choices | Span, place: float) -> Any:
    """What lies at this place, from 0 to below 1, of all that may be tried; of a span with two digits.

    >>> _at(Choices((1, 2, 5)), 0.4), _at(Span(low=1e-5, high=1e-3, log=True), 0.25)
    (2, 3.2e-05)
    """
    if isinstance(values, Choices):
        return values.values[int(place * len(values.values))]
    low, high = values.low, values.high
    found = low * (high / low) ** place if values.log else low + (high - low) * place
    return round(found) if values.whole else float(f"{found:.2g}")
