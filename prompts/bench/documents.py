"""YAML and JSONL files that people write, read as JSON values, or refused in words they understand.

YAML can say more than JSON (dates, aliases to what they are in, keys that are no texts), and what
it says is not always what was meant.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from server.errors import SetupError

MOST_NODES = 500_000  # with what stands behind an alias counted each time
MOST_LEVELS = 64
QUOTE = "If it is meant as text, put it in quotes: YAML has other ideas of some words and numbers."


class Slip(ValueError):
    """What is wrong with a part of a file, and in `hint` what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping, with whatever YAML can have in it. Raises SetupError."""
    try:
        document = yaml.load(read_text(path), _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise SetupError(
            f"{path} cannot be read as YAML: {' '.join(str(exc).split())[:300]}"
        ) from None
    if not isinstance(document, dict):
        raise SetupError(f"{path} has to have `tools` and `cases`")
    return document


def read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """Each line that is not empty, with its place for messages. Raises SetupError."""
    for at, text in enumerate(read_text(path).split("\n"), start=1):
        where = f"{path}: line {at}"
        if text.strip():
            try:
                yield where, json.loads(text)
            except RecursionError:
                raise SetupError(f"{where} is nested too deep") from None
            except ValueError as exc:
                raise SetupError(f"{where} is not JSON: {exc}") from None


def read_text(path: Path) -> str:
    """Raises SetupError."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise SetupError(f"{path} is not UTF-8 text: byte {exc.start} is wrong") from None
    except OSError as exc:
        raise SetupError(f"{path} cannot be read: {exc.strerror}") from None


def check_json(value: Any, place: str, level: int = 0) -> None:
    """Raises Slip for what JSON does not have, naming its place within `place`."""
    if level > MOST_LEVELS:
        raise Slip(f"{place[:80]}… is nested deeper than {MOST_LEVELS} levels")
    match value:
        case dict():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise Slip(
                        f"{place} has the key {key!r}, which is no text", "Put it in quotes."
                    )
                _check_text(key, place)
                check_json(inner, f"{place}.{key}", level + 1)
        case list():
            for at, inner in enumerate(value):
                check_json(inner, f"{place}[{at}]", level + 1)
        case str():
            _check_text(value, place)
        case float() if not math.isfinite(value):
            raise Slip(f"{place} is {value}, which JSON does not have")
        case None | bool() | int() | float():
            pass
        case _:
            said = f"{place} is a {type(value).__name__} ({value!s:.40})"
            raise Slip(f"{said}, which JSON does not have", QUOTE)


def _check_text(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Slip(
            f"{place} has half of a surrogate pair: {text!r}",
            "Write the character itself, or \\U and eight digits.",
        ) from None


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, what is inside itself, and small files that become huge.

    `sizes` has how many nodes are in each composed node, by identity; the document keeps them all.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        node: Any = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self.sizes:
                raise _refused("it is inside of itself", event)
            return node
        inner = [node.value] if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(keys):
                twice = next(key for at, key in enumerate(keys) if key in keys[:at])
                raise _refused(f"the key {twice!r} is there twice", event)
            inner = node.value
        size = 1 + sum(self.sizes[id(one)] for nodes in inner for one in nodes)
        if size > MOST_NODES:
            raise _refused(f"aliases make it longer than {MOST_NODES} values", event)
        self.sizes[id(node)] = size
        return node


def _refused(why: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, why, event.start_mark)
