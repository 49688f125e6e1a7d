"""WeNet shards: `<key>.txt` then `<key>.wav`, adjacent, in plain USTAR tars, and a `data.list`.

Member headers as WeNet's own: mode 0644, uid and gid 0, mtime 0, so that equal clips give equal
bytes. Text is UTF-8 without a newline; audio is 16-bit mono PCM with a 44-byte header.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks import audio, blobs
from tasks.errors import ItemError
from tasks.formats import Piece
from tasks.manifest import Row, write_atomic

VERSION = 1
COLUMNS = ("id", "text", "sample_rate", "num_samples", "sha256")
BLOCK = 512
RECORD = 20 * BLOCK


def path(split: str, number: int) -> str:
    return f"wenet/{split}/shards_{number:09d}.tar"


def offsets(rows: pa.Table) -> NDArray[np.int64]:
    """Where each row's first member begins in its tar: known before a byte is written."""
    text = pc.binary_length(pc.cast(rows["text"], pa.binary())).to_numpy().astype(np.int64)
    wav = 44 + 2 * rows["num_samples"].to_numpy()
    ends = np.cumsum(_member(text) + _member(wav))
    return np.concatenate([[0], ends[:-1]]).astype(np.int64)


def _member(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of a member in a tar: header and data, padded to blocks."""
    return BLOCK + -(-size // BLOCK) * BLOCK


def write(piece: Piece, rows: Sequence[Row], pcm: Callable[[Row], blobs.Pcm], home: Path) -> None:
    """Write one tar. `rows` are in the piece's order."""
    target = home / piece.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        target.open("wb") as raw,
        tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for row in rows:
            _add(tar, f"{row['id']}.txt", row["text"].encode())
            _add(tar, f"{row['id']}.wav", audio.write_wav_bytes(pcm(row), row["sample_rate"]))


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def check(piece: Piece, rows: Sequence[Row], home: Path) -> list[str]:
    """Reopen a tar and compare order, adjacency, headers, text and decoded PCM with the rows."""
    faults: list[str] = []
    members = _members(home / piece.path)
    for row in rows:
        key = row["id"]
        for suffix in ("txt", "wav"):
            found = next(members, None)
            if found is None:
                return [*faults, f"{piece.path}: ends before {key}.{suffix}"]
            info, data = found
            if info.name != f"{key}.{suffix}":
                return [*faults, f"{piece.path}: {info.name} stands where {key}.{suffix} should"]
            if suffix == "txt":
                # Where another format comes first, shard and offset are its own.
                if row["shard"] == piece.path and info.offset != row["offset"]:
                    faults.append(f"{piece.path}: {key} is at {info.offset}, not {row['offset']}")
                if data != row["text"].encode():
                    faults.append(f"{piece.path}: {info.name} is not the row's text")
            else:
                faults += _check_wav(piece, row, data)
            if (info.mode, info.uid, info.gid, info.mtime) != (0o644, 0, 0, 0):
                faults.append(f"{piece.path}: {info.name} has another owner, mode or time")
    extra = next(members, None)
    if extra is not None:
        faults.append(f"{piece.path}: {extra[0].name} is in no row")
    return faults


def _check_wav(piece: Piece, row: Row, data: bytes) -> list[str]:
    name = f"{piece.path}: {row['id']}.wav"
    try:
        samples, rate = audio.decode_int16(data)
    except ItemError as error:
        return [f"{name} does not decode: {error}"]
    if rate != row["sample_rate"] or len(samples) != row["num_samples"]:
        return [f"{name} has {len(samples)} samples at {rate} Hz, not as its row says"]
    if hashlib.sha256(samples.tobytes()).hexdigest() != row["sha256"]:
        return [f"{name} decodes to other samples than its row names"]
    return []


def _members(tar_path: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(tar_path, mode="r:") as tar:
        for info in tar:
            handle = tar.extractfile(info)
            yield info, handle.read() if handle else b""


def finish(pieces: Sequence[Piece], home: Path) -> None:
    """`data.list` of each split: one tar path per line, relative to the version."""
    lists: dict[str, list[str]] = {}
    for piece in pieces:
        lists.setdefault(piece.path.rsplit("/", 1)[0], []).append(piece.path)
    for folder, paths in lists.items():
        write_atomic(home / folder / "data.list", "".join(f"{p}\n" for p in paths).encode())
