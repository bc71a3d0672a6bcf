"""What `callwright doctor` asks of the machine. Effects are here, judgements in `checks.py`.

A probe that fails returns the reason as a value: for the doctor it is a finding, not an error.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from models.errors import SourceError

BUILD_DEADLINE_S = 60.0  # a cold disk; usually it is one second
INDEX_DEADLINE_S = 10.0
HUB_DEADLINE_S = 3.0


@dataclass(frozen=True)
class Build:
    """How llama.cpp was built: features of its CPU part, and its other back ends by name."""

    cpu_features: frozenset[str]
    backends: tuple[str, ...]
    uses_gpu: bool
    physical_cores: int


@dataclass(frozen=True)
class Failure:
    """Why something could not be had; `signal` is the one that ended its process."""

    reason: str
    signal: str = ""


# Run in a process of its own: a build for another CPU ends it with a signal.
_PROBE = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
import server.outlines_backend
from server.engine import runner
print(json.dumps([runner.system_info(), runner.supports_gpu(), runner.physical_cores()]))
"""


def probe_build() -> Build | Failure:
    """Load llama.cpp and the constraint's back end, and ask how they were built."""
    command = [sys.executable, "-P", "-c", _PROBE, json.dumps(sys.path)]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=BUILD_DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return Failure(f"not loaded within {BUILD_DEADLINE_S:.0f} s")
    return read_probe(
        ended.returncode, ended.stdout.decode(), ended.stderr.decode("utf-8", "replace")
    )


def read_probe(status: int, out: str, err: str) -> Build | Failure:
    """What the process of `probe_build` said, or how it ended."""
    if status < 0:
        name = signal.Signals(-status).name
        return Failure(f"loading it ended with {name}", signal=name)
    lines = err.strip().splitlines()
    if status > 0:
        return Failure(lines[-1] if lines else f"loading it ended with status {status}")
    info, uses_gpu, cores = json.loads(out.splitlines()[-1])
    parts = parse_system_info(info)
    names = {name.casefold(): name for name in (*library_backends(), *parts)}
    others = tuple(sorted(name for key, name in names.items() if key != "cpu"))
    return Build(parts.get("CPU", frozenset()), others, uses_gpu, cores)


def parse_system_info(text: str) -> dict[str, frozenset[str]]:
    """`CPU : AVX2 = 1 | FMA = 1 | ` as back ends and their features that are on."""
    parts: dict[str, set[str]] = {}
    features: set[str] = set()
    for entry in text.split("|"):
        name, colon, entry = entry.rpartition(" : ")
        if colon:
            features = parts.setdefault(name.strip(), set())
        feature, _, value = entry.partition("=")
        if value.strip() not in ("", "0"):
            features.add(feature.strip())
    return {name: frozenset(found) for name, found in parts.items()}


def library_backends() -> list[str]:
    """Back ends that are libraries of their own; not all of them are in llama.cpp's own words."""
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("llama_cpp")
        if spec is not None and spec.origin is not None:
            files = (Path(spec.origin).parent / "lib").glob("libggml-*.so")
            names = {file.stem.removeprefix("libggml-") for file in files}
            return sorted(name.upper() for name in names if name != "base" and "cpu" not in name)
    return []


# Flags of /proc/cpuinfo -> features in llama.cpp's words.
_FEATURES = {
    "avx": "AVX", "avx2": "AVX2", "f16c": "F16C", "fma": "FMA", "bmi2": "BMI2",
    "avx512f": "AVX512", "avx512vbmi": "AVX512_VBMI", "avx512_vbmi": "AVX512_VBMI",
    "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16", "avx_vnni": "AVX_VNNI",
    "amx_int8": "AMX_INT8",
    "asimd": "NEON", "asimddp": "DOTPROD", "i8mm": "MATMUL_INT8", "asimdhp": "FP16_VA",
    "sve": "SVE", "sme": "SME",
}  # fmt: skip


KNOWN_FEATURES = frozenset(_FEATURES.values())


def cpu_features(root: Path = Path("/")) -> frozenset[str]:
    """Features of this CPU that llama.cpp has code for; empty where Linux does not tell."""
    with suppress(OSError):
        text = (root / "proc/cpuinfo").read_text("utf-8", "replace")
        found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
        if found:
            return frozenset(_FEATURES[flag] for flag in found[1].split() if flag in _FEATURES)
    return frozenset()


def graphics_cards(root: Path = Path("/")) -> tuple[str, ...]:
    """Makers of the graphics cards whose drivers are loaded."""
    drivers = {"NVIDIA": "proc/driver/nvidia/version", "AMD": "dev/kfd"}
    return tuple(maker for maker, path in drivers.items() if (root / path).exists())


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs that a container may use, as version 2 control groups state it; None: all."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        limit, period = (root / "sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return int(limit) / int(period)
    return None


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Installed version of each package."""
    found: dict[str, str | None] = {}
    for package in packages:
        found[package] = None
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def programs(names: Iterable[str]) -> dict[str, str | None]:
    """Path of each program."""
    return {name: shutil.which(name) for name in names}


@dataclass(frozen=True)
class Disk:
    """Where `folder` will be made or is."""

    free_bytes: int
    writable: bool


def disk(folder: Path) -> Disk:
    """Of the folder, or of the nearest one above it that is there."""
    there = folder.expanduser().absolute()
    while not there.exists():
        there = there.parent
    return Disk(shutil.disk_usage(there).free, there.is_dir() and os.access(there, os.W_OK))


def served_model(url: str) -> str | None:
    """The model that a Callwright at this address serves; None if something else is there."""
    with suppress(httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError):
        health = httpx.get(f"{url}/health", timeout=1, trust_env=False).json()
        return str(health["model"]) if health["status"] == "ok" else None
    return None


def try_hub(locate: Callable[[], object], deadline_s: float = HUB_DEADLINE_S) -> Failure | None:
    """Ask the hub for a file by `locate`, which may hang longer than the deadline."""
    answer: list[Failure | None] = []

    def ask() -> None:
        try:
            locate()
            answer.append(None)
        except SourceError as exc:
            answer.append(Failure(str(exc)[:200]))
        except Exception as exc:  # whatever the library does, it is a finding
            answer.append(Failure(f"{type(exc).__name__}: {exc}"[:200]))

    thread = threading.Thread(target=ask, name="hub", daemon=True)
    thread.start()
    thread.join(deadline_s)
    return answer[0] if answer else Failure(f"no answer within {deadline_s:.0f} s")


def try_index(package: str, version: str | None) -> Failure | None:
    """Ask the package index for a package, with the client's own configuration."""
    if importlib.util.find_spec("pip") is None:
        return Failure("this Python has no pip")
    options = ["--retries=1", "--timeout=3", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-P", "-m", "pip", "index", "versions", package, *options]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=INDEX_DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return Failure(f"no answer within {INDEX_DEADLINE_S:.0f} s")
    return read_index(
        ended.returncode, ended.stdout.decode("utf-8", "replace"),
        ended.stderr.decode("utf-8", "replace"), version,
    )  # fmt: skip


def read_index(status: int, out: str, err: str, version: str | None) -> Failure | None:
    """What the client said; `version` has to be among those that it can get."""
    if status:
        errors = [line.removeprefix("ERROR: ") for line in err.splitlines() if "ERROR: " in line]
        said = errors[-1] if errors else f"the client ended with status {status}"
        return Failure("not reachable" if "Retrying (" in err else said[:200])
    listed = re.search(r"^Available versions: (.*)$", out, re.MULTILINE)
    if version is not None and listed and version not in listed[1].split(", "):
        return Failure(f"it has no version {version}")
    return None
