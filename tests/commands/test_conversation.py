from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from server.commands.conversation import Conversation, Options, ask
from server.commands.endpoint import Done, Piece
from server.commands.screen import Screen
from server.errors import CallwrightError, ContextOverflow, SetupError
from server.events import CallArguments, CallBegins, CallEnds, Text, Usage
from tests.commands.helpers import CALL, CTRL_C, WEATHER, ScriptedEndpoint, text

SYSTEM = {"role": "system", "content": "Be short."}


class Talk:
    """A conversation with a scripted user; `typed` ends in Ctrl-D, KeyboardInterrupt is Ctrl-C."""

    def __init__(
        self,
        typed: Sequence[str | type[BaseException]],
        *answers: Sequence[Piece | Exception | str],
        choice: Any = "auto",
    ) -> None:
        self.endpoint = ScriptedEndpoint(*answers)
        self.prompts: list[str] = []
        self._typed = [*typed, EOFError]
        out, err = io.StringIO(), io.StringIO()
        Conversation(
            self.endpoint,
            Options([WEATHER], choice, max_tokens=50),
            [SYSTEM],
            screen=Screen(Console(file=out), Console(file=err, width=200)),
            read=self._read,
        ).run()
        self.out, self.err = out.getvalue(), err.getvalue()

    def _read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        typed = self._typed.pop(0)
        if isinstance(typed, str):
            return typed
        raise typed

    @property
    def histories(self) -> list[list[Any]]:
        """The messages of each request, without the system message."""
        assert all(request["messages"][0] == SYSTEM for request in self.endpoint.requests)
        return [request["messages"][1:] for request in self.endpoint.requests]


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def said(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def test_the_history_grows() -> None:
    talk = Talk(["Hello", "  ", "And you?"], text("Hi", "!"), text("Fine."))
    assert talk.histories == [[user("Hello")], [user("Hello"), said("Hi!"), user("And you?")]]
    assert talk.out == "Hi!\nFine.\n"
    assert talk.endpoint.requests[0]["max_tokens"] == 50
    assert "scripted: /reset forgets" in talk.err


def test_the_user_plays_the_tool() -> None:
    talk = Talk(["Weather in Porto?", "sunny"], CALL, text("It is sunny."))
    assert talk.prompts == ["> ", "result of get_weather> ", "> "]
    question, call, result = talk.histories[1]
    assert question == user("Weather in Porto?")
    assert call["content"] is None
    assert call["tool_calls"][0]["function"] == {
        "name": "get_weather",
        "arguments": '{"city": "Porto"}',
    }
    assert result == {"role": "tool", "tool_call_id": "abcdefgh1", "content": "sunny"}
    assert talk.out == '→ get_weather({"city": "Porto"})\nIt is sunny.\n'


def test_an_empty_result_is_ok() -> None:
    talk = Talk(["Weather?", ""], CALL, text("Done."))
    assert talk.histories[1][-1]["content"] == "ok"


def test_every_call_of_an_answer_gets_its_result() -> None:
    two = [
        piece
        for index, name in enumerate(("f", "g"))
        for piece in (
            CallBegins(index, f"id{index}", name),
            CallArguments(index, "{}"),
            CallEnds(index),
        )
    ]
    talk = Talk(["Go", "one", "two"], [*two, Done("tool_calls")], text("Done."))
    results = talk.histories[1][2:]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [
        ("id0", "one"),
        ("id1", "two"),
    ]


@pytest.mark.parametrize(
    ("choice", "after"),
    [("required", "auto"), ({"type": "function"}, "auto"), ("auto", "auto"), ("none", "none")],
)
def test_a_choice_is_for_questions_so_that_calls_come_to_an_end(choice: Any, after: str) -> None:
    talk = Talk(["Weather?", "sunny", "Again?"], CALL, text("Ok."), text("Ok."), choice=choice)
    assert [one["tool_choice"] for one in talk.endpoint.requests] == [choice, after, choice]


def test_ctrl_c_cancels_the_answer_and_forgets_its_turn() -> None:
    talk = Talk(["Hello", "Long?", "Short?"], text("Hi"), [Text("Once"), CTRL_C], text("Yes."))
    assert talk.histories[2] == [user("Hello"), said("Hi"), user("Short?")]
    assert talk.out == "Hi\nOnce\nYes.\n"
    assert "cancelled" in talk.err
    assert talk.endpoint.closed == 3


def test_ctrl_c_instead_of_a_result_forgets_the_turn_too() -> None:
    talk = Talk(["Weather?", KeyboardInterrupt, "Hello"], CALL, text("Hi"))
    assert talk.histories[1] == [user("Hello")]


def test_ctrl_c_at_the_prompt_ends_nothing() -> None:
    talk = Talk([KeyboardInterrupt, "Hello"], text("Hi"))
    assert talk.out == "Hi\n"
    assert "/quit or Ctrl-D" in talk.err


@pytest.mark.parametrize(
    "error", [ContextOverflow("too long"), SetupError("no answer", hint="Start it.")]
)
def test_a_failed_turn_is_told_and_forgotten(error: CallwrightError) -> None:
    talk = Talk(["Hello", "Hello?"], [Text("H"), error], text("Hi"))
    assert talk.histories[1] == [user("Hello?")]
    assert f"{error.message}; the question is forgotten." in talk.err
    assert ("Start it." in talk.err) == isinstance(error, SetupError)


def test_a_call_that_was_cut_gets_no_result() -> None:
    cut = (CallBegins(0, "id", "f"), CallArguments(0, '{"a'), Done("length", Usage(1, 1)))
    talk = Talk(["Go", "Hello"], cut, text("Hi"))
    assert talk.prompts == ["> ", "> ", "> "]
    assert talk.histories[1] == [user("Hello")]
    assert "cut at the token limit" in talk.err


@pytest.mark.parametrize("at_result", [False, True])
def test_reset_begins_anew_from_either_prompt(at_result: bool) -> None:
    typed = ["Weather?", *([] if at_result else ["sunny"]), "/reset", "Hello"]
    answers = [CALL, *([] if at_result else [text("Sunny.")]), text("Hi")]
    talk = Talk(typed, *answers)
    assert talk.histories[-1] == [user("Hello")]


@pytest.mark.parametrize("typed", [["/quit", "Hello"], ["Weather?", "/quit", "Hello"]])
def test_quit_ends_from_either_prompt(typed: list[str]) -> None:
    talk = Talk(typed, CALL)
    assert len(talk.prompts) == len(typed) - 1


async def test_ask_shows_pieces_as_they_come_and_folds_them() -> None:
    endpoint = ScriptedEndpoint(CALL)
    shown: list[Piece] = []
    reply = await ask(endpoint, {"messages": []}, shown.append)
    assert tuple(shown) == CALL
    assert reply.done == CALL[-1]
    assert reply.message["tool_calls"][0]["id"] == "abcdefgh1"
    assert reply.seconds >= 0


def test_options_that_were_not_given_are_not_sent() -> None:
    assert Options([]).request([], "auto") == {"messages": []}
    assert Options([], temperature=0.0).request([], "auto") == {"messages": [], "temperature": 0.0}
