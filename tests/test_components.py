from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import pspns
from pspns.components import (
    KINDS,
    authors_and_year,
    describe_part,
    field_notes,
    find_part,
    part_name,
    part_names,
    part_notes,
)
from pspns.errors import SettingsError
from pspns.models.mf import MatrixFactorisation
from pspns.training.settings import TrainingSettings


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_the_registry_of_its_kind(kind: str) -> None:
    folder = Path(pspns.__file__).parents[1] / KINDS[kind].replace(".", "/")
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py") if path.stem[0] != "_"}
    assert part_names(kind) == sorted(files)
    for name in files:
        assert callable(find_part(kind, name))
        assert len(describe_part(kind, name)) > 10


def test_a_new_file_is_a_new_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "my_models"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_shared.py").touch()
    (package / "my_model.py").write_text('"""My model.\n\nMore."""\nCOMPONENT = int\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(KINDS, "models", "my_models")
    assert part_names("models") == ["my-model"]
    assert describe_part("models", "my-model") == "My model."
    assert find_part("models", "my-model") is int


def test_notes_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "noted_models"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "mine.py").write_text(
        '"""Mine: of my own.\n\nCost: much\nmore: than yours\nRule: a = b\n      b = c: d\nSource: no entry\n\n'
        'Paper: Doe, Roe 2001, On 1999, and after\n\nNot part of it.\n"""\nraise SystemExit("was imported")\n'
    )
    (package / "silent.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(KINDS, "models", "noted_models")
    notes = part_notes("models", "mine")
    assert notes == {
        "cost": "much more: than yours",
        "rule": "a = b\nb = c: d Source: no entry",
        "paper": "Doe, Roe 2001, On 1999, and after",
    }
    assert authors_and_year(notes["paper"]) == "Doe, Roe 2001"
    assert part_notes("models", "silent") == {}


@pytest.mark.parametrize("name", part_names("negatives"))
def test_every_sampler_says_its_rule_its_cost_and_its_paper(name: str) -> None:
    notes = part_notes("negatives", name)
    assert notes.keys() - {"note"} == {"rule", "cost", "paper"}
    assert all(notes.values())
    authors, year = authors_and_year(notes["paper"]).rsplit(" ", 1)
    assert authors
    assert 1990 < int(year) < 2100
    title = notes["paper"].removeprefix(f"{authors} {year}, ")
    assert 10 < len(title) < len(notes["paper"])


def test_unknown_names() -> None:
    with pytest.raises(SettingsError, match=r"no models named 'poplar'; available: .*mf.*did you mean 'popular'\?"):
        find_part("models", "poplar")
    with pytest.raises(SettingsError, match=r"no kind of part named 'modles'; .*did you mean 'models'\?"):
        part_names("modles")
    # A name reaches a part's file and nothing else.
    for name in ("_dot_product", "../errors", "__init__", "", "mf.py"):
        with pytest.raises(SettingsError, match="no models named"):
            find_part("models", name)


def test_parts_outside_the_package_are_reached_by_module_and_name() -> None:
    assert find_part("models", "pspns.models.mf:MatrixFactorisation") is MatrixFactorisation
    assert part_name("models", MatrixFactorisation()) == "mf"
    assert part_name("starts", MatrixFactorisation()) == "pspns.models.mf:MatrixFactorisation"
    for name in ("pspns.models.mf:NoSuch", "no_such_module:X", ":X", ".mf:X"):
        with pytest.raises(SettingsError, match="cannot import models"):
            find_part("models", name)


def test_notes_are_the_docstrings_under_the_fields() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Child(TrainingSettings):
        other: int = 1
        """Two
        lines."""
        silent: int = 2

    notes = field_notes(Child)
    assert notes["batch_size"] == "Positive pairs in one step."
    assert notes["other"] == "Two lines."
    assert "silent" not in notes


def test_listing_does_not_wait_for_torch() -> None:
    script = (
        "import sys; from pspns.cli.listing import show_list; show_list('models', as_json=False); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "mf" in done.stdout
