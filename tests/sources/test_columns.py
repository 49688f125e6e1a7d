"""Which columns and files a source takes, what it says of them, and what it refuses."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.flows import settings
from uttermill.tasks import plugins
from uttermill.tasks.base import language_codes
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Recording, container
from uttermill.tasks.settings import Source
from uttermill.tasks.sources.table import suggested
from uttermill.tasks.stages.listing import entries, skipped
from uttermill.tasks.stages.listing.skipped import SkippedEntries


def listed(kind: str, path: Path, **options: Any) -> list[Recording]:
    module, chosen = resolve_source(Source(kind=kind, path=str(path), **options))
    return [one for one in module.recordings(chosen) if isinstance(one, Recording)]


def notes(kind: str, path: Path, **options: Any) -> list[str]:
    module, chosen = resolve_source(Source(kind=kind, path=str(path), **options))
    return list(module.notes(chosen))


def calls(folder: Path, kind: str, *channels: str) -> Path:
    """A list of turns of one call, each of a channel."""
    corpus.add(folder, 3, name="call.wav")
    rows = [
        {"audio": "call.wav", "text": f"turn {n}", "start": n, "end": n + 0.5, "channel": channel}
        for n, channel in enumerate(channels)
    ]
    path = folder / f"calls.{kind}"
    if kind == "jsonl":
        corpus.jsonl(path, rows)
    else:
        table = [",".join(map(str, values)) for values in [[*rows[0]], *(r.values() for r in rows)]]
        path.write_text("\n".join(table))
    return path


KINDS = [("table", "csv"), ("jsonl", "jsonl")]


@pytest.mark.parametrize(("kind", "ending"), KINDS)
def test_roles_for_channels_are_refused_unless_they_are_explained(
    tmp_path: Path, kind: str, ending: str
) -> None:
    path = calls(tmp_path, ending, "agent", "customer", "Agent")
    with pytest.raises(ConfigError, match=r"'Agent', 'agent', 'customer', which are no channels"):
        listed(kind, path)
    found = listed(kind, path, channel_names={"agent": 1, "customer": 0})
    texts = {r.locator.channels: [s.text for s in r.segments or ()] for r in found}
    assert texts == {(1,): ["turn 0", "turn 2"], (0,): ["turn 1"]}
    with pytest.raises(ConfigError, match="'customer', which are no channels"):
        listed(kind, path, channel_names={"agent": 1})
    [mix] = listed(kind, path, columns={"channel": ""})
    assert mix.locator.channels is None
    assert len(mix.segments or ()) == 3


@pytest.mark.parametrize(("kind", "ending"), KINDS)
def test_numbered_names_of_channels(tmp_path: Path, kind: str, ending: str) -> None:
    found = listed(kind, calls(tmp_path, ending, "ch0", "Ch1", "ch0"))
    assert [r.locator.channels for r in found] == [(0,), (1,)]
    path = calls(tmp_path / "from1", ending, "ch1", "ch2")
    with pytest.raises(ConfigError, match="count channels from 1"):
        listed(kind, path)


@pytest.mark.parametrize(("kind", "ending"), KINDS)
def test_a_column_of_broadcasters_is_not_one_of_channels(
    tmp_path: Path, kind: str, ending: str
) -> None:
    path = calls(tmp_path, ending, *(f"station {name}" for name in "abcdefghij"))
    [recording] = listed(kind, path)
    assert recording.locator.channels is None


def test_a_list_with_usual_keys(tmp_path: Path) -> None:
    corpus.add(tmp_path, 3, name="a.wav")
    path = tmp_path / "list.jsonl"
    path.write_text('{"audio": "a.wav", "sentence": "words", "client_id": "anna", "mood": "sad"}\n')
    [recording] = listed("jsonl", path)
    assert (recording.text, recording.speaker, recording.error) == ("words", "anna", None)
    assert notes("jsonl", path)[0] == (
        "list (list.jsonl): audio from 'audio', text from 'sentence', speaker from 'client_id'; "
        "not used: 'mood'"
    )


def sound() -> dict[str, Any]:
    return {"bytes": b"RIFF", "path": None}


def test_of_two_columns_with_audio_the_one_named_audio(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"prompt": [sound()], "audio": [sound()], "text": ["words"]}), path)
    [recording] = listed("hf_parquet", path)
    assert recording.locator.column == "audio"
    says = "Parquet: audio from 'audio', text from 'text'; not used: 'prompt'"
    assert notes("hf_parquet", path)[0] == says
    pq.write_table(pa.table({"prompt": [sound()], "answer": [sound()], "text": ["words"]}), path)
    with pytest.raises(
        ConfigError, match=r"'prompt', 'answer'; choose one, `audio_column: prompt`"
    ):
        listed("hf_parquet", path)
    assert listed("hf_parquet", path, audio_column="answer")[0].locator.column == "answer"


def test_columns_of_parquet_have_the_names_of_a_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    cells = {"utt_id": ["u1"], "Sentence": ["words"], "client_id": ["ann"], "lang_id": ["en"]}
    pq.write_table(pa.table({"audio": [sound()], **cells}), path)
    [one] = listed("hf_parquet", path)
    assert (one.source_id, one.text, one.speaker, one.language) == ("u1", "words", "ann", "en")


def test_dictionary_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    words = {"text": ["one", "two"], "speaker": ["a", None], "language": ["en", "en"]}
    columns = {name: pa.array(values).dictionary_encode() for name, values in words.items()}
    pq.write_table(pa.table({"audio": [sound(), sound()], **columns}), path)
    found = [(r.text, r.speaker, r.language) for r in listed("hf_parquet", path)]
    assert found == [("one", "a", "en"), ("two", None, "en")]


def test_views_are_read(tmp_path: Path) -> None:
    """Polars has them for texts and bytes."""
    path = tmp_path / "a.parquet"
    kind = pa.struct([("bytes", pa.binary_view()), ("path", pa.string_view())])
    texts = pa.array(["one", None], pa.string_view())
    cells = [{"bytes": b"RIFF", "path": "a"}, {"bytes": None, "path": "b"}]
    pq.write_table(pa.table({"audio": pa.array(cells, kind), "text": texts}), path)
    found = listed("hf_parquet", path)
    assert [(r.text, r.source_id) for r in found] == [("one", "a"), (None, "b")]
    assert container.digest(found[0].locator)[1] == len(b"RIFF")


def test_a_speaker_may_be_a_class(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    feature = {"names": ["anna", "bob"], "_type": "ClassLabel"}
    about = {"huggingface": json.dumps({"info": {"features": {"speaker": feature}}})}
    table = pa.table({"audio": [sound()], "speaker": [1]})
    pq.write_table(table.replace_schema_metadata(about), path)
    assert listed("hf_parquet", path)[0].speaker == "bob"


def test_texts_within_a_column_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"audio": [sound()], "text": [["one"]]}), path)
    says = "the column 'text' holds list<element: string>, not texts, and is not taken"
    assert any(says in one for one in notes("hf_parquet", path))


def test_a_list_of_a_part_of_a_folder_does_not_stand_for_all_of_it(tmp_path: Path) -> None:
    corpus.add(tmp_path / "clips", 3, name="a.wav")
    (tmp_path / "clips/metadata.csv").write_text("file_name,text\na.wav,words\n")
    assert suggested(str(tmp_path)) == {"kind": "table", "layout": "audiofolder"}
    corpus.add(tmp_path / "clips", 3, seed=1, name="b.wav")
    assert suggested(str(tmp_path)) == {"kind": "table", "layout": "audiofolder"}, "not_listed"
    corpus.add(tmp_path / "podcasts", 3, seed=2, name="c.wav")
    assert suggested(str(tmp_path)) is None
    assert len(listed("folder", tmp_path)) == 3
    [says] = [one for one in notes("folder", tmp_path) if "metadata.csv" in one]
    assert "clips/metadata.csv names recordings and is not read" in says


def test_an_archive_is_audio_that_no_row_names(tmp_path: Path) -> None:
    corpus.add(tmp_path / "clips", 3, name="a.wav")
    (tmp_path / "clips/metadata.csv").write_text("file_name,text\na.wav,words\n")
    (tmp_path / "more.zip").write_bytes(b"PK")
    assert suggested(str(tmp_path)) is None


def test_patterns_of_a_folder(tmp_path: Path) -> None:
    for name in ("day1/a.wav", "day1/b.mp3", "day2/a.wav", "day2/take/c.wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    named = {tuple(one.path for one in listed("folder", tmp_path, include=["*.wav"]))}
    assert named == {("day1/a.wav", "day2/a.wav", "day2/take/c.wav")}
    left = listed("folder", tmp_path, include=["day2/*"], exclude=["*/take/*", "*.mp3"])
    assert [one.path for one in left] == ["day2/a.wav"]
    assert [one.path for one in listed("folder", tmp_path, exclude=["day2", "*.mp3"])] == [
        "day1/a.wav"
    ]


def test_what_the_command_line_says_of_each_source(tmp_path: Path) -> None:
    corpus.add(tmp_path / "in", 3, name="a.wav")
    (tmp_path / "x.csv").write_text("path,text\nin/a.wav,words\n")
    stated = {"language": "German", "licence": "CC0", "speaker": "anna"}
    (tmp_path / "x.jsonl").write_text('{"wav": "in/a.wav", "txt": "words"}\n')
    (tmp_path / "kaldi").mkdir()
    (tmp_path / "kaldi/wav.scp").write_text(f"u {tmp_path}/in/a.wav\n")
    cells = pa.array([{"bytes": b"x", "path": "a.wav"}])
    pq.write_table(pa.table({"audio": cells}), tmp_path / "x.parquet")
    names = ["in", "x.csv", "x.jsonl", "kaldi", "x.parquet"]
    paths = [str(tmp_path / name) for name in names]
    for speaker, last in (("anna", "anna"), ("parent_folder", "x.parquet")):
        stated["speaker"] = speaker
        chosen = settings.read(None, paths, str(tmp_path / "out"), [], stated)
        sources = [*plugins.datasets(chosen.sources)]
        assert [s.settings.kind for s in sources] == [
            "folder", "table", "jsonl", "table", "hf_parquet"
        ]  # fmt: skip
        for source in sources:
            assert (source.settings.language, source.settings.licence) == ("de", "CC0")
        listings = [entries_of(source) for source in sources]
        who = [rows["speaker"].to_pylist() for rows in listings]
        named, bare = ("anna", "anna") if speaker == "anna" else ("in", None)  # no folder above
        assert who == [[bare], [named], [named], [bare], [last]]


def entries_of(source: plugins.Dataset) -> pa.Table:
    recordings = source.source.recordings(source.settings)
    [batch] = entries.batches(source.name, source.settings, recordings, SkippedEntries())
    return batch.rows


def test_each_source_says_what_gives_what(tmp_path: Path) -> None:
    corpus.add(tmp_path, 3, name="a.wav")
    (tmp_path / "wav.scp").write_text("u a.wav\n")
    (tmp_path / "text").write_text("u words\n")
    sources = [Source(kind=kind, path=str(tmp_path), name=kind) for kind in ("folder", "kaldi")]
    said = [one["says"][0] for one in skipped.notes_of(sources)]
    assert said == [
        "folder: audio from files by their names and content, text from files of the same stem "
        "beside it",
        "Kaldi: audio from wav.scp, text from text",
    ]


def test_individual_languages_are_read_as_their_macrolanguage() -> None:
    codes = {"arb": "ar", "pes": "fa", "zsm": "ms", "ekk": "et", "lvs": "lv", "npi": "ne"}
    codes |= {"uzn": "uz", "azj": "az", "khk": "mn", "als": "sq", "jv": "jv", "yue": "yue"}
    assert {code: language_codes.read(code) for code in codes} == codes


def test_only_settings_that_exist_are_named(tmp_path: Path) -> None:
    """A Parquet file's rows have no times or channels of a longer file."""
    audio = pa.array([{"bytes": b"x"}], pa.struct([("bytes", pa.binary())]))
    table = pa.table({"audio": audio, "start": [1.0], "utterance_name": ["so it goes on"]})
    pq.write_table(table, tmp_path / "a.parquet")
    module, chosen = resolve_source(Source(kind="hf_parquet", path=str(tmp_path)))
    assert module.notes(chosen)[1:] == [
        "the column 'start' looks like a time and is not taken",
        "the column 'utterance_name' looks like a text and is not taken; "
        "`text_column: utterance_name` takes it",
    ]


