"""Every column of every table: name, type, unit and meaning. `uttermill schema` prints them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

Row = dict[str, Any]  # of any of these tables, by column


def _field(name: str, kind: pa.DataType, doc: str, unit: str = "") -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc, "unit": unit})


def about(field: pa.Field) -> tuple[str, str]:
    """(unit, meaning) of a column."""
    told = field.metadata or {}
    return told.get(b"unit", b"").decode(), told.get(b"doc", b"").decode()


S, I64, F64 = pa.string(), pa.int64(), pa.float64()

#: When a word is said by the source, in seconds of the recording.
TIMED_WORD = pa.struct([("word", S), ("start", F64), ("end", F64)])

SEGMENT = pa.struct(
    [
        ("start", F64),
        ("end", F64),
        ("source_id", S),
        ("text", S),
        ("speaker", S),
        ("language", S),
        ("words", pa.list_(TIMED_WORD)),
    ]
)

#: When a word was heard, in seconds of the utterance.
WORD = pa.struct([("word", S), ("start", F64), ("end", F64), ("probability", F64)])

#: Damage of a recording: `start` to `end`, samples at native rate; `shifts`: what follows has a
#: wrong time.
FAULT = pa.struct([("start", I64), ("end", I64), ("what", S), ("shifts", pa.bool_())])

STATED_TURN = pa.struct([("start", F64), ("end", F64), ("speaker", S)])

#: One row a recording; the newest part of a shard is the shard as it is now.
RECORDINGS = pa.schema(
    [
        _field("recording", S, "dataset name and path in it; identifies the recording"),
        _field("dataset", S, "name of its source"),
        _field("path", S, "path inside the dataset"),
        _field("source_path", S, "original path, for people"),
        _field("locator", S, "where its bytes lie, as JSON"),
        _field("size", I64, "encoded size", "bytes"),
        _field("guard", S, "size, mtime in ns and inode when it was hashed"),
        _field("listed", S, "hash of what the source says of it"),
        _field("content", S, "sha256 of the encoded bytes; null when it cannot be read"),
        _field("header_rate", I64, "sample rate by header", "Hz"),
        _field("header_channels", I64, "channels by header"),
        _field("header_seconds", F64, "duration by header; never summed", "s"),
        _field("format", S, "container/codec"),
        _field("source_id", S, "the source's own key"),
        _field("text", S, "reference text of the whole recording"),
        _field("speaker", S, "speaker of the whole recording"),
        _field("language", S, "language that the source states"),
        _field("segments", pa.list_(SEGMENT), "spans that the source asks for"),
        _field("rttm", pa.list_(STATED_TURN), "who speaks when, by an RTTM file", "s"),
        _field("rttm_error", S, "why that file is no use"),
        _field("error_code", S, "why it is quarantined already here"),
        _field("error_detail", S, "the same in words"),
        _field("present", pa.bool_(), "was in the source at the last listing"),
    ]
)

TURN = pa.struct(
    [
        ("start", I64),
        ("end", I64),
        ("speaker", I64),
        ("name", S),
        ("confidence", F64),
        ("voice", pa.binary()),
    ]
)

#: One row a recording (kind `recording`) and one a span of it. Items of the filter stage.
CUTS = pa.schema(
    [
        _field("cut", S, "recipe of the recording's cuts"),
        _field("recording", S, "dataset name and path in it"),
        _field("kind", S, "recording, utterance, non_speech, unsegmented, or turns"),
        _field("start", I64, "first sample", "samples at native rate"),
        _field("end", I64, "sample after the last", "samples at native rate"),
        _field("given", I64, "index of the source's segment"),
        _field("reason", S, "why an unsegmented span is none"),
        _field("rate", I64, "native sample rate", "Hz"),
        _field("channels", I64, "native channels"),
        _field("decoded", I64, "samples decoded (row `recording`)", "samples at native rate"),
        _field("decode_faults", I64, "faults of the recording (row `recording`)"),
        _field("faults", pa.list_(FAULT), "where they are", "samples at native rate"),
        _field("notes", pa.list_(S), "oddities of the recording that cost nothing"),
        _field("error_code", S, "why it is quarantined"),
        _field("error_detail", S, "the same in words"),
        _field("measures", pa.map_(S, F64), "measured columns of an utterance"),
        _field("prints", pa.map_(S, pa.binary()), "prints of an utterance, by filter"),
        _field("turn", I64, "index of the source's segment that it is a part of"),
        _field("text", S, "its part of the recording's text, where the segmenter found it"),
        _field("match", F64, "how well that agrees with what was heard, 0 to 1"),
        _field("voice", I64, "number of the speaker whose turn it was cut from"),
        _field("turns", pa.list_(TURN), "who speaks when (row `turns`)", "samples at native rate"),
    ]
)

#: One row an utterance whose PCM was made. Items of the resample stage.
AUDIO = pa.schema(
    [
        _field("audio", S, "recipe of the PCM"),
        _field("recording", S, "dataset name and path in it"),
        _field("start", I64, "first sample", "samples at native rate"),
        _field("end", I64, "sample after the last", "samples at native rate"),
        _field("rate", I64, "sample rate of the PCM", "Hz"),
        _field("num_samples", I64, "length of the PCM", "samples"),
        _field("sha256", S, "hash of the int16 little-endian PCM"),
        _field("blob", S, "file in audio/<shard>/ that holds it"),
        _field("offset", I64, "where it starts in the blob", "bytes"),
        _field("error_code", S, "why it is quarantined"),
        _field("error_detail", S, "the same in words"),
    ]
)

#: The same with rows of enhanced PCM.
ENHANCED = AUDIO.append(
    _field("measures", pa.map_(S, F64), "DNSMOS before and after, of an enhanced clip")
)

#: What a recogniser says about its own transcript.
_SCORES = (
    _field("avg_logprob", F64, "mean log-probability", "nats per token"),
    _field("no_speech_probability", F64, "probability of no speech"),
    _field("compression_ratio", F64, "bytes of text / bytes compressed"),
    _field("detected_language", S, "language that the recogniser detects by itself"),
    _field("detected_probability", F64, "probability of that language"),
)

#: One row an utterance that was heard. Items of the transcribe stage.
TRANSCRIPTS = pa.schema(
    [
        _field("transcript", S, "recipe of the transcript"),
        _field("audio", S, "recipe of the PCM that was heard"),
        _field("raw_text", S, "what the recogniser heard, as it gave it"),
        _field("text", S, "the same clean: NFC, no control characters, single spaces"),
        _field("normalised", S, "the same as it is compared, by the rule of `scoring`"),
        _field("language", S, "language heard or forced"),
        _field("language_probability", F64, "probability of that language; null when forced"),
        *_SCORES,
        _field("speech_seconds", F64, "speech that the voice detector finds in the clip", "s"),
        _field("speech_after_text", F64, "the part of it behind the last word", "s"),
        _field("word_times", pa.list_(WORD), "words of `raw_text`; null: not asked for", "s"),
        _field("reference", S, "the source's text, clean, that errors were counted against"),
        _field("reference_normalised", S, "the same as it is compared"),
        _field("words", I64, "words of the reference"),
        _field("word_errors", I64, "substitutions, deletions and insertions of words"),
        _field("chars", I64, "characters of the reference"),
        _field("char_errors", I64, "the same for characters"),
        _field("scoring", S, "version of the rules of comparison, and language that chose one"),
        _field("error_code", S, "why it is quarantined"),
        _field("error_detail", S, "the same in words"),
    ]
)

#: One row for every span of every recording; an undecodable recording is one row of 0 seconds.
LEDGER = pa.schema(
    [
        _field("recording", S, "dataset name and path in it"),
        _field("source_path", S, "original path"),
        _field("dataset", S, "name of the source"),
        _field("utterance", S, "id, where the span is an utterance"),
        _field("start", F64, "start of the span", "s"),
        _field("end", F64, "end of the span", "s"),
        _field("samples", I64, "samples that this row accounts for", "samples at native rate"),
        _field("seconds", F64, "the same as time", "s"),
        _field("overlap_samples", I64, "samples that an earlier row accounts for", "samples"),
        _field("sample_rate", I64, "native sample rate", "Hz"),
        _field("outcome", S, "packaged, dropped, failed, non_speech or unsegmented"),
        _field("stage", S, "stage that decided"),
        _field("reason", S, "stable code"),
        _field("value", F64, "measured value that decided"),
        _field("threshold", F64, "limit that it broke"),
        _field("detail", S, "in words"),
        _field("language", S, "language heard or stated"),
    ]
)

#: The tables of a version, each a file or a folder of parts.
UTTERANCES_FILE, LEDGER_FILE = "utterances.parquet", "ledger.parquet"

#: One row a packaged utterance; the measures follow as columns of their own.
UTTERANCES = pa.schema(
    [
        _field("id", S, "unique in the version, stable across runs, [A-Za-z0-9_-]+"),
        _field("source_id", S, "the source's own key"),
        _field("dataset", S, "name of its source"),
        _field("split", S, "train, dev or test"),
        _field("recording", S, "dataset name and path in it"),
        _field("source_path", S, "original path"),
        _field("start", F64, "start in the recording", "s"),
        _field("end", F64, "end in the recording", "s"),
        _field("num_samples", I64, "length", "samples at sample_rate"),
        _field("sample_rate", pa.int32(), "rate of the packaged audio", "Hz"),
        _field("text", S, "the text to train on: NFC, no control characters, single spaces"),
        _field(
            "normalised", S, "the same as it is compared: case, punctuation, numbers in one form"
        ),
        _field("text_source", S, "reference or asr"),
        _field("hypothesis", S, "what the recogniser heard, clean like `text`"),
        _field("language", S, "language heard or forced"),
        _field("language_probability", F64, "probability of that language"),
        *_SCORES,
        _field("language_vote", F64, "certainty of its language over the whole recording", "1"),
        _field("speech_seconds", F64, "speech that the voice detector finds in the clip", "s"),
        _field("speech_after_text", F64, "the part of it behind the last word", "s"),
        _field("words_per_speech_second", F64, "words heard in a second of that speech", "1/s"),
        _field("word_times", pa.list_(WORD), "words of `hypothesis`; null: not asked for", "s"),
        _field("words", I64, "words of the reference"),
        _field("word_errors", I64, "word errors against the reference"),
        _field("chars", I64, "characters of the reference"),
        _field("char_errors", I64, "character errors against the reference"),
        _field("speaker", S, "speaker that the source states"),
        _field("shard", S, "tar that holds it, relative to the version"),
        _field("generation", pa.int32(), "version that laid out this tar"),
        _field("offset", I64, "where its first member's header starts in the tar", "bytes"),
        _field("sha256", S, "hash of the int16 little-endian PCM"),
    ]
)

#: One row for each speaker, recording and PCM that was ever on a side; only where splits are asked
#: for. A speaker is named with its dataset: `dataset/speaker`.
SPLITS = pa.schema(
    [
        _field("kind", S, "speaker, recording or pcm"),
        _field("name", S, "its name; of PCM the sha256"),
        _field("split", S, "the split where it stays"),
    ]
)

#: One row for each person whom a diarizer tells apart in a recording, also of recordings that are
#: gone; only where speakers are linked over recordings.
SPEAKERS = pa.schema(
    [
        _field("speaker", S, "who it is, over all recordings: `speaker` of the utterances"),
        _field("recording", S, "dataset name and path in it"),
        _field("number", pa.int32(), "number of the person in the recording, from 1"),
        _field("content", S, "sha256 of the recording's encoded bytes"),
        _field("seconds", F64, "that the person speaks there", "s"),
    ]
)

#: One row for each call of a run to a worker: a stage of a shard, a piece of the package, a batch
#: of the listing. In OUT/runs/<id>/metrics.parquet, never in a dataset.
METRICS = pa.schema(
    [
        _field("stage", S, "shard, filter, resample, transcribe or package"),
        _field("step", S, "run; probe of the listing; the steps of the package"),
        _field("shard", S, "shard; or the numbers of a piece or of a batch"),
        _field("kind", S, "kind of worker asked for: CPU or GPU"),
        _field("worker", S, "name of the worker; empty: the flow's own process"),
        _field("host", S, "its machine"),
        _field("pid", I64, "its process"),
        _field("started", pa.timestamp("us", tz="UTC"), "begin there, by that machine's clock"),
        _field("queue_seconds", F64, "from when it was asked for until it began", "s"),
        _field("wall_seconds", F64, "time there; null: it never came back", "s"),
        _field("cpu_seconds", F64, "CPU time there: all threads, and child processes", "s"),
        _field("load_seconds", F64, "part of the wall time that a model took to load", "s"),
        _field("audio_seconds", F64, "audio of what was computed; null for the package", "s"),
        _field("items_computed", I64, "items that were computed"),
        _field("items_reused", I64, "items that were there"),
        _field("rss_before", I64, "resident memory of the process when it began", "bytes"),
        _field("rss_peak", I64, "the most resident memory meanwhile", "bytes"),
        _field("attempts", pa.int32(), "how often it was handed out"),
        _field("deaths", pa.int32(), "attempts that ended with their worker"),
        _field("lost_seconds", F64, "what those took", "s"),
        _field("isolated", pa.bool_(), "its items ran one by one"),
        _field("gpu", S, "GPU that the process saw first; null: none"),
        _field("gpu_percent", F64, "mean share of time in which the GPU was busy", "%"),
        _field("gpu_memory", I64, "the most memory in use on the GPU, by anyone", "bytes"),
        _field("error", S, "what it raised, if it did"),
    ]
)

TABLES = {
    "recordings": RECORDINGS,
    "cuts": CUTS,
    "audio": ENHANCED,
    "transcripts": TRANSCRIPTS,
    "ledger": LEDGER,
    "utterances": UTTERANCES,
    "splits": SPLITS,
    "speakers": SPEAKERS,
    "metrics": METRICS,
}
