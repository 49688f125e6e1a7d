"""Tables with any columns, as spreadsheets, pandas and people write them; and broken ones."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import fuzz, listed_apart
from tests.sources.test_sources import ignored, jsonl, listed, put, recs
from tests.sources.test_sources_fuzz import check
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Recording
from uttermill.tasks.settings import Source
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.stages.listing import entries

AB = ("a.wav", "b.wav")


def made(home: Path, data: str | bytes, *audio: str, name: str = "x.csv") -> Path:
    for each in audio or AB:
        put(home / each)
    return put(home / name, data)


def texts(path: Path, **options: Any) -> dict[str, str | None]:
    return {r.path: r.text for r in recs(listed("table", path, **options)) if not r.error}


def errors(path: Path, **options: Any) -> dict[str, str]:
    return {r.path: r.error[1] for r in recs(listed("table", path, **options)) if r.error}


def test_a_span_has_one_text_of_a_speaker(tmp_path: Path) -> None:
    rows = ["1,2,a,one", "1,2,a,one", "1,2,a,other", "1,2,b,two", "1,3,a,three"]
    table = "audio,start,end,speaker,text\n" + "".join(f"a.wav,{row}\n" for row in rows)
    items = listed("table", made(tmp_path, table))
    [found] = recs(items)
    assert [segment.text for segment in found.segments or ()] == ["one", "two", "three"]
    assert ignored(items) == {"x.csv:3": "duplicate_line", "x.csv:4": "other_text"}


@pytest.mark.parametrize("written", ["in\\e\u0301.wav", "in/\u00e9.wav", "in\\\u00e9.wav"])
@pytest.mark.parametrize("name", ["e\u0301.wav", "\u00e9.wav"])
def test_names_as_other_systems_write_them(tmp_path: Path, name: str, written: str) -> None:
    """Windows separates folders by backslashes, and macOS writes accents apart."""
    path = made(tmp_path, f"file_name,text\n{written},one\n", f"in/{name}", name="metadata.csv")
    assert texts(path) == {f"in/{name}": "one"}
    items = listed("table", tmp_path)
    assert [(r.path, r.text) for r in recs(items)] == [(f"in/{name}", "one")]
    assert ignored(items) == {}
    put(tmp_path / written, b"its own")  # a name as it is written comes first
    assert texts(path) == {written: "one"}


def notes(kind: str, path: Path, **options: Any) -> list[str]:
    source, settings = resolve_source(Source(kind=kind, path=str(path), **options))
    source.recordings(settings)
    return list(source.notes(settings))


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
@pytest.mark.parametrize(
    "header",
    [
        ("path", "text"), ("audio", "sentence"), ("file", "transcription"), ("wav", "transcript"),
        ("File Name", "Text"), ("audio_filepath", "normalized_text"), ("\ufeffPath", "raw_text"),
        ("nobody's name for it", "sentence"),
    ],
)  # fmt: skip
def test_columns_of_any_name(tmp_path: Path, separator: str, header: tuple[str, str]) -> None:
    rows = [header, ("a.wav", "one two"), ("./b.wav", "three")]
    path = made(tmp_path, "\r\n".join(separator.join(row) for row in rows))
    assert texts(path) == {"a.wav": "one two", "b.wav": "three"}


def test_every_role(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        "id,clip,sentence,client_id,locale,start,end\n"
        "u1,a.wav,one,anna,en_US,0.5,1.5\n"
        "u2,b.wav,two,,German,,\n"
        "u3,a.wav,three,bert,deu,2,2.5\n",
    )
    first, second = sorted(recs(listed("table", path)), key=lambda r: r.path)
    told = [
        (s.start, s.end, s.source_id, s.text, s.speaker, s.language) for s in first.segments or ()
    ]
    assert told == [
        (0.5, 1.5, "u1", "one", "anna", "en_US"),
        (2.0, 2.5, "u3", "three", "bert", "de"),
    ]
    assert (second.source_id, second.text, second.speaker) == ("u2", "two", None)
    assert second.language == "de"


def test_rows_of_one_file_may_be_anywhere(tmp_path: Path) -> None:
    rows = [f"{name},{n},{n + 1},t{n}" for n in range(50) for name in AB]
    path = made(tmp_path, "\n".join(["wav,start,end,text", *rows, "a.wav,,,whole", rows[0]]))
    items = listed("table", path)
    assert [len(r.segments or ()) for r in recs(items)] == [50, 50]
    assert ignored(items) == dict.fromkeys(("x.csv:102", "x.csv:103"), "duplicate_line")


def test_the_settings_name_the_columns(tmp_path: Path) -> None:
    path = made(tmp_path, "path,text,said,who\na.wav,A,b,c\nb.wav,B,d,e\n")
    columns = {"text": "said", "speaker": "who"}
    assert texts(path, columns=columns) == {"a.wav": "b", "b.wav": "d"}
    assert texts(path, columns={"text": ""}) == {"a.wav": None, "b.wav": None}
    with pytest.raises(ConfigError, match="has no column 'words'; it has path, text, said, who"):
        texts(path, columns={"text": "words"})


def test_audio_by_id_in_a_folder_beside(tmp_path: Path) -> None:
    path = made(tmp_path, "id,text\na,one\nb,two\n", "clips/a.flac", "clips/b.flac")
    assert texts(path) == {"clips/a.flac": "one", "clips/b.flac": "two"}
    assert notes("table", path)[0].startswith(
        "table (x.csv): audio from 'id' (clips/<name>.flac), text from 'text'"
    )


def test_files_elsewhere(tmp_path: Path) -> None:
    path = made(tmp_path, "path\na.wav\nb.wav\n", "deep/a.wav", "deep/b.wav")
    assert texts(path, root=str(tmp_path / "deep")) == {"a.wav": None, "b.wav": None}
    absolute = made(tmp_path, f"path,text\n{tmp_path}/a.wav,x\n", name="y.csv")
    assert texts(absolute) == {"a.wav": "x"}


def test_no_header(tmp_path: Path) -> None:
    """Two columns are certain, of more the settings say which."""
    assert texts(made(tmp_path, "a.wav|One, two.\nb.wav|three\n", name="train.csv")) == {
        "a.wav": "One, two.",
        "b.wav": "three",
    }
    assert texts(made(tmp_path, "a.wav\nb.wav\n", name="one.csv")) == {"a.wav": None, "b.wav": None}
    path = made(tmp_path, "a.wav|7|one\nb.wav|8|two\n")
    with pytest.raises(ConfigError, match=r"3 columns and no header.*\{audio: 1, text: 3\}"):
        texts(path)
    found = recs(listed("table", path, columns={"text": 3, "speaker": "2"}))
    assert [(r.text, r.speaker) for r in found] == [("one", "7"), ("two", "8")]
    ids = made(tmp_path, "a;one\nb;two\n", name="ids.csv")
    with pytest.raises(ConfigError, match=r"names audio .*a, one.; .*`header: false`"):
        texts(ids)
    assert texts(ids, header=False, columns={"audio": 1}) == {"a.wav": "one", "b.wav": "two"}


@pytest.mark.parametrize("absent", ["NaN", "nan", "None", "null", "NULL", "-", "<NA>", "", "  "])
def test_absent_values(tmp_path: Path, absent: str) -> None:
    row = f"a.wav\t{absent}\t{absent}\t{absent}\t{absent}\t{absent}\t{absent}"
    path = made(tmp_path, f"path\ttext\tid\tspeaker\tlanguage\tstart\tend\n{row}\n")
    (found,) = recs(listed("table", path))
    assert (found.error, found.text, found.source_id, found.speaker) == (None,) * 4
    assert (found.segments, found.language) == (None, None)
    rows = [{"wav": "a.wav", **dict.fromkeys(("txt", "key", "speaker", "lang", "start"), absent)}]
    (found,) = recs(listed("jsonl", jsonl(tmp_path / "x.jsonl", *rows)))
    assert (found.error, found.text, found.source_id, found.segments) == (None,) * 4
    assert errors(made(tmp_path, f"path,text\n{absent},x\na.wav,y\n", name="y.csv")).keys() == {
        "y.csv:2"
    }


def test_null_is_a_word_of_german(tmp_path: Path) -> None:
    path = made(tmp_path, "path,text,lang\na.wav,null,de\nb.wav,null,en\n")
    assert texts(path) == {"a.wav": "null", "b.wav": None}


# languages


def test_languages_that_cannot_be_read(tmp_path: Path) -> None:
    path = made(tmp_path, "path,text,language\na.wav,x,klingonese\nb.wav,y,0\n")
    with pytest.raises(
        ConfigError, match=r"'language' holds 'klingonese', '0', which are not lang"
    ):
        listed("table", path)
    assert {r.language for r in recs(listed("table", path, language="English"))} == {None}
    one = made(tmp_path, "path,text,language\na.wav,x,English\nb.wav,y,klingonese\n", name="y.csv")
    assert errors(one) == {
        "y.csv:3": '\'klingonese\' is not a language code; write "en", "es" or "yue"'
    }
    rows = [{"wav": name, "txt": "x", "language": 7} for name in AB]
    with pytest.raises(ConfigError, match="'language' holds '7', which are not languages"):
        listed("jsonl", jsonl(tmp_path / "x.jsonl", *rows))


def parquet(path: Path, languages: pa.Array, feature: dict[str, Any]) -> Path:
    cells = pa.array([{"bytes": b"RIFF", "path": None}] * len(languages))
    about = {"info": {"features": {"language": feature}}}
    table = pa.table({"audio": cells, "text": ["x"] * len(languages), "language": languages})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), path)
    return path


@pytest.mark.parametrize(
    ("cells", "feature", "expected"),
    [
        (["English", "en_US", "fra"], {"dtype": "string"}, ["en", "en_US", "fr"]),
        ([1, 0, None], {"_type": "ClassLabel", "names": ["en", "German"]}, ["de", "en", None]),
    ],
)
def test_languages_of_parquet(
    tmp_path: Path, cells: list[Any], feature: dict[str, Any], expected: list[str | None]
) -> None:
    path = parquet(tmp_path / "x.parquet", pa.array(cells), feature)
    assert [r.language for r in recs(listed("hf_parquet", path))] == expected


def test_numbers_of_languages_that_nothing_explains(tmp_path: Path) -> None:
    features: list[dict[str, Any]] = [{}, {"_type": "ClassLabel", "names": 5}, {"_type": []}]
    for number, feature in enumerate(features):
        path = parquet(tmp_path / f"{number}.parquet", pa.array([0, 1]), feature)
        with pytest.raises(ConfigError, match="'language' holds '0', '1', which are not languages"):
            listed("hf_parquet", path)
        assert {r.language for r in recs(listed("hf_parquet", path, language="en"))} == {None}


# what is not taken


def test_columns_that_are_not_taken_are_named_once(tmp_path: Path) -> None:
    rows = ["path,text,raw_text,utt_id,begin_frame,onset_s,gender,notes,age,empty_text"]
    rows += [f"{name},x{name},X {name},u,7,7,f,some words of {name},20," for name in AB]
    said = notes("table", made(tmp_path, "\n".join(rows)))
    assert said[1:] == [
        "the column 'raw_text' looks like a text and is not taken; `columns: {text: raw_text}` "
        "takes it in place of 'text'",
        "the column 'begin_frame' looks like a time and is not taken; write it in seconds, or in "
        "milliseconds as start_ms and end_ms",
        "the column 'onset_s' looks like a time and is not taken; `columns: {start: onset_s}` "
        "takes it",
        "the column 'notes' looks like a text and is not taken; `columns: {text: notes}` takes it "
        "in place of 'text'",
    ]


def test_an_id_of_a_voice_looks_like_a_speaker(tmp_path: Path) -> None:
    """It was proposed as the id, which lines of one voice would share."""
    rows = ["path,text,Talker ID", *(f"{name},x{name},anna" for name in AB)]
    assert notes("table", made(tmp_path, "\n".join(rows)))[1:] == [
        "the column 'Talker ID' looks like a speaker and is not taken; `columns: {speaker: "
        "Talker ID}` takes it"
    ]


def test_a_column_of_yes_and_no_or_of_ids_is_no_text(tmp_path: Path) -> None:
    rows = ["path,text,is_gold_transcript,sentence_id"]
    rows += [f"{name},x{name},{name == 'a.wav'},s{name}" for name in AB]
    assert notes("table", made(tmp_path, "\n".join(rows)))[1:] == [
        "the column 'sentence_id' looks like an id and is not taken; `columns: {id: sentence_id}` "
        "takes it"
    ]


def test_a_column_of_a_layouts_file_is_taken_by_a_table_of_it(tmp_path: Path) -> None:
    """The columns of a layout are the layout's."""
    rows = ["file_name,text,my_transcript", "a.wav,x,one two", "b.wav,y,three four"]
    path = made(tmp_path, "\n".join(rows), name="metadata.csv")
    [_, sentence] = notes("table", tmp_path)
    takes = f"kind: table, path: {path}, columns: {{text: my_transcript}}"
    assert f"`{takes}` takes it in place of 'text'" in sentence
    assert texts(path, columns={"text": "my_transcript"}) == {
        "a.wav": "one two", "b.wav": "three four",
    }  # fmt: skip


