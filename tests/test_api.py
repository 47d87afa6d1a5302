from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from forgery import reseal
from scipy import sparse

import pspns
from pspns.api import evaluate, fit, load, open_model
from pspns.data.interactions import Interactions
from pspns.errors import DataError, SettingsError
from pspns.training.stopping import EarlyStopping

MODELS = ("mf", "svd", "ease", "popular")
QUICK = {"model": "popular", "baselines": False, "threads": 1}


def test_three_lines_from_a_frame_to_recommendations(clicks: pl.DataFrame) -> None:
    model = pspns.fit(clicks, model="mf", embedding_size=4, batch_size=64, seeds=[0, 1], steps=5, threads=1)
    best = model.recommend("u3", k=5)
    assert best["rank"].to_list() == [1, 2, 3, 4, 5]
    assert model.result["settings"]["model"] == {"name": "mf", "embedding_size": 4}
    assert model.result["settings"]["training"]["batch_size"] == 64
    assert model.result["seeds"] == [0, 1]
    assert len(model.result["steps"]) == 2


def test_a_sampler_by_command_line_file_and_keyword_gives_the_same_figures(
    command: Callable[..., Any], clicks_file: Path, tmp_path: Path
) -> None:
    common = {"embedding_size": 4, "batch_size": 64, "steps": 30, "threads": 1, "baselines": False}
    settings = tmp_path / "dns.toml"
    settings.write_text(
        '[negatives]\nname = "dns"\ncandidates = 8\n[model]\nembedding_size = 4\n'
        "[training]\nbatch_size = 64\nsteps = 30\n[run]\nthreads = 1\nbaselines = false\n"
    )
    typed = ["--embedding-size", "4", "--batch-size", "64", "--steps", "30", "--threads", "1", "--no-baselines"]
    train = ["train", "--data", clicks_file, "--out"]
    for words in (
        [*train, tmp_path / "typed", "--negatives", "dns", "--negatives.candidates", "8", *typed],
        [*train, tmp_path / "filed", "--config", settings],
    ):
        done = command(*words)
        assert done.code == 0, done.err
    fit(clicks_file, negatives="dns", candidates=8, out=tmp_path / "called", **common)
    results = [json.loads((tmp_path / run / "result.json").read_text()) for run in ("typed", "filed", "called")]
    for result in results:
        assert result["settings"]["negatives"] == {"name": "dns", "candidates": 8, "frozen_scores": False}
        assert result["settings"] == results[0]["settings"]
        assert (result["valid"], result["test"]) == (results[0]["valid"], results[0]["test"])
    others = [fit(clicks_file, **other, **common).result for other in ({}, {"negatives": "dns", "candidates": 2})]
    assert all(other["test"] != results[0]["test"] for other in others)


class TestData:
    def test_every_form_gives_the_same_model(self, clicks: pl.DataFrame, clicks_file: Path, tmp_path: Path) -> None:
        expected = fit(clicks, **QUICK)
        for data in (clicks.to_pandas(), clicks.lazy(), clicks.to_arrow(), clicks_file, str(clicks_file), load(clicks)):
            model = fit(data, **QUICK)
            assert model.recommend().equals(expected.recommend())
            assert model.result["data"]["fingerprint"] == expected.result["data"]["fingerprint"]

    def test_a_sparse_matrix(self) -> None:
        matrix = sparse.csr_array([[1, 1, 0], [1, 0, 2], [1, 0, 0]])
        model = fit(matrix, split="none", **QUICK)
        assert model.recommend(2, k=2)["item"].to_list() == [1, 2]
        assert model.recommend(0)["item"].to_list() == [2]

    def test_a_folder_with_parts(self, tmp_path: Path) -> None:
        for part, rows in {"train": "a,1\na,2\nb,1\n", "valid": "b,2\n", "test": "a,3\n"}.items():
            (tmp_path / f"{part}.csv").write_text("user,item\n" + rows)
        model = fit(tmp_path, **QUICK)
        sizes = {part: model.result["data"][part] for part in ("train", "valid", "test")}
        assert sizes == {"train": 3, "valid": 1, "test": 1}

    def test_data_from_a_settings_file(self, clicks_file: Path, tmp_path: Path) -> None:
        config = tmp_path / "run.toml"
        config.write_text(f'[data]\nsource = "{clicks_file}"\n[model]\nname = "popular"\n[run]\nbaselines = false\n')
        model = fit(config=config)
        assert model.result["model"] == "popular"
        assert model.result["data"]["source"] == str(clicks_file)

    def test_the_record_names_what_was_handed_over(self, clicks: pl.DataFrame, tmp_path: Path) -> None:
        config = tmp_path / "run.toml"
        config.write_text('[data]\nsource = "elsewhere.csv"\n')
        assert fit(clicks, config=config, **QUICK).result["data"]["source"] is None

    def test_no_data(self) -> None:
        with pytest.raises(SettingsError, match="there are no data"):
            fit(**QUICK)
        with pytest.raises(DataError, match="cannot read data from int"):
            fit(5, **QUICK)

    def test_how_to_read_a_frame_is_said_by_options(self) -> None:
        frame = pl.DataFrame({"x": ["a", "a", "b"], "y": [1, 2, 1], "stars": [5, 1, 4]})
        columns = {"user": 0, "item": "y", "rating": "stars"}
        model = fit(frame, split="none", columns=columns, min_rating=4, **QUICK)
        assert model.result["data"]["train"] == 2


