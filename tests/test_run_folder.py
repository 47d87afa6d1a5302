from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pspns.api import fit
from pspns.errors import DataError, SettingsError
from pspns.run_folder import new_run_folder, open_model, read_history, read_per_user, read_result, unfinished_run


def look_like_a_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{}")
    (folder / "model").mkdir()
    (folder / "model" / "manifest.json").write_text("{}")
    return folder


class TestNewRunFolder:
    def test_it_appears_whole_when_the_block_ends(self, tmp_path: Path) -> None:
        target = tmp_path / "a" / "run"
        with new_run_folder(target) as folder:
            (folder / "result.json").write_text("{}")
            assert not target.exists()
        assert [path.name for path in target.iterdir()] == ["result.json"]
        assert [path.name for path in target.parent.iterdir()] == ["run"]

    def test_its_mode_follows_the_umask(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            with new_run_folder(tmp_path / "run"):
                pass
        finally:
            os.umask(before)
        assert (tmp_path / "run").stat().st_mode & 0o777 == 0o750

    @pytest.mark.parametrize("error", [ValueError("a bug"), OSError("of the block itself"), KeyboardInterrupt()])
    def test_whatever_goes_wrong_leaves_nothing_and_comes_through(self, tmp_path: Path, error: BaseException) -> None:
        def fail_half_way() -> None:
            with new_run_folder(tmp_path / "a" / "b" / "run") as folder:
                (folder / "half").write_text("done")
                raise error

        with pytest.raises(type(error)) as caught:
            fail_half_way()
        assert caught.value is error
        assert list(tmp_path.iterdir()) == []

    def test_folders_that_were_there_before_stay(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        with pytest.raises(ValueError, match="bug"), new_run_folder(tmp_path / "a" / "b" / "run"):
            raise ValueError("bug")
        assert list(tmp_path.rglob("*")) == [tmp_path / "a"]

    @pytest.mark.promise("nothing-overwritten")
    def test_an_earlier_run_is_replaced_only_if_asked(self, tmp_path: Path) -> None:
        target = look_like_a_run(tmp_path / "run")
        with pytest.raises(SettingsError, match="exists already; choose another --out, or say --overwrite"):
            new_run_folder(target).__enter__()
        with new_run_folder(target, overwrite=True) as folder:
            (folder / "result.json").write_text('{"new": 1}')
            assert (target / "model").is_dir()
        assert [path.name for path in target.iterdir()] == ["result.json"]
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    @pytest.mark.promise("nothing-overwritten")
    def test_a_failing_run_does_not_cost_the_earlier_one(self, tmp_path: Path) -> None:
        target = look_like_a_run(tmp_path / "run")
        with pytest.raises(ValueError, match="bug"), new_run_folder(target, overwrite=True):
            raise ValueError("bug")
        assert (target / "model" / "manifest.json").exists()
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    @pytest.mark.promise("nothing-overwritten")
    def test_an_earlier_run_that_cannot_be_replaced_is_put_back(self, tmp_path: Path) -> None:
        target = look_like_a_run(tmp_path / "run")
        with pytest.raises(SettingsError, match="cannot write"), new_run_folder(target, overwrite=True) as folder:
            folder.rmdir()  # so that there is nothing to move into place
        assert (target / "model" / "manifest.json").exists()
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    @pytest.mark.promise("nothing-overwritten")
    def test_what_no_run_wrote_is_never_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "cat.png").touch()
        (tmp_path / "file").write_text("mine")
        notes = look_like_a_run(tmp_path / "run") / "notes.txt"
        notes.write_text("mine")
        for name, reason in (("photos", "has no result.json"), ("file", "has no result.json"), ("run", "notes.txt")):
            with pytest.raises(SettingsError, match=f"is not overwritten: it .*{reason}"):
                new_run_folder(tmp_path / name, overwrite=True).__enter__()
        with pytest.raises(SettingsError, match="is not overwritten"):
            new_run_folder(Path("/"), overwrite=True).__enter__()
        assert notes.read_text() == (tmp_path / "file").read_text() == "mine"

    @pytest.mark.promise("nothing-overwritten")
    def test_a_run_finished_meanwhile_is_not_replaced(self, tmp_path: Path) -> None:
        target = tmp_path / "run"
        with pytest.raises(SettingsError, match=r"cannot write .*run: Directory not empty"), new_run_folder(target):
            look_like_a_run(target)
        assert (target / "model").is_dir()
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    @pytest.mark.parametrize("place", ["file/run", "x" * 300, "new/" + "x" * 300])
    def test_a_place_that_cannot_be_written(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SettingsError, match=r"cannot write to .*choose another --out"):
            new_run_folder(tmp_path / place).__enter__()
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


CHECKPOINT = "step-000000007.safetensors"


def leave_checkpoint(target: Path) -> Path:
    checkpoint = target.with_name(f"{target.name}.unfinished") / CHECKPOINT
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    return checkpoint


class TestUnfinishedRun:
    def test_checkpoints_go_once_the_run_is_in_its_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        target = tmp_path / "runs" / "run"
        there: list[bool] = []
        replace = Path.replace
        with unfinished_run(target) as place:
            (place.folder / "result.json").write_text("{}")
            checkpoint = place.checkpoints / CHECKPOINT
            checkpoint.touch()
            monkeypatch.setattr(Path, "replace", lambda *paths: (replace(*paths), there.append(checkpoint.exists())))
        assert there == [True]
        assert list(target.parent.iterdir()) == [target]

    def test_a_failure_keeps_them_and_leaves_nothing_else(self, tmp_path: Path) -> None:
        def fail(target: Path, *checkpoints: str) -> None:
            with unfinished_run(target) as place:
                for name in checkpoints:
                    (place.checkpoints / name).touch()
                raise ValueError("bug")

        with pytest.raises(ValueError, match="bug"):
            fail(tmp_path / "runs" / "run", CHECKPOINT)
        assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run.unfinished"]
        with pytest.raises(ValueError, match="bug"):
            fail(tmp_path / "others" / "run")
        assert [path.name for path in tmp_path.iterdir()] == ["runs"]

    @pytest.mark.promise("nothing-overwritten")
    def test_those_of_an_earlier_run_are_used_refused_or_removed(self, tmp_path: Path) -> None:
        checkpoint = leave_checkpoint(tmp_path / "run")
        with pytest.raises(SettingsError, match="say --resume to go on with it, or --overwrite to start anew"):
            unfinished_run(tmp_path / "run").__enter__()
        with unfinished_run(tmp_path / "run", resume=True):
            assert checkpoint.exists()
        leave_checkpoint(tmp_path / "run")
        with unfinished_run(tmp_path / "run", overwrite=True) as place:
            assert not checkpoint.exists()
            (place.folder / "result.json").touch()

    @pytest.mark.promise("nothing-overwritten")
    def test_a_place_that_is_refused_costs_no_checkpoint(self, tmp_path: Path) -> None:
        checkpoint = leave_checkpoint(tmp_path / "run")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "mine.txt").touch()
        with pytest.raises(SettingsError, match="is not overwritten"):
            unfinished_run(tmp_path / "run", overwrite=True).__enter__()
        assert checkpoint.exists()

    @pytest.mark.promise("nothing-overwritten")
    def test_a_finished_run_has_nothing_to_go_on_with(self, tmp_path: Path) -> None:
        target = look_like_a_run(tmp_path / "run")
        with pytest.raises(
            SettingsError, match=r"is a finished run.*leave --resume out and say --overwrite to run again"
        ):
            unfinished_run(target, resume=True).__enter__()
        checkpoint = leave_checkpoint(target)
        with pytest.raises(SettingsError, match=r"is a finished run.*run\.unfinished.*say --overwrite too"):
            unfinished_run(target, resume=True).__enter__()
        with unfinished_run(target, resume=True, overwrite=True):
            assert checkpoint.exists()
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    @pytest.mark.promise("nothing-overwritten")
    def test_what_a_killed_process_left_is_removed(self, tmp_path: Path) -> None:
        """And nothing that only resembles it."""
        others = [".run.0123456", ".run.0123456g", ".other.01234567", ".run.01234567.old", "run.01234567"]
        for name in (".run.01234567", *others):
            look_like_a_run(tmp_path / name)
        (tmp_path / ".run.89abcdef").mkdir()
        mine = look_like_a_run(tmp_path / ".run.abcdefab") / "mine.txt"
        mine.touch()
        with unfinished_run(tmp_path / "run"):
            pass
        assert {path.name for path in tmp_path.iterdir()} == {"run", ".run.abcdefab", *others}

    def test_special_characters_in_the_name(self, tmp_path: Path) -> None:
        look_like_a_run(tmp_path / ".run1.01234567")
        look_like_a_run(tmp_path / ".run[1].01234567")
        with unfinished_run(tmp_path / "run[1]"):
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) == [".run1.01234567", "run[1]"]


