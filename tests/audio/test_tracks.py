"""Of a file with several audio tracks the default one is read, or the first that is not silent, and
the others are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile as sf
from av.stream import Disposition
from numpy.typing import NDArray

from tests.helpers.tiers import nightly
from uttermill.tasks import audio
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.tracks import locator_of
from uttermill.tasks.settings import FilterSettings
from uttermill.tasks.shard_store.stored_shard import samples_of

RATE = 48_000
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
