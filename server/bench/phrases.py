"""Tools, questions and results for the workloads: a vocabulary, and what is drawn from it.

All of it is our own text. What is drawn depends on the given generator alone, so that the same
seed always gives the same tools and questions, of about the same length each.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from server.wire.body import JsonObject


@dataclass(frozen=True)
class Tool:
    """An offered function. `parameters` is of its arguments: all properties are required."""

    name: str
    description: str
    parameters: JsonObject

    def as_wire(self) -> JsonObject:
        """As the chat-completions API takes it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    @property
    def closed_parameters(self) -> JsonObject:
        """What is left unsaid, as users do: that there are no other arguments."""
        return {**self.parameters, "additionalProperties": False}


@dataclass(frozen=True)
class _Field:
    """A property: one of `choices`, a text such as `texts`, or else a number up to `most`."""

    name: str
    choices: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    most: int = 0

    def schema(self) -> JsonObject:
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        return {"type": "string" if self.texts else "integer"}

    def draw(self, random: Random) -> str:
        values = self.choices or self.texts
        return random.choice(values) if values else str(random.randint(1, self.most))


def _text(name: str, texts: str) -> _Field:
    return _Field(name, texts=tuple(texts.split("|")))


def _choice(name: str, choices: str) -> _Field:
    return _Field(name, choices=tuple(choices.split("|")))


def _number(name: str, most: int) -> _Field:
    return _Field(name, most=most)


_CITY = _text("city", "Porto|Lyon|Graz|Bergen|Turku|Ghent|Cork|Tartu|Brno|Vigo")
_CUSTOMER = _text("customer", "Mora|Lindqvist|Okafor|Haas|Petrov|Sato|Nguyen")
_DAY = _choice("day", "monday|tuesday|wednesday|thursday|friday")

_THINGS: dict[str, tuple[_Field, ...]] = {
    "parcel": (_CITY, _number("grams", 9000), _choice("speed", "standard|express|overnight")),
    "invoice": (_CUSTOMER, _number("amount", 5000), _choice("currency", "EUR|GBP|SEK|CHF")),
    "meeting": (_text("room", "Oak|Birch|Maple|Willow|Cedar"), _DAY, _number("minutes", 180)),
    "train_seat": (_CITY, _DAY, _choice("class", "first|second")),
    "hotel_room": (_CITY, _number("nights", 14), _choice("beds", "single|double|twin")),
    "repair": (_text("machine", "printer|boiler|lift|forklift|pump"), _DAY,
               _choice("urgency", "low|normal|high")),
    "book_loan": (_text("title", "River Atlas|Winter Bread|Paper Moons"), _CUSTOMER,
                  _number("weeks", 8)),
    "greenhouse": (_choice("crop", "tomato|lettuce|basil|pepper"), _number("degrees", 35),
                   _number("litres", 400)),
    "newsletter": (_text("topic", "harvest|opening hours|new staff|winter tyres"), _DAY,
                   _choice("audience", "staff|customers|partners")),
    "shelf": (_text("article", "bolts|lamp oil|paint|rope|gloves"), _CITY,
              _number("pieces", 900)),
    "contract": (_CUSTOMER, _number("months", 48), _choice("kind", "lease|service|supply")),
    "car_rental": (_CITY, _number("days", 30), _choice("size", "small|medium|van")),
}  # fmt: skip

# What it does, and how many of the thing's properties it takes.
_ACTIONS = {
    "find": ("Look up one {thing}", 2),
    "create": ("Enter one {thing} into the records", 3),
    "change": ("Change details of one {thing}", 3),
    "cancel": ("Cancel one {thing}, tell all involved", 2),
    "price": ("Work out what one {thing} costs", 2),
    "archive": ("Move one {thing} into the archive", 2),
}
_PAIRS = tuple((action, thing) for thing in _THINGS for action in _ACTIONS)

MOST_TOOLS = len(_PAIRS)

_SUBJECTS = (
    "a bicycle gear|a lighthouse lamp|the tide|a bread oven|a suspension bridge|a rain gauge"
    "|a sailing boat|a compost heap|a hearing aid|a pendulum clock|a canal lock|a heat pump"
    "|a printing press|a beehive|a water wheel|a telescope"
).split("|")
_LISTENERS = (
    "a child of ten|a new colleague|a visitor|a school class|a farmer|a retired sailor"
    "|a journalist|a neighbour"
).split("|")


def draw_tools(random: Random, count: int) -> tuple[Tool, ...]:
    """`count` different tools, MOST_TOOLS at most."""
    return tuple(_tool(action, thing) for action, thing in random.sample(_PAIRS, count))


def _tool(action: str, thing: str) -> Tool:
    fields = _fields(action, thing)
    return Tool(
        name=f"{action}_{thing}",
        description=_ACTIONS[action][0].format(thing=thing.replace("_", " ")),
        parameters={
            "type": "object",
            "properties": {field.name: field.schema() for field in fields},
            "required": [field.name for field in fields],
        },
    )


def _fields(action: str, thing: str) -> tuple[_Field, ...]:
    return _THINGS[thing][: _ACTIONS[action][1]]


def draw_task(random: Random, tools: tuple[Tool, ...]) -> str:
    """What to do with one of the tools, with a value for each of its arguments."""
    action, _, thing = random.choice(tools).name.partition("_")
    values = (f"{field.name} {field.draw(random)}" for field in _fields(action, thing))
    return f"{action} the {thing.replace('_', ' ')}: {', '.join(values)}"


def draw_result(random: Random, tools: tuple[Tool, ...]) -> str:
    """The result of a call, which asks for another one."""
    result = {
        "status": "done",
        "reference": f"R-{random.randint(10000, 99999)}",
        "next": draw_task(random, tools),
    }
    return json.dumps(result)


def draw_chat(random: Random) -> str:
    """A question that takes a paragraph to answer."""
    return (
        f"Explain to {random.choice(_LISTENERS)} how {random.choice(_SUBJECTS)} works, and name"
        f" {random.randint(2, 5)} things that can go wrong with it."
    )
