"""The columns of `utterances.parquet`: what each one's values come from, and which settings add it.

`base.schema.rows` declares names, types, units and meanings: `UtteranceRow` the columns that every
version has, `AddedRow` those that settings add. So a new column is a line there and an entry here:
of OF_CUTS, OF_PCM or OF_TEXTS, or, if settings add it, of VALUES and of ADDED_BY. Measures and
annotations come from plug-ins.

The metadata of an annotation's column are `annotation` (its kind), `rate` (of an array), and
`published` if formats hold the column, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from .. import plugins, scoring
from ..base.errors import ConfigError
from ..base.logs import log
from ..base.schema import (
    ADDED,
    LABELLED_TURN,
    REFERENCE_WORDS,
    UTTERANCES,
    AnyRow,
    TranscriptRow,
)
from ..plugins.annotation_kinds import Array, Event
from ..recording import turns
from ..recording.locator import SECOND, SECOND_LANGUAGE, SECOND_TEXT
from ..recording.tracks import channel_of
from ..settings import Plugin
from ..settings.job import Job
from ..shard_store import (
    annotated,
    blobs,
    clip_turns,
    enhanced,
    hidden,
    recipe,
    requests,
    text_values,
)
from ..shard_store.annotated import SPOKEN
from ..shard_store.clip_choice import labels_kept
from ..shard_store.shard_view import ShardView
from ..shard_store.utterance import CutUtterance, FinalUtterance
from ..storage import tables
from . import text_marks
from .corpus import identities

#: Where a planned row's PCM is stored; not published.
SOURCE_COLUMNS = {"work_shard": pa.string(), "blob": pa.string(), "blob_offset": pa.int64()}
#: The same for the enhanced clip, when both are packaged.
BESIDE_COLUMNS = {"beside_blob": pa.string(), "beside_offset": pa.int64()}
#: The same for both channels, where a format writes them.
SIDE_COLUMNS = {
    **dict.fromkeys(("left_blob", "right_blob"), pa.string()),
    **dict.fromkeys(("left_offset", "right_offset"), pa.int64()),
}
#: If words are muted, the hashes of the stored PCM; `sha256` is that of the published PCM.
MUTED_COLUMNS = {"stored_sha256": pa.string(), "beside_sha256": pa.string()}
#: The columns needed to read and check a row's PCM.
PCM_COLUMNS = (
    *("sha256", "sha256_enhanced", "sha256_left", "sha256_right", "num_samples", "muted"),
    *(*SOURCE_COLUMNS, *BESIDE_COLUMNS, *SIDE_COLUMNS, *MUTED_COLUMNS),
)
LAYOUT_COLUMNS = ("shard", "generation", "offset")  # filled in by the layout
WORDS = "words"
#: Columns that exist without `package.publish`, and their names there; `turns` only if clips hold
#: several turns.
PRESENT = {"word_times": WORDS, "turns": "turns"}


def row_schema(job: Job) -> pa.Schema:
    """The columns of a row before the layout, with those that say where its PCM is stored."""
    fields = [marked(job, field) for field in UTTERANCES if field.name not in LAYOUT_COLUMNS]
    # Voices that are compared with no example give no measure; see `package.leaks_by_voice`.
    alone = Plugin(use="voice") in job.filter.filters
    empty = plugins.columns("filters", "voice") if alone else {}
    for columns in (enhanced.measures(job), text_values.text_columns(job.transcribe.verdicts)):
        for column, (unit, doc) in columns.items():
            if column in empty:
                continue
            fields.append(pa.field(column, pa.float64(), metadata={"doc": doc, "unit": unit}))
    fields += annotation_fields(job)
    if job.transcribe.reference_words:
        measured = {field.name for field in fields}
        fields += [field for field in REFERENCE_WORDS if field.name not in measured]
    for field in ADDED:
        if ADDED_BY[field.name](job):
            fields.append(marked(job, turns_column(job) if field.name == "turns" else field))
    return pa.schema([*fields, *sources_of(job).items()])


def sources_of(job: Job) -> dict[str, pa.DataType]:
    """The columns of a row that say where its PCM is stored, and their types; not published."""
    beside = BESIDE_COLUMNS if job.package.audio == "both" else {}
    beside = beside | (SIDE_COLUMNS if requests.writes_sides(job) else {})
    return SOURCE_COLUMNS | beside | (MUTED_COLUMNS if hidden.mutes(job) else {})


def turns_column(job: Job) -> pa.Field:
    """The column `turns`, with the labels of each turn if a source keeps labels."""
    field = ADDED.field("turns")
    return field.with_type(pa.list_(LABELLED_TURN)) if labels_kept(job) else field


def turns_kept(job: Job) -> bool:
    """Whether the segmenter makes clips of several turns."""
    return plugins.SEGMENTERS.load(job.filter.segmenter.use).HOLDS_TURNS


def second_texts_kept(job: Job) -> bool:
    datasets = plugins.datasets(job.sources)
    return any(getattr(one.settings, SECOND_TEXT, None) for one in datasets)


#: For each column of ADDED, whether a job's settings add it.
ADDED_BY: Mapping[str, Callable[[Job], bool]] = {
    "llm_text": lambda job: bool(job.transcribe.llm_text),
    "audio_is": recipe.enhancing,
    "muted": hidden.mutes,
    "sha256_enhanced": lambda job: job.package.audio == "both",
    **dict.fromkeys(("sha256_left", "sha256_right"), requests.writes_sides),
    "labels": lambda job: bool(labels_kept(job)),
    "second_text": second_texts_kept,
    "second_language": second_texts_kept,
    "turns": turns_kept,
}


def rows_of(view: ShardView, utterances: Sequence[FinalUtterance]) -> pa.Table:
    """The rows (`row_schema`) of utterances that are packaged or pending; of pending ones, only the
    columns by which clips are chosen."""
    clips, job = _Clips(view, utterances), view.job
    texts = {
        text_values.SOURCE,
        *text_values.DERIVED,
        *text_values.text_columns(job.transcribe.verdicts),
    }
    stored = zip(utterances, clips.audio, clips.muted, strict=True)
    given = tables.columns_of(OF_CUTS, [*map(_of_cut, utterances)])
    given |= tables.columns_of(OF_PCM, [_of_pcm(view.shard, *one) for one in stored])
    given |= tables.columns_of(OF_TEXTS, clips.texts)
    aligned = REFERENCE_VALUES if job.transcribe.reference_words else {}
    added = {**VALUES, **aligned, **_of_annotations(job)}
    schema, arrays = row_schema(job), []
    for field in schema:
        name = field.name
        if name in added or name in given:
            column = added[name](clips) if name in added else given[name]
        elif name in texts:
            column = tables.column(clips.values, name)
        elif name in HEARD:
            column = tables.column(clips.heard, name)
        else:
            column = tables.column(clips.measures, name)
        arrays.append(pa.array(column, field.type))
    return pa.table(arrays, schema=schema)


class _Clips:
    """What columns are made from: an entry for each utterance, None or empty if it is pending."""

    def __init__(self, view: ShardView, every: Sequence[FinalUtterance]) -> None:
        self.view, self.job, self.every = view, view.job, every
        self.packaged = [u if u.outcome.outcome == "packaged" else None for u in every]

    @cached_property
    def audio(self) -> list[AnyRow | None]:
        return [u.heard.packed if u else None for u in self.packaged]

    @cached_property
    def values(self) -> list[AnyRow]:
        """What rules on text ask."""
        return [u.texts if u else {} for u in self.packaged]

    @cached_property
    def measures(self) -> list[Mapping[str, Any]]:
        return [u.heard.measures if u else {} for u in self.packaged]

    @cached_property
    def heard(self) -> list[Mapping[str, Any]]:
        """Transcripts."""
        return [_heard(u) if u else {} for u in self.packaged]

    @cached_property
    def texts(self) -> list[hidden.Texts]:
        hides = hidden.hides(self.job)
        return [_published(self.job, u, hides) if u else hidden.NOTHING for u in self.packaged]

    @cached_property
    def aligned(self) -> list[AnyRow]:
        return [_reference_words(self.job, u) if u else {} for u in self.packaged]

    @cached_property
    def muted(self) -> list[AnyRow]:
        """Of clips with muted words, the columns that tell of them."""
        if not hidden.mutes(self.job):
            return [{}] * len(self.every)
        shard = self.view.shard
        return [_muted(self.job, shard, u) if u.muted else {} for u in self.every]


_ColumnValues = Callable[[_Clips], Sequence[object]]


def _of_packaged(value: Callable[[FinalUtterance], object]) -> _ColumnValues:
    return lambda clips: [value(u) if u else None for u in clips.packaged]


def _of_text(name: str) -> _ColumnValues:
    return lambda clips: tables.column(clips.values, name)


def _of_beside(name: str) -> _ColumnValues:
    """A value of the enhanced clip, if both are packaged."""
    return _of_packaged(lambda u: u.heard.beside and u.heard.beside.get(name))


def _of_side(number: int, name: str) -> _ColumnValues:
    return _of_packaged(lambda u: u.heard.sides[number].get(name) if u.heard.sides else None)


def _of_muted(name: str) -> _ColumnValues:
    return lambda clips: tables.column(clips.muted, name)


#: What is known once an utterance is cut, so that pending ones have it, too (`_of_cut`).
OF_CUTS = (
    *("id", "source_id", "dataset", "split", "recording", "source_path", "channel"),
    *("start", "end", "start_seconds", "speaker", "language"),
)
OF_PCM = ("num_samples", "sample_rate", "sha256", "work_shard", "blob", "blob_offset")
OF_TEXTS = ("text", "normalised", "hypothesis", "word_times")  # of `hidden.Texts`


def _of_cut(u: FinalUtterance) -> tuple[object, ...]:
    cut, recording, row = u.cut, u.cut.recording, u.heard.transcript
    return (
        cut.id,
        cut.source_id,
        recording["dataset"],
        "train",  # until splits are assigned
        recording["recording"],
        recording["source_path"],
        channel_of(recording),
        cut.start / cut.rate,
        cut.end / cut.rate,
        _container_time(u),
        cut.speaker,
        row and row["language"],  # a pending utterance may have a first transcript
    )


def _of_pcm(shard: str, u: FinalUtterance, pcm: AnyRow | None, muted: AnyRow) -> tuple[object, ...]:
    """A pending utterance has its length and rate before resampling, and the recipe of its PCM."""
    if pcm is None:
        packaged = shard if u.outcome.outcome == "packaged" else None
        return u.cut.end - u.cut.start, u.cut.rate, u.cut.audio, packaged, None, None
    sha256 = muted.get("sha256", pcm["sha256"])
    return pcm["num_samples"], pcm["rate"], sha256, shard, pcm["blob"], pcm["offset"]


def _container_time(u: FinalUtterance) -> float | None:
    late = u.cut.recording.get("start_seconds")
    return None if late is None else round(u.cut.start / u.cut.rate + late, 6)


#: Columns that are copied from a clip's transcript, unless a rule on text gives them.
HEARD = (
    *("language_probability", "avg_logprob", "no_speech_probability", "compression_ratio"),
    *("words", "word_errors", "chars", "char_errors", "detected_language", "detected_probability"),
    *("speech_seconds", "speech_after_text"),
)
#: The values of REFERENCE_WORDS, where they are asked for.
REFERENCE_VALUES: Mapping[str, _ColumnValues] = {
    "reference_words": lambda clips: tables.column(clips.aligned, "reference_words"),
    "reference_confidence": lambda clips: tables.column(clips.aligned, "reference_confidence"),
}
#: What the values of columns come from that only some settings add, but for annotations.
VALUES: dict[str, _ColumnValues] = {
    "labels": lambda clips: [u.cut.labels for u in clips.every],
    SECOND_TEXT: lambda clips: [u and _second_text(clips.job, u) for u in clips.packaged],
    SECOND_LANGUAGE: lambda clips: [u.cut.second(SECOND_LANGUAGE) for u in clips.every],
    "llm_text": _of_packaged(text_values.rewriting_outcome),
    "audio_is": lambda clips: [
        pcm and ("enhanced" if pcm["audio"] == u.cut.enhanced else "original")
        for u, pcm in zip(clips.every, clips.audio, strict=True)
    ],
    "muted": _of_muted("muted"),
    "sha256_enhanced": lambda clips: [
        muted.get("sha256_enhanced", stored)
        for stored, muted in zip(_of_beside("sha256")(clips), clips.muted, strict=True)
    ],
    "turns": lambda clips: [
        clip_turns.labelled(
            clips.view, u, texts.words, _heard(u)["language"], _most(clips.job, u) > 0
        )
        if u
        else None
        for u, texts in zip(clips.packaged, clips.texts, strict=True)
    ],
    "sha256_left": _of_side(0, "sha256"),
    "sha256_right": _of_side(1, "sha256"),
    "left_blob": _of_side(0, "blob"),
    "left_offset": _of_side(0, "offset"),
    "right_blob": _of_side(1, "blob"),
    "right_offset": _of_side(1, "offset"),
    "beside_blob": _of_beside("blob"),
    "beside_offset": _of_beside("offset"),
    "stored_sha256": _of_muted("stored_sha256"),
    "beside_sha256": _of_muted("beside_sha256"),
}


def _second_text(job: Job, u: FinalUtterance) -> str | None:
    """The source's second text, in which as much is hidden as in the text."""
    text, language = u.cut.second(SECOND_TEXT), u.cut.second(SECOND_LANGUAGE)
    return hidden.shown(job, text, language, _most(job, u)) if text else None


