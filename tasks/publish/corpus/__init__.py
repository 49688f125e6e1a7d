"""Corpus-wide rules, such as duplicates and outliers, applied by `package` to stored measures.

Every filter and text plug-in that defines `reject` (`tasks.plugins.contracts.base`) takes
part, in the order of the settings; each sees which rows the earlier ones kept.
"""

from collections.abc import Iterable

import pyarrow as pa

from ... import plugins
from ...base.schema import AnyRow
from ...plugins.contracts import Measuring
from ...settings import Plugin
from ...settings.job import Job
from ...shard_store.cuts import speakers_of
from ...shard_store.text_values import compared, final_text
from ...shard_store.utterance import Utterance

ROW = pa.schema(
    {
        **dict.fromkeys(("id", "dataset", "recording", "language"), pa.string()),
        "seconds": pa.float64(),
        "text": pa.string(),
        "normalised": pa.string(),  # only if a rule compares texts
        "speakers": pa.list_(pa.string()),  # by the source, only if a test set's are compared
        # Of the detected language, or of its recording's; 0 for an empty transcript; null if the
        # source states the language or the text.
        "language_probability": pa.float64(),
        "avg_logprob": pa.float64(),
        "native_rate": pa.int64(),
        "format": pa.string(),  # container/codec of the recording
        "print": pa.large_binary(),  # fingerprint from the filter `duplicate`, if used
        "voice": pa.large_binary(),  # embedding from the filter `voice`, if used
        "work_shard": pa.string(),
        "kept": pa.bool_(),  # no rule has rejected it so far
        "published": pa.bool_(),  # in the newest version
    }
)


def needed_measures(job: Job) -> list[str]:
    names: dict[str, None] = {}
    for shelf, plugin in chosen(job):
        module, settings = plugins.MEASURING[shelf].resolve(plugin)
        names |= dict.fromkeys(module.asks(settings))
    return [*names]


def row_schema(job: Job) -> pa.Schema:
    """ROW, followed by a float64 column for each of `needed_measures`."""
    return pa.schema([*ROW, *((name, pa.float64()) for name in needed_measures(job))])


def rows(job: Job, shard: str, utterances: Iterable[Utterance]) -> list[AnyRow]:
    """One row (`row_schema`) for each utterance of the shard that was transcribed without error."""
    compares, named, measures = compares_texts(job), compares_speakers(job), needed_measures(job)
    return [
        {
            **{name: u.texts.get(name, u.measures.get(name)) for name in measures},
            "id": u.id,
            "dataset": u.recording["dataset"],
            "recording": u.recording["recording"],
            "language": u.transcript["language"],
            "seconds": u.seconds,
            "text": text,
            "normalised": compared(job, u, text, source) if compares else None,
            "speakers": speakers_in(u) if named else None,
            "language_probability": _detection_probability(u),
            "avg_logprob": u.transcript["avg_logprob"],
            "native_rate": u.rate,
            "format": u.recording["format"],
            "print": u.annotations.get("duplicate"),
            "voice": u.annotations.get("voice/voice_embedding"),
            "work_shard": shard,
            "kept": u.outcome.outcome == "packaged",
            "published": False,
        }
        for u in utterances
        if u.transcript is not None and not u.transcript["error_code"]
        for text, source in [final_text(job, u)]
    ]


def speakers_in(u: Utterance) -> list[str]:
    """Everybody who speaks in an utterance, by the source's names."""
    if u.speaker:
        return [u.speaker]
    start, end = u.start / u.rate, u.end / u.rate
    return [
        part.speaker
        for part in speakers_of(u.recording) or ()
        if part.speaker and part.start < end and (part.end is None or part.end > start)
    ]


def _detection_probability(u: Utterance) -> float | None:
    """Probability of the language that a recogniser detected, 0 for an empty transcript; None if
    the source states the language or the text, or if no probability is stored."""
    heard, vote = u.transcript, u.vote
    assert heard is not None
    if u.language or u.reference or heard["detected_language"] is None:
        return None
    if not (heard["text"] or "").strip():
        return 0.0
    if u.voted and vote is not None and vote.language:
        return vote.shares[u.voted]
    probability = u.texts.get("language_probability")
    return float(probability) if isinstance(probability, float | int) else None


def chosen(job: Job) -> list[tuple[Measuring, Plugin]]:
    """(kind, plug-in) of all filters and text plug-ins with `reject`, in the order of the settings.
    A plug-in that judges detected languages is left out if no recogniser detects any."""
    stated = all(dataset.settings.language for dataset in plugins.datasets(job.sources))
    detects = plugins.ASR.load(job.transcribe.backend.use).LISTENS and not stated
    filters = [p for p in job.filter.filters if plugins.FILTERS.load(p.use).reject]
    texts = [
        p
        for p in job.transcribe.verdicts
        if (rule := plugins.TEXT.load(p.use)).reject and (detects or not rule.BY_EAR)
    ]
    return [*(("filters", p) for p in filters), *(("text", p) for p in texts)]


def takes_part(job: Job) -> bool:
    """Whether the settings choose any corpus-wide plug-in, sets that no clip may meet, or to link
    voices."""
    return bool(chosen(job) or job.package.exclude or job.package.links_voices)


def compares_speakers(job: Job) -> bool:
    return any(one.compares("speaker") for one in job.package.exclude)


def compares_texts(job: Job) -> bool:
    """Whether a corpus-wide rule needs the column `normalised`."""
    return any(one.compares("text") for one in job.package.exclude) or any(
        shelf == "text" and plugins.TEXT.load(plugin.use).COMPARES for shelf, plugin in chosen(job)
    )
