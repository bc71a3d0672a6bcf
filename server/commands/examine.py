"""All checks of `callwright doctor` in their order. A check that fails itself is a finding."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from models.catalog import (
    Catalog,
    CatalogEntry,
    HubSource,
    LocalModel,
    PackagesSource,
    load_catalog,
    resolve,
)
from models.fetch import known_hash, size_line
from models.gguf import OVERHEAD_BYTES, read_facts
from models.memory import available_memory
from models.partial import SPARE_BYTES, PartialFile
from models.progress import human_bytes
from models.sources import locate_on_hub
from server.commands import checks, machine, serve
from server.commands.checks import Finding, note, ok, problem
from server.commands.local import memory_needed
from server.commands.machine import Build, Failure
from server.config import Settings
from server.errors import SetupError

PACKAGES = (
    "llama-cpp-python", "outlines", "llguidance", "pydantic", "pydantic-settings", "fastapi",
    "fastapi-offline", "uvicorn", "h11", "jinja2", "jsonschema", "regex", "numpy", "rich",
    "prometheus-client", "httpx", "huggingface-hub", "pyyaml",
)  # fmt: skip
PROGRAMS = ("cc", "c++", "cmake")


@dataclass(frozen=True)
class Row:
    """`what` was looked at, and what was found."""

    what: str
    finding: Finding


@dataclass(frozen=True)
class Probes:
    """What is slow because it starts processes or asks the network; tests pass their own."""

    build: Callable[[], Build | Failure] = machine.probe_build
    hub: Callable[[HubSource], Failure | None] = lambda file: machine.try_hub(
        lambda: locate_on_hub(file)
    )
    index: Callable[[str, str | None], Failure | None] = machine.try_index


def examine(settings: Settings, probes: Probes | None = None) -> list[Row]:
    """Look at everything. Never raises for what it finds."""
    probes = probes or Probes()
    catalog = load_catalog()
    try:
        model = resolve(settings.model, settings.models_dir, catalog)
    except SetupError as exc:
        model, unknown = None, problem(exc.message, exc.hint)
    with ThreadPoolExecutor() as pool:
        build = pool.submit(probes.build)
        network = _Network(pool, probes, model, catalog, settings)
        return [
            *_installed(build, settings),
            *(_of_model(model, settings) if model else [Row("model", unknown)]),
            _row("address", lambda: _address(settings)),
            *network.rows(),
            _row("settings", lambda: checks.settings(changed_settings(settings))),
        ]


def _row(what: str, check: Callable[[], Finding]) -> Row:
    try:
        return Row(what, check())
    except SetupError as exc:
        return Row(what, problem(exc.message, exc.hint))
    except Exception as exc:  # one fault must not hide what the other checks have to say
        return Row(what, note(f"could not be looked at: {type(exc).__name__}: {exc}"))


def _installed(probed: Future[Build | Failure], settings: Settings) -> list[Row]:
    python = shlex.quote(sys.executable)
    rows = [
        _row("Python", lambda: checks.python(sys.version_info[:3], sys.executable)),
        _row("packages", lambda: checks.packages(machine.versions(PACKAGES), python)),
        _row("llama.cpp", lambda: checks.engine(probed.result(), python)),
    ]
    build = probed.result() if probed.exception() is None else None
    if isinstance(build, Build):
        rows += _built(build, settings, python)
    built = isinstance(build, Build)
    return [
        *rows,
        _row("compiler", lambda: checks.compiler(machine.programs(PROGRAMS), built)),
    ]


def _built(build: Build, settings: Settings, python: str) -> list[Row]:
    cards = machine.graphics_cards()
    return [
        _row("CPU", lambda: checks.cpu(build, machine.cpu_features(), python)),
        _row("GPU", lambda: checks.gpu(build, cards, settings.gpu_layers, python)),
        _row(
            "threads",
            lambda: checks.threads(settings.threads, build.physical_cores, machine.cpu_quota()),
        ),
    ]


def _of_model(model: LocalModel, settings: Settings) -> list[Row]:
    missing = missing_bytes(model, settings)
    folder = settings.models_dir

    def memory() -> Finding:
        entry = model.entry
        if entry is not None and missing:
            needed = entry.expected_size + OVERHEAD_BYTES
        else:
            needed = memory_needed(model.path, settings)
        return checks.memory(needed, available_memory(), at_least=missing > 0)

    rows = [_row("model", lambda: model_file(model, settings))]
    if rows[0].finding.state != "problem":
        rows.append(_row("memory", memory))
    space = _row(
        "disk", lambda: checks.disk(machine.disk(folder), missing, SPARE_BYTES, str(folder))
    )
    return [*rows, space]


def missing_bytes(model: LocalModel, settings: Settings) -> int:
    """What is still to be fetched of the model; 0 if its file is here."""
    if model.entry is None or model.entry.is_present(settings.models_dir):
        return 0
    begun = PartialFile(model.path).size
    return max(1, model.entry.expected_size - begun)


def model_file(model: LocalModel, settings: Settings) -> Finding:
    """Whether the model's file is here and whole. Raises SetupError if it is damaged."""
    entry = model.entry
    if entry is not None and not entry.is_present(settings.models_dir):
        return _absent(entry, settings)
    facts = read_facts(model.path)
    kind = " ".join(filter(None, (facts.architecture, facts.quantisation)))
    found = f"{model.name}, {kind}, {human_bytes(facts.file_bytes)}, {model.path}"
    if entry is None:
        return ok(f"{found}; a file of your own")
    if known_hash(entry, settings.models_dir) is None:
        return note(f"{found}; its SHA-256 is not known", "Fetch it again to have it checked.")
    return ok(f"{found}; SHA-256 known, `callwright models verify` compares it")


