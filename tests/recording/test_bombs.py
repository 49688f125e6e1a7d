"""Lists and tables that hold far more than their size says: refused in words, in little memory.

The peaks are those of a process of its own that lists each of them.
"""

import gzip
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, hostile, listed_apart
from tests.helpers.listed_apart import Told
from tests.helpers.tiers import full, nightly
from uttermill.flows import settings
from uttermill.flows.cli import reviews
from uttermill.flows.run import run_folder
from uttermill.tasks.base.errors import ConfigError, ItemError, RunError
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Recording, parquet_tables, yaml_text
from uttermill.tasks.settings import PackageSettings, Source
from uttermill.tasks.settings.job import Job
from uttermill.tasks.settings.package import read_list
from uttermill.tasks.storage import bounds, versions

MEMORY = 400 << 20  # bytes, beyond the imports; unbounded, each takes 1 to 10 GB
AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
MEGABYTE = 10**6


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with listed_apart.telling() as telling:
        yield telling


def parquet(path: Path, audio: pa.Array, options: dict[str, Any], **columns: Any) -> Path:
    with path.open("wb") as file:
        table = pa.table({"audio": audio, **columns})
        pq.write_table(table, file, compression="zstd", store_schema=False, **options)
    return path


def alike(value: str | bytes, rows: int, nulls: int = 0) -> pa.Array:
    """A value in each row, held once; in every `nulls`th row none."""
    numbers = [None if nulls and n % nulls == 0 else 0 for n in range(rows)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), [value])


def cells(data: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([data, alike("a.wav", len(data))], ["bytes", "path"])


def repeated(path: Path, text: str, rows: int) -> Path:
    return parquet(path, cells(alike(b"RIFF", rows)), {}, text=alike(text, rows))


def one_text_of_8_mb(home: Path) -> Path:
    return repeated(home / "x.parquet", "x" * 8 * MEGABYTE, 1024)


def allowed_text_in_each_row(home: Path) -> Path:
    return repeated(home / "x.parquet", "x" * 900_000, 2048)


def prefixes(home: Path) -> Path:
    """Of each text only how many bytes are those of the one before."""
    own = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    texts = pa.array(["x" * 900_000] * 200)
    return parquet(home / "x.parquet", cells(alike(b"RIFF", 200)), own, text=texts)


def one_text_of_200_mb(home: Path) -> Path:
    return repeated(home / "x.parquet", "x" * 200 * MEGABYTE, 16)


def nothing_in_5_million_rows(home: Path) -> Path:
    table = pa.table({"audio": pa.nulls(5_000_000, AUDIO)})
    pq.write_table(table, home / "x.parquet", compression="zstd")
    return home / "x.parquet"


def columns(home: Path) -> Path:
    many = {f"c{n:05d}": [n] for n in range(20_000)}
    pq.write_table(pa.table(many), home / "x.parquet")
    return home / "x.parquet"


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "good", "sentence"),
    [
        nightly(one_text_of_8_mb, 0, "which is too much for its size"),
        (allowed_text_in_each_row, 74, "which is too much for its size"),
        nightly(prefixes, 74, "which is too much for its size"),
        (one_text_of_200_mb, 0, "has pages of 200.0 MB at once"),
        (nothing_in_5_million_rows, 0, "with 5,000,000 rows; at most"),
        (columns, 0, "c00019 and 19980 more"),
    ],
)
def test_parquet(
    tmp_path: Path, make: Callable[[Path], Path], good: int, sentence: str, told: Told
) -> None:
    path = make(tmp_path)
    assert path.stat().st_size < 8 << 20
    found = told({"kind": "hf_parquet", "path": str(path)})
    assert sentence in found["details"][-1]
    assert found["rows"].get("good", 0) == good
    assert found["took"] < MEMORY


