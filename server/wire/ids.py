"""Ids that the server gives out."""

from __future__ import annotations

import secrets
import string

_LETTERS_AND_DIGITS = string.ascii_letters + string.digits


def new_call_id() -> str:
    """Nine letters or digits: the one form that every model's template accepts."""
    return _random_text(9)


def new_completion_id() -> str:
    return "chatcmpl-" + _random_text(29)


def new_text_completion_id() -> str:
    return "cmpl-" + _random_text(29)


def new_item_id(prefix: str) -> str:
    """The id of a response or of one of its items, such as `msg_…`."""
    return f"{prefix}_{_random_text(32)}"


def _random_text(length: int) -> str:
    return "".join(secrets.choice(_LETTERS_AND_DIGITS) for _ in range(length))