def _absent(entry: CatalogEntry, settings: Settings) -> Finding:
    found = f"{entry.name} ({size_line(entry)}) is not in {settings.models_dir}"
    pull = f"`callwright models pull {entry.name}` fetches it"
    if settings.offline:
        return problem(f"{found}, and offline mode is on", f"With a network, {pull}.")
    return note(f"{found}; `callwright serve` fetches it first", f"{pull} now.")


def _address(settings: Settings) -> Finding:
    serve.check_exposure(settings)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    url = serve.url_of(host, settings.port)
    if settings.port == 0:
        return ok(f"any free port of {settings.host}")
    try:
        serve.listen(settings.host, settings.port).close()
    except SetupError as exc:
        return checks.address(url, exc.message, exc.hint, machine.served_model(url))
    return checks.address(url, "", "", None)


class _Network:
    """Asks the sources at once, those of the model or, if it has none, of the default model."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        probes: Probes,
        model: LocalModel | None,
        catalog: Catalog,
        settings: Settings,
    ) -> None:
        self._asked = not settings.offline
        self._needed = model is not None and missing_bytes(model, settings) > 0
        entry = model.entry if model is not None else None
        entry = entry or next(one for one in catalog.models if one.default)
        self._from_hub = [one for one in entry.sources if isinstance(one, HubSource)]
        self._from_index = [one for one in entry.sources if isinstance(one, PackagesSource)]
        if self._asked:
            self._hub = pool.submit(lambda: [probes.hub(one) for one in self._from_hub[:1]])
            package, version = "llama-cpp-python", None
            for source in self._from_index[:1]:
                package, version = source.pattern.format(n=1), source.version
            self._index = pool.submit(probes.index, package, version)

    def rows(self) -> list[Row]:
        if not self._asked:
            return [Row("sources", ok("not asked, offline mode is on"))]
        rows = [_row("package index", self._index_finding)]
        if self._from_hub:
            rows.insert(0, _row("model hub", self._hub_finding))
        return rows

    def _hub_finding(self) -> Finding:
        others = bool(self._from_index) and self._index.result() is None
        return checks.source(self._hub.result()[0], needed=self._needed, others=others)

    def _index_finding(self) -> Finding:
        others = bool(self._from_hub) and self._hub.result() == [None]
        needed = self._needed and bool(self._from_index)
        return checks.source(self._index.result(), needed=needed, others=others)


def changed_settings(settings: Settings) -> dict[str, str]:
    """Settings that are not as they come, as text; API keys are counted, not shown."""
    changed = {}
    for name, info in Settings.model_fields.items():
        value = getattr(settings, name)
        if value == info.get_default(call_default_factory=True, validated_data={}):
            continue
        if name == "api_key":
            changed[name] = f"({len(value)} set)"
        elif isinstance(value, tuple):
            changed[name] = ",".join(value)
        else:
            changed[name] = str(value)
    return changed