# `labels` of a source: keys and columns whose values are kept, and told where there are none.


LONG = "x" * 201
#: By file: what a list says of it, and the labels that are kept.
SAID: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "r00.wav": ({"emotion": "happy", "age": 41}, {"emotion": "happy", "age": "41"}),
    "r01.wav": ({"emotion": " sad ", "age": None}, {"emotion": "sad"}),
    "r02.wav": ({"emotion": "-", "age": None}, {}),
    "r03.wav": ({"emotion": LONG, "age": 7}, {"age": "7"}),
}


def jsonl(home: Path) -> dict[str, Any]:
    lines = [{"wav": name, "txt": "so", **said} for name, (said, _) in SAID.items()]
    lines += [{"wav": "r04.wav", "emotion": ["a"], "age": float("nan")}]
    corpus.jsonl(home / "list.jsonl", lines)
    return {"kind": "jsonl", "path": str(home / "list.jsonl")}


def nemo(home: Path) -> dict[str, Any]:
    lines = [{"audio_filepath": n, "text": "so", **said} for n, (said, _) in SAID.items()]
    corpus.jsonl(home / "list.jsonl", lines)
    return {"kind": "jsonl", "path": str(home / "list.jsonl")}


def table(home: Path) -> dict[str, Any]:
    with (home / "list.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ["file", "emotion", "age", "text"])
        rows.writeheader()
        rows.writerows({"file": n, "text": "so", **said} for n, (said, _) in SAID.items())
    return {"kind": "table", "path": str(home / "list.csv")}


def hf_parquet(home: Path) -> dict[str, Any]:
    rows = [{"text": "so", **said} for said, _ in SAID.values()]
    pq.write_table(with_audio(SAID, rows), home / "list.parquet")
    return {"kind": "hf_parquet", "path": str(home / "list.parquet")}


def with_audio(names: Iterable[str], rows: list[dict[str, Any]]) -> pa.Table:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.array([{"bytes": None, "path": name} for name in names], kind)
    return pa.Table.from_pylist(rows).append_column("audio", cells)


def emilia(home: Path) -> dict[str, Any]:
    lines = [
        {"id": name, "wav": name, "text": "so", "speaker": "a", "dnsmos": 3.1, **said}
        for name, (said, _) in SAID.items()
    ]
    corpus.jsonl(home / "list.jsonl", lines)
    return {"kind": "table", "path": str(home), "layout": "emilia"}


@pytest.mark.parametrize("made", [jsonl, nemo, table, hf_parquet, emilia])
def test_each_kind_keeps_the_same_labels(tmp_path: Path, made: Any) -> None:
    corpus.make(tmp_path, 5)
    source = {**made(tmp_path), "labels": ["emotion", "age", "accent"]}
    recordings, notes = labelled(source)
    kept = {Path(recording.locator.path).name: dict(recording.labels) for recording in recordings}
    assert kept | {"r04.wav": {}} == {"r04.wav": {}} | {
        n: labels for n, (_, labels) in SAID.items()
    }
    assert all(recording.error is None for recording in recordings)
    [missing] = [note for note in notes if "'accent'" in note]
    assert "correct the name, or take it out" in missing
    assert [note for note in notes if "'emotion'" in note and "200 characters" in note]
    assert not labelled({**source, "labels": None})[0][0].labels


def test_a_class_label_is_its_name(tmp_path: Path) -> None:
    corpus.make(tmp_path, 2)
    feature = {"names": ["neutral", "happy"], "_type": "ClassLabel"}
    about = json.dumps({"info": {"features": {"emotion": feature}}})
    written = with_audio(("r00.wav", "r01.wav"), [{"emotion": 0}, {"emotion": 1}])
    written = written.replace_schema_metadata({"huggingface": about})
    pq.write_table(written, tmp_path / "a.parquet")
    source = {"kind": "hf_parquet", "path": str(tmp_path / "a.parquet"), "labels": ["emotion"]}
    assert [dict(r.labels) for r in labelled(source)[0]] == [
        {"emotion": "neutral"},
        {"emotion": "happy"},
    ]


def test_lhotse_has_labels_in_custom_and_of_each_segment(tmp_path: Path) -> None:
    corpus.add(tmp_path, 8)
    spans = [
        {"id": "a", "start": 0, "duration": 1, "custom": {"emotion": "happy"}, "gender": "f"},
        {"id": "b", "start": 1, "duration": 1, "custom": {"room": "hall"}},
    ]
    cut = {
        "id": "c", "start": 0, "duration": 2, "supervisions": spans, "custom": {"room": "studio"},
        "recording": {"sources": [{"type": "file", "source": "r08.wav", "channels": [0]}]},
    }  # fmt: skip
    (tmp_path / "cuts.jsonl").write_text(json.dumps(cut) + "\n")
    source = {"kind": "lhotse", "path": str(tmp_path / "cuts.jsonl")}
    [recording], notes = labelled({**source, "labels": ["emotion", "gender", "room", "age"]})
    assert [dict(segment.labels) for segment in recording.segments or ()] == [
        {"emotion": "happy", "gender": "f", "room": "studio"},
        {"room": "hall"},
    ]
    [_, missing] = notes
    assert "'age'" in missing


def test_a_folder_has_labels_in_its_paths(tmp_path: Path) -> None:
    for name in ("happy/anna", "sad"):
        corpus.add(tmp_path / "in" / name, 1)
    source = {"kind": "folder", "path": str(tmp_path / "in"),
              "labels": {"pattern": "^(?P<emotion>[^/]+)/(?:(?P<who>[^/]+)/)?"}}  # fmt: skip
    assert [dict(r.labels) for r in labelled(source)[0]] == [
        {"emotion": "happy", "who": "anna"},
        {"emotion": "sad"},
    ]
    with pytest.raises(ConfigError, match="it has no named group"):
        labelled({**source, "labels": {"pattern": "^[^/]+"}})


def labelled(source: dict[str, Any]) -> tuple[list[Recording], list[str]]:
    [dataset] = plugins.datasets([Source.model_validate(source)])
    entries = [*dataset.source.recordings(dataset.settings)]
    notes = [*dataset.source.notes(dataset.settings)]
    return [entry for entry in entries if isinstance(entry, Recording)], notes
