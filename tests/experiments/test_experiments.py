"""The studies that `python -m pspns.experiments` runs."""

import copy
import dataclasses
import itertools
import json
import sys

import pytest
from toy import given_split

from pspns.cli import output_file
from pspns.components import find_part, part_names
from pspns.data.arrays import write_arrays
from pspns.experiments import __main__ as command_line
from pspns.experiments import choose, denoisers, hardness, noise, protocols, what_helps
from pspns.experiments._members import changed, make_settings, recipe
from pspns.positives.psp import PspPositives
from pspns.run import run
from pspns.settings import RunSettings, Settings
from pspns.training.settings import TrainingSettings
from pspns.weightings.log import LogWeighting


@pytest.fixture(scope="module")
def data():
    return given_split(150, 120, 1500)


@pytest.fixture
def data_file(data, tmp_path):
    write_arrays(data, tmp_path / "toy.npz")
    return tmp_path / "toy.npz"


@pytest.fixture
def experiment(data_file, tmp_path, monkeypatch):
    """The command in this process, twenty steps long; gives the record."""

    def carry_out(name, *options):
        out = tmp_path / "record.json"
        words = [name, "--data", data_file, "--max-steps", 20, "--device", "cpu", "--out", out, "--overwrite", *options]
        monkeypatch.setattr(sys, "argv", ["pspns.experiments", *map(str, words)])
        command_line.main()
        return json.loads(out.read_text())

    return carry_out


def test_the_protocols_are_those_of_a_run_alone(experiment, data):
    members = experiment("protocols", "--seeds", "1-2")["members"]
    assert [member["protocol"]["name"] for member in members.values()] == ["strict", "strict", "published"]
    for name, protocol in (("paper", "strict"), (list(members)[-1], "published")):
        alone = run(
            data,
            Settings(
                positives=PspPositives(rank=50, copies=3),
                weighting=LogWeighting(sensitivity=0.01),
                training=TrainingSettings(max_steps=20),
                run=RunSettings(seeds=(1, 2), protocol=protocol, device="cpu", baselines=False),
            ),
        )
        found = members[name]["test"]["recall@20"]["per_seed"]
        assert found == [replica.overall["recall@20"] for replica in alone.model.test]
        for seed in (1, 2):
            curve = [[look.step, look.metrics[seed]["recall@20"]] for look in alone.model.fitted.history]
            assert members[name]["curve_recall@20"][str(seed)] == curve


def test_what_helps_adds_one_part_at_a_time():
    made = {name: make_settings(tables) for name, tables in what_helps.members().items()}
    plain, recommended = made["plain"], made["recommended"]
    sections = ("positives", "weighting", "start", "negatives")

    def taken_from_recommended(settings):
        return [section for section in sections if getattr(settings, section) != getattr(plain, section)]

    assert {name: taken_from_recommended(settings) for name, settings in made.items()} == {
        "plain": [],
        "plain + start": ["start"],
        "plain + copies": ["positives"],
        "plain + weights": ["weighting"],
        "recommended": ["positives", "weighting", "start"],
    }
    for settings in made.values():
        for section in taken_from_recommended(settings):
            assert getattr(settings, section) == getattr(recommended, section)


def test_what_helps_runs_in_one_loop(experiment, capsys):
    members = experiment("what-helps", "--seeds", "0-1")["members"]
    assert list(members) == list(what_helps.members())
    assert len({member["test"]["recall@20"]["mean"] for member in members.values()}) > 1
    assert set(members["plain"]["baselines"]) == {"popular", "svd", "ease"}
    assert not members["recommended"]["baselines"]
    assert capsys.readouterr().out.count("learning rate") == 1


