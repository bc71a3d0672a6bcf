"""Following JSON text byte by byte: where a value ends, and whether a byte is inside a string."""

from __future__ import annotations

OPEN, CLOSE = b"{[", b"}]"


class ValueTracker:
    """Tracks one JSON object or array from its first byte. The text is taken to be well-formed."""

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False
        self.in_string = False
        self.digits = 0  # length of the run of digits that was just read, outside strings

    def feed(self, data: bytes) -> int | None:
        """Read on; the number of bytes up to the end of the value, None if it goes on."""
        for position, byte in enumerate(data):
            if self.in_string:
                self._inside_string(byte)
                continue
            self.digits = self.digits + 1 if 0x30 <= byte <= 0x39 else 0
            if byte == 0x22:
                self.in_string = True
            elif byte in OPEN:
                self._depth += 1
            elif byte in CLOSE:
                self._depth -= 1
                if self._depth == 0:
                    return position + 1
        return None

    def _inside_string(self, byte: int) -> None:
        if self._escaped:
            self._escaped = False
        elif byte == 0x5C:
            self._escaped = True
        elif byte == 0x22:
            self.in_string = False
