"""`pspns experiment`: from a name to records, a table and a page; stopped and gone on with."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pspns.cli.experiment import _place, read_data
from pspns.data.arrays import write_arrays
from pspns.data.planted import plant
from pspns.errors import DivergedError, SettingsError
from pspns.experiments import loops as loops_module
from pspns.experiments.reproduction import experiment_names, find_experiment
from pspns.experiments.request import QUICK, QUICK_WORDS, asked_experiments, by_data, terms_of
from pspns.training.loop import Watch
from pspns.training.stopping import Evaluation

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "small.npz"
    world = plant("clustered", n_users=90, n_items=80, rng=np.random.default_rng(0), mean_preferences=20)
    write_arrays(world.interactions, path)
    return path


def tiny(data: object, out: Path, *, max_steps: int = 4) -> tuple[object, ...]:
    """Three cells in one loop, and few steps."""
    how = ("--quick", "--max-steps", max_steps, "--seeds", 1, "--device", "cpu")
    return ("experiment", "seeds", "--data", data, "--out", out, *how)


def records_in(out: Path) -> dict[str, Any]:
    """All that does not depend on how fast the machine is."""
    found = {}
    for path in (out / "cells").iterdir():
        record = json.loads(path.read_text())
        looks = [step for step, _ in record.pop("looks")]
        found[path.name] = {**record, "seconds": None, "looks": looks}
    return found


class TestNames:
    @pytest.mark.parametrize("option", ["--seeds", "--max-steps", "--patience", "--trials"])
    def test_a_range_is_no_number(self, command: Cli, option: str) -> None:
        refused = command("experiment", "seeds", "--data", "planted", option, "0-2")
        assert (refused.code, refused.out) == (2, "")
        assert f"{option} must be a whole number, got '0-2'" in refused.err

    def test_options_without_a_name_are_not_thrown_away(self, command: Cli) -> None:
        for options in (["--quick"], ["--data", "planted"], ["--only-report"]):
            refused = command("experiment", *options)
            assert refused.code == 2
            assert "options were given, but no experiment; name one, or all" in refused.err

    def test_without_a_name_there_is_the_list(self, command: Cli) -> None:
        shown = command("experiment")
        assert shown.code == 0
        assert shown.out == command("list", "experiments").out
        for name in experiment_names():
            assert f"│ {name} " in shown.out

    def test_all_is_all_and_the_order_is_that_of_the_report(self) -> None:
        assert tuple(asked_experiments(["all"])) == experiment_names()
        assert tuple(asked_experiments(["seeds", "overall"])) == ("overall", "seeds")

    def test_a_mistaken_name_beside_all_is_no_less_mistaken(self) -> None:
        with pytest.raises(SettingsError, match=r"no experiment named 'overal'.*did you mean 'overall'"):
            asked_experiments(["overal", "all"])

    def test_each_experiment_has_data_of_its_own_unless_some_are_named(self) -> None:
        experiments = asked_experiments(["mf", "overall"])
        own = by_data(experiments, None)
        assert own["ml-1m"] == [experiments["overall"], experiments["mf"]]
        assert own["pinterest"] == [experiments["overall"]]
        assert by_data(experiments, ["planted-clustered"]) == {"planted-clustered": list(experiments.values())}
        usual = {"pinterest": [experiments["overall"]], "ml-1m": [experiments["overall"], experiments["mf"]]}
        assert by_data(experiments, ["pinterest", "ml-1m"], only_usual=True) == usual

    def test_more_seeds_than_a_run_may_have(self) -> None:
        with pytest.raises(SettingsError, match="--seeds must be at most 10,000, got 10,001"):
            terms_of(seeds=10_001)

    def test_terms(self) -> None:
        assert terms_of(quick=True, seeds=7, device=None).seeds == 7
        assert terms_of(quick=True, device="cpu").max_steps == QUICK.max_steps
        assert terms_of(patience=3, quick=False).patience == 3
        assert terms_of().max_steps == 200_000
        # A fixed number of steps is no longer than the terms allow, or a quick look would not be quick.
        for cell in find_experiment("parameters").cells("ml-1m"):
            assert (cell.settings(QUICK, "").training.steps or 0) <= QUICK.max_steps


class TestData:
    def test_names_folders_and_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for folder in ("mine", "ml-1m/by-user"):
            Path(folder).mkdir(parents=True)
        Path("plays.tsv.gz").touch()
        Path("a,b.csv").touch()
        assert read_data("planted, ml-1m/by-user,mine") == {
            "planted-clustered": "planted-clustered",
            "ml-1m-by-user": "ml-1m/by-user",
            "mine": "mine",
        }
        assert read_data("plays.tsv.gz,epinions") == {"plays": "plays.tsv.gz", "epinions": "epinions"}
        assert read_data("a,b.csv") == {"a,b": "a,b.csv"}
        monkeypatch.chdir("ml-1m/by-user")
        assert read_data(".") == {"ml-1m-by-user": "."}

    def test_a_split_by_user_lies_inside_the_data_set(self) -> None:
        assert _place("ml-1m-by-user") == "ml-1m/by-user"
        assert _place("ml-1m") == "ml-1m"

    @pytest.mark.parametrize("text", ["", "planted,,epinions", "planted,planted-clustered"])
    def test_mistakes(self, text: str) -> None:
        with pytest.raises(SettingsError, match="--data"):
            read_data(text)


class TestRunning:
    def test_records_table_and_page_and_the_second_time_nothing_is_trained(
        self, command: Cli, small: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        done = command(*tiny(small, out))
        assert done.code == 0, done.err
        assert sorted(path.name for path in out.iterdir()) == ["cells", "reproduction.html"]
        names = [cell.name for cell in dict.fromkeys(find_experiment("seeds").cells("small"))]
        assert sorted(path.stem for path in (out / "cells").iterdir()) == sorted(names)
        section = find_experiment("seeds").title
        assert f"{section}: small" in done.out
        assert str(out / "reproduction.html") in done.out
        page = (out / "reproduction.html").read_text()
        for text in (done.err, page):
            assert QUICK_WORDS in text
            assert "held-out labels shape the candidate set" in text
        assert all(name in page for name in names)
        before = records_in(out)
        again = command(*tiny(small, out))
        assert again.code == 0
        assert f"{len(names)} records, 0 of them to be made" in again.err
        assert again.out == done.out
        assert records_in(out) == before

        # Other settings are nobody's to mix with; records that will do, whatever they are, need no training either.
        refused = command(*tiny(small, out, max_steps=2))
        assert refused.code == 2
        assert "with [training] max_steps = 4, and now max_steps = 2 is asked for" in refused.err
        assert "say --keep to take it as it is, or give another --out" in refused.err
        kept = command(*tiny(small, out, max_steps=2), "--keep")
        assert (kept.code, kept.out) == (0, done.out)

        (out / "reproduction.html").unlink()
        (out / "cells" / f"{names[0]}.json").unlink()
        # Who only looks need not know that it was a quick look: the records tell.
        shown = command("experiment", "seeds", "--data", small, "--out", out, "--only-report")
        assert shown.code == 0
        assert f"1 record is missing, such as {names[0]}" in shown.err
        assert "to be made" not in shown.err
        assert QUICK_WORDS in (out / "reproduction.html").read_text()

        # A page without a figure does not take the place of one that has some.
        page = (out / "reproduction.html").read_bytes()
        for data in (("--data", "gowalla"), ()):
            refused = command("experiment", "seeds", *data, "--out", out, "--only-report")
            assert refused.code == 2
            assert "give --data, of which there are records: small" in refused.err
        assert (out / "reproduction.html").read_bytes() == page

    def test_small_vectors_make_a_quick_look_and_few_steps_alone_do_not(
        self, command: Cli, small: Path, tmp_path: Path
    ) -> None:
        how = ("experiment", "seeds", "--data", small, "--seeds", 1, "--device", "cpu")
        longer = command(*how, "--quick", "--max-steps", 201, "--patience", 1, "--out", tmp_path / "quick")
        assert longer.code == 0, longer.err
        assert QUICK_WORDS in longer.err
        short = command(*how, "--max-steps", 4, "--out", tmp_path / "short")
        assert short.code == 0, short.err
        assert QUICK_WORDS not in short.err
        assert QUICK_WORDS not in (tmp_path / "short" / "reproduction.html").read_text()

    def test_where_nothing_can_be_trained_that_is_the_error(self, command: Cli, tmp_path: Path) -> None:
        one_pair = tmp_path / "one.csv"
        one_pair.write_text("user,item\na,1\n")
        failed = command(*tiny(one_pair, tmp_path / "out"))
        assert failed.code
        assert "could not be carried out" in failed.err
        assert "no folder of records" not in failed.err

    @pytest.mark.parametrize("place", ["cells", "reproduction.html"])
    def test_what_stands_in_the_way_is_named_before_training(
        self, command: Cli, small: Path, tmp_path: Path, place: str
    ) -> None:
        out = tmp_path / "out"
        out.mkdir()
        (out / "cells").write_text("notes") if place == "cells" else (out / place).mkdir()
        refused = command(*tiny(small, out))
        assert refused.code == 2
        assert str(out / place) in refused.err
        assert "training" not in refused.err

    def test_a_file_is_no_folder_for_records(self, command: Cli, small: Path, tmp_path: Path) -> None:
        out = tmp_path / "notes.txt"
        out.write_text("notes")
        refused = command(*tiny(small, out))
        assert refused.code == 2
        assert f"--out must be a folder, and {out} is a file; give another one" in refused.err
        assert "training" not in refused.err
        assert out.read_text() == "notes"

    def test_what_could_not_be_trained_is_told_after_the_page_of_the_rest(
        self, command: Cli, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = loops_module.run_together

        def diverging(data: Any, members: Any, **how: Any) -> Any:
            if any(member.run.protocol == "published" for member in members):
                raise DivergedError("numbers that are not finite")
            return real(data, members, **how)

        monkeypatch.setattr(loops_module, "run_together", diverging)
        done = command(*tiny(small, tmp_path))
        assert done.code == DivergedError.exit_code
        assert (
            "numbers that are not finite; 1 loop or job could not be carried out, and all others have records"
            in done.err
        )
        assert "lightgcn-small-uniform-strict" in (tmp_path / "reproduction.html").read_text()

    def test_stopped_and_gone_on_with(
        self, command: Cli, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert command(*tiny(small, tmp_path / "whole", max_steps=12)).code == 0

        def with_ctrl_c(watch: Watch, select_by: str) -> Watch:
            def press(step: int, last_step: int, evaluation: Evaluation | None) -> None:
                watch(step, last_step, evaluation)
                if step == 7:
                    signal.raise_signal(signal.SIGINT)

            return press

        out = tmp_path / "out"
        with monkeypatch.context() as patched:
            patched.setattr("pspns.cli.experiment.best_alone", with_ctrl_c)
            stopped = command(*tiny(small, out, max_steps=12))
        assert stopped.code == 130
        assert stopped.err.splitlines()[-1] == (
            f"pspns: error: stopped before the end; what was found is kept in {out}: give the same command to go on"
        )
        assert list((out / "unfinished").rglob("step-*"))
        done = command(*tiny(small, out, max_steps=12))
        assert done.code == 0
        assert "going on after step 7," in done.err
        assert records_in(out) == records_in(tmp_path / "whole")
        assert not (out / "unfinished").exists()

    def test_stopped_before_anything_was_found(
        self, command: Cli, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pspns.cli.experiment.load", lambda source: signal.raise_signal(signal.SIGINT))
        done = command(*tiny(small, tmp_path / "out"))
        assert done.code == 130
        nothing = f"pspns: error: stopped before the end; nothing was written to {tmp_path / 'out'}"
        assert done.err.splitlines()[-1] == nothing
        assert not (tmp_path / "out").exists()


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (("overal",), "no experiment named 'overal'"),
            (("seeds", "--data", "ml-1"), "no file, folder or data set 'ml-1'"),
            (("seeds", "--data", "planted,"), "--data must be names or paths with commas between them"),
            (("seeds", "--quick", "--seeds", 0), "--seeds must be at least 1, got 0"),
            (("seeds", "--quick", "--max-steps", 0), "--max-steps must be at least 1, got 0"),
            (("seeds", "--quick", "--precision", "half"), "precision must be float32 or mixed, got half"),
            (("seeds", "--quick", "--device", "tpu"), "no device named 'tpu'"),
            (("seeds", "--only-report"), "there is no record in reproduction/cells to report on"),
            (("seeds", "--sedes", 3), "No such option: --sedes"),
        ],
    )
    def test_before_anything_is_trained_or_written(
        self,
        command: Cli,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        words: tuple[object, ...],
        complaint: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("PSPNS_DATA", raising=False)
        done = command("experiment", *words)
        assert done.code in (1, 2)
        assert complaint in done.err
        assert done.out == ""
        assert not list(tmp_path.iterdir())

    def test_data_that_are_not_there_are_told_before_the_others_are_trained(
        self, command: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("PSPNS_DATA", raising=False)
        done = command(*tiny("planted,epinions", tmp_path / "out"))
        assert done.code == 1
        assert "epinions must be provided, and no data folder is named; set PSPNS_DATA to one" in done.err
        assert not (tmp_path / "out").exists()
