"""The facts of one work shard: its utterances as they would be published, and what limits may ask
of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ... import corpus, scoring
from ...accounting import ledger
from ...base.schema import (
    LEDGER,
    REFERENCE_WORDS,
    UTTERANCES,
    AnyRow,
    EnhancedRow,
    TranscriptRow,
)
from ...corpus import limits, voices
from ...recording.tracks import channel_of
from ...settings.job import Job
from ...shard_store import (
    blobs,
    clip_turns,
    enhanced,
    hidden,
    llm_answers,
    muting,
    recipe,
    reference_words,
    text_values,
)
from ...shard_store.shard_view import DUPLICATE_SEGMENT, ShardView
from ...shard_store.utterance import FinalUtterance, Outcome
from ...storage import tables
from .. import published_columns
from ..planned_columns import (
    LABELS_COLUMN,
    LAYOUT_COLUMNS,
    MUTED_COLUMNS,
    labels_kept,
    sources_of,
    turns_column,
    turns_kept,
)
from .fact_view import FactView

AT = "at"  # column with the number of a row's utterance; null: no limit changes the row's outcome
STATED = "stated"  # column with the language that the source states
LEDGER_FACTS = pa.schema([*LEDGER, pa.field(AT, pa.int32()), pa.field(STATED, pa.string())])
UNCUT = Outcome(ledger.PENDING, "filter", ledger.PENDING)  # of a recording without cuts


class ShardFacts(NamedTuple):
    """Tables of one shard, whatever its limits, and their schemas. The first two have a row for
    each utterance, in the same order."""

    rows: pa.Table  # `row_schema`: as it would be published
    limits: pa.Table  # `limits.schema_of`: what limits may ask
    ledger: pa.Table  # LEDGER_FACTS, with the outcomes that are known without limits
    heard: pa.Table  # `heard_schema`: the input of corpus-wide rules
    voices: pa.Table  # `voices.VOICES`: the input of speakers across recordings


def heard_schema(job: Job) -> pa.Schema:
    """`corpus.row_schema`, with the number of each row's utterance."""
    return pa.schema([*corpus.row_schema(job), pa.field(AT, pa.int32())])


def of_shard(view: FactView) -> ShardFacts:
    """The facts of one shard; columns of what is not computed yet are null."""
    job, shard = view.job, view.shard
    utterances, damage = [], []
    for utterance in view.transcribed():
        utterances.append(utterance)
        cut = view.cut_of(utterance.cut.recording)
        damage.append(view.damage(utterance.cut, cut) if cut is not None and cut.faults else "")
    asked = limits.facts_of(job, utterances, damage)
    # Only outcomes before all limits, which no limit changes, may share an id.
    fixed = pc.equal(asked["step"], limits.BEFORE_FILTERS).fill_null(False).to_pylist()
    numbers = {u.cut.id: number for number, u in enumerate(utterances) if not fixed[number]}
    heard = list[AnyRow]()
    if corpus.takes_part(job):
        rows = corpus.rows(job, shard, utterances)
        heard = [{**row, AT: numbers[str(row["id"])]} for row in rows]
    spans: list[AnyRow] = []
    for row in ledger.of_shard(view, utterances, UNCUT):
        number = numbers.get(row["utterance"] or "")
        stated = None if number is None else utterances[number].cut.language
        of_limits = row["reason"] != DUPLICATE_SEGMENT
        spans.append({**row, AT: number if of_limits else None, STATED: stated})
    spoken = voices.rows(view) if recipe.across_recordings(job) is not None else []
    return ShardFacts(
        rows_of(view, utterances, strict=True),
        asked,
        tables.of_rows(spans, LEDGER_FACTS),
        tables.of_rows(heard, heard_schema(job)),
        tables.of_rows(spoken, voices.VOICES),
    )


#: Columns of a packaged row that are copied from its transcript.
HEARD = (
    *("language", "language_probability", "avg_logprob", "no_speech_probability"),
    *("compression_ratio", "words", "word_errors", "chars", "char_errors"),
    *("detected_language", "detected_probability"),
    *("speech_seconds", "speech_after_text"),
)


def rows_of(view: ShardView, utterances: Sequence[FinalUtterance], strict: bool) -> pa.Table:
    """The rows (`row_schema`) of utterances; of those that are not packaged, only the columns by
    which clips are chosen."""
    schema = row_schema(view.job)
    table = {**_of_cuts(utterances), **_of_packaged(view, utterances, strict)}
    annotated = published_columns.Values(view)
    if annotated.names:
        remarks = [annotated.of(u) if _is_packaged(u) else {} for u in utterances]
        table |= {name: [values.get(name) for values in remarks] for name in annotated.names}
    measures = [u.heard.measures if _is_packaged(u) else {} for u in utterances]
    for name in schema.names:
        if name not in table:
            table[name] = [values.get(name) for values in measures]
    return pa.table([pa.array(table[field.name], field.type) for field in schema], schema=schema)


