"""Folders in the layouts of known corpora, and tables, by nothing but their path."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, layouts
from tests.sources.test_sources import ignored, listed, recs
from tests.sources.test_table import notes
from uttermill.flows import cli
from uttermill.tasks.recording import Ignored, Recording
from uttermill.tasks.sources import table


def said(recording: Recording) -> Iterator[tuple[str, layouts.Said]]:
    if recording.segments is None:
        yield recording.path, (recording.text, recording.speaker, recording.language)
    for segment in recording.segments or ():
        name = f"{recording.path}@{segment.start}"
        yield (
            name,
            (segment.text and " ".join(segment.text.split()), segment.speaker, segment.language),
        )


def clean(text: str | None) -> str | None:
    return text and " ".join(text.split())


@pytest.mark.parametrize("name", layouts.MAKERS)
def test_a_layout_is_taken_for_what_it_is(tmp_path: Path, name: str) -> None:
    maker, below = layouts.MAKERS[name]
    expected = maker(tmp_path)
    path = tmp_path / below
    suggested = table.suggested(str(path))
    layout = name.split()[0]
    plain = {"kind": "table"}
    assert suggested == (plain if layout == "table" else {**plain, "layout": layout})
    items = listed(path=path, **suggested)
    found = {key: (clean(text), *rest) for r in recs(items) for key, (text, *rest) in said(r)}
    assert found == expected
    assert [r for r in recs(items) if r.error] == []
    # The same by `layout: auto`, and not as another layout.
    assert listed("table", path) == items


def test_audio_that_no_list_names_is_told(tmp_path: Path) -> None:
    layouts.common_voice(tmp_path / "cv")
    layouts.vctk(tmp_path / "vctk")
    assert ignored(listed("table", tmp_path / "cv")) == {"cy/clips/three.flac": "not_listed"}
    second = {f"wav48_silence_trimmed/{s}/{s}_001_mic2.flac" for s in ("p225", "p226")}
    assert ignored(listed("table", tmp_path / "vctk")) == dict.fromkeys(second, "not_listed")


def test_a_row_whose_audio_is_missing_costs_only_itself(tmp_path: Path) -> None:
    expected = layouts.ljspeech(tmp_path)
    lines = (tmp_path / "metadata.csv").read_text().splitlines()
    layouts.write(tmp_path / "metadata.csv", "LJ9|gone|gone", *lines, "a|b|c|d|e", "LJ001-0001|x|x")
    items = listed("table", tmp_path)
    assert {r.path for r in recs(items) if not r.error} == {*expected}
    errors = {r.path: r.error for r in recs(items) if r.error}
    assert errors["wavs/LJ9.wav"][0] == "missing"
    assert errors["metadata.csv:5"] == (
        "unreadable",
        "the row has 5 cells, where most rows have 3; put a text that holds pipes into quotes",
    )
    assert ignored(items) == {"metadata.csv:6": "other_text"}


ROWS = {"LJ001-0001": "what the first one says", "LJ001-0002": "what the second one says"}


@pytest.mark.parametrize(
    ("first", "before", "after"),
    [("\ufeff", "", ""), ("id|text|normalised\r\n", "", ""), ("", "", ".wav"),
     ("", "wavs/", ".wav"), ("", "{home}/wavs/", ".wav")],
)  # fmt: skip
@pytest.mark.parametrize("around", ["", "LJSpeech-1.1/", "a/b/"])
def test_ljspeech_as_people_write_it(
    tmp_path: Path, first: str, before: str, after: str, around: str
) -> None:
    home = tmp_path / around
    for name in ROWS:
        layouts.audio(home, f"wavs/{name}.wav")
    before = before.format(home=home)
    rows = "".join(f"{before}{n}{after}|{t} 1|{t} one\r\n" for n, t in ROWS.items())
    (home / "metadata.csv").write_text(first + rows)
    layouts.write(tmp_path / "README.txt", "unpacked")
    assert table.suggested(str(tmp_path)) == {"kind": "table", "layout": "ljspeech"}
    items = listed("table", tmp_path)
    assert [(r.path, r.text, r.error) for r in recs(items)] == [
        (f"wavs/{name}.wav", f"{text} one", None) for name, text in ROWS.items()
    ]
    assert ignored(items) == {}


def test_speakers_between_path_and_text_are_no_texts(tmp_path: Path) -> None:
    for name in ROWS:
        layouts.audio(tmp_path, f"wavs/{name}.wav")
    rows = (f"wavs/{name}.wav|7|{text}" for name, text in ROWS.items())
    layouts.write(tmp_path / "metadata.csv", *rows)
    assert table.suggested(str(tmp_path)) is None
    (why,) = notes("folder", tmp_path)
    assert why.startswith("metadata.csv seems to name recordings and is not read: source ")
    assert "has 3 columns and no header: name them, for example `columns: {audio: 1" in why


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("metadata.csv", "file_name,text\na.wav,Да\n".encode("cp1251"), "set the source's `enco"),
        ("metadata.csv", b"LJ1|one|two|three\n", "no column names audio"),
        ("metadata.csv.gz", gzip.compress(b"a.wav,one\n", mtime=0), "decompress it first"),
        ("transcripts.txt", b"a|one\n", "no column names audio"),
        ("said.csv", b"a.wav,one,two\n", "name them, for example"),
        (
            "metadata.jsonl",
            b'{"file_name": "b.wav", "text": "one"}\n',
            "the audio that it names is",
        ),
    ],
)
def test_a_list_that_a_folder_cannot_use_is_named_with_the_reason(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    layouts.audio(tmp_path, "a.wav")
    (tmp_path / name).write_bytes(data)
    assert table.suggested(str(tmp_path)) is None
    (note,) = notes("folder", tmp_path)
    assert note.startswith(f"{name} seems to name recordings and is not read: ")
    assert why in note


def test_a_path_from_the_root_and_a_whole_path_are_one_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        layouts.audio(tmp_path, f"data/train/{name}.wav")
    home = tmp_path / "data/train"
    layouts.write(
        home / "metadata.csv",
        "file_name,text",
        "a.wav,one",
        f"{home}/a.wav,one",
        f"{home}/b.wav,two",
    )
    assert table.suggested(str(tmp_path)) == {"kind": "table", "layout": "audiofolder"}
    items = listed("table", home)
    assert {r.path: r.text for r in recs(items)} == {"a.wav": "one", "b.wav": "two"}
    assert len(recs(items)) == 2
    assert ignored(items) == {"metadata.csv:3": "duplicate_line"}


def test_audio_as_datasets_writes_it_to_json_is_a_path(tmp_path: Path) -> None:
    layouts.audio(tmp_path, "a.wav")
    rows = [{"audio": {"bytes": None, "path": "a.wav"}, "text": "one"}]
    for name, data in (("x.json", json.dumps(rows)), ("y.jsonl", json.dumps(rows[0]))):
        layouts.write(tmp_path / name, data)
        assert [(r.path, r.text) for r in recs(listed("table", tmp_path / name))] == [
            ("a.wav", "one")
        ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda home: (home / "metadata.csv").write_text("a;b\nc;d\n"),
        lambda home: [path.unlink() for path in (home / "wavs").iterdir()],
        lambda home: (home / "metadata.csv").write_bytes(b"\xff\xfe\0\0\x81" * 9),
        lambda home: (home / "metadata.csv").unlink(),
    ],
)
def test_a_folder_that_is_not_certain_stays_a_folder(tmp_path: Path, spoil: Any) -> None:
    layouts.ljspeech(tmp_path)
    spoil(tmp_path)
    assert table.suggested(str(tmp_path)) is None


def test_a_layout_that_the_settings_name_and_the_folder_is_not(tmp_path: Path) -> None:
    from uttermill.tasks.base.errors import ConfigError

    layouts.ljspeech(tmp_path)
    with pytest.raises(
        ConfigError, match="does not follow the layout vctk: its lists, or the audio"
    ):
        listed("table", tmp_path, layout="vctk")
    with pytest.raises(ConfigError, match="does not follow a known layout"):
        listed("table", tmp_path / "wavs")


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = cli.main([*words])
    return code, capsys.readouterr().out


@pytest.mark.full
@pytest.mark.usefixtures("one_process")
def test_all_of_them_through_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared_cluster: dict[str, Any]
) -> None:
    """plan, run, list: what each was taken for is said, and each text is the one that is kept."""
    words: list[str] = []
    expected: dict[tuple[str, str], layouts.Said] = {}
    names: dict[str, str] = {}
    for number, (name, (maker, below)) in enumerate(layouts.MAKERS.items()):
        home = tmp_path / f"in{number}"
        made = maker(home)
        source = home / below
        words += ["--source", str(source)]
        stem = source.name.split(".")[0]
        taken = {n for n, _ in expected}
        stem = stem if stem not in names.values() else f"{stem}-2"
        names[name] = stem
        assert stem not in taken
        expected |= {(stem, path): what for path, what in made.items()}
    words += ["--out", str(tmp_path / "out"), "--set", "transcribe.backend.use=fake"]
    words += ["--set", "history=none"]
    for key, value in shared_cluster.items():
        words += ["--set", f"cluster.{key}={value}"]
    words += ["--set", "filter.filters=[]", "--set", "shard.settle_seconds=0"]

    code, out = command(capsys, "plan", *words)
    assert code == 0
    for name, stem in names.items():
        assert f"Source {stem}: " in out, name
    for title in (
        "LJSpeech (metadata.csv): audio from '1' (wavs/<name>.wav), text from '3', else '2'",
        "M-AILABS (", "Common Voice (cy/validated.tsv): ", "VCTK (", "LibriSpeech (", "MLS (",
        "AudioFolder (", "GigaSpeech (", "WenetSpeech (", "VoxPopuli (", "AISHELL (transcript/",
        "AISHELL (train/content.txt)", "ESPnet or Kaldi (wav.scp)", "Emilia (DE_B0.jsonl)",
        "Emilia-Pipe (", "table (x.tsv): audio from 'Wav', ",
    ):  # fmt: skip
        assert title in out

    code, out = command(capsys, "run", *words)
    assert code == 0, out
    assert "Source in0: LJSpeech (metadata.csv)" in out
    version = tmp_path / "out/datasets/v0001"
    rows = corpus.utterances(version)
    kept = {}
    for row in rows:
        dataset, _, path = row["recording"].partition("/")
        if (dataset, path) not in expected:
            path = f"{path}@{row['start']:g}"
        text = row["text"] if row["text_source"] == "reference" else None
        kept[dataset, path] = text, row["speaker"]
    assert kept == {key: (text, speaker) for key, (text, speaker, _) in expected.items()}

    code, out = command(capsys, "list", str(tmp_path / "out"), "--format", "wenet")
    assert code == 0
    assert [Path(line).is_file() for line in out.splitlines()] == [True]

    code, out = command(capsys, "run", *words, "--json")
    again = json.loads(out.splitlines()[-1])
    assert {stage["items_computed"] for stage in again["stages"].values()} == {0}
    told = {each["source"]: each["says"] for each in again["sources"]}
    assert told.keys() == {*names.values()}


@pytest.mark.full
def test_a_folder_becomes_a_layout_without_computing_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An OUT that was made of the folder alone, before there was a list in it."""
    layouts.ljspeech(tmp_path / "lj")
    listing = (tmp_path / "lj/metadata.csv").rename(tmp_path / "aside")
    job = corpus.job(tmp_path, sources=[{"kind": "folder", "path": str(tmp_path / "lj")}])
    assert corpus.run(job)[1]["filter"] == (3, 0)
    listing.rename(tmp_path / "lj/metadata.csv")
    assert corpus.run(job)[1]["filter"] == (0, 3), "an explicit folder stays a folder"
    taken = {"path": str(tmp_path / "lj"), **(table.suggested(str(tmp_path / "lj")) or {})}
    published, counts = corpus.run(corpus.job(tmp_path, sources=[taken]))
    assert counts["filter"][0] == counts["resample"][0] == 0
    rows = corpus.utterances(published.path)
    assert {row["text_source"] for row in rows} == {"reference"}


