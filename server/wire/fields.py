"""What becomes of each field of the chat-completions request that `ChatRequest` does not read.

Together with the fields of `ChatRequest`, which are honoured, these tables cover every field of
the OpenAI SDK's `chat.completions.create`; a test holds them to it. A field in none of the three
groups is a client's own and passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from server.errors import InvalidRequest
from server.wire.body import JsonObject

ACCEPTED = {
    "metadata": "a label for dashboards",
    "prediction": "a hint that can only make the answer faster",
    "prompt_cache_key": "prompts are cached by their own text",
    "prompt_cache_options": "prompts are cached as long as there is room",
    "prompt_cache_retention": "prompts are cached as long as there is room",
    "safety_identifier": "a label of the end user",
    "service_tier": "there is one tier",
    "store": "nothing is stored, and no answer depends on it",
    "user": "a label of the end user",
}
"""Fields that cannot change the answer, and why they cannot."""


@dataclass(frozen=True)
class Refused:
    """Why a field is refused, and the values that ask for nothing and so pass."""

    why: str
    harmless: tuple[object, ...] = ()

    def passes(self, value: Any) -> bool:
        return any(type(value) is type(one) and value == one for one in self.harmless)


REFUSED = {
    "audio": Refused("the answer is text only"),
    "function_call": Refused("use tool_choice instead", ("none", "auto")),
    "functions": Refused("use tools instead", ([],)),
    "logprobs": Refused("log probabilities are not returned", (False,)),
    "modalities": Refused("the answer is text only", (["text"], [])),
    "moderation": Refused("there is no moderation model"),
    "n": Refused("there is one choice per request", (1,)),
    "top_logprobs": Refused("log probabilities are not returned", (0,)),
    "verbosity": Refused("ask for the wanted length in a message", ("medium",)),
    "web_search_options": Refused("there is no web search"),
}
"""Fields that would change the answer and that nothing here honours."""


CONSTRAINTS = dict.fromkeys(
    (
        "grammar",
        "guided_choice",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "json_schema",
        "structured_outputs",
    ),
    Refused("say with response_format what the answer must be", ("",)),
)
"""Fields with which other local servers constrain an answer."""


def refuse_unsupported(
    data: JsonObject, table: Mapping[str, Refused] = REFUSED | CONSTRAINTS
) -> None:
    """Raises InvalidRequest that names the first field which would have to be passed over."""
    for name, refused in table.items():
        value = data.get(name)
        if value is not None and not refused.passes(value):
            raise InvalidRequest(
                f"{name} is not supported: {refused.why}",
                param=name,
                code="unsupported_parameter",
            )
