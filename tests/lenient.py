"""A client's schema in the standard's own spelling, read by the leniences that are documented.

Written apart from the server's reader, for checkers that know the standard only.
"""

from __future__ import annotations

from typing import Any

MAPS = frozenset("properties patternProperties $defs definitions dependentSchemas".split())
LISTS = frozenset("allOf anyOf oneOf prefixItems".split())
SINGLE = frozenset(
    "items additionalItems additionalProperties unevaluatedItems unevaluatedProperties contains"
    " propertyNames not if then else".split()
)
VALUES = frozenset({"const", "default", "example"})


def standard(schema: Any) -> Any:
    """A null keyword is absent, `[]` in place of an object is `{}`, a list of items is a prefix."""
    if schema == []:
        return {}
    if not isinstance(schema, dict):
        return schema
    said = {key: value for key, value in schema.items() if value is not None or key in VALUES}
    if isinstance(said.get("items"), list) and said["items"]:
        said["prefixItems"] = said.pop("items")
        if "additionalItems" in said:
            said["items"] = said.pop("additionalItems")
    for key, value in said.items():
        if key in MAPS:
            said[key] = {name: standard(inner) for name, inner in dict(value).items()}
        elif key in LISTS:
            said[key] = [standard(inner) for inner in value]
        elif key in SINGLE:
            said[key] = standard(value)
    return said
