"""The columns of `utterances.parquet`: what each one's values come from, and which settings add it.

`base.schema.rows` declares names, types, units and meanings: `UtteranceRow` the columns that every
version has, `AddedRow` those that settings add. So a new column is a line there and a key of a row
here, and, if settings add it, an entry of ADDED_BY. Measures and annotations come from plug-ins.

The metadata of an annotation's column are `annotation` (its kind), `rate` (of an array), and
`published` if formats hold the column, too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import plugins, scoring
from ..base.errors import ConfigError
from ..base.logs import log
from ..base.schema import (
    ADDED,
    LABELLED_TURN,
    REFERENCE_WORDS,
    UTTERANCES,
    TranscriptRow,
    WordRow,
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
from ..shard_store.utterance import Utterance
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
Row = dict[str, Any]  # of one clip
#: Columns that exist without `package.publish`, and their names there; `turns` only if clips hold
#: several turns.
PRESENT = {"word_times": WORDS, "turns": "turns"}


def row_schema(job: Job) -> pa.Schema:
    """The columns of a row before the layout, with those that say where its PCM is stored."""
    fields = [marked(job, field) for field in UTTERANCES if field.name not in LAYOUT_COLUMNS]
    # Voices that are compared with no example give no measure; see `package.leaks_by_voice`.
    is_alone = Plugin(use="voice") in job.filter.filters
    empty = plugins.columns("filters", "voice") if is_alone else {}
    for columns in (enhanced.measures(job), text_values.text_columns(job.transcribe.verdicts)):
        for column, (unit, doc) in columns.items():
            if column not in empty:
                about = {"doc": doc, "unit": unit}
                fields.append(pa.field(column, pa.float64(), metadata=about))
    fields += annotation_fields(job)
    if job.transcribe.reference_words:
        measured = {field.name for field in fields}
        fields += [field for field in REFERENCE_WORDS if field.name not in measured]
    for field in ADDED:
        if ADDED_BY[field.name](job):
            if field.name == "turns" and labels_kept(job):  # a source keeps labels of each turn
                field = field.with_type(pa.list_(LABELLED_TURN))
            fields.append(marked(job, field))
    return pa.schema([*fields, *sources_of(job).items()])


def sources_of(job: Job) -> dict[str, pa.DataType]:
    """The columns of a row that say where its PCM is stored, and their types; not published."""
    beside = BESIDE_COLUMNS if job.package.audio == "both" else {}
    beside = beside | (SIDE_COLUMNS if requests.writes_sides(job) else {})
    return SOURCE_COLUMNS | beside | (MUTED_COLUMNS if hidden.mutes(job) else {})


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


#: Columns that are copied from a clip's transcript, unless a rule on text gives them.
HEARD = (
    *("language_probability", "avg_logprob", "no_speech_probability", "compression_ratio"),
    *("words", "word_errors", "chars", "char_errors", "detected_language", "detected_probability"),
    *("speech_seconds", "speech_after_text"),
)
#: The columns of the clips beside a packaged one: the enhanced one, and both channels.
BESIDE = ("sha256_enhanced", "beside_blob", "beside_offset")
LEFT = ("sha256_left", "left_blob", "left_offset")
RIGHT = ("sha256_right", "right_blob", "right_offset")


def rows_of(view: ShardView, utterances: Sequence[Utterance], facts: pa.Table) -> pa.Table:
    """The rows (`row_schema`) of utterances that are packaged or pending; of pending ones, only the
    columns by which clips are chosen. `facts`: what limits may ask of them, with all measures."""
    job, by_text = view.job, text_values.text_columns(view.job.transcribe.verdicts)
    measured = {*text_values.DERIVED, *by_text, *enhanced.measures(job)}
    measured |= {field.name for field in annotated.label_fields(job)}
    copied = [name for name in HEARD if name not in by_text]
    hides, talks, declared = hidden.hides(job), turns_kept(job), annotated.of_job(job)
    spoken, voices = _spoken(job), dict[str, dict[str, bytes]]()
    rows, packaged = list[Row](), list[bool]()
    for u in utterances:
        row = _of_cut(view.shard, u)
        packaged.append(u.outcome.outcome == "packaged")
        if packaged[-1]:
            row |= zip(copied, map(_heard(u).get, copied), strict=True)
            row |= _of_pcm(view, u)
            row |= _of_texts(view, u, hides, talks)
            row |= _annotations(view, u, declared, spoken, voices)
        rows.append(row)
    schema, columns, kept = row_schema(job), [], pa.array(packaged, pa.bool_())
    for field in schema:
        if field.name in measured:
            nothing = pa.scalar(None, field.type)
            columns.append(pc.if_else(kept, facts[field.name], nothing))
        else:
            columns.append(pa.array(tables.column(rows, field.name), field.type))
    return pa.table(columns, schema=schema)


def _of_cut(shard: str, u: Utterance) -> Row:
    """What is known once an utterance is cut, so that pending ones have it, too: with their length
    and rate before resampling, and the recipe of their PCM."""
    recording, row = u.recording, u.transcript
    late = recording.get("start_seconds")
    return {
        "id": u.id,
        "source_id": u.source_id,
        "dataset": recording["dataset"],
        "split": "train",  # until splits are assigned
        "recording": recording["recording"],
        "source_path": recording["source_path"],
        "channel": channel_of(recording),
        "start": u.start / u.rate,
        "end": u.end / u.rate,
        "start_seconds": None if late is None else round(u.start / u.rate + late, 6),
        "speaker": u.speaker,
        "language": row and row["language"],  # a pending utterance may have a first transcript
        "num_samples": u.end - u.start,
        "sample_rate": u.rate,
        "sha256": u.audio,
        "work_shard": shard if u.outcome.outcome == "packaged" else None,
        "labels": u.labels,
        SECOND_LANGUAGE: u.second(SECOND_LANGUAGE),
    }


def _of_pcm(view: ShardView, u: Utterance) -> Row:
    """Where the PCM of a packaged clip and of those beside it is, and what it holds."""
    row: Row = {}
    if (pcm := u.packed) is not None:
        is_enhanced = pcm["audio"] == u.enhanced
        row |= {"num_samples": pcm["num_samples"], "sample_rate": pcm["rate"]}
        row |= {"sha256": pcm["sha256"], "blob": pcm["blob"], "blob_offset": pcm["offset"]}
        row["audio_is"] = "enhanced" if is_enhanced else "original"
    left, right = u.sides or (None, None)
    for clip, names in ((u.beside, BESIDE), (left, LEFT), (right, RIGHT)):
        if clip:
            row |= zip(names, map(clip.get, ("sha256", "blob", "offset")), strict=True)
    if not u.muted:
        return row
    # `sha256` is the hash of the published PCM; MUTED_COLUMNS have those of the stored PCM.
    hashes = ("sha256", "stored_sha256"), ("sha256_enhanced", "beside_sha256")
    for clip, (name, stored) in zip((pcm, u.beside), hashes, strict=True):
        if clip is not None:
            silenced = hidden.silenced(blobs.read(view.job.out, view.shard, clip), u.muted)
            row |= {name: blobs.sha256(silenced), stored: clip["sha256"]}
    return row | {"muted": u.muted}


def _of_texts(view: ShardView, u: Utterance, hides: bool, talks: bool) -> Row:
    """Its texts; `hides`: whether the job masks any; `talks`: whether clips hold several turns."""
    job, language = view.job, _heard(u)["language"]
    most = hidden.most_places(job, u, str(u.texts["text"])) if hides else 0
    aligned = _reference_words(job, u, most)
    clip = _published(job, u, hides, most, aligned.get("reference_words") or ())
    row: Row = {
        "text": clip.text,
        text_values.SOURCE: u.texts[text_values.SOURCE],
        "normalised": clip.normalised,
        "hypothesis": clip.hypothesis,
        "word_times": clip.words,
        "llm_text": u.rewritten and (u.rewritten["error_code"] or "taken"),
        **(aligned if job.transcribe.reference_words else {}),
    }
    if second_text := u.second(SECOND_TEXT):  # in which as much is hidden
        row[SECOND_TEXT] = hidden.shown(job, second_text, u.second(SECOND_LANGUAGE), most)
    if talks:
        row["turns"] = clip_turns.labelled(view, u, clip.words, language, most > 0)
    return row


def _heard(u: Utterance) -> TranscriptRow:
    assert u.transcript is not None
    return u.transcript


def _published(
    job: Job, u: Utterance, hides: bool, most: int, aligned: Sequence[WordRow]
) -> hidden.Texts:
    """An utterance's texts as they are published: masked if the job `hides` anything (`most`: see
    `hidden.most_places`), in `package.text_form`, with `package.text_marks`. `aligned`: the words
    of the source's text, if their times are known."""
    heard, form = _heard(u), job.package.text_form
    unmasked, source = str(u.texts["text"]), str(u.texts[text_values.SOURCE])
    language = heard["language"]
    normalised = text_values.compared(job, u, unmasked, source)
    clip = hidden.Texts(unmasked, normalised, heard["text"], heard.get("word_times"))
    if hides:
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
        words = aligned if by_source else clip.words or ()
        text = text_marks.marked(job, u, text or "", words, by_source)
    return clip if text == clip.text else clip._replace(text=text)


