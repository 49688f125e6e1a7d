"""Scores of DNSMOS and DistillMOS on the same clips, degraded in known ways, step by step."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import soundfile as sf
import soxr
from scipy import signal, stats

from tests.bench.corpus_speech import RATE, Floats, read
from tests.bench.sounds import NOISES, part, spoken
from tests.bench.verdict_sounds import mixed
from tests.helpers import rooms
from uttermill.tasks.audio import Clip
from uttermill.tasks.audio.encoding import decode_int16, write_opus_bytes, write_small_mp3_bytes
from uttermill.tasks.filters import distillmos, dnsmos

Way = Callable[[Floats, np.random.Generator], Floats]
CLEAN = "clean"
#: Limits, for a table of the shares that they keep.
LIMITS = {"dnsmos": (2.0, 2.4, 2.7, 3.0), "distillmos": (2.0, 2.5, 3.0, 3.5, 4.0)}
MODELS = tuple(LIMITS)


def ways(noises: list[Floats]) -> dict[str, dict[str, Way]]:
    """The functions that degrade a clip, by kind and step, mildest first."""

    def real(snr: int) -> Way:
        return lambda clip, draw: mixed(
            clip, part(noises[int(draw.integers(len(noises)))], len(clip), draw), snr
        )

    def white(snr: int) -> Way:
        return lambda clip, draw: mixed(clip, draw.standard_normal(len(clip)).astype("f4"), snr)

    def clipped(share: float) -> Way:
        def way(clip: Floats, draw: np.random.Generator) -> Floats:
            top = np.quantile(np.abs(clip), 1 - share)
            return np.clip(clip, -top, top) * np.float32(0.5 / max(top, 1e-6))

        return way

    def low_pass(hertz: int) -> Way:
        filters = signal.butter(10, hertz, "low", fs=RATE, output="sos")
        return lambda clip, draw: signal.sosfilt(filters, clip).astype(np.float32)

    def room(seconds: float) -> Way:
        return lambda clip, draw: np.asarray(
            signal.fftconvolve(clip, rooms.shoebox(seconds, draw))[: len(clip)], np.float32
        )

    return {
        "real noise, dB": {str(snr): real(snr) for snr in (30, 20, 10, 5, 0)},
        "white noise, dB": {str(snr): white(snr) for snr in (30, 20, 10, 5, 0)},
        "clipped samples, %": {f"{100 * s:g}": clipped(s) for s in (0.003, 0.01, 0.03, 0.1, 0.3)},
        "low-pass, Hz": {str(hertz): low_pass(hertz) for hertz in (6000, 4000, 3000, 2000)},
        "Opus, kbit/s": {str(kbits): _opus(kbits) for kbits in (24, 16, 12, 8, 6)},
        "MP3, kbit/s": {str(kbits): _mp3(kbits) for kbits in (64, 32, 24, 16, 8)},
        "8 kHz telephone": {"mu-law": _telephone},
        "reverberation, RT60 s": {f"{s:g}": room(s) for s in (0.25, 0.45, 0.8, 1.3)},
    }


def _pcm(clip: Floats) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return (clip.clip(-1, 1) * 32767).astype(np.int16)


def _opus(kbits: int) -> Way:
    def way(clip: Floats, draw: np.random.Generator) -> Floats:
        decoded, rate = decode_int16(write_opus_bytes(_pcm(clip), RATE, kbits * 1000))
        return np.asarray(soxr.resample(decoded / 32768, rate, RATE), np.float32)

    return way


def _mp3(kbits: int) -> Way:
    def way(clip: Floats, draw: np.random.Generator) -> Floats:
        decoded, rate = sf.read(io.BytesIO(write_small_mp3_bytes(_pcm(clip), RATE, kbits * 1000)))
        return np.asarray(soxr.resample(decoded, rate, RATE), np.float32)

    return way


def _telephone(clip: Floats, draw: np.random.Generator) -> Floats:
    narrow = soxr.resample(clip, RATE, 8000)
    memory = io.BytesIO()
    sf.write(memory, narrow.clip(-1, 1), 8000, "ULAW", format="WAV")
    decoded, _ = sf.read(io.BytesIO(memory.getvalue()))
    return np.asarray(soxr.resample(decoded, 8000, RATE), np.float32)


class Scores:
    """Both models' scores, and their CPU time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu = dict.fromkeys(MODELS, 0.0)

    def of(self, samples: Floats) -> tuple[float, ...]:
        clip = Clip.of(samples, RATE)
        self.seconds += clip.seconds
        scores = []
        for name, column, module in (
            ("dnsmos", "dnsmos_ovrl", dnsmos), ("distillmos", "distillmos", distillmos)
        ):  # fmt: skip
            began = time.process_time()
            score = module.measure(clip, module.Settings())[column]
            self.cpu[name] += time.process_time() - began
            scores.append(np.nan if score is None else score)
        return tuple(scores)


