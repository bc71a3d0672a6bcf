from __future__ import annotations

import pytest

from server.engine.sampler import Sampling
from server.engine.sequence import Job
from tests.engine.helpers import (
    GREEDY,
    Free,
    OneOf,
    TakesBack,
    alone,
    job,
    prompt,
    rambling,
    run,
    serving,
)
from tests.fakes import ScriptedRunner, Scripts


def scripted(says: dict[str, str]) -> ScriptedRunner:
    return ScriptedRunner(Scripts(says))


def decoded_tokens(runner: ScriptedRunner) -> int:
    return sum(len(items) for items in runner.passes)


async def test_the_answer_is_what_the_model_says() -> None:
    runner = scripted({"weather": "It rains."})
    with serving(runner) as engine:
        told = await run(engine, job("weather?"))
    assert (told.text, told.end) == ("It rains.", "stop")
    # One pass for the prompt and one after each token, the last of which is the end.
    assert len(runner.passes) == 1 + len("It rains.")
    timings = told.timings
    assert timings.forward_passes == len(runner.passes)
    assert timings.prefilled_tokens == len(prompt("weather?"))
    assert (timings.cached_tokens, timings.forced_tokens, timings.output_tokens) == (0, 0, 9)
    assert 0 < timings.prefill_s < timings.total_s


