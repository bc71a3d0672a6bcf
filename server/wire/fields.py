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
    "cache_prompt": "prompts are always cached",
    "guided_decoding_backend": "there is one",
    "id_slot": "any slot gives the same answer",
    "media_io_kwargs": "there are no media, which messages with them are refused for",
    "metadata": "a label for dashboards",
    "mm_processor_kwargs": "there are no media, which messages with them are refused for",
    "n_discard": "a context is never shifted",
    "n_keep": "a context is never shifted",
    "prediction": "a hint that can only make the answer faster",
    "priority": "requests are served in turn",
    "prompt_cache_key": "prompts are cached by their own text",
    "prompt_cache_options": "prompts are cached as long as there is room",
    "prompt_cache_retention": "prompts are cached as long as there is room",
    "request_id": "a label of the request",
    "rid": "a label of the request",
    "safety_identifier": "a label of the end user",
    "service_tier": "there is one tier",
    "spaces_between_special_tokens": "there are no special tokens in an answer",
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
    "modalities": Refused("the answer is text only", (["text"], [])),
    "moderation": Refused("there is no moderation model"),
    "web_search_options": Refused("there is no web search"),
}
"""Fields that would change the answer and that nothing here honours."""

EXTENSIONS = {
    "add_special_tokens": Refused("the prompt has its own", (False,)),
    "allowed_token_ids": Refused("use logit_bias or response_format"),
    "bad_words": Refused("use logit_bias", ([],)),
    "best_of": Refused("every answer is returned, use n", (1,)),
    "cache_salt": Refused("prompts of all requests share one cache", ("",)),
    "chat_template": Refused("use prompt_template, with the name of a template"),
    "custom_logit_processor": Refused("a request brings no code"),
    "documents": Refused("put them into a message", ([],)),
    "dry_multiplier": Refused("use repeat_penalty", (0, 0.0)),
    "dynatemp_range": Refused("there is one temperature", (0, 0.0)),
    "early_stopping": Refused("answers are sampled", (False,)),
    "echo": Refused("the prompt is no part of an answer", (False,)),
    "enable_thinking": Refused("say it in chat_template_kwargs"),
    "include_reasoning": Refused("reasoning is always shown", (True,)),
    "include_stop_str_in_output": Refused("a stop text is no part of an answer", (False,)),
    "length_penalty": Refused("answers are sampled", (1, 1.0)),
    "logits_processors": Refused("a request brings no code", ([],)),
    "lora": Refused("one model is served", ([],)),
    "mirostat": Refused("use temperature, top_p and min_p", (0,)),
    "n_indent": Refused("use response_format", (0,)),
    "n_predict": Refused("use max_tokens", (-1,)),
    "n_probs": Refused("use logprobs and top_logprobs", (0,)),
    "no_stop_trim": Refused("a stop text is no part of an answer", (False,)),
    "parse_tool_calls": Refused("calls are always parsed", (True,)),
    "post_sampling_probs": Refused("log-probabilities are the model's own", (False,)),
    "prompt_logprobs": Refused("log-probabilities are told of the answer only", (False,)),
    "reasoning": Refused("use reasoning_effort"),
    "reasoning_format": Refused("reasoning is in reasoning_content", ("auto", "deepseek")),
    "repeat_last_n": Refused("penalties count the whole answer", (-1,)),
    "return_hidden_states": Refused("they are not kept", (False,)),
    "return_progress": Refused("use stream", (False,)),
    "return_token_ids": Refused("use logprobs, which tell the bytes of tokens", (False,)),
    "return_tokens": Refused("use logprobs, which tell the bytes of tokens", (False,)),
    "return_tokens_as_token_ids": Refused("tokens are told as text and bytes", (False,)),
    "samplers": Refused("the order of sampling is fixed"),
    "separate_reasoning": Refused("reasoning is in reasoning_content", (True,)),
    "skip_special_tokens": Refused("special tokens are no part of an answer", (True,)),
    "stop_regex": Refused("use stop"),
    "t_max_predict_ms": Refused("use max_tokens", (0, -1)),
    "tfs_z": Refused("use top_p or min_p", (1, 1.0)),
    "thinking": Refused("say it in chat_template_kwargs"),
    "thinking_budget": Refused("use reasoning_budget"),
    "timings_per_token": Refused("use include_timings", (False,)),
    "top_a": Refused("use min_p", (0, 0.0)),
    "top_n_sigma": Refused("use min_p", (-1, -1.0, 0, 0.0)),
    "truncate_prompt_tokens": Refused("a prompt is never cut"),
    "typical_p": Refused("use top_p or min_p", (1, 1.0)),
    "use_beam_search": Refused("answers are sampled", (False,)),
    "xtc_probability": Refused("use min_p", (0, 0.0)),
}
"""Fields of other local servers that would change an answer and that nothing here honours.

Those that only say more of one of these (`mirostat_tau`, `dry_base` …) are passed over with it.
"""


CONSTRAINTS = dict.fromkeys(
    (
        "ebnf",
        "grammar",
        "guided_choice",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "guided_whitespace_pattern",
        "json_schema",
        "regex",
        "structural_tag",
        "structured_outputs",
    ),
    Refused("say with response_format what the answer must be", ("",)),
)
"""Fields with which other local servers constrain an answer."""

ALIASES = frozenset({"guided_json", "json_schema", "structured_outputs"})
"""Those of them that are read as `response_format`, where an API has it."""

_IN_CHATS = {name: refused for name, refused in CONSTRAINTS.items() if name not in ALIASES}


def refuse_unsupported(
    data: JsonObject, table: Mapping[str, Refused] = REFUSED | EXTENSIONS | _IN_CHATS
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
