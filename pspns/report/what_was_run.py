"""What a reproduction was made of, read off its records: data, machines, versions, time, and a line for each record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pspns.components import find_part
from pspns.errors import PspnsError
from pspns.experiments._cells import MODELS
from pspns.experiments.data_sets import known_data
from pspns.experiments.methods import method_words
from pspns.experiments.records import Record
from pspns.settings import PART_SECTIONS, Settings

# Told elsewhere in the line, or of no meaning for the result.
_NOT_IN_LINE = {
    "data": {"source"},
    "run": {"protocol", "seeds", "device", "threads", "memory_gib", "baselines", "checkpoint_seconds"},
}

_COUNTS = ("users", "items", "train", "valid", "test")


@dataclass(frozen=True)
class DataLine:
    """A data set as the records have it."""

    title: str
    note: str
    """Why its figures and the paper's are not of the same data."""
    users: int
    items: int
    train: int
    valid: int
    test: int
    split: str
    fingerprint: str
    records: int


@dataclass(frozen=True)
class RecordLine:
    name: str
    data: str
    what: str
    """Model, method and protocol of a training; what a measurement says it is."""
    settings: str
    """Those away from their defaults."""
    seeds: str
    steps: str
    seconds: str
    machine: str


@dataclass(frozen=True)
class Ran:
    """All of it."""

    data: list[DataLine]
    facts: list[tuple[str, str]]
    """What → in words."""
    records: list[RecordLine]


def what_was_run(records: Mapping[str, Record]) -> Ran:
    """By name; records of trainings have all of it, those of measurements what they have."""
    return Ran(
        data=_data(records.values()),
        facts=[fact for fact in _facts(records) if fact[1]],
        records=[_line(name, record) for name, record in records.items()],
    )


def _data(records: Collection[Record]) -> list[DataLine]:
    wanted = {"source", "fingerprint", "split", *_COUNTS}
    told = [data for record in records if isinstance(data := record.get("data"), dict) and wanted <= data.keys()]
    n_records = Counter(data["fingerprint"] for data in told)
    found = {data["fingerprint"]: data for data in told}
    noise = {
        record["data"]["fingerprint"]: f"{record['noise']['pairs']:,} of them"
        for record in records
        if record.get("noise", {}).get("pairs")
    }
    return [
        DataLine(
            title=known_data(data["source"] or "unnamed").title,
            note=known_data(data["source"] or "unnamed").note,
            split=", ".join(filter(None, (str(data["split"]), noise.get(fingerprint, "")))),
            fingerprint=fingerprint,
            records=n_records[fingerprint],
            **{count: int(data[count]) for count in _COUNTS},
        )
        for fingerprint, data in found.items()
    ]


def _facts(records: Mapping[str, Record]) -> list[tuple[str, str]]:
    of_loops = {name: record for name, record in records.items() if _is_training(record)}
    trainings = list(of_loops.values())
    n_others = len(records) - len(trainings)
    counts = Counter(len(record["seeds"]) for record in trainings)
    return [
        (
            "Records",
            _joined(
                [
                    _counted(len(trainings), "training") if trainings else "",
                    _counted(n_others, "other measurement") if n_others else "",
                ]
            ),
        ),
        ("Models", _joined(dict.fromkeys(map(_model, trainings)))),
        ("Methods", _joined(dict.fromkeys(method_words(record["cell"]["method"]) for record in trainings))),
        ("Protocols", _joined(dict.fromkeys(record["protocol"]["name"] for record in trainings))),
        (
            "Seeds of a training",
            _joined(f"{n_seeds} ({_counted(n, 'training')})" for n_seeds, n in sorted(counts.items())),
        ),
        ("Steps, all seeds together", f"{steps:,}" if (steps := _all_steps(trainings)) else ""),
        ("Time of all training", _time(seconds) if (seconds := _seconds_of_loops(of_loops)) else ""),
        ("Machines", _most(map(_machine, records.values()))),
        ("Versions", _most(_joined(_versions(record)) for record in records.values())),
    ]


