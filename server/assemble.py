"""Puts the parts together: a model file and settings become an application's parts."""

from __future__ import annotations

from collections.abc import Callable

from models.catalog import LocalModel
from models.copies import copies_folder
from models.widen import widened
from prompts.facts import ModelFacts
from server.bodies import Bodies
from server.chat import ChatService
from server.completion import CompletionService
from server.config import Settings
from server.constraint import ConstraintCompiler
from server.engine.cache_file import CacheFile
from server.engine.engine import Engine, EngineOptions
from server.engine.runner import LlamaRunner, RunnerOptions, supports_gpu
from server.engine.vocabulary import Vocabulary
from server.fit import FitJudge
from server.metrics import Metrics
from server.parts import Parts
from server.renderers import Renderers
from server.responses.service import ResponsesService
from server.responses.store import open_store


def assemble(
    settings: Settings, model: LocalModel, *, goes_on: Callable[[], bool] = lambda: True
) -> Parts:
    """Load the model, which takes seconds, and build the rest.

    Raises SetupError, and LoadCancelled soon after `goes_on` says no.
    """
    store = open_store(settings)  # first: what is wrong with it need not wait for the model
    options = EngineOptions(
        max_sequences=settings.max_sequences,
        cached_sequences=settings.cached_sequences,
        cached_tokens=settings.cached_tokens,
        host_cache_tokens=settings.host_cache_tokens,
        batch_tokens=settings.batch_tokens,
        queue_length=settings.queue_length,
        draft_tokens=settings.draft_tokens,
        in_order=settings.reproducible,
    )
    path = model.path
    if settings.fast_copy and not supports_gpu():
        path = widened(path, copies_folder(settings.models_dir))
    runner = LlamaRunner(
        path,
        RunnerOptions(
            context_length=settings.context_length,
            threads=settings.threads,
            gpu_layers=settings.gpu_layers,
            batch_tokens=settings.batch_tokens,
            sequences=options.slots,
            flash_attention=settings.flash_attention,
            kv_cache_type=settings.kv_cache_type,
            mlock=settings.mlock,
            reproducible=settings.reproducible,
        ),
        goes_on,
    )
    vocabulary = runner.vocabulary
    metrics = Metrics(lambda: engine.load)
    kept = CacheFile(settings.cache_file, runner.identity()) if settings.cache_file else None
    engine = Engine(runner, options, metrics.observe, kept)
    compiler = ConstraintCompiler(vocabulary, can_retry=runner.can_cut)
    facts = model_facts(model.name, runner.chat_template(), vocabulary)
    chat = ChatService(
        settings,
        engine=engine,
        compiler=compiler,
        vocabulary=vocabulary,
        renderers=Renderers(facts, _template(settings, model)),
        context_length=runner.context_length,
        call_biases=model.entry.tool_call_bias if model.entry else {},
        more_calls_biases=model.entry.more_calls_bias if model.entry else {},
        fit=FitJudge(
            settings,
            engine,
            vocabulary,
            questions=model.entry.fit_question if model.entry else (),
            affinity_weights=model.entry.affinity_weight if model.entry else {},
            context_length=runner.context_length,
        ),
    )
    completion = CompletionService(
        settings,
        engine=engine,
        compiler=compiler,
        vocabulary=vocabulary,
        context_length=runner.context_length,
    )
    names = dict.fromkeys((model.name, *model.aliases, *settings.alias))
    return Parts(
        settings=settings,
        engine=engine,
        compiler=compiler,
        chat=chat,
        completion=completion,
        responses=ResponsesService(settings, chat=chat, store=store),
        metrics=metrics,
        vocabulary=vocabulary,
        context_length=runner.context_length,
        model_names=tuple(names),
        bodies=Bodies(settings.max_body_bytes),
    )


def _template(settings: Settings, model: LocalModel) -> str:
    """The template to use: what the settings say, else what the catalog has found to be best."""
    if settings.prompt_template == "auto" and model.entry and model.entry.prompt_template:
        return model.entry.prompt_template
    return settings.prompt_template


def model_facts(name: str, chat_template: str | None, vocabulary: Vocabulary) -> ModelFacts:
    """What prompts need to know of a loaded model."""
    return ModelFacts(
        name=name,
        chat_template=chat_template,
        bos="" if vocabulary.bos is None else vocabulary.text(vocabulary.bos),
        eos=vocabulary.text(vocabulary.eos),
        special_tokens=tuple(vocabulary.special_ids),
        adds_bos=vocabulary.adds_bos,
    )
