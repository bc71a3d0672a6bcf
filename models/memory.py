"""How much memory there is to load a model into."""

from __future__ import annotations

import contextlib
from pathlib import Path


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that a new process can use: what Linux calls available, or a container's rest.

    None where neither says so. `root` is for tests.
    """
    limits = [_meminfo(root / "proc/meminfo"), _container(root / "sys/fs/cgroup")]
    return min((limit for limit in limits if limit is not None), default=None)


def _meminfo(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in path.read_text("ascii", "replace").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _container(folder: Path) -> int | None:
    """The limit of version 2 control groups; "max" is none."""
    with contextlib.suppress(OSError, ValueError):
        limit = int((folder / "memory.max").read_text("ascii"))
        return max(0, limit - int((folder / "memory.current").read_text("ascii")))
    return None
