"""Opus and MP3 in formats: as long as the clips, at the same place, and damage is found."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, published, random_access, tiers
from uttermill.flows import checks
from uttermill.tasks import audio, plugins
from uttermill.tasks.base.arrays import Int16s
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import Output, _clips
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings import Plugin

pytestmark = pytest.mark.full

Write = Callable[..., bytes]
#: Two versions: each has a format once.
USES: list[list[dict[str, Any]]] = [
    [
        {"use": "lhotse_shar", "index": True},
        {"use": "hf_parquet"},
        {"use": "litdata"},
        {"use": "metadata_csv", "profile": "piper"},
    ],
    [
        {"use": "webdataset"},
        {"use": "lhotse_shar"},
        {"use": "mds"},
        {"use": "lance"},
        {"use": "metadata_csv", "profile": "hf_audiofolder"},
    ],
]


LEAST = {audio.write_opus_bytes: 6000, audio.write_mp3_bytes: audio.MP3_LEAST}


def stored(folder: Path, data: bytes) -> Path:
    path = folder / ("a.opus" if data.startswith(b"OggS") else "a.mp3")
    path.write_bytes(data)
    return path


def delay(given: Int16s, decoded: Int16s) -> int:
    """Samples by which the second is behind, at the peak of their correlation."""
    size = 2 * len(given)
    spectrum = np.fft.rfft(decoded, size) * np.conj(np.fft.rfft(given, size))
    lag = int(np.argmax(np.fft.irfft(spectrum, size)))
    return (lag + len(given)) % size - len(given)


def clips(version: Path) -> int:
    return len(pq.read_table(version / "utterances.parquet", columns=["id"]))


LENGTHS = (0.02, 0.0313, 0.1, 0.33, 0.999, 1.0, 1.3, 2.017, 4.3)


#: MP3 has three kinds of frames: of 8 to 12, 16 to 24 and 32 to 48 kHz.
@pytest.mark.parametrize("lengths", [LENGTHS[::4], tiers.nightly(LENGTHS)], ids=["some", "all"])
@pytest.mark.parametrize(
    ("write", "rates"),
    [
        (audio.write_opus_bytes, {8000, 48_000}),
        (audio.write_mp3_bytes, {8000, 22_050, 48_000}),
        tiers.nightly(audio.write_opus_bytes, audio.OPUS_RATES),
        tiers.nightly(audio.write_mp3_bytes, audio.MP3_RATES),
    ],
)
def test_length_and_place_are_those_of_the_clip(
    tmp_path: Path, write: Write, rates: set[int], lengths: tuple[float, ...]
) -> None:
    """The encoder's delay is cut off again, for a clip of any length and rate."""
    for rate in sorted(rates):
        for seconds in lengths:
            samples = corpus.speech(3, seconds, rate).reshape(-1)
            given = np.round(samples * 30_000).astype(np.int16)
            data = write(given, rate)
            assert data == write(given, rate)
            small = write(given, rate, LEAST[write])
            for decoded, at in map(audio.decode_int16, (data, small)):
                assert (len(decoded), at) == (len(given), rate), seconds
            with audio.open_stream(Locator(str(stored(tmp_path, small)))) as stream:  # FFmpeg, too
                assert sum(map(len, stream.blocks())) == len(given), seconds
            if seconds > 0.3:
                assert abs(delay(given, audio.decode_int16(data)[0])) <= rate / 8000, (
                    rate,
                    seconds,
                )


@pytest.mark.parametrize("codec", ["opus", "mp3"])
def test_a_clip_of_the_same_length_at_another_place_is_a_fault(codec: _clips.Suffix) -> None:
    """Another delay in its header, which the padding at its end makes up for."""
    given = np.round(corpus.speech(3, 1.3, 16_000).reshape(-1) * 30_000).astype(np.int16)
    encoding = _clips.Encoding(codec, 64_000)
    row: Any = {"num_samples": len(given), "sample_rate": 16_000, "sha256": ""}
    data = bytearray(_clips.encoded(row, lambda _: given, encoding))
    assert _clips.faults(row, "a", bytes(data), encoding) == []
    if codec == "opus":
        place = data.index(b"OpusHead") + 10
        data[place : place + 2] = (312 + 240).to_bytes(2, "little")
        said = "samples"  # of the checksum that is wrong, or of the delay
    else:
        place = data.index(b"LAME") + 21
        both = int.from_bytes(data[place : place + 3], "big")
        moved = both + (100 << 12) - 100
        data[place : place + 3] = moved.to_bytes(3, "big")
        decoded, _ = audio.decode_int16(bytes(data))
        assert (len(decoded), delay(given, decoded)) == (len(given), -100)
        said = "begins after 676 samples, and not 576"
    [fault] = _clips.faults(row, "a", bytes(data), encoding)
    assert said in fault or "decode" in fault


def test_an_opus_file_of_less_than_a_packet_is_filled_up() -> None:
    given = np.full(30, 999, np.int16)
    decoded, rate = audio.decode_int16(audio.write_opus_bytes(given, 16_000))
    assert 30 <= len(decoded) <= rate * audio.OPUS_PACKET / 1e6


