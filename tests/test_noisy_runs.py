"""Runs with noise: what learns from false pairs, what must not know them, and what is written down of them."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import polars as pl
import pytest
import torch
from forgery import reseal
from safetensors.torch import load_file, save_file
from toy import given_split

from pspns.api import build_positives, evaluate, fit
from pspns.data.settings import DataSettings
from pspns.data.split import Pairs
from pspns.denoising.t_ce import TruncatedLoss
from pspns.dry_run import estimate
from pspns.errors import DataError, SettingsError
from pspns.evaluation.protocol import PROTOCOLS
from pspns.evaluation.validation_loss import ValidationLoss
from pspns.item_sets import ItemSets
from pspns.memory import MemoryBudget
from pspns.models._dot_product import DotProduct
from pspns.models.mf import MatrixFactorisation
from pspns.out_of_core.streamed_build import build_to_folder
from pspns.positives.psp import PspPositives
from pspns.recommender import Recommender
from pspns.record import describe_run
from pspns.run import build_world, check_company, make_split, prepare_rankings, run
from pspns.run_folder import new_run_folder, open_model, read_history
from pspns.settings import EvaluationSettings, RunSettings, Settings
from pspns.training.settings import TrainingSettings

MEMORY = MemoryBudget(torch.device("cpu"))
NOISE = DataSettings(noise=0.5)


def settings(protocol="strict", **changes) -> Settings:
    base = Settings(
        data=NOISE,
        model=MatrixFactorisation(embedding_size=6),
        training=TrainingSettings(steps=20, batch_size=64, evaluate_every=10),
        evaluation=EvaluationSettings(k=(5,), select_by="recall@5", inactive=10),
        run=RunSettings(protocol=protocol, seeds=(3, 0), device="cpu", baselines=False),
    )
    return dataclasses.replace(base, **changes)


def noisy_split(chosen: Settings | None = None):
    chosen = chosen or settings()
    return make_split(given_split(40, 30, 300), chosen, PROTOCOLS[chosen.run.protocol])


def keys(*parts) -> set[tuple[int, int]]:
    return {pair for part in parts for pair in zip(part.users.tolist(), part.items.tolist(), strict=True)}


def of_sets(sets: ItemSets) -> set[tuple[int, int]]:
    return {(key // sets.n_items, key % sets.n_items) for key in sets.keys.tolist()}


def test_noise_is_added_after_the_split_as_the_setting_says():
    clean, noisy = noisy_split(settings(data=DataSettings())), noisy_split()
    assert len(noisy.noise) == pytest.approx(0.5 * len(clean.train), abs=1)
    assert keys(noisy.train) == keys(clean.train, noisy.noise)
    assert keys(noisy.test) == keys(clean.test)
    assert len(clean.noise) == 0
    other = settings(run=dataclasses.replace(settings().run, data_seed=1))
    assert keys(noisy_split(other).noise) != keys(noisy.noise)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("positives", [Settings().positives, PspPositives(rank=4)], ids=["observed", "psp"])
def test_what_learns_sees_the_noise_and_what_judges_does_not(protocol, positives):
    chosen = settings(protocol, positives=positives)
    split, rules = noisy_split(chosen), PROTOCOLS[protocol]
    assert keys(split.noise) & keys(split.test), "or nothing is said about false pairs that are held out"
    world = build_world(split, chosen, rules, MEMORY)
    pairs = keys(world.pairs)
    assert keys(split.noise) <= keys(world.train)
    assert keys(split.noise) <= of_sets(world.rejected)
    assert world.is_false.tolist() == [pair in keys(split.noise) for pair in sorted(pairs)]
    if isinstance(positives, type(Settings().positives)):
        assert pairs == keys(split.train), "no pair of train is dropped, not even a false one that is held out"
    rankings = prepare_rankings(split, chosen, rules, world.pairs.as_pairs(), MEMORY)
    clean = keys(split.clean_train)
    expected = {
        "strict": clean | keys(split.valid),
        "published": clean | (pairs - keys(split.noise)),
        "best-on-test": clean,
    }
    known = of_sets(rankings.test._lists._known)
    assert known == {pair for pair in expected[protocol] if pair[1] < split.n_items}
    assert all(
        of_sets(ranking._lists._known) == clean
        for ranking in rankings.test_other_masks.values()  # under mask train
    )


def test_without_noise_nothing_is_known_of_truth():
    chosen = settings(data=DataSettings())
    assert build_world(noisy_split(chosen), chosen, PROTOCOLS["strict"], MEMORY).is_false is None


def all_ones(split) -> DotProduct:
    """Everybody likes item 0 best, then 1, and so on."""
    return DotProduct(torch.ones(split.n_users, 1, 1), -torch.arange(float(split.n_items)).view(-1, 1, 1))


def test_a_false_pair_that_is_held_out_can_be_recommended_and_is_a_hit():
    split = noisy_split()
    user, item = sorted(keys(split.noise) & keys(split.test))[0]
    rankings = prepare_rankings(split, settings(), PROTOCOLS["strict"], split.train, MEMORY)
    vectors = torch.zeros(split.n_items, 1, 1)
    vectors[item] = 1.0
    scorer = DotProduct(torch.ones(split.n_users, 1, 1), vectors)
    place = rankings.test.users.tolist().index(user)
    assert rankings.test.judge(scorer, 0).per_user["mrr@5"][place] == 1.0


def test_what_is_left_out_for_a_user_is_what_they_really_have():
    split = noisy_split()
    model = Recommender(all_ones(split), 0, split, {})
    for exclude, parts in {
        "train": (split.clean_train,),
        "all": (split.clean_train, split.valid, split.test),
        "none": (),
    }.items():
        lists = model.recommend(split.user_ids[: split.n_users].tolist(), k=split.n_items, exclude=exclude)
        numbers = {item: number for number, item in enumerate(split.item_ids.tolist())}
        offered = {(user, numbers[item]) for user, item in lists.select("user", "item").iter_rows()}
        everything = {(user, item) for user in range(split.n_users) for item in range(split.n_items)}
        assert offered == {(split.user_ids[u], i) for u, i in everything - keys(*parts)}


def test_negatives_of_the_validation_loss_may_be_false_pairs():
    split = noisy_split()
    drawn = [ValidationLoss(split, seed, 0.2, MEMORY) for seed in range(20)]
    negatives = {pair for one in drawn for pair in zip(one.pairs.users.tolist(), one.negatives.tolist(), strict=True)}
    assert negatives & keys(split.noise)
    assert not negatives & keys(split.clean_train, split.valid)


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def finished(said):
    chosen = settings(denoiser=TruncatedLoss(drop_rate=0.3, ramp_epochs=0.5))
    return run(given_split(40, 30, 300), chosen, say=said.append)


def test_what_was_added_is_said(finished, said):
    split = finished.split
    n_valid, n_test = (len(keys(split.noise) & keys(part)) for part in (split.valid, split.test))
    (line,) = [line for line in said if line.startswith("noise: ")]
    assert f"{len(split.noise):,} random false pairs added to train (50 % of its pairs)" in line
    assert f"{n_valid} happen to be held out for validation, {n_test} for the test" in line
    assert any("50 % random false pairs added to train" in line for line in said)


def test_the_record_tells_noise_and_what_the_denoiser_kept(finished):
    result, split = json.loads(json.dumps(describe_run(finished))), finished.split
    assert result["noise"] == {
        "share": 0.5,
        "pairs": len(split.noise),
        "shortfall": 0,
        "held_out": {
            "valid": len(keys(split.noise) & keys(split.valid)),
            "test": len(keys(split.noise) & keys(split.test)),
        },
    }
    denoiser = result["denoiser"]
    assert denoiser["name"] == "t-ce"
    last = finished.model.fitted.history[-1]
    assert denoiser["kept_at_last_step"] == denoiser["kept_at_best_step"] == [last.kept[3], last.kept[0]]
    for kept in denoiser["kept_at_last_step"]:
        assert kept["all"] == pytest.approx(0.7, abs=0.02)
        share_of_false = len(split.noise) / len(split.train)
        assert kept["all"] == pytest.approx(
            share_of_false * kept["false"] + (1 - share_of_false) * kept["true"], abs=0.02
        )
    assert result["data"]["train"] == len(split.train)


def test_the_best_step_is_told_from_the_last():
    training = TrainingSettings(max_steps=60, batch_size=64, evaluate_every=10, learning_rate=0.05)
    chosen = settings(denoiser=TruncatedLoss(drop_rate=0.3, ramp_steps=60), training=training)
    found = run(given_split(40, 30, 300), chosen)
    denoiser, fitted = describe_run(found)["denoiser"], found.model.fitted
    looks = {look.step: look.kept for look in fitted.history}
    assert fitted.best_steps != fitted.steps
    assert denoiser["kept_at_best_step"] == [
        looks[step][seed] for step, seed in zip(fitted.best_steps, (3, 0), strict=True)
    ]
    assert denoiser["kept_at_last_step"] == [looks[step][seed] for step, seed in zip(fitted.steps, (3, 0), strict=True)]


def test_groups_go_by_what_users_really_have(finished):
    split = finished.split
    counts = np.sort(np.bincount(split.clean_train.users, minlength=split.n_users))
    assert describe_run(finished)["groups"]["least_active_10"]["mean_train_pairs"] == counts[:10].mean()


OPTIONS = {
    "noise": 0.3,
    "denoiser": "t-ce",
    "drop_rate": 0.3,
    "ramp_epochs": 0.5,
    "steps": 20,
    "evaluate_every": 10,
    "embedding_size": 6,
    "seeds": (3, 0),
    "threads": 1,
    "k": (5,),
    "select_by": "recall@5",
    "inactive": 10,
    "baselines": False,
}


@pytest.fixture(scope="module")
def noisy_run(clicks, tmp_path_factory):
    """Its model and its folder."""
    folder = tmp_path_factory.mktemp("noise") / "run"
    return fit(clicks, out=folder, **OPTIONS), folder


def ids_of(split, pairs: Pairs) -> list[tuple[str, int]]:
    users, items = split.user_ids[pairs.users].tolist(), split.item_ids[pairs.items].tolist()
    return list(zip(users, items, strict=True))


class TestFolder:
    def test_the_false_pairs_are_listed(self, noisy_run):
        model, folder = noisy_run
        frame = pl.read_parquet(folder / "noise.parquet")
        assert frame.columns == ["user", "item"]
        assert frame.rows() == ids_of(model.split, model.split.noise)
        assert len(frame) == model.result["noise"]["pairs"] > 0

    def test_the_weight_of_every_pair_is_listed(self, noisy_run):
        model, folder = noisy_run
        frame = pl.read_parquet(folder / "pair-weights.parquet")
        assert frame.columns == ["user", "item", "weight_seed_3", "weight_seed_0", "is_false"]
        assert frame.select("user", "item").rows() == ids_of(model.split, model.positives)
        noise = set(ids_of(model.split, model.split.noise))
        assert frame["is_false"].to_list() == [pair in noise for pair in frame.select("user", "item").rows()]
        kept = model.result["denoiser"]["kept_at_last_step"]
        for column, of_seed in zip(("weight_seed_3", "weight_seed_0"), kept, strict=True):
            # Each pair came about as often as another, so that the mean over pairs is near that over rows.
            assert frame[column].mean() == pytest.approx(of_seed["all"], abs=0.05)
            assert frame[column].n_unique() > 1
        assert frame["weight_seed_3"].to_list() != frame["weight_seed_0"].to_list()

    def test_the_history_carries_what_was_kept(self, noisy_run):
        model, folder = noisy_run
        lines = read_history(folder)
        assert [(line["step"], line["seed"]) for line in lines] == [(10, 3), (10, 0), (20, 3), (20, 0)]
        assert all(line["kept"].keys() == {"all", "true", "false"} for line in lines)
        assert [line["kept"] for line in lines[2:]] == model.result["denoiser"]["kept_at_last_step"]

    def test_the_manifest_seals_them(self, noisy_run, tmp_path):
        _, folder = noisy_run
        manifest = json.loads((folder / "model" / "manifest.json").read_text())
        for name in ("noise.parquet", "pair-weights.parquet"):
            assert name in manifest["sha256"]
            damaged = shutil.copytree(folder, tmp_path / name)
            (damaged / name).write_bytes((damaged / name).read_bytes()[:-1])
            with pytest.raises(DataError, match=f"{name}: was changed or damaged"):
                open_model(damaged)
            (damaged / name).unlink()
            with pytest.raises(DataError, match=f"{name}: cannot be read"):
                open_model(damaged)

    def test_a_run_opens_as_it_was(self, noisy_run):
        model, folder = noisy_run
        opened = open_model(folder)
        assert keys(opened.split.noise) == keys(model.split.noise)
        assert opened.split.fingerprint() == model.split.fingerprint() == model.result["data"]["fingerprint"]
        assert opened.recommend(k=10).equals(model.recommend(k=10))
        again = evaluate(opened)
        assert again["test"] == model.result["test"]
        assert again["test_other_masks"] == model.result["test_other_masks"]
        assert (again["noise"], again["denoiser"]) == (model.result["noise"], model.result["denoiser"])

    def test_forged_noise_is_refused(self, noisy_run, tmp_path):
        _, folder = noisy_run
        for number, (change, complaint) in enumerate(
            [
                ({"noise_users": None}, "expected train_users"),
                ({"noise_items": torch.tensor([0])}, "noise is not a list of pairs"),
                (
                    {"noise_users": torch.tensor([0, 0]), "noise_items": torch.tensor([1, 0])},
                    "noise is not sorted",
                ),
                ({"noise_users": torch.tensor([0]), "noise_items": torch.tensor([-1])}, "stand for no id"),
            ]
        ):
            forged = shutil.copytree(folder, tmp_path / str(number))
            path = forged / "model" / "pairs.safetensors"
            tensors = load_file(path) | change
            save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)
            reseal(forged)
            with pytest.raises(DataError, match=complaint):
                open_model(forged)

    def test_noise_outside_train_is_refused(self, noisy_run, tmp_path):
        model, folder = noisy_run
        forged = shutil.copytree(folder, tmp_path / "run")
        path = forged / "model" / "pairs.safetensors"
        tensors = load_file(path)
        user, item = sorted(keys(model.split.test) - keys(model.split.train))[0]
        tensors |= {"noise_users": torch.tensor([user]), "noise_items": torch.tensor([item])}
        save_file(tensors, path)
        reseal(forged)
        with pytest.raises(DataError, match="noise holds pairs that train does not"):
            open_model(forged)

    def test_such_a_run_may_be_replaced(self, noisy_run, tmp_path):
        target = shutil.copytree(noisy_run[1], tmp_path / "run")
        with new_run_folder(target, overwrite=True) as folder:
            (folder / "result.json").write_text("{}")
        assert [path.name for path in target.iterdir()] == ["result.json"]

    def test_a_plain_run_writes_neither_file(self, fitted):
        assert not {"noise.parquet", "pair-weights.parquet"} & {path.name for path in fitted("mf").folder.iterdir()}

    def test_a_denoiser_without_noise_does_not_say_what_is_false(self, clicks, tmp_path):
        fit(clicks, out=tmp_path / "run", **{**OPTIONS, "noise": 0.0, "seeds": (1,)})
        assert not (tmp_path / "run" / "noise.parquet").exists()
        assert pl.read_parquet(tmp_path / "run" / "pair-weights.parquet").columns == ["user", "item", "weight_seed_1"]
        assert all(line["kept"].keys() == {"all"} for line in read_history(tmp_path / "run"))


def test_noise_and_its_share_are_part_of_a_trainings_identity(tmp_path):
    def stop(step, last_step, evaluation):
        if step == 7:
            raise KeyboardInterrupt

    data = given_split(40, 30, 300)
    with pytest.raises(KeyboardInterrupt):
        run(data, settings(), checkpoints=tmp_path, watch=stop)
    with pytest.raises(SettingsError, match=r"data.*noise.*0\.5.*0\.25"):
        run(data, settings(data=DataSettings(noise=0.25)), checkpoints=tmp_path, resume=True)
    resumed, whole = run(data, settings(), checkpoints=tmp_path, resume=True), run(data, settings())
    for one, two in zip(
        resumed.model.fitted.scorer.tensors().values(), whole.model.fitted.scorer.tensors().values(), strict=True
    ):
        assert torch.equal(one, two)


def test_members_of_a_loop_share_their_noise():
    with pytest.raises(SettingsError, match=r"settings that train together must share \[data\]"):
        check_company([settings(), settings(data=DataSettings(noise=0.25))])


def test_a_dry_run_counts_noise():
    data = given_split(40, 30, 300)
    found, split = estimate(data, settings()), noisy_split()
    assert (found.n_train, found.n_noise) == (len(split.train), len(split.noise))
    assert f"{len(split.train):,} train pairs, {len(split.noise):,} of them noise;" in found.words()[0]
    assert "noise" not in estimate(data, settings(data=DataSettings())).words()[0]


def test_positives_for_another_trainer_are_built_without_noise(clicks, clicks_file, tmp_path):
    with pytest.raises(SettingsError, match=r"noise is added for `pspns train` alone.*leave \[data\] noise out"):
        build_positives(clicks, rank=2, noise=0.2)
    with pytest.raises(SettingsError, match="noise is added for `pspns train` alone"):
        build_to_folder(clicks_file, tmp_path / "built", rank=2, noise=0.2)


class TestCommands:
    def test_train_compare_and_report(self, command, clicks_file, tmp_path):
        words = ("--data", clicks_file, "--steps", 5, "--threads", 1, "--no-baselines", "--embedding-size", 4)
        noisy, clean = tmp_path / "noisy", tmp_path / "clean"
        done = command("train", *words, "--noise", 0.2, "--out", noisy)
        assert done.code == 0, done.err
        result = json.loads((noisy / "result.json").read_text())
        assert result["settings"]["data"]["noise"] == 0.2
        assert f"noise: {result['noise']['pairs']:,} random false pairs" in done.err
        assert "20 % random false pairs added to train" in done.out
        assert command("train", *words, "--out", clean).code == 0
        compared = command("compare", noisy, clean)
        assert "These runs differ in noise (0, 0.2) and cannot be compared; here are 2 tables." in compared.out
        tables = json.loads(command("compare", noisy, clean, "--json").out)
        assert [table["noise"] for table in tables] == [0.2, 0.0]

    def test_a_file_of_settings(self, command, clicks_file, tmp_path):
        (tmp_path / "run.toml").write_text("[data]\nnoise = 0.25\n")
        words = ("--data", clicks_file, "--model", "popular", "--no-baselines", "--config", tmp_path / "run.toml")
        assert command("train", *words, "--out", tmp_path / "run").code == 0
        assert json.loads((tmp_path / "run" / "result.json").read_text())["noise"]["share"] == 0.25

    @pytest.mark.parametrize(("value", "complaint"), [("-1", "at least 0"), ("inf", "finite"), ("x", "number")])
    def test_what_is_no_share(self, command, clicks_file, tmp_path, value, complaint):
        done = command("train", "--data", clicks_file, f"--noise={value}", "--out", tmp_path / "run")
        assert done.code == 2
        assert "--noise must be" in done.err
        assert complaint in done.err

    def test_commands_that_only_look_at_data_have_no_noise(self, command, clicks_file):
        for what in ("show", "check"):
            done = command("data", what, clicks_file, "--noise", 0.2)
            assert done.code == 2
            assert "no option named '--noise'" in done.err
            assert command("data", what, clicks_file).code == 0
