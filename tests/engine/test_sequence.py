from __future__ import annotations

from server.engine.sequence import Sequence, Update
from server.engine.token_constraint import TokenConstraint
from tests.engine.helpers import VOCABULARY, Fails, Free, OneOf, TakesBack, job


def sequence(constraint: TokenConstraint, max_tokens: int = 100) -> Sequence:
    return Sequence(job("q", constraint, max_tokens=max_tokens), tell=lambda update: None)


def text(one: Sequence) -> str:
    return VOCABULARY.decode(one.tokens[len(one.job.prompt) :]).decode()


def say(one: Sequence, said: str) -> None:
    for byte in said.encode():
        assert one.append(byte) is None


def test_a_new_sequence_has_its_prompt_pending() -> None:
    one = sequence(Free())
    assert one.tokens == one.job.prompt
    assert one.tokens is not one.job.prompt
    assert (one.pending, one.output_tokens, one.decoding) == (len(one.job.prompt), 0, False)
    one.decoded = len(one.job.prompt)
    assert one.decoding


def test_a_sampled_token_brings_what_it_forces() -> None:
    one = sequence(OneOf("abc1", "abc2", "xyz"))
    assert one.force() is None
    assert one.append(ord("a")) is None
    assert text(one) == "abc"
    assert one.timings.forced_tokens == 2
    assert one.append(ord("2")) == "stop"
    assert text(one) == "abc2"
    assert one.timings.forced_tokens == 2


def test_what_can_only_be_one_text_is_forced_to_its_end() -> None:
    one = sequence(OneOf("abc"))
    assert one.force() == "stop"
    assert text(one) == "abc"


def test_the_token_limit_cuts_a_forced_run() -> None:
    one = sequence(OneOf("abcdef", "x"), max_tokens=4)
    assert one.force() is None
    assert one.append(ord("a")) == "length"
    assert text(one) == "abcd"
    assert one.timings.forced_tokens == 3


def test_the_token_limit_ends_after_a_sampled_token() -> None:
    one = sequence(OneOf("ab", "x"), max_tokens=1)
    assert one.append(ord("a")) == "length"
    assert text(one) == "a"


def test_an_answer_that_ends_at_the_limit_has_ended() -> None:
    assert sequence(OneOf("abc"), max_tokens=3).force() == "stop"
    one = sequence(OneOf("a", "b"), max_tokens=1)
    assert one.append(ord("b")) == "stop"


def test_tokens_are_taken_back() -> None:
    one = sequence(TakesBack("cX", back=3))
    say(one, "abc")
    one.decoded = len(one.tokens)
    say(one, "X")
    assert text(one) == "a"
    assert one.pending == 1  # the logits after "a" are needed again
    assert one.decoding


def test_taking_back_what_was_not_decoded_leaves_the_cells_alone() -> None:
    one = sequence(TakesBack("abcX", back=2))
    say(one, "abc")
    one.decoded = len(one.job.prompt) + 1
    say(one, "X")
    assert text(one) == "ab"
    assert one.pending == 1


def test_what_was_taken_back_does_not_count_for_the_penalties_or_the_limit() -> None:
    one = sequence(TakesBack("cX", back=3), max_tokens=4)
    say(one, "abcX")
    assert +one.sampler._seen == {ord("a"): 1}
    say(one, "pq")
    assert one.append(ord("r")) == "length"
    assert text(one) == "apqr"


def test_news_are_told_once_and_without_what_may_be_taken_back() -> None:
    one = sequence(TakesBack("dX", back=2))
    say(one, "abc")
    assert VOCABULARY.decode(list(one.news(everything=False))) == b"a"
    assert one.news(everything=False) == ()
    say(one, "d")
    assert VOCABULARY.decode(list(one.news(everything=False))) == b"b"
    say(one, "X")  # c stays, d and X go
    assert VOCABULARY.decode(list(one.news(everything=False))) == b"c"
    say(one, "Z")
    assert VOCABULARY.decode(list(one.news(everything=False))) == b"Z"


def test_all_is_told_at_the_end() -> None:
    one = sequence(TakesBack("no", back=10), max_tokens=3)
    say(one, "ab")
    assert one.news(everything=False) == ()
    assert one.append(ord("c")) == "length"
    assert VOCABULARY.decode(list(one.news(everything=True))) == b"abc"
    assert one.news(everything=True) == ()


def test_a_paused_sequence_decodes_all_of_it_again() -> None:
    one = sequence(Free())
    say(one, "abc")
    one.slot, one.decoded = 3, len(one.tokens) - 1
    one.pause()
    assert one.slot is None
    assert (one.decoded, one.pending) == (0, len(one.tokens))
    one.decoded = len(one.job.prompt)
    assert not one.decoding
    one.decoded = len(one.tokens)
    assert one.decoding


def test_the_last_update_has_an_end_or_an_error_and_the_timings() -> None:
    one = sequence(Free())
    say(one, "ab")
    update = one.finish("stop")
    assert update == Update(end="stop", timings=one.timings)
    assert (one.timings.output_tokens, one.timings.total_s > 0) == (2, True)
    error = Fails("accept")._error
    assert sequence(Free()).finish(error=error).error is error
