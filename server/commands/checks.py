"""The judgements of `callwright doctor`: facts in, a finding out. Nothing here does I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from models.progress import human_bytes
from server.commands.machine import KNOWN_FEATURES, Build, Disk, Failure

State = Literal["ok", "note", "problem"]

OLDEST_PYTHON = (3, 11)
REBUILD = (
    "{args}{python} -m pip install --force-reinstall --no-deps --no-cache-dir"
    " --no-binary=llama-cpp-python llama-cpp-python"
)
_GPU_ARGS = {"NVIDIA": "-DGGML_CUDA=on", "AMD": "-DGGML_HIP=on"}


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do about it. A problem keeps the server from serving."""

    state: State
    found: str
    advice: str = ""


def ok(found: str) -> Finding:
    return Finding("ok", found)


def note(found: str, advice: str = "") -> Finding:
    return Finding("note", found, advice)


def problem(found: str, advice: str) -> Finding:
    return Finding("problem", found, advice)


def python(version: tuple[int, ...], executable: str) -> Finding:
    found = f"{'.'.join(map(str, version))}, {executable}"
    if version < OLDEST_PYTHON:
        return problem(found, f"Install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer.")
    return ok(found)


def packages(versions: Mapping[str, str | None], executable: str) -> Finding:
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return problem(
            f"not installed: {', '.join(missing)}",
            f"`{executable} -m pip install {' '.join(missing)}`, or `make install`.",
        )
    return ok(", ".join(f"{name} {version}" for name, version in versions.items()))


def engine(build: Build | Failure, executable: str) -> Finding:
    if isinstance(build, Build):
        return ok("llama.cpp and the constraint's back end can be loaded")
    rebuild = rebuild_command(executable)
    if build.signal == "SIGILL":
        return problem(f"{build.reason}: it was built for another CPU", f"Build it here: {rebuild}")
    return problem(build.reason, f"Install it again: {rebuild}")


def rebuild_command(executable: str, cmake_args: str = "") -> str:
    return REBUILD.format(args=f"CMAKE_ARGS={cmake_args} " if cmake_args else "", python=executable)


def cpu(build: Build, features: frozenset[str], executable: str) -> Finding:
    """`features` are those of this CPU; empty if they are not known."""
    used = ", ".join(sorted(build.cpu_features)) or "no special features"
    if not features:
        return ok(f"llama.cpp uses {used}")
    lacking = sorted((build.cpu_features & KNOWN_FEATURES) - features)
    if lacking:
        return problem(
            f"llama.cpp was built for {', '.join(lacking)}, which this CPU does not have",
            f"Build it here: {rebuild_command(executable)}",
        )
    unused = sorted(features - build.cpu_features)
    if unused:
        return note(
            f"this CPU has {', '.join(unused)}, which llama.cpp was built without; it uses {used}",
            f"It will be faster when built here: {rebuild_command(executable)}",
        )
    return ok(f"llama.cpp uses {used}")


def gpu(build: Build, cards: tuple[str, ...], gpu_layers: int, executable: str) -> Finding:
    """`cards` are the makers of the cards here; `gpu_layers` is the setting."""
    backends = ", ".join(build.backends) or "none"
    if build.uses_gpu and gpu_layers == 0:
        return note(f"back ends: {backends}, not used with --gpu-layers 0", "Leave it out.")
    if build.uses_gpu:
        return ok(f"back ends: {backends}; models are offloaded")
    if cards:
        build_it = rebuild_command(executable, _GPU_ARGS[cards[0]])
        return note(
            f"there is a card of {' and of '.join(cards)}, but llama.cpp was built without a back"
            " end for it",
            f"Build it with one: {build_it}",
        )
    if gpu_layers > 0:
        return note(f"--gpu-layers {gpu_layers} has no effect: no GPU back end was built in")
    return ok(f"back ends: {backends}; the CPU does the work")


def compiler(programs: Mapping[str, str | None], built: bool) -> Finding:
    """`programs` are paths of cc, c++ and cmake; `built` says that llama.cpp is there already."""
    missing = [name for name, path in programs.items() if path is None]
    if not missing:
        return ok(", ".join(str(path) for path in programs.values()))
    found, advice = f"missing: {', '.join(missing)}", "Debian: apt install build-essential cmake"
    if built:
        return note(f"{found}; needed only to build llama.cpp again", advice)
    return problem(f"{found}; needed to build llama.cpp", advice)


def threads(setting: int, physical_cores: int, quota: float | None) -> Finding:
    """`quota` are the CPUs that the container may use."""
    count = setting or physical_cores
    found = f"{count} threads on {physical_cores} physical cores"
    if quota is not None and quota < count:
        fitting = max(1, math.floor(quota))
        return note(
            f"{found}, but the container may use {quota:g} CPUs only",
            f"Threads that wait for each other are slow: --threads {fitting}",
        )
    if count > physical_cores:
        return note(found, "More threads than cores are slower: leave --threads out.")
    return ok(found)


def memory(needed: int, free: int | None, *, at_least: bool) -> Finding:
    """Bytes. `at_least`: the model's file is not here yet to say it exactly."""
    about = "at least" if at_least else "about"
    if free is None:
        return note(f"the model needs {about} {human_bytes(needed)}; what is free is not known")
    found = f"the model needs {about} {human_bytes(needed)}, {human_bytes(free)} are available"
    if needed > free:
        return problem(found, "Give a smaller --context-length or --model, or end other programs.")
    return ok(found)


def disk(space: Disk, missing_bytes: int, spare_bytes: int, folder: str) -> Finding:
    """`missing_bytes` of the model are still to be fetched into the folder."""
    found = f"{human_bytes(space.free_bytes)} are free in {folder}"
    if not missing_bytes:
        return ok(found)
    if not space.writable:
        return problem(
            f"the model cannot be fetched into {folder}: not writable",
            "Choose another folder with --models-dir.",
        )
    if space.free_bytes < missing_bytes + spare_bytes:
        return problem(
            f"{found}, the model needs {human_bytes(missing_bytes)}, with"
            f" {human_bytes(spare_bytes)} to spare",
            "Free some, or choose another folder with --models-dir.",
        )
    return ok(f"{found}, the model needs {human_bytes(missing_bytes)}")


def address(url: str, refusal: str, advice: str, served: str | None) -> Finding:
    """`refusal` says why it cannot be listened on; `served` is a Callwright's model there."""
    if not refusal:
        return ok(f"{url} is free")
    if served is not None:
        return problem(
            f"{url} is in use: a Callwright serves {served} there",
            "End it, or give another --port for a second one.",
        )
    return problem(refusal, advice)


def source(failure: Failure | None, *, needed: bool, others: bool) -> Finding:
    """`needed`: the model is still to be fetched; `others`: from somewhere else it can be."""
    if failure is None:
        return ok("reachable")
    if not needed:
        return note(f"{failure.reason}; not needed now")
    if others:
        return note(f"{failure.reason}; the model can be fetched from another source")
    return problem(
        f"{failure.reason}; the model is still to be fetched",
        "Check the network, or give the path of a GGUF file with --model.",
    )


def settings(changed: Mapping[str, str]) -> Finding:
    if not changed:
        return ok("all as they come")
    return ok(", ".join(f"{name}={value}" for name, value in changed.items()))
