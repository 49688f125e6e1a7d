"""Music under speech: how often `sounds` finds it, and how often it finds music in clean speech.

    UTTERMILL_CORPUS=… python -m tests.bench.sounds --model DIR [--music DIR] [--sounds DIR]
        [--clips 200] [--half 0] [--json]

`--model`: folder of an AudioSet model, as the filter takes it. `--music`: folder of more pieces of
music, beside the corpus's one, in a folder for each genre (asterisk-moh-opsound-wav of Debian has
five). Clips of speech of the corpus, in four languages, alone and with a random part of a piece
under them, 20 and 10 dB below the power of the speech without its pauses; noise of the corpus at
the same. A limit on `sounds_music_mean` is right where it drops music and keeps the rest; the
corpus's piece may choose it, and the others tell how it does on what it was not chosen by. `s>`,
`e>`: the same of `music_share` and `music_evidence`, and of `EITHER` limit; and how far
`music_level` is off. Speech alone is heard in rooms too, which make a model unsure. `--half`: every
other piece and reader, 0 or 1, so that a limit can be chosen by one half and tried on the other.
Also: results for the noise and the music alone, and CPU time of both filters.

`--sounds`: folder of folders of recordings, each named by the group of `sounds` that it holds, and
more behind an underscore: `singing_choir`. At each threshold: the share of the time in which each
group is heard, and the recordings in which their own is heard for a tenth of the time or more; the
clean speech beside them.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import signal

from tests.bench import _sound_kinds
from tests.bench.corpus_speech import RATE, Floats, read, transcribed
from tests.bench.verdict_sounds import levelled, mixed
from tests.helpers import rooms
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import music, sounds

MUSIC, NOISES = "moh_manolo_camp.wav", tuple(f"sb_noise{number}.wav" for number in range(1, 6))
OTHERS = "other pieces"  # than the corpus's
SNRS = (20, 10)
LIMITS = (0.002, 0.005, 0.01, 0.02, 0.05)
SHARES = (0.0, 0.1, 0.2)
EVIDENCE = (0.045, 0.05, 0.057, 0.07, 0.1)
EITHER = (0.05, 0.1)  # limits on evidence and on the share, both of which a clip must keep
KINDS = ("mean", "", LIMITS), ("share", "s>", SHARES), ("evidence", "e>", EVIDENCE)
ROOMS = (0.35, 0.6, 0.9)  # RT60, s


class Heard(NamedTuple):
    """Mean probability and share of music, evidence of it, and its level."""

    mean: float
    share: float
    evidence: float
    level: float | None


def part(sound: Floats, count: int, draw: np.random.Generator) -> Floats:
    """A random part of a sound that is not silent, of `count` samples."""
    for _ in range(20):
        first = int(draw.integers(max(len(sound) - count, 1)))
        chosen = np.resize(sound[first : first + count], count)
        if np.sqrt(np.mean(chosen**2)) > 0.3 * np.sqrt(np.mean(sound**2)):
            break
    return np.asarray(chosen, np.float32)


def spoken(corpus: Path, count: int, half: int | None) -> list[tuple[str, Floats]]:
    """(language, samples) of so many clips of 2 s or more, every language in turn; `half`: of every
    other reader, where a language has several."""
    readers = defaultdict(set)
    for row in transcribed(corpus):
        readers[row["language"]].add(str(row["speaker"]))
    of_half = {
        (language, name)
        for language, names in readers.items()
        for number, name in enumerate(sorted(names))
        if half is None or len(names) == 1 or number % 2 == half
    }
    by_language = defaultdict(list)
    for row in transcribed(corpus):
        if (row["language"], str(row["speaker"])) not in of_half:
            continue
        if 2 <= row["seconds"] <= 30 and row["path"].startswith(f"{row['language']}/"):
            by_language[row["language"]].append(row["path"])
    places = [
        (number / len(paths), language, path)
        for language, paths in by_language.items()
        for number, path in enumerate(paths)
    ]
    chosen = sorted(places)[:: max(len(places) // count, 1)][:count]
    return [(language, read(corpus / path)) for _, language, path in chosen]


def heard(samples: Floats, model: str) -> Heard:
    clip = Clip.of(samples, RATE)
    mean: Any = sounds.measure(clip, sounds.Settings(model=model))["sounds_music_mean"]
    measures = music.measure(clip, music.Settings(model=model))
    share, evidence = (float(measures[f"music_{n}"] or 0.0) for n in ("share", "evidence"))
    return Heard(float(mean), share, evidence, measures["music_level"])


def above(values: list[Heard]) -> dict[str, float]:
    """Share of clips above each limit, and above either limit of `EITHER`."""
    single = {
        f"{head}{limit:g}": float(np.mean([getattr(one, name) > limit for one in values]))
        for name, head, limits in KINDS
        for limit in limits
    }
    evidence, share = EITHER
    either = [one.evidence > evidence or one.share > share for one in values]
    return {**single, "either": float(np.mean(either))}


def levels(values: list[Heard], snr: int) -> str:
    errors = [abs(one.level + snr) for one in values if one.level is not None]
    found = f"{len(errors)} of {len(values)} clips have a level"
    if not errors:
        return found
    return f"{found}, off by {np.mean(errors):.1f} dB; 95 %: {np.quantile(errors, 0.95):.1f}"


def pieces_of(corpus: Path, more: Path | None, half: int | None) -> dict[str, tuple[str, Floats]]:
    """Pieces of music by name, each with its genre: its folder, or itself where it lies in none."""
    pieces = {MUSIC: (MUSIC, read(corpus / "noise" / MUSIC))}
    for path in sorted(path for path in (more.rglob("*") if more else ()) if path.is_file()):
        genre = path.name if path.parent == more else path.parent.name
        pieces[str(path)] = (genre, read(path))
    return dict([*pieces.items()][half or 0 :: 1 if half is None else 2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--music", type=Path)
    parser.add_argument("--sounds", type=Path)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    corpus = Path(os.environ["UTTERMILL_CORPUS"])
    sounds.check_weights(sounds.Settings(model=args.model))
    pieces = pieces_of(corpus, args.music, args.half)
    noises = {name: ("noise", read(corpus / "noise" / name)) for name in NOISES}
    speech = spoken(corpus, args.clips, args.half)
    clips = [samples for _, samples in speech]
    costs = _sound_kinds.costs(clips, args.model)
    draw = np.random.default_rng(0)
    means: dict[str, list[Heard]] = defaultdict(list)
    for language, samples in speech:
        mean = heard(samples, args.model)
        means["clean speech"].append(mean)
        means[f"clean speech, {language}"].append(mean)
    responses = [rooms.shoebox(seconds, draw) for seconds in ROOMS]
    for number, samples in enumerate(clips):
        far = signal.fftconvolve(samples, responses[number % len(responses)])[: len(samples)]
        means["speech in rooms"].append(heard(levelled(far), args.model))
        for kind, every in (("music", pieces), ("noise", noises)):
            name = [*every][number % len(every)]
            genre, sound = every[name]
            under = part(sound, len(samples), draw)
            rows = {kind, genre} | ({OTHERS} if kind == "music" and name != MUSIC else set())
            for snr in SNRS:
                mean = heard(mixed(samples, under, snr), args.model)
                for row in sorted(rows):
                    means[f"{row} at {snr} dB"].append(mean)
    shares = {kind: above(values) for kind, values in means.items()}
    told = {snr: levels(means[f"music at {snr} dB"], snr) for snr in SNRS}
    seconds = sum(len(samples) for _, samples in speech) / RATE
    alone = defaultdict(list)
    for genre, sound in (pieces | noises).values():
        alone[genre].append(heard(sound, args.model).mean)
    kinds = _sound_kinds.kinds(args.sounds, clips, args.model) if args.sounds else {}
    result = {
        "clips": len(speech), "seconds": seconds, "cpu_seconds_an_hour": costs,
        "above": shares, "alone": alone, "levels": told, "kinds": kinds,
    }  # fmt: skip
    if args.json:
        print(json.dumps(result))
        return
    print(f"{len(speech)} clips, {seconds:.0f} s; {len(pieces)} pieces of music")
    print("CPU s an hour:", ", ".join(f"{name} {cost:.1f}" for name, cost in costs.items()))
    limits = next(iter(shares.values()))
    print(f"{'share of clips with a mean above':44}", *(f"{limit:>7}" for limit in limits))
    for kind, by_limit in shares.items():
        shown = f"{kind} ({len(means[kind])})"
        print(f"{shown:44}", *(f"{100 * share:6.1f}%" for share in by_limit.values()))
    for snr, sentence in told.items():
        print(f"music at {snr} dB: {sentence}")
    for genre, every_mean in alone.items():
        print(f"{genre} alone: {np.mean(every_mean):.3f}")
    for line in _sound_kinds.lines(kinds):
        print(line)


if __name__ == "__main__":
    main()