def test_lists_on_the_command_line(tmp_path: Path) -> None:
    layouts.write(tmp_path / "a.jsonl", '{"wav": "a.wav", "txt": "x"}')
    layouts.write(tmp_path / "cuts.jsonl", '{"type": "MonoCut", "supervisions": []}')
    layouts.write(tmp_path / "nemo.json", '{"audio_filepath": "a.wav", "text": "x"}')
    layouts.write(tmp_path / "a.txt", "x")
    for name, kind in (("a.jsonl", "jsonl"), ("cuts.jsonl", "lhotse"), ("nemo.json", "jsonl")):
        assert table.suggested(str(tmp_path / name)) == {"kind": kind}
    layouts.write(tmp_path / "b.json", '[{"file": "a.wav", "text": "x"}, 5]')
    layouts.write(tmp_path / "c.jsonl", '{"file": "a.wav", "text": "x"}', "{")
    layouts.write(tmp_path / "a.wav")
    for name in ("b.json", "c.jsonl"):
        assert table.suggested(str(tmp_path / name)) == {"kind": "table"}
        good, *bad = sorted(recs(listed("table", tmp_path / name)), key=lambda r: bool(r.error))
        assert (good.path, good.text, good.error) == ("a.wav", "x", None)
        assert [r.path for r in bad] == [f"{name}:2"]
    assert table.suggested("s3://bucket/x.tsv") == {"kind": "table"}
    (tmp_path / "cuts.jsonl.gz").write_bytes(gzip.compress((tmp_path / "cuts.jsonl").read_bytes()))
    assert table.suggested(str(tmp_path / "cuts.jsonl.gz")) == {"kind": "lhotse"}
    (tmp_path / "nemo.jsonl.gz").write_bytes(gzip.compress((tmp_path / "nemo.json").read_bytes()))
    assert table.suggested(str(tmp_path / "nemo.jsonl.gz")) is None, "no kind reads it"
    for other in (tmp_path / "a.txt", tmp_path / "no.tsv", "s3://bucket/folder", tmp_path):
        assert table.suggested(str(other)) is None


