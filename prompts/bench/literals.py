"""Values in the notation of Java and JavaScript, as BFCL's answers to such functions have them.

A text that is no literal of its type stays a text: it may be the name of a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_WHOLE = r"-?\d+"
_DECIMAL = r"-?\d+(?:\.\d+)?"
_SCIENTIFIC = rf"{_DECIMAL}(?:[eE][+-]?\d+)?"
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def java_value(text: str, word: str, item: str | None = None) -> Any:
    """The value of a Java expression of type `word`, with elements of type `item`."""
    numbers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "byte": (_WHOLE, int),
        "short": (_WHOLE, int),
        "integer": (_WHOLE, int),
        "long": (rf"({_WHOLE})[lL]", int),
        "float": (rf"({_SCIENTIFIC})[fF]", float),
        "double": (_SCIENTIFIC, float),
    }
    if word in numbers:
        return _number(text, *numbers[word])
    if word == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if word == "ArrayList":
        return _java_list(text, item)
    if word == "Array":
        found = re.search(r"new\s+\w+\[\]\s*\{(.*?)\}", text)
        # The leaderboard keeps the quotes of elements here, unlike in an ArrayList.
        return text if found is None else [_java_item(one, item) for one in _split(found[1])]
    return _java_map(text) if word == "HashMap" else text


def javascript_value(text: str, word: str, item: str | None = None) -> Any:
    """The value of a JavaScript expression of type `word`, with elements of type `item`."""
    numbers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "integer": (_WHOLE, int),
        "Bigint": (rf"({_WHOLE})n", int),
        "float": (_DECIMAL, float),
    }
    if word in numbers:
        return _number(text, *numbers[word])
    if word == "Boolean":
        return {"true": True, "false": False}.get(text, text)
    if word == "String":
        return _unquoted(text)
    if word == "array":
        return _javascript_list(text.strip(), item)
    return _javascript_object(text.strip()) if word == "dict" else text


def _number(text: str, pattern: str, convert: Callable[[str], Any]) -> Any:
    found = re.fullmatch(pattern, text)
    return text if found is None else convert(found[found.re.groups])


def _java_list(text: str, item: str | None) -> Any:
    head = r"new\s+ArrayList<\w*>"
    if found := re.search(rf"{head}\(Arrays\.asList\((.+?)\)\)", text):
        parts = list(_split(found[1]))
    elif found := re.search(rf"{head}\(\)\s*\{{\{{\s*(.+?)\s*\}}\}}", text, re.DOTALL):
        parts = [one.strip() for one in re.findall(r"add\((.+?)\)", found[1])]
    elif re.search(rf"{head}\(\)", text):
        parts = []
    else:
        return text
    if item in ("char", "String"):
        return [one[1:-1] for one in parts]
    return [_java_item(one, item) for one in parts]


def _java_item(text: str, item: str | None) -> Any:
    return java_value(text, item) if item else _java_guess(text)


def _java_map(text: str) -> Any:
    head = r"new\s+HashMap<.*?>\s*\(\)"
    if found := re.search(rf"{head}\s*\{{\s*\{{?\s*(.*?)\s*\}}?\s*\}}", text, re.DOTALL):
        puts = re.findall(r'put\("(.*?)",\s*(.*?)\)', found[1])
        return {key: _java_guess(value.strip()) for key, value in puts}
    return {} if re.search(head, text) else text


def _java_guess(text: str) -> Any:
    """The value of an expression whose type is not known."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    for word in ("long", "float"):
        value = java_value(text, word)
        if value is not text:
            return value
    return _plain_number(text)


def _javascript_list(text: str, item: str | None) -> Any:
    inner = _bracketed(re.sub(r"^new\s+Array(?=\()", "", text), "[(")
    if inner is None:
        return text
    parts = list(_split(inner))
    if parts and all(one.startswith("[") for one in parts):
        return [[_javascript_guess(deep) for deep in _split(one[1:-1])] for one in parts]
    if item:
        return [javascript_value(one, item) for one in parts]
    return [_javascript_guess(one) for one in parts]


def _javascript_object(text: str) -> Any:
    inner = _bracketed(text, "{")
    if inner is None:
        return text
    members: dict[str, Any] = {}
    for part in _split(inner):
        key, colon, value = part.partition(":")
        if colon:
            members[key.strip().strip("'\"")] = _javascript_member(value.strip())
    return members


def _javascript_member(text: str) -> Any:
    if text.startswith("["):
        return _javascript_list(text, None)
    if text.startswith("{"):
        return _javascript_object(text)
    return _javascript_guess(text.strip("'\""))  # the leaderboard takes "5" for 5 here


def _javascript_guess(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    bare = _unquoted(text)
    return bare if bare is not text else _plain_number(text)


def _unquoted(text: str) -> str:
    quoted = any(text.startswith(mark) and text.endswith(mark) for mark in "\"'")
    return text[1:-1] if quoted else text


def _plain_number(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _bracketed(text: str, openers: str) -> str | None:
    """What the bracket that `text` begins with encloses; what follows it does not matter.

    None if it begins with none of `openers`, or the bracket is not closed.
    """
    if not text or text[0] not in openers:
        return None
    return next(
        (text[1:at] for at, char, depth in _depths(text) if char in ")]}" and not depth), None
    )


def _split(text: str) -> Iterator[str]:
    """Parts between the commas that are outside of quotes and brackets; empty ones are left out."""
    commas = [at for at, char, depth in _depths(text) if char == "," and not depth]
    for start, end in zip([-1, *commas], [*commas, len(text)], strict=True):
        part = text[start + 1 : end].strip()
        if part:
            yield part


def _depths(text: str) -> Iterator[tuple[int, str, int]]:
    """Each character outside of quotes with its place, and how many brackets are open after it."""
    closers, quote = "", ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
            continue
        if char in "\"'":
            quote = char
        elif char in _PAIRS:
            closers += _PAIRS[char]
        elif closers and char == closers[-1]:
            closers = closers[:-1]
        yield at, char, len(closers)
