"""The lists of a Kaldi data folder, so that its `validate_data_dir.sh` has nothing to say.

It wants `utt2spk` sorted by utterance and, at the same time, by speaker. So an utterance is named
`<speaker>-<id>`, and no speaker's name has a `-`, which sorts before all else that a name may hold:
of `a` and `ab`, all of `a-…` comes first. Speakers are a dataset's own: `<dataset>_<speaker>`. What
is not [A-Za-z0-9_] becomes `_`, and then a hash keeps names apart. Where no speaker is known, the
utterance is its own speaker and has its plain id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks.checkpoints.manifest import Row
from tasks.formats import Piece

READ = ("id", "dataset", "speaker", "text", "language", "num_samples", "sample_rate")
SCHEMA = pa.schema(
    [("id", pa.string()), ("dataset", pa.string()), ("speaker", pa.string()),
     ("text", pa.large_string()), ("language", pa.string()), ("wav", pa.string()),
     ("start", pa.int64()), ("stop", pa.int64()), ("rate", pa.int64())]
)  # fmt: skip
LISTS = ("segments", "text", "utt2spk", "utt2dur", "utt2lang", "utt2id")
UNKNOWN = "und"  # ISO 639-2
_LONGEST = 60  # characters of a speaker's name that are kept for people
#: Words that Kaldi keeps for itself; its script looks for them with `grep -w` in the C locale.
_RESERVED = re.compile(r"(?<!\w)(?:<s>|</s>|#0)(?!\w)", re.ASCII)
_SPACED = {"<s>": "< s >", "</s>": "< /s >", "#0": "# 0"}


def placed(piece: Piece, rows: Sequence[Row]) -> pa.Table:
    """A piece's clips (SCHEMA) with their spans of its file, in samples; none without a text."""
    found, at = [], 0
    for row in rows:
        start, at = at, at + row["num_samples"]
        text = text_of(row["text"] or "")
        if text and at > start:
            entry = {name: row[name] for name in ("id", "dataset", "speaker", "language")}
            entry |= {"text": text, "wav": piece.path, "start": start, "stop": at}
            found.append({**entry, "rate": row["sample_rate"]})
    return pa.Table.from_pylist(found, schema=SCHEMA)


def text_of(text: str) -> str:
    """No white space but single blanks, and none of the words that Kaldi reserves."""
    return _RESERVED.sub(lambda word: _SPACED[word[0]], " ".join(text.split()))


def first_words(tables: Iterable[pa.Table]) -> set[str]:
    """What stands before the first `-` in the ids without a speaker: no speaker may be named so,
    else `a-…` of no speaker would stand among the utterances of `a`."""
    found: set[str] = set()
    for table in tables:
        for batch in table.select(["id", "speaker"]).to_batches(max_chunksize=65536):
            ids = batch["id"].filter(pc.invert(_known(batch["speaker"])))
            found.update(key.partition("-")[0] for key in ids.to_pylist())
    return found


def _known(speakers: pa.Array) -> pa.Array:
    return pc.fill_null(pc.not_equal(speakers, ""), False)


def speaker_name(dataset: str, speaker: str, taken: set[str]) -> str:
    """`<dataset>_<speaker>`, with a hash where that is not their very names, or taken."""
    name = f"{dataset}_{speaker}"
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name)[:_LONGEST]
    if plain == name and "_" not in dataset and plain not in taken:
        return name
    digest = hashlib.sha256(f"{dataset}\0{speaker}".encode()).hexdigest()
    return f"{plain}_{digest[:8]}"


def write(home: Path, split: str, table: pa.Table, taken: set[str]) -> None:
    """All lists of a split; `table` has SCHEMA."""
    folder = home / "kaldi" / split
    table = _named(table, taken)
    table = table.take(pc.sort_indices(table["utterance"]))  # by bytes, as in the C locale
    with ExitStack() as stack:
        out = {
            name: stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n"))
            for name in (*LISTS, "spk2utt")
        }
        before = ""
        for batch in table.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                for name, value in _entry(row, split).items():
                    out[name].write(f"{row['utterance']} {value}\n")
                if row["name"] != before:
                    out["spk2utt"].write(("\n" if before else "") + row["name"])
                    before = row["name"]
                out["spk2utt"].write(f" {row['utterance']}")
        out["spk2utt"].write("\n" if before else "")
    _write_recordings(folder, split, table)


def _named(table: pa.Table, taken: set[str]) -> pa.Table:
    """With `name`, the speaker's, and `utterance`, its name for Kaldi."""
    names: dict[tuple[str, str], str] = {}
    speakers, utterances = [], []
    for batch in table.select(["id", "dataset", "speaker"]).to_batches(max_chunksize=65536):
        found, keys = [], []
        for key, *who in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            dataset, speaker = who
            if not speaker:
                found.append(key)
                keys.append(key)
                continue
            if (dataset, speaker) not in names:
                names[dataset, speaker] = speaker_name(dataset, speaker, taken)
            found.append(names[dataset, speaker])
            keys.append(f"{found[-1]}-{key}")
        speakers.append(pa.array(found, pa.string()))
        utterances.append(pa.array(keys, pa.string()))
    table = table.append_column("name", pa.chunked_array(speakers, pa.string()))
    return table.append_column("utterance", pa.chunked_array(utterances, pa.string()))


def _entry(row: Row, split: str) -> dict[str, str]:
    """What the lists say of an utterance."""
    rate, (start, stop) = row["rate"], (row["start"], row["stop"])
    return {
        "segments": f"{recording(split, row['wav'])} {time(start, rate)} {time(stop, rate)}",
        "text": row["text"],
        "utt2spk": row["name"],
        "utt2dur": time(stop - start, rate),
        "utt2lang": row["language"] or UNKNOWN,
        "utt2id": row["id"],
    }


def recording(split: str, wav: str) -> str:
    """Name of a file among the recordings: splits may be joined."""
    return f"{split}-{Path(wav).stem}"


def time(sample: int, rate: int) -> str:
    """Seconds in decimals that lead back to the sample: by rounding, as most readers do, and by
    cutting off, as Kaldi's `extract-segments` does."""
    nanoseconds = -(-sample * 10**9 // rate)
    if int(nanoseconds / 10**9 * rate) < sample:
        nanoseconds += 1
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"


def _write_recordings(folder: Path, split: str, table: pa.Table) -> None:
    """`wav.scp` and `reco2dur` of the files that segments lie in. A file's end is not always that
    of a segment: its length is told by its header."""
    with ExitStack() as stack:
        scp, lengths = (
            stack.enter_context((folder / name).open("w", encoding="ascii", newline="\n"))
            for name in ("wav.scp", "reco2dur")
        )
        for wav in sorted(pc.unique(table["wav"]).to_pylist()):
            key = recording(split, wav)
            samples = ((folder / "wav" / Path(wav).name).stat().st_size - 44) // 2
            scp.write(f"{key} {wav}\n")
            lengths.write(f"{key} {time(samples, table['rate'][0].as_py())}\n")
