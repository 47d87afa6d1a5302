"""Construction time: the stages are those of the builder, the words follow from the figures."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy import random_pairs

from pspns.data.planted import plant
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.cells import Terms
from pspns.experiments.records import Records
from pspns.experiments.reproduction import construction_time, find_experiment
from pspns.experiments.telling import Telling
from pspns.global_svd import GlobalSvd
from pspns.memory import MemoryBudget
from pspns.positives.psp import PspPositives
from pspns.shapes import Ground

TERMS = Terms(device="cpu", changes=(("positives.rank", 8),))


@pytest.fixture(scope="module")
def interactions():
    return plant("clustered", n_users=80, n_items=60, rng=np.random.default_rng(0), mean_preferences=12).interactions


@pytest.fixture(scope="module")
def records(interactions, tmp_path_factory):
    records = Records(tmp_path_factory.mktemp("records"))
    carry_out({"toy": [find_experiment("construction-time")]}, records, TERMS, lambda name: interactions)
    return records


def written(folder, name, *, users, items, seconds):
    record = {
        "data": {"users": users, "items": items},
        "machine": {"device": "a machine"},
        "pairs": 7,
        "seconds": {stage: {"median": seconds} for stage in ("all", "svd", "proposals", "merge", "weights")},
    }
    (folder / f"construction-time-{name}.json").write_text(json.dumps(record))


def test_seconds_are_measured_while_nobody_is_at_anything_else():
    assert all(job.alone for job in find_experiment("construction-time").jobs("ml-1m"))


def test_the_record_has_every_stage_and_what_was_built(records):
    record = json.loads((records.folder / "construction-time-toy.json").read_text())
    assert set(record["seconds"]) == {"svd", "proposals", "merge", "weights", "all"}
    for found in record["seconds"].values():
        assert len(found["each"]) == 3
        assert found["median"] == sorted(found["each"])[1]
        assert found["median"] > 0
    assert record["exact_svd"]
    assert record["settings"]["positives"] == {**record["settings"]["positives"], "name": "psp", "rank": 8}
    assert record["data"]["fingerprint"]
    assert record["versions"]["torch"] == torch.__version__
    assert record["pairs"] < record["visits_an_epoch"]


def test_the_last_stage_makes_what_the_builder_makes_of_the_same_proposals():
    train = random_pairs(40, 30, 300, np.random.default_rng(1))
    ground = Ground(40, 30, train, 0, MemoryBudget(torch.device("cpu")))
    builder = PspPositives(rank=5, copies=4)
    merging = construction_time._FromProposals(**vars(builder), proposals=builder.propose(ground))
    assert merging.build(ground).equals(builder.build(ground))


def test_every_repetition_makes_an_svd_of_its_own(interactions, monkeypatch):
    made = []
    factors = GlobalSvd.factors

    def counted(self, *args, **options):
        made.append(not self._made)
        return factors(self, *args, **options)

    monkeypatch.setattr(GlobalSvd, "factors", counted)
    construction_time.measure("one", "toy", interactions, TERMS, Telling())
    # The first proposals, then (1 + 3) times the stage and (1 + 3) times the whole.
    assert sum(made) == 1 + 4 + 4


def test_the_first_time_is_not_counted(monkeypatch):
    clock = iter([0.0, 100.0, 0.0, 3.0, 0.0, 1.0, 0.0, 2.0])
    monkeypatch.setattr(construction_time, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = construction_time.seconds_of(lambda: None, torch.device("cpu"))
    assert found == {"median": 2.0, "each": [3.0, 1.0, 2.0]}


def test_ours_stand_beside_the_papers_seconds_and_what_is_missing_is_named(tmp_path):
    written(tmp_path, "ml-1m", users=6039, items=3601, seconds=0.303)
    section = find_experiment("construction-time").section(Records(tmp_path), ["ml-1m", "epinions"])
    stages, growth = section.tables
    assert [str(cell) for cell in stages.rows[0][1][:3]] == ["3.03", "0.3030", "0.3030"]
    assert [cell and str(cell) for cell in stages.rows[1][1][:3]] == ["1.89", None, None]
    assert section.missing == ("construction-time-epinions",)
    assert "10 on MovieLens-1M" in section.words[1]
    assert growth.rows[0][1][3].value == pytest.approx(0.303e9 / (6039 * 3601 * math.log(3601)))
    assert growth.rows[0][1][5].value == pytest.approx(3.03e9 / (6040 * 3629 * math.log(3629)))


def test_words_say_whether_the_seconds_grow_as_the_bound_does(tmp_path):
    def words(second_seconds):
        bounds = [users * items * math.log(items) for users, items in ((6039, 3601), (11496, 11656))]
        written(tmp_path, "ml-1m", users=6039, items=3601, seconds=1e-9 * bounds[0])
        written(tmp_path, "epinions", users=11496, items=11656, seconds=second_seconds * 1e-9 * bounds[1])
        return find_experiment("construction-time").section(Records(tmp_path), ["ml-1m", "epinions"]).words[-1]

    assert "Our seconds grow about so: for each unit Epinions takes 1.5 times as long as MovieLens-1M." in words(1.5)
    assert "Our seconds do not grow so: for each unit MovieLens-1M takes 4.0 times as long as Epinions." in words(0.25)
    # Epinions: 1.89 s / (11,496 · 11,656 · 9.3635) = 1.5064 ns; Ml-1m: 3.03 s / (6,040 · 3,629 · 8.1967) = 16.865 ns.
    assert "The paper's own seconds do not grow so: for each unit Ml-1m takes 11.2 times as long as Epinions" in words(
        1
    )
