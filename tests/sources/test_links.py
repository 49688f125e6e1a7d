"""Links in a source's folder: those that lead out of it are skipped and named, whatever reads the
folder, unless `follow_links` is set."""

import os
import shutil
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from tests.sources.test_sources import Listed, codes, ignored, listed, put, recs
from uttermill.tasks.base.errors import ConfigError, ItemError
from uttermill.tasks.recording import Ignored, Locator, file_kinds
from uttermill.tasks.recording.container import as_file, digest
from uttermill.tasks.settings import SourceSettings
from uttermill.tasks.sources import folder, table
from uttermill.tasks.stages.listing.rttm import SideFiles
from uttermill.tasks.storage import regular, urls

SECRET = "password=hunter2"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A source, beside a folder that is none of its own."""
    corpus.add(tmp_path / "private", 1, name="diary.wav")
    put(tmp_path / "private/diary.txt", SECRET)
    put(tmp_path / "private/credentials", SECRET)
    corpus.add(tmp_path / "top", 2, name="c.wav")
    return tmp_path / "top"


def link(path: Path, target: Path | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def texts(items: Listed) -> dict[str, str | None]:
    return {item.path: item.text for item in recs(items)}


def test_texts_files_and_folders_that_are_links_out_are_skipped(top: Path) -> None:
    private = top.parent / "private"
    link(top / "c.txt", private / "credentials")
    link(top / "extra", private)
    link(top / "diary.wav", "../private/diary.wav")
    link(top / "machine", "/proc")
    link(top / "parent", "..")
    link(top / "gone", "/nowhere/at/all.wav")
    link(top / "twice", "extra")
    found = listed("folder", top)
    assert texts(found) == {"c.wav": None}
    assert ignored(found) == dict.fromkeys(
        ["c.txt", "extra", "diary.wav", "machine", "parent", "gone", "twice"], "link_outside"
    )
    details = {item.path: item.detail for item in found if isinstance(item, Ignored)}
    assert str(private / "credentials") in details["c.txt"]
    assert "`follow_links: true`" in details["c.txt"]


def test_follow_links_takes_them(top: Path) -> None:
    private = top.parent / "private"
    link(top / "c.txt", private / "credentials")
    link(top / "extra", private)
    found = listed("folder", top, follow_links=True)
    assert texts(found) == {"c.wav": SECRET, "extra/diary.wav": SECRET}
    for item in recs(found):
        with as_file(item.locator) as file:
            assert file.read(4) == b"RIFF"


def test_links_inside_a_source_and_a_source_that_is_a_link_work(top: Path) -> None:
    put(top / "texts/said.md", "hello")
    link(top / "c.txt", "texts/said.md")
    link(top / "again.wav", "c.wav")
    link(top / "chain.wav", "again.wav")
    link(top / "absolute.wav", top / "c.wav")
    link(top / "loop1.wav", "loop2.wav")
    link(top / "loop2.wav", "loop1.wav")
    name = link(top.parent / "name", top)
    for path in (top, name):
        found = listed("folder", path)
        assert texts(found) == {
            "c.wav": "hello", "again.wav": None, "chain.wav": None, "absolute.wav": None,
            "loop1.wav": None, "loop2.wav": None,
        }  # fmt: skip
        assert codes(found) == {"loop1.wav": "missing", "loop2.wav": "missing"}
        good = [item for item in recs(found) if item.error is None]
        assert {digest(item.locator) for item in good} == {digest(Locator(str(top / "c.wav")))}


def test_a_whole_run_publishes_and_names_them(top: Path) -> None:
    link(top / "c.txt", top.parent / "private/credentials")
    link(top / "extra", top.parent / "private")
    top.rename(top.parent / "in")
    job = corpus.job(top.parent)
    published, _ = corpus.run(job)
    assert published.summary["utterances"]["packaged"] == 1
    everything = b"".join(
        path.read_bytes() for path in (job.out / "datasets").rglob("*") if path.is_file()
    )
    assert SECRET.encode() not in everything
    assert b"diary" not in everything
    surveyed = corpus.surveyed(job)
    reasons = {os.path.basename(each.source_path): each.reason for each in surveyed.left}
    assert reasons == {"c.txt": "link_outside", "extra": "link_outside"}
    assert any("2 links out of a source" in sentence for sentence in surveyed.stated)


@pytest.mark.parametrize("name", ["c.srt", "c.TextGrid", "c.json", "c.normalized.txt"])
def test_other_texts_are_no_way_out(top: Path, name: str) -> None:
    link(top / name, put(top.parent / "private/x", f"1\n00:00:00,000 --> 00:00:01,000\n{SECRET}\n"))
    found = listed("folder", top)
    assert [(item.path, item.text, item.segments) for item in recs(found)] == [
        ("c.wav", None, None)
    ]
    assert ignored(found) == {name: "link_outside"}


def test_the_text_of_a_file_that_is_the_source(top: Path) -> None:
    link(top / "c.txt", top.parent / "private/credentials")
    found = listed("folder", top / "c.wav")
    assert (texts(found), ignored(found)) == ({"c.wav": None}, {"c.txt": "link_outside"})
    alias = link(top.parent / "alias.wav", top / "c.wav")  # what a person names
    assert texts(listed("folder", alias)) == {"alias.wav": None}


def test_turns_beside_a_recording(top: Path) -> None:
    line = "SPEAKER c 1 0.0 0.5 <NA> <NA> hunter2 <NA> <NA>\n"
    link(top / "c.rttm", put(top.parent / "private/x.rttm", line))
    for kind in ("folder", "jsonl"):
        if kind == "jsonl":
            path = put(top.parent / "list.jsonl", '{"wav": "top/c.wav", "txt": "t", "key": "c"}\n')
            (recording,) = recs(listed("jsonl", path))
        else:
            found = listed("folder", top)
            (recording,) = recs(found)
            assert ignored(found) == {"c.rttm": "link_outside"}
        turns, fault = SideFiles(SourceSettings(kind=kind, path=str(top))).turns_of(recording)
        assert turns is None
        assert "a link leads out" in str(fault)
        follow = SourceSettings(kind=kind, path=str(top), follow_links=True)
        turns, fault = SideFiles(follow).turns_of(recording)
        assert (turns, fault) == ([{"start": 0.0, "end": 0.5, "speaker": "hunter2"}], None)


def archived(top: Path) -> Path:
    path = top.parent / "private/a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.write(top / "c.wav", "in.wav")
        file.writestr("in.txt", SECRET)
    return path


def test_archives_and_containers(top: Path) -> None:
    link(top / "a.zip", archived(top))
    shutil.copy(archived(top), top / "own.zip")
    found = listed("folder", top)
    assert texts(found) == {"c.wav": None, "own.zip/in.wav": SECRET}
    assert ignored(found)["a.zip"] == "link_outside"
    for item in recs(found):
        with as_file(item.locator) as file:
            assert file.read(4) == b"RIFF"


def tarred(path: Path) -> Path:
    corpus.add(path.parent, 1, name="x.wav")
    shutil.make_archive(str(path.with_suffix("")), "tar", path.parent, "x.wav")
    return path


def test_folders_and_patterns_of_tars(top: Path) -> None:
    tarred(top / "own.tar")
    tarred(top.parent / "private/other.tar")
    link(top / "other.tar", "../private/other.tar")
    link(top / "extra", "../private")
    for path in (top, f"{top}/**/*.tar"):
        found = listed("tar", path)
        assert [item.path for item in recs(found)] == ["own.tar/x.wav"]
        reasons = ignored(found)
        assert reasons["other.tar"] == "link_outside"
        with as_file(recs(found)[0].locator) as file:
            assert file.read(4) == b"RIFF"
    followed = listed("tar", top, follow_links=True)
    names = [item.path for item in recs(followed)]
    assert names == ["extra/other.tar/x.wav", "other.tar/x.wav", "own.tar/x.wav"]


# Lists


def lj_speech(top: Path) -> Path:
    """A corpus in a known layout, of which one clip is a link out."""
    home = top.parent / "lj"
    for number, name in enumerate(("one", "two")):
        corpus.add(home / "wavs", number, name=f"{name}.wav")
    link(home / "wavs/three.wav", top.parent / "private/diary.wav")
    put(home / "metadata.csv", "one|One.|One.\ntwo|Two.|Two.\nthree|Three.|Three.\n")
    return home


def test_audio_that_a_layout_names(top: Path) -> None:
    home = lj_speech(top)
    found = listed("table", home)
    assert texts(found) == {"wavs/one.wav": "One.", "wavs/two.wav": "Two."}
    assert ignored(found)["wavs/three.wav"] == "link_outside"
    assert "wavs/three.wav" in texts(listed("table", home, follow_links=True))
    # A list that a person names: what it names may be a link.
    assert "wavs/three.wav" in texts(listed("table", home / "metadata.csv"))


def test_a_folder_of_audio_that_is_a_link(top: Path) -> None:
    home = lj_speech(top)
    (home / "wavs").rename(top.parent / "elsewhere")
    link(home / "wavs", "../elsewhere")
    found = listed("table", home)
    assert recs(found) == []
    assert ignored(found)["wavs/one.wav"] == "link_outside"
    assert len(recs(listed("table", home, follow_links=True))) == 3


def test_a_list_in_a_folder_that_is_a_link_out(top: Path) -> None:
    home = lj_speech(top)
    (home / "metadata.csv").rename(top.parent / "private/list.csv")
    link(home / "metadata.csv", "../private/list.csv")
    assert table.suggested(str(home)) is None
    with pytest.raises(ConfigError, match="known layout"):
        listed("table", home)
    assert not [*folder.notes(folder.Settings(path=str(home)))]
    found = listed("folder", home)
    assert texts(found) == {"wavs/one.wav": None, "wavs/two.wav": None}
    assert ignored(found)["metadata.csv"] == "link_outside"
    assert len(recs(listed("table", home, follow_links=True))) == 3


def test_one_of_many_lists_that_is_a_link_out(top: Path) -> None:
    home = top.parent / "libri"
    for chapter in ("1-2", "1-3"):
        place = home / chapter.replace("-", "/")
        corpus.add(place, 1, name=f"{chapter}-0.flac")
        put(place / f"{chapter}.trans.txt", f"{chapter}-0 {SECRET}\n")
    moved = top.parent / "private/1-3.trans.txt"
    (home / "1/3/1-3.trans.txt").rename(moved)
    link(home / "1/3/1-3.trans.txt", moved)
    found = listed("table", home)
    assert texts(found) == {"1/2/1-2-0.flac": SECRET}
    assert ignored(found) == {
        "1/3/1-3.trans.txt": "link_outside", "1/3/1-3-0.flac": "not_listed",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["text", "utt2spk", "wav.scp"])
def test_kaldis_files_that_are_links_out_are_refused(top: Path, name: str) -> None:
    """Without its text, a source would silently get the recogniser's."""
    home = top.parent / "data"
    put(home / "wav.scp", f"u {top}/c.wav\n")  # a list may name any file
    put(home / "text", "u hello\n")
    put(home / "utt2spk", "u s\n")
    assert texts(listed("kaldi", home)) == {"c.wav": "hello"} or recs(listed("kaldi", home))
    (home / name).rename(top.parent / "private/moved")
    link(home / name, "../private/moved")
    with pytest.raises(ConfigError, match=f"{name} is a link that leads out of it.*follow_links"):
        listed("kaldi", home)
    assert len(recs(listed("kaldi", home, follow_links=True))) == 1


