"""The mix of more than two channels follows their layout, as FFmpeg's does."""

import struct
import zlib
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.helpers.tiers import nightly
from uttermill.tasks import audio
from uttermill.tasks.audio import Clip, channels
from uttermill.tasks.audio.channels import Heard, Listened, mean
from uttermill.tasks.audio.damage.ogg_pages import opus_samples
from uttermill.tasks.audio.frames import PartConverter
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.filters import loudness
from uttermill.tasks.plugins import loading
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.faults import Fault
from uttermill.tasks.segmenters import KnownSpans, Span
from uttermill.tasks.settings import ResampleSettings
from uttermill.tasks.stages import cutting, pcm

Samples = NDArray[np.float32]
RATE = 48_000
PLACES_51 = ("FL", "FR", "FC", "LFE", "BL", "BR")
WEIGHTS_51 = channels.weights_at(PLACES_51)


def by_swresample(layout: str) -> list[float]:
    """What swresample mixes to one channel from an impulse in each channel of a layout; integers,
    for which it keeps the sum of all weights at 1."""
    count = av.AudioLayout(layout).nb_channels
    impulses = np.eye(count, dtype=np.int32).reshape(1, -1) << 29
    frame = av.AudioFrame.from_ndarray(impulses, "s32", layout)
    frame.sample_rate = RATE
    resampler = av.AudioResampler(format="s32", layout="mono", rate=RATE)
    mixed = [*resampler.resample(frame), *resampler.resample(None)]
    return [float(value) / 2**29 for part in mixed for value in part.to_ndarray()[0]]


@pytest.mark.parametrize(
    "layout",
    ["2.1", "3.0", "3.0(back)", "3.1", "quad", "quad(side)", "4.0", "4.1", "5.0", "5.0(side)",
     "5.1", "5.1(side)", "6.0", "6.0(front)", "6.1", "6.1(back)", "hexagonal", "7.0", "7.1",
     "7.1(wide)", "octagonal"],
)  # fmt: skip
def test_weights_are_those_of_swresample(layout: str) -> None:
    found = channels.weights_of(av.AudioLayout(layout))
    assert found == pytest.approx(by_swresample(layout), abs=1e-6)


@pytest.mark.parametrize("places", [(), ("FC",), ("FL", "FR"), ("FL", "FR", "UNK"), ("LFE",) * 3])
def test_the_plain_mean_stays_where_there_is_no_layout_to_follow(places: tuple[str, ...]) -> None:
    assert channels.weights_at(places) is None


def speech_in_the_centre(count: int, centre: int, loud: int) -> Samples:
    """A tone of 440 Hz in one channel, and a loud one of 50 Hz in another, the LFE."""
    at = np.arange(2 * RATE) / RATE
    samples = np.zeros((len(at), count), np.float32)
    samples[:, centre] = 0.2 * np.sin(2 * np.pi * 440 * at)
    samples[:, loud] = 0.8 * np.sin(2 * np.pi * 50 * at)
    return samples


def encoded(path: Path, samples: Samples, codec: str, layout: str = "5.1") -> Locator:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=RATE, layout=layout)
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(samples.reshape(1, -1)), "flt", layout
        )
        frame.sample_rate = RATE
        context = stream.codec_context
        context.open(strict=False)
        resampler = av.AudioResampler(
            context.format, layout, RATE, frame_size=context.frame_size or 4096
        )
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return Locator(str(path))