class TestOptions:
    def test_unknown_options_name_the_nearest(self, clicks: pl.DataFrame) -> None:
        with pytest.raises(SettingsError, match=r"no option named 'embeding_size' \(did you mean 'embedding_size'\?\)"):
            fit(clicks, embeding_size=3)
        with pytest.raises(SettingsError, match=r"fit: model: no models named 'mff'"):
            fit(clicks, model="mff")
        with pytest.raises(SettingsError, match=r"no recipe named 'plian'"):
            fit(clicks, recipe="plian")

    def test_data_given_twice(self, clicks: pl.DataFrame) -> None:
        with pytest.raises(SettingsError, match="given twice"):
            fit(clicks, source="clicks.csv")

    def test_options_win_over_the_file_and_the_file_over_the_recipe(self, clicks: pl.DataFrame, tmp_path: Path) -> None:
        config = tmp_path / "run.toml"
        config.write_text('[start]\nname = "normal"\nspread = 0.5\n[training]\npatience = 4\nbatch_size = 100\n')
        settings = fit(clicks, config=config, batch_size=200, **QUICK).result["settings"]
        assert settings["start"] == {"name": "normal", "spread": 0.5}
        assert (settings["training"]["patience"], settings["training"]["batch_size"]) == (4, 200)

    @pytest.mark.parametrize("options", [{"device": "cuda:9"}, {"device": "nonsense"}, {"batch_size": 0}])
    def test_settings_errors_come_before_the_data(self, options: dict[str, Any]) -> None:
        with pytest.raises(SettingsError):
            fit("/no/such/file.csv", **options)


