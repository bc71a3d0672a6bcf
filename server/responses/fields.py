"""What becomes of each field of a response's request that `ResponsesRequest` does not read.

Together with the fields of `ResponsesRequest`, which are honoured, these tables cover every field
of the OpenAI SDK's `responses.create`; a test holds them to it.
"""

from __future__ import annotations

from dataclasses import replace

from server.wire.fields import CONSTRAINTS, Refused
from server.wire.fields import EXTENSIONS as CHAT_EXTENSIONS

ACCEPTED = {
    "access_programs": "there are none to choose among",
    "image": "there are no images",
    "max_tool_calls": "a bound on tools that a server runs, of which there are none",
    "prompt_cache_key": "prompts are cached by their own text",
    "prompt_cache_options": "prompts are cached as long as there is room",
    "prompt_cache_retention": "prompts are cached as long as there is room",
    "safety_identifier": "a label of the end user",
    "service_tier": "there is one tier",
    "stream_options": "it holds padding only, which is never sent",
    "user": "a label of the end user",
}
"""Fields that cannot change the answer, and why they cannot."""

REFUSED = {
    "background": Refused("a response is made while its client waits", (False,)),
    "background_options": Refused("a response is made while its client waits", ({},)),
    "context_management": Refused("a conversation is never shortened", ([],)),
    "conversation": Refused("go on from a response with previous_response_id"),
    "moderation": Refused("there is no moderation model"),
    "prompt": Refused("there are no stored prompts, send instructions and input"),
    # Of the chat API: to pass over one of these would surprise whoever moved from there.
    "function_call": Refused("use tool_choice instead", ("none", "auto")),
    "functions": Refused("use tools instead", ([],)),
    "logprobs": Refused("ask with include for message.output_text.logprobs", (False,)),
    "max_completion_tokens": Refused("it is called max_output_tokens here"),
    "max_tokens": Refused("it is called max_output_tokens here"),
    "messages": Refused("it is called input here"),
    "n": Refused("there is one response per request", (1,)),
    "reasoning_effort": Refused("it is called reasoning.effort here"),
    "response_format": Refused("it is called text.format here"),
    "verbosity": Refused("it is called text.verbosity here"),
}
"""Fields that would change the answer and that nothing here honours."""

_HONOURED = ("reasoning",)  # there it is another server's, here OpenAI's
_CALLED_HERE = {
    "response_format": "text.format",
    "max_tokens": "max_output_tokens",
    "use logprobs and top_logprobs": "use include and top_logprobs",
    "use reasoning_effort": "use reasoning.effort",
}


def _in_own_words(refused: Refused) -> Refused:
    why = refused.why
    for name, own in _CALLED_HERE.items():
        why = why.replace(name, own)
    return replace(refused, why=why)


EXTENSIONS = {
    name: _in_own_words(refused)
    for name, refused in (CHAT_EXTENSIONS | CONSTRAINTS).items()
    if name not in _HONOURED
}
"""Fields of other local servers, refused as in the chat API."""
