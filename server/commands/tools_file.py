"""Tools for `callwright chat` from a JSON file, and how they may be chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from server.config import Settings
from server.errors import CallwrightError, SetupError
from server.wire.body import JsonObject, parse_json
from server.wire.chat import parse_chat_request

_MODES = ("auto", "required", "none")
_SHAPE = "a list of OpenAI tools, one tool, or functions with name, description and parameters"


def read_tools(path: Path, settings: Settings) -> list[JsonObject]:
    """The tools in the file, each as OpenAI's API takes it.

    Raises SetupError with the file's name, the place in it and what is wrong there.
    """
    try:
        text = path.expanduser().read_text("utf-8-sig")
        data = parse_json(text, settings.max_depth)
    except OSError as exc:
        raise SetupError(f"cannot read the tools file {path}: {exc.strerror}") from None
    except RuntimeError as exc:  # `~` with the name of nobody
        raise SetupError(f"cannot read the tools file {path}: {exc}") from None
    except UnicodeDecodeError as exc:
        raise SetupError(f"{path} is not UTF-8 text: byte {exc.start} is wrong") from None
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise SetupError(f"{path} is not JSON: {exc.msg} at {where}") from None
    except ValueError as exc:
        raise SetupError(f"{path} is not usable JSON: {exc}") from None
    entries = data if isinstance(data, list) else [data]
    if not entries:
        raise SetupError(f"{path} is an empty list", hint=f"It has to be {_SHAPE}.")
    if not isinstance(data, dict | list):
        raise SetupError(f"{path} has no tools in it", hint=f"It has to be {_SHAPE}.")
    tools = [_wrapped(entry) for entry in entries]
    _check({"tools": tools}, settings, str(path))
    return tools


def read_choice(name: str | None, tools: list[JsonObject], settings: Settings) -> JsonObject | str:
    """`tool_choice` as the API takes it, from a mode or the name of a tool. Raises SetupError."""
    if name is None or name in _MODES:
        choice: JsonObject | str = name or "auto"
    else:
        choice = {"type": "function", "function": {"name": name}}
    if choice not in ("auto", "none") or tools:
        _check({"tools": tools, "tool_choice": choice}, settings, "--tool-choice")
    return choice


def _wrapped(entry: Any) -> Any:
    """A bare function, also with a type beside its name, as a tool; everything else as it is."""
    if not isinstance(entry, dict) or "name" not in entry or "function" in entry:
        return entry
    function = {key: value for key, value in entry.items() if key != "type"}
    return {"type": entry.get("type", "function"), "function": function}


def _check(part: JsonObject, settings: Settings, source: str) -> None:
    """Let the server's own reader of requests find what is wrong."""
    request = {"model": "any", "messages": [{"role": "user", "content": ""}], **part}
    try:
        parse_chat_request(json.dumps(request).encode(), settings)
    except CallwrightError as exc:
        raise SetupError(f"{source}: {exc.message}") from None
