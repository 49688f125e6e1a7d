"""A Kaldi data folder for each split: one long WAV file an output shard, and segments in it.

kaldi/<split>/wav/000000000.wav    an output shard's clips, joined, 16-bit mono
kaldi/<split>/{wav.scp,segments,text,utt2spk,spk2utt,utt2dur,reco2dur,utt2lang}
kaldi/<split>/utt2id               the id that each utterance has in `utterances.parquet`

Lists are sorted as in the C locale; paths in `wav.scp` are relative to the version. Clips without a
text are left out of the lists, since Kaldi has no place for them; its `extract-segments` skips
those up to 0.1 s unless told otherwise.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import audio
from ..base.errors import ConfigError
from ..base.schema import UTTERANCES_FILE
from ..recording.names import OVER_ALL
from ..settings import StageSettings
from ..storage.tables import order_by, read, take
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists

VERSION = 1
COLUMNS = _clips.COLUMNS  # names and texts are in the lists only
LARGEST = 2**32 - 64  # bytes of samples that a WAV file can hold
SIZED = True  # `finish` needs the length of each WAV file
SNIPPET = (
    "python",
    """\
from lhotse.kaldi import load_kaldi_data_dir

recordings, segments, _ = load_kaldi_data_dir("kaldi/{split}", sampling_rate={rate})
for segment in segments:
    print(segment.id, segment.duration, segment.text)
""",
)
Settings = StageSettings  # none


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """ConfigError if an output shard does not fit into a WAV file."""
    if 2 * (pc.sum(rows["num_samples"]).as_py() or 0) > LARGEST:
        raise ConfigError(
            "formats.kaldi: the clips of an output shard exceed the 4 GiB of one WAV file; lower "
            "package.tar_hours"
        )
    return [f"kaldi/{split}/wav/{number:09d}.wav"]


def _header(rows: Rows) -> bytes:
    """One header for all clips, whose rate is the same throughout a version."""
    return audio.wav_header(sum(row["num_samples"] for row in rows), rows[0]["sample_rate"])


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    with out.create(shard.path) as file:
        file.write(_header(rows))
        for row in rows:
            file.write(_clips.samples(pcm(row)))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """The header, and every row's samples where `segments` places them."""
    faults: list[str] = []
    with (out.home / shard.path).open("rb") as file:
        header = _header(rows)
        if file.read(len(header)) != header:
            faults.append(f"{shard.path} has a header that differs from its rows")
        for row in rows:
            if hashlib.sha256(file.read(2 * row["num_samples"])).hexdigest() != row["sha256"]:
                faults.append(f"{shard.path} holds samples that differ from its rows")
                break
        if file.read(1):
            faults.append(f"{shard.path} has bytes after its last clip")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    segments = _segments(shards, home)
    named = in_order(with_names(segments, reserved_names(segments)))
    for split in dict.fromkeys(shard.split for shard in shards):
        of_split = named.filter(pc.equal(named["split"], split))
        _write_lists(home / "kaldi" / split, split, of_split)
        _write_recordings(home / "kaldi" / split, split, of_split)


def listing(home: Path, split: str, head: str) -> list[str]:
    """Lines of `wav.scp`."""
    pairs = (line.split(" ", 1) for line in _lists.lines(home, f"kaldi/{split}/wav.scp"))
    return [f"{key} {_lists.under(head, path)}" for key, path in pairs]


# The lists of a Kaldi data folder, which pass its `validate_data_dir.sh`, and the names in them.
#
# Kaldi wants `utt2spk` sorted by utterance and, at the same time, by speaker. So an utterance is
# named `<speaker>-<id>`, and no speaker's name has a `-`, which sorts before every other
# character that a name may have: of `a` and `ab`, all of `a-…` comes first. Speakers belong to a
# dataset: `<dataset>_<speaker>`. Characters outside [A-Za-z0-9_] become `_`, and a hash then
# keeps names unique. An utterance of an unknown speaker is its own speaker and keeps its plain
# id.

LIST_COLUMNS = ("id", "dataset", "speaker", "language", "split")
LIST_NAMES = ("segments", "text", "utt2spk", "utt2dur", "utt2lang", "utt2id")
UNKNOWN = "und"  # ISO 639-2
_LONGEST = 60  # characters of a speaker's name that stay readable
#: Words that Kaldi reserves; its script looks for them with `grep -w` in the C locale.
_RESERVED = re.compile(r"(?<!\w)(?:<s>|</s>|#0)(?!\w)", re.ASCII)
_SPACED = {"<s>": "< s >", "</s>": "< /s >", "#0": "# 0"}


