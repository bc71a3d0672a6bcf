"""What the application is made of: made once by `server/assemble.py`, passed to every route."""

from __future__ import annotations

from dataclasses import dataclass

from server.bodies import Bodies
from server.chat import ChatService
from server.completion import CompletionService
from server.config import Settings
from server.constraint import ConstraintCompiler
from server.engine.engine import Engine
from server.engine.vocabulary import Vocabulary
from server.metrics import Metrics
from server.responses.service import ResponsesService


@dataclass(frozen=True)
class Parts:
    """`model_names`: the main one first. `context_length` in tokens."""

    settings: Settings
    engine: Engine
    compiler: ConstraintCompiler
    chat: ChatService
    completion: CompletionService
    responses: ResponsesService
    metrics: Metrics
    vocabulary: Vocabulary
    context_length: int
    model_names: tuple[str, ...]
    bodies: Bodies
