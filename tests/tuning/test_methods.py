"""Methods by name, and what is searched of them."""

import dataclasses

import pytest

from pspns.components import find_part, part_names
from pspns.errors import SettingsError
from pspns.method_options import resolve_methods
from pspns.models.mf import MatrixFactorisation
from pspns.options import Layer
from pspns.positives.agreement import AgreementPositives
from pspns.positives.psp import PspPositives
from pspns.recipes import recipe_names
from pspns.search_space import EVERY_METHOD, Choices
from pspns.settings import PART_SECTIONS, Settings
from pspns.starts.spectral import SpectralStart
from pspns.tuning import methods
from pspns.tuning.methods import (
    Method,
    file_stem,
    method_names,
    only_losses,
    read_method,
    searchable,
    searched,
    settings_called,
    with_values,
)
from pspns.weightings.log import LogWeighting


class TestNames:
    @pytest.mark.parametrize("name", recipe_names())
    def test_recipes(self, name):
        assert read_method(name) == Method(name, {})

    @pytest.mark.parametrize("name", part_names("negatives"))
    def test_negatives_alone_and_with_a_recipe(self, name):
        assert read_method(name) == Method("plain", {"negatives": name})
        assert read_method(f"paper+{name}") == read_method(f"{name}+paper") == Method("paper", {"negatives": name})

    @pytest.mark.parametrize("name", part_names("denoisers"))
    def test_denoisers_alone_with_a_recipe_and_with_negatives(self, name):
        assert read_method(name) == Method("plain", {"denoiser": name})
        assert read_method(f"{name}+paper+dns") == Method("paper", {"denoiser": name, "negatives": "dns"})

    def test_no_name_has_two_meanings(self):
        sections = [part_names(PART_SECTIONS[section]) for section in methods.METHOD_SECTIONS]
        names = [*recipe_names(), *(name for section in sections for name in section)]
        assert len(names) == len(set(names)), "rename a part, or methods must say section=name"

    def test_blanks_and_one_text_for_several(self):
        names = ["plain", "paper+dns"]
        assert method_names("plain, paper + dns ") == method_names([" plain", "paper +dns"]) == names
        assert method_names("dns") == method_names(["dns"]) == ["dns"]
        with pytest.raises(SettingsError, match=r"a method is a name such as 'plain' or 'paper\+dns', got 3"):
            method_names(["plain", 3])

    def test_a_part_from_elsewhere(self):
        """`pspns train --negatives my_module:MyNegatives` can be tuned too."""
        assert read_method("mine.too:Mine+paper") == Method("paper", {"negatives": "mine.too:Mine"})
        assert read_method("negatives=mine:Mine") == read_method("mine:Mine")
        found = read_method("paper+dns+denoiser=mine:Mine")
        assert found == Method("paper", {"negatives": "dns", "denoiser": "mine:Mine"})
        for text in ("weighting=mine:Mine", "recipe=mine:Mine", "denoiser=dns"):
            with pytest.raises(SettingsError, match=f"no recipe or negatives or denoiser named '{text}'"):
                read_method(text)
        assert file_stem("paper+mine.too:Mine") == "paper+mine.too.Mine"
        with pytest.raises(SettingsError, match=r"has two of negatives, dns and mine:Mine; name one of .*uniform"):
            read_method("dns+mine:Mine")

    def test_a_further_kind_of_part_is_one_more_section(self, monkeypatch):
        monkeypatch.setattr(methods, "METHOD_SECTIONS", ("negatives", "weighting"))
        assert read_method("log+paper+uniform") == Method("paper", {"weighting": "log", "negatives": "uniform"})

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            (
                "papr",
                r"method 'papr': no recipe or negatives or denoiser named 'papr'; available: .*did you mean 'paper'",
            ),
            ("plain+", "named ''; available: .*plain"),
            ("plain+paper", r"method 'plain\+paper' has two of recipe, plain and paper; name one of .*recommended"),
            ("uniform+uniform", "has two of negatives, uniform and uniform"),
        ],
    )
    def test_names_that_are_none(self, text, complaint):
        with pytest.raises(SettingsError, match=complaint):
            read_method(text)

    def test_a_name_with_two_meanings(self, monkeypatch):
        monkeypatch.setattr(methods, "METHOD_SECTIONS", ("weighting", "split"))
        monkeypatch.setattr(methods, "part_names", lambda kind: ["none"])
        with pytest.raises(SettingsError, match=r"'none' is the name of weighting and of split; say .* weighting=none"):
            read_method("plain+none")
        assert read_method("plain+split=none") == Method("plain", {"split": "none"})


