"""What `callwright chat` does: a question, or a conversation where the user plays the tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from server.commands.endpoint import Done, Endpoint, Piece
from server.commands.screen import Screen
from server.errors import CallwrightError, SetupError
from server.events import Finish, Usage
from server.reply import fold
from server.wire.body import JsonObject
from server.wire.replies import AssistantMessage

HELP = (
    "/reset forgets the conversation, /quit or Ctrl-D ends it, Ctrl-C cancels an answer;"
    " an empty result of a tool is “ok”"
)


@dataclass(frozen=True)
class Options:
    """What goes into every request beside the messages. `choice` holds for a new question."""

    tools: list[JsonObject]
    choice: JsonObject | str = "auto"
    temperature: float | None = None
    max_tokens: int | None = None

    def request(self, messages: list[Any], choice: JsonObject | str) -> JsonObject:
        request: JsonObject = {"messages": messages}
        if self.tools:
            request |= {"tools": self.tools, "tool_choice": choice}
        if self.temperature is not None:
            request["temperature"] = self.temperature
        if self.max_tokens is not None:
            request["max_tokens"] = self.max_tokens
        return request


@dataclass(frozen=True)
class Reply:
    """A complete answer, as the message that belongs into the history."""

    message: AssistantMessage
    done: Done
    seconds: float


async def ask(endpoint: Endpoint, request: JsonObject, show: Callable[[Piece], None]) -> Reply:
    """Get an answer, showing each piece when it comes. Raises CallwrightError."""
    began = time.perf_counter()
    pieces: list[Any] = []
    async with aclosing(endpoint.answer(request)) as source:
        async for piece in source:
            show(piece)
            pieces.append(piece)
    done = pieces.pop()
    finish = Finish(done.reason, done.usage or Usage(0, 0))
    answer = fold([*pieces, finish], id="", created=0, model="")
    return Reply(answer["choices"][0]["message"], done, time.perf_counter() - began)


class Quit(Exception):
    """The user wants to end the conversation."""


class Reset(Exception):
    """The user wants to begin anew."""


class Conversation:
    """`opening` are the messages before the first question; `read` asks the user for a line.

    A turn is a question and all that follows until the model has no more calls. A turn that was
    cancelled or failed is forgotten: what stays could always be sent again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: Options,
        opening: list[JsonObject],
        *,
        screen: Screen,
        read: Callable[[str], str],
    ) -> None:
        self._endpoint = endpoint
        self._options = options
        self._opening = opening
        self._messages: list[Any] = list(opening)
        self._screen = screen
        self._read = read

    def run(self) -> None:
        """Until the user has enough."""
        self._screen.say(f"{self._endpoint.model}: {HELP}")
        with asyncio.Runner() as runner:
            while True:
                try:
                    question = self._line("> ").strip()
                    if question:
                        self._turn(question, runner)
                except KeyboardInterrupt:
                    self._screen.say("/quit or Ctrl-D ends the conversation")
                except Reset:
                    self._messages = list(self._opening)
                    self._screen.say("forgotten")
                except (Quit, EOFError):
                    return

    def _line(self, prompt: str) -> str:
        line = self._read(prompt)
        match line.strip():
            case "/quit":
                raise Quit
            case "/reset":
                raise Reset
        return line

    def _turn(self, question: str, runner: asyncio.Runner) -> None:
        before = list(self._messages)
        self._messages.append({"role": "user", "content": question})
        choice = self._options.choice
        try:
            while self._answer(choice, runner):
                choice = "auto" if choice != "none" else choice
        except KeyboardInterrupt:
            self._messages = before
            self._screen.say("cancelled; the question and what came after it are forgotten")
        except CallwrightError as exc:
            self._messages = before
            hint = f" {exc.hint}" if isinstance(exc, SetupError) else ""
            self._screen.say(f"{exc.message}; the question is forgotten.{hint}")

    def _answer(self, choice: JsonObject | str, runner: asyncio.Runner) -> bool:
        """Get one answer, and the results of its calls; says if there were any."""
        request = self._options.request(self._messages, choice)
        reply = runner.run(ask(self._endpoint, request, self._screen.show))
        self._screen.summary(reply.done, reply.seconds)
        calls = reply.message.get("tool_calls", [])
        if calls and reply.done.reason == "length":
            raise CallwrightError("a call that was cut has no result")
        self._messages.append(reply.message)
        for call in calls:
            name = (call["custom"] if call["type"] == "custom" else call["function"])["name"]
            result = self._line(f"result of {name}> ").strip() or "ok"
            self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return bool(calls)
