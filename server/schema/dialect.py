"""Schemas of older drafts in the spelling of draft 2020-12: one set of rules reads them all.

What each draft changed: the release notes at https://json-schema.org/specification. Spellings that
mean nothing in draft 2020-12 are taken for what they were, whatever `$schema` says: the array form
of `items` with `additionalItems`, `dependencies`, boolean exclusive bounds, `$id` as an anchor.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from server.schema.keywords import LISTS, MAPS, SINGLES, JsonObject, Refusal, is_number, nodes

COUNTS = frozenset(
    "minLength maxLength minItems maxItems minProperties maxProperties minContains"
    " maxContains".split()
)
LATEST = 2020


def modern(schema: JsonObject) -> JsonObject:
    """The schema in draft 2020-12, a copy. `$schema` is left out: one dialect is meant throughout.

    Raises Refusal for `$recursiveRef` where it means more than a reference to the root. What is
    not of a schema's shape is left as it is, for the check of shapes to find.
    """
    result = _Moderniser(schema).node(schema)
    assert isinstance(result, dict)
    return result


def _draft(schema: JsonObject) -> int:
    """The draft that `$schema` names: 4, 6, 7, 2019 or 2020; the latest where it names none."""
    found = re.search(r"draft[-/]0?(\d+)", str(schema.get("$schema", "")))
    return int(found[1]) if found else LATEST


class _Moderniser:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._draft = _draft(root)
        self._recursive = any(node.get("$recursiveAnchor") is True for _, node in nodes(root))

    def node(self, node: Any, pointer: str = "") -> Any:
        if not isinstance(node, dict):
            return node
        if "$ref" in node and self._draft <= 7:
            # In these drafts nothing beside a reference counts.
            node = {key: node[key] for key in ("$ref", "$defs", "definitions") if key in node}
        result: JsonObject = {}
        for key, value in node.items():
            if key in MAPS and isinstance(value, dict):
                result[key] = {
                    name: self.node(inner, f"{pointer}/{key}/{name}")
                    for name, inner in value.items()
                }
            elif key in LISTS and isinstance(value, list):
                result[key] = [self.node(inner, f"{pointer}/{key}") for inner in value]
            elif key == "items" and isinstance(value, list):
                self._tuple(node, result, pointer)
            elif key in SINGLES:
                result[key] = self.node(value, f"{pointer}/{key}")
            elif key == "dependencies" and isinstance(value, dict):
                self._dependencies(value, result, pointer)
            else:
                self._plain(key, value, result, pointer)
        _exclusive(result, "minimum", "exclusiveMinimum")
        _exclusive(result, "maximum", "exclusiveMaximum")
        return result

    def _tuple(self, node: JsonObject, result: JsonObject, pointer: str) -> None:
        if node["items"]:
            result["prefixItems"] = [self.node(each, f"{pointer}/items") for each in node["items"]]
        if "additionalItems" in node:
            result["items"] = self.node(node["additionalItems"], f"{pointer}/additionalItems")

    def _dependencies(self, value: JsonObject, result: JsonObject, pointer: str) -> None:
        names = {key: inner for key, inner in value.items() if isinstance(inner, list)}
        schemas = {
            key: self.node(inner, f"{pointer}/dependencies/{key}")
            for key, inner in value.items()
            if key not in names
        }
        if names:
            result["dependentRequired"] = {**result.get("dependentRequired", {}), **names}
        if schemas:
            result["dependentSchemas"] = {**result.get("dependentSchemas", {}), **schemas}

    def _plain(self, key: str, value: Any, result: JsonObject, pointer: str) -> None:
        """A keyword that holds no schema."""
        if key in ("$schema", "$recursiveAnchor", "additionalItems"):
            return
        if key in ("$id", "id") and isinstance(value, str):
            if key == "$id" and value.startswith("#") and value != "#":
                result["$anchor"] = value[1:]
            elif key == "$id" or self._draft == 4:
                result["$id"] = value
        elif key == "$ref" and isinstance(value, str):
            result["$ref"] = self._reference(value)
        elif key == "$recursiveRef":
            if self._recursive:
                raise Refusal(pointer, key, "is not supported, spell it as $dynamicRef")
            result["$ref"] = "#"
        elif key in COUNTS and isinstance(value, float) and value.is_integer():
            result[key] = int(value)
        else:
            result[key] = value

    def _reference(self, reference: str) -> str:
        """A reference by pointer, whose target may have moved to another keyword."""
        if not reference.startswith("#/"):
            return reference
        node: Any = self._root
        tokens = reference[2:].split("/")
        in_map = False  # whether the next token is a name, not a keyword
        for position, token in enumerate(tokens):
            if not in_map and isinstance(node, dict):
                tokens[position] = _moved(node, token)
            in_map = not in_map and (token in MAPS or token == "dependencies")
            node = _step(node, unquote(token).replace("~1", "/").replace("~0", "~"))
        return "#/" + "/".join(tokens)


def _moved(schema: JsonObject, keyword: str) -> str:
    """The keyword under which the value of an older one is now."""
    if isinstance(schema.get("items"), list) and keyword in ("items", "additionalItems"):
        return "prefixItems" if keyword == "items" else "items"
    return "dependentSchemas" if keyword == "dependencies" else keyword


def _step(node: Any, token: str) -> Any:
    if isinstance(node, dict):
        return node.get(token)
    if isinstance(node, list) and token.isdecimal() and int(token) < len(node):
        return node[int(token)]
    return None


def _exclusive(schema: JsonObject, bound: str, exclusive: str) -> None:
    """Booleans that say of a bound that it is exclusive, as in draft 4."""
    if isinstance(schema.get(exclusive), bool):
        if schema.pop(exclusive) and is_number(schema.get(bound)):
            schema[exclusive] = schema.pop(bound)
