"""The examples at the end of a command's help."""

from __future__ import annotations


def examples(command: str, *arguments: str) -> str:
    """An epilog with a line for each way to call a command; without arguments it is one line."""
    lines = (f"  callwright {command} {one}".rstrip() for one in arguments or ("",))
    return "\n".join(["examples:", *lines, ""])
