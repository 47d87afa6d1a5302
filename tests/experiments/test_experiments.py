"""`python -m pspns.experiments` on a machine that has only numpy, scipy, torch and safetensors."""

import json
import subprocess
import sys

import pytest
from toy import given_split

from pspns.data.arrays import write_arrays

BARE = """
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in "polars pyarrow pydantic typer rich matplotlib".split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
runpy.run_module("pspns.experiments", run_name="__main__")
"""


def experiment(*options):
    return subprocess.run([sys.executable, "-c", BARE, *map(str, options)], capture_output=True, text=True, check=False)


def test_a_bare_machine_trains_and_writes_a_record(tmp_path):
    write_arrays(given_split(60, 40, 600), tmp_path / "toy.npz")
    out = tmp_path / "record.json"
    done = experiment(
        "--data", tmp_path / "toy.npz", "--seeds", "3-4", "--max-steps", 20, "--device", "cpu", "--out", out
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert record["seeds"] == [3, 4]
    assert record["protocol"]["name"] == "strict"
    assert len(record["test"]["recall@20"]["per_seed"]) == 2
    assert set(record["baselines"]) == {"popular", "svd", "ease"}
    assert record["data"]["source"] == "toy"
    assert "validation recall@20" in done.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--model", "mff"), "no models named 'mff'"),
        (("--protocol", "srict"), "did you mean 'strict'"),
        (("--data", "nowhere.npz"), "nowhere.npz: is not a readable .npz file"),
    ],
)
def test_mistakes_are_named(tmp_path, options, reason):
    write_arrays(given_split(30, 20, 200), tmp_path / "toy.npz")
    done = experiment("--data", tmp_path / "toy.npz", "--out", tmp_path / "r.json", "--max-steps", 5, *options)
    assert done.returncode in (1, 2)
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r.json").exists()
