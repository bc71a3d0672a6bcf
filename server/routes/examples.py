"""Bodies for the OpenAPI document, without the model. A test sends each of them."""

from __future__ import annotations

from typing import Any

from server.wire.body import JsonObject

_ASK: JsonObject = {
    "messages": [{"role": "user", "content": "What is the weather in Porto?"}],
}
_CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
_TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather of a city", "parameters": _CITY},
}
_CALL: JsonObject = {
    "id": "a1b2c3d4e",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Porto"}'},
}
_CITY_FORMAT: JsonObject = {
    "type": "json_schema",
    "json_schema": {"name": "city", "schema": _CITY},
}

CHAT_EXAMPLES: dict[str, Any] = {
    "text": {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 32},
    "a call that must be made": {**_ASK, "tools": [_TOOL], "tool_choice": "required"},
    "the result of a call, streamed": {
        "messages": [
            *_ASK["messages"],
            {"role": "assistant", "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "a1b2c3d4e", "content": "21 degrees, sunny"},
        ],
        "tools": [_TOOL],
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "JSON of a schema": {**_ASK, "response_format": _CITY_FORMAT},
}

COMPLETION_EXAMPLES: dict[str, Any] = {
    "text": {"prompt": "The capital of Portugal is", "max_tokens": 8, "stop": ["."]},
    "JSON of a schema": {"prompt": "Name a city as JSON: ", "response_format": _CITY_FORMAT},
    "two prompts, streamed": {"prompt": ["One, two,", "Red, green,"], "stream": True, "n": 2},
}

RESPONSES_EXAMPLES: dict[str, Any] = {
    "text": {"input": "Say hello.", "max_output_tokens": 32},
    "a call that must be made": {
        "input": "What is the weather in Porto?",
        "tools": [{"type": "function", **_TOOL["function"]}],
        "tool_choice": "required",
    },
    "the result of a call": {
        "input": [
            *_ASK["messages"],
            {"type": "function_call", "call_id": "a1b2c3d4e", **_CALL["function"]},
            {
                "type": "function_call_output",
                "call_id": "a1b2c3d4e",
                "output": "21 degrees, sunny",
            },
        ],
        "tools": [{"type": "function", **_TOOL["function"]}],
        "store": False,
    },
    "JSON of a schema": {
        "input": "What is the weather in Porto?",
        "text": {"format": {"type": "json_schema", "name": "city", "schema": _CITY}},
    },
}

TOKENIZE_EXAMPLES: dict[str, Any] = {
    "a text": {"content": "Hello."},
    "a conversation": {**_ASK, "tools": [_TOOL]},
}

DETOKENIZE_EXAMPLES: dict[str, Any] = {"tokens": {"tokens": [72, 105]}}
