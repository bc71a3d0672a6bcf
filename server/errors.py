"""Every error that a user may see.

    CallwrightError
    ├── InvalidRequest          400  the request cannot be honoured as written
    │   └── ContextOverflow     400  the prompt does not fit the context
    ├── Unauthorized            401  missing or wrong API key
    ├── Forbidden               403  a web page, or a host name, that may not call this server
    ├── NotFound                404  unknown model or route
    ├── TooSlow                 408  the request did not come in time
    ├── TooLarge                413  the body is over the limit
    ├── Busy                    429  the queue is full
    ├── ConstraintFailed        500  generation broke its constraint, the answer was withheld
    ├── StoreFailed             500  a response could not be kept or read: a full disk, say
    ├── Overloaded              503  there are too many connections
    ├── ShuttingDown            503  the server is going away
    ├── TimedOut                504  the request took longer than the server allows
    └── SetupError                   a command cannot go on: a line or two on stderr, exit status 1

The HTTP layer turns the first group into OpenAI's envelope in one place (`server/app.py`); the
command line turns any of them into a line on stderr.
"""

from __future__ import annotations


class CallwrightError(Exception):
    """Base of all. `param` is a path such as `tools[2].function.parameters`."""

    status = 500
    type = "server_error"
    code: str | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code


class InvalidRequest(CallwrightError):
    status = 400
    type = "invalid_request_error"


class ContextOverflow(InvalidRequest):
    code = "context_length_exceeded"


class Unauthorized(CallwrightError):
    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class Forbidden(CallwrightError):
    status = 403
    type = "permission_error"


class NotFound(CallwrightError):
    status = 404
    type = "invalid_request_error"


class TooSlow(CallwrightError):
    status = 408
    type = "invalid_request_error"
    code = "request_timeout"


class TooLarge(CallwrightError):
    status = 413
    type = "invalid_request_error"
    code = "request_too_large"


class Busy(CallwrightError):
    """The queue is full; `retry_after_s` becomes the `Retry-After` header."""

    status = 429
    type = "rate_limit_error"
    code = "queue_full"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ConstraintFailed(CallwrightError):
    code = "constraint_failed"


class Overloaded(CallwrightError):
    status = 503
    code = "too_many_connections"


class StoreFailed(CallwrightError):
    code = "store_failed"


class ShuttingDown(CallwrightError):
    status = 503
    code = "shutting_down"


class TimedOut(CallwrightError):
    status = 504
    code = "timeout"


class SetupError(CallwrightError):
    """What went wrong, and in `hint` what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
