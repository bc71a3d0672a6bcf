from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from models.errors import SourceError
from server.commands import machine
from server.commands.machine import Build, Failure
from tests.commands.helpers import Answer, chat_server

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
flags\t\t: fpu sse2 ssse3 fma f16c avx avx2 bmi2 avx512f avx512_vnni avx512vbmi
processor\t: 1
flags\t\t: fpu amx_int8
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n"


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_system_info_with_several_back_ends() -> None:
    text = "CUDA : ARCHS = 890 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 0 | "
    assert machine.parse_system_info(text) == {
        "CUDA": {"ARCHS", "USE_GRAPHS"},
        "CPU": {"SSE3", "AVX2"},
    }
    assert machine.parse_system_info("") == {}


def test_what_the_process_says_is_read_from_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "library_backends", lambda: ["VULKAN", "CUDA"])
    out = "noise\n" + json.dumps(["CUDA : ARCHS = 890 | CPU : AVX2 = 1 | ", True, 6]) + "\n"
    found = machine.read_probe(0, out, "")
    assert found == Build(frozenset({"AVX2"}), ("CUDA", "VULKAN"), uses_gpu=True, physical_cores=6)


@pytest.mark.parametrize(
    ("status", "err", "failure"),
    [
        (-4, "", Failure("loading it ended with SIGILL", signal="SIGILL")),
        (1, "Traceback…\nImportError: libgomp.so.1\n", Failure("ImportError: libgomp.so.1")),
        (3, "", Failure("loading it ended with status 3")),
    ],
)
def test_how_loading_may_end(status: int, err: str, failure: Failure) -> None:
    assert machine.read_probe(status, "", err) == failure


def test_the_build_of_this_environment_can_be_probed() -> None:
    found = machine.probe_build()
    assert isinstance(found, Build)
    assert found.physical_cores >= 1
    assert found.cpu_features


def test_a_build_that_cannot_be_loaded_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    assert machine.probe_build() == Failure("loading it ended with SIGILL", signal="SIGILL")
    monkeypatch.setattr(machine, "_PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(machine, "BUILD_DEADLINE_S", 0.2)
    assert machine.probe_build() == Failure("not loaded within 0 s")


def test_cpu_features(tmp_path: Path) -> None:
    assert machine.cpu_features(tmp_path) == frozenset()
    write(tmp_path, "proc/cpuinfo", X86)
    assert machine.cpu_features(tmp_path) == {
        "FMA", "F16C", "AVX", "AVX2", "BMI2", "AVX512", "AVX512_VNNI", "AVX512_VBMI",
    }  # fmt: skip
    write(tmp_path, "proc/cpuinfo", ARM)
    assert machine.cpu_features(tmp_path) == {"NEON", "DOTPROD", "MATMUL_INT8"}


def test_graphics_cards(tmp_path: Path) -> None:
    assert machine.graphics_cards(tmp_path) == ()
    write(tmp_path, "dev/kfd", "")
    write(tmp_path, "proc/driver/nvidia/version", "")
    assert machine.graphics_cards(tmp_path) == ("NVIDIA", "AMD")


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None)]
)
def test_cpu_quota(tmp_path: Path, text: str, quota: float | None) -> None:
    assert machine.cpu_quota(tmp_path) is None
    write(tmp_path, "sys/fs/cgroup/cpu.max", text)
    assert machine.cpu_quota(tmp_path) == quota


def test_versions_and_programs() -> None:
    found = machine.versions(["pytest", "callwright-no-such-package"])
    assert found["pytest"] == pytest.__version__
    assert found["callwright-no-such-package"] is None
    programs = machine.programs(["sh", "callwright-no-such-program"])
    assert programs["sh"] is not None
    assert programs["callwright-no-such-program"] is None


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    found = machine.disk(tmp_path / "a" / "b")
    assert found.writable
    assert found.free_bytes > 0
    (tmp_path / "file").write_text("")
    assert not machine.disk(tmp_path / "file" / "b").writable


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"status": "ok", "model": "qwen"}', "qwen"),
        (b'{"status": "UP"}', None),
        (b"<html>", None),
        (b"[]", None),
    ],
)
def test_who_is_at_an_address(body: bytes, model: str | None) -> None:
    with chat_server(Answer(body)) as server:
        assert machine.served_model(server.url) == model
    assert machine.served_model(server.url) is None


def test_the_hub() -> None:
    def unreachable() -> None:
        raise SourceError("not reachable")

    def broken() -> None:
        raise RuntimeError("a bug")

    leave = threading.Event()
    assert machine.try_hub(lambda: None) is None
    assert machine.try_hub(unreachable) == Failure("not reachable")
    assert machine.try_hub(broken) == Failure("RuntimeError: a bug")
    assert machine.try_hub(leave.wait, deadline_s=0.05) == Failure("no answer within 0 s")
    leave.set()


LISTED = "part1 (2.0)\nAvailable versions: 2.0, 1.0\n"
RETRIES = "WARNING: Retrying (Retry(total=0)) after connection broken\n"
NOTHING = "ERROR: No matching distribution found for part1\n"


@pytest.mark.parametrize(
    ("status", "out", "err", "failure"),
    [
        (0, LISTED, "WARNING: experimental\n", None),
        (0, "other output\n", "", None),
        (0, LISTED.replace(", 1.0", ""), "", Failure("it has no version 1.0")),
        (1, "", RETRIES + NOTHING, Failure("not reachable")),
        (1, "", NOTHING, Failure("No matching distribution found for part1")),
        (2, "", "", Failure("the client ended with status 2")),
    ],
)
def test_what_the_package_client_says(
    status: int, out: str, err: str, failure: Failure | None
) -> None:
    assert machine.read_index(status, out, err, "1.0") == failure


def test_an_index_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "INDEX_DEADLINE_S", 0.01)
    assert machine.try_index("part1", None) == Failure("no answer within 0 s")