# Races


def swapped(top: Path, path: Path, target: Path) -> None:
    """What somebody does who may write in the source."""
    shutil.move(path, top.parent / f"was-{path.name}")
    path.symlink_to(target)


def test_a_recording_that_becomes_a_link_is_not_read(top: Path) -> None:
    (recording,) = recs(listed("folder", top))
    swapped(top, top / "c.wav", top.parent / "private/diary.wav")
    with pytest.raises(ItemError, match="a link leads out") as caught:
        digest(recording.locator)
    assert caught.value.code == "link_outside"


def test_a_folder_that_becomes_a_link_is_not_read(top: Path) -> None:
    """It may be put back before anybody compares times and inodes."""
    corpus.add(top / "deep", 3, name="diary.wav")
    deep = next(item for item in recs(listed("folder", top)) if item.path == "deep/diary.wav")
    swapped(top, top / "deep", top.parent / "private")
    with pytest.raises(ItemError, match="a link leads out"):
        as_file(deep.locator)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_text_that_becomes_a_link_while_its_folder_is_listed(
    top: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    corpus.add(top / "deep", 3, name="diary.wav")
    put(top / "deep/diary.txt", "hello")
    read: Callable[..., bytes] = file_kinds.first_bytes

    def late(path: str, *args: Any) -> bytes:
        if path.endswith("diary.txt") and not (top.parent / "was").exists():
            (top.parent / "was").touch()
            if what == "file":
                swapped(top, top / "deep/diary.txt", top.parent / "private/diary.txt")
            else:
                swapped(top, top / "deep", top.parent / "private")
        return read(path, *args)

    monkeypatch.setattr("uttermill.tasks.sources._beside.folders.first_bytes", late)
    settings = folder.Settings(path=str(top))
    found = {
        item.path: item for item in folder.recordings(settings) if not isinstance(item, Ignored)
    }
    assert found["deep/diary.wav"].text is None
    assert found["deep/diary.wav"].error is not None


def test_the_real_place_is_found_without_proc(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *args: Any, **options: Any) -> str:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return readlink(path, *args, **options)

    readlink = os.readlink
    monkeypatch.setattr(os, "readlink", refuse)
    link(top / "in.wav", "c.wav")
    link(top / "out.wav", "../private/diary.wav")
    opener = regular.read_inside(str(top))
    for name in ("c.wav", "in.wav"):
        os.close(opener(str(top / name), os.O_RDONLY))
    with pytest.raises(regular.Outside):
        opener(str(top / "out.wav"), os.O_RDONLY)


def test_a_source_whose_own_link_moves_is_read_where_it_leads_now(top: Path) -> None:
    name = link(top.parent / "name", top)
    (before,) = recs(listed("folder", name))
    as_file(before.locator).close()
    top.rename(top.parent / "moved")
    name.unlink()
    link(name, "moved")
    as_file(before.locator).close()


# Pipes, sockets and devices under the names of lists and texts: each costs one file, and nothing
# is opened that would block.


NAMES = (
    *("e.json", "list.jsonl", "1-2.trans.txt", "metadata.csv", "metadata.jsonl", "asr_train.tsv"),
    *("trans.txt", "wav.scp", "c.srt", "c.TextGrid", "c.rttm", "t.tar", "z.zip", "y.parquet"),
    *("transcripts.txt", "validated.tsv", "GigaSpeech.json", "clip.wav", "show.ts"),
)


def special(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_folder_full_of_them_is_a_folder_of_recordings(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    corpus.add(tmp_path, 1, name="a.wav")
    corpus.add(tmp_path, 2, name="c.wav")
    put(tmp_path / "a.txt", "hello")
    for name in NAMES:
        special(tmp_path / name, kind)
    assert table.suggested(str(tmp_path)) is None
    assert folder.notes(folder.Settings(path=str(tmp_path))) == []
    items = listed("folder", tmp_path, follow_links=True)
    assert [item.text for item in recs(items) if item.path == "a.wav"] == ["hello"]
    failed = codes(items)
    assert failed.pop("c.wav") == "bad_text"  # its text is a pipe: nothing else replaces it
    assert set(failed) <= {"t.tar", "z.zip"}
    assert {*ignored(items), *failed} >= {*NAMES} - {"c.rttm"}
    confined = listed("folder", tmp_path)
    if kind == "device":
        assert set(ignored(confined).values()) == {"link_outside", "read_as_text"}
        assert codes(confined) == {}


def test_layouts_pass_over_them(tmp_path: Path) -> None:
    for chapter in ("1/2", "1/3"):
        corpus.add(tmp_path / chapter, 1, name=f"{chapter.replace('/', '-')}-0.flac")
    put(tmp_path / "1/2/1-2.trans.txt", "1-2-0 HELLO\n")
    os.mkfifo(tmp_path / "1/3/1-3.trans.txt")
    items = listed("table", tmp_path)
    assert [(item.path, item.text) for item in recs(items)] == [("1/2/1-2-0.flac", "HELLO")]

    home = tmp_path / "vctk"
    for name in ("p1_001", "p1_002"):
        corpus.add(home / "wav48/p1", 1, name=f"{name}.wav")
    put(home / "txt/p1/p1_001.txt", "hello")
    os.mkfifo(home / "txt/p1/p1_002.txt")
    items = listed("table", home)
    assert [item.text for item in recs(items) if item.error is None] == ["hello"]
    assert codes(items) == {"p1_002.txt:1": "unreadable"}


def test_a_list_ends_at_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file may have 8 EB of zeros, and takes no room on the disk."""
    monkeypatch.setattr(urls, "MOST_SKIPPED", 8 << 20)
    for megabytes, numbers in ((6, [1, 2]), (64, [1])):
        path = tmp_path / f"{megabytes}.jsonl"
        with path.open("wb") as file:
            file.truncate(megabytes << 20)
            file.seek(0, os.SEEK_END)
            file.write(b"\nnext\n")
        lines = dict(urls.lines(str(path)))
        assert [*lines] == numbers
        assert lines[1] is None
