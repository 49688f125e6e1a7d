"""Music under speech: how often `sounds` finds it, and how often it hears music in clean speech.

    UTTERMILL_CORPUS=… python -m tests.bench.sounds --model DIR [--music DIR] [--clips 200] [--json]

`--model`: folder of an AudioSet model, as the filter takes it. `--music`: folder of more pieces of
music, beside the corpus's one (asterisk-moh-opsound-wav of Debian has five). Clips of speech of the
corpus, in four languages, alone and with a random part of a piece under them, 20 and 10 dB below
the power of the speech without its pauses; noise of the corpus at the same. A limit on
`sounds_music_mean` is right where it drops music and keeps the rest; the corpus's piece may choose
it, and the others tell how it does on what it was not chosen by. Also: what is heard in the
noise and the music alone, and CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from tasks.audio import Clip
from tasks.filters import sounds
from tests.bench.corpus_speech import RATE, Floats, read, transcribed
from tests.bench.verdict_sounds import mixed

MUSIC, NOISES = "moh_manolo_camp.wav", tuple(f"sb_noise{number}.wav" for number in range(1, 6))
SNRS = (20, 10)
LIMITS = (0.005, 0.01, 0.02, 0.05, 0.1)


def part(sound: Floats, count: int, draw: np.random.Generator) -> Floats:
    """A random part of a sound that is not silent, of `count` samples."""
    for _ in range(20):
        first = int(draw.integers(max(len(sound) - count, 1)))
        chosen = np.resize(sound[first : first + count], count)
        if np.sqrt(np.mean(chosen**2)) > 0.3 * np.sqrt(np.mean(sound**2)):
            break
    return np.asarray(chosen, np.float32)


def spoken(corpus: Path, count: int) -> list[tuple[str, Floats]]:
    """(language, samples) of so many clips of 2 s or more, every language in turn."""
    by_language = defaultdict(list)
    for row in transcribed(corpus):
        if 2 <= row["seconds"] <= 30 and row["path"].startswith(f"{row['language']}/"):
            by_language[row["language"]].append(row["path"])
    places = [
        (number / len(paths), language, path)
        for language, paths in by_language.items()
        for number, path in enumerate(paths)
    ]
    chosen = sorted(places)[:: max(len(places) // count, 1)][:count]
    return [(language, read(corpus / path)) for _, language, path in chosen]


def mean_of(samples: Floats, settings: sounds.Settings) -> float:
    given: Any = sounds.measure(Clip.of(samples, RATE), settings)["sounds_music_mean"]
    return float(given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--music", type=Path)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    corpus = Path(os.environ["UTTERMILL_CORPUS"])
    settings = sounds.Settings(model=args.model)
    sounds.check_weights(settings)
    pieces = {MUSIC: read(corpus / "noise" / MUSIC)}
    pieces |= {path.name: read(path) for path in sorted((args.music or Path()).glob("*.wav"))}
    noises = {name: read(corpus / "noise" / name) for name in NOISES}
    speech = spoken(corpus, args.clips)
    draw = np.random.default_rng(0)
    means: dict[str, list[float]] = defaultdict(list)
    began = time.process_time()
    for language, samples in speech:
        mean = mean_of(samples, settings)
        means["clean speech"].append(mean)
        means[f"clean speech, {language}"].append(mean)
    cpu = time.process_time() - began
    for number, (_, samples) in enumerate(speech):
        for kind, every in (("music", pieces), ("noise", noises)):
            name = [*every][number % len(every)]
            under = part(every[name], len(samples), draw)
            for snr in SNRS:
                mean = mean_of(mixed(samples, under, snr), settings)
                means[f"{kind} at {snr} dB"].append(mean)
                if kind == "music":
                    whose = "corpus's piece" if name == MUSIC else "other pieces"
                    means[f"{whose} at {snr} dB"].append(mean)
                    means[f"{name} at {snr} dB"].append(mean)
    shares = {
        kind: {f"{limit:g}": float(np.mean(np.array(values) > limit)) for limit in LIMITS}
        for kind, values in means.items()
    }
    seconds = sum(len(samples) for _, samples in speech) / RATE
    alone = {name: mean_of(sound, settings) for name, sound in (pieces | noises).items()}
    result = {
        "clips": len(speech), "seconds": seconds, "times_real": seconds / cpu,
        "above": shares, "alone": alone,
    }  # fmt: skip
    if args.json:
        print(json.dumps(result))
        return
    print(f"{len(speech)} clips, {seconds:.0f} s, {seconds / cpu:.0f} x real time")
    print(f"{'share of clips with a mean above':44}", *(f"{limit:>7g}" for limit in LIMITS))
    for kind, row in shares.items():
        print(f"{kind:44}", *(f"{100 * share:6.1f}%" for share in row.values()))
    for name, mean in alone.items():
        print(f"{name} alone: {mean:.3f}")


if __name__ == "__main__":
    main()
