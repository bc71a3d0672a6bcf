"""How near a model is to a call where its answer begins, as this server tells it."""

from __future__ import annotations

import math
from contextlib import suppress

import httpx

from prompts.bench.cases import Case
from prompts.bench.results import DEFAULT_TEMPLATE, Arm
from prompts.bench.run import body_of
from server.commands.chunks import message_of
from server.errors import CallwrightError


async def margin_of(
    http: httpx.AsyncClient, base: str, model: str, template: str | None, case: Case
) -> float | None:
    """By how much the best token that opens a call is above the best other one, before any bias.

    None where the server does not tell. Raises CallwrightError if it refuses, and httpx's errors.
    """
    arm = Arm(model, template or DEFAULT_TEMPLATE)
    body = body_of(arm, case, tool_choice="auto", max_tokens=1) | {"include_timings": True}
    reply = await http.post(f"{base}/chat/completions", json=body)
    said = reply.text[:200]
    with suppress(ValueError, LookupError, TypeError):
        data = reply.json()
        if reply.status_code == 200:
            margin = float(data["timings"]["call_margin"])
            return margin if math.isfinite(margin) else None
        said = message_of(data)
    if reply.status_code != 200:
        raise CallwrightError(f"status {reply.status_code}: {said[:300]}")
    return None
