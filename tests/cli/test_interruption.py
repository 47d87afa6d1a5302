"""Signals, sent by the process to itself: which raise, which wait for the end of a step."""

from __future__ import annotations

import signal

import pytest

from pspns.cli.interruption import SIGNALS, Interruption
from pspns.training.stopping import Evaluation


def watch(step: int, last_step: int, evaluation: Evaluation | None) -> None:
    """Nothing to see."""


@pytest.mark.promise("full-disk-and-signals")
@pytest.mark.parametrize("number", SIGNALS)
class TestSignals:
    def test_outside_training_the_first_stops(self, number: signal.Signals) -> None:
        with Interruption() as interruption:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            assert interruption.exit_code == 128 + number

    def test_in_training_the_first_waits_for_the_step(
        self, number: signal.Signals, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with Interruption() as interruption:
            told: list[int] = []
            tell = interruption.watch_too(lambda step, last_step, evaluation: told.append(step))
            tell(1, 100, None)
            signal.raise_signal(number)
            assert "stopping after this step; once more to stop at once" in capfd.readouterr().err
            with pytest.raises(KeyboardInterrupt):
                tell(2, 100, None)
            assert told == [1, 2]
            assert interruption.exit_code == 128 + number

    def test_the_second_stops_at_once(self, number: signal.Signals) -> None:
        with Interruption() as interruption:
            interruption.watch_too(watch)(1, 100, None)
            signal.raise_signal(number)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)

    def test_after_training_the_first_stops_again(self, number: signal.Signals) -> None:
        with Interruption() as interruption:
            tell = interruption.watch_too(watch)
            tell(1, 2, None)
            tell(2, 2, None)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)


@pytest.mark.promise("full-disk-and-signals")
def test_asked_for_in_the_last_step_it_stops_after_it() -> None:
    with Interruption() as interruption:
        tell = interruption.watch_too(watch)
        tell(1, 2, None)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            tell(2, 2, None)


def test_an_interrupt_of_other_origin_counts_as_ctrl_c() -> None:
    assert Interruption().exit_code == 130


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            tell = interruption.watch_too(watch)
            signal.raise_signal(signal.SIGINT)
            tell(1, 100, None)
            signal.raise_signal(signal.SIGINT)
            tell(2, 100, None)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_earlier_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]

    def fail_inside() -> None:
        with Interruption():
            assert not set(before) & {signal.getsignal(number) for number in SIGNALS}
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fail_inside()
    assert [signal.getsignal(number) for number in SIGNALS] == before
