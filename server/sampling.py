"""From the fields of a request to how the engine samples."""

from __future__ import annotations

from server.engine.sampler import Sampling
from server.engine.vocabulary import Vocabulary
from server.errors import InvalidRequest
from server.wire.sampling import SamplingFields

TEXT_TEMPERATURE = 0.7  # where neither request nor settings say: some life for prose,
FORMAL_TEMPERATURE = 0.0  # none for calls and JSON, where the best answer is wanted
_NAMES = ("top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repeat_penalty")


def sampling_of(
    fields: SamplingFields, vocabulary: Vocabulary, temperature: float | None, *, formal: bool
) -> Sampling:
    """`temperature` is the setting's, if there is one; `formal`: the answer has a grammar.

    Raises InvalidRequest for a bias of a token that the model does not have.
    """
    if max(fields.logit_bias, default=0) >= len(vocabulary):
        raise InvalidRequest(
            f"logit_bias names a token beyond the {len(vocabulary)} of this model",
            param="logit_bias",
        )
    default = FORMAL_TEMPERATURE if formal else TEXT_TEMPERATURE
    if temperature is not None:
        default = temperature
    given = {name: value for name in _NAMES if (value := getattr(fields, name)) is not None}
    if fields.repetition_penalty is not None:
        given["repeat_penalty"] = fields.repetition_penalty
    return Sampling(
        temperature=default if fields.temperature is None else fields.temperature,
        seed=None if fields.seed is None else fields.seed % 2**64,
        logit_bias=fields.logit_bias,
        **given,
    )
