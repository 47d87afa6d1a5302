from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pspns.data.arrays import write_arrays
from pspns.data.interactions import Interactions
from pspns.data.load import load
from pspns.data.settings import DataSettings
from pspns.data.split import Split
from pspns.data.splits.none import NoSplit
from pspns.errors import DataError, PspnsError, SettingsError
from pspns.out_of_core import sorted_rows, spilled_data
from pspns.out_of_core.spilled_data import SpilledData, find_train, spill


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(spilled_data, "PAIRS_AT_ONCE", 128)


def read(source: Path, scratch: Path, **settings: object) -> SpilledData:
    scratch.mkdir()
    chosen = DataSettings(source=str(source), **settings)  # type: ignore[arg-type]
    return spill(find_train(chosen), scratch, chosen.min_rating, progress=lambda line: None)


def rows(user_ids: list[str] | list[int]) -> pl.DataFrame:
    """400 rows, some of them twice, whose ids arrive in no order."""
    rng = np.random.default_rng(0)
    users, items, ratings = rng.integers(len(user_ids), size=400), rng.integers(60, size=400), rng.integers(1, 6, 400)
    frame = pl.DataFrame({"user": [user_ids[user] for user in users], "item": items - 7, "rating": ratings})
    return pl.concat([frame, frame.sample(30, seed=1)])


TEXTS = [*(f"u{number}" for number in range(30)), "007", "7", "12", "é\U0001f600"]


@pytest.mark.parametrize("min_rating", [None, 3.0])
@pytest.mark.parametrize(
    "user_ids", [list(range(100, 140)), [10**17, -3, *range(9)], TEXTS], ids=["small", "large", "text"]
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_as_in_memory(tmp_path: Path, user_ids: list[str] | list[int], suffix: str, min_rating: float | None) -> None:
    path = tmp_path / f"rows.{suffix}"
    frame = rows(user_ids)
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    spilled = read(path, tmp_path / "scratch", min_rating=min_rating)
    data = load(path, min_rating=min_rating)
    assert isinstance(data, Interactions)
    pairs = spilled.matrix.pairs_of(0, len(spilled.user_ids))
    assert np.array_equal(pairs.users, data.users)
    assert np.array_equal(pairs.items, data.items)
    for one, two in ((spilled.user_ids, data.user_ids), (spilled.item_ids, data.item_ids)):
        assert one.dtype == two.dtype
        assert np.array_equal(one, two)
    assert spilled.facts == data.facts
    assert "repeated rows merged" in spilled.facts[-1]
    split = Split.from_parts(data, NoSplit().assign(data, np.random.default_rng(0)), "every row is train")
    assert spilled.fingerprint() == split.fingerprint()
    assert spilled.made_by == split.made_by


def test_of_a_folder_only_the_train_file_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "train.csv").write_text("user,item\nb,2\na,1\n")
    (folder / "test.csv").write_text("user,item\nb,not read and so never found to be odd\n")
    spilled = read(folder, tmp_path / "scratch")
    assert spilled.user_ids.tolist() == ["a", "b"]
    assert spilled.item_ids.tolist() == [1, 2]
    assert spilled.made_by == "as given in parts: train.csv; other parts were not read"


@pytest.mark.parametrize(
    ("text", "settings", "complaint"),
    [
        ("user,item\n", {}, "no row below the header"),
        ("user,item\na,1\n,2\n", {}, "line 3: column 'user' is empty"),
        ("user,item\na,1\n", {"min_rating": 3.0}, "min_rating is 3, but there is no rating column"),
        ("user,item,rating\na,1,2\nb,1,1\n", {"min_rating": 3.0}, "ratings run from 1 to 2; lower min_rating"),
        ("user,item\na,1\n", {"core": 5}, "core cannot be set out of core"),
    ],
)
def test_errors(tmp_path: Path, text: str, settings: dict[str, object], complaint: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(PspnsError, match=complaint):
        read(path, tmp_path / "scratch", **settings)


def test_what_fits_into_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'planted-clustered' is a known data set"):
        find_train(DataSettings(source="planted-clustered"))
    write_arrays(Interactions.from_arrays([1, 2], [3, 4]), tmp_path / "loaded.npz")
    with pytest.raises(SettingsError, match="holds data that were loaded before"):
        find_train(DataSettings(source=str(tmp_path / "loaded.npz")))
    with pytest.raises(DataError, match="no file, folder or data set 'planted-clusterd'"):
        find_train(DataSettings(source="planted-clusterd"))