def _is_packaged(u: FinalUtterance) -> bool:
    return u.outcome.outcome == "packaged"


def _of_cuts(utterances: Sequence[FinalUtterance]) -> dict[str, list[object]]:
    """The columns that are known once an utterance is cut."""
    cuts = [u.cut for u in utterances]
    recordings = [cut.recording for cut in cuts]
    return {
        "id": [cut.id for cut in cuts],
        "source_id": [cut.source_id for cut in cuts],
        "dataset": [recording["dataset"] for recording in recordings],
        "split": ["train"] * len(cuts),
        "recording": [recording["recording"] for recording in recordings],
        "source_path": [recording["source_path"] for recording in recordings],
        "channel": [channel_of(recording) for recording in recordings],
        "start": [cut.start / cut.rate for cut in cuts],
        "end": [cut.end / cut.rate for cut in cuts],
        "start_seconds": [
            None
            if (late := recording.get("start_seconds")) is None
            else cut.start / cut.rate + late
            for cut, recording in zip(cuts, recordings, strict=True)
        ],
        "speaker": [cut.speaker for cut in cuts],
        "labels": [cut.labels for cut in cuts],
    }


def _of_packaged(
    view: ShardView, utterances: Sequence[FinalUtterance], strict: bool
) -> dict[str, list[object]]:
    """The columns that are known once an utterance is transcribed; null for pending ones."""
    job, shard = view.job, view.shard
    nothing: AnyRow = {}
    packaged = [u if _is_packaged(u) else None for u in utterances]
    transcripts = [_heard(u) if u else nothing for u in packaged]
    texts = [u.texts if u else nothing for u in packaged]
    computed = (*text_values.DERIVED, *text_values.text_columns(job.transcribe.verdicts))
    texts_of = published(job)
    clips = [texts_of(u) if u else hidden.NOTHING for u in packaged]
    table: dict[str, list[object]] = {
        **_of_audio(utterances, packaged),
        **{name: [row.get(name) for row in transcripts] for name in HEARD},
        **{name: [values.get(name) for values in texts] for name in computed},
        # Pending ones have the language of a first transcript, if there is one.
        "language": [(u.heard.transcript or nothing).get("language") for u in utterances],
        "llm_text": [u and llm_answers.became(u) for u in packaged],
        "text": [clip.text for clip in clips],
        "text_source": [values.get(text_values.SOURCE) for values in texts],
        "normalised": [clip.normalised for clip in clips],
        "hypothesis": [clip.hypothesis for clip in clips],
        "word_times": [clip.words for clip in clips],
        "work_shard": [u and shard for u in packaged],
        **{name: [None] * len(utterances) for name in ("muted", *MUTED_COLUMNS)},
    }
    if job.transcribe.reference_words:
        aligned = [_reference_words(job, u) if u else nothing for u in packaged]
        for field in REFERENCE_WORDS:
            table[field.name] = [values.get(field.name) for values in aligned]
    if turns_kept(job):
        table["turns"] = _turns(view, packaged, clips)
    if strict and hidden.mutes(job):
        for row, u in enumerate(utterances):
            for name, value in _muted(job, shard, u).items() if u.muted else ():
                table[name][row] = value
    return table


def _of_audio(
    utterances: Sequence[FinalUtterance], packaged: Sequence[FinalUtterance | None]
) -> dict[str, list[object]]:
    """The columns that describe the PCM. A pending utterance (None in `packaged`) has its length
    and rate before resampling, and the recipe of its PCM in place of the hash."""
    audio = [_packed(u) if u else None for u in packaged]
    beside = [u.heard.beside if u else None for u in packaged]
    return {
        "num_samples": [
            u.cut.end - u.cut.start if pcm is None else pcm["num_samples"]
            for u, pcm in zip(utterances, audio, strict=True)
        ],
        "sample_rate": [
            u.cut.rate if pcm is None else pcm["rate"]
            for u, pcm in zip(utterances, audio, strict=True)
        ],
        "sha256": [
            u.cut.audio if pcm is None else pcm["sha256"]
            for u, pcm in zip(utterances, audio, strict=True)
        ],
        "blob": [pcm and pcm["blob"] for pcm in audio],
        "blob_offset": [pcm and pcm["offset"] for pcm in audio],
        # Of the enhanced clip, if both are packaged.
        "beside_blob": [clean and clean["blob"] for clean in beside],
        "beside_offset": [clean and clean["offset"] for clean in beside],
        "sha256_enhanced": [clean and clean["sha256"] for clean in beside],
        "audio_is": [
            pcm and ("enhanced" if pcm["audio"] == u.cut.enhanced else "original")
            for u, pcm in zip(utterances, audio, strict=True)
        ],
    }


