"""Lists and tars from hell: nothing but ConfigError, nothing written, memory bounded."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import CODES, ConfigError
from tasks.plugins import resolve_source
from tasks.recording import Locator, Recording
from tasks.settings import Source

MEMORY_LIMIT, MAX_ITEMS = 32 << 20, 10_000

FUZZ = settings(max_examples=300, deadline=None)


def check(kind: str, files: dict[str, bytes], path: str) -> None:
    """List a source made of `files`: every promise of a source, whatever is in them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        Path(folder, "real.wav").write_bytes(b"RIFF")
        before = sorted(os.listdir(folder))
        source = Source(kind=kind, path=os.path.join(folder, path))
        module, chosen = resolve_source(source)
        tracemalloc.start()
        try:
            # A few kilobytes cannot hold this many items: a walk in a circle ends here.
            items = list(islice(module.recordings(chosen), MAX_ITEMS))
        except ConfigError as error:
            str(error).encode()
            items = []
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MEMORY_LIMIT
        assert len(items) < MAX_ITEMS
        assert sorted(os.listdir(folder)) == before
    seen = set()
    for item in items:
        item.path.encode()
        if isinstance(item, Recording):
            assert item.path not in seen
            seen.add(item.path)
            assert Locator.loads(item.locator.dumps()) == item.locator
            assert not item.error or item.error[0] in CODES
            for text in (
                item.source_path,
                item.source_id,
                item.text,
                item.speaker,
                *(item.error or ()),
            ):
                assert text is None or text.encode() is not None
            assert item.error or not item.locator.offset or item.locator.offset > 0


WORDS = st.sampled_from(
    b"k1,k2,real.wav,../x,/,|,-,\xff,\0,1.5,-1,nan,1e400, ,\t,\r,\n".split(b",")
) | st.just("　广".encode())
LINES = st.lists(WORDS | st.binary(max_size=8), max_size=40).map(b" ".join)


@FUZZ
@given(LINES, LINES, LINES, LINES)
def test_kaldi(scp: bytes, text: bytes, segments: bytes, speakers: bytes) -> None:
    files = {"wav.scp": scp, "text": text, "segments": segments, "utt2spk": speakers}
    check("kaldi", files, "")


KEYS = st.sampled_from(["key", "wav", "txt", "start", "end", "audio_filepath", "duration", "text",
                        "offset", "audios", "id", "speaker", "lang"])  # fmt: skip
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
    | st.sampled_from(["real.wav", "./real.wav", "../x.wav", "\ud800", "\udcff", "a\0b", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6).map(lambda v: json.dumps(v).encode())
JSONL = st.lists(OBJECTS | st.binary(max_size=30), max_size=12).map(b"\n".join)


@FUZZ
@given(JSONL)
def test_jsonl(data: bytes) -> None:
    check("jsonl", {"list": data}, "list")


@FUZZ
@given(JSONL)
def test_datajuicer(data: bytes) -> None:
    check("datajuicer", {"list": data}, "list")


NUMBERS = st.integers(-(2**70), 2**70) | st.sampled_from([0, 1, 512, 10 << 30, -1, -512, 2**62])
TYPES = st.sampled_from([bytes([c]) for c in b"\x00\x01234567LKSxgXVDNM"])
NAMES = st.sampled_from(
    ["a.wav", "a.txt", "a.json", "../a.wav", "/a.wav", "", ".", "a", "\udcff.wav"]
)


def number(value: int, width: int) -> bytes:
    """A tar number: octal, else base 256, with whatever sign."""
    if 0 <= value < 1 << 3 * (width - 1):
        return b"%0*o\0" % (width - 1, value)
    low = value % (1 << 8 * (width - 1))
    return (b"\x80" if value >= 0 else b"\xff") + low.to_bytes(width - 1, "big")


@st.composite
def blocks(draw: Any) -> bytes:
    info = tarfile.TarInfo(draw(NAMES))
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")[:512])
    header[124:136] = number(draw(NUMBERS), 12)
    header[156:157] = draw(TYPES)
    for at in draw(st.lists(st.integers(257, 511), max_size=4)):
        header[at] = draw(st.integers(0, 255))
    header[148:156] = b"%06o\0 " % (256 + sum(header[:148]) + sum(header[156:]))
    body: bytes = draw(
        st.sampled_from([b"", b"12 size=-99\n", b"17 path=../x.wav\n", b"22 GNU.sparse.major=1\n"])
        | st.binary(max_size=600)
    )
    return bytes(header) + bytes.ljust(body, -(-len(body) // 512) * 512, b"\0")


@FUZZ
@given(st.lists(blocks(), max_size=6).map(b"".join), st.binary(max_size=1100))
def test_tar_headers(data: bytes, tail: bytes) -> None:
    check("tar", {"x.tar": data + tail}, "x.tar")


@FUZZ
@given(st.lists(st.tuples(st.integers(0, 5119), st.integers(0, 255)), max_size=20), st.data())
def test_tar_with_flipped_bytes(flips: list[tuple[int, int]], data: Any) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("长" * 60 + ".txt", "长" * 60 + ".wav", "b.wav"):
            info = tarfile.TarInfo(name)
            info.size = 100
            tar.addfile(info, io.BytesIO(b"1" * 100))
    whole = bytearray(buffer.getvalue())
    for at, value in flips:
        whole[at] = value
    cut = data.draw(st.integers(0, len(whole)))
    check("tar", {"x.tar": bytes(whole[:cut])}, "x.tar")
    check("tar", {"x.tar": bytes(whole)}, "x.tar")


@FUZZ
@given(st.binary(max_size=300))
def test_tar_list(data: bytes) -> None:
    check("tar", {"data.list": data}, "data.list")


@FUZZ
@given(st.binary(max_size=200).map(lambda b: b"PAR1" + b + len(b).to_bytes(4, "little") + b"PAR1"))
def test_parquet(data: bytes) -> None:
    check("hf_parquet", {"x.parquet": data}, "x.parquet")


def test_a_list_with_one_endless_line_is_not_held_in_memory() -> None:
    check("jsonl", {"list": b"x" * (64 << 20)}, "list")
    check("kaldi", {"wav.scp": b"x" * (64 << 20)}, "")
