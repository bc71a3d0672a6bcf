"""`callwright serve`: fetch the model if need be, load it, answer requests until told to stop."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import shutil
import socket
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from server import config, logs
from server.commands.local import load_parts
from server.commands.signals import Terminated, sigterm_unwinds
from server.config import LOOPBACK, Settings
from server.errors import SetupError

if TYPE_CHECKING:
    import uvicorn

    from server.parts import Parts

LAST_WORDS_S = 1.0  # to write the end of an answer whose generation was ended

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
    with sigterm_unwinds(), listen(settings.host, settings.port) as listener:
        parts = load_parts(settings, Console(stderr=True))
        server = make_server(parts)
        host, port = listener.getsockname()[:2]
        print(banner(url_of(host, port), parts.model_names[0], bool(settings.api_key)), flush=True)
        # uvicorn ends everything and then passes the signal on.
        with contextlib.suppress(KeyboardInterrupt, Terminated):
            server.run(sockets=[listener])
        print("stopped", file=sys.stderr)
    return 0


def make_server(parts: Parts) -> uvicorn.Server:
    """The HTTP server of an application. Told to end, it lets answers finish for
    `shutdown_grace_s`; what is left then fails as any request does, so that streams end with an
    error event and not in the middle of a line.
    """
    # Imported late: what the web takes to import would slow down every other command's help.
    import uvicorn

    from server.app import create_app
    from server.protocol import BoundedProtocol, Bounds

    settings = parts.settings
    bounds = Bounds(settings.client_timeout_s, settings.max_connections)

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            ending = asyncio.ensure_future(self._end_answers())
            await super().shutdown(sockets)
            await ending
            if self.force_exit:  # uvicorn leaves this out then
                await self.lifespan.shutdown()

        async def _end_answers(self) -> None:
            deadline = time.monotonic() + settings.shutdown_grace_s
            tasks = self.server_state.tasks
            while tasks and not self.force_exit and time.monotonic() < deadline:
                await asyncio.wait(tasks, timeout=0.05)
            await asyncio.to_thread(parts.engine.stop, 0)
            if tasks:
                await asyncio.wait(tasks, timeout=LAST_WORDS_S)
            # Who is left sends its request or takes its answer too slowly.
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            if tasks:
                await asyncio.wait(tasks, timeout=LAST_WORDS_S)

    return Server(
        uvicorn.Config(
            create_app(parts),
            # On h11: Java clients send `Upgrade: h2c`; with httptools their body would be lost.
            http=cast(Any, partial(BoundedProtocol, bounds)),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=settings.keep_alive_s,
            # Only should a request not end although its connection is closed.
            timeout_graceful_shutdown=round(settings.shutdown_grace_s) + 10,
        )
    )


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
        with contextlib.ExitStack() as undo:
            undo.callback(listener.close)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
            undo.pop_all()
    except UnicodeError:
        raise SetupError(f"{host[:80]!r} cannot be used as a host name") from None
    except OSError as exc:
        why = "is in use" if exc.errno == errno.EADDRINUSE else f"cannot be used ({exc.strerror})"
        raise SetupError(
            f"{host} port {port} {why}", hint="Give another --port, or --port 0 for any free one."
        ) from None
    return listener


def url_of(host: str, port: int) -> str:
    """The server's address for clients."""
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
