"""Ctrl-C and SIGTERM inside the process; the command as a whole is in tests/e2e."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from server.commands.signals import SIGNALS, Terminated, held_back, sigterm_unwinds


def raise_all(*numbers: signal.Signals, said: list[str] | None = None) -> None:
    """Raise signals inside this process; say so if the last one let us go on."""
    for number in numbers:
        signal.raise_signal(number)
    if said is not None:
        said.append("went on")


def test_sigterm_unwinds_and_has_its_usual_status() -> None:
    with pytest.raises(Terminated) as ended, sigterm_unwinds():
        raise_all(signal.SIGTERM)
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_waits_for_the_end_of_the_block(
    number: signal.Signals, raised: type[BaseException]
) -> None:
    said: list[str] = []
    with sigterm_unwinds(), pytest.raises(raised), held_back():
        raise_all(number, said=said)
    assert said == ["went on"]


def test_the_block_can_ask_whether_a_signal_waits() -> None:
    said: list[bool] = []

    def block(came: Callable[[], bool]) -> None:
        said.append(came())
        raise_all(signal.SIGINT)
        said.append(came())

    with pytest.raises(KeyboardInterrupt), held_back() as came:
        block(came)
    assert said == [False, True]


def test_a_second_signal_does_not_wait() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), held_back():
        raise_all(signal.SIGINT, signal.SIGINT, said=said)
    assert said == []


def test_without_a_signal_nothing_happens_and_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with held_back():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_error_of_the_block_comes_before_the_signal() -> None:
    def fails() -> None:
        raise_all(signal.SIGINT)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"), held_back():
        fails()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
