"""The columns of every table: of a shard's checkpoints, of a published version, of metrics."""

from __future__ import annotations

import pyarrow as pa


def column(name: str, kind: pa.DataType, doc: str, unit: str = "") -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc, "unit": unit})


def about(field: pa.Field) -> tuple[str, str]:
    """(unit, meaning) of a column."""
    metadata = field.metadata or {}
    return metadata.get(b"unit", b"").decode(), metadata.get(b"doc", b"").decode()


def published(schema: pa.Schema) -> list[str]:
    """The columns of a version's rows that `package.publish` names: formats with free fields hold
    them beside those that they ask for."""
    return [field.name for field in schema if b"published" in (field.metadata or {})]


S, I64, F64 = pa.string(), pa.int64(), pa.float64()

#: When a word is said by the source, in seconds of the recording.
TIMED_WORD = pa.struct([("word", S), ("start", F64), ("end", F64)])

LABELS = pa.map_(S, S)  # that a source states, by name

SEGMENT = pa.struct(
    [
        ("start", F64),
        ("end", F64),
        ("source_id", S),
        ("text", S),
        ("speaker", S),
        ("language", S),
        ("words", pa.list_(TIMED_WORD)),
        ("labels", LABELS),
    ]
)

#: When a word was heard, in seconds of the utterance.
WORD = pa.struct([("word", S), ("start", F64), ("end", F64), ("probability", F64)])

#: A turn of a clip that holds several: seconds of the clip, and words as in WORD.
CLIP_TURN = pa.struct(
    [
        ("speaker", S),
        ("number", I64),
        ("start", F64),
        ("end", F64),
        ("backchannel", pa.bool_()),
        ("text", S),
        ("words", pa.list_(WORD)),
    ]
)

#: Damage of a recording: `start` to `end`, samples at native rate; `shifts`: what follows has a
#: wrong time.
FAULT = pa.struct([("start", I64), ("end", I64), ("what", S), ("shifts", pa.bool_())])

STATED_TURN = pa.struct([("start", F64), ("end", F64), ("speaker", S), ("channel", pa.int32())])

TURN = pa.struct(
    [
        ("start", I64),
        ("end", I64),
        ("speaker", I64),
        ("name", S),
        ("confidence", F64),
        ("voice", pa.binary()),
        ("both", pa.binary()),
    ]
)

#: What a recogniser says about its own transcript.
SCORES = (
    column("avg_logprob", F64, "mean log-probability", "nats per token"),
    column("no_speech_probability", F64, "probability of no speech"),
    column("compression_ratio", F64, "bytes of text / bytes compressed"),
    column("detected_language", S, "language that the recogniser detects by itself"),
    column("detected_probability", F64, "probability of that language"),
)