def test_parquet_files_are_taken_alone_or_in_a_folder_without_audio(tmp_path: Path) -> None:
    """A clone of a dataset on the Hub is such a folder."""
    file = tmp_path / "set/data/train-00000-of-00001.parquet"
    layouts.write(file)
    layouts.write(tmp_path / "set/README.md", "text")
    for path in (file, file.parent, tmp_path / "set", "s3://bucket/x.parquet"):
        assert table.suggested(str(path)) == {"kind": "hf_parquet"}
    assert table.suggested(str(tmp_path / "no.parquet")) is None
    layouts.write(tmp_path / "set/more/a.wav")
    assert table.suggested(str(tmp_path / "set")) is None


@pytest.mark.nightly
def test_a_corpus_in_one_object_is_read_entry_by_entry(tmp_path: Path) -> None:
    """A file that is far larger than what is held of it, and one that breaks off."""
    entry = {"path": "{}.wav", "segments": [{"sid": "s", "begin_time": 0, "end_time": 1,
                                             "text": "word " * 40}] * 3}  # fmt: skip
    entries = [json.dumps(entry).replace("{}", str(n)) for n in range(1500)]
    whole = '{"language": "ZH", "audios": [' + ",\n".join(entries)
    for end, bad in (("]}", 0), ("", 1), (', {"path": 1}]}', 1), (", 5]}", 1), (', {"pa', 1)):
        (tmp_path / "WenetSpeech.json").write_text(whole + end)
        items = listed("table", tmp_path / "WenetSpeech.json")
        named = [r for r in recs(items) if r.error and r.error[0] == "missing"]
        assert len(named) == 1500
        assert {len(r.segments or ()) for r in named} == {1}
        others = [r for r in recs(items) if r.error and r.error[0] == "unreadable"]
        assert len(others) == bad
        assert sum(isinstance(item, Ignored) for item in items) == 3000  # the same span again


