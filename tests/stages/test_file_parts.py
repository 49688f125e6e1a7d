"""`channels` and `track: all` of a source: what of each file becomes a recording of its own."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.audio.test_tracks import film, tone
from tests.helpers import corpus, tiers
from uttermill.flows.cli.show import results
from uttermill.flows.run import ledger_items
from uttermill.tasks.settings import Plugin, Source

RATE = 16_000
STAGES = ("shard", "filter", "resample", "transcribe")


def sides(path: Path, *seeds: int, seconds: float = 2.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = [corpus.speech(seed, seconds, RATE)[:, 0] for seed in seeds]
    sf.write(path, np.stack(channels, 1), RATE)


def job(tmp: Path, **options: Any) -> Any:
    source = {"kind": "folder", "path": str(tmp / "in"), "name": "c", **options}
    return corpus.job(tmp, sources=[source], package={"max_removed_fraction": 1.0})


def packaged(tmp: Path, **options: Any) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """The packaged clips by recording, and what each stage computed."""
    published, stages = corpus.run(job(tmp, **options))
    rows = corpus.utterances(published.path)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["recording"]: row for row in rows}, {name: stages[name][0] for name in STAGES}


def of_reason(version: Path, reason: str) -> list[dict[str, Any]]:
    """The ledger's rows with a reason."""
    rows = corpus.ledger(version)
    return [row for row in rows if row["reason"] == reason]


NOTHING = dict.fromkeys(STAGES, 0)


def test_channels_apart(tmp_path: Path) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    sides(tmp_path / "in/mono.wav", 3)
    rows, _ = packaged(tmp_path, channels="apart")
    assert {name: (row["channel"], row["speaker"]) for name, row in rows.items()} == {
        "c/call.wav#0": (0, "c/call.wav#0"),
        "c/call.wav#1": (1, "c/call.wav#1"),
        "c/mono.wav": (None, None),
    }
    again, computed = packaged(tmp_path, channels="apart")
    assert (again, computed) == (rows, NOTHING)


@pytest.mark.nightly
def test_mixed_recordings_stay_as_they_are(tmp_path: Path) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    sides(tmp_path / "in/mono.wav", 3)
    mixed, _ = packaged(tmp_path)
    assert packaged(tmp_path, channels="mix") == (mixed, NOTHING)
    rows, computed = packaged(tmp_path, channels="apart")
    assert computed["filter"] == 2  # the two sides: the mono file is as it was
    assert rows["c/mono.wav"]["id"] == mixed["c/mono.wav"]["id"]
    assert "c/call.wav" not in rows
    back, computed = packaged(tmp_path)
    assert {n: (r["id"], r["sha256"]) for n, r in back.items()} == {
        n: (r["id"], r["sha256"]) for n, r in mixed.items()
    }
    assert computed["filter"] == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("value", "name"), [("first", "call.wav"), tiers.nightly(0, "call.wav"), (1, "call.wav#1")]
)
def test_one_channel(tmp_path: Path, value: str | int, name: str) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    rows, _ = packaged(tmp_path, channels=value)
    assert [*rows] == [f"c/{name}"]
    channel = 1 if value == 1 else 0
    assert rows[f"c/{name}"]["channel"] == channel
    apart, computed = packaged(tmp_path, channels="apart")
    assert computed["filter"] == 1  # the other one
    assert apart[f"c/call.wav#{channel}"]["sha256"] == rows[f"c/{name}"]["sha256"]


@pytest.mark.nightly
def test_a_file_that_changed_is_divided_anew(tmp_path: Path) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    sides(tmp_path / "in/mono.wav", 3)
    packaged(tmp_path, channels="apart")
    sides(tmp_path / "in/call.wav", 4, 2, 5)
    rows, computed = packaged(tmp_path, channels="apart")
    assert sorted(rows) == ["c/call.wav#0", "c/call.wav#1", "c/call.wav#2", "c/mono.wav"]
    assert computed["filter"] == 3  # other bytes
    sides(tmp_path / "in/call.wav", 6)
    rows, _ = packaged(tmp_path, channels="apart")
    assert sorted(rows) == ["c/call.wav", "c/mono.wav"]
    again, computed = packaged(tmp_path, channels="apart")
    assert (again, computed) == (rows, NOTHING)
    sides(tmp_path / "in/call.wav", 7, 8)
    rows, _ = packaged(tmp_path, channels="apart")
    assert sorted(rows) == ["c/call.wav#0", "c/call.wav#1", "c/mono.wav"]
    (tmp_path / "in/call.wav").unlink()
    rows, computed = packaged(tmp_path, channels="apart")
    assert ([*rows], computed) == (["c/mono.wav"], NOTHING)


