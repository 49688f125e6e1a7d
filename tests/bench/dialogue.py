"""python -m tests.bench.dialogue [--real] [--turns true|segments|channels] [--calls] [--json]

Synthetic dialogues of two to four people (`_dialogues.py`), five minutes for each seed, go through
the segmenter `dialogue`. Measured are the lengths of its windows, edges that cut a speaker, errors
of its turns, and errors of its measures. `--turns`: the true turns, those of the diarizer
`segments` on the mix, or of `channels` with a channel for each person. People are espeak's voices,
which `segments` hardly tells apart; `--real` takes readers of UTTERMILL_CORPUS. `--words`
transcribes the windows with Whisper and counts word errors of each person's turns, with words
assigned by time, and with turns transcribed one by one. `--assents` counts backchannels with the
right text: from the window, by themselves, and from the person's own channel, by themselves and
from the window's span of it. `--calls` sends dialogues of two people through a run instead, as
calls with two channels, and counts both for its published turns.

A turn is right if most of it overlaps with a true turn of the same person; its edges are compared
with the true turn that it overlaps most. `speaker_error`: share of the found turns' time in which
somebody else speaks, after matching numbers to people. `share_error`: of overlap and of silence,
mean over windows; `offset_error`: of the median time between turns, s.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tests.bench import _dialogue_calls, _dialogue_words, _dialogues
from tests.bench._dialogues import Asked, Dialogue, Floats
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.diarizers import Turn, channels, segments
from uttermill.tasks.plugins.contracts.diarizers import Diarizer
from uttermill.tasks.recording import conversation, turns
from uttermill.tasks.recording.conversation import SpokenTurn
from uttermill.tasks.recording.turns import Voices
from uttermill.tasks.segmenters import Span, dialogue

BLOCK = 65_536


@dataclass(slots=True)
class Sums:
    """Over all dialogues."""

    seconds: float = 0.0
    windows: list[float] = field(default_factory=list)
    cut: int = 0  # edges of windows where somebody speaks
    edges: list[float] = field(default_factory=list)  # errors, s
    found: int = 0
    right: int = 0
    true: int = 0
    wrong_seconds: float = 0.0
    turn_seconds: float = 0.0
    overlap: list[float] = field(default_factory=list)  # errors of shares
    silence: list[float] = field(default_factory=list)
    offsets: list[float] = field(default_factory=list)  # errors of medians, s
    backchannels: list[int] = field(default_factory=list)  # true, found, right
    cpu: dict[str, float] = field(default_factory=lambda: {"turns": 0.0, "windows": 0.0})


def pushed(diarizer: Diarizer, samples: Floats) -> tuple[Turn, ...]:
    for start in range(0, len(samples), BLOCK):
        diarizer.push(samples[start : start + BLOCK])
    return diarizer.finish()


def true_turns(made: Dialogue) -> tuple[Turn, ...]:
    stretches = (
        Turn(round(start * RATE), round(end * RATE), turn.speaker)
        for turn in made.turns
        for start, end in turn.stretches
    )
    return tuple(sorted(stretches, key=lambda turn: turn.start))


def turns_of(made: Dialogue, whose: str) -> tuple[Turn, ...]:
    """The diarizer's turns, with each number replaced by that of the person who speaks most of
    them."""
    if whose == "true":
        return true_turns(made)
    if whose == "channels":
        stereo = np.ascontiguousarray(made.channels.T)
        return matched(made, pushed(channels.start(channels.Settings(), RATE, ()), stereo))
    mono = made.mix[:, None]
    return matched(made, pushed(segments.start(segments.Settings(), RATE, ()), mono))


def matched(made: Dialogue, found: Sequence[Turn]) -> tuple[Turn, ...]:
    spoken = made.spoken()
    heard = np.zeros((max((turn.speaker for turn in found), default=0) + 1, spoken.shape[1]))
    for turn in found:
        heard[turn.speaker] += spoken[turn.start // 160 : turn.end // 160].sum(axis=0)
    person = heard.argmax(axis=1)
    return tuple(Turn(t.start, t.end, int(person[t.speaker])) for t in found)


def windows_of(made: Dialogue, found: tuple[Turn, ...]) -> list[Span]:
    segmenter = dialogue.at_turns(dialogue.Settings(), RATE, (), Voices(found))
    spans, samples = [], made.mix[:, None]
    for start in range(0, len(samples), BLOCK):
        spans += segmenter.push(samples[start : start + BLOCK])
    return [span for span in [*spans, *segmenter.finish()] if span.kind == "utterance"]


def add(sums: Sums, made: Dialogue, whose: str) -> tuple[tuple[Turn, ...], list[Span]]:
    began = time.process_time()
    found = turns_of(made, whose)
    between = time.process_time()
    windows = windows_of(made, found)
    sums.cpu["turns"] += between - began
    sums.cpu["windows"] += time.process_time() - between
    sums.seconds += made.asked.seconds
    sums.windows += [(span.end - span.start) / RATE for span in windows]
    anybody = made.anybody()
    places = [edge for span in windows for edge in (span.start, span.end)]
    sums.cut += sum(bool(anybody[min(p * 1000 // RATE, len(anybody) - 1)]) for p in places)
    for span in windows:
        _add_window(sums, made, span, found)
    return found, windows


def _add_window(sums: Sums, made: Dialogue, span: Span, found: tuple[Turn, ...]) -> None:
    samples = span.end - span.start
    true = turns.within(true_turns(made), span.start, span.end)
    heard = turns.within(found, span.start, span.end)
    right, counted = (conversation.counts(some, samples, RATE) for some in (true, heard))
    sums.overlap.append(abs(counted.overlap - right.overlap) / samples)
    sums.silence.append(abs(counted.silence - right.silence) / samples)
    if right.offsets and counted.offsets:
        medians = (float(np.median(one.offsets)) / RATE for one in (right, counted))
        sums.offsets.append(abs(next(medians) - next(medians)))
    _add_turns(sums, conversation.spoken_turns(true, RATE), conversation.spoken_turns(heard, RATE))
    spoken = made.spoken()[span.start // 160 :]
    for turn in heard:
        part = spoken[turn.start // 160 : turn.end // 160]
        somebody = part.any(axis=1)
        sums.turn_seconds += float(somebody.sum()) / 100
        sums.wrong_seconds += float((somebody & ~part[:, turn.speaker]).sum()) / 100


def _add_turns(sums: Sums, true: Sequence[SpokenTurn], found: Sequence[SpokenTurn]) -> None:
    sums.true += len(true)
    sums.found += len(found)
    assents = [turn for turn in true if turn.backchannel]
    right = 0
    for turn in found:
        shared = [
            (min(turn.end, other.end) - max(turn.start, other.start), other)
            for other in true
            if other.speaker == turn.speaker
        ]
        most, other = max(shared, key=lambda pair: pair[0], default=(0, None))
        if other is not None and most > (turn.end - turn.start) / 2:
            sums.right += 1
            sums.edges += [abs(turn.start - other.start) / RATE, abs(turn.end - other.end) / RATE]
            right += turn.backchannel and other.backchannel
    sums.backchannels += [0, 0, 0] if not sums.backchannels else []
    counted = len(assents), sum(turn.backchannel for turn in found), right
    sums.backchannels = [a + b for a, b in zip(sums.backchannels, counted, strict=True)]


def measured(
    people: Sequence[_dialogues.Person], whose: str, args: argparse.Namespace
) -> dict[str, Any]:
    sums, heard, assented = Sums(), _dialogue_words.Errors(), _dialogue_words.Assents()
    for seed in range(args.seeds):
        made = _dialogues.made(Asked(2 + seed % 3, args.seconds, seed=seed), people)
        found, windows = add(sums, made, whose)
        if args.words:
            heard.add(made, found, windows)
        if args.assents:
            assented.add(made, found, windows)
    lengths = np.array(sums.windows)
    assents = dict(zip(("true", "found", "right"), sums.backchannels, strict=True))
    return {
        "dialogues": args.seeds,
        "minutes": sums.seconds / 60,
        "windows": len(lengths),
        "in_windows": float(lengths.sum() / sums.seconds),
        "window_seconds": [float(v) for v in np.percentile(lengths, [0, 25, 50, 75, 100])],
        "edges_in_speech": sums.cut / (2 * len(lengths)),
        "turns": {"true": sums.true, "found": sums.found, "right": sums.right},
        "edge_error": {
            "median": float(np.median(sums.edges)),
            "95 %": float(np.percentile(sums.edges, 95)),
        },
        "speaker_error": sums.wrong_seconds / sums.turn_seconds,
        "backchannels": assents,
        "share_error": {
            "overlap": float(np.mean(sums.overlap)),
            "silence": float(np.mean(sums.silence)),
        },
        "offset_error": float(np.mean(sums.offsets)),
        "x_real_time": {name: sums.seconds / max(cpu, 1e-9) for name, cpu in sums.cpu.items()},
        **({"word_error_rate": heard.rates()} if args.words else {}),
        **({"backchannel_texts": assented.counts()} if args.assents else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--assents", action="store_true")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--turns", default="", help="true, segments or channels; default: all")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=300, help="of each dialogue")
    args = parser.parse_args()
    people = _dialogues.synthetic()
    if args.real:
        people = _dialogues.real(Path(os.environ["UTTERMILL_CORPUS"]))
    told: dict[str, Any] = {}
    with threadpool_limits(limits=1):  # as in a worker
        if args.calls:
            asked = [Asked(2, args.seconds, seed=seed) for seed in range(args.seeds)]
            print(json.dumps(_dialogue_calls.measured(asked, people), indent=2))
            return
        for whose in [args.turns] if args.turns else ["true", "segments", "channels"]:
            told[whose] = measured(people, whose, args)
    print(json.dumps(told, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