class TestOut:
    def test_the_place_is_checked_before_anything_is_done(self, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").touch()
        with pytest.raises(SettingsError, match="exists already"):
            fit("/no/such/file.csv", out=tmp_path)

    def test_an_empty_folder_is_a_place_like_any_other(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        fit("planted-clustered", model="popular", baselines=False, threads=1, out=tmp_path / "run")
        assert (tmp_path / "run" / "result.json").is_file()

    def test_a_failing_run_leaves_nothing_behind(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no file, folder or data set"):
            fit("/no/such/file.csv", out=tmp_path / "a" / "b" / "run")
        assert list(tmp_path.iterdir()) == []

    def test_a_run_that_was_stopped_goes_on(
        self, clicks: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options: dict[str, Any] = {"embedding_size": 4, "batch_size": 64, "steps": 30, "evaluate_every": 10}
        options |= {"seeds": [0, 1], "threads": 1, "baselines": False, "checkpoint_seconds": 0, "out": tmp_path / "run"}
        look = EarlyStopping.look

        def stop_at_the_third(stopping: EarlyStopping, step: int, *more: Any) -> Any:
            if step == 30:
                raise KeyboardInterrupt
            return look(stopping, step, *more)

        monkeypatch.setattr(EarlyStopping, "look", stop_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            fit(clicks, **options)
        monkeypatch.undo()
        assert [path.name for path in tmp_path.iterdir()] == ["run.unfinished"]
        with pytest.raises(SettingsError, match="say --resume"):
            fit(clicks, **options)
        with pytest.raises(SettingsError, match=r"training\.l2: then 0\.0001, now 1"):
            fit(clicks, resume=True, **options, l2=1)
        resumed = fit(clicks, resume=True, **options)
        assert [path.name for path in tmp_path.iterdir()] == ["run"]
        with pytest.raises(SettingsError, match="is a finished run"):
            fit(clicks, resume=True, **options)
        plain = fit(clicks, overwrite=True, **options)
        for name, tensor in plain.scorer.tensors().items():
            assert torch.equal(resumed.scorer.tensors()[name], tensor)
        assert resumed.result["test"] == plain.result["test"]

    def test_without_a_place_there_is_nothing_to_go_on_with(self, clicks: pl.DataFrame) -> None:
        with pytest.raises(SettingsError, match="without out there is no checkpoint"):
            fit(clicks, resume=True, **QUICK)

    @pytest.mark.parametrize("name", MODELS)
    def test_a_model_read_back_recommends_the_same(self, fitted: Callable[[str], Any], name: str) -> None:
        made = fitted(name)
        read = open_model(made.folder)
        assert read.result == json.loads((made.folder / "result.json").read_text())
        assert read.replica == made.model.replica
        for request in ({}, {"users": ["u1", "nobody"]}, {"items": [101, 105]}, {"exclude": "train"}):
            assert read.recommend(**request).equals(made.model.recommend(**request))

    @pytest.mark.parametrize("name", MODELS)
    def test_evaluating_again_gives_the_figures_of_the_record(self, fitted: Callable[[str], Any], name: str) -> None:
        made = fitted(name)
        before = json.loads((made.folder / "result.json").read_text())
        after = json.loads(json.dumps(evaluate(open_model(made.folder))))
        same = set(before) - {"baselines", "baselines_left_out", "seconds"}
        assert {key: after[key] for key in same} == {key: before[key] for key in same}

    def test_evaluating_at_other_lengths(self, fitted: Callable[[str], Any]) -> None:
        model = fitted("mf").model
        found = evaluate(model, (3, 5))
        assert found["test"]["recall@5"] == model.result["test"]["recall@5"]
        assert found["test"]["recall@3"]["mean"] <= found["test"]["recall@5"]["mean"]
        assert "recall@10" not in found["test"]
        assert evaluate(model, 3)["test"] == evaluate(model, "3")["test"]
        with pytest.raises(SettingsError, match="evaluate: k must be whole numbers of at least 1"):
            evaluate(model, 0)

    def test_fitting_twice_gives_the_same_bits(self, clicks: pl.DataFrame, fitted: Callable[[str], Any]) -> None:
        options = {"steps": 20, "evaluate_every": 10, "embedding_size": 8, "learning_rate": 0.05}
        alone = fit(clicks, model="mf", threads=1, k=(5, 10), inactive=20, seeds=7, baselines=False, **options)
        in_company = fitted("mf").model
        assert alone.result["test"]["ndcg@10"]["per_seed"] == in_company.result["test"]["ndcg@10"]["per_seed"][2:]


def test_refitting_on_everything(clicks: pl.DataFrame, tmp_path: Path) -> None:
    model = fit(clicks, split="none", steps=5, threads=1, out=tmp_path / "run")
    assert (model.result["data"]["train"], model.result["data"]["test"]) == (len(clicks), 0)
    assert model.result["test"] == model.result["valid"] == {}
    assert evaluate(open_model(tmp_path / "run"))["test"] == {}
    assert pl.read_parquet(tmp_path / "run" / "per_user.parquet").is_empty()
    with pytest.raises(SettingsError, match="steps"):
        fit(clicks, split="none", threads=1)


def test_lists_that_are_all_empty_do_not_break_the_record(tmp_path: Path) -> None:
    # The one user of the test has both items of train: nothing is left to rank, and no list has a mean popularity.
    for part, rows in {"train": "a,1\nb,2\n", "valid": "a,2\n", "test": "a,3\n"}.items():
        (tmp_path / f"{part}.csv").write_text("user,item\n" + rows)
    model = fit(tmp_path, steps=3, threads=1, baselines=False, out=tmp_path / "run")
    assert model.result["test"]["recall@20"]["mean"] == 0
    assert "mean-popularity@20" in model.result["valid"]
    assert "mean-popularity@20" not in model.result["test"]


def test_the_package_shows_its_face() -> None:
    assert pspns.fit is fit
    assert pspns.open_model is open_model
    assert pspns.evaluate is evaluate
    assert isinstance(pspns.load(sparse.csr_array(np.eye(2))), Interactions)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        pspns.fitt  # noqa: B018


def test_a_result_that_names_foreign_code_does_not_run_it(tmp_path, monkeypatch):
    """Neither the manifest's model nor any part in result.json may import what somebody else wrote."""
    (tmp_path / "payload.py").write_text("raise SystemExit('foreign code ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    fit("planted-clustered", model="popular", threads=1, baselines=False, out=tmp_path / "run")
    result_path = tmp_path / "run" / "result.json"
    result = json.loads(result_path.read_text())
    for section in ("negatives", "positives", "start", "model", "split", "weighting"):
        result["settings"].setdefault(section, {})["name"] = "payload:X"
    result_path.write_text(json.dumps(result))
    reseal(tmp_path / "run")
    assert evaluate(open_model(tmp_path / "run"))["test"]
    reseal(tmp_path / "run", model="payload:X")
    with pytest.raises(DataError, match="only models of this package are opened"):
        open_model(tmp_path / "run")


def test_without_validation_the_first_replica_is_served():
    model = fit(
        "planted-clustered", model="mf", steps=5, seeds=[3, 4, 5], split="random", valid_share=0.0, baselines=False,
        threads=1,
    )  # fmt: skip
    assert model.result["served_replica"] == 0
