"""Lists and tars from hell: nothing but ConfigError, nothing written, memory bounded."""

import io
import json
import os
import tarfile
import tempfile
import tracemalloc
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import fuzz
from uttermill.tasks.base.errors import CODES, ConfigError, ItemError
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Locator, Recording
from uttermill.tasks.recording.container import as_file
from uttermill.tasks.settings import Source

MEMORY_LIMIT, MAX_ITEMS = 32 << 20, 10_000

FUZZ = fuzz.cases(300)
OBJECTS_FUZZ = fuzz.cases(150)  # each takes twice as long as others, and four tests draw them


def check(kind: str, files: dict[str, bytes], path: str, **options: Any) -> None:
    """List a source made of `files`: every promise of a source, whatever is in them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        Path(folder, "real.wav").write_bytes(b"RIFF")
        before = sorted(os.listdir(folder))
        source = Source(kind=kind, path=os.path.join(folder, path), **options)
        module, chosen = resolve_source(source)
        tracemalloc.start()
        try:
            # A few kilobytes cannot hold this many items: a walk in a circle ends here.
            items = list(islice(module.recordings(chosen), MAX_ITEMS))
        except ConfigError as error:
            str(error).encode()
            items = []
        else:
            for item in items[:20]:
                if isinstance(item, Recording) and not item.error:
                    with suppress(ItemError), as_file(item.locator) as opened:
                        opened.read(4096)
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
@pytest.mark.nightly
def test_kaldi(scp: bytes, text: bytes, segments: bytes, speakers: bytes) -> None:
    files = {"wav.scp": scp, "text": text, "segments": segments, "utt2spk": speakers}
    check("kaldi", files, "")


KEYS = st.sampled_from(["key", "wav", "txt", "start", "end", "audio_filepath", "duration", "text",
                        "offset", "audios", "id", "speaker", "lang"])  # fmt: skip
ROLES = ("text", "id", "speaker", "language", "start", "end", "duration")
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
    | st.sampled_from(["real.wav", "./real.wav", "../x.wav", "\ud800", "\udcff", "a\0b", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6).map(lambda v: json.dumps(v).encode())
JSONL = st.lists(OBJECTS | st.binary(max_size=30), max_size=12).map(b"\n".join)


@OBJECTS_FUZZ
@given(JSONL)
@pytest.mark.nightly
def test_jsonl(data: bytes) -> None:
    check("jsonl", {"list": data}, "list")


@OBJECTS_FUZZ
@given(JSONL, st.dictionaries(st.sampled_from(ROLES), KEYS, max_size=6), KEYS)
@pytest.mark.nightly
def test_jsonl_with_columns(data: bytes, columns: dict[str, str], audio: str) -> None:
    check("jsonl", {"list": data}, "list", columns={**columns, "audio": audio})


@OBJECTS_FUZZ
@given(JSONL, KEYS, KEYS)
@pytest.mark.nightly
def test_datajuicer_with_keys(data: bytes, text: str, audio: str) -> None:
    check("datajuicer", {"list": data}, "list", text_key=text, audio_key=audio)


@pytest.mark.full
@OBJECTS_FUZZ
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
@pytest.mark.nightly
def test_tar_headers(data: bytes, tail: bytes) -> None:
    check("tar", {"x.tar": data + tail}, "x.tar")


@FUZZ
@given(st.lists(st.tuples(st.integers(0, 5119), st.integers(0, 255)), max_size=20), st.data())
@pytest.mark.nightly
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


#: Columns of every type where text, ids, audio and paths are expected.
CELLS: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=6)),
    "binary": (pa.binary(), st.binary(max_size=6)),
    "large": (pa.large_string(), st.text(max_size=6)),
    "list": (pa.list_(pa.string()), st.lists(st.text(max_size=3), max_size=2)),
    "time": (pa.timestamp("ns"), st.integers(-(2**62), 2**62)),
    "decimal": (pa.decimal128(5, 2), st.just(None)),
    "null": (pa.null(), st.just(None)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.text(max_size=3)),
    "struct": (pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
               st.fixed_dictionaries({"bytes": st.none() | st.binary(max_size=9),
                                      "path": st.none() | st.text(max_size=6)})),
    "odd struct": (pa.struct([("bytes", pa.large_binary()), ("path", pa.int32())]),
                   st.fixed_dictionaries({"bytes": st.none() | st.binary(max_size=9),
                                          "path": st.none() | st.integers(0, 9)})),
    "no path": (pa.struct([("bytes", pa.binary())]),
                st.fixed_dictionaries({"bytes": st.none() | st.binary(max_size=9)})),
    "no bytes": (pa.struct([("bytes", pa.string()), ("path", pa.string())]),
                 st.fixed_dictionaries({"bytes": st.text(max_size=3), "path": st.none()})),
}  # fmt: skip
COLUMNS = ("audio", "text", "sentence", "id", "speaker", "lang", "locale", "a.b", "")


@st.composite
def tables(draw: Any) -> bytes:
    names = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(0, 4))
    columns = []
    for name in names:
        weight = ["struct"] * 6 if name == "audio" else []
        kind, cells = CELLS[draw(st.sampled_from([*CELLS, *weight]))]
        values = draw(st.lists(st.none() | cells, min_size=rows, max_size=rows))
        columns.append(pa.array(values, kind))
    buffer = io.BytesIO()
    pq.write_table(
        pa.table(columns, names=names), buffer, row_group_size=draw(st.integers(1, 4)),
        write_statistics=draw(st.booleans()),
    )  # fmt: skip
    return buffer.getvalue()


@FUZZ
@given(tables(), st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=2),
       st.dictionaries(st.sampled_from(["audio_column", "text_column", "id_column",
                                        "speaker_column", "language_column"]),
                       st.sampled_from(COLUMNS), max_size=2))  # fmt: skip
@pytest.mark.nightly
def test_parquet_of_any_types(
    data: bytes, flips: list[tuple[int, int]], named: dict[str, str]
) -> None:
    damaged = bytearray(data)
    for at, value in flips:
        damaged[at % len(damaged)] = value
    check("hf_parquet", {"x.parquet": bytes(damaged)}, "x.parquet", **named)


@pytest.mark.full
def test_a_list_with_one_endless_line_is_not_held_in_memory() -> None:
    check("jsonl", {"list": b"x" * (64 << 20)}, "list")
    check("kaldi", {"wav.scp": b"x" * (64 << 20)}, "")
