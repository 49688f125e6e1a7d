"""Every kind of source on small trees: the exact recordings, errors and reasons."""

import gzip
import io
import itertools
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import sounding
from tests.helpers.fetched import CORPUS
from uttermill.tasks.base.errors import CODES, ConfigError
from uttermill.tasks.plugins import resolve_source
from uttermill.tasks.recording import Ignored, Locator, Recording, Segment
from uttermill.tasks.recording.container import as_file
from uttermill.tasks.recording.names import recording_name, safe_name
from uttermill.tasks.settings import Source
from uttermill.tasks.sources.table import suggested
from uttermill.tasks.storage import urls
from uttermill.tasks.storage.bounds import MAX_LINE_BYTES
from uttermill.tasks.storage.local import stat_guard

Listed = list[Recording | Ignored]


def listed(kind: str, path: Path | str, **options: Any) -> Listed:
    source = Source.model_validate({"kind": kind, "path": os.fsdecode(path), **options})
    module, settings = resolve_source(source)
    first = list(module.recordings(settings))
    assert list(module.recordings(settings)) == first, "the order must be stable"
    paths = [item.path for item in recs(first)]
    assert len(set(paths)) == len(paths)
    for item in first:
        item.path.encode()
    for item in recs(first):
        assert Locator.loads(item.locator.dumps()) == item.locator
        item.source_path.encode()
        assert item.error is None or item.error[0] in CODES
    return first


def recs(items: Iterable[Recording | Ignored]) -> list[Recording]:
    return [item for item in items if isinstance(item, Recording)]


def ignored(items: Iterable[Recording | Ignored]) -> dict[str, str]:
    return {item.path: item.reason for item in items if isinstance(item, Ignored)}


def codes(items: Iterable[Recording | Ignored]) -> dict[str, str]:
    return {item.path: item.error[0] for item in recs(items) if item.error}


def put(path: Path, data: bytes | str = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def jsonl(path: Path, *values: Any) -> Path:
    return put(path, "".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values))


SYSTEM = ("#recycle", "$RECYCLE.BIN", "@eaDir", "~snapshot", "lost+found", "__MACOSX")


@pytest.mark.parametrize("name", [*SYSTEM, ".snapshot", "#RECYCLE"])
def test_what_was_thrown_away_is_no_recording(tmp_path: Path, name: str) -> None:
    for path in ("talk.wav", f"{name}/talk.wav", f"deep/{name}/below/old.wav", "deep/._talk.wav"):
        put(tmp_path / path)
    found = listed("folder", tmp_path)
    assert [item.path for item in recs(found)] == ["talk.wav"]
    reason = "hidden" if name.startswith(".") else "system_folder"
    assert {*ignored(found).values()} == {reason, "hidden"}
    assert len(ignored(found)) == 3


def test_system_folders_on_request_or_by_their_own_path(tmp_path: Path) -> None:
    put(tmp_path / "#recycle/old.wav")
    put(tmp_path / "lost+found/#123.wav")
    both = {"#recycle/old.wav", "lost+found/#123.wav"}
    found = recs(listed("folder", tmp_path, system_folders=True))
    assert {os.path.relpath(item.source_path, tmp_path) for item in found} == both
    assert len(recs(listed("folder", tmp_path / "#recycle"))) == 1


@pytest.mark.parametrize(
    "kind", ["folder", "kaldi", "jsonl", "tar", "datajuicer", "hf_parquet", "table"]
)
def test_a_missing_path_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    module, settings = resolve_source(Source(kind=kind, path=str(tmp_path / "nowhere")))
    with pytest.raises(ConfigError, match=r"nowhere.*cannot be read"):
        module.recordings(settings)
    for path in ("nul\0byte", ""):
        module, settings = resolve_source(Source(kind=kind, path=path))
        with pytest.raises(ConfigError):
            module.recordings(settings)