#: One row a recording; the newest part of a shard is the shard as it is now.
RECORDINGS = pa.schema(
    [
        column("recording", S, "dataset name and path in it; identifies the recording"),
        column("dataset", S, "name of its source"),
        column("path", S, "path inside the dataset"),
        column("source_path", S, "original path, for people"),
        column("locator", S, "where its bytes lie, as JSON"),
        column("size", I64, "encoded size", "bytes"),
        column("guard", S, "size, mtime in ns and inode when it was hashed"),
        column("listed", S, "hash of what the source says of it"),
        column("content", S, "sha256 of the encoded bytes; null when it cannot be read"),
        column("header_rate", I64, "sample rate by header", "Hz"),
        column("header_channels", I64, "channels by header"),
        column("header_seconds", F64, "duration by header; never summed", "s"),
        column("format", S, "container/codec"),
        column("channels", pa.list_(pa.int32()), "channels that are heard, from 0; null: all"),
        column("parts", pa.int32(), "recordings that its file was divided into; null: it is whole"),
        column("division", S, "whether its channels hold different voices, in words"),
        column("copy_of", S, "recording of the same bytes that is processed instead; null: none"),
        column("source_id", S, "the source's own key"),
        column("text", S, "reference text of the whole recording"),
        column("speaker", S, "speaker of the whole recording"),
        column("language", S, "language that the source states"),
        column("labels", LABELS, "labels of the whole recording; null: none"),
        column("segments", pa.list_(SEGMENT), "spans that the source asks for"),
        column("length", F64, "from its start, that the source asks for; null: all of it", "s"),
        column("rttm", pa.list_(STATED_TURN), "who speaks when, by an RTTM file", "s"),
        column("rttm_error", S, "why that file is no use"),
        column("error_code", S, "why it is quarantined already here"),
        column("error_detail", S, "the same in words"),
        column("present", pa.bool_(), "was in the source at the last listing"),
    ]
)
#: One row a recording (kind `recording`) and one a span of it. Items of the filter stage.
CUTS = pa.schema(
    [
        column("cut", S, "recipe of the recording's cuts"),
        column("recording", S, "dataset name and path in it"),
        column("kind", S, "recording, utterance, non_speech, unsegmented, or turns"),
        column("start", I64, "first sample", "samples at native rate"),
        column("end", I64, "sample after the last", "samples at native rate"),
        column("given", I64, "index of the source's segment"),
        column("reason", S, "why an unsegmented span is none"),
        column("rate", I64, "native sample rate", "Hz"),
        column("channels", I64, "native channels"),
        column("decoded", I64, "samples decoded (row `recording`)", "samples at native rate"),
        column("decode_faults", I64, "faults of the recording (row `recording`)"),
        column("faults", pa.list_(FAULT), "where they are", "samples at native rate"),
        column("notes", pa.list_(S), "oddities of the recording that cost nothing"),
        column("error_code", S, "why it is quarantined"),
        column("error_detail", S, "the same in words"),
        column("measures", pa.map_(S, F64), "measured columns of an utterance"),
        column(
            "prints",
            pa.map_(S, pa.binary()),
            "annotations by filter/name, fingerprints by filter",
        ),
        column("turn", I64, "index of the source's segment that it is a part of"),
        column("text", S, "its part of the recording's text, where the segmenter found it"),
        column("match", F64, "how well that agrees with what was heard, 0 to 1"),
        column("voice", I64, "number of the speaker whose turn it was cut from"),
        column("turns", pa.list_(TURN), "who speaks when (row `turns`)", "samples at native rate"),
    ]
)

#: One row an utterance whose PCM was made. Items of the resample stage.
AUDIO = pa.schema(
    [
        column("audio", S, "recipe of the PCM"),
        column("recording", S, "dataset name and path in it"),
        column("start", I64, "first sample", "samples at native rate"),
        column("end", I64, "sample after the last", "samples at native rate"),
        column("rate", I64, "sample rate of the PCM", "Hz"),
        column("num_samples", I64, "length of the PCM", "samples"),
        column("sha256", S, "hash of the int16 little-endian PCM"),
        column("blob", S, "file in audio/<shard>/ that holds it"),
        column("offset", I64, "where it starts in the blob", "bytes"),
        column("error_code", S, "why it is quarantined"),
        column("error_detail", S, "the same in words"),
    ]
)

#: The same with rows of enhanced PCM.
ENHANCED = AUDIO.append(
    column("measures", pa.map_(S, F64), "DNSMOS before and after, of an enhanced clip")
)

