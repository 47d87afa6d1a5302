"""Carrying out: what has no record is run, what has one is left alone, and being stopped costs nothing but time."""

import itertools
import json

import numpy as np
import pytest

from pspns.data.planted import plant
from pspns.errors import SettingsError
from pspns.evaluation.protocol import find_protocol
from pspns.experiments import loops as loops_module
from pspns.experiments.carrying_out import NotTrainedError, carry_out
from pspns.experiments.cells import Cell, Terms
from pspns.experiments.experiment import Experiment, Job
from pspns.experiments.records import Records, describe_cell
from pspns.experiments.sections import Section
from pspns.record import describe_data
from pspns.run import make_split, run, run_together

TERMS = Terms(
    max_steps=12,
    patience=2,
    seeds=2,
    device="cpu",
    changes=(("model.embedding_size", 4), ("training.evaluate_every", 6), ("training.learning_rate", 0.05)),
)
UNIFORM, REPEATED, DNS, PUBLISHED = (
    Cell("planted", "mf", "uniform"),
    Cell("planted", "mf", "repeated"),
    Cell("planted", "mf", "dns"),
    Cell("planted", "mf", "psp-ns", "published", (("positives.rank", 4),)),
)
ALL = (UNIFORM, DNS, REPEATED, PUBLISHED)  # RNS, DNS: two loops


@pytest.fixture(scope="module")
def interactions():
    return plant("clustered", n_users=40, n_items=40, rng=np.random.default_rng(0), mean_preferences=12).interactions


def experiment(*cells, jobs=()):
    return Experiment(
        title="",
        shows="",
        section=lambda records, names: Section("", "", ()),
        cells=lambda data: [cell for cell in cells if cell.data == data],
        jobs=lambda data: [job for job in jobs if job.data == data],
    )


@pytest.fixture
def carried_out(interactions, tmp_path):
    """Carry experiments out into a folder; gives the records anew and the names of the data that were read."""

    def carry(*experiments, folder="out", terms=TERMS, **options):
        read = []

        def load(name):
            read.append(name)
            return interactions

        records = Records(tmp_path / folder)
        carry_out({"planted": experiments}, records, terms, load, **options)
        return Records(tmp_path / folder), read

    return carry


def without_clocks(record, *, company=True):
    """What does not depend on the machine's mood: all but seconds and, if not asked for, the others in the loop."""
    kept = {key: value for key, value in record.items() if key not in ("seconds", "looks")}
    if not company:
        kept |= {"cell": {**record["cell"], "trained_with": []}, "replicas_in_loop": 0}
    return json.loads(json.dumps(kept))


def files(records):
    return {path.stem: path.read_bytes() for path in records.folder.glob("*.json")}


def test_every_record_is_that_of_a_run_alone(carried_out, interactions):
    records, read = carried_out(experiment(*ALL))
    assert read == ["planted"]
    assert files(records).keys() == {cell.name for cell in ALL}
    for cell in ALL:
        alone = describe_cell(run(interactions, cell.settings(TERMS, "planted")), cell, [])
        found = records.find(cell.name)
        assert without_clocks(found, company=False) == without_clocks(alone, company=False)
    together = records.find(UNIFORM.name)["cell"]["trained_with"]
    assert together == [UNIFORM.name, REPEATED.name, PUBLISHED.name]
    assert records.find(DNS.name)["cell"]["trained_with"] == [DNS.name]


def test_the_second_time_nothing_is_trained(carried_out, monkeypatch):
    job = Job("measured-planted", "planted", lambda data, terms, telling: {"count": len(data.users)})
    records, _ = carried_out(experiment(*ALL, jobs=[job]))
    before = files(records)
    assert records.find("measured-planted")["count"] > 0
    monkeypatch.setattr(loops_module, "run_together", None)
    said = []
    records, read = carried_out(experiment(*ALL, jobs=[job]), say=said.append)
    assert read == ["planted"]  # whether the records are of it
    assert said == ["planted: 5 records, 0 of them to be made"]
    assert files(records) == before
    assert carried_out(experiment(*ALL, jobs=[job]), keep=True)[1] == []


def test_records_of_other_data_are_refused_even_where_all_are_there(carried_out, tmp_path):
    records, _ = carried_out(experiment(UNIFORM))
    other = plant("clustered", n_users=30, n_items=40, rng=np.random.default_rng(1), mean_preferences=12).interactions
    with pytest.raises(SettingsError, match="was made of other data than planted is now"):
        carry_out({"planted": [experiment(UNIFORM)]}, records, TERMS, lambda name: other)
    carry_out({"planted": [experiment(UNIFORM)]}, records, TERMS, lambda name: other, keep=True)


