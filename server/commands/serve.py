"""`callwright serve`: fetch the model if need be, load it, answer requests until told to stop."""

from __future__ import annotations

import argparse
import errno
import logging
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from rich.console import Console

from models.catalog import LocalModel, load_catalog, resolve
from models.fetch import fetch
from models.gguf import estimate_memory, read_facts
from models.memory import available_memory
from models.progress import progress_on
from server import config, logs
from server.app import create_app
from server.assemble import assemble
from server.config import Settings
from server.errors import SetupError

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
GIB = 1 << 30

EPILOG = """every flag may also be given as a variable, CALLWRIGHT_PORT=9000 for --port 9000

examples:
  callwright serve
  callwright serve --model ~/models/my.gguf --context-length 16384
  callwright serve --host 0.0.0.0 --api-key my-secret
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "serve",
        help="serve a model on an OpenAI-compatible address",
        description="Serve a model on an OpenAI-compatible address.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    config.add_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = config.load(args)
    logs.configure(settings.log_format, settings.log_level)
    check_exposure(settings)
    with listen(settings.host, settings.port) as listener:
        console = Console(stderr=True)
        model = local_model(settings, console)
        check_memory(model.path, settings.context_length)
        with console.status(f"loading {model.name}"):
            parts = assemble(settings, model)
        host, port = listener.getsockname()[:2]
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(parts),
                # Java clients send `Upgrade: h2c`; with httptools their body would be lost.
                http="h11",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=settings.keep_alive_s,
                timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
            )
        )
        print(banner(_url(host, port), model.name, bool(settings.api_key)), flush=True)
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            pass  # uvicorn has already ended everything and passes the signal on
        print("stopped", file=sys.stderr)
    return 0


def check_exposure(settings: Settings) -> None:
    """Raise SetupError for an address that others can reach without a key, unless said twice."""
    if settings.host in LOOPBACK or settings.api_key or settings.allow_open_network:
        return
    raise SetupError(
        f"{settings.host} can be reached from other machines and there is no --api-key",
        hint="Give an --api-key, or say --allow-open-network if this is meant.",
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket on the address, taken before the model is loaded: a port in use is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as exc:
        why = "is in use" if exc.errno == errno.EADDRINUSE else f"cannot be used ({exc.strerror})"
        raise SetupError(
            f"{host} port {port} {why}", hint="Give another --port, or --port 0 for any free one."
        ) from None
    return listener


def local_model(settings: Settings, console: Console) -> LocalModel:
    """The model's file, fetched if need be, and looked at."""
    model = resolve(settings.model, settings.models_dir, load_catalog())
    if model.entry is not None:
        fetch(
            model.entry,
            settings.models_dir,
            offline=settings.offline,
            progress=progress_on(console),
        )
    read_facts(model.path)
    return model


def check_memory(path: Path, context_length: int) -> None:
    """Raise SetupError if the model cannot fit into what is free."""
    needed, free = estimate_memory(path, context_length), available_memory()
    if free is not None and needed > free:
        raise SetupError(
            f"the model needs about {needed / GIB:.1f} GiB of memory, {free / GIB:.1f} are free",
            hint="Give a smaller --context-length or --model, or end other programs.",
        )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


CURL = """curl {url}/v1/chat/completions -H 'Content-Type: application/json' {auth}-d '{{
  "model": "{model}", "tool_choice": "required",
  "messages": [{{"role": "user", "content": "What is the weather in Porto?"}}],
  "tools": [{{"type": "function", "function": {{"name": "get_weather", "parameters":
    {{"type": "object", "properties": {{"city": {{"type": "string"}}}}, "required": ["city"]}}
  }}}}]}}'"""

SDK = """from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="{key}")
city = {{"type": "object", "properties": {{"city": {{"type": "string"}}}}, "required": ["city"]}}
tools = [{{"type": "function", "function": {{"name": "get_weather", "parameters": city}}}}]
ask = dict(messages=[{{"role": "user", "content": "What is the weather in Porto?"}}], tools=tools)
print(client.chat.completions.create(model="{model}", **ask).choices[0].message.tool_calls)"""


def banner(url: str, model: str, has_key: bool) -> str:
    """What to do now: the address, and a tool call with curl and with the OpenAI SDK."""
    auth = "-H 'Authorization: Bearer YOUR-KEY' " if has_key else ""
    values = {"url": url, "model": model, "auth": auth, "key": "YOUR-KEY" if has_key else "none"}
    line = "-" * min(78, shutil.get_terminal_size().columns)
    return "\n".join(
        [
            f"{model} is ready at {url}/v1   (Ctrl-C ends it)",
            line,
            CURL.format(**values),
            line,
            SDK.format(**values),
            line,
        ]
    )