@pytest.mark.full
def test_many_files_grow_by_what_is_new(tmp_path: Path) -> None:
    for number in range(12):
        sides(tmp_path / f"in/c{number}.wav", 2 * number, 2 * number + 1, seconds=0.4 + number / 10)
    rows, _ = packaged(tmp_path, channels="apart")
    assert len(rows) == 24
    sides(tmp_path / "in/new.wav", 100, 101)
    grown, computed = packaged(tmp_path, channels="apart")
    assert computed["filter"] == 2
    assert {name: grown[name]["id"] for name in rows} == {n: row["id"] for n, row in rows.items()}


def test_a_text_that_names_no_channel_is_not_given_to_both(tmp_path: Path) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    (tmp_path / "in/call.txt").write_text("hello there")
    sides(tmp_path / "in/mono.wav", 3)
    (tmp_path / "in/mono.txt").write_text("hello again")
    published, _ = corpus.run(job(tmp_path, channels="apart", expect_broken=True))
    ledger = corpus.ledger(published.path)
    outcomes = {row["recording"]: (row["outcome"], row["reason"]) for row in ledger}
    assert outcomes["c/call.wav"] == ("failed", "unsupported")
    assert outcomes["c/mono.wav"][0] == "packaged"
    [detail] = [row["detail"] for row in ledger if row["recording"] == "c/call.wav"]
    assert "its text does not say which channel it is of" in detail


def test_turns_name_the_speakers_of_channels(tmp_path: Path) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    turns = (f"SPEAKER call {n} 0.0 2.0 <NA> <NA> spk{n} <NA> <NA>\n" for n in (1, 2))
    (tmp_path / "in/call.rttm").write_text("".join(turns))
    source = {"kind": "folder", "path": str(tmp_path / "in"), "name": "c", "channels": "apart"}
    published, _ = corpus.run(corpus.job(tmp_path, sources=[source], speakers=Plugin(use="given")))
    rows = corpus.utterances(published.path)
    assert {r["recording"]: r["speaker"] for r in rows} == {
        "c/call.wav#0": "spk1", "c/call.wav#1": "spk2",
    }  # fmt: skip