class TestWhatIsSearched:
    def test_plain_training_has_a_learning_rate_and_an_l2_weight(self):
        assert searched(Settings()) == EVERY_METHOD
        assert isinstance(EVERY_METHOD["training.learning_rate"], Choices), "a span would give every trial its own loop"

    def test_parts_add_what_they_say_of_themselves(self):
        found = searched(Settings(positives=AgreementPositives(), weighting=LogWeighting(), start=SpectralStart()))
        assert set(found) - set(EVERY_METHOD) == {
            "positives.rank", "positives.copies", "weighting.sensitivity", "start.score_spread",
        }  # fmt: skip
        assert found["positives.copies"] == PspPositives.search["copies"]

    @pytest.mark.parametrize("section", PART_SECTIONS)
    def test_every_part_searches_settings_that_it_has_and_takes(self, section):
        kind = PART_SECTIONS[section]
        for name in part_names(kind):
            part = find_part(kind, name)
            for key, values in getattr(part, "search", {}).items():
                for value in values.examples:
                    assert getattr(part(**{key: value}), key) == value
            assert "search" not in {field.name for field in dataclasses.fields(part)}


class TestLosses:
    """A method is a name, so what its part cannot do without has to come with it."""

    @pytest.mark.parametrize("name", part_names("denoisers"))
    def test_every_denoiser_trains_with_what_comes_with_it(self, name):
        bases, _ = resolve_methods(name, Layer("here", {}), None, {})
        part = find_part("denoisers", name)
        losses = getattr(part, "losses", ("bpr",))
        assert bases[name].denoiser == part()
        assert bases[name].training.loss == ("bpr" if "bpr" in losses else losses[0])

    def test_what_is_said_for_all_wins_and_is_refused_where_it_cannot_be(self):
        bases, _ = resolve_methods("plain,t-ce,deca", Layer("here", {"loss": "bce"}), None, {})
        assert {settings.training.loss for settings in bases.values()} == {"bce"}
        with pytest.raises(SettingsError, match=r"loss must be bce with \[denoiser\] deca as it is set, got bpr"):
            resolve_methods("plain,deca", Layer("here", {"loss": "bpr"}), None, {})

    def test_parts_that_know_both_or_whose_settings_decide_bring_none(self):
        assert only_losses({"denoiser": "deca-p", "negatives": "dns-m-n"}) == {"training.loss": "bce"}
        assert only_losses({"denoiser": "pld"}) == {"training.loss": "bpr"}
        assert only_losses({"denoiser": "t-ce", "negatives": "dns-m-n"}) == {}


def test_what_a_denoiser_says_of_itself_is_searched():
    bases, spaces = resolve_methods("dcf,plain", Layer("here", {}), None, {"drop-rate": [0.1, 0.3]})
    assert spaces["plain"].keys() == EVERY_METHOD.keys()
    own = find_part("denoisers", "dcf").search
    assert {name.removeprefix("denoiser.") for name in spaces["dcf"]} == {*own, *EVERY_METHOD}
    assert spaces["dcf"]["denoiser.drop_rate"] == Choices((0.1, 0.3)) != own["drop_rate"]
    assert "denoiser.relabel_epochs" in searchable(bases["dcf"])


def test_values_go_where_they_belong():
    before = Settings(positives=PspPositives(rank=7))
    found = with_values(before, {"training.l2": 0.5, "positives.copies": 9})
    assert found.training.l2 == 0.5
    assert found.positives == PspPositives(rank=7, copies=9)
    assert before == Settings(positives=PspPositives(rank=7))
    with pytest.raises(SettingsError, match="l2 must be at least 0"):
        with_values(before, {"training.l2": -1.0})


def test_what_is_judged_and_for_how_long_cannot_be_searched():
    settings = Settings(model=MatrixFactorisation())
    assert settings_called("l2", settings) == settings_called("training.l2", settings) == ["training.l2"]
    for name in ("run.seeds", "seeds", "evaluation.k", "protocol", "max_steps", "training.patience", "steps"):
        assert settings_called(name, settings) == []
    assert "model.embedding_size" in searchable(settings)


def test_what_is_tried_must_be_by_setting():
    """As the command line writes it, it is no mapping."""
    with pytest.raises(SettingsError, match=r"must be settings with what is tried of each.*got 'l2=0\.1'"):
        resolve_methods("plain", Layer("here", {}), None, "l2=0.1")
