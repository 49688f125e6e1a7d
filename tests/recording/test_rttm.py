"""RTTM files: parsed, matched to recordings, part of their turns' identity, and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.recording import Locator, Recording
from uttermill.tasks.settings import Plugin
from uttermill.tasks.sources import folder
from uttermill.tasks.stages.listing import rttm


def line(name: str, start: float, seconds: float, speaker: str) -> str:
    return f"SPEAKER {name} 1 {start} {seconds} <NA> <NA> {speaker} <NA> <NA>\n"


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.rttm"
    path.write_text(
        ";; a comment\n\nSPKR-INFO a 1 <NA> <NA> <NA> unknown ann <NA> <NA>\r\n"
        + line("a", 0.5, 1.25, "ann") + line("b", 0, 2, "bob") + line("a", 3, 0, "cy")
    )  # fmt: skip
    found = rttm.read(str(path))
    assert found.turns == {
        "a": [(0.5, 1.75, "ann", "1"), (3, 3, "cy", "1")], "b": [(0, 2, "bob", "1")]
    }  # fmt: skip
    assert (found.faults, found.fault) == ({}, None)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("SPEAKER a 1 0.5", "a SPEAKER line has at least 8 fields"),
        (line("a", 0, 1, "ann").replace("1 0 1", "1 zero 1"), "are not numbers"),
        (line("a", -1, 1, "ann"), "negative"),
        (line("a", 0, float("nan"), "ann"), "not finite"),
        (line("a", 0, 1, "<NA>"), "no speaker"),
    ],
)
def test_bad_lines(tmp_path: Path, bad: str, said: str) -> None:
    path = tmp_path / "x.rttm"
    path.write_text(line("b", 0, 1, "bob") + bad)
    found = rttm.read(str(path))
    assert list(found.faults) == ["a"]
    assert found.faults["a"].startswith("x.rttm, line 2: ")
    assert said in found.faults["a"]
    assert list(found.turns) == ["b"]


def test_a_line_that_names_nobody_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.rttm"
    path.write_bytes(b"SPEAKER\n" + line("a", 0, 1, "x").encode().replace(b"x <", b"\xff <"))
    found = rttm.read(str(path))
    assert found.fault == "x.rttm, line 1: a SPEAKER line has at least 8 fields"
    assert "no speaker" in found.faults["a"]


def listed(home: Path, name: str) -> Recording:
    return Recording(name, name, Locator(str(home / name)), 1, "")


def test_a_sources_file_goes_by_path_and_by_stem(tmp_path: Path) -> None:
    whole = tmp_path / "all.rttm"
    whole.write_text(line("d/a", 0, 1, "ann") + line("b", 0, 1, "bob") + "SPEAKER c 1\n")
    files = rttm.SideFiles(folder.Settings(path=str(tmp_path), rttm=str(whole)))
    own = [{"start": 0.0, "end": 1.0, "speaker": "ann"}]
    assert files.turns_of(listed(tmp_path, "d/a.wav")) == (own, None)
    assert files.turns_of(listed(tmp_path, "a.wav")) == (None, None)
    turns, wrong = files.turns_of(listed(tmp_path, "d/b.flac"))
    assert turns is not None
    assert turns[0]["speaker"] == "bob"
    assert wrong is None
    assert "line 3" in str(files.turns_of(listed(tmp_path, "c.wav"))[1])
    # The one beside the recording counts, whatever it calls it.
    (tmp_path / "b.rttm").write_text(line("anything", 1, 1, "eve"))
    beside, _ = files.turns_of(listed(tmp_path, "b.wav"))
    assert beside == [{"start": 1.0, "end": 2.0, "speaker": "eve"}]
    (tmp_path / "c.rttm").mkdir()
    assert files.turns_of(listed(tmp_path, "c.wav")) == (None, "c.rttm: not a file")
    with pytest.raises(ConfigError, match="cannot be read"):
        rttm.SideFiles(folder.Settings(path=str(tmp_path), rttm=str(tmp_path / "none.rttm")))


# --- runs -----------------------------------------------------------------------------------------


def job(tmp: Path, **source: Any) -> Any:
    how = {"segmenter": {"use": "tests.plugins.stretches"}, "filters": ({"use": "duration"},)}
    asked = {"kind": "folder", "path": str(tmp / "in"), "name": "c", "expect_broken": True}
    speakers = Plugin.model_validate({"use": "given", "min_turn_seconds": 0})
    return corpus.job(tmp, filter=how, speakers=speakers, sources=[{**asked, **source}])


def rows(version: Path) -> list[tuple[str, float, float, str | None]]:
    table = pq.read_table(version / "utterances.parquet").to_pylist()
    return sorted(
        (r["source_path"][-7:], round(r["start"], 2), round(r["end"], 2), r["speaker"])
        for r in table
    )


@pytest.mark.nightly
def test_changed_damaged_and_mended(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 4)
    (tmp_path / "in" / "r01.rttm").write_text(
        line("r01", 0, 0.3, "ann") + line("r01", 0.3, 0.3, "bob")
    )
    (tmp_path / "in" / "r02.rttm").write_text(
        line("r02", 0, 0.4, "SPEAKER_00") + line("r02", 0.4, 0.4, "SPEAKER_01")
    )
    published, _ = corpus.run(job(tmp_path))
    first = rows(published.path)
    assert first == [
        ("r00.wav", 0.0, 0.4, None),
        ("r01.wav", 0.0, 0.3, "ann"),
        ("r01.wav", 0.3, 0.6, "bob"),
        ("r02.wav", 0.0, 0.4, "r02.wav#1"),
        ("r02.wav", 0.4, 0.8, "r02.wav#2"),
        ("r03.wav", 0.0, 1.0, None),
    ]
    assert corpus.run(job(tmp_path))[1]["filter"] == (0, 4)
    # Another name: that recording's turns, and nothing else.
    beside = tmp_path / "in" / "r01.rttm"
    beside.write_text(line("r01", 0, 0.3, "ann") + line("r01", 0.3, 0.3, "eve"))
    published, stages = corpus.run(job(tmp_path))
    assert [row for row in rows(published.path) if row not in first] == [
        ("r01.wav", 0.3, 0.6, "eve")
    ]
    assert stages["filter"] == (1, 3)
    assert stages["resample"][0] == stages["transcribe"][0] == 0
    # Damaged: that recording fails with one sentence; the others are not looked at.
    beside.write_text(line("r01", 0, 0.3, "ann") + "SPEAKER r01 1 0.3\n")
    published, stages = corpus.run(job(tmp_path))
    assert rows(published.path) == [row for row in first if row[0] != "r01.wav"]
    assert published.summary["reasons"]["filter.bad_rttm"]["items"] == 1
    told = pq.read_table(published.path / "ledger.parquet").to_pylist()
    assert [row["detail"] for row in told if row["reason"] == "bad_rttm"] == [
        "r01.rttm, line 2: a SPEAKER line has at least 8 fields"
    ]
    assert stages["filter"] == (1, 3)
    beside.write_text(line("r01", 0, 0.3, "ann") + line("r01", 0.3, 0.3, "bob"))
    published, stages = corpus.run(job(tmp_path))
    assert rows(published.path) == first
    assert stages["transcribe"][0] == 0
    # Gone: cut as if nobody had said anything.
    beside.unlink()
    published, _ = corpus.run(job(tmp_path))
    assert ("r01.wav", 0.0, 0.6, None) in rows(published.path)


def test_one_file_for_a_source(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    whole = tmp_path / "all.rttm"
    whole.write_text(line("r01", 0.1, 0.3, "ann") + line("r77", 0, 1, "bob"))
    published, _ = corpus.run(job(tmp_path, rttm=str(whole)))
    assert [row[3] for row in rows(published.path)] == [None, "ann"]


def test_others_do_not_read_them(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    (tmp_path / "in" / "r01.rttm").write_text("SPEAKER\n")
    published, _ = corpus.run(corpus.job(tmp_path))
    assert published.summary["utterances"]["packaged"] == 2
