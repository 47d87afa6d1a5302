import pytest

from benchmarks.ranking import Task, run
from pspns.evaluation.ranking import FullRanking

TINY = Task("tiny", 80, 60, 900)


def test_every_reference_is_checked_and_timed():
    bare, loop = run((TINY,))
    assert bare.reference == "bare product and top-20"
    assert loop.reference == "loop over users, Recall@20 only"
    assert all(timed.ours_seconds > 0 and timed.reference_seconds > 0 for timed in (bare, loop))


def test_another_answer_is_not_timed(monkeypatch):
    judge = FullRanking.judge

    def judge_wrongly(ranking, scorer, replica):
        found = judge(ranking, scorer, replica)
        found.overall["recall@20"] += 1e-6
        return found

    monkeypatch.setattr(FullRanking, "judge", judge_wrongly)
    with pytest.raises(AssertionError, match="ours and loop over users, Recall@20 only give different answers"):
        list(run((TINY,)))