#: One row an utterance that was heard. Items of the transcribe stage.
TRANSCRIPTS = pa.schema(
    [
        column("transcript", S, "recipe of the transcript"),
        column("audio", S, "recipe of the PCM that was heard"),
        column("raw_text", S, "what the recogniser heard, as it gave it"),
        column("text", S, "the same clean: NFC, no control characters, single spaces"),
        column("normalised", S, "the same as it is compared, by the rule of `scoring`"),
        column("language", S, "language heard or forced"),
        column("language_probability", F64, "probability of that language; null when forced"),
        *SCORES,
        column("speech_seconds", F64, "speech that the voice detector finds in the clip", "s"),
        column("speech_after_text", F64, "the part of it behind the last word", "s"),
        column("speech_without_words", F64, "most of it in one stretch that no word covers", "s"),
        column("speech_without_words_start", F64, "where in the clip that stretch begins", "s"),
        column("word_times", pa.list_(WORD), "words of `raw_text`; null: not asked for", "s"),
        column("reference", S, "the source's text, clean, that errors were counted against"),
        column("reference_normalised", S, "the same as it is compared"),
        column("words", I64, "words of the reference"),
        column("word_errors", I64, "substitutions, deletions and insertions of words"),
        column("chars", I64, "characters of the reference"),
        column("char_errors", I64, "the same for characters"),
        column("scoring", S, "version of the rules of comparison, and language that chose one"),
        column("error_code", S, "why it is quarantined"),
        column("error_detail", S, "the same in words"),
    ]
)


#: One row for every span of every recording; an undecodable recording is one row of 0 seconds.
LEDGER = pa.schema(
    [
        column("recording", S, "dataset name and path in it"),
        column("source_path", S, "original path"),
        column("dataset", S, "name of the source"),
        column("utterance", S, "id, where the span is an utterance"),
        column("channel", pa.int32(), "channel of the file, from 0; null: the mix of all"),
        column("track", pa.int32(), "audio track of the file, from 0; null: the first"),
        column("start", F64, "start of the span", "s"),
        column("end", F64, "end of the span", "s"),
        column("samples", I64, "samples that this row accounts for", "samples at native rate"),
        column("seconds", F64, "the same as time", "s"),
        column("overlap_samples", I64, "samples that an earlier row accounts for", "samples"),
        column("sample_rate", I64, "native sample rate", "Hz"),
        column("outcome", S, "packaged, dropped, failed, non_speech or unsegmented"),
        column("stage", S, "stage that decided"),
        column("reason", S, "stable code"),
        column("value", F64, "measured value that decided"),
        column("threshold", F64, "limit that it broke"),
        column("detail", S, "in words"),
        column("language", S, "language heard or stated"),
    ]
)

#: Describes a version, names its files, and is its last one: a version exists once it does.
DATASET_FILE = "dataset.json"
#: The tables of a version, each a file or a folder of parts.
UTTERANCES_FILE, LEDGER_FILE = "utterances.parquet", "ledger.parquet"

#: One row a packaged utterance; the measures follow as columns of their own.
UTTERANCES = pa.schema(
    [
        column("id", S, "unique in the version, stable across runs, [A-Za-z0-9_-]+"),
        column("source_id", S, "the source's own key"),
        column("dataset", S, "name of its source"),
        column("split", S, "train, or another name in `package.splits`, such as dev or test"),
        column("recording", S, "dataset name and path in it"),
        column("source_path", S, "original path"),
        column("channel", pa.int32(), "channel of the file, from 0; null: the mix of all"),
        column("start", F64, "start in the recording", "s"),
        column("end", F64, "end in the recording", "s"),
        column("num_samples", I64, "length", "samples at sample_rate"),
        column("sample_rate", pa.int32(), "rate of the packaged audio", "Hz"),
        column("text", S, "the text to train on: NFC, no control characters, single spaces"),
        column(
            "normalised", S, "the same as it is compared: case, punctuation, numbers in one form"
        ),
        column("text_source", S, "reference or asr"),
        column("hypothesis", S, "what the recogniser heard, clean like `text`"),
        column("language", S, "language heard or forced"),
        column("language_probability", F64, "probability of that language"),
        *SCORES,
        column("language_vote", F64, "certainty of its language over the whole recording", "1"),
        column("speech_seconds", F64, "speech that the voice detector finds in the clip", "s"),
        column("speech_after_text", F64, "the part of it behind the last word", "s"),
        column("words_per_speech_second", F64, "words heard in a second of that speech", "1/s"),
        column("word_times", pa.list_(WORD), "words of `hypothesis`; null: not asked for", "s"),
        column("words", I64, "words of the reference"),
        column("word_errors", I64, "word errors against the reference"),
        column("chars", I64, "characters of the reference"),
        column("char_errors", I64, "character errors against the reference"),
        column("speaker", S, "who speaks, by the source, else as the diarizer tells voices apart"),
        column("shard", S, "tar that holds it, relative to the version"),
        column("generation", pa.int32(), "version that laid out this tar"),
        column("offset", I64, "where its first member's header starts in the tar", "bytes"),
        column("sha256", S, "hash of the int16 little-endian PCM"),
    ]
)

