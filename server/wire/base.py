"""What all types of the wire share: null means absent, types are strict, errors carry a path."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Strict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from server.errors import InvalidRequest

LIST = (Strict(False), FailFast())
"""Marks a tuple that a JSON list may fill; one wrong entry is enough, a million cost no more."""

_MAX_KEY = 64


class Wire(BaseModel):
    """A JSON object of a client. Unknown keys are tolerated, a key with null is an absent key."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None}


def wrong(message: str) -> PydanticCustomError:
    """The error to raise in a validator; pydantic adds the path."""
    return PydanticCustomError("wrong", "{message}", {"message": message})


W = TypeVar("W", bound=Wire)


def validated(kind: type[W], data: dict[str, Any]) -> W:
    """A body as its type. Raises InvalidRequest with the path of the field that is to blame."""
    try:
        return kind.model_validate(data)
    except ValidationError as exc:
        raise complaint(exc) from None
    except RecursionError:  # only where `max_depth` is set beyond what Python can walk
        raise InvalidRequest("the body is nested too deeply") from None


def complaint(exc: ValidationError) -> InvalidRequest:
    """The first error, with a path such as `tools[2].function.parameters` and no echo of values."""
    error = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    path = path_of(error["loc"])
    text = error["msg"]
    if error["type"] != "wrong":  # pydantic's own words, for readers who may not know Python
        text = (text[:1].lower() + text[1:]).replace("tuple", "list")
        text = re.sub(r"valid dictionary or instance of \w+", "valid object", text)
    return InvalidRequest(f"{path}: {clipped(text, 1000)}" if path else text, param=path or None)


def path_of(loc: tuple[int | str, ...]) -> str:
    """A path as clients write it. Tags of unions are in angle brackets and left out."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not (step.startswith("<") and step.endswith(">")):
            path += f".{clipped(step, _MAX_KEY)}"
    return path.removeprefix(".")


def clipped(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def listed(names: tuple[str, ...], length: int = 1000) -> str:
    """The names with commas; as many as fit into `length` characters, then how many more."""
    shown: list[str] = []
    used = 0
    for name in names:
        used += len(name) + 2
        if used > length:
            return ", ".join(shown) + f" and {len(names) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)
