"""`POST /tokenize` and `/detokenize`, also under `/v1`."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from server.engine.vocabulary import Vocabulary
from server.openapi import Operation
from server.parts import Parts
from server.routes.common import check_model, json_reply
from server.routes.examples import DETOKENIZE_EXAMPLES, TOKENIZE_EXAMPLES
from server.wire.chat import ChatRequest
from server.wire.tokens import (
    Detokenized,
    DetokenizeRequest,
    Piece,
    TokenizeRequest,
    Tokens,
    parse_detokenize_request,
    parse_tokenize_request,
)

TOKENIZE = Operation(
    "Split a text into tokens, or count the prompt of a conversation",
    description="Takes the forms of llama-server and of vLLM. Also at /v1/tokenize.",
    body=TokenizeRequest | ChatRequest,
    reply=Tokens,
    examples=TOKENIZE_EXAMPLES,
)
DETOKENIZE = Operation(
    "Put tokens together to a text",
    description="Takes the forms of llama-server and of vLLM. Also at /v1/detokenize.",
    body=DetokenizeRequest,
    reply=Detokenized,
    examples=DETOKENIZE_EXAMPLES,
)


def router(parts: Parts) -> APIRouter:
    routes = APIRouter()
    settings, vocabulary = parts.settings, parts.vocabulary

    @routes.post("/v1/tokenize", include_in_schema=False)
    @routes.post("/tokenize", openapi_extra=TOKENIZE.extra)
    async def tokenize(request: Request) -> Response:
        wanted = await parts.bodies.parsed(
            request,
            lambda body: parse_tokenize_request(body, settings, parts.model_names[0]),
        )
        check_model(wanted.model or parts.model_names[0], parts)
        if isinstance(wanted, ChatRequest):
            tokens = await asyncio.to_thread(parts.chat.prompt, wanted)
        else:
            tokens = await asyncio.to_thread(_encoded, wanted, vocabulary)
        pieces = isinstance(wanted, TokenizeRequest) and wanted.with_pieces
        return json_reply(
            {
                "tokens": _pieces(tokens, vocabulary) if pieces else tokens,
                "count": len(tokens),
                "max_model_len": parts.context_length,
            }
        )

    @routes.post("/v1/detokenize", include_in_schema=False)
    @routes.post("/detokenize", openapi_extra=DETOKENIZE.extra)
    async def detokenize(request: Request) -> Response:
        wanted = await parts.bodies.parsed(
            request, lambda body: parse_detokenize_request(body, settings)
        )
        check_model(wanted.model or parts.model_names[0], parts)
        text = parts.completion.decode(wanted.tokens, path="tokens")
        return json_reply({"content": text, "prompt": text})

    return routes


def _encoded(wanted: TokenizeRequest, vocabulary: Vocabulary) -> list[int]:
    return vocabulary.encode_raw(
        wanted.text, parse_special=wanted.parse_special, add_bos=wanted.adds_bos
    )


def _pieces(tokens: list[int], vocabulary: Vocabulary) -> list[Piece]:
    return [{"id": token, "piece": _piece(vocabulary.pieces[token])} for token in tokens]


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
