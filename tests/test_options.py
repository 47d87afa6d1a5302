from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pspns.denoising.dcf import DoubleCorrection
from pspns.errors import SettingsError
from pspns.models.ease import Ease
from pspns.models.mf import MatrixFactorisation
from pspns.models.svd import SvdRanking
from pspns.options import (
    Layer,
    all_options,
    command_line,
    describe_recipe,
    from_tables,
    read_recipe,
    read_settings_file,
    resolve,
)
from pspns.recipes import recipe_names
from pspns.settings import Settings
from pspns.tuning.methods import only_losses


def refusal(*layers: Layer) -> str:
    with pytest.raises(SettingsError) as caught:
        resolve(*layers)
    return str(caught.value)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "run.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


class TestLayers:
    def test_later_layers_win(self, tmp_path: Path) -> None:
        low = Layer("low", {"batch_size": 1, "l2": 0.5, "patience": 3})
        file = read_settings_file(write(tmp_path, "[training]\nbatch_size = 2\nl2 = 0.25\n"))
        training = resolve(low, file, command_line({"batch-size": "3"})).training
        assert (training.batch_size, training.l2, training.patience) == (3, 0.25, 3)

    def test_another_part_starts_its_section_afresh(self) -> None:
        svd = Layer("a", {"model": "svd", "model.rank": 7, "batch_size": 9})
        assert resolve(svd).model == SvdRanking(rank=7)
        changed = resolve(svd, Layer("b", {"model": "ease"}))
        assert changed.model == Ease()
        assert changed.training.batch_size == 9
        assert resolve(svd, Layer("b", {"model": "ease"}), Layer("c", {"model": "svd"})).model == SvdRanking()

    def test_the_same_part_named_again_keeps_its_settings(self) -> None:
        svd = Layer("a", {"model": "svd", "rank": 7})
        assert resolve(svd, Layer("b", {"model.name": "svd"})).model == SvdRanking(rank=7)

    def test_file_command_line_and_python_say_the_same(self, tmp_path: Path) -> None:
        file = read_settings_file(
            write(
                tmp_path,
                '[data]\nsource = "a.csv"\nmin_rating = 4\nheader = true\ncolumns = {user = "v", item = "2"}\n'
                '[split]\nname = "leave-one-out"\nby = "random"\n'
                '[model]\nname = "mf"\nembedding_size = 32\n[training]\nbatch-size = 512\nsteps = 7\n'
                "[run]\nseeds = [0, 1, 2, 9]\nbaselines = false\n",
            )
        )
        typed = command_line(
            {
                "data": "a.csv",
                "min-rating": "4",
                "data.header": "true",
                "columns": "user=v, item=2",
                "split": "leave-one-out",
                "split.by": "random",
                "model": "mf",
                "embedding-size": "32",
                "training.batch_size": "512",
                "steps": "7",
                "seeds": "0-2,9",
                "baselines": "false",
            }
        )
        python = Layer(
            "fit",
            {
                "source": Path("a.csv"),
                "min_rating": 4,
                "header": True,
                "columns": {"user": "v", "item": "2"},
                "split": "leave-one-out",
                "by": "random",
                "model": "mf",
                "embedding_size": np.int64(32),
                "batch_size": 512,
                "steps": 7,
                "seeds": np.array([0, 1, 2, 9]),
                "baselines": False,
            },
        )
        assert resolve(file) == resolve(typed) == resolve(python) != resolve()
        assert resolve(file).model == MatrixFactorisation(embedding_size=32)
        assert resolve(file).run.seeds == (0, 1, 2, 9)

    def test_a_result_gives_its_settings_back(self) -> None:
        settings = resolve(Layer("a", {"split": "random", "valid_share": 0.2, "model": "ease", "model.l2": 3, "k": 7}))
        assert resolve(from_tables("result.json", settings.as_dict())) == settings

    def test_every_listed_option_can_be_set_to_its_default(self) -> None:
        options = all_options()
        assert {"--training.batch-size", "--split.by"} <= {f"--{option.name}" for option in options}
        for option in options:
            section, _, key = option.name.partition(".")
            layers = [Layer("part", {section: option.part})] if option.part else []
            if section == "denoiser":
                layers.append(Layer("its loss", only_losses({section: option.part})))
            settings = resolve(*layers, command_line({option.name: option.default}))
            assert getattr(getattr(settings, section), key.replace("-", "_")) == option.default
            assert option.note, f"{option.name} has no docstring under it"

    def test_every_recipe_can_be_read(self) -> None:
        assert "plain" in recipe_names()
        for name in recipe_names():
            assert isinstance(resolve(read_recipe(name)), Settings)
            assert len(describe_recipe(name)) > 10


