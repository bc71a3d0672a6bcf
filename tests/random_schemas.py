"""Random tool schemas, such that some value satisfies each: written with a value in mind."""

from __future__ import annotations

from random import Random
from typing import Any

JsonObject = dict[str, Any]

WORDS = (
    "city",
    "unit",
    "days",
    "kind",
    "note",
    "tags",
    "from",
    "größe",
    "a b",
    'quo"te',
    "x/y",
    "$id",
)
PATTERNS = (
    *("^[a-z]{2,5}$", "ab", r"^\d{3}-\d{2}$", "^(red|green|blue)$", r"^\w+@\w+\.(com|org)$"),
    *(r"^[^\s]{1,4}$", r"^\p{L}+$", "^(?!no)[a-z]{2,4}$", r"^(a|b)\1$", "^$", r"^[A-Z][a-z]*\/$"),
)
FORMATS = ("date", "time", "date-time", "uuid", "email", "ipv4", "duration", "uri", "unheard-of")


class SchemaMaker:
    """Makes schemas from a source of randomness, which decides alone what comes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._definitions: JsonObject = {}

    def parameters(self) -> JsonObject:
        """The schema of a tool's arguments."""
        schema = self._object(3)
        if self._definitions:
            schema["$defs"] = self._definitions
        return schema

    def _any(self, depth: int) -> Any:
        kinds = [self._string, self._string, self._number, self._choice, self._literal]
        if depth > 0:
            kinds += [self._object, self._array, self._combined, self._reference, self._map]
        schema = self._random.choice(kinds)(depth)
        if isinstance(schema, dict) and self._maybe(0.1):
            schema["description"] = "What it is."
        return schema

    def _maybe(self, chance: float = 0.5) -> bool:
        return self._random.random() < chance

    def _names(self, least: int, most: int) -> list[str]:
        return self._random.sample(WORDS, self._random.randint(least, most))

    def _string(self, depth: int) -> JsonObject:
        schema: JsonObject = {"type": "string"}
        match self._random.randrange(5):
            case 0:
                least = self._random.randint(0, 3)
                schema |= {"minLength": least, "maxLength": least + self._random.randint(0, 5)}
            case 1:
                schema["pattern"] = self._random.choice(PATTERNS)
            case 2:
                schema["format"] = self._random.choice(FORMATS)
        return schema

    def _number(self, depth: int) -> JsonObject:
        least = self._random.randint(-20, 20)
        schema: JsonObject = {"type": self._random.choice(["integer", "number"])}
        match self._random.randrange(5):
            case 0:
                schema |= {"minimum": least, "maximum": least + self._random.randint(0, 30)}
            case 1:
                schema |= {"exclusiveMinimum": least, "exclusiveMaximum": least + 2}
            case 2:
                schema |= {"multipleOf": self._random.choice([2, 5, 0.5, 0.01])}
            case 3:
                schema |= {"minimum": least + 0.25}
        return schema

    def _choice(self, depth: int) -> JsonObject:
        return {"enum": self._random.sample(["a", "b", "ü", 1, 2.5, None, True, [1], {"k": 0}], 4)}

    def _literal(self, depth: int) -> Any:
        return self._random.choice(
            [{"type": "boolean"}, {"type": ["string", "null"]}, {"const": "fixed"}, {}, True]
        )

    def _array(self, depth: int) -> JsonObject:
        schema: JsonObject = {"type": "array", "items": self._any(depth - 1)}
        match self._random.randrange(6):
            case 0:
                schema |= {"minItems": 1, "maxItems": 3}
            case 1:
                schema |= {"items": {"enum": ["p", "q", "r", 4]}, "uniqueItems": True}
                schema["minItems"] = self._random.randint(0, 3)
            case 2:
                schema["prefixItems"] = [self._any(0), self._any(0)]
            case 3:
                schema |= {"items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 6}
                schema["contains"] = {"minimum": self._random.randint(1, 5)}
            case 4:
                schema |= {"items": {"type": "string", "maxLength": 3}, "uniqueItems": True}
        return schema

    def _object(self, depth: int) -> JsonObject:
        names = self._names(1, 4)
        schema: JsonObject = {
            "type": "object",
            "properties": {name: self._any(depth - 1) for name in names},
            "required": self._random.sample(names, self._random.randint(0, len(names))),
        }
        match self._random.randrange(10):
            case 0:
                schema["additionalProperties"] = self._any(0)
            case 1:
                schema["additionalProperties"] = False
            case 2:
                schema["minProperties"] = self._random.randint(1, len(names))
            case 3:
                schema["dependentRequired"] = {names[0]: [names[-1]]}
            case 4:
                schema["not"] = {"required": ["nope"]}
            case 5:
                kind = {"enum": ["one", "two"]}
                schema["properties"]["kind"] = kind
                schema["if"] = {"properties": {"kind": {"const": "one"}}}
                schema["then"] = {"required": [names[0]]}
        return schema

    def _map(self, depth: int) -> JsonObject:
        schema: JsonObject = {"type": "object"}
        match self._random.randrange(4):
            case 0:
                schema["additionalProperties"] = self._any(depth - 1)
            case 1:
                schema["patternProperties"] = {"^x_": self._any(0)}
                schema["additionalProperties"] = False
            case 2:
                schema["propertyNames"] = {"pattern": "^[a-c]{1,2}$"}
                schema["maxProperties"] = 4
        return schema

    def _combined(self, depth: int) -> JsonObject:
        match self._random.randrange(6):
            case 0:
                return {"anyOf": [self._any(depth - 1), {"type": "null"}]}
            case 1:
                tags = self._random.sample(WORDS, 2)
                return {"oneOf": [self._tagged(tag, depth) for tag in tags]}
            case 2:
                return {"oneOf": [{"type": "number"}, {"type": "integer", "maximum": 3}]}
            case 3:
                return {"allOf": [self._object(depth - 1), {"maxProperties": 8}]}
            case 4:
                return {"type": "string", "not": {"enum": ["a", "b"]}}
            case _:
                parts = [{"properties": {name: self._any(0)}} for name in self._names(2, 2)]
                return {"type": "object", "allOf": parts, "unevaluatedProperties": False}

    def _tagged(self, tag: str, depth: int) -> JsonObject:
        properties = {"kind": {"const": tag}, "value": self._any(depth - 2)}
        return {"type": "object", "properties": properties, "required": ["kind"]}

    def _reference(self, depth: int) -> JsonObject:
        name = f"def{len(self._definitions)}"
        self._definitions[name] = True  # its place, before what is within takes the next
        if self._maybe(0.3):
            link = {"anyOf": [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]}
            properties = {"label": self._any(0), "next": link}
            self._definitions[name] = {"type": "object", "properties": properties}
        else:
            self._definitions[name] = self._any(depth - 1)
        return {"$ref": f"#/$defs/{name}"}
