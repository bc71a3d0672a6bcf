"""A request body as a JSON object: strict, bounded, and safe to write out again as UTF-8."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Protocol

from server.errors import InvalidRequest, TooLarge

JsonObject = dict[str, Any]

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: one character
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of a pair
    r"|(?:\\[^u]|\\u(?![dD][89a-fA-F]))+"  # any other escapes, so that `\\\\ud800` is no half
)


class Unusable(ValueError):
    """Well-formed for Python's parser, but not JSON that can be worked with."""


class Limits(Protocol):
    """The settings that bound a request. `server.config.Settings` has them all."""

    @property
    def max_body_bytes(self) -> int: ...
    @property
    def max_depth(self) -> int: ...
    @property
    def max_messages(self) -> int: ...
    @property
    def max_tools(self) -> int: ...


def read_object(body: bytes, limits: Limits) -> JsonObject:
    """Raises TooLarge, or InvalidRequest for whatever is not one JSON object within the limits."""
    if len(body) > limits.max_body_bytes:
        raise TooLarge(
            f"the body has {len(body)} bytes, the limit is {limits.max_body_bytes} bytes"
        )
    if not body.strip():
        raise InvalidRequest("the body is empty, a JSON object is needed")
    try:
        data = parse_json(body.decode("utf-8-sig"), limits.max_depth)
    except UnicodeDecodeError as exc:
        if body.startswith(b"\x1f\x8b"):
            raise InvalidRequest("the body is compressed, plain JSON is needed") from None
        raise InvalidRequest(f"the body is not UTF-8: byte {exc.start} is wrong") from None
    except ValueError as exc:
        raise InvalidRequest(f"the body is not usable JSON: {exc}"[:500]) from None
    if not isinstance(data, dict):
        raise InvalidRequest("the body must be a JSON object")
    return data


def parse_json(text: str, max_depth: int) -> Any:
    """A JSON value of at most `max_depth` nested containers; of repeated keys the last one counts.

    Raises ValueError for everything else: also for NaN, Infinity and numbers beyond a double,
    which the standard parser lets through. Half a surrogate pair, which clients produce by cutting
    a text in the middle of an emoji, becomes U+FFFD as in any UTF-8 encoder.
    """
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(lambda match: "\\ufffd" if match[1] else match[0], text)
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_no_constant)
    except RecursionError:
        raise Unusable(f"nested deeper than {max_depth} levels") from None
    except (json.JSONDecodeError, Unusable):
        raise
    except ValueError:  # Python's own limit; its message speaks of Python
        raise Unusable("an integer has too many digits") from None
    _check_depth(value, max_depth)
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise Unusable(f"the number {digits[:40]!r} is out of range")
    return number


def _no_constant(name: str) -> Any:
    raise Unusable(f"{name} is not JSON")


def _check_depth(value: Any, max_depth: int) -> None:
    level = _containers([value])
    for _ in range(max_depth):
        level = [
            child
            for container in level
            for child in _containers(
                container.values() if isinstance(container, dict) else container
            )
        ]
        if not level:
            return
    if level:
        raise Unusable(f"nested deeper than {max_depth} levels")


def _containers(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, dict | list)]


def check_count(data: JsonObject, name: str, limit: int) -> None:
    """Raises InvalidRequest if a list of the body has more entries than the settings allow."""
    entries = data.get(name)
    if isinstance(entries, list) and len(entries) > limit:
        raise InvalidRequest(
            f"{name} has {len(entries)} entries, at most {limit} are taken", param=name
        )
