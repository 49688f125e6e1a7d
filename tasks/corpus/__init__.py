"""Corpus-wide rules, such as duplicates and outliers, applied by `package` to stored measures.

Every plug-in of the shelves `filters` and `text` that has `reject` takes part, in the order of the
settings; each looks at the rows that earlier ones kept:

    def reject(rows: Rows, settings, frozen: dict) -> tuple[Iterable[tuple[int, Rejection]], dict]

`rows` are all transcribed utterances, kept so far or not, in columns of ROW and some thousand at a
time (`tasks.plugins.contracts.corpuswide`). `reject` returns rejections of kept rows, by their
numbers, and what it freezes; rows have the measures, too, that its `asks` names. For the next
version it gets that back as `frozen` (`{}` for the first version, or on `package.refit`), so that
bounds stay as they were for published clips.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tasks import plugins
from tasks.base.schema import AnyRow
from tasks.plugins.contracts import Measuring
from tasks.settings import Plugin
from tasks.settings.job import Job
from tasks.shard_store.text_values import compared, final_text
from tasks.shard_store.utterance import FinalUtterance

ROW = pa.schema(
    {
        **dict.fromkeys(("id", "dataset", "recording", "language"), pa.string()),
        "seconds": pa.float64(),
        "text": pa.string(),
        "normalised": pa.string(),  # only if a rule compares texts
        # By ear, at least its recording's; 0 if no words were heard; null where the source tells.
        "language_probability": pa.float64(),
        "avg_logprob": pa.float64(),
        "native_rate": pa.int64(),
        "format": pa.string(),  # container/codec of the recording
        "print": pa.large_binary(),  # fingerprint by the filter `duplicate`, if used
        "work_shard": pa.string(),
        "kept": pa.bool_(),  # no rule has rejected it so far
        "published": pa.bool_(),  # in the newest version
    }
)


def asked(job: Job) -> list[str]:
    """Measures that corpus-wide plug-ins ask for, once each."""
    names: dict[str, None] = {}
    for shelf, plugin in chosen(job):
        module, settings = plugins.measuring(shelf).resolve(plugin)
        names |= dict.fromkeys(module.asks(settings))
    return [*names]


def row_schema(job: Job) -> pa.Schema:
    """ROW, and the measures that are asked for."""
    return pa.schema([*ROW, *((name, pa.float64()) for name in asked(job))])


def rows(job: Job, shard: str, utterances: Iterable[FinalUtterance]) -> list[AnyRow]:
    """One row for each transcribed utterance."""
    compares, measures = compares_texts(job), asked(job)
    return [
        {
            **{name: u.texts.get(name, u.heard.measures.get(name)) for name in measures},
            "id": u.cut.id,
            "dataset": u.cut.recording["dataset"],
            "recording": u.cut.recording["recording"],
            "language": u.heard.transcript["language"],
            "seconds": u.cut.seconds,
            **_texts(job, u, compares),
            "language_probability": _probability_by_ear(u),
            "avg_logprob": u.heard.transcript["avg_logprob"],
            "native_rate": u.cut.rate,
            "format": u.cut.recording["format"],
            "print": u.cut.annotations.get("duplicate"),
            "work_shard": shard,
            "kept": u.outcome.outcome == "packaged",
            "published": False,
        }
        for u in utterances
        if u.heard.transcript is not None and not u.heard.transcript["error_code"]
    ]


def _texts(job: Job, u: FinalUtterance, compares: bool) -> AnyRow:
    text, source = final_text(job, u.heard)
    return {"text": text, "normalised": compared(job, u.heard, text, source) if compares else None}


def _probability_by_ear(u: FinalUtterance) -> float | None:
    """Of the language of a transcript; None where the source states it, or the text."""
    heard, vote = u.heard.transcript, u.heard.vote
    assert heard is not None
    if u.cut.language or u.cut.reference or heard["detected_language"] is None:
        return None
    if not (heard["text"] or "").strip():
        return 0.0
    if u.heard.voted and vote is not None:
        return vote.shares[u.heard.voted]
    probability = u.texts.get("language_probability")
    return float(probability) if isinstance(probability, float | int) else None


def chosen(job: Job) -> list[tuple[Measuring, Plugin]]:
    """(shelf, plug-in) of all plug-ins with `reject`, in the order of the settings."""
    asked: list[tuple[Measuring, Plugin]] = [("filters", p) for p in job.filter.filters]
    asked += [("text", p) for p in job.transcribe.verdicts if _hears(job) or not _by_ear(p)]
    return [
        (shelf, plugin)
        for shelf, plugin in asked
        if plugins.measuring(shelf).load(plugin.use).reject
    ]


def _by_ear(plugin: Plugin) -> bool:
    return plugins.TEXT.load(plugin.use).BY_EAR


def _hears(job: Job) -> bool:
    """Whether a recogniser may detect languages that sources do not state."""
    stated = all(dataset.settings.language for dataset in plugins.datasets(job.sources))
    return plugins.ASR.load(job.transcribe.backend.use).LISTENS and not stated


def takes_part(job: Job) -> bool:
    return bool(chosen(job))


def compares_texts(job: Job) -> bool:
    """Whether a rule over the corpus asks for texts as they are compared."""
    return any(
        shelf == "text" and plugins.TEXT.load(plugin.use).COMPARES for shelf, plugin in chosen(job)
    )