def test_lists_that_are_like_ljspeech(tmp_path: Path) -> None:
    """Its list alone; with a header, as F5-TTS and XTTS have it; and paths in place of ids."""
    layouts.ljspeech(tmp_path)
    listing = tmp_path / "metadata.csv"
    assert len(recs(listed("table", listing))) == 3
    layouts.write(listing, "audio_file|text|speaker_name", "wavs/LJ001-0001.wav|Hello.|anna")
    assert table.suggested(str(tmp_path)) == {"kind": "table", "layout": "audiofolder"}
    (one,) = recs(listed("table", tmp_path))
    assert (one.text, one.speaker) == ("Hello.", "anna")
    layouts.write(listing, "wavs/LJ001-0001.wav|anna|Hello.")  # which is which?
    assert table.suggested(str(tmp_path)) is None


def test_a_large_folder_is_looked_at_quickly(tmp_path: Path, monkeypatch: Any) -> None:
    """The first look sees some entries only; a layout that it finds is read as a whole."""
    from uttermill.tasks.sources import _folders as folders

    rows = json.dumps([{"text": "x", "speaker": "s", "language": "en"}])
    for number in range(40):
        layouts.write(tmp_path / f"talk{number}/talk{number}.json", rows)
        layouts.write(tmp_path / f"talk{number}/talk{number}_0.wav")
    monkeypatch.setattr(folders, "MOST_LOOKED", 60)
    assert len(recs(listed("table", tmp_path))) == 40
    monkeypatch.setattr(folders, "MOST_LOOKED", 10)
    assert table.suggested(str(tmp_path)) is None


def test_audio_in_kaldis_folder_that_it_does_not_name(tmp_path: Path) -> None:
    layouts.audio(tmp_path, "a.wav", "b.wav")
    layouts.write(tmp_path / "wav.scp", "u1 a.wav")
    items = listed("kaldi", tmp_path)
    assert [(e.path, e.reason) for e in items if isinstance(e, Ignored)] == [
        ("b.wav", "not_listed")
    ]
