"""Where the time of a request goes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace


@dataclass
class Timings:
    """Where the time of a request went: seconds, tokens and forward passes.

    `compile_s` is what its constraint took to be compiled, before it was submitted.
    `first_token_s` is from its submission until the model had chosen a token, so that it has the
    queue and the prefill in it: what is forced before that is known without the model. If all of
    it is forced, until its end; 0 where nothing was chosen. `model_s` is the time of the forward
    passes that it took part in, shared or not; `constraint_s` that of asking its constraint.
    `prompt_tokens` and `cached_tokens` are as it was admitted, `prefilled_tokens` what was decoded:
    more than the rest of the prompt if it was paused.
    """

    submitted: float = field(default_factory=time.perf_counter)
    compile_s: float = 0.0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float = 0.0
    model_s: float = 0.0
    constraint_s: float = 0.0
    total_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefilled_tokens: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    output_tokens: int = 0
    forward_passes: int = 0

    def continued(self) -> Timings:
        """For a further job of the same request: what is of each answer begins anew."""
        decoded = self.prefilled_tokens + self.forced_tokens
        return replace(
            self,
            first_token_s=0.0,
            total_s=0.0,
            output_tokens=0,
            forced_tokens=0,
            prefilled_tokens=decoded,
        )
