"""Of a file with several audio tracks the default one is read, or the first that is not silent, and
the others are named."""

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile as sf
from av.stream import Disposition
from numpy.typing import NDArray

from tests.helpers import films
from tests.helpers.films import RATE, edited, lateness, made
from tests.helpers.tiers import few, nightly
from uttermill.tasks import audio
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.tracks import locator_of
from uttermill.tasks.settings import FilterSettings
from uttermill.tasks.shard_store.stored_shard import samples_of

Samples = NDArray[np.float32]


def tone(hertz: float, begins: float = 0.0) -> Samples:
    at = np.arange(4 * RATE) / RATE
    return (0.3 * (at >= begins) * np.sin(2 * np.pi * hertz * at)).astype(np.float32)


SILENCE = np.zeros(4 * RATE, np.float32)


def film(path: Path, tracks: list[Samples], default: int | None = 0) -> Locator:
    codec = "flac" if path.suffix == ".mkv" else "aac"
    kind = "mpegts" if path.suffix == ".ts" else None
    with av.open(str(path), "w", format=kind) as container:
        streams: list[Any] = []
        for number, _ in enumerate(tracks):
            stream: Any = container.add_stream(codec, rate=RATE, layout="mono")
            stream.metadata["title"] = f"part {number}"
            stream.disposition = Disposition.default if number == default else Disposition(0)
            stream.codec_context.open()
            streams.append(stream)
        for start in range(0, 4 * RATE, 1024):
            for stream, samples in zip(streams, tracks, strict=True):
                context = stream.codec_context
                frame = av.AudioFrame.from_ndarray(
                    samples[None, start : start + 1024], "fltp", "mono"
                )
                frame.sample_rate, frame.pts = RATE, start
                [ready] = av.AudioResampler(context.format, "mono", RATE).resample(frame)
                ready.pts = start
                container.mux(stream.encode(ready))
        for stream in streams:
            container.mux(stream.encode(None))
    return Locator(str(path))


def heard(locator: Locator) -> tuple[int, list[str]]:
    """The frequency of what is read, in Hz, and the notes."""
    with audio.open_stream(locator) as stream:
        samples = np.concatenate(list(stream.blocks()))[-2 * RATE : -RATE, 0]
        spectrum = np.abs(np.fft.rfft(samples))
        return int(spectrum.argmax()), stream.notes


KINDS = ["mp4", "mkv", nightly("mov"), "ts"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_that_is_not_silent_is_read(tmp_path: Path, kind: str) -> None:
    hertz, notes = heard(film(tmp_path / f"a.{kind}", [SILENCE, tone(300), tone(500)]))
    assert hertz == 300
    assert [note.partition(" (")[0].partition(" is ")[0] for note in notes] == [
        "its audio track 0", "its audio track 2",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS[:3])
def test_the_default_one_is_read(tmp_path: Path, kind: str) -> None:
    locator = film(tmp_path / f"a.{kind}", [tone(300), tone(500, begins=1.5)], default=1)
    hertz, notes = heard(locator)
    assert hertz == 500
    [note] = notes
    assert "audio track 0" in note
    assert audio.probe(locator).track == 1


def test_a_stated_track_is_read(tmp_path: Path) -> None:
    path = str(film(tmp_path / "a.mkv", [tone(300), tone(500)]).path)
    assert heard(Locator(path, track=1))[0] == 500
    assert heard(Locator(path, track=0))[0] == 300
    with pytest.raises(ItemError, match=r"unreadable.*no audio track 2, but 2.*`track`"):
        audio.probe(Locator(path, track=2))


@pytest.mark.parametrize("name", ["a.flac", "a.wav", "a.ogg"])
def test_a_file_of_one_track_has_no_other(tmp_path: Path, name: str) -> None:
    sf.write(tmp_path / name, tone(300), RATE)
    assert heard(Locator(str(tmp_path / name), track=0)) == (300, [])
    with pytest.raises(ItemError, match=r"unreadable.*no track 1"):
        audio.probe(Locator(str(tmp_path / name), track=1))


def test_all_tracks_silent_is_the_default_one(tmp_path: Path) -> None:
    assert audio.probe(film(tmp_path / "a.mkv", [SILENCE, SILENCE], default=1)).track == 1


def test_a_format_without_a_track_is_the_first_one() -> None:
    row: Any = {"locator": Locator("a.mkv").dumps(), "format": "matroska/flac", "content": "c"}
    assert locator_of(row, FilterSettings()).track == 0
    first = samples_of(row, FilterSettings())
    assert first == "c track 0 channels None silenced False"
    row["format"] = "matroska/flac#1"
    assert locator_of(row, FilterSettings()) == Locator("a.mkv", track=1)
    assert samples_of(row, FilterSettings()) != first


# Times of a film are those of its sound: late starts, holes and edit lists, in each container.


#: Containers that do not hold the encoder's delay (1,024 samples of AAC, 481 of MP2) have it in
#: their sound.
DELAY = 0.022
FILM_KINDS = ["mp4", "mov", "mkv", "webm", "ts", "flv", "mpg", "wtv", "nut"]
MP4 = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}