def _line(name: str, record: Record) -> RecordLine:
    data = record.get("data")
    source = data.get("source") if isinstance(data, dict) else data
    seeds, steps = record.get("seeds"), record.get("steps")
    return RecordLine(
        name=name,
        data=known_data(source).title if isinstance(source, str) and source else "",
        what=_what(record),
        settings="; ".join(_settings_words(record.get("settings") or {})),
        seeds=_joined(map(str, seeds)) if isinstance(seeds, list) else "",
        steps=" · ".join(f"{number:,}" for number in steps or ()) if _are_counts(steps) else "",
        seconds=_time(seconds) if (seconds := _seconds(record)) else "",
        machine=_machine(record),
    )


def _what(record: Record) -> str:
    if not _is_training(record):
        return f"Measurement, {_counted(len(trials), 'trial')}" if (trials := record.get("trials")) else "Measurement"
    method = method_words(record["cell"]["method"])
    return f"{_model(record)}, {method}, {record['protocol']['name']}"


def _is_training(record: Record) -> bool:
    return {"cell", "model", "protocol", "seeds"} <= record.keys()


def _model(record: Record) -> str:
    name = str(record["model"])
    return MODELS.get(name, name)


def _settings_words(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Section by section what differs from the defaults of that part."""
    words = []
    usual = Settings().as_dict()
    for section, entries in settings.items():
        defaults = _defaults(PART_SECTIONS[section], entries) if section in PART_SECTIONS else usual.get(section, {})
        own = [
            f"{key.replace('_', ' ')} {_value(value)}"
            for key, value in entries.items()
            if key != "name"
            and key not in _NOT_IN_LINE.get(section, ())
            and _value(value) != _value(defaults.get(key, object()))
        ]
        name = entries.get("name", "")
        if own or name != usual.get(section, {}).get("name", ""):
            what = f"{section} {name}".rstrip()
            words.append(f"{what}: {', '.join(own)}" if own else what)
    return words


def _defaults(kind: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    try:
        part = find_part(kind, str(entries.get("name")))
        return {field.name: field.default for field in fields(part)}
    except (PspnsError, TypeError):  # a part of somebody else's, which need not be here
        return {}


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_value, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def _all_steps(trainings: Sequence[Record]) -> int:
    return sum(sum(record["steps"]) for record in trainings if _are_counts(record.get("steps")))


def _are_counts(steps: Any) -> bool:
    return isinstance(steps, list) and bool(steps) and all(isinstance(number, int) for number in steps)


def _seconds_of_loops(trainings: Mapping[str, Record]) -> float:
    """Trainings of one loop have the same seconds, which are counted once."""
    loops = {
        _loop(name, record["cell"]): record.get("seconds", {}).get("training", 0.0)
        for name, record in trainings.items()
    }
    return float(sum(loops.values()))


def _loop(name: str, cell: Mapping[str, Any]) -> tuple[str, ...]:
    """What was trained in it; of records made of an earlier file that file, which had one loop."""
    return tuple(cell["trained_with"]) or (cell.get("adopted_from") or name,)


def _seconds(record: Record) -> float:
    """Of all stages together; measurements may have other things there."""
    stages = record.get("seconds")
    return float(sum(filter(_is_number, stages.values()))) if isinstance(stages, dict) else 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _time(seconds: float) -> str:
    """In the unit that reads best.

    >>> _time(0.42), _time(75.0), _time(9000.0)
    ('0.4 s', '75 s', '2.5 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    return (
        f"{seconds:.0f} s"
        if seconds < 600
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:,.1f} h"
    )


def _machine(record: Record) -> str:
    machine = record.get("machine")
    if not isinstance(machine, dict):
        return ""
    if machine.get("device") != "cpu":
        return str(machine.get("device", ""))
    return f"CPU ({machine.get('processor', 'unknown')}, {_counted(machine.get('threads', 0), 'thread')})"


def _versions(record: Record) -> list[str]:
    versions = record.get("versions")
    return [f"{name} {version}" for name, version in versions.items()] if isinstance(versions, dict) else []


def _most(texts: Iterable[str]) -> str:
    """Each once, the most frequent first, with its count where there are several."""
    counts = Counter(filter(None, texts)).most_common()
    return "; ".join(f"{text} ({_counted(n, 'record')})" if len(counts) > 1 else text for text, n in counts)


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(filter(None, texts))


def _counted(number: int, word: str) -> str:
    """
    >>> _counted(1, "seed"), _counted(1200, "seed")
    ('1 seed', '1,200 seeds')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