def test_what_experiments_share_is_run_once(carried_out, monkeypatch):
    trained, measured = [], []

    def counted(data, members, **options):
        trained.append(len(members))
        return run_together(data, members, **options)

    monkeypatch.setattr(loops_module, "run_together", counted)
    job = Job("measured-planted", "planted", lambda *given: {"count": len(measured.append(1) or measured)})
    carried_out(experiment(UNIFORM, DNS, jobs=[job]), experiment(DNS, UNIFORM, REPEATED, jobs=[job]))
    assert (sorted(trained), len(measured)) == ([1, 2], 1)
    carried_out(experiment(UNIFORM, PUBLISHED, jobs=[job]))
    assert (trained[2:], len(measured)) == ([1], 1)


def test_a_measurement_on_other_terms_is_refused_unless_any_will_do(carried_out):
    job = Job("measured-planted", "planted", lambda data, terms, telling: {"steps": terms.max_steps})
    carried_out(experiment(jobs=[job]))
    other = Terms(**{**vars(TERMS), "max_steps": TERMS.max_steps + 1})
    with pytest.raises(SettingsError, match=rf"measured-planted\.json was made on .*'max_steps': {TERMS.max_steps},.*"):
        carried_out(experiment(jobs=[job]), terms=other)
    records, read = carried_out(experiment(jobs=[job]), terms=other, keep=True)
    assert (records.find("measured-planted")["steps"], read) == (TERMS.max_steps, [])
    carried_out(experiment(jobs=[job]), terms=Terms(**{**vars(TERMS), "trials": 9}))


def test_a_measurement_that_cannot_be_made_does_not_hold_up_the_others(carried_out, tmp_path):
    def impossible(data, terms, telling):
        raise SettingsError("no such rank")

    jobs = [Job("first-planted", "planted", impossible), Job("second-planted", "planted", lambda *given: {"count": 1})]
    said = []
    with pytest.raises(NotTrainedError, match=r"^no such rank; 1 loop or job could not be carried out") as caught:
        carried_out(experiment(UNIFORM, jobs=jobs), say=said.append)
    assert caught.value.exit_code == SettingsError.exit_code
    assert "not measured: first-planted: no such rank" in said
    assert files(Records(tmp_path / "out")).keys() == {UNIFORM.name, "second-planted"}


def test_a_measurement_or_trial_of_other_data_is_refused_too(carried_out, interactions):
    split = make_split(interactions, UNIFORM.settings(TERMS, "planted"), find_protocol("strict"))
    described = describe_data(split, "planted")
    job = Job("measured-planted", "planted", lambda *given: {"data": described})
    records, _ = carried_out(experiment(jobs=[job]))
    carried_out(experiment(UNIFORM, jobs=[job]))  # the same data
    of_others = {**records.find(job.name), "data": {**described, "fingerprint": "0123456789"}}
    records.write(job.name, of_others)
    with pytest.raises(
        SettingsError, match=r"measured-planted\.json was made of other data than planted is now: .*0123"
    ):
        carried_out(experiment(DNS, jobs=[job]))
    assert not records.has(DNS.name)
    # Some measure a world of their own as well, whatever the data.
    records.write(job.name, {**of_others, "data": {**of_others["data"], "source": "planted-elsewhere"}})
    carried_out(experiment(DNS, jobs=[job]))
    assert records.has(DNS.name)


@pytest.mark.parametrize(
    ("terms", "section"),
    [
        (Terms(**{**vars(TERMS), "max_steps": 13}), "training"),
        (Terms(**{**vars(TERMS), "seeds": 3}), "run"),
        (Terms(**{**vars(TERMS), "changes": (*TERMS.changes, ("model.embedding_size", 5))}), "model"),
        (Terms(**{**vars(TERMS), "changes": (*TERMS.changes, ("evaluation.k", (20, 31)))}), "evaluation"),
        (Terms(**{**vars(TERMS), "changes": (*TERMS.changes, ("weighting.name", "log"))}), "weighting"),
    ],
)
def test_a_record_of_other_settings_is_refused_and_the_section_named(terms, section, carried_out):
    records, _ = carried_out(experiment(UNIFORM))
    before = files(records)
    with pytest.raises(SettingsError, match=rf"{UNIFORM.name}\.json was made with \[{section}\].*--out"):
        carried_out(experiment(UNIFORM, DNS), terms=terms)
    assert files(Records(records.folder)) == before
    _, read = carried_out(experiment(UNIFORM), terms=terms, keep=True)
    assert read == []


