"""Channels that a list names are recordings of their own, and hold their channel's sound alone."""

import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus, tiers
from uttermill.tasks import audio, plugins
from uttermill.tasks.base.errors import ConfigError, ItemError
from uttermill.tasks.publish.upkeep import verify
from uttermill.tasks.recording import Locator, Recording, tracks
from uttermill.tasks.settings import FilterSettings, Plugin, Source
from uttermill.tasks.shard_store.stored_shard import samples_of
from uttermill.tasks.sources import folder
from uttermill.tasks.stages.listing import entries, rttm
from uttermill.tasks.stages.listing.rttm import SideFiles
from uttermill.tasks.stages.listing.skipped import SkippedEntries

RATE = 16_000
SECONDS = 2.0
HERTZ = (300, 500)  # of the sound in each channel
TEXTS = ("one two three", "four five six")


def call(folder: Path, name: str = "call.wav") -> Path:
    """Two sounds, one in each channel."""
    folder.mkdir(parents=True, exist_ok=True)
    times = np.arange(round(SECONDS * RATE)) / RATE
    tones = [0.3 * np.sin(2 * np.pi * hertz * times) for hertz in HERTZ]
    sf.write(folder / name, np.stack(tones, 1), RATE)
    return folder / name


def lines(path: Path, *rows: Any) -> str:
    corpus.jsonl(path, rows)
    return str(path)


def lhotse(folder: Path, path: Path) -> dict[str, Any]:
    source = {"type": "file", "channels": [0, 1], "source": str(path)}
    cuts = [
        {
            "id": f"c{channel}", "type": "MonoCut", "start": 0.0, "duration": SECONDS,
            "channel": channel, "recording": {"id": "call", "sources": [source]},
            "supervisions": [
                {"id": f"s{channel}", "start": 0.0, "duration": SECONDS, "channel": channel,
                 "text": TEXTS[channel], "speaker": f"spk{channel}"}
            ],
        }
        for channel in (0, 1)
    ]  # fmt: skip
    return {"kind": "lhotse", "path": lines(folder / "cuts.jsonl", *cuts)}


def jsonl(folder: Path, path: Path) -> dict[str, Any]:
    rows = [
        {"audio_filepath": str(path), "text": TEXTS[c], "channel": c, "speaker": f"spk{c}"}
        for c in (0, 1)
    ]
    return {"kind": "jsonl", "path": lines(folder / "nemo.json", *rows)}


def table(folder: Path, path: Path) -> dict[str, Any]:
    rows = [f"{path}\t{TEXTS[c]}\t{'AB'[c]}\tspk{c}\n" for c in (0, 1)]
    (folder / "x.tsv").write_text("path\ttext\tchannel\tspeaker\n" + "".join(rows))
    return {"kind": "table", "path": str(folder / "x.tsv")}


def kaldi_segments(folder: Path, path: Path) -> dict[str, Any]:
    home = folder / "data"
    home.mkdir()
    (home / "wav.scp").write_text(f"call {path}\n")
    (home / "segments").write_text(f"u0 call 0.0 {SECONDS} 0\nu1 call 0.0 {SECONDS} 1\n")
    (home / "text").write_text(f"u0 {TEXTS[0]}\nu1 {TEXTS[1]}\n")
    (home / "utt2spk").write_text("u0 spk0\nu1 spk1\n")
    return {"kind": "kaldi", "path": str(home)}


def kaldi_sides(folder: Path, path: Path) -> dict[str, Any]:
    home = folder / "data"
    home.mkdir()
    (home / "wav.scp").write_text(f"call-A {path}\ncall-B {path}\n")
    (home / "reco2file_and_channel").write_text("call-A call A\ncall-B call B\n")
    (home / "text").write_text(f"call-A {TEXTS[0]}\ncall-B {TEXTS[1]}\n")
    (home / "utt2spk").write_text("call-A spk0\ncall-B spk1\n")
    return {"kind": "kaldi", "path": str(home)}


def stm(folder: Path, path: Path) -> dict[str, Any]:
    rows = [f"call {c + 1} spk{c} 0.0 {SECONDS} <o> {TEXTS[c]}\n" for c in (0, 1)]
    path.with_suffix(".stm").write_text("".join(rows))
    return {"kind": "folder", "path": str(path.parent)}


LISTS: list[Callable[[Path, Path], dict[str, Any]]] = [
    lhotse, jsonl, table, kaldi_segments, kaldi_sides, stm,
]  # fmt: skip


def heard(version: Path, row: dict[str, Any]) -> int:
    """The loudest frequency of a clip, in Hz."""
    path = version / "wenet_raw" / row["split"]
    (wav,) = path.rglob(f"{row['id']}.wav")
    with wave.open(str(wav)) as clip:
        samples = np.frombuffer(clip.readframes(clip.getnframes()), "<i2")
        spectrum = np.abs(np.fft.rfft(samples[: clip.getframerate()].astype(float)))
    return int(spectrum.argmax())


@pytest.mark.full
@pytest.mark.parametrize(
    "listed", tiers.few(LISTS, jsonl, kaldi_sides), ids=lambda listed: listed.__name__
)
def test_each_channel_is_packaged_with_its_own_sound_and_text(
    tmp_path: Path, listed: Callable[[Path, Path], dict[str, Any]]
) -> None:
    source = {**listed(tmp_path, call(tmp_path / "in")), "name": "calls"}
    job = corpus.job(
        tmp_path,
        sources=[source],
        filter={"segmenter": {"use": "auto"}, "filters": ()},
        package={"formats": [{"use": "wenet"}, {"use": "wenet_raw"}]},
    )
    published, _ = corpus.run(job)
    rows = corpus.utterances(published.path)
    rows.sort(key=lambda row: row["channel"])
    assert [(row["channel"], row["text"], row["speaker"]) for row in rows] == [
        (channel, TEXTS[channel], f"spk{channel}") for channel in (0, 1)
    ]
    assert [heard(published.path, row) for row in rows] == list(HERTZ)
    assert len({row["id"] for row in rows}) == len({row["recording"] for row in rows}) == 2
    ledger = corpus.ledger(published.path)
    assert sum(row["samples"] for row in ledger) == 2 * round(SECONDS * RATE)
    assert {row["utterance"]: row["channel"] for row in ledger if row["utterance"]} == {
        row["id"]: row["channel"] for row in rows
    }
    assert verify.verify(published.path) == []
    again, stages = corpus.run(job)
    assert again.path == published.path
    assert all(computed == 0 for computed, _ in stages.values())


