"""Tables in which ours stands beside the paper's."""

import numpy as np
import pytest
from forged_records import HELD_OUT, forged, forged_hits, write_forged

from pspns.evaluation.significance import holm, sign_flip_p_value
from pspns.experiments import published
from pspns.experiments.cells import Cell
from pspns.experiments.records import Difference, Records, Seen
from pspns.experiments.reproduction._beside import (
    against,
    apart,
    beside_paper,
    captioned,
    corrected,
    distance,
    in_print,
    other_metrics,
    under_both,
)

METHODS = ("uniform", "dns", "psp-ns", "recommended")
CHANCES = {"uniform": 0.3, "dns": 0.3, "psp-ns": 0.45, "recommended": 0.7}


def cell(method, protocol="strict", data="ml-1m"):
    return Cell(data, "lightgcn", method, protocol)


@pytest.fixture
def records(tmp_path):
    found = Records(tmp_path)
    for method, chance in CHANCES.items():
        write_forged(found, cell(method), chance=chance)
    write_forged(found, cell("psp-ns", "published"), chance=0.6)
    return found


def rows(table):
    return {heads[0]: dict(zip(table.columns, cells, strict=True)) for heads, cells in table.rows}


def shown(records, **options):
    return beside_paper(records, "name", options.pop("data", "ml-1m"), "lightgcn", METHODS, table="overall", **options)


def mean_recall(which, **options):
    return 100 * (forged_hits(which, **options) / HELD_OUT).mean()


def test_each_figure_is_that_of_its_record_and_mask(records):
    found = rows(shown(records))
    assert list(found) == ["RNS", "DNS", "PSP-NS", "recommended", "popular", "svd", "ease"]
    for method, row in (("uniform", "RNS"), ("dns", "DNS"), ("recommended", "recommended")):
        chance = CHANCES[method]
        assert found[row]["ours, strict"].value == pytest.approx(mean_recall(cell(method), chance=chance))
        masked = mean_recall(cell(method), mask="train", chance=chance)
        assert found[row]["ours, published"].value == pytest.approx(masked)
        assert found[row]["ours, published"].record == cell(method).name
    of_psp = found["PSP-NS"]
    assert of_psp["ours, strict"].value == pytest.approx(mean_recall(cell("psp-ns"), chance=0.45))
    assert of_psp["ours, published"].value == pytest.approx(mean_recall(cell("psp-ns", "published"), chance=0.6))
    assert of_psp["ours, published"].record == cell("psp-ns", "published").name
    assert not records.missing


def test_baselines_stand_under_the_mask_of_psp_ns_and_under_the_strict_one(records):
    found = rows(shown(records))["ease"]
    expected = {
        column: Seen("", forged(which, chance=chance)).of_baseline("ease").mean("recall@20")
        for column, which, chance in (
            ("ours, published", cell("psp-ns", "published"), 0.6),
            ("ours, strict", cell("uniform"), 0.3),
        )
    }
    for column, share in expected.items():
        assert found[column].value == pytest.approx(100 * share)
    assert found["paper"] is None
    assert found["p"] is not None


def test_printed_figures_are_those_of_the_paper(records):
    found = rows(shown(records))
    assert (found["RNS"]["paper"].value, found["PSP-NS"]["paper"].value) == (26.68, 39.56)
    assert found["recommended"]["paper"] is None
    assert found["RNS"]["paper"].record == ""
    others = rows(other_metrics(records, "name", "ml-1m", "lightgcn", METHODS, "overall"))
    assert others["PSP-NS"]["Precision@20, paper"].value == 21.31
    assert others["PSP-NS"]["Recall@30, paper"].value == 45.89
    assert others["PSP-NS"]["Precision@30, paper"] is None


def test_other_metrics_are_those_of_the_same_records(records):
    found = rows(other_metrics(records, "name", "ml-1m", "lightgcn", METHODS, "overall"))
    strict, masked = Seen("", forged(cell("dns"))), Seen("", forged(cell("dns")), "train")
    for metric in ("precision@20", "recall@30", "precision@30"):
        title = metric.capitalize()
        assert found["DNS"][f"{title}, strict"].value == pytest.approx(100 * strict.mean(metric))
        assert found["DNS"][f"{title}, published"].value == pytest.approx(100 * masked.mean(metric))


def test_the_difference_is_in_percent_of_the_printed_figure(records):
    found = rows(shown(records))["PSP-NS"]
    ours = found["ours, published"].value
    assert found["difference"].value == pytest.approx(100 * (ours - 39.56) / 39.56)
    assert found["difference"].tone == "worse"
    assert rows(shown(records))["recommended"]["difference"] is None
    assert distance("ml-1m", 43.9, 40.0, "").tone == ""
    assert distance("ml-1m", 44.1, 40.0, "").tone == "worse"
    assert distance("ml-1m", 35.9, 40.0, "").tone == "worse"
    assert apart("ml-1m", None, "recall@20", 26.68) is None


@pytest.mark.parametrize("data", ["yelp2018-part", "pinterest", "ml-1m-by-user", "epinions-by-user"])
def test_other_data_than_the_papers_are_as_far_and_not_called_worse(data, tmp_path):
    records = Records(tmp_path)
    write_forged(records, cell("uniform", data=data), chance=0.9)
    found = rows(shown(records, data=data))["RNS"]
    assert abs(found["difference"].value) > 10
    assert found["difference"].tone == ""
    assert distance(data, 80.0, 40.0, "").value == pytest.approx(100)


