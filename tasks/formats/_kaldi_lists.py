"""The lists of a Kaldi data folder, which pass its `validate_data_dir.sh`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks.checkpoints.manifest import Row
from tasks.formats import OutputShard, Rows, _kaldi_names

READ = ("id", "dataset", "speaker", "text", "language", "num_samples", "sample_rate")
#: One row per utterance; `start` and `stop` are samples of the file `wav`.
SCHEMA = pa.schema(
    {
        **dict.fromkeys(("id", "dataset", "speaker"), pa.string()),
        "text": pa.large_string(),
        **dict.fromkeys(("language", "wav"), pa.string()),
        **dict.fromkeys(("start", "stop", "rate"), pa.int64()),
    }
)
LISTS = ("segments", "text", "utt2spk", "utt2dur", "utt2lang", "utt2id")
UNKNOWN = "und"  # ISO 639-2


def segments_of(shard: OutputShard, rows: Rows) -> pa.Table:
    """A shard's clips with a text (SCHEMA) and their places in its WAV file."""
    found, at = [], 0
    for row in rows:
        start, at = at, at + row["num_samples"]
        text = _kaldi_names.text_of(row["text"] or "")
        if text and at > start:
            entry = {name: row[name] for name in ("id", "dataset", "speaker", "language")}
            entry |= {"text": text, "wav": shard.path, "start": start, "stop": at}
            found.append({**entry, "rate": row["sample_rate"]})
    return pa.Table.from_pylist(found, schema=SCHEMA)


def write(home: Path, split: str, table: pa.Table, taken: set[str]) -> None:
    """All lists of a split; `table` has SCHEMA."""
    folder = home / "kaldi" / split
    table = _kaldi_names.with_names(table, taken)
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


def _entry(row: Row, split: str) -> dict[str, str]:
    """An utterance's value in each list."""
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
    """Name of a WAV file as a recording; unique when splits are combined."""
    return f"{split}-{Path(wav).stem}"


def time(sample: int, rate: int) -> str:
    """Seconds with nine decimals that lead back to the sample both by rounding, as most readers do,
    and by truncating, as Kaldi's `extract-segments` does."""
    nanoseconds = -(-sample * 10**9 // rate)
    if int(nanoseconds / 10**9 * rate) < sample:
        nanoseconds += 1
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"


def _write_recordings(folder: Path, split: str, table: pa.Table) -> None:
    """`wav.scp` and `reco2dur` of the WAV files. A file may be longer than its last segment, so its
    length comes from its size."""
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
