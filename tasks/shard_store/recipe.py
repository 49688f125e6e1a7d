"""Recipes: hashes of what can change a measure, the PCM or a transcript of one item.

A recipe includes the settings that affect the output (unmarked fields, see `tasks.settings.base`),
the plug-in's VERSION and weights, the item's content, and the recipes of the upstream steps that
shaped its audio. It never includes limits, batch sizes, library versions, paths, or the value to
which `auto` resolved. Code other than plug-ins has one version: `tasks.storage.versions`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from .. import plugins
from ..base.json_types import JsonObject
from ..recording import Segment
from ..settings import (
    SECRET,
    TRANSIENT,
    Plugin,
    ResampleSettings,
    StageSettings,
    TranscribeSettings,
    roles,
)
from ..settings.job import Job
from ..settings.transcribe import LlmText

AudioRecipe = Callable[[int, int], str]  # of the PCM of a span: (start, end)
#: Settings of a diarizer that change cuts, never turns.
CUTTING = ("min_turn_seconds", "mixed", "edge_seconds", "max_second_voice")


def digest(*parts: object) -> str:
    """24 hex digits over JSON-able parts; the order of mappings does not matter."""
    return hashlib.sha256(canonical(parts).encode("ascii")).hexdigest()[:24]


canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def digests(*shared: object) -> Callable[[str], str]:
    """`digest` of these parts and more, which are given as canonical JSON, for many items: what
    they share is hashed once."""
    begun = hashlib.sha256(canonical(shared)[:-1].encode("ascii"))

    def of(parts: str) -> str:
        state = begun.copy()
        state.update(f",{parts}]".encode("ascii"))
        return state.hexdigest()[:24]

    return of


@lru_cache(maxsize=256)  # called for each utterance
def of_plugin(shelf: str, plugin: Plugin) -> str:
    """Recipe of a plug-in: its name, VERSION, output-affecting settings and model identity."""
    module, settings = plugins.resolve(shelf, plugin)
    identity = module.identity(settings)
    return digest(plugin.use, module.VERSION, settings.recipe(), identity)


def of_filters(job: Job) -> dict[str, str]:
    return {plugin.use: of_plugin("filters", plugin) for plugin in job.filter.all_filters}


def of_turns(
    speakers: Plugin, content: str, given: Sequence[Segment] | None, fault: str | None = None
) -> str | None:
    """Recipe of a recording's turns; None without diarization. If the diarizer uses the source's
    turns, it includes them, and `fault`, why they are unusable."""
    if speakers.use == "none":
        return None
    stated: list[object] = []
    if plugins.DIARIZERS.load(speakers.use).USES_SPEAKERS:
        stated = [*((s.start, s.end, s.speaker) for s in given or ()), fault]
    return digest("turns", of_plugin("diarizers", speakers), content, stated)


def of_speakers(speakers: Plugin) -> str:
    """Recipe of a diarizer, and of how recordings are cut at its turns."""
    return digest(of_plugin("diarizers", speakers), cutting_at_turns(speakers))


def cutting_at_turns(speakers: Plugin) -> JsonObject:
    """The diarizer's settings that affect cuts but not its turns."""
    _, chosen = plugins.DIARIZERS.resolve(speakers)
    return {k: v for k, v in lasting(chosen).items() if k in CUTTING}


def across_recordings(job: Job) -> float | None:
    """Least mean cosine between the voices of one speaker across recordings; None if speakers are
    not linked."""
    values = plugins.DIARIZERS.resolve(job.speakers)[1].model_dump()
    return float(values["threshold"]) if values.get("across_recordings") else None


