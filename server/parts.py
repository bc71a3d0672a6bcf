"""What the application is made of: made once by `server/assemble.py`, passed to every route."""

from __future__ import annotations

from dataclasses import dataclass

from server.chat import ChatService
from server.config import Settings
from server.constraint import ConstraintCompiler
from server.engine.engine import Engine
from server.metrics import Metrics


@dataclass(frozen=True)
class Parts:
    """`model_names`: the main one first."""

    settings: Settings
    engine: Engine
    compiler: ConstraintCompiler
    chat: ChatService
    metrics: Metrics
    model_names: tuple[str, ...]
