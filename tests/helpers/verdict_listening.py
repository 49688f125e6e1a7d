"""Clips through Whisper base, the measures that a verdict may use, and the default rules.

No reference is shown to the rules: what is judged is how they fare without one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import Any

from tests.helpers.corpus_speech import RATE
from tests.helpers.verdict_clips import Said
from uttermill.tasks import plugins, scoring
from uttermill.tasks.asr import SpeechClip, Transcript, faster_whisper
from uttermill.tasks.audio import Clip
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.settings import FilterSettings, Plugin, TranscribeSettings
from uttermill.tasks.shard_store.annotated import rules_of
from uttermill.tasks.text import ScoredTranscript

Values = dict[str, Any]
BATCH = 16  # clips that are read before they are heard
MEASURES = ("snr", "speech_ratio")
COSTLY = "dnsmos"  # of speech in noise only, where its weights are installed


@dataclass(slots=True)
class Row:
    """One clip as it was heard. `values` holds what rules look at, by column."""

    group: str
    snr: float | None
    wer: float | None  # against what was said; characters where a script has no spaces
    stated_wer: float | None  # the same when the language was stated
    values: Values
    stated: Values


def same_language(spoken: str | None, heard: str | None) -> bool:
    return spoken == heard or {spoken, heard} <= {"no", "nn"}


@cache
def backend() -> faster_whisper.Backend:
    """Whisper base on one thread."""
    return faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1))


def hear(clips: Iterable[Said]) -> Iterator[Row]:
    """Rows in order."""
    rest = iter(clips)
    while batch := list(islice(rest, BATCH)):
        heard = list(backend().transcribe([SpeechClip(said.samples) for said in batch]))
        for said, one, again in zip(batch, heard, _stated(batch, heard), strict=True):
            yield _row(said, one, again)


def _stated(batch: Sequence[Said], heard: Sequence[Transcript]) -> list[Transcript]:
    """The same with the language stated, English for sounds; heard again only where another one was
    detected."""
    found = list(heard)
    stated = [said.language or "en" for said in batch]
    wrong = [i for i, one in enumerate(heard) if not same_language(stated[i], one.language)]
    again = backend().transcribe([SpeechClip(batch[i].samples, stated[i]) for i in wrong])
    for i, one in zip(wrong, again, strict=True):
        found[i] = one
    return found


def _row(said: Said, heard: Transcript, stated: Transcript) -> Row:
    audio = _measured(said)
    values = {**audio, **text_values(said, heard)}
    again = {**audio, **text_values(said, stated), "language_probability": None}
    return Row(said.group, said.snr, _wer(said, heard), _wer(said, stated), values, again)


def _wer(said: Said, heard: Transcript) -> float | None:
    if not said.text or not said.language:
        return None
    return scoring.score(said.text, heard.text or "", said.language).wer


def _measured(said: Said) -> Values:
    """Columns of the default filters, and of some that cost little."""
    clip = Clip.from_samples(said.samples, RATE)
    found: Values = {}
    costly = (COSTLY,) if said.group == "mixed" and find_spec("speechmos") else ()
    for plugin in (*FilterSettings().filters, *(Plugin(use=use) for use in (*MEASURES, *costly))):
        module, settings = plugins.FILTERS.resolve(plugin)
        found.update(module.measure(clip, settings))
    return found


def text_values(said: Said, heard: Transcript) -> Values:
    """What `tasks.shard_store.text_values` gives the rules on text, of a clip without reference."""
    text = scoring.clean(heard.text or "")
    values: Values = {**asdict(heard), "text": text, "text_chars": len(text)}
    return {**values, **_from_text(_shown(values, said.seconds))}


def _shown(values: Values, seconds: float) -> ScoredTranscript:
    text = values["text"]
    return ScoredTranscript(
        text, "asr", seconds, text, language=values["language"],
        language_probability=values["language_probability"], avg_logprob=values["avg_logprob"],
        no_speech_probability=values["no_speech_probability"],
        compression_ratio=values["compression_ratio"], text_probability=values["text_probability"],
    )  # fmt: skip


def _from_text(shown: ScoredTranscript) -> Values:
    """Columns of the default verdicts that work out their own."""
    found: Values = {}
    for module, settings in chosen(TranscribeSettings().verdicts):
        if hasattr(module, "measure"):
            found.update(module.measure(shown, settings))
    return found


def chosen(verdicts: tuple[Plugin, ...]) -> list[tuple[Any, Any]]:
    return [plugins.TEXT.resolve(plugin) for plugin in verdicts]


def reason(values: Values, verdicts: tuple[Plugin, ...] | None = None) -> str | None:
    """Why the default filters and verdicts on text (or other ones) drop a clip; None: kept."""
    on_text = TranscribeSettings().verdicts if verdicts is None else verdicts
    rules = (*rules_of("filters", FilterSettings().filters), *rules_of("text", on_text))
    no = judge(values, rules)
    return no.reason if no else None
