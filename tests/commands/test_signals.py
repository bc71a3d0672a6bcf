"""Ctrl-C and SIGTERM inside the process; the command as a whole is in tests/e2e."""

from __future__ import annotations

import signal

import pytest

from server.commands.signals import SIGNALS, Terminated, held_back, sigterm_unwinds


def test_sigterm_unwinds_and_has_its_usual_status() -> None:
    cleaned_up = False
    with pytest.raises(Terminated) as ended, sigterm_unwinds():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned_up = True
    assert ended.value.code == 143
    assert cleaned_up
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_waits_for_the_end_of_the_block(
    number: signal.Signals, raised: type[BaseException]
) -> None:
    done = False
    with sigterm_unwinds(), pytest.raises(raised), held_back():
        signal.raise_signal(number)
        done = True
    assert done


def test_a_second_signal_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), held_back():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it waited")


def test_without_a_signal_nothing_happens_and_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with held_back():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_error_of_the_block_comes_before_the_signal() -> None:
    with pytest.raises(OSError, match="disk"), held_back():
        signal.raise_signal(signal.SIGINT)
        raise OSError("disk")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