class TestContent:
    def test_every_file_is_there_and_nothing_else(self, fitted: Callable[[str], Any]) -> None:
        names = {str(path.relative_to(fitted("mf").folder)) for path in fitted("mf").folder.rglob("*")}
        assert names == {
            "result.json",
            "metrics.jsonl",
            "per_user.parquet",
            "model",
            "model/manifest.json",
            "model/model.safetensors",
            "model/pairs.safetensors",
            "model/users.parquet",
            "model/items.parquet",
        }

    def test_files_may_be_read_by_whom_the_umask_lets(self, fitted: Callable[[str], Any]) -> None:
        modes = {path.stat().st_mode for path in fitted("mf").folder.rglob("*") if path.is_file()}
        assert len(modes) == 1

    def test_history_has_one_line_for_each_evaluation_and_seed(self, fitted: Callable[[str], Any]) -> None:
        lines = read_history(fitted("mf").folder)
        assert [(line["step"], line["seed"]) for line in lines] == [(s, seed) for s in (10, 20) for seed in (3, 0, 7)]
        result = read_result(fitted("mf").folder)
        assert set(lines[0]) == {"step", "epoch", "seconds", "seed", "loss", "part", "metrics"}
        # Exactly 20 steps were asked for, so the last look is the one that counts.
        for name, figures in result["valid"].items():
            assert [line["metrics"][name] for line in lines[3:]] == figures["per_seed"]

    def test_a_model_without_a_loop_has_no_history(self, fitted: Callable[[str], Any]) -> None:
        assert read_history(fitted("popular").folder) == []

    def test_per_user_figures_have_the_means_of_the_result(self, fitted: Callable[[str], Any]) -> None:
        result, frame = read_result(fitted("mf").folder), read_per_user(fitted("mf").folder)
        masks = {"valid": "train", "test": "train+valid"}
        n_checked = 0
        for model, figures in {"mf": result, **result["baselines"]}.items():
            seeds = result["seeds"] if model == "mf" else [None]
            for part, mask, found in (
                ("valid", masks["valid"], figures["valid"]),
                ("test", masks["test"], figures["test"]),
                ("test", "train", figures["test_other_masks"]["train"]),
            ):
                for place, seed in enumerate(seeds):
                    rows = frame.filter(
                        pl.col("seed").eq_missing(pl.lit(seed, pl.Int64)), model=model, part=part, mask=mask
                    )
                    for metric in ("recall@5", "precision@10", "ndcg@20", "hit-rate@5", "mrr@10", "map@20"):
                        assert rows[metric].mean() == pytest.approx(found[metric]["per_seed"][place], abs=1e-12)
                        n_checked += 1
        assert n_checked == (3 + 3) * 3 * 6
        assert result["test"]["recall@5"]["mean"] == pytest.approx(np.mean(result["test"]["recall@5"]["per_seed"]))

    def test_per_user_rows_say_whose_they_are(self, fitted: Callable[[str], Any]) -> None:
        split, frame = fitted("mf").model.split, read_per_user(fitted("mf").folder)
        assert frame.columns[:7] == ["model", "seed", "part", "mask", "user", "train_pairs", "held_out_pairs"]
        assert set(frame["model"]) == {"mf", "popular", "svd", "ease"}
        rows = frame.filter(model="mf", seed=7, part="test", mask="train")
        expected = {}
        for user in np.unique(split.test.users):
            pairs = (int((split.train.users == user).sum()), int((split.test.users == user).sum()))
            expected[split.user_ids[user]] = pairs
        assert {user: pairs for user, *pairs in rows["user", "train_pairs", "held_out_pairs"].iter_rows()} == {
            user: list(pairs) for user, pairs in expected.items()
        }
        assert (rows["train_pairs"] == 0).any(), "users unknown to train should be among them"

    @pytest.mark.parametrize(
        ("users", "dtype"), [([5, 2**40], pl.Int64), ([1, 2**64 - 1], pl.UInt64), (["7", "x"], pl.String)]
    )
    def test_ids_have_the_type_of_the_data(self, tmp_path: Path, users: list[Any], dtype: Any) -> None:
        rows = [(user, item) for user in users for item in range(10)]
        frame = pl.DataFrame({"user": pl.Series([u for u, _ in rows], dtype=dtype), "item": [i for _, i in rows]})
        fit(frame, model="popular", baselines=False, out=tmp_path / "run")
        column = read_per_user(tmp_path / "run")["user"]
        assert column.dtype == dtype
        assert set(column) <= set(users)
        assert len(column) > 0