class TestDenoisers:
    def test_a_file_the_command_line_and_python_mean_the_same(self, tmp_path: Path) -> None:
        file = read_settings_file(
            write(
                tmp_path, '[denoiser]\nname = "dcf"\ndrop_rate = 0.1\nrelabel = "discard"\n[training]\nloss = "bce"\n'
            )
        )
        typed = command_line({"denoiser": "dcf", "denoiser.drop-rate": "0.1", "relabel": "discard", "loss": "bce"})
        python = Layer("fit", {"denoiser": "dcf", "drop_rate": 0.1, "relabel": "discard", "loss": "bce"})
        assert resolve(file) == resolve(typed) == resolve(python)
        assert resolve(python).denoiser == DoubleCorrection(drop_rate=0.1, relabel="discard")
        assert resolve(from_tables("result.json", resolve(python).as_dict())) == resolve(python)

    def test_a_short_form_that_two_parts_know_must_be_said_in_full(self) -> None:
        layer = command_line({"denoiser": "deca", "loss": "bce", "learning-rate": "0.1"})
        told = "could mean --denoiser.learning-rate or --training.learning-rate; say which"
        with pytest.raises(SettingsError, match=told):
            resolve(layer)
        named = {"denoiser": "deca", "loss": "bce", "denoiser.learning-rate": "0.1", "training.learning-rate": "0.2"}
        found = resolve(command_line(named))
        assert (found.denoiser.learning_rate, found.training.learning_rate) == (0.1, 0.2)

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"denoiser": "t-cee"}, "--denoiser: no denoisers named 't-cee'; .*did you mean 't-ce'"),
            ({"drop-rate": "0.1"}, "--drop-rate is a setting of denoiser dcf or t-ce, but denoiser is none; choose"),
            ({"denoiser": "t-ce", "drop-rate": "1"}, "--drop-rate must be at least 0 and below 1, got 1"),
            ({"denoiser": "deca"}, r"loss must be bce with \[denoiser\] deca as it is set, got bpr; set --loss bce"),
            ({"denoiser": "dcf", "negatives": "mixgcf"}, r"\[denoiser\] dcf needs negatives that are items"),
            ({"denoiser": "t-ce", "model": "ease"}, r"ease has no training loop, so \[denoiser\] t-ce has no effect"),
        ],
    )
    def test_what_is_refused(self, options: dict[str, str], complaint: str) -> None:
        with pytest.raises(SettingsError, match=complaint):
            resolve(command_line(options))


class TestNames:
    @pytest.mark.parametrize(
        ("option", "meant"),
        [("batch-sise", "--batch-size"), ("training.batch_sise", "--training.batch-size"), ("modle", "--model")],
    )
    def test_unknown_options_on_the_command_line_name_the_nearest(self, option: str, meant: str) -> None:
        said = refusal(command_line({option: "5"}))
        assert f"no option named '--{option}'" in said
        assert f"did you mean '{meant}'?" in said

    def test_unknown_options_in_python_name_the_nearest_as_python_writes_it(self) -> None:
        assert "fit: no option named 'batch_sise' (did you mean 'batch_size'?)" in refusal(
            Layer("fit", {"batch_sise": 5})
        )

    def test_a_part_that_does_not_exist(self) -> None:
        said = refusal(command_line({"model": "mff"}))
        assert "--model: no models named 'mff'" in said
        assert "did you mean 'mf'?" in said

    def test_a_short_name_that_two_sections_have(self) -> None:
        ease = command_line({"model": "ease", "l2": "5"})
        assert "'--l2' could mean --model.l2 or --training.l2" in refusal(ease)
        assert resolve(command_line({"model": "ease", "model.l2": "5"})).model == Ease(l2=5.0)

    def test_a_setting_of_another_part_says_whose_it_is(self) -> None:
        said = refusal(command_line({"spread": "5"}))
        assert "--spread is a setting of start normal, but start is xavier; choose normal with --start" in said
        assert "but split is unset" in refusal(command_line({"split.test-share": "0.5"}))

    @pytest.mark.parametrize(
        ("first", "second"),
        [("seeds", "run.seeds"), ("data", "data.source"), ("model", "model.name"), ("batch-size", "batch_size")],
    )
    def test_one_setting_twice_under_two_names(self, first: str, second: str) -> None:
        value = "mf" if first == "model" else "1"
        said = refusal(command_line({first: value, second: value}))
        assert f"--{first} is given twice, the second time as --{second}" in said

    def test_what_is_not_a_part_is_refused(self) -> None:
        assert "is not a part with settings" in refusal(command_line({"model": "os:getcwd"}))
        assert "cannot import" in refusal(command_line({"model": "no_such_module:Model"}))
        assert "cannot import" in refusal(command_line({"model": ":Model"}))