def _turns(
    view: ShardView, packaged: Sequence[FinalUtterance | None], clips: Sequence[hidden.Texts]
) -> list[object]:
    """The turns of each clip with its published words; None for pending clips."""
    return [
        clip_turns.of(view, u, clip.words, _heard(u)["language"], _most(view.job, u) > 0)
        if u
        else None
        for u, clip in zip(packaged, clips, strict=True)
    ]


def _most(job: Job, u: FinalUtterance) -> int:
    return hidden.most_places(job, u.heard, str(u.texts["text"]))


def _heard(u: FinalUtterance) -> TranscriptRow:
    assert u.heard.transcript is not None
    return u.heard.transcript


def _packed(u: FinalUtterance) -> EnhancedRow:
    assert u.heard.packed is not None
    return u.heard.packed


def published(job: Job) -> Callable[[FinalUtterance], hidden.Texts]:
    """A function that gives an utterance's texts as they are published: masked, in
    `package.text_form`."""
    hides, form = hidden.hides(job), job.package.text_form

    def of(u: FinalUtterance) -> hidden.Texts:
        heard = _heard(u)
        unmasked, source = str(u.texts["text"]), str(u.texts[text_values.SOURCE])
        language = heard["language"]
        normalised = text_values.compared(job, u.heard, unmasked, source)
        clip = hidden.Texts(unmasked, normalised, heard["text"], heard.get("word_times"))
        most = 0
        if hides:
            most = _most(job, u)
            clip = hidden.texts(
                job, clip, language, most, lambda piece: scoring.normalise(piece, language or "")
            )
        if form == "llm_text" and u.llm_answer:
            text = hidden.shown(job, u.llm_answer["text"], language) or clip.text
        elif form == "normalised":
            spots = hidden.searched(job, unmasked, language, most)
            formed = hidden.masked(
                unmasked, spots, lambda piece: scoring.training_text(piece, language or "")
            )
            text = formed or clip.text
        else:
            return clip
        return replace(clip, text=text)

    return of


def _reference_words(job: Job, u: FinalUtterance) -> AnyRow:
    """The columns REFERENCE_WORDS: times of the words of the source's text, and the mean
    probability of their alignment."""
    if u.aligned is None:
        return {}
    rows = u.aligned.get("word_times") or ()
    probabilities = [p for p in reference_words.probabilities(u.aligned) if p is not None]
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
            pcm = muting.silenced(blobs.read(job.out, shard, clip), u.muted)
            columns = {**columns, name: blobs.sha256(pcm), stored: clip["sha256"]}
    return columns


def row_schema(job: Job) -> pa.Schema:
    """Columns of a row before the layout: published ones, measures, and where its PCM is stored."""
    fields = [
        published_columns.marked(job, field)
        for field in UTTERANCES
        if field.name not in LAYOUT_COLUMNS
    ]
    for columns in (enhanced.measures(job), text_values.text_columns(job.transcribe.verdicts)):
        for column, (unit, doc) in columns.items():
            fields.append(pa.field(column, pa.float64(), metadata={"doc": doc, "unit": unit}))
    fields += published_columns.fields(job)
    if job.transcribe.llm_text:
        doc = "what became of a language model's punctuation: taken, or why the text stayed"
        fields.append(pa.field("llm_text", pa.string(), metadata={"doc": doc, "unit": ""}))
    if job.transcribe.reference_words:  # a rule on text may have one of them, too
        measured = {field.name for field in fields}
        fields += [field for field in REFERENCE_WORDS if field.name not in measured]
    if recipe.enhancing(job):
        doc = "original or enhanced: which audio is packaged, whose hash is `sha256`"
        fields.append(pa.field("audio_is", pa.string(), metadata={"doc": doc, "unit": ""}))
    if hidden.mutes(job):
        doc = "samples of the clip that are silence in place of hidden words: first-end, …"
        fields.append(pa.field("muted", pa.string(), metadata={"doc": doc, "unit": ""}))
    if job.package.audio == "both":
        doc = "hash of the enhanced clip's PCM, whose length and rate are the same"
        fields.append(pa.field("sha256_enhanced", pa.string(), metadata={"doc": doc, "unit": ""}))
    if labels_kept(job):
        fields.append(LABELS_COLUMN)
    if turns_kept(job):
        fields.append(published_columns.marked(job, turns_column(job)))
    return pa.schema([*fields, *sources_of(job).items()])