def test_p_values_are_corrected_for_all_rows_of_the_table(records):
    found = rows(shown(records))
    plain = forged_hits(cell("uniform")).mean(axis=0) / HELD_OUT
    by_row = {
        "DNS": forged_hits(cell("dns")).mean(axis=0) / HELD_OUT,
        "PSP-NS": forged_hits(cell("psp-ns"), chance=0.45).mean(axis=0) / HELD_OUT,
        "recommended": forged_hits(cell("recommended"), chance=0.7).mean(axis=0) / HELD_OUT,
    }
    seen = Seen("", forged(cell("uniform")))
    by_row |= {name: seen.of_baseline(name).by_user() for name in ("popular", "svd", "ease")}
    raw = [sign_flip_p_value(one - plain, rng=np.random.default_rng(0)) for one in by_row.values()]
    expected = dict(zip(by_row, holm(raw).tolist(), strict=True))
    assert any(p != q for p, q in zip(raw, expected.values(), strict=True))
    for name, p in expected.items():
        assert found[name]["p"] == ("< 0.001" if p < 0.001 else f"{p:.3f}")
        points = found[name]["against RNS, strict"]
        assert points.value == pytest.approx(100 * (by_row[name] - plain).mean())
        assert points.tone == ("" if p >= 0.05 else "better" if points.value > 0 else "worse")
    assert {found[name]["against RNS, strict"].tone for name in expected} >= {"", "better"}
    assert found["RNS"]["p"] is None
    assert found["PSP-NS"]["against RNS, strict"].record == cell("psp-ns").name


def test_another_method_may_be_the_reference(records):
    found = rows(shown(records, reference="recommended"))
    assert found["recommended"]["against recommended, strict"] is None
    assert found["RNS"]["against recommended, strict"].tone == "worse"


def test_what_has_no_record_is_left_out_and_named(tmp_path):
    records = Records(tmp_path)
    write_forged(records, cell("dns"))
    table = shown(records)
    found = rows(table)
    assert found["DNS"]["ours, strict"] is not None
    assert found["DNS"]["against RNS, strict"] is None
    for row in ("RNS", "PSP-NS", "recommended", "ease"):
        assert found[row]["ours, published"] is None
        assert found[row]["ours, strict"] is None
    names = {cell("uniform").name, cell("psp-ns").name, cell("psp-ns", "published").name, cell("recommended").name}
    assert set(records.missing) == names


def test_what_must_be_trained_is_what_the_tables_ask_for(tmp_path):
    records = Records(tmp_path)
    shown(records)
    other_metrics(records, "name", "ml-1m", "lightgcn", METHODS, "overall")
    assert set(records.missing) == {one.name for one in under_both("ml-1m", "lightgcn", METHODS)}
    assert len(records.missing) == 5


def test_methods_of_the_same_parts_show_the_same_record(records):
    table = beside_paper(
        records, "n", "ml-1m", "lightgcn", ("observed", "psp-ns"), reference="observed", table="variants"
    )
    assert rows(table)["1-hop"]["ours, strict"] == rows(shown(records))["RNS"]["ours, strict"]
    assert [one.method for one in under_both("d", "mf", ("observed", "psp"))] == ["uniform", "psp", "psp"]


def test_stand_ins_say_so(records):
    assert captioned("ml-1m", "Recall@20") == "MovieLens-1M, Recall@20"
    assert "in place of the paper's 29,061" in shown(records, data="yelp2018-part").caption
    assert rows(shown(records, data="yelp2018-part"))["PSP-NS"]["paper"].value == 15.01
    assert rows(shown(records, data="planted"))["PSP-NS"]["paper"] is None


def test_a_printed_figure_that_cannot_be_right_says_why():
    wrong = in_print("overall", "pinterest", "lightgcn", "mixgcf", "precision@20")
    assert (wrong.value, wrong.note) == (0.74, "With one item held out for each user it must be Recall@20 / 20.")
    for table in published.tables().values():
        for note in table.notes:
            data = {"yelp": "yelp2018-part"}.get(note.data, note.data)
            for users in table.figures:
                found = in_print(table.name, data, table.model, note.method, note.metric, users=users)
                assert found.note == note.note
    assert in_print("overall", "pinterest", "lightgcn", "mixgcf", "recall@20").note == ""
    assert in_print("overall", "ml-1m", "lightgcn", "mixgcf", "precision@20").note == ""


def test_p_is_written_with_three_digits():
    def words_of(p):
        return against(Difference(0.01, -0.01, 0.03, p))[1]

    assert [words_of(p) for p in (0.0001, 0.001, 0.04, 1.0)] == ["< 0.001", "0.001", "0.040", "1.000"]
    assert against(None) == (None, None)
    points, _ = against(Difference(0.01, -0.01, 0.03, 0.5, "name"))
    assert (str(points), points.record) == ("+1.00 (-1.00 to +3.00)", "name")


def test_corrections_keep_everything_but_p():
    tested = {name: Difference(0.1, 0.0, 0.2, p, name) for name, p in (("a", 0.01), ("b", 0.04), ("c", 0.03))}
    found = corrected(tested)
    assert {name: round(one.p_value, 6) for name, one in found.items()} == {"a": 0.03, "b": 0.06, "c": 0.06}
    assert found["b"].record == "b"
    assert corrected({}) == {}