def test_rivals_have_as_many_trials_each_and_the_same_rates_and_weights():
    made = choose.members()
    assert len(made) == 27
    for rival, others in choose.OTHER_VALUES.items():
        trials = [tables for name, tables in made.items() if name.rpartition(" ")[0] == rival]
        tried = [(tables["training"]["learning_rate"], tables["training"]["l2"]) for tables in trials]
        assert tried == list(itertools.product(choose.LEARNING_RATES, choose.L2_WEIGHTS))
        for (section, key), values in others.items():
            drawn = {tables[section][key] for tables in trials}
            assert drawn <= set(values)
            assert len(drawn) > 1
        for tables in trials:
            assert make_settings(tables).run.protocol == "strict"
    assert choose.members() == made


def test_choosing_never_shows_the_test(experiment, capsys):
    """Two learning rates, and so two loops, in the order of the members."""
    names = ["recommended 9", "plain 1"]
    record = experiment("choose", "--only", ",".join(names), "--seeds", "0")
    assert list(record["members"]) == names
    for member in record["members"].values():
        assert member["valid"]["recall@20"]["mean"] > 0
        assert not {"test", "test_other_masks", "groups", "baselines"} & member.keys()
    assert record["members"]["plain 1"]["settings"]["training"]["l2"] == 1e-5
    assert record["members"]["recommended 9"]["settings"]["training"]["learning_rate"] == 5e-3
    said = capsys.readouterr().out
    assert said.count("learning rate") == 2
    assert "test recall" not in said


@pytest.mark.parametrize("module", [choose, denoisers, noise, protocols, what_helps])
def test_every_member_can_be_made_and_can_be_named(module):
    members = module.members()
    for name, tables in members.items():
        assert isinstance(make_settings(tables), Settings)
        assert list(command_line._chosen(members, name)) == [name]
    assert command_line._chosen(members, "") == members


def test_every_experiment_has_a_name():
    modules = {choose, denoisers, hardness, noise, protocols, what_helps}
    assert set(command_line.EXPERIMENTS.values()) == modules


def test_tables_laid_over_tables():
    plain = {"start": {"name": "normal", "spread": 0.2}, "training": {"l2": 0.1}}
    before = copy.deepcopy(plain)
    found = changed(plain, {"start": {"spread": 0.3}, "training": {"steps": 5}}, {"run": {"baselines": False}})
    assert found == {
        "start": {"name": "normal", "spread": 0.3},
        "training": {"l2": 0.1, "steps": 5},
        "run": {"baselines": False},
    }
    # Another part has other settings: nothing of the old one's stays.
    assert changed(plain, {"start": {"name": "xavier"}})["start"] == {"name": "xavier"}
    found["training"]["l2"] = 9
    assert plain == before


def test_settings_are_those_that_the_tables_say():
    made = make_settings(changed(recipe("paper"), {"training": {"l2": 0.5}, "run": {"protocol": "published"}}))
    expected = Settings(
        positives=PspPositives(rank=50, copies=3),
        weighting=LogWeighting(sensitivity=0.01),
        start=find_part("starts", "xavier")(),
        training=TrainingSettings(l2=0.5),
        run=RunSettings(protocol="published"),
    )
    assert dataclasses.asdict(made) == dataclasses.asdict(expected)
    assert made == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("protocls",), "did you mean 'protocols'"),
        (("protocols", "--model", "mff"), "no models named 'mff'"),
        (("protocols", "--only", "plane"), "did you mean 'plain'"),
        (("protocols", "--data", "nowhere.npz"), "nowhere.npz: is not a readable .npz file"),
        (("protocols", "--seeds", "0,1"), "--seeds must be first-last, such as 0-2, got '0,1'"),
        (("protocols", "--seeds=-3"), "--seeds must be first-last, such as 0-2, got '-3'"),
        (("protocols", "--seeds", "4-2"), "seeds must be distinct whole numbers"),
        (("protocols", "--precision", "half"), "precision must be float32 or mixed, got half"),
        (("protocols", "--out", "nowhere/record.json"), "--out: there is no folder"),
        (("protocols", "--out", "."), "is a folder; give --out the name of a file"),
    ],
)
def test_mistakes_are_named(experiment, tmp_path, capsys, options, reason):
    with pytest.raises(SystemExit) as end:
        experiment(*options)
    assert end.value.code in (1, 2)
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "record.json").exists()