def test_a_channel_that_the_file_lacks_is_named(tmp_path: Path) -> None:
    path = str(call(tmp_path))
    assert audio.probe(Locator(path, channels=(1,))).picked == (1,)
    assert audio.probe(Locator(path, channels=(0, 1))).picked is None
    with pytest.raises(ItemError, match=r"it has 2 channels, and no channel 2, counted from 0"):
        audio.probe(Locator(path, channels=(2,)))


def test_the_side_of_a_file_with_one_channel_is_that_channel(tmp_path: Path) -> None:
    path = str(corpus.add(tmp_path, 1))
    with pytest.raises(ItemError, match="no channel 1"):
        audio.probe(Locator(path, channels=(1,)))
    assert audio.probe(Locator(path, channels=(1,), or_only=True)).picked is None


def test_channel_0_of_a_mono_file_is_what_it_was(tmp_path: Path) -> None:
    """Lists name channel 0 of mono files, which nothing computes again for."""
    path = corpus.add(tmp_path / "in", 1)
    plain = {"wav": str(path), "txt": "hello there"}
    source = {"kind": "jsonl", "path": lines(tmp_path / "list.jsonl", plain), "name": "c"}
    before, _ = corpus.run(corpus.job(tmp_path, sources=[source]))
    lines(tmp_path / "list.jsonl", {**plain, "channel": 0})
    after, stages = corpus.run(corpus.job(tmp_path, sources=[source]))
    assert [stages[name][0] for name in ("filter", "resample", "transcribe")] == [0, 0, 0]
    ids = [pq.read_table(v.path / "utterances.parquet")["id"].to_pylist() for v in (before, after)]
    assert ids[0] == ids[1]


def test_names_of_channels() -> None:
    assert [tracks.channel_side(name, ("A", "B")) for name in "AB"] == [(0,), (1,)]
    assert [tracks.channel_side(name, ("1", "2")) for name in "12"] == [(0,), (1,)]
    assert [tracks.channel_side(name, ("0", "1")) for name in "01"] == [(0,), (1,)]
    assert tracks.channel_side("x", ("x",)) is None
    rows: list[Any] = [
        {"content": "c", "format": "wav/pcm_16", "channels": channels}
        for channels in (None, [0], [1], [0, 1])
    ]
    assert len({samples_of(row, FilterSettings()) for row in rows}) == 4
    where = Locator("a.wav", channels=(0, 2))
    assert Locator.loads(where.dumps()) == where


NAMELESS = r"channel_names: .* or hear the mix"


@pytest.mark.parametrize(
    ("values", "words"),
    [(["BBC News"], NAMELESS), (["both"], NAMELESS), ([True], NAMELESS),
     ([1, 2], "count channels from 1")],
)  # fmt: skip
def test_what_names_no_channel_is_refused_before_a_run(
    tmp_path: Path, values: list[object], words: str
) -> None:
    path = str(call(tmp_path / "in"))
    rows = [{"wav": path, "txt": "hello", "channel": value} for value in values]
    source = {"kind": "jsonl", "path": lines(tmp_path / "list.jsonl", *rows)}
    module, settings = plugins.resolve_source(Source.model_validate(source))
    with pytest.raises(ConfigError, match=words):
        list(module.recordings(settings))


@pytest.mark.parametrize("value", [None, float("nan")])
def test_what_names_no_channel_is_the_mix(tmp_path: Path, value: object) -> None:
    path = call(tmp_path / "in")
    row = {"wav": str(path), "txt": "hello", "channel": value}
    source = {"kind": "jsonl", "path": lines(tmp_path / "list.jsonl", row)}
    module, settings = plugins.resolve_source(Source.model_validate(source))
    [recording] = module.recordings(settings)
    assert recording.locator.channels is None  # type: ignore[union-attr]


def test_turns_of_a_channel_are_those_of_its_lines(tmp_path: Path) -> None:
    path = call(tmp_path / "in")
    rows = [
        f"SPEAKER call {side} {start} 0.5 <NA> <NA> spk{side} <NA> <NA>\n"
        for side, start in ((1, 0.0), (2, 0.5), (2, 1.0))
    ]
    path.with_suffix(".rttm").write_text("".join(rows))
    module, settings = plugins.resolve_source(Source.model_validate(jsonl(tmp_path, path)))
    entries_of = module.recordings(settings)
    [batch] = entries.batches("c", settings, entries_of, SkippedEntries(), SideFiles(settings))
    turns = {
        row["path"]: [turn["speaker"] for turn in row["rttm"]] for row in batch.rows.to_pylist()
    }
    assert turns == {"in/call.wav#0": ["spk1"], "in/call.wav#1": ["spk2", "spk2"]}


# RTTM files: parsed, matched to recordings, part of their turns' identity, and damaged.


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
    assert found.faults == {}


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
    assert found.faults[None] == "x.rttm, line 1: a SPEAKER line has at least 8 fields"
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
    table = corpus.utterances(version)
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
    told = corpus.ledger(published.path)
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
