"""Cases of the Berkeley Function Calling Leaderboard, version 4, out of its package.

The package is an archive to us: nothing of it is installed, imported or executed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from prompts.bench.bfcl_schema import as_tool
from prompts.bench.cases import Case, ExpectedCall, JsonObject, Language, Need
from server.errors import SetupError

REQUIREMENT = "bfcl-eval==2026.3.23"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
CATEGORIES = (
    "simple_python", "simple_java", "simple_javascript", "multiple", "parallel",
    "parallel_multiple", "irrelevance", "live_simple", "live_multiple", "live_parallel",
    "live_parallel_multiple", "live_irrelevance", "live_relevance",
)  # fmt: skip
MULTI_TURN = (
    "multi_turn categories cannot run here: they are judged by the state of simulated APIs, which"
    " are code of the package that would have to be executed, and which import packages of theirs"
)
_DATA = "bfcl_eval/data"

# Puts the wheel of a requirement into a folder: `models.packages.pip_download` without progress.
Download = Callable[[str, Path], Path]


def fetch(folder: Path, download: Download, sha256: str = SHA256) -> Path:
    """The archive inside `folder`, downloaded if it is not there.

    Raises SetupError for other bytes than expected, which are never opened.
    """
    archive = folder / f"{REQUIREMENT.replace('==', '-')}.whl"
    if archive.is_file() and _digest(archive) == sha256:
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as scratch:
        wheel = download(REQUIREMENT, Path(scratch))
        found = _digest(wheel)
        if found != sha256:
            raise SetupError(
                f"{REQUIREMENT} has other bytes than expected (SHA-256 {found})",
                hint="The package index serves a changed archive. It was deleted, not opened.",
            )
        wheel.replace(archive)
    return archive


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(archive: Path, categories: Sequence[str]) -> list[Case]:
    """All cases of some categories, in the archive's order. Raises SetupError."""
    for category in categories:
        if category.startswith("multi_turn"):
            raise SetupError(MULTI_TURN)
        if category not in CATEGORIES:
            raise SetupError(
                f"BFCL has no category {category!r} for us",
                hint=f"The categories are {', '.join(CATEGORIES)}.",
            )
    try:
        with zipfile.ZipFile(archive) as opened:
            return [case for category in categories for case in _cases(opened, category)]
    except (zipfile.BadZipFile, KeyError, ValueError) as exc:
        raise SetupError(f"{archive} is not the archive of BFCL that is known here: {exc}") from exc


def _cases(archive: zipfile.ZipFile, category: str) -> Iterator[Case]:
    need = need_of(category)
    truths: dict[str, list[JsonObject]] = {}
    if need == "calls":
        rows = _rows(archive, f"{_DATA}/possible_answer/BFCL_v4_{category}.json")
        truths = {row["id"]: row["ground_truth"] for row in rows}
    for row in _rows(archive, f"{_DATA}/BFCL_v4_{category}.json"):
        yield case_of(row, truths.get(row["id"], []), category)


def case_of(row: JsonObject, truth: Sequence[JsonObject], category: str) -> Case:
    """A case from a line of the questions and its line of the answers."""
    language = language_of(category)
    functions = {function["name"]: function for function in row["function"]}
    return Case(
        id=row["id"],
        category=category,
        messages=tuple(row["question"][0]),
        tools=tuple(as_tool(function, language) for function in functions.values()),
        types={name: function["parameters"] for name, function in functions.items()},
        need=need_of(category),
        expected=tuple(
            ExpectedCall(name, accepted) for call in truth for name, accepted in call.items()
        ),
        language=language,
        in_any_order="parallel" in category,
    )


def need_of(category: str) -> Need:
    if category.endswith("irrelevance"):
        return "none"
    return "some" if category.endswith("relevance") else "calls"


def language_of(category: str) -> Language:
    if category.endswith("javascript"):
        return "javascript"
    return "java" if category.endswith("java") else "python"


def _rows(archive: zipfile.ZipFile, member: str) -> Iterator[dict[str, Any]]:
    for line in archive.read(member).decode("utf-8").splitlines():
        if line.strip():
            yield json.loads(line)
