"""What the tables share: how a column is described, and columns that hold structures."""

from __future__ import annotations

import pyarrow as pa


def column(name: str, kind: pa.DataType, doc: str, unit: str = "") -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc, "unit": unit})


def about(field: pa.Field) -> tuple[str, str]:
    """(unit, meaning) of a column."""
    metadata = field.metadata or {}
    return metadata.get(b"unit", b"").decode(), metadata.get(b"doc", b"").decode()


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

#: What a recogniser says about its own transcript.
SCORES = (
    column("avg_logprob", F64, "mean log-probability", "nats per token"),
    column("no_speech_probability", F64, "probability of no speech"),
    column("compression_ratio", F64, "bytes of text / bytes compressed"),
    column("detected_language", S, "language that the recogniser detects by itself"),
    column("detected_probability", F64, "probability of that language"),
)