def _most(job: Job, u: FinalUtterance) -> int:
    return hidden.most_places(job, u.heard, str(u.texts["text"]))


def _heard(u: FinalUtterance) -> TranscriptRow:
    assert u.heard.transcript is not None
    return u.heard.transcript


def _published(job: Job, u: FinalUtterance, hides: bool) -> hidden.Texts:
    """An utterance's texts as they are published: masked if the job `hides` anything, in
    `package.text_form`, with `package.text_marks`."""
    heard, form, most = _heard(u), job.package.text_form, 0
    unmasked, source = str(u.texts["text"]), str(u.texts[text_values.SOURCE])
    language = heard["language"]
    normalised = text_values.compared(job, u.heard, unmasked, source)
    clip = hidden.Texts(unmasked, normalised, heard["text"], heard.get("word_times"))
    if hides:
        most = _most(job, u)
        clip = hidden.texts(
            job, clip, language, most, lambda piece: scoring.normalise(piece, language or "")
        )
    text = None
    if form == "llm_text" and u.rewritten:
        text = hidden.shown(job, u.rewritten["text"], language)
    elif form == "normalised":
        spots = hidden.searched(job, unmasked, language, most)
        text = hidden.masked(
            unmasked, spots, lambda piece: scoring.training_text(piece, language or "")
        )
    text = text or clip.text
    if job.package.text_marks:
        by_source = source == "reference"
        words: Any = _reference_words(job, u).get("reference_words") if by_source else clip.words
        text = text_marks.marked(job, u, text or "", words or (), by_source)
    return clip._replace(text=text)


