"""Pipes, sockets and devices under the names of lists and texts: each costs one file, and nothing
is opened that would block."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.helpers import corpus
from tests.sources.test_sources import codes, ignored, listed, put, recs
from uttermill.tasks.sources import folder, table
from uttermill.tasks.storage import urls

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
