"""Log lines on stderr, as text or one JSON object a line."""

from __future__ import annotations

import json
import logging
import re
import sys
import time

from server.errors import CallwrightError

log = logging.getLogger(__name__)

MAX_REASON = 300  # characters
# What `!r` puts into quotes; an apostrophe within a word is none.
_QUOTED = re.compile(r"""(?<!\w)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")(?!\w)""")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _NoUpgradeWarnings(logging.Filter):
    """Java clients ask for h2c with every request; uvicorn would warn each time, in two lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(
            ("Unsupported upgrade request", "No supported WebSocket library")
        )


def configure(form: str, level: str) -> None:
    """Set up the root logger. `form` is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "uvicorn.access", "huggingface_hub"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # uvicorn tells of every step of its start and end; ours is the line that matters.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_NoUpgradeWarnings())


def log_refusal(error: CallwrightError, status: int) -> None:
    """Write that a request was refused, and why."""
    log.info(
        "refused status=%d code=%s param=%s reason=%s",
        status,
        error.code,
        error.param and _in_line(error.param),
        reason_of(error),
    )


def reason_of(error: Exception) -> str:
    """Why something failed, in one line and without what it quotes: that may be a client's text.

    Of an error that is not for users it is the kind only.
    """
    if not isinstance(error, CallwrightError):
        return type(error).__name__
    return _in_line(_QUOTED.sub("'…'", error.message))[:MAX_REASON]


def _in_line(text: str) -> str:
    """No text of a client can look like a line of the log."""
    return "".join(one if one.isprintable() else "\ufffd" for one in text)
