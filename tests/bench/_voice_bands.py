"""Effective rates of speech that was resampled, encoded as MP3, or not changed."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import resampy
import samplerate
import soxr
from numpy.typing import NDArray
from scipy import signal

from tests.bench import corpus_speech
from tests.bench._language_sentences import SENTENCES
from tests.bench._voice_errors import Sum, measured
from tests.helpers import timed_speech
from tests.helpers.timed_speech import Line
from uttermill.tasks.audio import open_stream
from uttermill.tasks.filters import effective_rate
from uttermill.tasks.recording import Locator

Wide = NDArray[np.float64]

LANGUAGES = ("en", "de", "fr", "it", "es", "pl", "tr", "ru", "pt", "el")
REAL = ("de/kerstin", "en/ljspeech", "en/librispeech", "zh/aishell")
EACH = 5  # clips of each of them
LONGEST = 12  # s
STEPS = ((8000, 16_000), (8000, 22_050), (8000, 44_100), (16_000, 44_100), (16_000, 48_000),
         (22_050, 48_000))  # fmt: skip
MP3 = ((32, 22_050), (64, 22_050), (32, 44_100), (64, 44_100), (96, 44_100), (128, 44_100))


def _ffmpeg(samples: Wide, old: int, new: int) -> Wide:
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=new)
    frame = av.AudioFrame.from_ndarray(samples.astype(np.float32)[None], "fltp", "mono")
    frame.sample_rate = old
    frames = resampler.resample(frame) + resampler.resample(None)
    return np.concatenate([part.to_ndarray()[0] for part in frames]).astype(np.float64)


def _linear(samples: Wide, old: int, new: int) -> Wide:
    places = np.arange(int(len(samples) * new / old)) * old / new
    return np.asarray(np.interp(places, np.arange(len(samples)), samples))


def _polyphase(samples: Wide, old: int, new: int) -> Wide:
    common = math.gcd(old, new)
    return np.asarray(signal.resample_poly(samples, new // common, old // common))


def _short_sinc(samples: Wide, old: int, new: int) -> Wide:
    """torchaudio's default: a sinc of six zero crossings under a Hann window."""
    common = math.gcd(old, new)
    step, phases = old // common, new // common
    width, cut = 6, min(step, phases) * 0.99
    reach = math.ceil(width * step / cut)
    places = np.arange(-reach, reach + step) / step - (np.arange(phases) / phases)[:, None]
    turns = np.clip(places * cut, -width, width)
    kernels = np.sinc(turns) * np.cos(turns * np.pi / width / 2) ** 2 * cut / step
    padded = np.pad(samples, (reach, reach + step))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + step)[::step]
    return np.asarray((windows @ kernels.T).ravel()[: math.ceil(len(samples) * new / old)])


RESAMPLERS: dict[str, Callable[[Wide, int, int], Wide]] = {
    "soxr HQ": lambda x, old, new: soxr.resample(x, old, new, "HQ"),
    "soxr LQ": lambda x, old, new: soxr.resample(x, old, new, "LQ"),
    "soxr QQ (cubic)": lambda x, old, new: soxr.resample(x, old, new, "QQ"),
    "resampy kaiser_fast": lambda x, old, new: resampy.resample(x, old, new, filter="kaiser_fast"),
    "libsamplerate sinc_fastest": lambda x, old, new: samplerate.resample(
        x, new / old, "sinc_fastest"
    ),
    "FFmpeg": _ffmpeg,
    "SciPy polyphase": _polyphase,
    "SciPy FFT": lambda x, old, new: signal.resample(x, int(len(x) * new / old)),
    "torchaudio's sinc": _short_sinc,
    "linear": _linear,
}