@pytest.mark.parametrize(("uses", "codec"), tiers.covering(USES, ["opus", "mp3"]))
def test_a_version_is_verified_and_its_next_one_links_what_stays(
    tmp_path: Path, uses: list[dict[str, Any]], codec: str
) -> None:
    corpus.make(tmp_path / "in", 4)
    formats = [{**use, "audio": codec} for use in uses]
    job = corpus.job(tmp_path, package={"formats": formats, "tar_hours": 2 / 3600})
    first = corpus.run(job)[0]
    assert verify(first.path) == []
    corpus.add(tmp_path / "in", 4)
    second = corpus.run(job)[0]
    assert verify(second.path) == []
    assert clips(second.path) > 4
    for use in uses:
        old, new = (version.path / use["use"] for version in (first, second))
        assert len(heard(new, codec)) == clips(second.path), use
        kept = {path.relative_to(old) for path in old.rglob("*.*")}
        same = [path for path in kept if (new / path).exists()]
        assert any((old / path).samefile(new / path) for path in same), use


def heard(folder: Path, codec: str) -> set[str]:
    """Names of the clips that a format's folder has."""
    if read := random_access.READERS.get(folder.name):
        return {sample["id"] for split in folder.glob("*/") for sample in read(split)}
    if folder.name == "hf_parquet":
        columns = (pq.read_table(part)["audio"] for part in folder.glob("*/*.parquet"))
        return {row["path"] for column in columns for row in column.to_pylist()}
    found = {path.name for path in folder.rglob(f"*.{codec}")}
    for path in folder.rglob("*.tar"):
        with tarfile.open(path) as tar:
            found |= {name for name in tar.getnames() if name.endswith(f".{codec}")}
    return found


def test_another_clip_of_another_length_is_a_fault(tmp_path: Path) -> None:
    use = {"use": "metadata_csv", "profile": "piper", "audio": "opus"}
    [shard] = published.publish(tmp_path, use["use"], [[published.row(0), published.row(1)]], {},
                                profile="piper", audio="opus")  # fmt: skip
    module, settings = plugins.FORMATS.resolve(Plugin.model_validate(use))
    rows: Any = corpus.utterances(tmp_path)
    assert module.check(shard, rows, Output(tmp_path), settings) == []
    path = tmp_path / shard.files[0]
    path.write_bytes(audio.write_opus_bytes(published.pcm(0)[:-40], published.RATE))
    assert "samples at" in module.check(shard, rows, Output(tmp_path), settings)[0]


@pytest.mark.parametrize(
    ("chosen", "rate", "said"),
    [
        ({"use": "webdataset", "audio": "opus"}, 22_050, "no sample rate of 22050 Hz.*8000, 12000"),
        ({"use": "hf_parquet", "audio": "mp3"}, 96_000, "no sample rate of 96000 Hz"),
        ({"use": "emilia", "audio": "mp3"}, 40_000, "no sample rate of 40000 Hz"),
        ({"use": "webdataset", "bit_rate": 32}, 16_000, "bit_rate is for opus and mp3"),
        ({"use": "webdataset", "audio": "mp3", "bit_rate": 32}, 16_000, "less than 64 kbit/s"),
        ({"use": "metadata_csv", "audio": "mp3"}, 16_000, "ljspeech accept WAV only"),
        ({"use": "metadata_csv", "profile": "f5", "audio": "mp3"}, 16_000, "WAV and FLAC only"),
        ({"use": "nemo", "audio": "opus"}, 16_000, "wav"),
    ],
)
def test_what_no_reader_or_codec_takes_is_refused_before_the_run(
    tmp_path: Path, chosen: dict[str, Any], rate: int, said: str
) -> None:
    corpus.make(tmp_path / "in", 1)
    package = {"formats": [chosen]}
    with pytest.raises((ConfigError, ValueError), match=said):
        checks.check_wishes(corpus.wishes(tmp_path, resample={"rate": rate}, package=package))


def test_a_bit_rate_makes_smaller_files(tmp_path: Path) -> None:
    sizes = []
    for rate in (16, 64):
        home = tmp_path / str(rate)
        [shard] = published.publish(
            home, "webdataset", [[published.row(n) for n in range(9)]], audio="opus", bit_rate=rate
        )
        sizes.append((home / shard.path).stat().st_size)
    assert sizes[0] < sizes[1]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # lhotse leaves that to the GC
@pytest.mark.parametrize("codec", ["opus", "mp3"])
def test_lhotse_reads_every_cut_in_full(tmp_path: Path, codec: str) -> None:
    from lhotse import CutSet

    rows = [published.row(n) for n in range(4)]
    published.publish(tmp_path, "lhotse_shar", [rows], audio=codec)
    cuts = [*CutSet.from_shar(in_dir=str(tmp_path / "lhotse_shar" / "train"))]
    assert len(cuts) == len(rows)
    for cut, row in zip(cuts, rows, strict=True):
        assert cut.load_audio().shape == (1, row["num_samples"])