def _reference_words(job: Job, u: FinalUtterance) -> AnyRow:
    """The columns REFERENCE_WORDS: times of the words of the source's text, and the mean
    probability of their alignment."""
    if u.aligned is None:
        return {}
    rows = u.aligned.get("word_times") or ()
    probabilities = [row["probability"] for row in rows if row["probability"] is not None]
    return {
        "reference_words": hidden.words(
            job, rows or None, u.aligned.get("language"), _most(job, u) > 0
        ),
        "reference_confidence": sum(probabilities) / len(probabilities) if probabilities else None,
    }


def _muted(job: Job, shard: str, u: FinalUtterance) -> AnyRow:
    """The columns of a clip with muted words: `sha256` is the hash of the published PCM, and
    MUTED_COLUMNS have those of the stored PCM."""
    columns: AnyRow = {"muted": u.muted}
    names = ("sha256", "stored_sha256"), ("sha256_enhanced", "beside_sha256")
    for clip, (name, stored) in zip((u.heard.packed, u.heard.beside), names, strict=True):
        if clip is not None:
            pcm = hidden.silenced(blobs.read(job.out, shard, clip), u.muted)
            columns = {**columns, name: blobs.sha256(pcm), stored: clip["sha256"]}
    return columns


def check(job: Job) -> None:
    """Raises ConfigError if `package.publish` names something that no plug-in gives; warns of each
    format that cannot hold the annotations. The same for `package.text_marks`."""
    text_marks.check(job)
    _check_sides(job)
    declared = {one.name for one in annotated.of_job(job)}
    for name in job.package.publish:
        present = name == "turns" and turns_kept(job)
        if name in SPOKEN and not (present or job.speakers.use != "none"):
            raise ConfigError(f"package.publish: {name} needs a diarizer: set speakers.use")
        if name not in declared | SPOKEN.keys() | {WORDS}:
            names = ", ".join(sorted({*declared, *SPOKEN, WORDS}))
            raise ConfigError(f"package.publish: nothing gives {name!r}; it may name {names}")
    for plugin in job.package.formats if job.package.publish else ():
        module, settings = plugins.FORMATS.resolve(plugin)
        if not (module.holds_annotations(settings) or module.lists_annotations(settings)):
            able = f", and {{use: {plugin.use}, facts: true}} writes it beside each clip"
            log.warning(
                "package.publish: the format %s has no field for %s; utterances.parquet holds it, "
                "by id%s",
                plugin.use,
                ", ".join(job.package.publish),
                able if module.HOLDS_ANNOTATIONS else "",
            )


