"""Errors of the diarizer `segments` on conversations with an exact ground truth.

    UTTERMILL_CORPUS=… python -m tests.bench.speakers [--json] [--count 18] [--long MINUTES]
    UTTERMILL_CORPUS=… python -m tests.bench.speakers --meetings [--count 5] [--hop S] [--json]

Conversations of 2 to 6 of the corpus's 137 readers, 10 s to 4 min, with 0 to 20 % overlap, noise at
10 dB, and music between turns (`conversations.py`); one of `--long` minutes, without noise. DER is
NIST's with 0.25 s on each side of a boundary (`turn_scores.py`). Pieces are the stretches of one
speaker that recordings are cut at by default, of 1 s and more; the guard leaves out pieces whose
halves' cosine (`speaker_purity`) is below 0.3. The number of speakers is compared with all who
utter a sound, and with those who speak 0.5 s or more alone: who speaks only while others do has no
voice of their own to be found. EER: pairs of clips of the corpus's speakers, 2 s and 4 s from the
middle of each; across recordings: those clips as recordings (`across`). Meetings (`_meetings.py`)
are two minutes of four people, near the microphone and far from it: what other voices are in the
clips that are cut from them, by the limit on a second voice, and how much of what one speaks alone
is in them. Speed is CPU time of one core, decoding not included; memory is what the process grows
by over the long conversation.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soxr
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tests.bench import _meetings
from tests.helpers import conversations, turn_scores
from tests.helpers.conversations import Asked, Conversation, Floats
from tests.helpers.sounding import by_ffmpeg
from uttermill.tasks import audio
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.diarizers import Turn, segments
from uttermill.tasks.filters import speaker_purity
from uttermill.tasks.publish.corpus import identities
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.turns import Voices
from uttermill.tasks.segmenters._at_turns import stretches
from uttermill.tasks.speech import embedding
from uttermill.tasks.speech.embedding import fbank

BEDS = ("sb_noise1.wav", "sb_noise2.wav", "sb_noise3.wav", "moh_manolo_camp.wav")
FIRST_SEED = 100  # the settings were chosen on other ones
GUARD = 0.3
AUDIBLE_S = 0.5  # that somebody speaks alone in all, to be one who can be counted
ALONE_S = 2.0  # the same, for `count_right_alone`: others may be found or not
LIMITS = (1.0, 0.2, 0.15, 0.1)  # on a second voice; 1: none
LEAST_S = 2.0  # of a clip whose voice is linked over all recordings
MEETING_S = 120.0
BLOCK = 65_536
EDGE = round(segments.Settings().edge_seconds * RATE)
SECOND = segments.Settings().max_second_voice or 1.0


def asked(count: int) -> Iterator[Asked]:
    """Wishes, cycling through lengths, speakers, overlap, noise and music."""
    lengths, overlaps = (10, 30, 60, 90, 120, 180, 240), (0.0, 0.1, 0.05, 0.2)
    for i in range(count):
        seconds = lengths[i % len(lengths)]
        speakers = 2 + i % (5 if seconds >= 120 else 2)
        snr = 10.0 if i % 3 == 2 else None
        yield Asked(speakers, seconds, overlaps[i % 4], snr, i % 5 == 4, FIRST_SEED + i)


def diarized(
    samples: Floats, settings: segments.Settings | None = None
) -> tuple[tuple[Turn, ...], float]:
    """Turns at 16 kHz, and the CPU seconds that they took."""
    began = time.process_time()
    diarizer = segments.start(settings or segments.Settings(), RATE, ())
    for at in range(0, len(samples), BLOCK):
        diarizer.push(samples[at : at + BLOCK, None])
    return diarizer.finish(), time.process_time() - began


def pieces(made: Conversation, turns: tuple[Turn, ...]) -> dict[str, NDArray[np.float64]]:
    """Frames of true speech in pieces of one speaker: [of the piece's voice, of others], of all
    pieces and of those that the guard lets through."""
    kept = stretches(Voices(turns, RATE, edge=EDGE, second=SECOND), RATE).kept
    found = {"all": np.zeros(2), "guarded": np.zeros(2)}
    for piece in kept:
        low, high = piece.start // 160, min(piece.end // 160, len(made.truth))
        spoken = made.truth[low:high].sum(axis=0)
        counts = np.array([spoken.max(initial=0), spoken.sum() - spoken.max(initial=0)], float)
        found["all"] += counts
        clip = Clip.from_samples(made.samples[piece.start : piece.end], RATE)
        [pure] = speaker_purity.measure(clip, speaker_purity.Settings()).values()
        if pure is not None and pure >= GUARD:
            found["guarded"] += counts
    return found


def meetings(corpus: Path, count: int, hop: float) -> dict[str, Any]:
    """By room: DER, and for each limit on a second voice the shares of speaker time that other
    voices have in the clips, alone and over the clip's own; the clips; and how much of the time in
    which one speaks alone is in them."""
    voices_of = conversations.load(corpus)
    settings = segments.Settings(hop_seconds=hop)
    shortest = round(settings.min_turn_seconds * RATE)
    told: dict[str, Any] = {}
    for name, room in (("near", _meetings.NEAR), ("far", _meetings.FAR)):
        errors, alone = np.zeros(2), 0
        counts = {limit: np.zeros(4) for limit in LIMITS}
        for seed in range(count):
            made = _meetings.made(FIRST_SEED + seed, MEETING_S, room, voices_of)
            turns, _ = diarized(made.samples, settings)
            found = turn_scores.frames_of(turns, RATE, len(made.truth))
            wrong = turn_scores.errors(made.truth, found)
            errors += wrong.missed + wrong.false + wrong.confused, wrong.speech
            alone += int((made.truth.sum(axis=1) == 1).sum())
            for limit, sums in counts.items():
                sums += _other_voices(made, Voices(turns, shortest, edge=EDGE, second=limit))
        told[name] = {"der": errors[0] / errors[1], "limits": {
            str(limit): {
                "alone": sums[1] / sums[:3].sum(), "over": sums[2] / sums[:3].sum(),
                "kept": sums[0] / alone, "clips": int(sums[3]),
            }
            for limit, sums in counts.items()
        }}  # fmt: skip
    return told


def _other_voices(made: Conversation, cut: Voices) -> NDArray[np.float64]:
    """Frames of each clip's own voice, of others alone and over it; and the clips."""
    counts = np.zeros(4)
    for piece in stretches(cut, RATE).kept:
        truth = made.truth[piece.start // 160 : piece.end // 160]
        mine = truth.sum(axis=0).argmax()
        others = truth.sum(axis=1) - truth[:, mine]
        own = truth[:, mine]
        counts += own.sum(), others[~own].sum(), others[own].sum(), 1
    return counts


def error_rate(corpus: Path, seconds: float) -> tuple[float, int]:
    """Equal error rate over all pairs of clips of speakers with several, and how many clips."""
    size = int(seconds * RATE)
    vectors, names = [], []
    for speaker, clips in conversations.clips(corpus).items():
        for clip in [each for each in clips if len(each) >= size][:12]:
            start = (len(clip) - size) // 2
            vectors.append(embedding.embed(fbank(clip[start : start + size])))
            names.append(speaker)
    near = np.array(vectors) @ np.array(vectors).T
    same = np.array([[a == b for b in names] for a in names])
    upper = np.triu(np.ones_like(same), 1).astype(bool)
    own, other = np.sort(near[same & upper]), np.sort(near[~same & upper])
    limits = np.concatenate([own, other])
    missed = np.searchsorted(own, limits) / len(own)
    false = 1 - np.searchsorted(other, limits) / len(other)
    return float(np.maximum(missed, false).min()), len(names)


#: What one person's recordings alternate between: FFmpeg's container, codec and rate; None: as
#: they are.
CODECS: dict[str, tuple[tuple[str, str, int] | None, ...]] = {
    "": (None,),
    "_m4a_mp3": (("ipod", "aac", 44_100), ("mp3", "libmp3lame", 44_100)),
    "_opus_telephone": (("ogg", "libopus", 48_000), ("wav", "pcm_mulaw", 8_000), None),
}


def through(samples: Floats, way: tuple[str, str, int] | None) -> Floats:
    """Samples at 16 kHz as they come out of a codec."""
    if way is None:
        return samples
    container, codec, rate = way
    resampled = soxr.resample(samples, RATE, rate).clip(-1, 1)[:, None]
    with tempfile.NamedTemporaryFile(suffix=f".{container}") as file:
        file.write(by_ffmpeg(container, codec, rate, resampled))
        file.flush()
        with audio.open_stream(Locator(file.name)) as stream:
            decoded = np.concatenate([block[:, 0] for block in stream.blocks()])
            back: Floats = soxr.resample(decoded, stream.rate, RATE).astype(np.float32)
    return back


def across(corpus: Path, ways: tuple[tuple[str, str, int] | None, ...]) -> dict[str, Any]:
    """Each clip of 2 s and more of the corpus's speakers as a recording: its voices, linked over
    all recordings, where each person's clips alternate between `ways`. Purity and coverage (of each
    speaker found the true speaker with most of it, and the other way round) by how long they
    speak."""
    rows, names = [], []
    for speaker, clips in conversations.clips(corpus).items():
        for number, clip in enumerate(clips):
            if len(clip) >= LEAST_S * RATE:
                name = f"{speaker}/{number}"
                told: Any = {"recording": name, "content": name, "format": None, "channels": None}
                heard = through(clip, ways[number % len(ways)])
                rows += identities.voices_of_turns(told, diarized(heard)[0], RATE)
                names.append(name)
    table = pa.Table.from_pylist(rows, schema=identities.VOICES)
    least = segments.Settings().threshold
    found = pa.concat_tables(identities.link(lambda: [table], list, least, "", refit=False))
    shares: dict[tuple[str, str], float] = {}
    for row in found.to_pylist():
        pair = row["speaker"], row["recording"].partition("/")[0]
        shares[pair] = shares.get(pair, 0.0) + row["seconds"]
    whole = sum(shares.values())
    most: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for pair, seconds in shares.items():
        for side, best in zip(pair, most, strict=True):
            best[side] = max(best.get(side, 0.0), seconds)
    purity, coverage = (sum(best.values()) / whole for best in most)
    return {"recordings": len(names), "speakers": len(most[1]), "found": len(most[0]),
            "purity": purity, "coverage": coverage}  # fmt: skip


def long(pieces: dict[str, list[conversations.Piece]], minutes: float) -> dict[str, float]:
    """A conversation of four people in one, which is made minute by minute: errors, speed, and what
    the process grows by."""
    people = {name: pieces[name] for name in sorted(pieces)[40:44]}
    order = sorted(people)
    diarizer = segments.start(segments.Settings(), RATE, ())
    before, most, cpu, truth = _resident_mb(), 0.0, 0.0, []
    for minute in range(round(minutes)):
        made = conversations.made(Asked(4, 60, 0.05, seed=FIRST_SEED + minute), people, [])
        truth.append(made.truth[:, [made.speakers.index(name) for name in order]])
        began = time.process_time()
        for at in range(0, len(made.samples), BLOCK):
            diarizer.push(made.samples[at : at + BLOCK, None])
        cpu += time.process_time() - began
        if minute == 0:
            before = _resident_mb()  # the models are loaded
        most = max(most, _resident_mb())
    began = time.process_time()
    turns = diarizer.finish()
    cpu += time.process_time() - began
    grown = max(most, _resident_mb()) - before - sum(part.nbytes for part in truth) / 2**20
    whole = np.concatenate(truth)
    frames = turn_scores.frames_of(turns, RATE, len(whole))
    return {"minutes": minutes, "der": turn_scores.errors(whole, frames).der,
            "speakers_found": frames.shape[1], "grown_mb": grown,
            "x_real_time": minutes * 60 / cpu, "turns": len(turns)}  # fmt: skip


def _resident_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def measured(corpus: Path, count: int, minutes: float) -> dict[str, Any]:
    pieces_of = conversations.load(corpus)
    beds = [conversations.decoded(corpus / "noise" / name) for name in BEDS]
    total = {"all": np.zeros(4), "overlap": np.zeros(4), "alone": np.zeros(4)}
    both, cut = np.zeros(3), {"all": np.zeros(2), "guarded": np.zeros(2)}
    right, audible, heard, speech, cpu, seconds = 0, 0, 0, 0, 0.0, 0.0
    for wish in asked(count):
        made = conversations.made(wish, pieces_of, beds)
        turns, spent = diarized(made.samples)
        found = turn_scores.frames_of(turns, RATE, len(made.truth))
        own = turn_scores.errors(made.truth, found)
        single = turn_scores.errors(made.truth, found, without_overlap=True)
        for name, errors in {"all": own, "overlap": own, "alone": single}.items():
            if name != "overlap" or wish.overlap:
                total[name] += (errors.speech, errors.missed, errors.false, errors.confused)
        both += turn_scores.overlap(made.truth, found)
        true = int(made.truth.any(axis=0).sum())
        right += found.shape[1] == true
        alone = (made.truth & (made.truth.sum(axis=1, keepdims=True) == 1)).sum(axis=0)
        audible += found.shape[1] == int((alone >= AUDIBLE_S * 100).sum())
        heard += int((alone >= ALONE_S * 100).sum()) <= found.shape[1] <= true
        for name, counts in pieces(made, turns).items():
            cut[name] += counts
        speech += int((made.truth.sum(axis=1) == 1).sum())
        cpu, seconds = cpu + spent, seconds + wish.seconds
        print(f"{wish.name}: DER {own.der:.1%}, {found.shape[1]} of {true}", flush=True)
    rates = {short: error_rate(corpus, short) for short in (2.0, 4.0)}
    return {
        "conversations": count,
        "minutes": seconds / 60,
        "der": {name: float(parts[1:].sum() / parts[0]) for name, parts in total.items()},
        "missed_false_confused": [float(v / total["all"][0]) for v in total["all"][1:]],
        "count_right": right / count,
        "count_right_audible": audible / count,
        "count_right_alone": heard / count,
        "overlap_precision": float(both[0] / max(both[1], 1)),
        "overlap_recall": float(both[0] / max(both[2], 1)),
        "pieces": {
            name: {"other": float(v[1] / max(v.sum(), 1)), "kept": float(v[0] / speech)}
            for name, v in cut.items()
        },
        "eer": {f"{short:.0f} s": rate for short, (rate, _) in rates.items()},
        "eer_clips": {f"{short:.0f} s": clips for short, (_, clips) in rates.items()},
        "x_real_time": seconds / cpu,
        **{f"across_recordings{name}": across(corpus, ways) for name, ways in CODECS.items()},
        **({"long": long(pieces_of, minutes)} if minutes else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", type=int, help="conversations (18), or meetings (5)")
    parser.add_argument("--meetings", action="store_true")
    parser.add_argument("--hop", type=float, default=6.25, help="hop_seconds, for meetings")
    parser.add_argument("--long", type=float, default=0, metavar="MINUTES")
    args = parser.parse_args()
    with threadpool_limits(limits=1):  # as in a worker: idle threads that wait count as CPU
        corpus = Path(os.environ["UTTERMILL_CORPUS"])
        if args.meetings:
            found = meetings(corpus, args.count or 5, args.hop)
        else:
            found = measured(corpus, args.count or 18, args.long)
    print(json.dumps(found, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