def power(mono: Samples, hertz: float) -> float:
    """Amplitude of a tone in the middle of a mono signal."""
    middle = mono[RATE // 2 : RATE // 2 + RATE].astype(np.float64)
    turning = np.exp(-2j * np.pi * hertz * np.arange(len(middle)) / RATE)
    return float(2 * np.abs(np.dot(middle, turning)) / len(middle))


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.wav", "pcm_s16le"), ("a.flac", "flac"), ("a.m4a", "aac"), ("a.mkv", "ac3"),
     ("a.opus", "libopus"), ("a.caf", "pcm_s16le"), nightly("a.w64", "pcm_s16le"),
     nightly("a.mkv", "aac"), nightly("a.ts", "aac"), nightly("a.webm", "libopus"),
     nightly("a.mov", "pcm_s16le"), nightly("a.aiff", "pcm_s16be")],
)  # fmt: skip
def test_speech_in_the_centre_is_louder_in_the_mix_than_a_mean_makes_it(
    tmp_path: Path, name: str, codec: str
) -> None:
    locator = encoded(tmp_path / name, speech_in_the_centre(6, 2, 3), codec)
    with audio.open_stream(locator) as stream:
        assert stream.channels == 6
        assert sorted(stream.weights or ()) == pytest.approx(sorted(WEIGHTS_51 or ()))
    [(_, clip)] = cutting.spans(
        locator, cutting.StreamFacts(), lambda rate, at: KnownSpans([Span(0, 2 * RATE)], at)
    )
    assert clip is not None
    made = pcm.of_clip(clip, ResampleSettings(rate=RATE)).astype(np.float32) / np.float32(2**15)
    assert power(made, 440) == pytest.approx(0.2 / 3.4142, rel=0.1)
    assert power(made, 50) < 0.01
    heard = audio.read_mix(locator, 0, 2 * RATE)
    assert np.abs(heard - made).max() < 1e-4


@pytest.mark.parametrize("kind", ["WAV", "AIFF", "CAF"])
def test_channels_without_places_are_mixed_as_their_mean(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "array.wav"
    sf.write(path, speech_in_the_centre(6, 2, 3), RATE, format=kind)
    with audio.open_stream(Locator(str(path))) as stream:
        assert stream.weights is None


def test_a_mask_of_zero_gives_no_places(tmp_path: Path) -> None:
    path = tmp_path / "array.wav"
    sf.write(path, speech_in_the_centre(6, 2, 3), RATE, format="WAVEX")
    assert audio.probe(Locator(str(path))).weights == pytest.approx(WEIGHTS_51)
    data = bytearray(path.read_bytes())
    data[40:44] = bytes(4)
    path.write_bytes(data)
    assert audio.probe(Locator(str(path))).weights is None


def test_an_unusual_order_is_followed() -> None:
    assert channels.custom("3 channels (FC+FL+FR)") == ("FC", "FL", "FR")
    assert channels.custom("5.1(side)") == channels.custom("6 channels") == ()
    assert channels.weights_at(("FC", "FL", "FR")) == pytest.approx(
        (0.41421, 0.29289, 0.29289), 1e-4
    )


def test_a_mix_does_not_depend_on_blocks_and_stereo_is_as_before() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, (50_000, 6)).astype(np.float32)
    whole = mean(noise, weights=WEIGHTS_51)
    parts = [mean(noise[at : at + 777], weights=WEIGHTS_51) for at in range(0, 50_000, 777)]
    assert np.array_equal(whole, np.concatenate(parts))
    blocks = [noise[at : at + 777] for at in range(0, 50_000, 777)]
    listened = np.concatenate(list(Listened(WEIGHTS_51).process(blocks)))
    assert np.array_equal(listened[:, 0], whole)
    assert all(a is b for a, b in zip(Listened(None).process(blocks), blocks, strict=True))


def test_channels_that_cancel_are_heard_and_refused_by_weight() -> None:
    at = np.arange(RATE) / RATE
    tone = (0.2 * np.sin(2 * np.pi * 440 * at)).astype(np.float32)
    samples = np.zeros((RATE, 6), np.float32)
    samples[:, 0], samples[:, 1] = tone, -tone
    samples[:, 3] = 0.9  # the LFE has no part in it
    ear = Heard(weights=WEIGHTS_51)
    heard = np.concatenate([ear.push(samples), ear.finish()])
    assert np.array_equal(np.abs(heard), np.abs(tone))
    clip = Clip.of_pieces([samples], RATE, WEIGHTS_51)
    with pytest.raises(ItemError, match="channels_cancel"):
        pcm.of_clip(clip, ResampleSettings(rate=RATE))
    assert pcm.of_clip(clip, ResampleSettings(rate=RATE, mono="first")).any()


def test_a_part_with_a_layout_is_mixed_by_it() -> None:
    block = speech_in_the_centre(6, 2, 3)
    converter = PartConverter(RATE, 6, RATE, 2, WEIGHTS_51)
    joined = np.concatenate(list(converter.push(block)))
    assert joined.shape == (len(block), 2)
    assert power(joined[:, 1], 440) == pytest.approx(0.2 / 3.4142, rel=0.01)


