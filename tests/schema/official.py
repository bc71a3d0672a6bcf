"""The official JSON-Schema-Test-Suite, as it travels in the source distribution of `jsonschema`."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = "4.26.0"
INSIDE = "json/tests/"
LIMIT_S = 180.0


@dataclass(frozen=True)
class Case:
    """A schema of the suite with its instances: description, value, whether it is valid."""

    name: str
    schema: Any
    instances: tuple[tuple[str, Any, bool], ...]


class NotAtHand(Exception):
    """The suite could not be fetched; the message says why."""


def fetch_suite(folder: Path) -> Path:
    """The folder with a folder per draft, fetched into `folder` on first use. Raises NotAtHand."""
    target = folder / f"suite-{VERSION}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            archive = _download(Path(scratch))
            tests = Path(scratch) / "tests"
            _unpack(archive, tests)
            tests.rename(target)
    return target


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary=jsonschema"]
    command += ["--quiet", "--disable-pip-version-check", f"--dest={scratch}"]
    command += [f"jsonschema=={VERSION}"]
    try:
        done = subprocess.run(command, timeout=LIMIT_S, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise NotAtHand(f"pip took longer than {LIMIT_S:g} s") from None
    archives = sorted(scratch.glob("*.tar.gz"))
    if done.returncode or not archives:
        raise NotAtHand(f"pip could not download it: {done.stderr.strip()[-200:]}")
    return archives[0]


def _unpack(archive: Path, target: Path) -> None:
    """Only the JSON files, by our own paths."""
    with tarfile.open(archive) as tar:
        for member in tar:
            _, _, path = member.name.partition(INSIDE)
            file = tar.extractfile(member) if path.endswith(".json") else None
            if file is None or ".." in path:
                continue
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(file.read())


def cases(suite: Path, draft: str) -> Iterator[Case]:
    """The cases of a draft, without the optional ones."""
    for path in sorted((suite / draft).glob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            tests = tuple(
                (test["description"], test["data"], test["valid"]) for test in group["tests"]
            )
            yield Case(f"{path.stem}: {group['description']}", group["schema"], tests)