def cut_recipes(segmenter: Plugin, speakers: Plugin | None = None) -> Callable[..., str]:
    """A function that gives the recipe of a recording's cuts: looking up plug-ins takes longer than
    everything else.

    The recipe includes texts of given segments only if words have times, since sentence ends may
    then be cuts; speakers if the segmenter uses them; `turns`, the recipe of a diarizer's turns,
    and how to cut at them, if there is a diarizer; and the recording's own text and language if the
    segmenter looks for the text in the audio.
    """
    module, settings = plugins.SEGMENTERS.resolve(segmenter)
    by_speaker, differs = module.uses_speakers(settings), module.without_text(settings) != settings
    hears = module.hears(settings) is not None
    at_turns = {} if module.HOLDS_TURNS or speakers is None else cutting_at_turns(speakers)
    of_cut = digests("cut", of_plugin("segmenters", segmenter), at_turns)

    def of(
        content: str,
        given: tuple[Segment, ...] | None,
        turns: str | None = None,
        text: str | None = None,
        language: str | None = None,
    ) -> str:
        spans = given and [
            (s.start, s.end, s.speaker if by_speaker else None, s.rough) for s in given
        ]
        timed = [  # they affect cuts, and so does the punctuation of the text
            (s.text, [(word.word, word.start, word.end) for word in s.words])
            for s in given or ()
            if s.words
        ]
        sought = [text, language] if text and hears else bool(text) and differs
        return of_cut(canonical([content, spans, timed, turns, sought]))

    return of


@lru_cache(maxsize=16)  # called for each recording
def audio_recipes(settings: ResampleSettings) -> Callable[[str], AudioRecipe]:
    """Recipes of the PCM of utterances: of the content of a recording, then of its spans. What
    these share is looked up and hashed once."""
    levels = [of_plugin("levels", plugin) for plugin in settings.levels]
    resampler = of_plugin("resamplers", settings.resampler)
    how = resampler, settings.rate, settings.mono, levels, settings.channels_cancel
    of = digests("audio", *how)

    def of_recording(content: str) -> AudioRecipe:
        samples = canonical(content)
        return lambda start, end: of(f"{samples},{int(start)},{int(end)}")

    return of_recording


def of_transcript(backend: Plugin, weights: str, audio: str, language: str | None) -> str:
    """Recipe of the transcript of an utterance that shares no window."""
    return transcript_recipes(backend, weights)(audio, language, ())


def transcript_recipes(
    backend: Plugin, weights: str
) -> Callable[[str, str | None, Sequence[str]], str]:
    """Recipes of transcripts: backend, model weights, the PCM, a forced language, and the PCM of
    all utterances in its window, if it shares one."""
    of = digests("text", of_plugin("asr", backend), weights)
    return lambda audio, language, members: of(canonical([audio, language, members]))


def of_alignment(
    settings: TranscribeSettings, weights: str, audio: str, text: str, language: str
) -> str:
    """Recipe of the times of a given text's words in PCM, by the first recogniser."""
    return digest("aligned", of_plugin("asr", settings.backend), weights, audio, text, language)


def of_llm_answer(settings: LlmText, text: str, language: str) -> str:
    """Recipe of a language model's answer: the model's name, its prompt, and the text with its
    language."""
    return digest("llm_text", settings.model, settings.recipe(), text, language)


def weights(recognisers: Iterable[Plugin]) -> str:
    """Identities of the recognisers' models, one on each line. Raises ConfigError if a model is
    missing or differs from the expected one."""
    resolved = map(plugins.ASR.resolve, recognisers)
    return "\n".join(recogniser.weights(settings) for recogniser, settings in resolved)


#: Looked up once per process.
weights_of = lru_cache(maxsize=8)(weights)


def weights_licences(settings: TranscribeSettings) -> dict[str, str | None]:
    """Licence of each recogniser's weights, as their owner writes it; None: unknown."""
    resolved = [(backend.use, *plugins.ASR.resolve(backend)) for backend in settings.recognisers]
    return {use: recogniser.abilities(chosen).licence for use, recogniser, chosen in resolved}


def enhancing(job: Job) -> bool:
    return job.enhance.use != "none"


def lasting(model: StageSettings) -> JsonObject:
    """Settings that can change a dataset, as JSON values: nothing transient, no secrets."""
    passing = {TRANSIENT["role"], SECRET["role"]}
    return {
        name: value
        for name, value in model.model_dump(mode="json").items()
        if roles(type(model))[name] not in passing
    }