@pytest.mark.parametrize("kind", ["jsonl", "datajuicer"])
def test_a_folder_is_no_list(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a file"):
        listed(kind, tmp_path)


# names


def test_names_stay_apart_whatever_else_is_there() -> None:
    assert recording_name("广州/a b\n'\".wav") == "广州/a b\n'\".wav"
    byte, literal = recording_name("\udcff.wav"), recording_name("\\xff.wav")
    assert literal == "\\xff.wav"
    assert byte.startswith("\\xff.wav~")
    assert recording_name(byte) != byte, (
        "a file that is called like an escaped name does not take it"
    )
    assert safe_name("../../etc/passwd").startswith("etc/passwd~")
    assert safe_name("/etc/passwd") != safe_name("../../etc/passwd")
    assert safe_name("").startswith("unnamed~")


# folder


def test_folder_lists_in_byte_order_with_reasons(tmp_path: Path) -> None:
    for name in ("b/z.WAV", "b/a.mp3", "b.wav", "广州.flac", "with space.ogg", "new\nline.wav",
                 "quote'\".wav", "c.txt", "wav", ".hidden.wav", ".git/x.wav", "d.wav.part",
                 "e.wav~", "f.TMP", "x.wav/inner.wav", "n" * 251 + ".wav"):  # fmt: skip
        put(tmp_path / name)
    items = listed("folder", tmp_path)
    assert [r.path for r in recs(items)] == [
        "b.wav", "b/a.mp3", "b/z.WAV", "new\nline.wav", "n" * 251 + ".wav", "quote'\".wav",
        "with space.ogg", "x.wav/inner.wav", "广州.flac",
    ]  # fmt: skip
    assert ignored(items) == {
        "c.txt": "extension", "wav": "extension", ".hidden.wav": "hidden", ".git": "hidden",
        "d.wav.part": "temporary", "e.wav~": "temporary", "f.TMP": "temporary",
    }  # fmt: skip
    order = [item.path.encode() for item in items]
    assert order == sorted(order)


def test_folder_fills_a_recording(tmp_path: Path) -> None:
    file = put(tmp_path / "a/b.wav", b"12345")
    confined = Locator(str(file), inside=len(str(tmp_path)))
    for locator, follow_links in ((confined, False), (Locator(str(file)), True)):
        assert listed("folder", tmp_path, follow_links=follow_links) == [
            Recording("a/b.wav", str(file), locator, 5, stat_guard(file.stat()))
        ]


def test_folder_keeps_names_that_are_not_utf8(tmp_path: Path) -> None:
    raw = os.path.join(os.fsencode(tmp_path), b"\xff\xfe.wav")
    with open(raw, "wb"):
        pass
    put(tmp_path / "\\xff\\xfe.wav")
    escaped, literal = sorted(recs(listed("folder", tmp_path)), key=lambda r: -len(r.path))
    assert os.fsencode(escaped.locator.path) == raw
    assert escaped.path == recording_name("\udcff\udcfe.wav")
    assert escaped.source_path == f"{tmp_path}/\\xff\\xfe.wav"
    assert literal.path == "\\xff\\xfe.wav"


def test_folder_follows_links_once(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    file = put(top / "real/a.wav")
    put(outside / "o.wav")
    put(top / ".store/hidden.wav")
    links: dict[str, Path | str] = {
        "real/loop": top, "alias": top / "real", "away": outside, "more": outside,
        "stored": top / ".store", "file.wav": file, "gone.wav": "nowhere", "dead": "nowhere",
        "self.wav": "self.wav", "zparent": tmp_path,
    }  # fmt: skip
    for link, target in links.items():
        (top / link).symlink_to(target)
    items = listed("folder", top, follow_links=True)
    good = [r.path for r in recs(items) if not r.error]
    assert good == ["away/o.wav", "file.wav", "real/a.wav", "stored/hidden.wav"]
    assert codes(items) == {"gone.wav": "missing", "dead": "missing", "self.wav": "missing"}
    assert ignored(items) == {
        "real/loop": "duplicate_folder", "alias": "duplicate_folder", "more": "duplicate_folder",
        ".store": "hidden", "zparent/outside": "duplicate_folder",
        "zparent/top": "duplicate_folder",
    }  # fmt: skip
    linked = next(r for r in recs(items) if r.path == "file.wav")
    assert (linked.source_path, linked.guard) == (str(top / "file.wav"), stat_guard(file.stat()))


def test_folder_takes_one_file_and_special_files(tmp_path: Path) -> None:
    file = put(tmp_path / "a.Wav")
    assert [r.path for r in recs(listed("folder", file))] == ["a.Wav"]
    for name, remedy in (
        ("a.txt", "; if it is a list, give the source kind: table"), ("b.xyz", ""),
        ("a.jsonl", "; give the source kind: jsonl"), ("a.7Z", "; unpack it first"),
        ("a.yaml", "; settings are given without --source: `uttermill run FILE`"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"neither a folder nor an audio file{remedy}$"):
            listed("folder", put(tmp_path / name))
        if remedy:
            (tmp_path / name).unlink()
    put(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "pipe.wav")
    assert ignored(listed("folder", tmp_path)) == {
        "pipe.wav": "not_a_file", "a.txt": "read_as_text", "b.xyz": "extension",
    }  # fmt: skip


def test_folder_takes_a_deep_tree(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 300)
    os.makedirs(tmp_path / deep)
    put(tmp_path / deep / "a.wav")
    assert [r.path for r in recs(listed("folder", tmp_path))] == [f"{deep}/a.wav"]


def test_folder_says_which_folder_it_cannot_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "locked/a.wav")
    put(tmp_path / "open/a.wav")
    real = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    items = listed("folder", tmp_path)
    assert codes(items) == {"locked": "unreadable"}
    assert [r.path for r in recs(items) if not r.error] == ["open/a.wav"]


# kaldi


def test_kaldi_without_segments(tmp_path: Path) -> None:
    put(tmp_path / "wavs/with space.wav", b"123")
    absolute = put(tmp_path / "other.wav")
    put(
        tmp_path / "wav.scp",
        f"k1 wavs/with space.wav\nk2\t{absolute}  \n\nk3 touch {tmp_path}/ran |\nk4 gone.wav\n"
        "k5\nk1 other.wav\nk6 foo.ark:123\nk7 http://x/y.wav\nk8 wavs\n",
    )
    put(tmp_path / "text", "k1 你好 世界\nk2\nk9 orphan\nk1 again\n")
    put(tmp_path / "utt2spk", "k1 spk1\nk9 spk9\n")
    items = listed("kaldi", tmp_path)
    by = {r.path: r for r in recs(items)}
    file = tmp_path / "wavs/with space.wav"
    assert by["k1"] == Recording(
        "k1", str(file), Locator(str(file)), 3, stat_guard(file.stat()), "k1", "你好 世界", "spk1"
    )
    assert by["k2"].locator.path == str(absolute)
    assert by["k2"].text is None
    assert list(by) == [f"k{i}" for i in range(1, 9)]
    assert codes(items) == {
        "k3": "unsupported", "k4": "missing", "k5": "unreadable", "k6": "missing",
        "k7": "unsupported", "k8": "unreadable",
    }  # fmt: skip
    assert ignored(items) == {
        "text:4:k1": "other_text", "wav.scp:7:k1": "duplicate_key", "text:k9": "no_utterance",
        "utt2spk:k9": "no_utterance",
    }  # fmt: skip
    assert not (tmp_path / "ran").exists(), "no pipe is run"


def test_kaldi_with_segments(tmp_path: Path) -> None:
    put(tmp_path / "wav/r1.wav")
    put(tmp_path / "wav/r2.wav")
    put(tmp_path / "list/wav.scp", "r1 r1.wav\nr2 r2.wav\n")
    put(
        tmp_path / "list/segments",
        "u1 r1 0.0 1.5\nu2 r1 1.5 -1\nu3 r9 0 1\nu1 r1 0 9\nu4 r1 5 4\nu5 r1 nan 4\n"
        "u6 r1 0 1 north\nbroken\nu7 r1 0 1 1\n",
    )
    put(tmp_path / "list/text", "u1 one\nu2 two\nr1 whole\n")
    put(tmp_path / "list/utt2spk", "u1 s1\nr1 s9\n")
    items = listed("kaldi", tmp_path / "list", root=str(tmp_path / "wav"))
    first, second = (r for r in recs(items) if not r.error)
    assert first.segments == (
        Segment(0.0, 1.5, "u1", "one", "s1"),
        Segment(1.5, None, "u2", "two"),
        Segment(0.0, 1.0, "u7", channels=(1,)),
    )
    assert (first.text, first.speaker, first.source_id) == (None, "s9", "r1")
    assert second.segments == ()
    assert codes(items) == {
        "segments:5": "unreadable", "segments:6": "unreadable", "segments:7": "unreadable",
        "segments:8": "unreadable",
    }  # fmt: skip
    assert ignored(items) == {
        "segments:4:u1": "duplicate_key", "segments:u3": "no_recording", "text:r1": "no_utterance",
    }  # fmt: skip


def test_a_kaldi_folder_without_audio_is_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "data/wav.scp", f"k {put(tmp_path / 'a.wav')}\n")
    put(tmp_path / "data/split/1/feats.ark")
    with monkeypatch.context() as patched:
        patched.setattr(os, "walk", None)
        assert [r.path for r in recs(listed("kaldi", tmp_path / "data"))] == ["k"]
    put(tmp_path / "data/split/1/b.wav")
    assert ignored(listed("kaldi", tmp_path / "data")) == {"split/1/b.wav": "not_listed"}


def test_kaldi_keeps_bytes_and_refuses_text_that_is_not_utf8(tmp_path: Path) -> None:
    raw = os.path.join(os.fsencode(tmp_path), b"\xb9\xe3.wav")
    with open(raw, "wb"):
        pass
    put(tmp_path / "wav.scp", b"\xef\xbb\xbfk1 \xb9\xe3.wav\r\n\xff a.wav\n")
    put(tmp_path / "text", b"k1 \xb9\xe3\xd6\xdd\n")
    items = listed("kaldi", tmp_path)
    assert codes(items) == {"text:1": "unreadable", recording_name("\udcff"): "missing"}
    found = next(r for r in recs(items) if r.path == "k1")
    assert (os.fsencode(found.locator.path), found.text) == (raw, None)


def test_kaldi_keys_without_a_file_are_failed_recordings(tmp_path: Path) -> None:
    put(tmp_path / "wav.scp", "nothing\nodd \v\nwide \u3000\n".encode())
    items = listed("kaldi", tmp_path)
    assert {item.error for item in items if isinstance(item, Recording)} == {
        ("unreadable", "wav.scp names no file for this key")
    }
    assert len(items) == 3


def test_kaldi_needs_wav_scp(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"wav\.scp"):
        listed("kaldi", tmp_path)
    with pytest.raises(ConfigError, match="not a Kaldi data folder"):
        listed("kaldi", put(tmp_path / "wav.scp"))


# jsonl


def test_jsonl_wenet_raw(tmp_path: Path) -> None:
    file = put(tmp_path / "广 a.wav", b"12")
    put(tmp_path / "b.wav")
    items = listed("jsonl", jsonl(
        tmp_path / "data.list",
        {"key": "k1", "wav": "广 a.wav", "txt": "你好"},
        {"key": "s1", "wav": "./b.wav", "txt": "one", "start": 0, "end": 1.5},
        {"key": "k1", "wav": "广 a.wav", "txt": "again"},
        {"key": "s2", "wav": str(tmp_path / "b.wav"), "txt": "two", "start": 1.5},
        {"key": "s2", "wav": "b.wav", "txt": "two", "start": 1.5},
        {"key": "s3", "wav": "b.wav", "txt": "whole"},
        {"key": "k1", "wav": "广 a.wav", "txt": "你好 "},
        {"key": "k1", "wav": "广 a.wav"},
    ))  # fmt: skip
    assert items == [
        Ignored("data.list:3", "other_text"),
        Ignored("data.list:5", "duplicate_line"),
        Ignored("data.list:6", "duplicate_line"),
        Recording(
            "b.wav", str(tmp_path / "b.wav"), Locator(str(tmp_path / "b.wav")), 1,
            stat_guard((tmp_path / "b.wav").stat()),
            segments=(Segment(0, 1.5, "s1", "one"), Segment(1.5, None, "s2", "two")),
        ),
        Ignored("data.list:7", "duplicate_line"),
        Ignored("data.list:8", "duplicate_line"),
        Recording(
            "广 a.wav", str(file), Locator(str(file)), 2, stat_guard(file.stat()), "k1", "你好"
        ),
    ]  # fmt: skip


def test_the_list_of_the_page_is_made_in_a_messy_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot stand in a list is named and left out; nothing else is lost."""
    page = (Path(__file__).parents[2] / "tasks/sources/README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    home, texts = tmp_path / "recordings", tmp_path / "texts"
    wanted = ("a.wav", "B.MP3", "deep/a.flac", "deep/c d.flac", "deep/名.opus", "bom.m4a")
    for name in wanted:
        put(home / name)
        put(texts / Path(name).with_suffix(".txt"), name)
    put(texts / "bom.txt", "\ufeffSaid in bom.m4a\n")
    for name in ("textless.wav", "latin.wav", "folder.wav", "deep/dir.txt", "cover.jpg", ".hidden"):
        put(home / name)
    texts.joinpath("latin.txt").write_bytes("Grüße".encode("latin-1"))
    (texts / "folder.txt").mkdir()
    (home / "album.wav").mkdir()
    (home / "._a.wav").write_bytes(b"as macOS leaves it")
    (texts / "._a.txt").write_bytes(b"\0\5\26\7")
    (home / "gone.wav").symlink_to("nowhere")
    (home / "loop").symlink_to(home)
    foreign = os.fsencode(home) + b"/gr\xfc\xdfe.wav"
    Path(os.fsdecode(foreign)).write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(texts) + b"/gr\xfc\xdfe.txt")).write_text("hello")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 4, told
    names = ("folder", "gr\\udcfc\\udcdfe", "latin", "textless")
    for line, name in zip(told, names, strict=True):
        assert line.startswith("left out: ")
        assert f"{name}.wav" in line
    found = recs(listed("jsonl", tmp_path / "list.jsonl"))
    assert [item.error for item in found] == [None] * len(wanted)
    assert {Path(item.source_path).name: item.text for item in found} == {
        "a.wav": "a.wav", "B.MP3": "B.MP3", "a.flac": "deep/a.flac",
        "c d.flac": "deep/c d.flac", "名.opus": "deep/名.opus", "bom.m4a": "Said in bom.m4a",
    }  # fmt: skip


def test_jsonl_nemo(tmp_path: Path) -> None:
    put(tmp_path / "audio/a.wav")
    put(tmp_path / "audio/b.wav")
    path = jsonl(
        tmp_path / "lists/m.json",
        {"audio_filepath": "a.wav", "duration": 2.0, "text": "hi", "lang": "en", "speaker": 7},
        {"audio_filepath": "b.wav", "duration": 2.0, "text": "x", "offset": 1.0},
    )
    a, b = recs(listed("jsonl", path, root=str(tmp_path / "audio")))
    assert (a.path, a.text, a.language, a.speaker, a.segments) == ("a.wav", "hi", "en", "7", None)
    assert a.length == 2.0
    assert b.segments == (Segment(1.0, 3.0, None, "x"),)
    assert b.length is None


def test_a_length_without_a_start_is_that_of_a_span_from_0(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    put(tmp_path / "b.wav")
    path = jsonl(
        tmp_path / "m.json",
        {"audio_filepath": "a.wav", "duration": 2.0, "text": "one"},
        {"audio_filepath": "a.wav", "duration": 2.0, "text": "one"},
        {"audio_filepath": "a.wav", "duration": 2.0, "text": "two"},
        {"audio_filepath": "b.wav", "duration": 2.0, "text": "one"},
        {"audio_filepath": "b.wav", "duration": 2.0, "offset": 2.0, "text": "two"},
    )
    found = listed("jsonl", path)
    assert ignored(found) == {"m.json:2": "duplicate_line", "m.json:3": "other_text"}
    a, b = recs(found)
    assert (a.text, a.length, a.segments) == ("one", 2.0, None)
    assert b.segments == (Segment(0.0, 2.0, None, "one"), Segment(2.0, 4.0, None, "two"))
    columns = {"audio": "f", "text": "t", "duration": "d"}
    named = jsonl(tmp_path / "n.jsonl", {"f": "a.wav", "t": "one", "d": 1.5})
    assert [r.length for r in recs(listed("jsonl", named, columns=columns))] == [1.5]


def test_words_without_times_share_the_gap_between_their_neighbours(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    words = [
        {"word": "so"}, {"word": "in", "start": 1.0, "end": 2.0}, {"word": "20"}, {"word": "14"},
        {"word": "it", "start": 3.0, "end": 3.5}, {"word": "was"},
    ]  # fmt: skip
    row = {"f": "a.wav", "t": "so in 20 14 it was", "s": 0, "e": 4, "w": words}
    untimed = {**row, "s": 4, "e": 5, "w": [{"word": "so"}]}
    columns = {"audio": "f", "text": "t", "start": "s", "end": "e", "words": "w"}
    [found] = recs(listed("jsonl", jsonl(tmp_path / "l.jsonl", row, untimed), columns=columns))
    timed, plain = found.segments or ()
    assert [(w.word, w.start, w.end) for w in timed.words or ()] == [
        ("so", 1.0, 1.0), ("in", 1.0, 2.0), ("20", 2.0, 2.5), ("14", 2.5, 3.0),
        ("it", 3.0, 3.5), ("was", 3.5, 3.5),
    ]  # fmt: skip
    assert plain.words is None


def test_jsonl_columns(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    path = jsonl(tmp_path / "l.jsonl", {"f": "a.wav", "t": "hi", "n": 5, "wav": "other.wav"})
    (only,) = recs(listed("jsonl", path, columns={"audio": "f", "text": "t", "id": "n"}))
    assert (only.path, only.text, only.source_id) == ("a.wav", "hi", "5")
    (only,) = recs(listed("jsonl", path, columns={"text": "t"}))
    assert (only.source_path.endswith("other.wav"), only.text) == (True, "hi")
    with pytest.raises(ConfigError, match=r"columns\.txt: no such setting.*audio, text"):
        listed("jsonl", path, columns={"audio": "f", "txt": "t"})


def test_jsonl_bad_lines_are_failed_recordings(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")
    bad = [
        '{"wav": ', "[1]", "{}", '{"wav": 1}', '{"wav": "a.wav", "txt": ["x"]}',
        '{"wav": "a.wav", "start": "x"}', '{"wav": "a.wav", "start": 5, "end": 2}',
        '{"wav": "a.wav", "txt": "\\ud800"}', "[" * 100_000, '{"wav": "a.wav", "start": 1e999}',
        '{"wav": "a.wav", "start": true}', "x" * (MAX_LINE_BYTES + 5),
    ]  # fmt: skip
    lines = [*bad, '{"wav": "s3://b/a.wav"}', '{"wav": "gone.wav"}', '{"wav": "a.wav"}']
    items = listed("jsonl", put(tmp_path / "l", "\n".join(lines)))
    assert codes(items) == {
        **{f"l:{n + 1}": "unreadable" for n in range(len(bad))},
        f"l:{len(bad) + 1}": "unsupported",
        "gone.wav": "missing",
    }
    assert [r.path for r in recs(items) if not r.error] == ["a.wav"]


def test_jsonl_names_outside_the_root_are_sane_and_apart(tmp_path: Path) -> None:
    put(tmp_path / "wav/a.wav")
    lines = '{"wav": "../wav/a.wav"}\n{"wav": "/no/a.wav"}\n{"wav": "\\ud800"}'
    path = put(tmp_path / "l/x.jsonl", lines)
    first, second, third = recs(listed("jsonl", path))
    assert first.path == safe_name("../wav/a.wav")
    assert (first.source_path, first.error) == (str(tmp_path / "wav/a.wav"), None)
    assert (second.path, second.error and second.error[0]) == ("no/a.wav", "missing")
    assert third.error == ("missing", "no file can have this name")


@pytest.mark.parametrize("kind", ["jsonl", "datajuicer", "lhotse"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            gzip.compress(b'{"wav": "a.wav"}', mtime=0),
            "is compressed with gzip; decompress it first",
        ),
        (b"PK\x03\x04" * 9, "is a ZIP archive; unpack it first"),
        ('{"wav": "a.wav"}'.encode("utf-16"), "is text in UTF-16; save it in UTF-8"),
    ],
    ids=["gzip", "zip", "UTF-16"],  # gzip's bytes hold the time
)
def test_a_list_that_is_no_text_is_refused_as_a_whole(
    tmp_path: Path, kind: str, data: bytes, words: str
) -> None:
    """Each of its lines failed by itself: not JSON."""
    (tmp_path / "l.jsonl").write_bytes(data)
    with pytest.raises(ConfigError, match=words):
        listed(kind, tmp_path / "l.jsonl")


# datajuicer


SOUND = {"id": "r", "sources": [{"type": "file", "source": "a.wav", "channels": [0]}]}
SAID = {"start": 0, "duration": 1.0, "text": "words"}


def cut(**changes: Any) -> dict[str, Any]:
    one = {"id": "c", "type": "MonoCut", "start": 0.5, "duration": 2.0, "recording": SOUND}
    return {**one, "supervisions": [SAID], **changes}


def test_lhotse_cuts_whose_sound_is_not_the_file_s_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.wav")

    def changed(name: str) -> dict[str, Any]:
        return cut(recording={**SOUND, "transforms": [{"name": name, "kwargs": {}}]})

    padded = {"id": "m", "type": "MixedCut", "tracks": [{"cut": cut()}]}
    refused = [*map(changed, ("Volume", "Speed", "Tempo", "ReverbWithImpulseResponse")), padded]
    refused.append({"id": "p", "type": "PaddingCut", "duration": 1.0})
    path = jsonl(tmp_path / "cuts.jsonl", *refused, changed("Resample"))
    items = recs(listed("lhotse", path))
    assert codes(items) == {f"cuts.jsonl:{n + 1}": "unsupported" for n in range(len(refused))}
    assert items[0].error is not None
    assert items[0].error[1].startswith("a recording that lhotse changes by Volume when it loads")
    [good] = [r for r in items if r.error is None]
    assert [(s.start, s.end, s.text) for s in good.segments or ()] == [(0.5, 1.5, "words")]
    assert suggested(str(jsonl(tmp_path / "only.jsonl", padded))) == {"kind": "lhotse"}


def test_bad_rows_between_those_of_a_file_do_not_divide_it(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        put(tmp_path / name)

    def turn(start: float, **more: Any) -> dict[str, Any]:
        return {"audio_filepath": "a.wav", "offset": start, "duration": 1, "text": "t", **more}

    bad = {"audio_filepath": "a.wav", "offset": -1, "duration": 1}
    lines = [turn(0), bad, "no object", turn(2), {"audio_filepath": "b.wav", "text": "t"}]
    for kind, path in (
        ("jsonl", jsonl(tmp_path / "x.jsonl", *lines)),
        ("jsonl", put(tmp_path / "x.json", json.dumps(lines))),
        ("table", put(tmp_path / "y.json", json.dumps(lines))),
    ):
        assert [r.path for r in recs(listed(kind, path))] == [
            f"{path.name}:2", f"{path.name}:3", "a.wav", "b.wav"
        ]  # fmt: skip
    turns = [SAID, {**SAID, "start": "?"}, {**SAID, "start": 1}]
    other = {**SOUND, "sources": [{"type": "file", "source": "b.wav"}]}
    cuts = [cut(supervisions=turns), "no object", cut(start=9), cut(recording=other)]
    listed_cuts = recs(listed("lhotse", jsonl(tmp_path / "cuts.jsonl", *cuts)))
    assert [r.path for r in listed_cuts] == ["cuts.jsonl:1", "cuts.jsonl:2", "a.wav", "b.wav"]
    assert len(listed_cuts[2].segments or ()) == 3
    samples = [{"audios": ["a.wav", 3]}, {"audios": []}, {"audios": "?"}, {"audios": ["b.wav"]}]
    kept = recs(listed("datajuicer", jsonl(tmp_path / "dj.jsonl", *samples)))
    assert [r.path for r in kept] == ["a.wav", "dj.jsonl:1:1", "dj.jsonl:3", "b.wav"]


def test_datajuicer(tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path / f"{name}.wav")
    items = listed("datajuicer", jsonl(
        tmp_path / "d.jsonl",
        {"text": "<__dj__audio> hello\nthere <|__dj__eoc|>", "audios": ["a.wav"], "id": 1},
        {"text": "<__dj__audio><__dj__audio>both", "audios": ["b.wav", "c.wav"]},
        {"text": "no audio"},
        {"text": "again", "audios": ["a.wav"]},
        {"text": "x", "audios": "a.wav"},
        {"text": "x", "audios": [None, "gone.wav"]},
        {"text": "hello\nthere", "audios": ["a.wav"]},
    ))  # fmt: skip
    assert [(r.path, r.text, r.source_id) for r in recs(items) if not r.error] == [
        ("b.wav", None, None), ("c.wav", None, None), ("a.wav", "hello\nthere", "1"),
    ]  # fmt: skip
    assert ignored(items) == {
        "d.jsonl:3": "no_audio", "d.jsonl:4": "other_text", "d.jsonl:7": "duplicate_line",
    }  # fmt: skip
    assert codes(items) == {
        "d.jsonl:5": "unreadable", "d.jsonl:6:0": "unreadable", "gone.wav": "missing",
    }  # fmt: skip


# tar


def make_tar(
    path: Path, members: list[tuple[str, bytes]], kind: int = tarfile.USTAR_FORMAT
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=kind, encoding="utf-8", errors="surrogateescape") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_tar_samples(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "s.tar", [
        ("d/a.1.txt", "你好\n".encode()), ("d/a.1.wav", b"audio1"),
        ("b.json", b'{"text": "json", "speaker": "s", "language": "en"}'), ("b.FLAC", b"audio2"),
        ("lonely.txt", b"x"), ("._b.wav", b""), ("c.cls", b"1"), ("b.FLAC", b"again"),
    ])  # fmt: skip
    items = listed("tar", path)
    mark = stat_guard(path.stat())
    first, second = recs(items)
    assert first == Recording(
        "s.tar/d/a.1.wav", f"{path}!d/a.1.wav", first.locator, 6, mark, "d/a.1", "你好"
    )
    assert (second.text, second.speaker, second.language) == ("json", "s", "en")
    spoken = make_tar(tmp_path / "t.tar", [
        ("a.wav", b"x"), ("a.json", b'{"sentence": "said", "locale": "zsm_Latn"}')
    ])  # fmt: skip
    for kind in ("tar", "folder"):
        [found] = recs(listed(kind, spoken))
        assert (found.text, found.language) == ("said", "ms_Latn")
    for found, data in ((first, b"audio1"), (second, b"audio2")):
        at = found.locator
        assert at.offset is not None
        assert at.length is not None
        assert path.read_bytes()[at.offset : at.offset + at.length] == data
    assert ignored(items) == {
        "s.tar/lonely.txt": "no_audio", "s.tar/._b.wav": "hidden", "s.tar/c.cls": "extension",
        "s.tar/b.FLAC": "duplicate_name",
    }  # fmt: skip


def test_each_audio_of_a_sample_has_its_own_text(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "s.tar", [
        ("0.q.wav", b"1"), ("0.a.wav", b"2"), ("0.q.txt", b"who"), ("0.a.json", b'{"text": "me"}'),
        ("1.wav", b"3"), ("1.noisy.wav", b"4"), ("1.txt", b"clean"),
        ("2.sound.flac", b"5"), ("2.txt", b"its only one"), ("2.json", b'{"speaker": "s"}'),
        ("3.a.wav", b"6"), ("3.b.wav", b"7"), ("3.json", b'{"text": "whose?"}'),
    ])  # fmt: skip
    items = listed("tar", path)
    assert {r.path: r.text for r in recs(items)} == {
        "s.tar/0.q.wav": "who", "s.tar/0.a.wav": "me", "s.tar/1.wav": "clean",
        "s.tar/1.noisy.wav": None, "s.tar/2.sound.flac": "its only one",
        "s.tar/3.a.wav": None, "s.tar/3.b.wav": None,
    }  # fmt: skip
    assert next(r for r in recs(items) if "/2." in r.path).speaker == "s"
    assert ignored(items) == {"s.tar/3.json": "no_audio"}


@pytest.mark.parametrize("text_first", [True, False])
def test_names_with_a_dot_before_their_number(tmp_path: Path, text_first: bool) -> None:
    members = []
    for number in range(260):  # more than are held together
        pair = [(f"c.{number}.txt", f"text {number}".encode()), (f"c.{number}.wav", b"1")]
        members += pair if text_first else pair[::-1]
    items = listed("tar", make_tar(tmp_path / "s.tar", members))
    assert [r.text for r in recs(items)] == [f"text {number}" for number in range(260)]
    assert not ignored(items)


def nemo_tars(home: Path) -> Path:
    """NeMo's tars and their manifest, in another order; some of it is wrong."""
    make_tar(home / "audio_0.tar", [("a.wav", b"1"), ("b.wav", b"2"), ("other.wav", b"3")])
    make_tar(home / "audio_1.tar", [("a.wav", b"4")])
    return jsonl(
        home / "tarred_audio_manifest.json",
        {"audio_filepath": "a.wav", "shard_id": 1, "duration": 2.0, "text": "one", "lang": "eng"},
        {"audio_filepath": "in/b-sub1.wav", "shard_id": 0, "offset": 0, "duration": 1, "text": "x"},
        {"audio_filepath": "in/b-sub2.wav", "shard_id": 0, "offset": 1, "duration": 1, "text": "y"},
        {"audio_filepath": "a.wav", "shard_id": 0, "duration": 3.0, "text": "zero", "speaker": "s"},
        {"audio_filepath": "gone.wav", "shard_id": 1, "duration": 1, "text": "z"},
        {"audio_filepath": "a.wav", "shard_id": 9, "duration": 1, "text": "z"},
        {"audio_filepath": "a.wav", "shard_id": "two"},
        {"audio_filepath": "a.wav", "shard_id": 1 << 70},
    )


@pytest.mark.parametrize("by_manifest", [False, True])
def test_nemos_tars_have_what_their_manifest_says(tmp_path: Path, by_manifest: bool) -> None:
    manifest = nemo_tars(tmp_path / "n")
    items = listed("tar", manifest if by_manifest else tmp_path / "n")
    good = [r for r in recs(items) if r.error is None]
    assert [(r.path, r.text, r.speaker, r.language, r.length) for r in good] == [
        ("audio_0.tar/a.wav", "zero", "s", None, 3.0),
        ("audio_0.tar/b.wav", None, None, None, None),
        ("audio_1.tar/a.wav", "one", None, "en", 2.0),
    ]
    assert [as_file(r.locator).read() for r in good] == [b"1", b"2", b"4"]
    assert [(s.start, s.end, s.text) for s in good[1].segments or ()] == [(0, 1, "x"), (1, 2, "y")]
    name = manifest.name
    assert ignored(items) == {name: "read_as_text", "audio_0.tar/other.wav": "not_listed"}
    missing = dict.fromkeys((f"{name}:5", f"{name}:6"), "missing")
    assert codes(items) == {**missing, f"{name}:7": "unreadable", f"{name}:8": "unreadable"}


def test_nemos_tars_are_recognised(tmp_path: Path) -> None:
    manifest = nemo_tars(tmp_path / "n/train")
    for path in (tmp_path / "n", tmp_path / "n/train", manifest):
        assert suggested(str(path)) == {"kind": "tar"}, path
    put(tmp_path / "n/more.wav")
    assert suggested(str(tmp_path / "n")) is None


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_names_of_any_kind(tmp_path: Path, kind: int) -> None:
    raw = ["长" * 80 + ".wav", "new\nline.wav", "../up.wav", "/abs.wav", "./dot.wav", "\udcff.wav"]
    path = make_tar(
        tmp_path / "s.tar", [(name, name[:1].encode("utf-8", "replace")) for name in raw], kind
    )
    items = recs(listed("tar", path))
    assert [r.path for r in items] == [
        "s.tar/" + n
        for n in (*raw[:2], safe_name("../up.wav"), safe_name("/abs.wav"), "dot.wav",
                  recording_name("\udcff.wav"))
    ]  # fmt: skip
    with tarfile.open(path, errors="surrogateescape") as tar:
        assert [r.locator.offset for r in items] == [m.offset_data for m in tar]
    assert sorted(os.listdir(tmp_path)) == ["s.tar"], "nothing is ever written"


def test_tar_links_devices_and_folders_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as tar:
        for name, kind in (("l.wav", tarfile.SYMTYPE), ("h.wav", tarfile.LNKTYPE),
                           ("d.wav", tarfile.CHRTYPE), ("f.wav", tarfile.FIFOTYPE),
                           ("dir.wav", tarfile.DIRTYPE)):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
    items = listed("tar", path)
    assert ignored(items) == {
        "s.tar/l.wav": "link", "s.tar/h.wav": "link", "s.tar/d.wav": "device",
        "s.tar/f.wav": "device", "s.tar/dir.wav": "folder",
    }  # fmt: skip
    assert not recs(items)


def test_tar_truncated_keeps_what_is_complete(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "s.tar", [("a.wav", b"1" * 600), ("b.wav", b"2" * 600)])
    whole = path.read_bytes()
    for cut in (2048 + 100, 1536 + 100, 1536):  # in b's data, in its header, before it
        path.write_bytes(whole[:cut])
        items = listed("tar", path)
        assert [r.path for r in recs(items) if not r.error] == ["s.tar/a.wav"]
        assert codes(items) == {"s.tar!rest": "truncated"}
    path.write_bytes(b"")
    assert codes(listed("tar", path)) == {"s.tar!rest": "truncated"}
    path.write_bytes(whole[:1536] + b"garbage" * 200)
    assert codes(listed("tar", path)) == {"s.tar!rest": "unreadable"}
    path.write_bytes(whole + whole)
    assert codes(listed("tar", path)) == {"s.tar!rest": "unsupported"}


def test_tar_believes_no_claim(tmp_path: Path) -> None:
    for size, kind, code in (
        (10 << 30, tarfile.REGTYPE, "truncated"),
        (10 << 30, tarfile.GNUTYPE_LONGNAME, "unreadable"),
        (10 << 30, tarfile.XHDTYPE, "unreadable"),
        (5, tarfile.GNUTYPE_SPARSE, "unsupported"),
    ):
        info = tarfile.TarInfo("a.wav")
        info.size, info.type = size, kind
        header = info.tobuf(tarfile.GNU_FORMAT)
        path = put(tmp_path / "s.tar", header + b"x" * 512)
        assert codes(listed("tar", path)) == {"s.tar!rest": code}


def test_tar_is_not_led_in_a_circle(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("a.wav").tobuf(tarfile.GNU_FORMAT)[:512])
    header[124:136] = b"\xff" + (-512 % (1 << 88)).to_bytes(11, "big")  # minus one block
    header[148:156] = b"%06o\0 " % (256 + sum(header[:148]) + sum(header[156:]))
    path = put(tmp_path / "s.tar", bytes(header) + bytes(1024))
    module, settings = resolve_source(Source(kind="tar", path=str(path)))
    # islice, so that a circle fails this test before it fills the memory.
    assert codes(itertools.islice(module.recordings(settings), 9)) == {"s.tar!rest": "unreadable"}


def test_tar_bad_texts_do_not_cost_the_audio(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "s.tar", [
        ("a.txt", b"\xff\xfe"), ("a.wav", b"1"), ("b.txt", b"x" * 1_000_001), ("b.wav", b"1"),
        ("c.json", b"["), ("c.wav", b"1"), ("d.json", b"[" * 100_000), ("d.wav", b"1"),
    ])  # fmt: skip
    items = listed("tar", path)
    assert codes(items) == {
        f"s.tar/{n}": "unreadable" for n in ("a.txt", "b.txt", "c.json", "d.json")
    }
    good = [r for r in recs(items) if not r.error]
    assert [(r.path, r.text) for r in good] == [(f"s.tar/{n}.wav", None) for n in "abcd"]


def test_tar_folder_glob_and_list(tmp_path: Path) -> None:
    for name in ("b", "a/c"):
        make_tar(tmp_path / f"t/{name}.tar", [("x.wav", b"1")])
    put(tmp_path / "t/z.tar.gz", b"\x1f\x8b123")
    put(tmp_path / "t/notes.md")
    items = listed("tar", tmp_path / "t")
    assert [r.path for r in recs(items)] == ["a/c.tar/x.wav", "b.tar/x.wav", "z.tar.gz!rest"]
    assert codes(items) == {"z.tar.gz!rest": "truncated"}
    assert ignored(items) == {"notes.md": "extension"}
    assert [r.path for r in recs(listed("tar", f"{tmp_path}/t/**/*.tar"))] == [
        "a/c.tar/x.wav", "b.tar/x.wav",
    ]  # fmt: skip
    assert ignored(listed("tar", f"{tmp_path}/t/*")) == {"notes.md": "extension"}
    lines = put(tmp_path / "data.list", "t/b.tar\nt/gone.tar\nt/./b.tar\npipe:cat x\nt/a/c.tar\n")
    items = listed("tar", lines)
    assert [r.path for r in recs(items)] == [
        "t/b.tar/x.wav", "t/gone.tar", "data.list:4", "t/a/c.tar/x.wav",
    ]  # fmt: skip
    assert codes(items) == {"t/gone.tar": "missing", "data.list:4": "unsupported"}
    assert ignored(items) == {"data.list:3": "duplicate_line"}


def test_tar_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a tar in xz is not read; repack it with gzip or zstd"):
        listed("tar", put(tmp_path / "x.tar.xz", b"\xfd7zXZ\x00123"))
    with pytest.raises(ConfigError, match="holds no tar"):
        listed("tar", put(tmp_path / "empty/x.txt").parent)
    with pytest.raises(ConfigError, match="holds no tar"):
        listed("tar", f"{tmp_path}/*.nothing")
    with pytest.raises(ConfigError, match="neither a tar nor a list"):
        listed("tar", put(tmp_path / "x.bin", b"\0\1\2"))


@pytest.mark.needs("corpus")
def test_tar_on_the_shard_that_wenet_made() -> None:
    folder = CORPUS / "reference_wenet_shard"
    found = recs(listed("tar", folder / "shards_000000000.tar"))
    lines = [json.loads(line) for line in (folder / "data.list").read_text().splitlines()]
    assert [(r.source_id, r.text) for r in found] == [(d["key"], d["txt"]) for d in lines]
    with tarfile.open(folder / "shards_000000000.tar") as tar:
        expected = [(m.offset_data, m.size) for m in tar if m.name.endswith(".wav")]
    assert [(r.locator.offset, r.locator.length) for r in found] == expected


# hf_parquet

AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def parquet(path: Path, cells: list[Any], rows: int = 2, **columns: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        pq.write_table(pa.table({"audio": pa.array(cells, AUDIO), **columns}), file, rows)
    return path


def cell(data: bytes | None, path: str | None = None) -> dict[str, Any]:
    return {"bytes": data, "path": path}


def test_parquet_cells(tmp_path: Path) -> None:
    file = put(tmp_path / "b.wav", b"123")
    path = parquet(
        tmp_path / "x.parquet",
        [cell(b"1" * 9, "a.wav"), cell(None, "b.wav"), None, cell(b"4"), cell(None, "gone.wav")],
        sentence=["one", None, "three", "four", "five"],
        speaker_id=[1, 2, 3, 4, 5],
        locale=["en"] * 5,
    )
    items = recs(listed("hf_parquet", path))
    assert [r.path for r in items] == [f"x.parquet/{i}" for i in range(5)]
    assert [r.locator for r in items] == [
        Locator(str(path), row=0, column="audio"), Locator(str(file)),
        Locator(str(path), row=2, column="audio"), Locator(str(path), row=3, column="audio"),
        Locator(str(tmp_path / "gone.wav")),
    ]  # fmt: skip
    assert [r.source_id for r in items] == ["a.wav", "b.wav", None, None, "gone.wav"]
    assert [r.text for r in items] == ["one", None, "three", "four", "five"]
    assert [r.speaker for r in items] == list("12345")
    assert items[0].language == "en"
    assert items[0].source_path == f"{path}!0"
    assert items[0].guard == stat_guard(path.stat())
    assert (items[1].guard, items[1].size) == (stat_guard(file.stat()), 3)
    assert codes(items) == {"x.parquet/2": "missing", "x.parquet/4": "missing"}


def test_parquet_reads_no_audio_while_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "x.parquet", [cell(b"1" * 1000, "a.wav")] * 10, text=["t"] * 10)
    asked: list[str] = []
    real = pq.ParquetFile.iter_batches

    def iter_batches(self: Any, *args: Any, columns: list[str], **rest: Any) -> Any:
        asked.extend(columns)
        return real(self, *args, columns=columns, **rest)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    sizes = {r.size for r in recs(listed("hf_parquet", path))}
    assert set(asked) == {"audio.path", "text"}
    assert len(sizes) == 1
    assert sizes.pop() > 0


def test_parquet_folder_and_broken_files(tmp_path: Path) -> None:
    parquet(tmp_path / "d/b.parquet", [cell(b"1")])
    put(tmp_path / "d/a.parquet", b"PAR1 nonsense PAR1")
    put(tmp_path / "d/README.md")
    items = listed("hf_parquet", tmp_path / "d")
    assert codes(items) == {"a.parquet!rest": "unreadable"}
    assert [r.path for r in recs(items)] == ["a.parquet!rest", "b.parquet/0"]
    assert ignored(items) == {"README.md": "extension"}


def arrow(path: Path, table: pa.Table, compression: str | None = None) -> Path:
    """A table in two batches, as `datasets.save_to_disk` writes it."""
    put(path, b"")
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(str(path), table.schema, options=options) as stream:
        stream.write_table(table, max_chunksize=-(-len(table) // 2))
    return path


def test_a_saved_data_set_is_read_as_parquet_is(tmp_path: Path) -> None:
    put(tmp_path / "b.wav", b"123")
    cells = [cell(b"1" * 9, "a.wav"), cell(None, "b.wav"), None, cell(b"4"), cell(None, "gone.wav")]
    columns: dict[str, Any] = {"sentence": [*"three"], "speaker_id": [*range(5)]}
    rows = parquet(tmp_path / "x.parquet", cells, **columns)
    table = pa.table({"audio": pa.array(cells, AUDIO), **columns})
    arrow(tmp_path / "saved/train/data-00000-of-00001.arrow", table)
    arrow(tmp_path / "saved/train/cache-1f.arrow", table)
    put(tmp_path / "saved/dataset_dict.json", "{}")
    assert suggested(str(tmp_path / "saved")) == {"kind": "hf_parquet"}
    root = {"root": str(tmp_path)}
    streamed = recs(listed("hf_parquet", tmp_path / "saved", **root))
    stored = recs(listed("hf_parquet", rows, **root))
    assert [r.path for r in streamed] == [f"train/data-00000-of-00001.arrow/{n}" for n in range(5)]
    for one, other in zip(streamed, stored, strict=True):
        told = [(r.source_id, r.text, r.speaker, r.error) for r in (one, other)]
        assert told[0] == told[1]
        if one.error is None:
            assert as_file(one.locator).read() == as_file(other.locator).read()
            assert one.size > 0


def test_what_an_arrow_stream_may_not_be(tmp_path: Path) -> None:
    table = pa.table({"audio": pa.array([cell(b"1")] * 9, AUDIO), "text": ["words"] * 9})
    path = arrow(tmp_path / "x.arrow", table)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ConfigError, match="not a readable Arrow stream"):
        listed("hf_parquet", path)
    path.write_bytes(data.replace(b"words" * 9, b"w\xff\xffds" * 9))
    [rest] = recs(listed("hf_parquet", path))[-1:]
    assert rest.error is not None
    assert "Invalid UTF8" in rest.error[1]
    with pytest.raises(ConfigError, match="compressed"):
        listed("hf_parquet", arrow(tmp_path / "z.arrow", table, "zstd"))


def test_parquet_config_errors(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", [cell(b"1")], text=["t"])
    for options in ({"audio_column": "text"}, {"audio_column": "no"}, {"text_column": "no"}):
        with pytest.raises(ConfigError, match="it has audio, text"):
            listed("hf_parquet", path, **options)
    with pytest.raises(ConfigError, match="not a readable Parquet file"):
        listed("hf_parquet", put(tmp_path / "y.parquet", b"nonsense"))


def test_a_transport_stream_is_a_recording_and_typescript_is_none(tmp_path: Path) -> None:
    (tmp_path / "film.ts").write_bytes(sounding.whole("ts"))
    (tmp_path / "film.txt").write_text("What is said.")
    (tmp_path / "code.ts").write_text("Gone = 1; // G\n" * 100)
    (tmp_path / "none.ts").touch()
    (tmp_path / "sub.ts").mkdir()
    items = listed("folder", str(tmp_path))
    [recording] = [item for item in items if isinstance(item, Recording)]
    assert (recording.path, recording.text) == ("film.ts", "What is said.")
    assert ignored(items) == {
        "code.ts": "extension", "none.ts": "extension", "film.txt": "read_as_text"
    }  # fmt: skip
    assert next(item.path for item in listed("folder", str(tmp_path / "film.ts"))) == "film.ts"


def test_a_transport_stream_in_an_archive_is_a_recording_too(tmp_path: Path) -> None:
    inside = tmp_path / "inside/day1"
    inside.mkdir(parents=True)
    (inside / "film.ts").write_bytes(sounding.whole("ts"))
    (inside / "film.txt").write_text("What is said.")
    (inside / "code.ts").write_text("Gone = 1; // G\n" * 100)
    (inside / "none.ts").touch()
    aside = {"code.ts": "extension", "none.ts": "extension"}
    for form, ending in (("zip", "zip"), ("tar", "tar"), ("gztar", "tar.gz")):
        home = tmp_path / form
        home.mkdir()
        name = shutil.make_archive(str(home / "x"), form, tmp_path / "inside", "day1")
        for kind, path in (("folder", str(home)), ("folder", name), ("tar", name)):
            if (kind, form) == ("tar", "zip"):
                continue
            items = listed(kind, path)
            [recording] = [item for item in items if isinstance(item, Recording)]
            assert (recording.path, recording.text) == (
                f"x.{ending}/day1/film.ts", "What is said."
            )  # fmt: skip
            assert {n: r for n, r in ignored(items).items() if "film" not in n} == {
                f"x.{ending}/day1/{code}": reason for code, reason in aside.items()
            } | ({f"x.{ending}/day1": "folder"} if kind == "tar" else {})
            with as_file(recording.locator) as file:
                assert file.read() == sounding.whole("ts")


@pytest.mark.parametrize("most", [5, 1 << 20])
def test_lines_of_a_list(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Only line feeds end lines; of blank ones and those over the limit only the number counts."""
    monkeypatch.setattr(urls, "MAX_LINE_BYTES", most)
    data = b"\xef\xbb\xbfa\r\n\n \n\xff\xe2\x80\xa8\n123456\r\n12345\n\r\r\nb"
    long = None if most == 5 else "123456"
    expected = [(1, "a"), (4, "\udcff\u2028"), (5, long), (6, "12345"), (8, "b")]
    assert [*urls.numbered(io.BytesIO(data))] == expected