class TestValues:
    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [
            ("batch-size", "abc", "a whole number"),
            ("batch-size", "1.5", "a whole number"),
            ("batch-size", 2.0, "a whole number"),
            ("batch-size", True, "a whole number"),
            ("batch-size", None, "a whole number"),
            ("l2", "x", "a finite number"),
            ("l2", "nan", "a finite number"),
            ("l2", float("inf"), "a finite number"),
            ("header", "maybe", "true or false"),
            ("baselines", 3, "true or false"),
            ("loss", 3, "text"),
            ("seeds", "5-2", "whole numbers such as 0-2"),
            ("seeds", "1,,2", "whole numbers such as 0-2"),
            ("seeds", "-1", "whole numbers such as 0-2"),
            ("seeds", "0-99999999999", "whole numbers such as 0-2"),
            ("seeds", [0, 1.5], "whole numbers such as 0-2"),
            ("seeds", True, "whole numbers such as 0-2"),
            ("k", 2.5, "whole numbers such as 0-2"),
            ("columns", "user", "names with values"),
            ("columns", "user=a,user=b", "names with values"),
        ],
    )
    def test_a_value_of_the_wrong_type(self, option: str, value: Any, expected: str) -> None:
        said = refusal(command_line({option: value}))
        assert f"--{option} must be {expected}" in said
        assert f"got {value!r}" in said

    @pytest.mark.parametrize(
        ("option", "value", "complaint"),
        [
            ("batch-size", "0", "--batch-size must be at least 1, got 0"),
            ("training.patience", "0", "--training.patience must be at least 1, got 0"),
            ("embedding-size", "-3", "--embedding-size must be at least 1, got -3"),
            ("seeds", "1,1", "--seeds must be distinct whole numbers"),
            ("threads", "0", "--threads must be from 1 to 1,024, got 0"),
            ("memory-gib", "0", "--memory-gib must be above 0, got 0"),
            ("k", "0", "--k must be whole numbers of at least 1"),
            ("select-by", "recal@20", "--select-by: no metric named 'recal'"),
            ("protocol", "strikt", "--protocol: no protocol named 'strikt'"),
            ("columns", "usr=a", "--columns: no column role named 'usr'"),
        ],
    )
    def test_an_impossible_value_is_called_as_it_was_typed(self, option: str, value: str, complaint: str) -> None:
        said = refusal(command_line({option: value}))
        assert said.startswith(f"the command line: {complaint}")

    def test_an_impossible_value_in_a_file_names_the_file(self, tmp_path: Path) -> None:
        path = write(tmp_path, "[training]\nbatch_size = 0\n")
        assert refusal(read_settings_file(path)).startswith(f"{path}: training.batch_size must be at least 1, got 0")

    def test_one_of_a_few_words(self) -> None:
        said = refusal(command_line({"split": "leave-one-out", "by": "tme"}))
        assert "--by must be one of time, random, auto, got 'tme' (did you mean 'time'?)" in said

    def test_a_missing_value(self) -> None:
        assert "--batch-size needs a value: a whole number" in refusal(command_line({"batch-size": ""}))

    def test_none_unsets(self) -> None:
        assert resolve(Layer("a", {"steps": 5})).training.steps == 5
        assert resolve(Layer("a", {"steps": 5}), command_line({"steps": "none"})).training.steps is None

    def test_columns_by_position_and_left_out(self) -> None:
        assert resolve(command_line({"columns": "user=1,rating="})).data.columns == {"user": "1", "rating": ""}
        assert resolve(Layer("fit", {"columns": {"user": 1, "time": None}})).data.columns == {"user": 1, "time": None}

    def test_numbers_and_ranges(self) -> None:
        assert resolve(command_line({"seeds": "7, 0-2"})).run.seeds == (7, 0, 1, 2)
        assert resolve(Layer("fit", {"seeds": range(2), "k": 5})).run.seeds == (0, 1)


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("x = = 3", "is not TOML: Invalid value (at line 1, column 5)"),
            (b"\xff\xfe", "is not TOML"),
            ("batch_size = 5", "'batch_size' stands outside a section; put it under [training]"),
            ("no_such = 5", "'no_such' stands outside a section"),
            ("[trainig]\nl2 = 1", "no section named 'trainig'"),
            ("[trainig]\nl2 = 1", "did you mean 'training'?"),
            ("run = 5", "'run' must be a section [run] with keys, got 5"),
            ("[[run]]\nseeds = 1", "'run' must be a section [run]"),
        ],
    )
    def test_a_file_that_is_not_settings(self, tmp_path: Path, text: str | bytes, complaint: str) -> None:
        path = write(tmp_path, text)
        with pytest.raises(SettingsError) as caught:
            read_settings_file(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert complaint in str(caught.value)

    def test_an_unknown_key_names_the_nearest_as_a_file_writes_it(self, tmp_path: Path) -> None:
        said = refusal(read_settings_file(write(tmp_path, "[training]\nbatch_sise = 5\n")))
        assert "no option named 'training.batch_sise' (did you mean 'training.batch_size'?)" in said

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="cannot be read: No such file"):
            read_settings_file(tmp_path / "none.toml")
        with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
            read_settings_file(tmp_path)

    def test_a_byte_order_mark_is_no_error(self, tmp_path: Path) -> None:
        path = write(tmp_path, b"\xef\xbb\xbf[training]\nsteps = 7\n")
        assert resolve(read_settings_file(path)).training.steps == 7

    def test_an_unknown_recipe(self) -> None:
        with pytest.raises(SettingsError, match=r"no recipe named 'plian'; .*did you mean 'plain'\?"):
            read_recipe("plian")