def report(corpus: Path, count: int) -> Iterator[str]:
    clips = [samples for _, samples in spoken(corpus, count, None)]
    noises = [read(corpus / "noise" / name) for name in NOISES]
    scores, draw = Scores(), np.random.default_rng(0)
    scores.of(clips[0])  # the models are loaded
    scores = Scores()
    clean = np.array([scores.of(clip) for clip in clips])
    table = {CLEAN: {"": clean}}
    for kind, steps in ways(noises).items():
        made = {step: [scores.of(way(clip, draw)) for clip in clips] for step, way in steps.items()}
        table[kind] = {step: np.array(rows) for step, rows in made.items()}
    yield f"{len(clips)} clips, {scores.seconds:.0f} s with what was made of them"
    for name, cpu in scores.cpu.items():
        yield f"{name}: {scores.seconds / cpu:.1f} x real time a core"
    yield from _correlations(table)
    yield from _kept(table)


def _correlations(table: Mapping[str, Mapping[str, Floats]]) -> Iterator[str]:
    """Mean rank correlation, over clips, of scores with the steps of each kind, and of both
    models."""
    yield f"\n{'rank correlation with the step':32}" + "".join(f"{name:>12}" for name in MODELS)
    [clean] = table[CLEAN].values()
    for kind, steps in table.items():
        if len(steps) > 1:
            every = np.stack([clean, *steps.values()])  # [steps, clips, models]
            order = -np.arange(len(every))
            rates = [
                np.mean([stats.spearmanr(order, every[:, clip, model])[0]
                         for clip in range(every.shape[1])])
                for model in range(len(MODELS))
            ]  # fmt: skip
            yield f"{kind:32}" + "".join(f"{rate:12.2f}" for rate in rates)
    pairs = {
        "all": np.concatenate([rows for steps in table.values() for rows in steps.values()]),
        **{kind: np.concatenate([*steps.values()]) for kind, steps in table.items()},
    }
    yield f"\n{'both models beside each other':32}" + f"{'Pearson':>12}{'rank':>12}"
    for kind, rows in pairs.items():
        yield f"{kind:32}{np.corrcoef(rows.T)[0, 1]:12.2f}{stats.spearmanr(*rows.T)[0]:12.2f}"


def _kept(table: Mapping[str, Mapping[str, Floats]]) -> Iterator[str]:
    """Mean scores, and the share of clips that each limit keeps, %."""
    heads = [f"{name[:4]}>={limit:g}" for name, limits in LIMITS.items() for limit in limits]
    yield f"\n{'':32}{'DNSMOS':>8}{'Distill':>8}" + "".join(f"{head:>10}" for head in heads)
    for kind, steps in table.items():
        for step, rows in steps.items():
            shares = [
                100 * np.mean(rows[:, model] >= limit)
                for model, name in enumerate(MODELS)
                for limit in LIMITS[name]
            ]
            means = "".join(f"{mean:8.2f}" for mean in rows.mean(axis=0))
            yield f"{f'{kind} {step}':32}{means}" + "".join(f"{share:10.0f}" for share in shares)
