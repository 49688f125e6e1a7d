"""Effects of the enhancers on speech in noise: distance to the clean speech, DNSMOS, word errors.

    UTTERMILL_CORPUS=… python -m tests.bench.enhance [--json] [--clips 4] [--words 8]

Clips of LibriSpeech at 16 kHz, clean and in white noise, babble of six talkers, music and real
noise at 0, 5 and 10 dB over the whole clip, go through the whole step, from the decoded clip to
PCM. ΔSI-SDR is against the clean clip; DNSMOS OVRL is the step's own. Speed is CPU time of one
core: of the enhancer at its own rate, and of the step with resampling in both directions and DNSMOS
before and after. `--words`: this many clips at 5 dB are transcribed by Whisper base with beam 1,
for word errors.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soxr

from tests.helpers.corpus_speech import RATE, Floats, read, transcribed
from tests.helpers.fetched import lacks
from uttermill.tasks import plugins
from uttermill.tasks.asr import SpeechClip
from uttermill.tasks.audio import Clip
from uttermill.tasks.scoring import rates
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.stages import resample
from uttermill.tasks.stages.transcribe import loaded_backend

KINDS = ("white", "babble", "music", "real")
SNRS = (0, 5, 10)
MUSIC, REAL = ("moh_manolo_camp.wav",), tuple(f"sb_noise{n}.wav" for n in range(1, 6))
WAYS = {
    "deepfilter": Plugin.model_validate({"use": "deepfilter", "limit_db": None}),
    "deepfilter, 12 dB": Plugin(use="deepfilter"),
    **(
        {"gtcrn": Plugin.model_validate({"use": "gtcrn", "limit_db": None})}
        if not lacks("gtcrn")
        else {}
    ),
}


def spoken(corpus: Path) -> list[dict[str, Any]]:
    """Rows of LibriSpeech, one of each reader before the second of any."""
    rows = [row for row in transcribed(corpus) if "librispeech" in row["path"]]
    seen: dict[str, int] = {}
    order = []
    for row in rows:
        reader = Path(row["path"]).name.partition("-")[0]
        seen[reader] = seen.get(reader, 0) + 1
        order.append((seen[reader], row["path"]))
    return [row for _, row in sorted(zip(order, rows, strict=True), key=lambda each: each[0])]


class Noises:
    """Noise of every kind as long as a clip, from a seed."""

    def __init__(self, corpus: Path, talkers: list[Floats]) -> None:
        self.talkers = talkers
        self.music = [read(corpus / "noise" / name) for name in MUSIC]
        self.real = [read(corpus / "noise" / name) for name in REAL]

    def of(self, kind: str, count: int, seed: int) -> Floats:
        draw = np.random.default_rng(seed)
        if kind == "white":
            return draw.standard_normal(count).astype(np.float32)
        if kind == "babble":
            some = [self.talkers[n] for n in draw.permutation(len(self.talkers))[:6]]
            voices = [np.resize(voice / np.sqrt(np.mean(voice**2)), count) for voice in some]
            return np.asarray(np.sum(voices, axis=0), np.float32)
        beds = self.music if kind == "music" else self.real
        bed = beds[seed % len(beds)]
        return np.asarray(np.resize(bed[draw.integers(max(len(bed) - count, 1)) :], count))


def mixed(clean: Floats, noise: Floats, snr: float) -> Floats:
    power = np.mean(clean**2) / max(float(np.mean(noise**2)), 1e-12)
    return np.asarray(clean + noise * np.sqrt(power) * 10 ** (-snr / 20), np.float32)


def si_sdr(estimate: Floats, target: Floats) -> float:
    scaled = target * ((estimate @ target) / (target @ target))
    return float(10 * np.log10((scaled @ scaled) / np.sum((estimate - scaled) ** 2)))


def enhanced(samples: Floats, way: Plugin) -> tuple[Floats, dict[str, float | None]]:
    pcm, scores = resample.enhanced_clip(Clip.from_samples(samples, RATE), Job(Path(), enhance=way))
    return pcm.astype(np.float32) / np.float32(32768), dict(scores)


def alone(samples: Floats, way: Plugin) -> float:
    """CPU seconds of the enhancer itself, fed in blocks of a second."""
    module, settings = plugins.ENHANCE.resolve(way)
    given, size = soxr.resample(samples, RATE, module.RATE), module.RATE
    began = time.process_time()
    enhancer = module.start(settings)
    for at in range(0, len(given), size):
        enhancer.push(given[at : at + size])
    enhancer.finish()
    return time.process_time() - began


def cases(clips: list[Floats], noises: Noises) -> Iterator[tuple[str, int | None, Floats, Floats]]:
    """(kind, SNR, clean, noisy) of every clip."""
    for number, clean in enumerate(clips):
        yield "clean", None, clean, clean
        for kind in KINDS:
            for snr in SNRS:
                noise = noises.of(kind, len(clean), 31 * number + snr)
                yield kind, snr, clean, mixed(clean, noise, snr)


def sound(clips: list[Floats], noises: Noises, way: Plugin) -> dict[str, Any]:
    gains: list[tuple[str, int | None, float]] = []
    scores: dict[str, list[tuple[float, float]]] = {"noisy": [], "clean": []}
    kept, seconds, cpu, own, heard = [], 0.0, 0.0, 0.0, 0.0
    enhanced(clips[0][:RATE], way)  # loads the models
    for kind, snr, clean, noisy in cases(clips, noises):
        began = time.process_time()
        made, found = enhanced(noisy, way)
        cpu += time.process_time() - began
        seconds += len(clean) / RATE
        before, after = found["dnsmos_ovrl"] or 0.0, found["dnsmos_ovrl_enhanced"] or 0.0
        scores["clean" if snr is None else "noisy"].append((before, after))
        if snr is None:
            kept.append(si_sdr(made, clean))
            own += alone(clean, way)
            heard += len(clean) / RATE
        else:
            gains.append((kind, snr, si_sdr(made, clean) - si_sdr(noisy, clean)))
    mean = {name: np.mean(pairs, axis=0).round(2).tolist() for name, pairs in scores.items()}
    better = [after > before for pairs in scores.values() for before, after in pairs]
    return {
        "gain_db": {str(n): _mean([g for _, snr, g in gains if snr == n]) for n in SNRS},
        "gain_db_by_kind": {k: _mean([g for kind, _, g in gains if kind == k]) for k in KINDS},
        "ovrl_before_after": mean,
        "better": round(float(np.mean(better)), 3),
        "si_sdr_kept": _mean(kept),
        "x_real_time": {"enhancer": round(heard / own, 1), "step": round(seconds / cpu, 1)},
    }


def _mean(values: list[float]) -> float:
    return round(float(np.mean(values)), 2)


def words(rows: list[dict[str, Any]], clips: list[Floats], noises: Noises) -> dict[str, Any]:
    """Word errors, %, by kind and way, over all clips."""
    plugin = Plugin.model_validate({"use": "faster_whisper", "model": "base", "beam_size": 1})
    whisper = loaded_backend(plugin)
    ways: dict[str, Plugin | None] = {"original": None, **WAYS}
    table: dict[str, dict[str, float]] = {}
    for kind in ("clean", *KINDS):
        for name, way in ways.items():
            wrong = total = 0
            for number, (row, clean) in enumerate(zip(rows, clips, strict=True)):
                noise = noises.of(kind, len(clean), 31 * number + 5) if kind != "clean" else None
                noisy = clean if noise is None else mixed(clean, noise, 5)
                heard = noisy if way is None else enhanced(noisy, way)[0]
                [told] = whisper.transcribe([SpeechClip(heard, "en")])
                score = rates.score(row["text"], told.text or "", "en")
                wrong, total = wrong + score.word_errors, total + score.words
            table.setdefault(kind, {})[name] = round(100 * wrong / total, 1)
    return table


def measured(corpus: Path, count: int, heard: int) -> dict[str, Any]:
    rows = spoken(corpus)
    everyone = [read(corpus / row["path"]) for row in rows[: max(count, heard) + 8]]
    talkers = everyone[max(count, heard) :]
    noises = Noises(corpus, talkers)
    found: dict[str, Any] = {"clips": count, "seconds": sum(map(len, everyone[:count])) / RATE}
    found["ways"] = {name: sound(everyone[:count], noises, way) for name, way in WAYS.items()}
    if heard:
        found["word_errors"] = words(rows[:heard], everyone[:heard], noises)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--words", type=int, default=8)
    args = parser.parse_args()
    found = measured(Path(os.environ["UTTERMILL_CORPUS"]), args.clips, args.words)
    print(json.dumps(found, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
