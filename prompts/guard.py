"""Text of clients stays text: it can neither open a turn nor a call.

A special token is recognised in the rendered prompt by its text. So every occurrence of such a text
in what a client sent gets `GUARD`, a Unicode noncharacter, after its first character. The tokenizer
drops it again (`Vocabulary.encode_prompt`). A template cannot undo this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

from prompts.conversation import Conversation, JsonObject, Message

GUARD = "\ufdd0"
# Where a message that is to be continued ends in the rendered prompt.
CUT = "\ufdd1"

_NOT_TEXT = re.compile(f"[{GUARD}{CUT}]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NOTHING = "(?!)"
# A longer token is known by its beginning: vocabularies are untrusted, patterns must stay small.
_MAX_TOKEN_CHARS = 64


class Guard:
    """Guards text against the `special_tokens` of one model.

    A token of a single character cannot be guarded and is left out.
    """

    def __init__(self, special_tokens: Iterable[str]) -> None:
        tokens = {token[:_MAX_TOKEN_CHARS] for token in special_tokens if len(token) > 1}
        self._token_begins = re.compile(_first_characters(sorted(tokens)))

    def __call__(self, text: str) -> str:
        """`text` without any special token in it; taking GUARD out again gives `text`.

        Both private characters are removed from `text` first, and half a surrogate pair, which is
        no text, becomes U+FFFD.
        """
        text = _LONE_SURROGATE.sub("\ufffd", _NOT_TEXT.sub("", text))
        return self._token_begins.sub(lambda match: match[0] + GUARD, text)

    def value(self, value: Any) -> Any:
        """A copy of a JSON value with every key and every text in it guarded."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return self.object(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def object(self, value: JsonObject) -> JsonObject:
        return {self(str(key)): self.value(item) for key, item in value.items()}

    def conversation(self, conversation: Conversation) -> Conversation:
        return Conversation(
            messages=tuple(self._message(message) for message in conversation.messages),
            tools=tuple(
                replace(
                    tool,
                    name=self(tool.name),
                    description=self(tool.description),
                    parameters=self.object(tool.parameters),
                )
                for tool in conversation.tools
            ),
            template_options=self.object(conversation.template_options),
        )

    def _message(self, message: Message) -> Message:
        return replace(
            message,
            content=self(message.content),
            reasoning=self(message.reasoning),
            call_id=self(message.call_id),
            name=self(message.name),
            calls=tuple(
                replace(
                    call,
                    id=self(call.id),
                    name=self(call.name),
                    arguments=self.value(call.arguments),
                )
                for call in message.calls
            ),
        )


def _first_characters(words: list[str]) -> str:
    """A pattern for the first character of each word of a sorted list, where the word follows.

    Only that one character is consumed, so that overlapping occurrences are all found.
    """
    return (
        "|".join(
            f"{re.escape(first)}(?={_one_of([word[1:] for word in group])})"
            for first, group in groupby(words, key=lambda word: word[0])
        )
        or _NOTHING
    )


def _one_of(words: list[str]) -> str:
    """A pattern that matches where one of the sorted words begins.

    Shared beginnings are tried once: some vocabularies have thousands of special tokens.
    """
    if "" in words:
        return ""
    branches = [
        re.escape(first) + _one_of([word[1:] for word in group])
        for first, group in groupby(words, key=lambda word: word[0])
    ]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
