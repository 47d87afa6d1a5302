"""Runs that are stopped and go on: whose a checkpoint is, what may change in between, and where it lies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import given_split

from pspns.data.settings import DataSettings
from pspns.data.split import GivenSplit, Part
from pspns.data.splits.random import RandomSplit
from pspns.errors import PspnsError, SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.memory import MemoryBudget
from pspns.models.lightgcn import LightGcn
from pspns.models.mf import MatrixFactorisation
from pspns.models.popular import Popular
from pspns.positives.psp import PspPositives
from pspns.resume import WITHOUT_EFFECT, has_checkpoint, make_way, open_checkpoints, unfinished, unfinished_folder
from pspns.run import Run, build_world, make_split, run, run_together
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.starts.normal import NormalStart
from pspns.training.loop import Saving
from pspns.training.settings import TrainingSettings
from pspns.weightings.log import LogWeighting

SETTINGS = Settings(
    model=MatrixFactorisation(embedding_size=6),
    training=TrainingSettings(batch_size=100, learning_rate=0.02, steps=40, evaluate_every=10),
    evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=10),
    run=RunSettings(seeds=(0, 3), device="cpu", baselines=False),
)
OTHER = dataclasses.replace(
    SETTINGS,
    positives=PspPositives(rank=8),
    weighting=LogWeighting(),
    start=NormalStart(),
    run=dataclasses.replace(SETTINGS.run, seeds=(3,), protocol="published"),
)


@pytest.fixture(scope="module")
def data() -> GivenSplit:
    return given_split(60, 40, 600)


def changed(settings: Settings, section: str, **changes: Any) -> Settings:
    return dataclasses.replace(
        settings, **{section: dataclasses.replace(getattr(settings, section) or RandomSplit(), **changes)}
    )


def stop_at(wanted: int) -> Callable[..., None]:
    def watch(step: int, last_step: int, evaluation: Any) -> None:
        if step == wanted:
            raise KeyboardInterrupt

    return watch


def stop_a_run(data: GivenSplit, settings: Settings, folder: Path, step: int = 13) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(data, settings, checkpoints=folder, watch=stop_at(step))
    assert has_checkpoint(folder)


def assert_same(found: Run, expected: Run) -> None:
    for name, tensor in expected.model.fitted.scorer.tensors().items():
        assert torch.equal(found.model.fitted.scorer.tensors()[name], tensor)
    assert [ranked.overall for ranked in found.model.test] == [ranked.overall for ranked in expected.model.test]
    histories = [[(look.step, look.metrics) for look in one.model.fitted.history] for one in (found, expected)]
    assert histories[0] == histories[1]


class TestGoingOn:
    @pytest.mark.parametrize("model", [MatrixFactorisation(embedding_size=6), LightGcn(embedding_size=6, layers=2)])
    def test_several_settings_in_one_loop(self, data: GivenSplit, tmp_path: Path, model: Any) -> None:
        members = [dataclasses.replace(one, model=model) for one in (SETTINGS, OTHER)]
        expected = run_together(data, members)
        said: list[str] = []
        for step in (13, 30):
            with pytest.raises(KeyboardInterrupt):
                run_together(data, members, checkpoints=tmp_path, resume=True, watch=stop_at(step), say=said.append)
        found = run_together(data, members, checkpoints=tmp_path, resume=True, say=said.append)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        assert [line for line in said if "step" in line or "checkpoint" in line] == [
            f"there is no checkpoint in {tmp_path}; training starts at the beginning",
            f"going on after step 13, from {tmp_path}",
            f"going on after step 30, from {tmp_path}",
        ]

    def test_seconds_of_training_are_those_of_all_pieces(
        self, data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stop_a_run(data, SETTINGS, tmp_path)
        monkeypatch.setattr("pspns.training.loop.Saving.seconds_before", property(lambda saving: 1000.0))
        assert 1000 < run(data, SETTINGS, checkpoints=tmp_path, resume=True).seconds["training"] < 1600

    def test_how_often_checkpoints_are_written_is_a_setting(self, data: GivenSplit, tmp_path: Path) -> None:
        for seconds, expected in ((30, []), (0, ["step-000000030.safetensors", "step-000000040.safetensors"])):
            run(data, changed(SETTINGS, "run", checkpoint_seconds=seconds), checkpoints=tmp_path)
            assert sorted(path.name for path in tmp_path.iterdir()) == expected

    @pytest.mark.promise("nothing-overwritten")
    def test_nobody_starts_over_a_checkpoint_unasked(self, data: GivenSplit, tmp_path: Path) -> None:
        stop_a_run(data, SETTINGS, tmp_path)
        with pytest.raises(SettingsError, match=r"say --resume to go on with it, or --overwrite to start anew"):
            run(data, SETTINGS, checkpoints=tmp_path)

    def test_a_model_without_a_loop_has_no_checkpoints(self, data: GivenSplit, tmp_path: Path) -> None:
        settings = changed(dataclasses.replace(SETTINGS, model=Popular()), "run", checkpoint_seconds=0)
        for resume in (False, True):
            run(data, settings, checkpoints=tmp_path / "new", resume=resume)
        assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def stopped(data: GivenSplit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    stop_a_run(data, SETTINGS, folder)
    return folder


class TestIdentity:
    """What may be different when a run goes on, and what may not."""

    @pytest.mark.parametrize(
        ("section", "changes", "complaint"),
        [
            ("training", {"l2": 0.5}, "training.l2: then 0.0001, now 0.5"),
            ("training", {"steps": 50}, "training.steps: then 40, now 50"),
            ("training", {"loss": "bce"}, "training.loss: then 'bpr', now 'bce'"),
            ("model", {"embedding_size": 7}, "model.embedding_size: then 6, now 7"),
            ("evaluation", {"k": (5, 7)}, "evaluation.k: then [5], now [5, 7]"),
            ("run", {"seeds": (3, 0)}, "run.seeds: then [0, 3], now [3, 0]"),
            ("run", {"protocol": "published"}, "run.protocol: then 'strict', now 'published'"),
            ("data", {"min_rating": 3.0}, "data.min_rating: then unset, now 3.0"),
            ("split", {}, "split: then unset, now {'name': 'random'"),
        ],
    )
    def test_settings_that_shape_training_are_refused_by_name(
        self, data: GivenSplit, stopped: Path, section: str, changes: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(SettingsError, match="belongs to another training") as caught:
            run(data, changed(SETTINGS, section, **changes), checkpoints=stopped, resume=True)
        assert complaint in str(caught.value)
        assert "use the same settings, or start anew with --overwrite" in str(caught.value)

    def test_other_data_are_refused(self, data: GivenSplit, stopped: Path) -> None:
        parts = data.parts.copy()
        parts[np.flatnonzero(parts == Part.VALID)[0]] = Part.TEST
        with pytest.raises(
            SettingsError, match=r"parts\.fingerprint: then .*parts\.valid: then 75, now 74; parts\.test"
        ):
            run(dataclasses.replace(data, parts=parts), SETTINGS, checkpoints=stopped, resume=True)

    def test_another_model_is_refused_even_if_it_needs_no_checkpoint(self, data: GivenSplit, stopped: Path) -> None:
        with pytest.raises(SettingsError, match=r"model\.name: then 'mf', now 'popular'"):
            run(data, dataclasses.replace(SETTINGS, model=Popular()), checkpoints=stopped, resume=True)

    def test_pairs_that_are_built_differently_are_refused(
        self, data: GivenSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As another machine might, whose last bits differ."""
        settings = dataclasses.replace(SETTINGS, positives=PspPositives(rank=8))
        stop_a_run(data, settings, tmp_path)
        build = PspPositives.build

        def build_other(part: PspPositives, ground: Any) -> Any:
            built = build(part, ground)
            built.copies[0] += 1
            return built

        monkeypatch.setattr(PspPositives, "build", build_other)
        with pytest.raises(SettingsError, match=r"\(pairs: then '[^;]*\)"):
            run(data, settings, checkpoints=tmp_path, resume=True)

    @pytest.mark.parametrize("what", ["pspns.__version__", "torch.__version__"])
    def test_other_versions_are_refused(
        self, data: GivenSplit, stopped: Path, monkeypatch: pytest.MonkeyPatch, what: str
    ) -> None:
        monkeypatch.setattr(what, "9.9")
        with pytest.raises(SettingsError, match=rf"versions\.{what.partition('.')[0]}: then '.*', now '9\.9'"):
            run(data, SETTINGS, checkpoints=stopped, resume=True)

    def test_another_kind_of_device_is_refused(self, data: GivenSplit, tmp_path: Path) -> None:
        """Where there is no GPU, a device without memory plays its part."""
        split = make_split(data, SETTINGS, find_protocol("strict"))

        def opened(device: str, resume: bool) -> Saving:
            memory = MemoryBudget(torch.device(device), 1.0)
            world = build_world(split, SETTINGS, find_protocol("strict"), MemoryBudget(torch.device("cpu")))
            there = [dataclasses.replace(world, memory=memory)]
            return open_checkpoints(tmp_path, [SETTINGS], split, there, resume=resume, say=lambda line: None)

        opened("cpu", False).checkpoints.write(1, {}, {})
        assert opened("cpu", True).resume_from
        with pytest.raises(SettingsError, match=r"\(device: then 'cpu', now 'meta'\)"):
            opened("meta", True)

    def test_one_of_several_settings_is_named(self, data: GivenSplit, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            run_together(data, [SETTINGS, OTHER], checkpoints=tmp_path, watch=stop_at(3))
        other = changed(OTHER, "weighting", sensitivity=0.5)
        with pytest.raises(SettingsError, match=r"\(member 2\.weighting\.sensitivity: then 0\.01, now 0\.5"):
            run_together(data, [SETTINGS, other], checkpoints=tmp_path, resume=True)

    @pytest.mark.parametrize(
        ("section", "changes"),
        [
            ("data", {"source": "moved.csv", "folder": "elsewhere"}),
            ("evaluation", {"inactive": 5}),
            ("run", {"device": "auto", "threads": 1, "memory_gib": 1.0, "baselines": True, "checkpoint_seconds": 1.0}),
        ],
    )
    def test_settings_without_effect_on_training_may_change(
        self, data: GivenSplit, tmp_path: Path, section: str, changes: dict[str, Any]
    ) -> None:
        """And the run ends as one that had them from the beginning."""
        if torch.cuda.is_available():
            changes = {**changes, "device": "cpu"} if "device" in changes else changes
        assert changes.keys() == WITHOUT_EFFECT[section]
        settings = changed(SETTINGS, section, **changes)
        stop_a_run(data, SETTINGS, tmp_path)
        assert_same(run(data, settings, checkpoints=tmp_path, resume=True), run(data, settings))

    def test_a_data_set_of_any_kind_has_an_identity(self, data: GivenSplit, tmp_path: Path) -> None:
        columns = DataSettings(columns={"user": "a", "item": 1, "rating": None})
        stop_a_run(data, dataclasses.replace(SETTINGS, data=columns), tmp_path)
        run(data, dataclasses.replace(SETTINGS, data=columns), checkpoints=tmp_path, resume=True)


class TestThePlace:
    def test_it_lies_beside_the_target_and_goes_with_success(self, tmp_path: Path) -> None:
        target = tmp_path / "new" / "run"
        with unfinished(target) as folder:
            assert folder == unfinished_folder(target) == tmp_path / "new" / "run.unfinished"
            (folder / "step-000000001.safetensors").touch()
            assert has_checkpoint(folder)
            target.mkdir()
        assert list(target.parent.iterdir()) == [target]

    @pytest.mark.parametrize("error", [ValueError("a bug"), KeyboardInterrupt()])
    def test_failure_keeps_checkpoints_and_nothing_else(self, tmp_path: Path, error: BaseException) -> None:
        def fail(*names: str) -> None:
            with unfinished(tmp_path / "new" / "run") as folder:
                for name in names:
                    (folder / name).touch()
                raise error

        with pytest.raises(type(error)):
            fail()
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(type(error)):
            fail("step-000000001.safetensors")
        folder = tmp_path / "new" / "run.unfinished"
        assert list((tmp_path / "new").iterdir()) == [folder]
        assert [path.name for path in folder.iterdir()] == ["step-000000001.safetensors"]

    @pytest.mark.promise("nothing-overwritten")
    def test_only_one_at_a_time(self, tmp_path: Path) -> None:
        with unfinished(tmp_path / "run"), unfinished(tmp_path / "other"):
            with pytest.raises(PspnsError, match=r"run\.unfinished: another run \(process \d+ on .*\) writes"):
                unfinished(tmp_path / "run").__enter__()
            assert (tmp_path / "run.unfinished").is_dir()
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.promise("nothing-overwritten")
    def test_making_way(self, tmp_path: Path) -> None:
        make_way(tmp_path)
        mine = tmp_path / "mine.txt"
        mine.touch()
        (tmp_path / "step-000000001.safetensors").touch()
        with pytest.raises(SettingsError, match="holds checkpoints of a run that was stopped"):
            make_way(tmp_path)
        assert has_checkpoint(tmp_path)
        make_way(tmp_path, overwrite=True)
        assert list(tmp_path.iterdir()) == [mine]

    @pytest.mark.parametrize("place", ["file/run", "x" * 300])
    def test_a_place_that_cannot_be_written(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(PspnsError, match="choose another --out"):
            unfinished(tmp_path / place).__enter__()
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.parametrize("method", ["exists", "mkdir"])
    @pytest.mark.parametrize("place", ["/", "/run"])
    def test_a_place_of_somebody_else(self, monkeypatch: pytest.MonkeyPatch, method: str, place: str) -> None:
        def refuse(folder: Path, *more: Any, **options: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, method, refuse)
        with pytest.raises(PspnsError, match=r"Permission denied.*choose another --out"):
            unfinished(Path(place)).__enter__()