def test_speakers_that_pandas_wrote_as_floats_in_parquet(tmp_path: Path) -> None:
    """A column of whole numbers in which one is missing."""
    cells = [{"path": None, "bytes": b"x"}] * 2
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"audio": cells, "speaker_id": [12.0, float("nan")]}), path)
    assert [r.speaker for r in recs(listed("hf_parquet", path))] == ["12", None]


def test_a_folder_says_which_lists_name_its_recordings(tmp_path: Path) -> None:
    csv_path = made(tmp_path, "filename,label,said\na.wav,x,one two\nb.wav,y,three\n", name="l.csv")
    put(tmp_path / "about.tsv", "year\tplace\n1999\there\n")
    put(tmp_path / "other.csv", "path,text\nelsewhere.wav,x\n")
    put(tmp_path / "data/train/wav.scp", "u a.wav\n")
    assert sorted(notes("folder", tmp_path)) == [
        f"data/train/wav.scp names recordings and is not read; `--source {tmp_path}/data/train` "
        "takes them, with their texts",
        f"l.csv names recordings and is not read; `--source {csv_path}` takes them, with their "
        "texts",
    ]
    assert notes("folder", tmp_path, texts="none") == []


def test_keys_that_are_not_taken_are_named_once(tmp_path: Path) -> None:
    rows = [{"audio_filepath": "a.wav", "text": "x", "id": n, "transcript_2": "y"} for n in "ab"]
    assert notes("jsonl", jsonl(tmp_path / "x.jsonl", *rows)) == [
        "list (x.jsonl): audio from 'audio_filepath', text from 'text'; not used: 'id', "
        "'transcript_2'",
        "the key 'id' looks like an id and is not taken; `columns: {id: id}` takes it",
        "the key 'transcript_2' looks like a text and is not taken; `columns: {text: "
        "transcript_2}` takes it in place of 'text'",
    ]
    assert notes("jsonl", jsonl(tmp_path / "y.jsonl", {"wav": "a", "txt": "x", "key": 1})) == [
        "list (y.jsonl): audio from 'wav', id from 'key', text from 'txt'"
    ]