def _segments(shards: Sequence[OutputShard], home: Path) -> pa.Table:
    """The clips with a text: LIST_COLUMNS, `text`, and their places in WAV files: `start` and
    `stop` are samples of the file `wav`."""
    rows = read(home / UTTERANCES_FILE, (*LIST_COLUMNS, "text", "num_samples", "sample_rate"))
    clips = [shard.clips for shard in shards]
    stops = np.cumsum(np.concatenate([[0], rows["num_samples"].to_numpy()]))
    begins = np.repeat(stops[np.cumsum([0, *clips])[:-1]], clips)  # of each clip's file
    texts = ([text_of(text or "") for text in chunk.to_pylist()] for chunk in rows["text"].chunks)
    table = rows.select(LIST_COLUMNS)
    for name, values in {
        "text": pa.chunked_array([pa.array(some, pa.large_string()) for some in texts]),
        "wav": pa.array(np.repeat([shard.path for shard in shards], clips)),
        "start": pa.array(stops[:-1] - begins),
        "stop": pa.array(stops[1:] - begins),
        "rate": rows["sample_rate"],
    }.items():
        table = table.append_column(name, values)
    lasts = pc.greater(table["stop"], table["start"])
    return table.filter(pc.and_(pc.not_equal(table["text"], ""), lasts))


def _write_lists(folder: Path, split: str, table: pa.Table) -> None:
    with ExitStack() as stack:
        out = {
            name: stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n"))
            for name in (*LIST_NAMES, "spk2utt")
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


def in_order(table: pa.Table) -> pa.Table:
    """The rows by the bytes of `utterance`, as in the C locale. Names of 60 bytes are more than an
    Arrow array holds from 36 million clips on."""
    return take(table, order_by(table, ("utterance",)))


def _entry(row: Mapping[str, Any], split: str) -> dict[str, str]:
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
    scp = lengths = ""
    for wav in sorted(pc.unique(table["wav"]).to_pylist()):
        key = recording(split, wav)
        samples = ((folder / "wav" / Path(wav).name).stat().st_size - 44) // 2
        scp += f"{key} {wav}\n"
        lengths += f"{key} {time(samples, table['rate'][0].as_py())}\n"
    (folder / "wav.scp").write_text(scp, "ascii", newline="\n")
    (folder / "reco2dur").write_text(lengths, "ascii", newline="\n")


def text_of(text: str) -> str:
    """Single spaces only, and none of the words that Kaldi reserves."""
    return _RESERVED.sub(lambda word: _SPACED[word[0]], " ".join(text.split()))


def reserved_names(table: pa.Table) -> set[str]:
    """What precedes the first `-` in ids without a speaker. No speaker may have such a name: `a-…`
    of no speaker would be sorted among the utterances of `a`."""
    chunks = table["id"].filter(pc.invert(_known(table))).chunks
    return {key.partition("-")[0] for keys in chunks for key in keys.to_pylist()}


def _known(table: pa.Table) -> pa.ChunkedArray:
    """Which clips have a speaker."""
    return pc.fill_null(pc.not_equal(table["speaker"], ""), False)


def speaker_name(dataset: str, speaker: str, taken: set[str]) -> str:
    """`<dataset>_<speaker>`; with a hash if that is changed, ambiguous or reserved."""
    if OVER_ALL.fullmatch(speaker):  # of all datasets
        return speaker
    name = f"{dataset}_{speaker}"
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name)[:_LONGEST]
    if plain == name and "_" not in dataset and plain not in taken:
        return name
    digest = hashlib.sha256(f"{dataset}\0{speaker}".encode()).hexdigest()
    return f"{plain}_{digest[:8]}"


def with_names(table: pa.Table, taken: set[str]) -> pa.Table:
    """The table with `name`, the speaker's, and `utterance`, its name for Kaldi."""
    named = cache(partial(speaker_name, taken=taken))
    pieces = []
    for batch in table.select(["id", "dataset", "speaker"]).to_batches(max_chunksize=65536):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        names = [named(dataset, speaker) if speaker else key for key, dataset, speaker in rows]
        pieces.append(pa.array(names, pa.string()))
    table = table.append_column("name", pa.chunked_array(pieces, pa.string()))
    full = pc.binary_join_element_wise(table["name"], table["id"], "-")
    return table.append_column("utterance", pc.if_else(_known(table), full, table["id"]))