def test_every_track_is_a_recording(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    film(tmp_path / "in/a.mkv", [tone(300), tone(500)], default=1)
    film(tmp_path / "in/b.mkv", [tone(700)])
    published, _ = corpus.run(job(tmp_path, track="all"))
    rows = corpus.utterances(published.path)
    assert [row["recording"] for row in rows] == ["c/a.mkv#0", "c/a.mkv#1", "c/b.mkv"]
    assert len({row["sha256"] for row in rows}) == 3
    ledger = pq.read_table(published.path / "ledger.parquet")
    assert "track_not_read" not in ledger["reason"].to_pylist()
    assert corpus.run(job(tmp_path, track="all"))[1]["shard"] == (0, 3)


@pytest.mark.parametrize(
    ("option", "value"), [("channels", "left"), ("channels", -1), ("track", "every"), ("track", -1)]
)
def test_other_values_are_refused(tmp_path: Path, option: str, value: object) -> None:
    from uttermill.tasks import plugins
    from uttermill.tasks.base.errors import ConfigError

    with pytest.raises(ConfigError, match=option):
        plugins.resolve_source(
            Source.model_validate({"kind": "folder", "path": str(tmp_path), option: value})
        )


def test_the_ledger_says_of_which_track_and_channel_each_span_is(tmp_path: Path) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    film(tmp_path / "in/film.mkv", [tone(300), tone(500), tone(700)], default=1)
    broken = tmp_path / "in/broken.wav"
    broken.write_bytes(b"no audio, but long enough to be some")
    published, _ = corpus.run(job(tmp_path, channels="apart", expect_broken=True))
    table = pq.read_table(published.path / "ledger.parquet")
    parts = {
        (Path(row["source_path"]).name, row["reason"], row["track"], row["channel"])
        for row in table.to_pylist()
    }
    assert parts == {
        ("call.wav", "packaged", None, 0), ("call.wav", "packaged", None, 1),
        ("film.mkv", "packaged", 1, None), ("film.mkv", "track_not_read", None, None),
        ("film.mkv", "track_not_read", 2, None), ("broken.wav", "unreadable", None, None),
    }  # fmt: skip
    items = [*ledger_items.rows(ledger_items.spans([table]), ())]
    shown = [line for line in results.items({"items": items}) if "packaged" in str(line)]
    assert [str(line).partition("/in/")[2].partition(" s  ")[0] for line in shown] == [
        "call.wav channel 0 0.00-2.00", "call.wav channel 1 0.00-2.00",
        "film.mkv track 1 0.00-4.00",
    ]  # fmt: skip


def test_the_ledger_names_subtitles_inside_a_film(tmp_path: Path) -> None:
    path = tmp_path / "in/film.mkv"
    path.parent.mkdir()
    with av.open(str(path), "w") as out:
        sound: Any = out.add_stream("pcm_s16le", rate=RATE, layout="mono")
        subtitles: Any = out.add_mux_stream("subrip")
        subtitles.metadata["language"] = "ger"
        cue = av.Packet(b"Guten Tag.")
        cue.stream, cue.time_base = subtitles, Fraction(1, 1000)
        cue.pts = cue.dts = 100
        cue.duration = 900
        out.mux(cue)
        samples = (corpus.speech(1, 2.0, RATE)[:, 0] * 32_767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = RATE, 0
        out.mux([*sound.encode(frame), *sound.encode(None)])
    published, _ = corpus.run(job(tmp_path))
    [row] = of_reason(published.path, "subtitles_not_read")
    assert (row["stage"], row["seconds"]) == ("shard", 0.0)
    assert "(ger)" in row["detail"]
    assert "ffmpeg -i FILE -map 0:s:0 FILE.srt" in row["detail"]


def test_a_recording_that_cannot_be_probed_is_of_the_channel_that_was_asked_for(
    tmp_path: Path,
) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    (tmp_path / "in/broken.wav").write_bytes(b"no audio, but long enough to be some")
    published, _ = corpus.run(job(tmp_path, channels=1, expect_broken=True))
    rows = corpus.ledger(published.path)
    assert {row["outcome"]: row["channel"] for row in rows} == {"failed": 1, "packaged": 1}


@pytest.mark.nightly
def test_a_text_that_comes_or_goes_decides_anew(tmp_path: Path) -> None:
    sides(tmp_path / "in/call.wav", 1, 2)
    sides(tmp_path / "in/mono.wav", 3)
    rows, _ = packaged(tmp_path, channels="apart", expect_broken=True)
    assert sorted(rows) == ["c/call.wav#0", "c/call.wav#1", "c/mono.wav"]
    (tmp_path / "in/call.txt").write_text("hello there")
    now, _ = packaged(tmp_path, channels="apart", expect_broken=True)
    assert sorted(now) == ["c/mono.wav"]
    (tmp_path / "in/call.txt").unlink()
    again, computed = packaged(tmp_path, channels="apart", expect_broken=True)
    assert {n: row["id"] for n, row in again.items()} == {n: row["id"] for n, row in rows.items()}
    assert computed["filter"] == 0


def test_the_ledger_names_sound_beyond_full_scale(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    sound = corpus.speech(1, 2.0, RATE)[:, 0]
    for name, peak in (("loud", 1.2), ("right", 0.9)):
        scaled = sound * np.float32(peak / np.abs(sound).max())
        sf.write(tmp_path / f"in/{name}.wav", scaled, RATE, subtype="FLOAT")
    published, _ = corpus.run(job(tmp_path))
    [row] = of_reason(published.path, "beyond_full_scale")
    assert (row["recording"], row["seconds"]) == ("c/loud.wav", 0.0)
    assert "1.2 times full scale" in row["detail"]
    assert "resample.levels" in row["detail"]
