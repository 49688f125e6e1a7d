"""The outcomes of the utterances of one work shard, which depend on that shard alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from tasks import corpus, scoring
from tasks.accounting import ledger
from tasks.base import process_memory
from tasks.base.schema import LEDGER, UTTERANCES, AnyRow
from tasks.corpus import outcome_table, voices
from tasks.publish.planned_columns import (
    LABELS_COLUMN,
    LAYOUT_COLUMNS,
    TURNS_COLUMN,
    labels_kept,
    sources_of,
    turns_kept,
)
from tasks.recording.tracks import channel_of
from tasks.settings.job import Job
from tasks.shard_store import (
    blobs,
    clip_turns,
    enhanced,
    hidden,
    llm_answers,
    muting,
    recipe,
    text_values,
)
from tasks.shard_store.shard_view import ShardView
from tasks.shard_store.utterance import FinalUtterance, Outcome

VERSION = 2  # raise it when the same checkpoints get other outcomes


class ShardOutcomes(NamedTuple):
    rows: pa.Table  # to package, or pending; `row_schema`
    ledger: pa.Table  # LEDGER
    utterances: pa.Table  # all, with their measures; `outcome_table.schema_of`
    heard: pa.Table  # what corpus-wide rules are based on; `corpus.ROW`
    voices: pa.Table  # what speakers over all recordings are based on; `voices.VOICES`


@process_memory.uncollected()
def of_shard(view: ShardView, strict: bool) -> ShardOutcomes:
    """Decide the outcomes of one shard.

    `strict` is for versions. What a run did not finish there, it could not: the file changed
    meanwhile. Otherwise it is pending, and `rows` has it as far as it is known.
    """
    job, shard = view.job, view.shard
    outcome, reason = ("failed", "changed") if strict else (ledger.PENDING, ledger.PENDING)
    utterances = []
    for utterance in view.transcribed():
        if strict and utterance.outcome.outcome == ledger.PENDING:
            stopped = Outcome(outcome, utterance.outcome.stage, reason)
            utterance = replace(utterance, outcome=stopped)
        utterances.append(utterance)
    computed = (*text_values.DERIVED, *text_values.text_columns(job.transcribe.verdicts))
    rows = [
        _row(view, u, computed, strict) if u.outcome.outcome == "packaged" else _pending_row(u)
        for u in utterances
        if u.outcome.outcome in ("packaged", ledger.PENDING)
    ]
    heard = corpus.rows(job, shard, utterances) if corpus.takes_part(job) else []
    spoken = voices.rows(view) if recipe.across_recordings(job) is not None else []
    return ShardOutcomes(
        pa.Table.from_pylist(rows, schema=row_schema(job)),
        pa.Table.from_pylist(
            ledger.of_shard(view, utterances, Outcome(outcome, "filter", reason)), schema=LEDGER
        ),
        outcome_table.of_utterances(job, utterances, view.with_stored_text(utterances)),
        pa.Table.from_pylist(heard, schema=corpus.ROW),
        pa.Table.from_pylist(spoken, schema=voices.VOICES),
    )


#: Columns of a packaged row that are those of its transcript.
HEARD = (
    *("language", "language_probability", "avg_logprob", "no_speech_probability"),
    *("compression_ratio", "words", "word_errors", "chars", "char_errors"),
    *("detected_language", "detected_probability"),
    *("speech_seconds", "speech_after_text"),
)


def _row(view: ShardView, u: FinalUtterance, computed: Sequence[str], strict: bool) -> AnyRow:
    job, shard = view.job, view.shard
    assert u.heard.packed is not None
    assert u.heard.transcript is not None
    unmasked, source = text_values.final_text(job, u.heard)
    heard, clean = u.heard.transcript, u.heard.beside
    language = heard["language"]
    normalised = text_values.compared(job, u.heard, unmasked, source)
    clip = hidden.Texts(unmasked, normalised, heard["text"], heard.get("word_times"))
    clip = hidden.texts(job, clip, language, lambda piece: scoring.normalise(piece, language or ""))
    text = clip.text
    if job.package.text_form == "llm_text" and u.llm_answer:
        text = hidden.shown(job, u.llm_answer["text"], language) or text
    elif job.package.text_form == "normalised":
        spots = hidden.places(job, unmasked, language)
        formed = hidden.masked(
            unmasked, spots, lambda piece: scoring.training_text(piece, language or "")
        )
        text = formed or text
    return {
        **u.heard.measures,
        **{name: heard.get(name) for name in HEARD},
        **{name: u.texts[name] for name in computed},
        **_pending_row(u),
        "llm_text": llm_answers.became(u),
        "num_samples": u.heard.packed["num_samples"],
        "sample_rate": u.heard.packed["rate"],
        "text": text,
        "text_source": source,
        "normalised": clip.normalised,
        "hypothesis": clip.hypothesis,
        "word_times": clip.words,
        **({"turns": clip_turns.of(view, u.cut, clip.words, language)} if turns_kept(job) else {}),
        "sha256": u.heard.packed["sha256"],
        "work_shard": shard,
        "blob": u.heard.packed["blob"],
        "blob_offset": u.heard.packed["offset"],
        # Of the enhanced clip, where both are packaged.
        "beside_blob": clean["blob"] if clean else None,
        "beside_offset": clean["offset"] if clean else None,
        "sha256_enhanced": clean["sha256"] if clean else None,
        **(_muted(job, shard, u) if strict and u.muted else {}),
        "audio_is": "enhanced" if u.heard.packed["audio"] == u.cut.enhanced else "original",
    }


def _muted(job: Job, shard: str, u: FinalUtterance) -> AnyRow:
    """Columns of a clip of which words are muted: its hash is that of what is published."""
    columns: AnyRow = {"muted": u.muted}
    names = ("sha256", "stored_sha256"), ("sha256_enhanced", "beside_sha256")
    for clip, (name, stored) in zip((u.heard.packed, u.heard.beside), names, strict=True):
        if clip is not None:
            pcm = muting.silenced(blobs.read(job.out, shard, clip), u.muted)
            columns = {**columns, name: blobs.sha256(pcm), stored: clip["sha256"]}
    return columns


def _pending_row(u: FinalUtterance) -> AnyRow:
    """What the choice of clips goes by, of an utterance that is still to be heard."""
    transcript = u.heard.transcript
    return {
        "id": u.cut.id,
        "source_id": u.cut.source_id,
        "dataset": u.cut.recording["dataset"],
        "split": "train",
        "recording": u.cut.recording["recording"],
        "source_path": u.cut.recording["source_path"],
        "channel": channel_of(u.cut.recording),
        "start": u.cut.start / u.cut.rate,
        "end": u.cut.end / u.cut.rate,
        "num_samples": u.cut.end - u.cut.start,
        "sample_rate": u.cut.rate,
        "speaker": u.cut.speaker,
        "labels": u.cut.labels,
        "language": transcript["language"] if transcript else None,
        "sha256": u.cut.audio,
    }


def row_schema(job: Job) -> pa.Schema:
    """Columns of a row before the layout: the published ones, the measures, where its PCM is."""
    fields = [field for field in UTTERANCES if field.name not in LAYOUT_COLUMNS]
    for columns in (enhanced.measures(job), text_values.text_columns(job.transcribe.verdicts)):
        for column, (unit, doc) in columns.items():
            fields.append(pa.field(column, pa.float64(), metadata={"doc": doc, "unit": unit}))
    if job.transcribe.llm_text:
        doc = "what became of a language model's punctuation: taken, or why the text stayed"
        fields.append(pa.field("llm_text", pa.string(), metadata={"doc": doc, "unit": ""}))
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
        fields.append(TURNS_COLUMN)
    return pa.schema([*fields, *sources_of(job).items()])