class TestReading:
    def test_what_is_no_run(self, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "none"):
            with pytest.raises(DataError, match=r"is not a run's folder: it has no result\.json"):
                open_model(folder)

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [("{", "is not JSON"), ("[]", "expected a JSON object, got list"), ('{"model": "mf"}', "has no 'protocol'")],
    )
    def test_a_result_that_is_none(self, tmp_path: Path, text: str, complaint: str) -> None:
        (tmp_path / "result.json").write_text(text)
        with pytest.raises(DataError, match=rf"result\.json: {complaint}"):
            read_result(tmp_path)

    def test_damaged_figures(self, tmp_path: Path) -> None:
        (tmp_path / "per_user.parquet").write_text("no parquet")
        (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st')
        with pytest.raises(DataError, match=r"per_user\.parquet: cannot be read"):
            read_per_user(tmp_path)
        with pytest.raises(DataError, match=r"metrics\.jsonl: cannot be read"):
            read_history(tmp_path)
        with pytest.raises(DataError, match=r"per_user\.parquet: cannot be read"):
            read_per_user(tmp_path / "none")

    def test_a_device_that_is_not_there(self, fitted: Callable[[str], Any]) -> None:
        with pytest.raises(SettingsError, match="no device named 'gpu'"):
            open_model(fitted("popular").folder, device="gpu")

    def test_json_is_valid_json(self, fitted: Callable[[str], Any]) -> None:
        def refuse(constant: str) -> None:
            raise AssertionError(constant)

        text = (fitted("mf").folder / "result.json").read_text()
        assert json.loads(text, parse_constant=refuse)["model"] == "mf"