def test_where_no_file_can_be_made_nothing_is_trained(experiment, tmp_path, monkeypatch, capsys):
    def full(**how):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_file.tempfile, "TemporaryFile", full)
    with pytest.raises(SystemExit):
        experiment("protocols")
    said = capsys.readouterr()
    assert f"--out: no file can be made in {tmp_path}: No space left on device" in said.err
    assert "learning rate" not in said.out


def test_a_record_that_is_there_is_not_replaced_unasked(data_file, tmp_path, monkeypatch, capsys):
    out = tmp_path / "record.json"
    out.write_text("an earlier one")
    monkeypatch.setattr(sys, "argv", ["", "protocols", "--data", str(data_file), "--max-steps", "2", "--out", str(out)])
    with pytest.raises(SystemExit):
        command_line.main()
    assert "exists already; give --overwrite to replace it" in capsys.readouterr().err
    assert out.read_text() == "an earlier one"


def test_members_with_different_denoisers_train_in_loops_of_their_own(experiment):
    together = experiment("denoisers", "--seeds", "0", "--only", "t-ce,dcf")["members"]
    assert [together[name]["replicas_in_loop"] for name in ("t-ce", "dcf")] == [1, 1]
    alone = experiment("denoisers", "--seeds", "0", "--only", "dcf")["members"]["dcf"]
    assert together["dcf"]["test"] == alone["test"]
    assert together["dcf"]["test"] != together["t-ce"]["test"]


def test_hardness_tries_samplers_away_from_their_defaults():
    members = {name: make_settings(tables) for name, tables in hardness.members().items()}
    for name, settings in members.items():
        sampler = name.partition(",")[0]
        assert isinstance(settings.negatives, find_part("negatives", sampler))
        assert settings.negatives != find_part("negatives", sampler)()
        assert settings.run.protocol == "strict"
    assert len({repr(settings.negatives) for settings in members.values()}) == len(members)


def test_every_denoiser_is_tried_with_bpr_where_it_can():
    found = {name: make_settings(tables) for name, tables in denoisers.members().items()}
    assert set(part_names("denoisers")) <= set(found)
    for name in part_names("denoisers"):
        assert found[name].denoiser == find_part("denoisers", name)()
        assert found[name].training.loss == ("bce" if name.startswith("deca") else "bpr")
        assert (found[name].positives, found[name].negatives) == (found["none"].positives, found["none"].negatives)
    assert found["none, bce, revised-valid-loss"].evaluation.select_by == "revised-valid-loss"
    assert found["none, bce, revised-valid-loss"].training == found["none, bce"].training
    assert not found["bod, weights 1"].denoiser.weigh
    assert found["pld, users of interactions"].denoiser.users == "interaction"


def test_noise_is_met_by_denoisers_and_recipes():
    found = {name: make_settings(tables) for name, tables in noise.members().items()}
    denoised = [name for name in part_names("denoisers") if name != "none"]
    assert list(found) == ["plain", "paper", "paper (published)", "recommended", *denoised]
    assert [name for name in found if found[name].run.protocol != "strict"] == ["paper (published)"]
    assert [name for name in found if found[name].run.baselines] == ["plain"]
    plain, published = (dataclasses.replace(found[name], run=RunSettings()) for name in ("paper", "paper (published)"))
    assert plain == published
    for name in denoised:
        assert found[name].denoiser == find_part("denoisers", name)()
        assert found[name].positives == found["plain"].positives


def test_the_record_shows_how_false_pairs_were_weighed(experiment):
    record = experiment("noise", "--noise", 0.5, "--seeds", "0-1", "--only", "plain,r-ce")
    plain, weighed = record["members"].values()
    assert "curve_kept" not in plain
    assert plain["settings"]["data"]["noise"] == 0.5
    (_, _), (step, kept) = weighed["curve_kept"]["1"]
    assert step == 20
    assert set(kept) == {"all", "true", "false"}
    assert all(0 < weight < 1 for weight in kept.values())
