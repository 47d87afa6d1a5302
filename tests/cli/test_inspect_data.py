from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pspns.cli import screen
from pspns.cli.inspect_data import check_data, show_data
from pspns.cli.rest import data_settings
from pspns.data.load import load
from pspns.data.planted import plant
from pspns.data.profile import profile
from pspns.errors import DataError, SettingsError
from pspns.settings import DataSettings

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def clean() -> pl.DataFrame:
    """Data in which nothing is wrong."""
    rng = np.random.default_rng(0)
    pairs = plant("clustered", n_users=150, n_items=120, rng=rng, mean_preferences=25).interactions
    times = rng.uniform(1.6e9, 1.66e9, len(pairs)).astype(np.int64)
    return pl.DataFrame({"user": [f"u{n}" for n in pairs.users], "item": pairs.items, "time": times})


@pytest.fixture
def clean_file(clean: pl.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "clicks.csv"
    clean.write_csv(path)
    return path


def show(path: Path, *, as_json: bool = False, **options: Any) -> None:
    show_data(DataSettings(source=str(path), **options), as_json=as_json)


def check(path: Path, *, strict: bool = False, as_json: bool = False, **options: Any) -> None:
    check_data(DataSettings(source=str(path), **options), strict=strict, as_json=as_json)


def bars(out: str, block: str) -> dict[str, tuple[int, int]]:
    """Label → count and length, of the histogram of the users."""
    lines = out.partition("Users by how many pairs they have\n")[2].partition("\n\n")[0].splitlines()
    cells = [line.rsplit("  ", 1) for line in lines]
    return {
        label.strip(): (int(rest.split()[0].replace(",", "")), rest.count(block))
        for label, rest in cells
    }  # fmt: skip


def test_show_prints_the_figures_of_the_profile(clean_file: Path, capsys: Captured) -> None:
    show(clean_file)
    out, err = capsys.readouterr()
    found = profile(load(clean_file))
    shown = {cells[1].strip(): cells[2:-1] for line in out.splitlines() if len(cells := line.split("│")) > 3}
    for name, value in {
        "users": found.users,
        "items": found.items,
        "pairs": found.pairs,
        "density": f"{100 * found.density:.2g} %",
        "times": found.times.words() if found.times else "",
        "users with fewer than 5 pairs": found.user_degrees.below_5,
    }.items():
        assert shown[name][0].strip() == (f"{value:,}" if isinstance(value, int) else value)
    for name, cut in found.user_degrees.percentiles.items():
        assert [cell.strip() for cell in shown[name]] == [f"{cut:,}", f"{found.item_degrees.percentiles[name]:,}"]
    assert "columns: user = 'user', item = 'item', no rating, time = 'time'" in err


def test_the_bars_are_as_long_as_the_counts_are_large(clean_file: Path, capsys: Captured) -> None:
    show(clean_file)
    found = bars(capsys.readouterr().out, "█")
    histogram = profile(load(clean_file)).user_degrees.histogram
    assert [count for count, _ in found.values()] == [bin.count for bin in histogram]
    assert f"{histogram[-1].least} to {histogram[-1].most}" in found
    most = max(count for count, _ in found.values())
    assert [length for _, length in found.values()] == [int(np.ceil(40 * count / most)) for count, _ in found.values()]


@pytest.mark.parametrize("width", [20, 34, 50])
def test_a_narrow_terminal(clean_file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(screen, "results", screen.Console(highlight=False, width=width))
    show(clean_file)
    out = capsys.readouterr().out
    found = bars(out, "█")
    assert max(map(len, out.splitlines())) <= max(width, len("Users by how many pairs they have"))
    assert min(length for count, length in found.values() if count) >= 1
    assert max(length for _, length in found.values()) > 1


def test_an_output_that_has_no_blocks(clean_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1", errors="backslashreplace"))
    show(clean_file)
    sys.stdout.flush()
    out = written.getvalue().decode("latin-1")
    assert "\\u2588" not in out
    assert max(length for _, length in bars(out, "#").values()) == 40


def test_show_as_json_is_only_json(clean_file: Path, capsys: Captured) -> None:
    show(clean_file, as_json=True)
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found.pop("source") == str(clean_file)
    assert found == json.loads(json.dumps(profile(load(clean_file)).as_dict()))
    assert err == ""


def test_show_reads_as_it_is_told(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("who;what;stars\n" + "".join(f"{n};{n % 3};{n % 5 + 1}\n" for n in range(50)))
    options = {"columns": {"user": "what", "item": "who", "rating": "stars"}, "separator": "semicolon", "header": True}
    show(path, as_json=True, format="delimited", min_rating=5, **options)
    found = json.loads(capsys.readouterr().out)
    assert (found["users"], found["items"], found["pairs"]) == (3, 10, 10)


def test_show_counts_the_parts_of_a_folder(clean: pl.DataFrame, tmp_path: Path, capsys: Captured) -> None:
    clean[::2].write_csv(tmp_path / "train.csv")
    clean[1::2].write_csv(tmp_path / "test.csv")
    show(tmp_path)
    out = capsys.readouterr().out
    assert f"│ pairs in train                             │ {len(clean[::2]):>24,} │" in out
    assert "pairs in valid" not in out


def test_check_says_what_it_found_and_that_nothing_is_wrong(
    clean: pl.DataFrame, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "clicks.dat.gz"
    path.write_bytes(gzip.compress(clean.write_csv(separator="|", include_header=False).encode()))
    check(path, strict=True, header=False)
    lines = capsys.readouterr().out.splitlines()
    density = len(clean) / (clean["user"].n_unique() * clean["item"].n_unique())
    assert lines == [
        f"{path}: format delimited, packed as .gz, {len(clean):,} rows",
        "  times from 2020-09-13 to 2022-08-08",
        "columns separated by pipe (guessed)",
        "no header line: the 3 columns go by their positions",
        "columns: user = 0, item = 1, no rating, time = 2",
        f"{clean['user'].n_unique()} users, {clean['item'].n_unique()} items, {len(clean):,} distinct pairs: "
        f"{100 * density:.2g} % of all that could be",
        "",
        "Nothing looks wrong.",
    ]


def test_check_tells_warnings_then_notes_then_the_verdict(
    clean: pl.DataFrame, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "clicks.csv"
    ratings = np.resize([1, 4, 5], len(clean))
    times = pl.when(pl.int_range(pl.len()) == 0).then(4_102_444_800).otherwise("time")
    clean.with_columns(rating=ratings, time=times).write_csv(path)
    check(path)
    out, err = capsys.readouterr()
    assert err == ""
    assert "  ratings from 1 to 5, 3 different\n" in out
    warning, note, verdict = (out.index(word) for word in ("\nwarning: ", "\nnote: ", "\n1 warning, 1 note: "))
    assert warning < note < verdict
    assert out[warning:note].splitlines()[1:3] == [
        f"warning: pairs with a time in the future in column 'time', up to 2100-01-01: 1 of {len(clean):,} (0.034 %)",
        "  A split by time takes them for the newest; mend them, or leave the rows out.",
    ]
    assert out.endswith("the data can be read; look at the warnings before you train on them.\n")
    with pytest.raises(DataError, match=r"clicks\.csv: 1 warning, and --strict allows none") as raised:
        check(path, strict=True)
    assert raised.value.exit_code == 1
    assert capsys.readouterr().out == out


def test_notes_are_no_failure(clean: pl.DataFrame, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "clicks.csv"
    clean.with_columns(rating=np.resize([1, 4, 5], len(clean))).write_csv(path)
    check(path, strict=True)
    assert capsys.readouterr().out.endswith("\n0 warnings, 1 note: nothing looks wrong.\n")


def test_min_rating_counts_what_it_leaves_out(clean: pl.DataFrame, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "clicks.csv"
    clean.with_columns(rating=np.resize([1, 4, 5], len(clean))).write_csv(path)
    check(path, strict=True, min_rating=4)
    n_low = -(-len(clean) // 3)
    out = capsys.readouterr().out
    assert f"format delimited, {len(clean) - n_low:,} rows, {n_low:,} more left out by min_rating\n" in out
    assert out.endswith("\nNothing looks wrong.\n")


def test_check_looks_at_the_parts_of_a_folder_together(clean: pl.DataFrame, tmp_path: Path, capsys: Captured) -> None:
    train, test = clean[: len(clean) * 3 // 4], clean[len(clean) * 3 // 4 - 5 :]
    train.write_csv(tmp_path / "train.csv")
    test.write_csv(tmp_path / "test.csv")
    check(tmp_path)
    out = capsys.readouterr().out
    assert f"{tmp_path / 'train.csv'}: train, {len(train):,} rows\n" in out
    assert f"{tmp_path / 'test.csv'}: test, {len(test):,} rows\n" in out
    assert out.count("columns: user = 'user'") == 1
    assert f" items, {len(clean):,} distinct pairs: " in out
    assert f"warning: test pairs that are also in train: 5 of {len(test):,} (" in out
    with pytest.raises(DataError, match=r"warnings?, and --strict allows none"):
        check(tmp_path, strict=True)


def test_check_as_json(clean: pl.DataFrame, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("train", "test"):
        clean.write_csv(tmp_path / "parts" / f"{name}.csv")
    check(tmp_path / "parts", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["users"], found["pairs"]) == (clean["user"].n_unique(), len(clean))
    assert [(file["part"], file["rows"], file["columns"]["time"]) for file in found["files"]] == [
        ("train", len(clean), "'time'"),
        ("test", len(clean), "'time'"),
    ]
    (finding,) = found["findings"]
    assert finding["severity"] == "warning"
    assert finding["what"] == "test holds exactly the pairs of train"
    assert finding["advice"]


def test_ids_on_the_terminal_are_harmless(clean: pl.DataFrame, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "clicks.parquet"
    is_first = pl.int_range(pl.len()) == 0
    clean.with_columns(user=pl.when(is_first).then(pl.lit("\x1b[31mU7 ")).otherwise("user")).write_parquet(path)
    check(path)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "'\\x1b[31mU7 '" in out


def test_what_cannot_be_read_is_an_error(tmp_path: Path, capsys: Captured) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("user,item\n1,2\n3\n")
    with pytest.raises(DataError, match=r"broken\.csv, line 3: 1 column, expected 2"):
        check(broken)
    with pytest.raises(DataError, match=r"no file, folder or data set '.*nowhere\.csv'"):
        check(tmp_path / "nowhere.csv")
    with pytest.raises(SettingsError, match="core cannot be set to check a file"):
        check(broken, core=5)
    assert capsys.readouterr().out == ""


def test_names_lead_to_the_data_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plays.csv").write_text("user,item\n1,2\n3,4\n")
    check(Path("plays"), folder=str(tmp_path))
    assert capsys.readouterr().out.startswith(str(tmp_path / "plays.csv"))
    with pytest.raises(DataError, match="'planted-clustered' has no file on this machine"):
        check(Path("planted-clustered"))


class TestOptions:
    def test_those_of_data_are_read_as_for_training(self) -> None:
        found = data_settings("x.csv", ["--columns", "user=a,item=1", "--data.min-rating=3", "--header", "no"])
        assert found == DataSettings(source="x.csv", columns={"user": "a", "item": "1"}, min_rating=3, header=False)

    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (["--cor", "5"], r"no option named '--cor' \(did you mean '--core'\?\); expected one of --format, "),
            (["--source", "y"], "no option named '--source'"),
            (["--core", "many"], "--core must be a whole number, got 'many'"),
            (["--core"], "--core needs a value"),
            (["y.csv"], "'y.csv' was not expected"),
            (["--columns", "usr=a"], "did you mean 'user'"),
        ],
    )
    def test_others_are_refused(self, words: list[str], complaint: str) -> None:
        with pytest.raises(SettingsError, match=complaint):
            data_settings("x.csv", words)


def test_the_commands_are_wired(command: Callable[..., Any], clean_file: Path) -> None:
    shown = command("data", "show", clean_file, "--min-user-pairs", "2", "--json")
    assert (shown.code, json.loads(shown.out)["items"]) == (0, 120)
    checked = command("data", "check", clean_file, "--strict")
    assert checked.code == 0
    assert "nothing looks wrong" in checked.out.lower()
    assert command("data", "show", clean_file, "--cor=2").code == 2
    assert command("data", "check", clean_file.with_name("none.csv")).code == 1


def test_looking_at_data_does_not_wait_for_torch(clean_file: Path) -> None:
    code = f"""
import sys
sys.argv = ["pspns", "data", "check", {str(clean_file)!r}]
from pspns.cli import main
main()
assert "torch" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
