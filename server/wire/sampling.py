"""How tokens are to be chosen, as requests of every API say it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from server.errors import InvalidRequest
from server.wire.base import LIST, Wire, clipped, wrong

MAX_STOPS = 16
MAX_BIASES = 1024


def _read_stop(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _read_bias(value: Any) -> Any:
    """Token ids as integers: JSON has them as texts."""
    if not isinstance(value, dict) or len(value) > MAX_BIASES:
        raise wrong(f"must be an object of at most {MAX_BIASES} token ids and their biases")
    for token, bias in value.items():
        if not re.fullmatch("[0-9]{1,9}", str(token)):
            raise wrong(f"{clipped(str(token), 40)!r} is not the id of a token")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or abs(bias) > 100:
            raise wrong(f"the bias of token {token} is not a number from -100 to 100")
    return {int(token): float(bias) for token, bias in value.items()}


class SamplingFields(Wire):
    """None means: not said, the server's or the model's default.

    Units: temperatures and penalties as in OpenAI's reference; `top_k` 0 and `repeat_penalty` 1
    are off; `logit_bias` maps token ids to what is added to their logits. `repetition_penalty` is
    another name of `repeat_penalty`.
    """

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: Annotated[int, Field(ge=-1), AfterValidator(lambda k: max(k, 0))] | None = None
    min_p: float | None = Field(None, ge=0, le=1)
    repeat_penalty: float | None = Field(None, gt=0, le=2)
    repetition_penalty: float | None = Field(None, gt=0, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    logit_bias: Annotated[
        dict[int, float], BeforeValidator(_read_bias, json_schema_input_type=dict[str, float])
    ] = Field(default_factory=dict)
    stop: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        *LIST,
        Field(max_length=MAX_STOPS),
        BeforeValidator(_read_stop, json_schema_input_type=str | list[str]),
    ] = ()

    @model_validator(mode="after")
    def _check_penalties(self) -> Self:
        if self.repeat_penalty != self.repetition_penalty and None not in (
            self.repeat_penalty,
            self.repetition_penalty,
        ):
            raise InvalidRequest(
                "repetition_penalty and repeat_penalty are the same, but their values differ",
                param="repetition_penalty",
            )
        return self
