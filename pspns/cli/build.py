"""`pspns build`: settings, data, positives, folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pspns.api import build_from, load_data, resolve_for_build, split_for_build
from pspns.build_folder import new_build_folder, write_build
from pspns.built_positives import BuiltPositives
from pspns.cli.rest import parse_rest
from pspns.cli.screen import say, tell, warn
from pspns.components import find_part, part_names
from pspns.data.catalogue._planted import PlantedDataset
from pspns.data.interactions import Interactions
from pspns.data.planted import PlantedWorld
from pspns.data.split import GivenSplit, Split
from pspns.errors import SettingsError, StoppedError
from pspns.evaluation.protocol import find_protocol
from pspns.options import base_layers, command_line
from pspns.out_of_core.streamed_build import build_out_of_core, check_settings
from pspns.positives._facts import positives_words
from pspns.positives_quality import Quality
from pspns.settings import Settings


def build_and_show(
    options: dict[str, Any],
    rest: Sequence[str],
    recipe: str,
    config: Path | None,
    out: Path,
    *,
    out_of_core: bool,
    overwrite: bool,
) -> None:
    """Build positives as the options say and show what they are."""
    layers = base_layers(recipe, config)
    settings = resolve_for_build(layers, command_line(options | parse_rest(rest)))
    if settings.data.source is None:
        raise SettingsError("there are no data; say which with --data FILE, FOLDER or NAME")
    if out_of_core:
        check_settings(settings)
    try:
        with new_build_folder(out, overwrite=overwrite) as folder:
            found = [build_out_of_core(settings, folder, say).words()] if out_of_core else _build(settings, folder)
    except KeyboardInterrupt as error:
        raise StoppedError(f"stopped before the end; nothing was written to {out}") from error
    say(f"wrote {out}")
    for line in found:
        tell(line)
    protocol = find_protocol(settings.run.protocol)
    if protocol.drop_held_out:
        warn(f"protocol {protocol.name}: {protocol.warning}")


def _build(settings: Settings, folder: Path) -> list[str]:
    """Build in memory; what was built, in words."""
    data = load_data(settings)
    split = split_for_build(data, settings)
    _say_what_is_read(split)
    built = build_from(split, settings)
    quality = _judge(built, data, split, settings)
    write_build(built, split, settings, quality, folder)
    return [positives_words(built.facts), *([quality.words()] if quality else [])]


def _say_what_is_read(split: Split) -> None:
    for fact in split.facts:
        say(fact)
    known = f"{split.n_users:,} users and {split.n_items:,} items"
    say(f"built from {len(split.train):,} pairs of {known} ({split.made_by})")


def _judge(built: BuiltPositives, data: Interactions | GivenSplit, split: Split, settings: Settings) -> Quality | None:
    """Accuracy and coverage where something is known to judge by."""
    if isinstance(data, GivenSplit):
        dropped = find_protocol(settings.run.protocol).drop_held_out
        return None if dropped or not len(split.valid) + len(split.test) else built.quality(data)
    world = _planted_world(settings.data.source or "")
    return built.quality(world) if world else None


def _planted_world(source: str) -> PlantedWorld | None:
    """The truth behind the name of a generated data set; a file of that name comes first, as in reading."""
    if Path(source).expanduser().exists() or source not in part_names("datasets"):
        return None
    dataset = find_part("datasets", source)()
    return dataset.plant() if isinstance(dataset, PlantedDataset) else None