def test_rows_with_neither_audio_nor_path_end_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was a failed recording, however many there were."""
    monkeypatch.setattr(bounds, "MOST_UNUSABLE", 1000)
    count = 4000
    texts = pa.array([os.urandom(4).hex() for _ in range(count)])
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"audio": pa.nulls(count, AUDIO), "text": texts}), path)
    found = listed_apart.listed({"kind": "hf_parquet", "path": str(path)})
    assert found["rows"] == {"missing": 1001}
    assert "1,001 of its first 1,001 rows hold neither" in found["details"][-1]


@pytest.mark.full
def test_a_cell_is_read_without_its_neighbours(tmp_path: Path, told: Told) -> None:
    """120 cells of 50 MB took 4 GB of a worker."""
    path = parquet(tmp_path / "x.parquet", cells(alike(os.urandom(MEGABYTE) * 50, 120)), {})
    locator = {"path": str(path), "row": 100, "column": "audio"}
    found = told({"locator": locator})
    assert (found["size"], found["detail"]) == (50 * MEGABYTE, "")
    assert found["took"] < MEMORY


@pytest.mark.nightly
def test_a_cell_that_expands_too_far_is_refused(tmp_path: Path, told: Told) -> None:
    path = parquet(tmp_path / "x.parquet", cells(alike(bytes(300 * MEGABYTE), 1)), {})
    found = told({"locator": {"path": str(path), "row": 0, "column": "audio"}})
    assert "has pages of 300.0 MB in " in found["detail"]
    assert found["took"] < MEMORY


@pytest.mark.full
def test_where_audio_is_comes_from_small_pages(tmp_path: Path, told: Told) -> None:
    """Without statistics, a cell of each row was read to see which rows hold any."""
    own = {"write_statistics": False}
    audio = cells(alike(os.urandom(100_000) * 160, 100, nulls=2))
    path = parquet(tmp_path / "x.parquet", audio, own)
    found = told({"kind": "hf_parquet", "path": str(path)})
    assert found["rows"] == {"good": 4, "missing": 4, "unreadable": 1}
    assert "which is too much for its size" in found["details"][-1]
    assert found["took"] < MEMORY


@pytest.mark.full
def test_pages_are_those_that_were_written(tmp_path: Path) -> None:
    """Control: sizes come from the headers of the pages, also of several, and of both versions."""
    for version in ("1.0", "2.0"):
        own = {"data_page_version": version, "data_page_size": 1000, "write_batch_size": 10}
        texts = [f"{n:06d}" * 5 for n in range(1000)]
        audio = cells(alike(b"RIFF", 1000))
        path = parquet(tmp_path / "x.parquet", audio, {**own, "use_dictionary": False}, text=texts)
        with path.open("rb") as file:
            group = pq.read_metadata(path).row_group(0)
            pages = list(parquet_tables.pages_of(file, group.column(2)))
            assert sum(page.rows for page in pages) == 1000
            assert len(pages) > 20
            assert 34_000 < sum(page.plain for page in pages) < 40_000
            data = bytearray(path.read_bytes())
        at = group.column(2).data_page_offset
        data[at : at + 8] = b"\xff" * 8
        path.write_bytes(data)
        with path.open("rb") as file, pytest.raises(ItemError, match="no page at byte"):
            list(parquet_tables.pages_of(file, group.column(2)))


CUT = {
    "start": 0, "duration": 1, "recording": {"sources": [{"type": "file", "source": "a.wav"}]},
}  # fmt: skip
LONG = b"x" * (16 << 20)


def cuts(texts: list[str]) -> bytes:
    lines = [
        {**CUT, "start": n, "supervisions": [{"start": 0, "duration": 1, "text": text}]}
        for n, text in enumerate(texts)
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


@pytest.mark.full
@pytest.mark.parametrize(
    ("part", "times", "sentence"),
    [
        nightly(LONG, 64, "it holds more than"),  # a line of 1 GiB
        (cuts(["x" * 900_000]), 600, "it holds more than"),
        nightly(b"null\n" * (1 << 20), 8, "100,001 of 100,001 lines cannot be used"),
        nightly(b"\n" * (16 << 20), 64, "it holds more than"),
    ],
    ids=["line", "texts", "null", "blank"],
)
def test_a_compressed_list(
    tmp_path: Path, part: bytes, times: int, sentence: str, told: Told
) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    path.write_bytes(gzip.compress(part) * times)
    found = told({"kind": "lhotse", "path": str(path)})
    assert any(sentence in detail for detail in found["details"])
    assert found["took"] < MEMORY


@pytest.mark.full
def test_a_compressed_list_that_is_none_is_read_whole(tmp_path: Path, told: Told) -> None:
    """Control: lists as people have them stay far below the limit."""
    path = tmp_path / "cuts.jsonl.gz"
    path.write_bytes(gzip.compress(cuts(["what is said here"] * 20_000)))
    found = told({"kind": "lhotse", "path": str(path)})
    assert found["rows"] == {"missing": 1}  # one recording with all segments
    assert found["details"][0] == "No such file or directory"


DEEP = b"[" * 100_000 + b"]" * 100_000
LISTS = {
    "deep": (b'{"wav": ' + DEEP + b"}", "nested too deeply"),
    "number": (b'{"wav": "a.wav", "txt": ' + b"1" * 100_000 + b"}", "not JSON"),
    "endless": (LONG * 4, "the line is too long"),
    "text": (b'{"wav": "a.wav", "txt": "' + b"x" * 2_000_000 + b'"}', "a text of 2.0 MB"),
    "path": (b'{"wav": "' + b"x/" * 1_000_000 + b'"}', "a path of 2,000,000 characters"),
    "empty": (b'{"wav": "a.wav", "txt": [' + b"{}," * 1_300_000 + b"{}]}", "not list"),
    "surrogate": (b'{"wav": "a.wav", "txt": "\\ud800"}', "not valid UTF-8"),
}


def test_lines_that_ask_for_too_much_are_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "list.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line, _ in (LISTS["deep"], LISTS["surrogate"])))
    found = listed_apart.listed({"kind": "jsonl", "path": str(path)})
    assert found["rows"] == {"unreadable": 2}
    assert LISTS["deep"][1] in found["details"][0]
    assert LISTS["surrogate"][1] in found["details"][1]


@pytest.mark.parametrize("name", [*map(full, ("deep", "empty")), *map(nightly, (*LISTS,)[1:5])])
def test_such_a_line_takes_little_memory(tmp_path: Path, name: str, told: Told) -> None:
    line, sentence = LISTS[name]
    path = tmp_path / "list.jsonl"
    path.write_bytes(line + b"\n")
    found = told({"kind": "jsonl", "path": str(path)})
    assert found["rows"] == {"unreadable": 1}
    assert sentence in found["details"][0]
    assert found["took"] < MEMORY


@pytest.mark.full
@pytest.mark.parametrize("kind", ["datajuicer", "lhotse"])
def test_lines_of_other_lists(tmp_path: Path, kind: str, told: Told) -> None:
    path = tmp_path / "list.jsonl"
    path.write_bytes(DEEP + b"\n" + LONG + b"\n")
    found = told({"kind": kind, "path": str(path)})
    assert found["rows"] == {"unreadable": 2}
    assert "nested too deeply" in found["details"][0]
    assert "the line is too long" in found["details"][1]
    assert found["took"] < MEMORY


def test_nan_is_a_missing_value(tmp_path: Path) -> None:
    """It was the text `nan`, the speaker `nan`, the language `nan`."""
    rows = (
        '{"audio_filepath": "a.wav", "text": NaN, "speaker": 12.0, "lang": NaN}\n'
        '{"audio_filepath": "b.wav", "text": "b", "speaker": NaN, "spk": "x"}\n'
    )
    (tmp_path / "list.jsonl").write_text(rows)
    source, chosen = resolve_source(Source(kind="jsonl", path=str(tmp_path / "list.jsonl")))
    found = [
        (r.text, r.speaker, r.language)
        for r in source.recordings(chosen)
        if isinstance(r, Recording)
    ]
    assert found == [(None, "12", None), ("b", "x", None)]


@pytest.mark.full
def test_kaldi(tmp_path: Path, told: Told) -> None:
    (tmp_path / "wav.scp").write_bytes(b"k a.wav\n" + LONG + b"\np touch ran |\n")
    (tmp_path / "text").write_bytes(b"k " + b"x" * 2_000_000 + b"\n" + LONG + b"\n")
    (tmp_path / "segments").write_bytes(LONG + b"\n")
    (tmp_path / "utt2spk").write_bytes(LONG + b"\n")
    found = told({"kind": "kaldi", "path": str(tmp_path)})
    assert found["rows"] == {"unreadable": 5, "missing": 1, "unsupported": 1}
    text, pipe = found["details"]
    assert text == "a text of 2.0 MB; at most 1.0 MB are read"
    assert pipe.startswith("a pipe in wav.scp is never run; where you trust its commands, ")
    assert not (tmp_path / "ran").exists()
    assert found["took"] < MEMORY


@pytest.mark.full
def test_tar(tmp_path: Path, told: Told) -> None:
    records = b"6 a=b\n" * 170_000  # they were copied once for each of them: 17 s
    data = [
        hostile.member("p", records, tarfile.XHDTYPE),
        hostile.member("a.wav", hostile.wav(1)),
        hostile.member("a.txt", b"x" * 2_000_000),
        hostile.member("././@LongLink", b"n" * 512, tarfile.GNUTYPE_LONGNAME, size=1 << 30),
    ]
    (tmp_path / "x.tar").write_bytes(b"".join(data))
    begun = time.process_time()
    found = told({"kind": "tar", "path": str(tmp_path / "x.tar")})
    assert found["rows"] == {"unreadable": 2, "good": 1}
    rest, text = sorted(found["details"])
    assert "claims a name of 1073741824 bytes" in rest
    assert text == "a text of 2.0 MB; at most 1.0 MB are read"
    assert found["took"] < MEMORY
    assert time.process_time() - begun < 10


# Settings, and what lies in an OUT

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60)
)


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LAUGHS, "has more than 100,000 values"),
        (MERGES, "has more than 100,000 values"),
        ("a: &a [*a]", "holds itself by an alias"),
        ("[" * 200 + "]" * 200, "nested more than 100 deep"),
        nightly("[" * 5_000, "nested too deeply"),
        ("a: " + "1:" * 100_000 + "1", "a number of more than 400 digits"),
        ("a: 0x" + "f" * 200_000, "a number of more than 400 digits"),
        ("a: 1\na: 2", "given twice"),
        ("x" * (300 << 10), "longer than 256 KiB"),
    ],
)
def test_yaml(tmp_path: Path, text: str, sentence: str) -> None:
    """Ten lines of aliases kept `plan` busy for ever."""
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        settings.read(str(tmp_path / "s.yaml"), [], None, [])
    with pytest.raises(ConfigError, match=sentence):
        settings.read(None, ["in"], "out", [f"shard.hours={text}"])


def test_yaml_with_aliases_is_read() -> None:
    text = "a: &a {b: 1}\nc: {<<: *a, d: 2}\ne: [*a, *a]"
    found = {"a": {"b": 1}, "c": {"b": 1, "d": 2}, "e": [{"b": 1}, {"b": 1}]}
    assert yaml_text.load(text, "x") == found


TAGS = (
    *("null", "bool", "int", "float", "binary", "timestamp", "omap", "pairs", "set", "str", "seq"),
    *("map", "merge", "value", "python/object:os.system", "nothing"),
)
VALUES = (
    *("", "x", "2026-99-99", "2026-01-01 25:61:61", "2026-01-01 00:00:00 +99:99", "-", "0x", "08"),
    *("1" + ":0" * 199, "1" * 400, ".", "1e999", "é", "[]", "[a, [b]]", "{}", "{a: b, c: [d]}"),
    *("[{a: b}, {c: d, e: f}]", "{[a]: b}", "{{a: b}: c}", "{? [a, {b: c}] : d}"),
)


@pytest.mark.parametrize("tag", TAGS)
def test_no_value_of_yaml_is_more_than_a_sentence(tag: str) -> None:
    for value in VALUES:
        for text in (f"!!{tag} {value}", f"a: !!{tag} {value}", f"!!{tag} {value}: a"):
            with suppress(ConfigError):
                yaml_text.load(text, "x")
    with pytest.raises(ConfigError, match="x is not YAML: unacceptable character"):
        yaml_text.load("a: \x00", "x")


def test_a_bug_is_no_fault_of_the_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "_nodes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        yaml_text.load("a: 1", "x")


def test_settings_from_elsewhere_are_not_nested_for_ever() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"filter": deep}
    with pytest.raises(ConfigError, match="nested more than 100 deep"):
        settings.parse(deep)


def big(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(8 << 30)
    return path


def deep(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(DEEP)
    return path


@pytest.mark.parametrize("make", [big, deep])
@pytest.mark.nightly
def test_json_in_an_out(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    make(tmp_path / "runs/2026-01-01T00-00-00/settings.json")
    with pytest.raises(ConfigError, match="is damaged"):
        run_folder.settings_of(tmp_path)
    make(tmp_path / "dataset.json")
    with pytest.raises(RunError):
        versions.described(tmp_path)


@pytest.mark.full
def test_lists_of_names_and_decisions(tmp_path: Path) -> None:
    file = big(tmp_path / "names.txt")
    package = PackageSettings(splits={"test": {"list": str(file)}})
    with pytest.raises(ConfigError, match=r"has more than 128 MiB; is it a list\?"):
        read_list(package)
    with pytest.raises(ConfigError, match="import it in parts"):
        reviews.import_file(tmp_path, str(file))
    with pytest.raises(ConfigError, match=r"line 1: this is not JSON: .*nested too deeply"):
        reviews.import_file(tmp_path, str(deep(tmp_path / "deep.jsonl")))


# Segments that end beyond the end of their recording: one rule, whatever the source.


END = 2.2  # s, of r09.wav
#: Key, start, end, and how far the ledger says that it ends beyond the recording; None: it is kept.
SEGMENTS = [
    ("inside", 0.0, 0.5, None),
    ("rounded", 0.5, END + 0.1, None),
    ("cut_off", 1.0, END + 0.4, 0.4),
    ("far", 2.0, 60.0, 57.8),
    ("outside", 3.0, 4.0, None),
    ("tiny", 1.0, 1.000001, None),
]


def kaldi(home: Path, wav: Path) -> dict[str, Any]:
    lines = {
        "wav.scp": [f"r {wav}"],
        "segments": [f"{key} r {start} {end}" for key, start, end, _ in SEGMENTS],
        "text": [f"{key} words of {key}" for key, *_ in SEGMENTS],
    }
    for name, content in lines.items():
        (home / name).write_text("".join(f"{line}\n" for line in content))
    return {"kind": "kaldi", "path": str(home)}


def jsonl(home: Path, wav: Path, kind: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for key, start, end, _ in SEGMENTS:
        said = f"words of {key}"
        if kind == "wenet":
            rows.append({"wav": str(wav), "key": key, "txt": said, "start": start, "end": end})
        elif kind == "nemo":
            own = {"audio_filepath": str(wav), "text": said}
            rows.append({**own, "offset": start, "duration": end - start})
        else:
            supervision = {"id": key, "start": 0, "duration": end - start, "text": said}
            source = {"sources": [{"type": "file", "source": str(wav)}]}
            cut = {"type": "MonoCut", "start": start, "duration": end - start}
            rows.append({**cut, "recording": source, "supervisions": [supervision]})
    corpus.jsonl(home / "list.jsonl", rows)
    return {"kind": "lhotse" if kind == "lhotse" else "jsonl", "path": str(home / "list.jsonl")}


@pytest.mark.parametrize("kind", ["kaldi", full("lhotse"), *map(nightly, ("wenet", "nemo"))])
def test_what_the_recording_does_not_hold_is_not_packaged(tmp_path: Path, kind: str) -> None:
    """Such a segment was packaged with all of its text, which says more than its audio."""
    home = tmp_path / "list"
    home.mkdir()
    wav = corpus.add(tmp_path / "in", 9)
    source = kaldi(home, wav) if kind == "kaldi" else jsonl(home, wav, kind)
    job: Job = corpus.job(
        tmp_path, sources=[{**source, "name": "c"}], filter={"segmenter": {"use": "auto"}}
    )
    published, _ = corpus.run(job)
    rows = corpus.ledger(published.path)
    told = {
        (r["outcome"], r["reason"], r["start"], r["end"], r["value"] and round(r["value"], 6),
         r["threshold"])
        for r in rows
    }  # fmt: skip
    assert told == {
        ("packaged", "packaged", 0.0, 0.5, None, None),
        ("packaged", "packaged", 0.5, END, None, None),
        ("failed", "segment_outside_audio", 1.0, END, 0.4, 0.15),
        ("failed", "segment_outside_audio", 2.0, END, 57.8, 0.15),
        ("failed", "segment_outside_audio", END, END, None, None),
        ("failed", "segment_outside_audio", 1.0, 1.0, None, None),
    }
    assert {r["start"]: r["detail"] for r in rows if r["start"] == r["end"]} == {
        END: "3 s to 4 s is beyond the recording's end, at 2.20 s",
        1.0: "1 s to 1.000001 s is shorter than a sample",
    }
    assert sum(r["samples"] for r in rows) == round(END * corpus.RATES[9 % 5])
    kept = pq.read_table(published.path / "utterances.parquet")
    assert sorted(kept["text"].to_pylist()) == ["words of inside", "words of rounded"]