def _reference_words(job: Job, u: Utterance, most: int) -> Row:
    """The columns REFERENCE_WORDS: times of the words of the source's text, and the mean
    probability of their alignment."""
    if u.aligned is None:
        return {}
    rows = u.aligned.get("word_times") or ()
    probabilities = [row["probability"] for row in rows if row["probability"] is not None]
    words = hidden.words(job, rows or None, u.aligned.get("language"), most > 0)
    sure = sum(probabilities) / len(probabilities) if probabilities else None
    return {"reference_words": words, "reference_confidence": sure}


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


def _annotations(
    view: ShardView,
    u: Utterance,
    declared: Iterable[annotated.Declared],
    spoken: Sequence[str],
    voices: dict[str, dict[str, bytes]],
) -> Row:
    """The values of a clip's annotations, except filters' labels, which are stored as measures.
    `spoken`: those by a diarizer's turns; `voices`: of recordings, as far as they were asked
    for."""
    values: Row = {}
    for one in declared:
        if one.kind.large and one.name in view.job.package.publish:
            values[one.name] = annotated.value_of(one, u)
        elif one.shelf == "text" and not one.kind.large:
            values[one.name] = u.texts.get(one.name)
    if "turns" in spoken:
        values["turns"] = _turns(view, u)
    if "speaker_embedding" in spoken and u.voice:
        recording = u.recording
        if recording["recording"] not in voices:
            turned = view.turned(recording)[1] or ()
            voices[recording["recording"]] = {
                turns.name_of((), row["number"] - 1, recording["path"]): row["vector"]
                for row in identities.voices_of_turns(recording, turned, u.rate)
            }
        if vector := voices[recording["recording"]].get(u.voice):
            values["speaker_embedding"] = np.frombuffer(vector, "<f2").astype(np.float32)
    return values


def _turns(view: ShardView, u: Utterance) -> list[dict[str, object]] | None:
    """Turns within a clip, in s from its start; None if the recording has none."""
    spoken = view.turned(u.recording)[1]
    if spoken is None:
        return None
    path, rate = u.recording["path"], u.rate
    return [
        Event(turn.start / rate, turn.end / rate, name)._asdict()
        for turn in turns.within(spoken, u.start, u.end)
        for name in [turns.name_of([turn], turn.speaker, path)]
    ]