#: Columns of UTTERANCES where sources' texts are aligned with the audio.
REFERENCE_WORDS = (
    column("reference_words", pa.list_(WORD), "words of the source's text; null: not aligned", "s"),
    column("reference_confidence", F64, "how well that text fits: mean probability of its words"),
)

#: One row for each speaker, recording, PCM and, where texts are kept apart, text that was ever on a
#: side; only where splits are asked for. A speaker is named with its dataset: `dataset/speaker`.
SPLITS = pa.schema(
    [
        column("kind", S, "speaker, recording, pcm or text"),
        column("name", S, "its name; of PCM and of normalised texts the sha256"),
        column("split", S, "the split where it stays"),
    ]
)

#: One row for each person whom a diarizer tells apart in a recording, also of recordings that are
#: gone; only where speakers are linked over recordings.
SPEAKERS = pa.schema(
    [
        column("speaker", S, "who it is, over all recordings: `speaker` of the utterances"),
        column("recording", S, "dataset name and path in it"),
        column("number", pa.int32(), "number of the person in the recording, from 1"),
        column("content", S, "sha256 of the file's bytes, and which track and channel of it"),
        column("seconds", F64, "that the person speaks there", "s"),
    ]
)

#: One row for each call of a run to a worker: a stage of a shard, a piece of the package, a batch
#: of the listing. In OUT/runs/<id>/metrics.parquet, never in a dataset.
METRICS = pa.schema(
    [
        column("stage", S, "shard, filter, resample, transcribe or package"),
        column("step", S, "run; probe of the listing; the steps of the package"),
        column("shard", S, "shard; or the numbers of a piece or of a batch"),
        column("kind", S, "kind of worker asked for: CPU or GPU"),
        column("worker", S, "name of the worker; empty: the flow's own process"),
        column("host", S, "its machine"),
        column("pid", I64, "its process"),
        column("started", pa.timestamp("us", tz="UTC"), "begin there, by that machine's clock"),
        column("queue_seconds", F64, "from when it was asked for until it began", "s"),
        column("wall_seconds", F64, "time there; null: it never came back", "s"),
        column("cpu_seconds", F64, "CPU time there: all threads, and child processes", "s"),
        column("load_seconds", F64, "part of the wall time that a model took to load", "s"),
        column("audio_seconds", F64, "audio of what was computed; null for the package", "s"),
        column("items_computed", I64, "items that were computed"),
        column("items_reused", I64, "items that were there"),
        column("rss_before", I64, "resident memory of the process when it began", "bytes"),
        column("rss_peak", I64, "the most resident memory meanwhile", "bytes"),
        column("attempts", pa.int32(), "how often it was handed out"),
        column("deaths", pa.int32(), "attempts that ended with their worker"),
        column("lost_seconds", F64, "what those took", "s"),
        column("isolated", pa.bool_(), "its items ran one by one"),
        column("gpu", S, "GPU that the process saw first; null: none"),
        column("gpu_percent", F64, "mean share of time in which the GPU was busy", "%"),
        column("gpu_memory", I64, "the most memory in use on the GPU, by anyone", "bytes"),
        column("error", S, "what it raised, if it did"),
    ]
)