def test_a_list_of_emilia_has_its_texts_and_ids(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    row = {"id": "EN_1", "wav": "a.wav", "text": "hello", "speaker": "s", "language": "en"}
    (found,) = recs(listed("jsonl", jsonl(tmp_path / "x.jsonl", row)))
    assert (found.source_id, found.text, found.speaker) == ("EN_1", "hello", "s")
    both = {"wav": "a.wav", "txt": "one", "text": "two", "key": "k", "id": "i"}
    (found,) = recs(listed("jsonl", jsonl(tmp_path / "x.jsonl", both)))
    assert (found.source_id, found.text) == ("k", "one")


# broken ones


def test_quotes(tmp_path: Path) -> None:
    rows = [
        'a.wav,"two\nlines, and ""quotes"""',
        'b.wav,"Stray, said he',  # opens nothing: a row with a cell too many
        'c.wav,"Stray',
        'd.wav,said "he" so',
        'e.wav,"Half" a quote',
        'f.wav,"closes" ',
        'g.wav,"',
        "h.wav,last",
    ]
    names = [f"{letter}.wav" for letter in "abcdefgh"]
    path = made(tmp_path, "\n".join(["path,text", *rows]), *names)
    assert texts(path) == {
        "a.wav": 'two\nlines, and "quotes"',
        "c.wav": '"Stray',
        "d.wav": 'said "he" so',
        "e.wav": '"Half" a quote',
        "f.wav": '"closes"',
        "g.wav": '"',
        "h.wav": "last",
    }
    assert errors(path) == {
        "x.csv:4": "the row has 3 cells, where the header has 2; put a text that holds commas into "
        "quotes"
    }


@pytest.mark.nightly
def test_a_cell_of_50_megabytes_costs_only_its_row(tmp_path: Path) -> None:
    """In one line, and in many within quotes; in little memory."""
    for name in AB:
        put(tmp_path / name)
    line = "word " * (10 << 20)
    lines = f"{'one line of words ' * 5}\n" * (5 << 17)
    with listed_apart.telling() as told:
        for name, cell in (("one.csv", line), ("many.csv", f'"{lines}"')):
            (tmp_path / name).write_text(f"path,text\na.wav,{cell}\nb.wav,fine\n")
            found = told({"kind": "table", "path": str(tmp_path / name)})
            assert found["rows"] == {"unreadable": 1, "good": 1}
            assert "MB" in found["details"][0]
            assert found["took"] < 700 << 20


@pytest.mark.parametrize(
    ("encoding", "stated"),
    [("utf-8", None), ("utf-8-sig", None), ("utf-16", None), ("utf-16-le", None),
     ("gbk", "gbk"), ("cp1251", "cp1251"), ("utf-8", "gbk")],
)  # fmt: skip
def test_encodings(tmp_path: Path, encoding: str, stated: str | None) -> None:
    text = "привет" if "1251" in encoding else "今天天气"
    path = made(tmp_path, f"path,text\na.wav,{text}\nb.wav,{text}\n".encode(encoding))
    if (encoding, stated) == ("utf-8", "gbk"):
        path = made(tmp_path, "path,text\na.wav,今天天\n")
        with pytest.raises(ConfigError, match="does not fit gbk"):
            texts(path, encoding=stated)
        return
    assert texts(path, encoding=stated) == {"a.wav": text, "b.wav": text}
    if stated in ("gbk", "cp1251"):
        with pytest.raises(ConfigError, match=rf"cannot be read: .*(gb18030|{stated})"):
            texts(path)


def test_a_row_in_another_encoding_costs_only_itself(tmp_path: Path) -> None:
    rows = [b"path,text", b"a.wav,caf\xe9", "b.wav,café".encode(), "c.wav,café".encode()]
    path = made(tmp_path, b"\n".join(rows), "a.wav", "b.wav", "c.wav")
    assert texts(path) == {"b.wav": "café", "c.wav": "café"}
    assert errors(path) == {"x.csv:2": "a text is not valid UTF-8"}


def test_bad_rows(tmp_path: Path) -> None:
    rows = ["path\ttext\tstart\tend", "a.wav\tone\t0\t1", "b.wav", "a.wav\t1\t2\t3\t4\t5",
            "\tno audio\t\t", "no.wav\tmissing\t\t", "b.wav\tlate\t5\t4", "b.wav\tx\tsoon\t",
            "http://x/y.wav\tx\t\t", "b.wav\tgood\t\t\t", "b.wav\tagain\t\t"]  # fmt: skip
    path = made(tmp_path, "\n".join(rows), name="x.tsv")
    items = listed("table", path)
    assert {r.path for r in recs(items) if not r.error} == {*AB}
    assert errors(path) == {
        "x.tsv:3": "the row has 1 cell, where the header has 4",
        "x.tsv:4": "the row has 6 cells, where the header has 4; put a text that holds tabs into "
        "quotes",
        "x.tsv:5": "it names no file: a path of audio is expected",
        "no.wav": "No such file or directory",
        "x.tsv:7": "the segment ends before it starts",
        "x.tsv:8": "a time is not a number of seconds, such as 1.5: 'soon'",
        "x.tsv:9": "a remote address or a command, not a path; fetch it first",
    }
    assert ignored(items) == {"x.tsv:11": "other_text"}


@pytest.mark.parametrize(
    ("data", "options", "why"),
    [
        ("", {}, "is empty"),
        ("\n\n", {}, "is empty"),
        (b"PK\x03\x04rest", {}, "ZIP archive; unpack it first"),
        (b"\x1f\x8brest", {}, "compressed with gzip"),
        (b"\x00\x01\x02\x00\x00\x03" * 9, {}, "NUL bytes"),
        ("path,text\ra.wav,x\r", {}, "CR alone"),
        ("name,text\nx,y\n", {}, r"no column names audio \(it has name, text\)"),
        (
            "path,text\na.wav,x\n",
            {"separator": "\t"},
            r"no column names audio \(it has path,text\)",
        ),
        ("a\n1,2\n1;2;3\n", {}, r"no column names audio \(it has a\)"),
        ("path\n", {"encoding": "no such"}, "there is no encoding 'no such'"),
        ("path\n", {"separator": "||"}, "separator"),
    ],
)
def test_tables_that_cannot_be_read(
    tmp_path: Path, data: str | bytes, options: dict[str, Any], why: str
) -> None:
    path = made(tmp_path, data)
    with pytest.raises(ConfigError, match=why):
        listed("table", path, **options)


CELLS = st.sampled_from(
    ["real.wav", "a", '"', '""', ",", "\t", "\n", "é", "\ufeff", "x y z", "1", "-", "nan", "\0", ""]
)
HEADS = st.sampled_from(
    ["path,text", "wav\ttext\tstart\tend", "a;b;c", "path", '"path","text"', ""]
)


@fuzz.cases(300)
@given(
    HEADS, st.lists(st.lists(CELLS, max_size=6).map("".join), max_size=20), st.binary(max_size=9)
)
@pytest.mark.nightly
def test_any_table(head: str, rows: list[str], tail: bytes) -> None:
    check("table", {"x.csv": "\n".join([head, *rows]).encode() + tail}, "x.csv")


@fuzz.cases(200)
@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2), min_size=1, max_size=8),
       st.sampled_from(",;\t|"))  # fmt: skip
