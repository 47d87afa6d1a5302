from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import pspns

# Importing pspns.__main__ is running it.
MODULES = sorted({module.name for module in pkgutil.walk_packages(pspns.__path__, "pspns.")} - {"pspns.__main__"})


# Imported only where there is a GPU, by those who have found one; the library comes with torch for CUDA.
NEEDS_TRITON = (
    "pspns.gpu_kernels.",
    "pspns.models._dense_layers",
    "pspns.models._gathered_layers",
    "pspns.training.gpu_step",
)


def run_alone(script: str) -> str:
    """Run in an interpreter of its own and give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed_with(name: str) -> set[str]:
    """The distributions that come with `name`, itself included; GPU libraries come from torch's choice of wheel."""
    found: set[str] = set()
    waiting = [(name, frozenset[str]())]
    done = set()
    while waiting:
        name, extras = waiting.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        if (name, extras) in done or name.startswith(("nvidia", "triton", "cuda")):
            continue
        done.add((name, extras))
        found.add(name)
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            wanted = [{"extra": extra} for extra in ("", *extras)]
            if requirement.marker is None or any(map(requirement.marker.evaluate, wanted)):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def test_a_core_install_is_at_most_30_packages() -> None:
    found = installed_with("pspns")
    assert {"pspns", "torch", "polars", "typer", "numpy"} <= found
    assert not {"matplotlib", "pandas", "pytest"} & found
    assert len(found) <= 30, sorted(found)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_can_be_imported(name: str) -> None:
    if name.startswith(NEEDS_TRITON):
        pytest.importorskip("triton", reason="comes with torch for CUDA")
    assert importlib.import_module(name).__name__ == name


def test_types_are_shipped() -> None:
    assert (Path(pspns.__file__).parent / "py.typed").read_text() == ""


def test_the_command_is_installed() -> None:
    (entry,) = [entry for entry in metadata.entry_points(group="console_scripts") if entry.name == "pspns"]
    assert entry.value == "pspns.cli:main"
    assert metadata.version("pspns") == pspns.__version__


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = """
        import sys, pspns
        print([name for name in ("torch", "polars", "numpy", "pydantic", "rich") if name in sys.modules])
    """
    assert run_alone(script).strip() == "[]"


def test_the_engine_trains_from_arrays_without_what_the_edges_need() -> None:
    script = """
        import sys
        BLOCKED = {"polars", "pyarrow", "pydantic", "typer", "rich", "matplotlib", "jinja2"}

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in BLOCKED:
                    raise ImportError(f"{name} is not installed here")

        sys.meta_path.insert(0, Missing())
        import numpy as np
        from pspns.data.interactions import Interactions
        from pspns.run import run
        from pspns.settings import RunSettings, Settings
        from pspns.training.settings import TrainingSettings

        rng = np.random.default_rng(0)
        pairs = Interactions.from_arrays(rng.integers(0, 50, 600), rng.integers(0, 40, 600))
        settings = Settings(training=TrainingSettings(steps=20), run=RunSettings(threads=1, seeds=(0, 1)))
        found = run(pairs, settings)
        assert not BLOCKED & set(sys.modules)
        print(found.model.fitted.steps, sorted(judged.name for judged in found.baselines))
    """
    assert run_alone(script).strip() == "[20, 20] ['ease', 'popular', 'svd']"