def test_where_it_ran_is_no_other_setting(carried_out):
    carried_out(experiment(UNIFORM))
    elsewhere = Terms(**{**vars(TERMS), "changes": (*TERMS.changes, ("run.threads", 1), ("run.memory_gib", 3.0))})
    assert carried_out(experiment(UNIFORM), terms=elsewhere)[1] == ["planted"]


def test_a_key_that_a_record_does_not_know_is_at_its_default(carried_out):
    records, _ = carried_out(experiment(UNIFORM, PUBLISHED))
    for cell, section, key in ((UNIFORM, "training", "l2"), (PUBLISHED, "positives", "copies")):
        record = records.find(cell.name)
        del record["settings"][section][key], record["settings"]["denoiser"]
        records.write(cell.name, record)
    carried_out(experiment(UNIFORM, PUBLISHED))
    other = PUBLISHED.but(changes=(*PUBLISHED.changes, ("positives.copies", 2)))
    records.write(other.name, records.find(PUBLISHED.name))
    with pytest.raises(SettingsError, match=r"made with \[positives\]"):
        carried_out(experiment(other))


@pytest.mark.parametrize("keeps_checkpoints", [False, True])
def test_who_is_stopped_goes_on_to_the_same_bits(keeps_checkpoints, carried_out, monkeypatch, tmp_path):
    cells = (DNS, UNIFORM, PUBLISHED)
    whole, _ = carried_out(experiment(*cells), folder="whole")
    options = {"unfinished": tmp_path / "unfinished"} if keeps_checkpoints else {}
    count = itertools.count(1)

    def stopped_at_second(data, members, **more):
        if next(count) == 2:
            raise KeyboardInterrupt
        return run_together(data, members, **more)

    monkeypatch.setattr(loops_module, "run_together", stopped_at_second)
    with pytest.raises(KeyboardInterrupt):
        carried_out(experiment(*cells), **options)
    monkeypatch.undo()
    records = Records(tmp_path / "out")
    assert files(records).keys() == {DNS.name}
    first = files(records)[DNS.name]
    said = []
    records, _ = carried_out(experiment(*cells), say=said.append, **options)
    assert said[0] == "planted: 3 records, 2 of them to be made"
    assert files(records)[DNS.name] == first
    assert files(records).keys() == files(whole).keys()
    for cell in cells:
        assert without_clocks(records.find(cell.name)) == without_clocks(whole.find(cell.name))
    assert not (tmp_path / "unfinished").exists()


def test_stopped_within_a_loop_training_goes_on_from_where_it_was(carried_out, tmp_path):
    terms = Terms(**{**vars(TERMS), "max_steps": 30, "changes": (*TERMS.changes, ("run.checkpoint_seconds", 0.0))})
    whole, _ = carried_out(experiment(UNIFORM), folder="whole", terms=terms)
    steps = []

    def stop(step, last_step, evaluation):
        steps.append(step)
        if step >= 15:
            raise KeyboardInterrupt

    options = {"terms": terms, "unfinished": tmp_path / "unfinished"}
    with pytest.raises(KeyboardInterrupt):
        carried_out(experiment(UNIFORM), watch=stop, **options)
    assert not files(Records(tmp_path / "out"))
    steps.clear()
    records, _ = carried_out(experiment(UNIFORM), watch=lambda step, *rest: steps.append(step), **options)
    assert steps[0] > 6
    assert without_clocks(records.find(UNIFORM.name)) == without_clocks(whole.find(UNIFORM.name))
    assert not (tmp_path / "unfinished").exists()


def test_only_what_is_asked_for_is_run(carried_out):
    records, _ = carried_out(experiment(*ALL), only=[DNS.name])
    assert files(records).keys() == {DNS.name}
    with pytest.raises(SettingsError, match=r"no cell or job named 'mf-planted-dns'.*did you mean"):
        carried_out(experiment(*ALL), only=["mf-planted-dns"])


def test_two_cells_of_one_name_are_refused(carried_out):
    one = UNIFORM.but(changes=(("positives.rank", 3),), method="psp")
    other = UNIFORM.but(changes=(("start.rank", 3),), method="psp")
    assert one.name == other.name
    with pytest.raises(ValueError, match="have the same name"):
        carried_out(experiment(one, other))


def test_a_device_that_is_not_there_is_told_before_the_data_are_read(carried_out):
    with pytest.raises(SettingsError, match="abacus"):
        carried_out(experiment(UNIFORM), terms=Terms(device="abacus"))
