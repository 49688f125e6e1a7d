"""Tables that a shard's checkpoints hold, one for each stage."""

import pyarrow as pa

from tasks.base.schema.columns import (
    F64,
    FAULT,
    I64,
    SCORES,
    SEGMENT,
    STATED_TURN,
    TURN,
    WORD,
    S,
    column,
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
        column("source_id", S, "the source's own key"),
        column("text", S, "reference text of the whole recording"),
        column("speaker", S, "speaker of the whole recording"),
        column("language", S, "language that the source states"),
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
        column("prints", pa.map_(S, pa.binary()), "fingerprints of an utterance, by filter"),
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
