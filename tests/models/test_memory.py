from __future__ import annotations

from pathlib import Path

from models.memory import available_memory


def test_what_linux_calls_available(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 5 kB\nMemAvailable:   1000 kB\n")
    assert available_memory(tmp_path) == 1_024_000


def test_a_container_may_have_less(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 1000 kB\n")
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("300\n")
    for limit, available in (("max\n", 1_024_000), ("1000\n", 700), ("100\n", 0)):
        (group / "memory.max").write_text(limit)
        assert available_memory(tmp_path) == available


def test_this_machine_has_some() -> None:
    assert (available_memory() or 1) > 0
