"""How true PSP's pairs are, by the copies of agreed ones: a weighted mean of two parts that are known."""

import numpy as np
import pytest

from pspns.data.planted import plant
from pspns.experiments.carrying_out import carry_out
from pspns.experiments.experiment import Experiment
from pspns.experiments.records import Records
from pspns.experiments.reproduction import _planted_copies
from pspns.experiments.request import QUICK
from pspns.experiments.sections import Section


class TinyWorld:
    def plant(self):
        return plant("clustered", n_users=120, n_items=100, rng=np.random.default_rng(0), mean_preferences=20)


def test_the_accuracy_of_every_number_of_copies(tmp_path, monkeypatch):
    monkeypatch.setattr(_planted_copies, "WORLDS", ("planted-clustered",))
    real = _planted_copies.find_part
    monkeypatch.setattr(
        _planted_copies, "find_part", lambda kind, name: TinyWorld if kind == "datasets" else real(kind, name)
    )
    records = Records(tmp_path)
    one = Experiment("", "", lambda records, data: Section("", "", ()), jobs=_planted_copies.jobs)
    carry_out({"other": [one]}, records, QUICK, lambda name: TinyWorld().plant().interactions)
    found = records.find("planted-copies")["worlds"]["planted-clustered"]
    assert list(found) == ["observed", "1", "2", "3", "4", "5"]
    assert len({found[copies]["coverage"] for copies in "12345"}) == 1
    assert found["1"]["coverage"] > found["observed"]["coverage"]
    # With s copies accuracy is (s·n·a + m·b) / (s·n + m): its reciprocal distance from a is a straight line in s. From
    # the figures of 1, 2 and 3 copies those of 4 and 5 follow.
    one, two, three, four, five = (found[copies]["accuracy"] for copies in "12345")
    ratio, agreed = solved(one, two, three)
    assert [four, five] == pytest.approx([agreed + (one - agreed) * (1 + ratio) / (s + ratio) for s in (4, 5)])
    assert one < two < three < four < five < agreed


def solved(one, two, three):
    """m / n and a, from (accuracy − a)·(s + m / n) being the same for every s."""
    a = np.array([[1.0, -two + one], [2.0, -three + one]])
    # (one − a)(1 + r) = (s_accuracy − a)(s + r)  ⇔  (s − 1)·a + (one − s_accuracy)·r = s·s_accuracy − one
    b = np.array([2 * two - one, 3 * three - one])
    agreed, ratio = np.linalg.solve(a, b)
    return ratio, agreed