def _check_sides(job: Job) -> None:
    """Raises ConfigError if a format needs channels that the settings do not tell apart."""
    if not requests.writes_sides(job):
        return
    remedy = "or set the format's `tracks: by_turns`"
    if job.speakers.use == "segments":
        raise ConfigError(
            "package.formats: `tracks: own` writes each speaker's own channel, and "
            "speakers.use=segments hears the mix alone; set speakers.use to channels or given, "
            f"{remedy}"
        )
    if hidden.mutes(job):
        raise ConfigError(
            "package.formats: `tracks: own` cannot silence hidden words in channels of their own; "
            f"mask the text alone, {remedy}"
        )


def annotation_fields(job: Job) -> list[pa.Field]:
    publish, fields = job.package.publish, []
    declared = {one.name: one.kind for one in annotated.of_job(job)}
    declared |= {name: SPOKEN[name] for name in _spoken(job)}
    for name, kind in declared.items():
        about = {"doc": f"{kind.doc} ({kind.name}: {kind.extent})", "unit": kind.unit}
        about |= {"annotation": kind.name}
        about |= {"rate": f"{kind.rate:g}"} if isinstance(kind, Array) else {}
        about |= {"published": "yes"} if name in publish else {}
        if name in publish or not kind.large:
            fields.append(pa.field(name, kind.type, metadata=about))
    return fields