async def test_a_long_prompt_is_prefilled_in_batches() -> None:
    runner = scripted({"end": "ok"})
    long = job("x" * 300 + "end")
    with serving(runner) as engine:
        assert (await run(engine, long)).text == "ok"
    sizes = [len(items) for items in runner.passes]
    assert sizes == [64] * (len(long.prompt) // 64) + [len(long.prompt) % 64, 1, 1]
    wanting = [item for items in runner.passes[:-2] for item in items if item.wants_logits]
    assert [item.position for item in wanting] == [len(long.prompt) - 1]


async def test_the_forced_opening_joins_the_prefill_and_the_forced_end_is_not_decoded() -> None:
    runner = scripted({"which?": "call: abc!"})
    with serving(runner) as engine:
        told = await run(engine, job("which?", OneOf("call: abc!", "call: xyz!")))
    assert (told.text, told.end) == ("call: abc!", "stop")
    assert len(runner.passes) == 1
    assert decoded_tokens(runner) == len(prompt("which?")) + len("call: ")
    timings = told.timings
    assert (timings.forced_tokens, timings.output_tokens) == (9, 10)
    # What was forced was told at once, but a first token is one that the model has chosen.
    assert timings.queue_s + timings.prefill_s <= timings.first_token_s <= timings.total_s


async def test_without_a_choice_the_first_token_is_there_at_the_end() -> None:
    with serving(scripted({})) as engine:
        timings = (await run(engine, job("which?", OneOf("abc")))).timings
        nothing = (await run(engine, job("which?", OneOf("")))).timings
    assert timings.first_token_s == timings.total_s > 0
    assert nothing.first_token_s == 0


async def test_a_forced_run_is_one_pass() -> None:
    runner = scripted({"which?": "a=1, b=2, c=3"})
    answers = [f"a={a}, b={b}, c={c}" for a in (1, 2) for b in (1, 2) for c in (1, 2, 3)]
    with serving(runner) as engine:
        told = await run(engine, job("which?", OneOf(*answers)))
    assert told.text == "a=1, b=2, c=3"
    assert [len(items) for items in runner.passes[1:]] == [len("1, b="), len("2, c=")]


async def test_a_constraint_holds_against_the_model() -> None:
    runner = scripted({"which?": "Surely neither."})
    with serving(runner) as engine:
        for sampling in (GREEDY, Sampling(seed=3), Sampling(seed=3, top_k=5)):
            told = await run(engine, job("which?", OneOf("red", "green"), sampling=sampling))
            assert told.text in ("red", "green")


async def test_an_answer_without_a_choice_needs_no_pass() -> None:
    runner = scripted({})
    with serving(runner) as engine:
        told = await run(engine, job("which?", OneOf("only")))
    assert (told.text, told.end, runner.passes) == ("only", "stop", [])


@pytest.mark.parametrize("limit", range(1, 11))
async def test_the_token_limit_is_exact_also_inside_a_forced_run(limit: int) -> None:
    runner = ScriptedRunner(lambda tokens: ord("a"))
    constraint = OneOf("to be abcd", "to be or")
    with serving(runner) as engine:
        told = await run(engine, job("which?", constraint, max_tokens=limit))
    assert told.text == "to be abcd"[:limit]
    assert told.end == ("stop" if limit == 10 else "length")
    assert told.timings.output_tokens == limit


async def test_tokens_taken_back_leave_no_cells() -> None:
    runner = scripted({"spell": "good bad end"})
    told = alone(job("spell", TakesBack("bad", back=2)), runner.prefer)
    assert "bad" not in told.text
    with serving(runner) as engine:
        assert await run(engine, job("spell", TakesBack("bad", back=2))) == told
        # What is left can be shared: it is what the books say.
        again = await run(engine, job("spell"))
        assert again.text == "good bad end"
        assert again.timings.cached_tokens == len(prompt("spell")) - 1


def in_common(one: str, other: str) -> int:
    """How many tokens the prompts of two questions have in common at their beginning."""
    pairs = zip(prompt(one), prompt(other), strict=False)
    return next(at for at, (a, b) in enumerate(pairs) if a != b)


async def test_a_prefix_is_computed_once() -> None:
    runner = scripted({"one": "1", "two": "2"})
    first, second = "the same tools, one", "the same tools, two"
    common = in_common(first, second)
    with serving(runner) as engine:
        told = [await run(engine, job(first)), await run(engine, job(second))]
        # The first prompt and its answer, and of the second what is not in the first.
        cells = len(prompt(first)) + 1 + len(prompt(second)) + 1 - common
        assert engine.load.used_cells == cells
    assert [one.text for one in told] == ["1", "2"]
    assert [one.timings.cached_tokens for one in told] == [0, common]
    prefilled = [len(prompt(first)), len(prompt(second)) - common]
    assert [one.timings.prefilled_tokens for one in told] == prefilled


async def test_the_next_turn_prefills_only_what_is_new() -> None:
    """Also when two conversations alternate."""
    runner = ScriptedRunner(rambling, context_length=2000)
    history = {"first": prompt("first"), "other": prompt("other")}
    known = {"first": 0, "other": in_common("first", "other")}
    with serving(runner) as engine:
        for turn in range(4):
            for name, tokens in history.items():
                told = await run(engine, Job(tokens, Free(), GREEDY, 30))
                assert told.timings.cached_tokens == known[name]
                answered = [*tokens, *told.tokens]
                # The last token of an answer that was cut has never been decoded.
                known[name] = len(answered) - (told.end == "length")
                history[name] = [*answered, *prompt(f"turn {turn}")]


async def test_answers_with_and_without_cache_are_equal() -> None:
    questions = ["abc", "abd", "abc", "ab", "abcde", "x", "abc"]
    told = []
    for cached_sequences in (0, 1, 4):
        runner = ScriptedRunner(rambling, sequences=2 + cached_sequences)
        with serving(runner, max_sequences=2) as engine:
            told.append([await run(engine, job(question)) for question in questions])
            used = engine.load.used_cells
        assert (used > 0) == (cached_sequences > 0)
    assert told[0] == told[1] == told[2] == [alone(job(q), runner.prefer) for q in questions]
    cached = [sum(one.timings.cached_tokens for one in all_told) for all_told in told]
    assert 0 == cached[0] < cached[1] <= cached[2]


async def test_a_model_that_cannot_be_cut_reuses_nothing() -> None:
    runner = ScriptedRunner(Scripts({"one": "1"}), can_cut=False)
    with serving(runner) as engine:
        for _ in range(3):
            told = await run(engine, job("one"))
            assert (told.text, told.timings.cached_tokens) == ("1", 0)
        assert engine.load.used_cells == 0


async def test_equal_seeds_give_equal_answers() -> None:
    runner = ScriptedRunner(rambling)
    with serving(runner) as engine:
        told = [
            await run(engine, job("q", sampling=Sampling(temperature=1.5, seed=seed)))
            for seed in (1, 1, 2)
        ]
    assert told[0] == told[1] != told[2]


async def test_penalties_count_what_was_forced_too() -> None:
    """The model wants only `a`, and each one makes another one less likely by 3."""
    sampling = Sampling(temperature=0, frequency_penalty=3)
    runner = ScriptedRunner(lambda tokens: ord("a"))
    with serving(runner) as engine:
        free = await run(engine, job("q", max_tokens=6, sampling=sampling))
        forced = await run(engine, job("q", OneOf("aaaaa", "aaaab"), sampling=sampling))
    assert 2 <= free.text.count("a") < 4
    assert forced.text == "aaaab"
