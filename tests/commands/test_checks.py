from __future__ import annotations

import pytest

from server.commands import checks
from server.commands.checks import Finding
from server.commands.machine import Build, Disk, Failure

MB = 1_000_000
AVX2 = frozenset({"AVX", "AVX2", "FMA"})


def build(cpu: frozenset[str] = AVX2, *backends: str) -> Build:
    return Build(cpu | {"OPENMP"}, backends, uses_gpu=bool(backends), physical_cores=4)


def assert_advised(finding: Finding, state: str, *words: str) -> None:
    assert finding.state == state
    for word in words:
        assert word in f"{finding.found} {finding.advice}"


def test_python() -> None:
    assert checks.python((3, 12, 1), "/bin/py") == Finding("ok", "3.12.1, /bin/py")
    assert_advised(checks.python((3, 10, 9), "/bin/py"), "problem", "Install Python 3.11")


def test_packages() -> None:
    found = checks.packages({"outlines": "1.3", "h11": "0.16"}, "py")
    assert found == Finding("ok", "outlines 1.3, h11 0.16")
    missing = checks.packages({"outlines": None, "h11": "0.16"}, "py")
    assert_advised(missing, "problem", "not installed: outlines", "py -m pip install outlines")


def test_engine() -> None:
    assert checks.engine(build(), "py").state == "ok"
    illegal = checks.engine(Failure("ended with SIGILL", signal="SIGILL"), "py")
    assert_advised(illegal, "problem", "built for another CPU", "py -m pip install")
    broken = checks.engine(Failure("libgomp.so.1: cannot open shared object file"), "py")
    assert_advised(broken, "problem", "libgomp.so.1", "py -m pip install")


def test_cpu() -> None:
    assert checks.cpu(build(), AVX2, "py").state == "ok"
    assert checks.cpu(build(), frozenset(), "py").state == "ok"
    unused = checks.cpu(build(), AVX2 | {"AVX512", "BMI2"}, "py")
    assert_advised(unused, "note", "this CPU has AVX512, BMI2", "py -m pip install")
    lacking = checks.cpu(build(AVX2 | {"AVX512"}), AVX2, "py")
    assert_advised(lacking, "problem", "built for AVX512, which this CPU", "py -m pip install")


def test_gpu() -> None:
    cuda = build(AVX2, "CUDA")
    assert checks.gpu(build(), (), -1, "py") == Finding(
        "ok", "back ends: none; the CPU does the work"
    )
    assert checks.gpu(cuda, ("NVIDIA",), -1, "py").state == "ok"
    assert_advised(checks.gpu(cuda, (), 0, "py"), "note", "CUDA", "--gpu-layers 0")
    unused = checks.gpu(build(), ("NVIDIA",), -1, "py")
    assert_advised(unused, "note", "NVIDIA", "CMAKE_ARGS=-DGGML_CUDA=on py -m pip")
    assert "-DGGML_HIP=on" in checks.gpu(build(), ("AMD",), -1, "py").advice
    assert_advised(checks.gpu(build(), (), 20, "py"), "note", "--gpu-layers 20 has no effect")


def test_compiler() -> None:
    tools = {"cc": "/usr/bin/cc", "cmake": None}
    assert checks.compiler({"cc": "/usr/bin/cc"}, built=False).state == "ok"
    assert_advised(checks.compiler(tools, built=True), "note", "missing: cmake", "apt install")
    assert_advised(checks.compiler(tools, built=False), "problem", "missing: cmake", "apt install")


@pytest.mark.parametrize(
    ("setting", "quota", "state", "words"),
    [
        (0, None, "ok", "4 threads on 4 physical cores"),
        (3, None, "ok", "3 threads"),
        (0, 4.0, "ok", "4 threads"),
        (8, None, "note", "leave --threads out"),
        (0, 2.5, "note", "--threads 2"),
        (0, 0.5, "note", "--threads 1"),
    ],
)
def test_threads(setting: int, quota: float | None, state: str, words: str) -> None:
    assert_advised(checks.threads(setting, 4, quota), state, words)


def test_memory() -> None:
    fits = checks.memory(500 * MB, 500 * MB, at_least=False)
    assert fits == Finding("ok", "the model needs about 500 MB, 500 MB are available")
    too_big = checks.memory(501 * MB, 500 * MB, at_least=True)
    assert_advised(too_big, "problem", "at least 501 MB", "--context-length")
    assert checks.memory(500 * MB, None, at_least=False).state == "note"


def test_disk() -> None:
    space = Disk(500 * MB, writable=True)
    assert checks.disk(Disk(0, writable=False), 0, 60 * MB, "/m").state == "ok"
    assert checks.disk(space, 440 * MB, 60 * MB, "/m").state == "ok"
    full = checks.disk(space, 441 * MB, 60 * MB, "/m")
    assert_advised(full, "problem", "500 MB are free in /m", "441 MB", "--models-dir")
    locked = checks.disk(Disk(500 * MB, writable=False), 1, 60 * MB, "/m")
    assert_advised(locked, "problem", "not writable", "--models-dir")


def test_address() -> None:
    url = "http://127.0.0.1:8080"
    assert checks.address(url, "", "", None) == Finding("ok", f"{url} is free")
    used = checks.address(url, "port 8080 is in use", "Give another --port.", None)
    assert used == Finding("problem", "port 8080 is in use", "Give another --port.")
    assert_advised(checks.address(url, "in use", "", "qwen"), "problem", "serves qwen", "--port")


def test_source() -> None:
    down = Failure("no answer")
    assert checks.source(None, needed=True, others=False).state == "ok"
    assert checks.source(down, needed=False, others=False).state == "note"
    assert checks.source(down, needed=True, others=True).state == "note"
    assert_advised(
        checks.source(down, needed=True, others=False), "problem", "no answer", "--model"
    )


def test_settings() -> None:
    assert checks.settings({}).found == "all as they come"
    assert checks.settings({"port": "9000", "threads": "2"}).found == "port=9000, threads=2"