@pytest.mark.parametrize("level", [0.0, 0.3, -0.9])
@pytest.mark.parametrize("use", ["clipping", "peak", "rms", "dc_offset", "dead_channel",
                                 "channels_identical", "silence", "loudness"])  # fmt: skip
def test_what_does_not_go_into_the_mix_is_not_judged(use: str, level: float) -> None:
    speech = np.random.default_rng(1).normal(0, 0.05, (RATE, 6)).astype(np.float32)
    speech[RATE // 2 :] = 0
    lfe = speech.copy()
    speech[:, 3], lfe[:, 3] = 0, level
    lfe[RATE // 4 : RATE // 3, 3] = -level
    five = WEIGHTS_51 and (*WEIGHTS_51[:3], *WEIGHTS_51[4:])
    module = loading.module("filters", use)
    of = [
        module.measure(Clip.of_pieces([samples], RATE, weights), module.Settings())
        for samples, weights in ((np.delete(speech, 3, axis=1), five), (lfe, WEIGHTS_51))
    ]
    assert of[0] == of[1]


def test_loudness_follows_the_places_of_channels_and_not_their_number() -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, (2 * RATE, 6)).astype(np.float32)
    order = [0, 2, 1, 4, 5, 3]  # of Vorbis: FL FC FR BL BR LFE
    weights = [(WEIGHTS_51 or ())[channel] for channel in order]
    by_wav, by_vorbis = (
        loudness.measure(Clip.of_pieces([samples], RATE, tuple(of)), loudness.Settings())[
            "loudness"
        ]
        for samples, of in ((noise, WEIGHTS_51 or ()), (noise[:, order], weights))
    )
    assert by_vorbis == pytest.approx(by_wav)


# Calls as WebRTC recorders write them: pauses of the sender (DTX) are silence, lost packets are
# damage, and both keep their time.


FRAME, SKIP = 960, 312
SECONDS = 6
QUIET = range(100, 200)  # frames of 20 ms in which the sender pauses
Numbered = list[tuple[int, bytes]]


@cache
def packets() -> list[bytes]:
    """Opus packets of 20 ms: a tone over noise, but noise alone in QUIET."""
    codec: Any = av.CodecContext.create("libopus", "w")
    codec.sample_rate, codec.layout, codec.format = RATE, "mono", "s16"
    codec.time_base, codec.bit_rate = Fraction(1, RATE), 24_000
    codec.options = {"application": "voip"}
    at = np.arange(SECONDS * RATE)
    loud = ~np.isin(at // FRAME, QUIET)
    noise = np.random.default_rng(3).normal(0, 0.01, len(at))
    samples = (32767 * (noise + 0.3 * loud * np.sin(2 * np.pi * 300 * at / RATE))).astype(np.int16)
    made: list[bytes] = []
    for start in range(0, len(samples), FRAME):
        frame = av.AudioFrame.from_ndarray(samples[None, start : start + FRAME], "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
        made += [bytes(packet) for packet in codec.encode(frame)]
    return [*made, *(bytes(packet) for packet in codec.encode(None))]


def paused() -> Numbered:
    """What WebRTC sends: in a pause a packet of comfort noise every 400 ms, then its bare TOC."""
    sent: Numbered = []
    for number, packet in enumerate(packets()):
        place = (number - QUIET.start) % 20
        if number not in QUIET or place == 0:
            sent.append((number, packet))
        elif place == 1:
            sent.append((number, bytes([packet[0] & 0xFC])))
    return sent


def lost() -> Numbered:
    return [(number, packet) for number, packet in enumerate(packets()) if not 60 <= number < 70]


def page(number: int, flags: int, granule: int, held: list[bytes]) -> bytes:
    lacing = b"".join(b"\xff" * (len(one) // 255) + bytes([len(one) % 255]) for one in held)
    fields = struct.pack("<qIII", granule, 7, number, 0)
    made = b"OggS\0" + bytes([flags]) + fields + bytes([len(lacing)]) + lacing + b"".join(held)
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in made)
    crc = zlib.crc32(mirrored, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return made[:22] + struct.pack("<I", int(f"{crc:032b}"[::-1], 2)) + made[26:]


def ogg(sent: Numbered, path: Path, a_page: int) -> None:
    head = b"OpusHead\x01\x01" + struct.pack("<HIhB", SKIP, RATE, 0, 0)
    tags = b"OpusTags" + struct.pack("<I", 0) + struct.pack("<I", 0)
    made = [page(0, 2, 0, [head]), page(1, 0, 0, [tags])]
    for start in range(0, len(sent), a_page):
        part = sent[start : start + a_page]
        ends = 4 * (start + a_page >= len(sent))
        granule = (part[-1][0] + 1) * FRAME
        made.append(page(len(made), ends, granule, [one for _, one in part]))
    path.write_bytes(b"".join(made))


def matroska(sent: Numbered, path: Path, kind: str) -> None:
    with av.open(str(path), "w", format=kind) as container:
        stream = container.add_stream("libopus", rate=RATE, layout="mono")
        for number, one in sent:
            packet = av.Packet(one)
            packet.stream, packet.time_base = stream, Fraction(1, RATE)
            packet.pts = packet.dts = number * FRAME
            packet.duration = FRAME
            container.mux(packet)


def written(sent: Numbered, path: Path, kind: str) -> Locator:
    if kind.startswith("ogg of"):
        ogg(sent, path, int(kind.rpartition(" ")[2]))
    else:
        matroska(sent, path, kind)
    return Locator(str(path))


def heard(locator: Locator) -> tuple[Samples, list[Fault]]:
    with audio.open_stream(locator) as stream:
        samples = np.concatenate(list(stream.blocks()))[:, 0]
        return samples, stream.faults


def loud(samples: Samples) -> list[bool]:
    """Of each frame, whether the tone is in it."""
    whole = samples[: len(samples) - len(samples) % FRAME].reshape(-1, FRAME)
    return [bool(level > 0.01) for level in np.square(whole).mean(axis=1)]


KINDS = ["webm", "matroska", "ogg", "ogg of 1", "ogg of 5", "ogg of 50"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_sender_leaves_out_is_silence(tmp_path: Path, kind: str) -> None:
    samples, faults = heard(written(paused(), tmp_path / "a.bin", kind))
    assert faults == []
    assert len(samples) == pytest.approx(SECONDS * RATE, abs=2 * FRAME)
    expected = [number not in QUIET for number in range(SECONDS * 50)]
    wrong = [n for n, (a, b) in enumerate(zip(loud(samples), expected, strict=False)) if a != b]
    # Of several packets in a page, only the sum of the pauses is known.
    assert len(wrong) <= (3 if kind in KINDS[:2] or kind == "ogg of 1" else 20)


@pytest.mark.parametrize("kind", KINDS)
def test_packets_that_are_lost_are_damage(tmp_path: Path, kind: str) -> None:
    samples, faults = heard(written(lost(), tmp_path / "a.bin", kind))
    assert len(samples) == pytest.approx(SECONDS * RATE, abs=2 * FRAME)
    [fault] = faults
    assert fault.end - fault.start >= 10 * FRAME
    assert not fault.shifts
    if kind in KINDS[:2] or kind == "ogg of 1":
        assert fault.start == pytest.approx(60 * FRAME - SKIP, abs=10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_without_pauses_is_read_as_before(tmp_path: Path, kind: str) -> None:
    locator = written(list(enumerate(packets())), tmp_path / "a.bin", kind)
    samples, faults = heard(locator)
    assert faults == []
    assert len(samples) == pytest.approx(SECONDS * RATE, abs=2 * FRAME)
    decoder = audio.probe(locator).decoder
    assert decoder == ("soundfile" if kind.startswith("ogg") else "av")


def test_a_recorder_that_stops_in_silence_pauses(tmp_path: Path) -> None:
    silent = b"\xf8\xff\xfe"  # as Discord ends what it sends
    sent = [(n, silent if 95 <= n < 100 else one) for n, one in enumerate(packets())]
    kept = [(n, one) for n, one in sent if n not in QUIET]
    _, faults = heard(written(kept, tmp_path / "a.webm", "webm"))
    assert faults == []


@pytest.mark.parametrize(
    ("packet", "samples"),
    [(b"", 0), (b"\x08", 960), (b"\x18", 2880), (b"\x60", 480), (b"\x78", 960), (b"\xf8", 960),
     (b"\xe0", 120), (b"\xf9", 1920), (b"\xfb\x03", 2880), (b"\xfb\x83", 2880)],
)  # fmt: skip
def test_length_of_an_opus_packet(packet: bytes, samples: int) -> None:
    assert opus_samples(packet) == samples