def marked(job: Job, field: pa.Field) -> pa.Field:
    """A column, marked as published if `package.publish` names it, or if it is a second text."""
    if field.name not in SECOND and PRESENT.get(field.name) not in job.package.publish:
        return field
    return field.with_metadata({**(field.metadata or {}), b"published": b"yes"})


def _spoken(job: Job) -> list[str]:
    """The names in `package.publish` that a diarizer's turns give."""
    kept = {"turns"} if turns_kept(job) else set()
    return [name for name in SPOKEN if name in job.package.publish and name not in kept]


def _of_annotations(job: Job) -> dict[str, _ColumnValues]:
    """What annotations' values come from, except filters' labels, which are stored as measures."""
    values: dict[str, _ColumnValues] = {}
    for one in annotated.of_job(job):
        if one.kind.large and one.name in job.package.publish:
            values[one.name] = _of_packaged(partial(annotated.value_of, one))
        elif one.shelf == "text" and not one.kind.large:
            values[one.name] = _of_text(one.name)
    by_turns: dict[str, _ColumnValues] = {"turns": _turns, "speaker_embedding": _embeddings}
    return values | {name: by_turns[name] for name in _spoken(job)}


def _turns(clips: _Clips) -> list[object]:
    """Turns within each clip, in s from its start; None if the recording has none."""

    def within(cut: CutUtterance) -> list[dict[str, object]] | None:
        spoken = clips.view.turned(cut.recording)[1]
        if spoken is None:
            return None
        path, rate = cut.recording["path"], cut.rate
        events = (
            Event(turn.start / rate, turn.end / rate, turns.name_of([turn], turn.speaker, path))
            for turn in turns.within(spoken, cut.start, cut.end)
        )
        return [event._asdict() for event in events]

    return [within(u.cut) if u else None for u in clips.packaged]


def _embeddings(clips: _Clips) -> list[np.ndarray | None]:
    """Embedding of each clip's speaker, float32 [SIZE], of length 1; None without one."""
    voices_of: dict[str, dict[str, bytes]] = {}  # by recording, then by name
    embeddings: list[np.ndarray | None] = []
    for u in clips.packaged:
        vector = None
        if u and u.cut.voice:
            recording = u.cut.recording
            if recording["recording"] not in voices_of:
                spoken = clips.view.turned(recording)[1] or ()
                voices_of[recording["recording"]] = {
                    turns.name_of((), row["number"] - 1, recording["path"]): row["vector"]
                    for row in identities.voices_of_turns(recording, spoken, u.cut.rate)
                }
            vector = voices_of[recording["recording"]].get(u.cut.voice)
        embeddings.append(
            None if vector is None else np.frombuffer(vector, "<f2").astype(np.float32)
        )
    return embeddings