def test_what_the_csv_module_writes_is_read(rows: list[list[str]], separator: str) -> None:
    """All cells but those that a text cannot hold."""
    from tempfile import TemporaryDirectory

    rows = [[c.replace("\r", "").replace("\0", "") for c in row] for row in rows]
    written = io.StringIO()
    names = [f"r{n}.wav" for n in range(len(rows))]
    cells = [[name, *row] for name, row in zip(names, rows, strict=True)]
    csv.writer(written, delimiter=separator, lineterminator="\n").writerows(
        [["path", "text", "id"], *cells]
    )
    with TemporaryDirectory() as home:
        path = made(Path(home), written.getvalue().encode("utf-8", "surrogatepass"), *names)
        source, settings = resolve_source(
            Source(kind="table", path=str(path), separator=separator, header=True)
        )
        found = {r.path: r for r in source.recordings(settings) if isinstance(r, Recording)}
        assert {*names} <= {*found} | {f"x.csv:{n}" for n in range(99)}
        for name, (text, _) in zip(names, rows, strict=True):
            lines = "\n".join(line for line in text.split("\n") if line.strip())
            if name in found and found[name].text is not None:
                assert (found[name].text or "").split() == lines.split()


def test_the_hash_of_a_listed_row_is_that_of_its_canonical_json() -> None:
    texts = {"recording": 'c/ä"\n\\', "text": "नमस्ते \x7f \U0001f600", "locator": '{"path": "a"}'}
    row = {**dict.fromkeys(entries.DESCRIBED), **texts, "present": True}
    assert entries.listed(row) == recipe.digest(row)


def test_a_file_is_one_recording_however_its_rows_end_its_name(tmp_path: Path) -> None:
    items = listed("table", made(tmp_path, "path\na.wav\na.wav/\na.wav/.\n"))
    assert [item.path for item in items] == ["x.csv:3", "x.csv:4", "a.wav"]
    assert [r.path for r in recs(items)] == ["a.wav"]