def right(late: list[float]) -> bool:
    return all(-0.002 < seconds < DELAY + 0.002 for seconds in late)


@pytest.mark.parametrize("kind", few(FILM_KINDS, "mp4", "mkv", "ts", "flv"))
def test_sound_that_begins_after_the_picture(tmp_path: Path, kind: str) -> None:
    path = made(tmp_path / f"a.{kind}", late=3.4)
    late, faults = lateness(path, (1, 4.4), (9, 12.4))
    assert right(late), late
    assert faults == []
    assert audio.probe(Locator(str(path))).start == pytest.approx(3.4, abs=DELAY)
    with audio.open_stream(Locator(str(path))) as stream:
        assert [note[:18] for note in stream.notes] == ["its audio begins 3"]


@pytest.mark.parametrize("kind", few(FILM_KINDS, "mp4", "flv", "mpg"))
def test_a_hole_in_the_times_is_silence_of_its_length(tmp_path: Path, kind: str) -> None:
    late, faults = lateness(made(tmp_path / f"a.{kind}", hole=(4, 6.5)), (1, 1), (9, 9))
    assert right(late), late
    [what] = faults
    assert what.startswith("2.5") or what.startswith("2.49")
    assert what.endswith("s missing")


def test_a_hole_in_a_fragmented_mp4(tmp_path: Path) -> None:
    path = made(tmp_path / "a.mp4", hole=(4, 6.5), options=MP4)
    late, faults = lateness(path, (1, 1), (9, 9))
    assert right(late), late
    assert len(faults) == 1


def test_packets_lost_one_by_one_add_up(tmp_path: Path) -> None:
    path = made(tmp_path / "a.mp4", moved=lambda number: 1024 / RATE * (number // 20))
    late, faults = lateness(path, (1, 1 + 2 * 1024 / RATE), (9, 9 + 21 * 1024 / RATE))
    assert all(abs(seconds) < 0.1 for seconds in late), late
    assert len(faults) == 5


def test_a_recorder_s_clock_that_jitters_or_runs_fast_makes_no_hole(tmp_path: Path) -> None:
    jitter = np.random.default_rng(1).uniform(-0.5, 0.5, 1000) * 1024 / RATE
    for moved in (lambda number: float(jitter[number]), lambda number: number * 4e-5):
        path = made(tmp_path / "a.mp4", late=0.1, moved=moved)
        with audio.open_stream(Locator(str(path))) as stream:
            samples = sum(map(len, stream.blocks()))
            assert stream.faults == []
        assert samples == pytest.approx(films.SECONDS * RATE, abs=2048)


@pytest.mark.parametrize("kind", few(["mp4", "mov", "m4a"], "mp4"))
def test_an_edit_list_says_when_what_is_heard(tmp_path: Path, kind: str) -> None:
    path = made(tmp_path / "a.mp4").rename(tmp_path / f"a.{kind}")
    late, _ = lateness(edited(path, (2, -1), (12, 0)), (1, 3), (9, 11))
    assert right(late), ("an empty edit at the start", late)
    late, _ = lateness(edited(path, (9, 3)), (4, 1), (10, 7))
    assert right(late), ("the first seconds are cut off", late)
    late, faults = lateness(
        edited(path, (1, -1), (3.84, 0), (2, -1), (7, 3.84)), (2.5, 3.5), (9, 12)
    )
    assert right(late), ("an empty edit inside", late)
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks()))
    assert not samples[round(3.9 * RATE) : round(5.8 * RATE)].any(), "it is silent there"
    assert len(faults) == 1
    late, faults = lateness(edited(path, (2.88, 0), (4, 5.76)), (1, 1), (8, 5.12))
    assert right(late), ("a part is left out", late)


def test_sound_before_time_0_is_not_played(tmp_path: Path) -> None:
    late, faults = lateness(made(tmp_path / "a.mp4", late=-0.5), (2, 1.5), (9, 8.5))
    assert right(late), late
    assert faults == []


def test_a_sound_alone_counts_from_the_container_s_zero_where_it_has_one(tmp_path: Path) -> None:
    for kind, start in (("mp4", 3.4), ("mkv", 3.4), ("ts", 0.0), ("flv", 0.0)):
        path = made(tmp_path / f"a.{kind}", late=3.4, picture=False)
        assert audio.probe(Locator(str(path))).start == pytest.approx(start, abs=DELAY), kind
    path = made(tmp_path / "live.mkv", late=4000.0, picture=False)
    late, _ = lateness(path, (1, 1))
    assert right(late), "cut from a live stream, whose clock began long before"