def report(corpus: Path | None) -> Iterator[str]:
    cost = Sum()
    clips = [*_made(), *(_real(corpus) if corpus else ())]
    rates = [_rate(samples, rate, cost) for _, samples, rate in clips]
    as_recorded: dict[str, Counter[float | None]] = {}
    for (name, _, rate), said in zip(clips, rates, strict=True):
        as_recorded.setdefault(f"{name}, recorded at {rate}", Counter())[said] += 1
    right: dict[str, list[bool]] = {}
    wrong: dict[str, Counter[str]] = {}
    for (_, samples, rate), full in zip(clips, rates, strict=True):
        for old, new in STEPS:
            if rate < old or (full or 0) < old:
                continue  # it never had what is to be found
            low = _16_bits(np.asarray(soxr.resample(samples, rate, old, "HQ")))
            for name, resample in RESAMPLERS.items():
                said = _rate(_16_bits(resample(low, old, new)), new, cost)
                for row in (name, f"{old} to {new}"):
                    right.setdefault(row, []).append(said == old)
                if said != old:
                    wrong.setdefault(name, Counter())[f"{old} to {new}: {said:.0f}"] += 1
    yield f"effective_rate: {cost}"
    for row, outcomes in as_recorded.items():
        yield f"  as it is, {row}: {_counts(outcomes)}"
    for row, hits in right.items():
        beside = f"; {_counts(wrong[row])}" if row in wrong else ""
        yield f"  upsampled, {row}: {sum(hits)} of {len(hits)} right{beside}"
    yield from _encoded(clips, cost)


def _encoded(clips: list[tuple[str, Wide, int]], cost: Sum) -> Iterator[str]:
    for kbits, rate in MP3:
        outcomes: Counter[float | None] = Counter()
        for _, samples, recorded in clips:
            if recorded >= 22_050:
                wide = np.asarray(soxr.resample(samples, recorded, rate, "HQ"))
                outcomes[_rate(_mp3(wide, rate, kbits), rate, cost)] += 1
        yield f"  MP3 of {kbits} kbit/s at {rate}: {_counts(outcomes)}"


def _made() -> Iterator[tuple[str, Wide, int]]:
    lines = [
        Line(SENTENCES[name][2][number], SENTENCES[name][0] + variant)
        for name in LANGUAGES
        for number, variant in ((0, ""), (1, "+f2"))
    ]
    for spoken in timed_speech.speak(lines):
        yield "espeak-ng", spoken.samples.astype(np.float64), timed_speech.RATE


def _real(corpus: Path) -> Iterator[tuple[str, Wide, int]]:
    for name in REAL:
        rows = [row for row in corpus_speech.transcribed(corpus) if name in row["path"]]
        for row in rows[:: max(len(rows) // EACH, 1)][:EACH]:
            with open_stream(Locator(str(corpus / row["path"]))) as stream:
                samples = np.concatenate(list(stream.blocks())).mean(axis=1)
                yield name, samples[: LONGEST * stream.rate].astype(np.float64), stream.rate


def _rate(samples: Wide, rate: int, cost: Sum) -> float | None:
    return measured(effective_rate, samples.astype(np.float32), rate, cost)["effective_rate"]


def _16_bits(samples: Wide) -> Wide:
    return np.asarray(np.round(samples * 32768) / 32768)


def _mp3(samples: Wide, rate: int, kbits: int) -> Wide:
    file = io.BytesIO()
    pcm = (np.clip(samples, -1, 1) * 32767).astype(np.int16)
    with av.open(file, "w", format="mp3") as container:
        stream = container.add_stream("libmp3lame", rate=rate, layout="mono")
        stream.bit_rate = kbits * 1000
        stream.codec_context.format = "s16p"
        for start in range(0, len(pcm) - 1152, 1152):
            frame = av.AudioFrame.from_ndarray(pcm[None, start : start + 1152], "s16p", "mono")
            frame.sample_rate, frame.pts = rate, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    file.seek(0)
    with av.open(file, "r") as decoded:
        frames = [frame.to_ndarray().mean(axis=0) for frame in decoded.decode(audio=0)]
    return np.concatenate(frames).astype(np.float64)


def _counts(outcomes: Counter[float | None] | Counter[str]) -> str:
    named = ((name if isinstance(name, str) else f"{name:.0f}" if name else "none", count)
             for name, count in outcomes.most_common())  # fmt: skip
    return ", ".join(f"{name} ({count})" for name, count in named)
