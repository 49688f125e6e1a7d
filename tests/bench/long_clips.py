"""Completeness of the texts of clips of 15 to 30 s, compared with faster-whisper's own two ways.

    UTTERMILL_CORPUS=… python -m tests.bench.long_clips
        [clips] [verdict] [holes] [--clips 96] [--seed 0]

clips:   clips made of the corpus's sentences (`speech_mixtures.py`), each heard as one utterance:
         by our backend, by the engine's own loop, by its batched pipeline. Each eight have one
         speaker and several in each of four languages; the default takes a quarter of an hour of
         CPU, and more clips begin with the same ones. A table comes after every SHOWN of them, and
         is that of a run with so many.
verdict: what `completeness` drops of the texts of those clips: as the first window gives them, and
         after what they leave out was heard again.
holes:   the same clips, from whose first text one sentence inside was taken, as if Whisper had
         skipped it: the words are aligned anew, so that they stretch as they do then. Whether the
         sentence is heard again, or the text dropped; and whole texts that are heard again.

Languages are detected; how errors are counted says `_hearing.py`. Short utterances as the corpus
has them: `tests.bench.transcribe`; whole recordings: `tests.bench.long_recordings`.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench import _holes, speech_mixtures
from tests.bench._hearing import (
    GROUP,
    Way,
    batched,
    compare,
    counted,
    gone,
    loop,
    ours,
    show,
    summary,
    words,
)  # fmt: skip
from tests.bench.speech_mixtures import RATE, Mixture
from uttermill.tasks import speech
from uttermill.tasks.asr import SpeechClip, Transcript, faster_whisper
from uttermill.tasks.asr._whisper import loading, whole_clips
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store.annotated import rules_of

PARTS = ("clips", "verdict", "holes")
LACKING = 0.15  # of its words: a text that lacks more is not whole
SHOWN = 2 * GROUP  # clips after which a table of them is shown: thrice eight, which are all kinds


def clips(args: argparse.Namespace, model: Any) -> None:
    mixtures = speech_mixtures.clips(args.corpus, args.clips, args.seed)
    print(f"clips: {len(mixtures)}, {sum(m.seconds for m in mixtures) / 60:.1f} minutes")
    ways = [Way("ours", ours(model)), Way("loop", loop(model)), Way("batched", batched(model))]
    for count in compare(ways, mixtures):
        if count % SHOWN == 0 or count == len(mixtures):
            show(summary("clips", ways, mixtures[:count], "loop"), "loop")


def verdict(args: argparse.Namespace, model: Any) -> None:
    """Incomplete and complete texts, and which of them `completeness` drops."""
    mixtures = speech_mixtures.clips(args.corpus, args.clips, args.seed)
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1), model)
    found: dict[str, list[tuple[Mixture, SpeechClip, Transcript]]] = defaultdict(list)
    for mixture in mixtures:
        clip = SpeechClip(mixture.samples)
        (window,) = backend._windows.hear([(clip, None)])
        first = whole_clips.begun(clip, window)
        found["first window"].append((mixture, clip, first.transcript(with_words=False)))
        (whole,) = backend.transcribe([clip]) if first.missed() else [found["first window"][-1][2]]
        found["heard again"].append((mixture, clip, whole))
    for name, some in found.items():
        print(f"| {name} | {' | '.join(_judged(some).values())} |", flush=True)


def _judged(heard: Sequence[tuple[Mixture, SpeechClip, Transcript]]) -> dict[str, str]:
    dropped: dict[bool, list[bool]] = {True: [], False: []}
    for mixture, clip, transcript in heard:
        count = counted(mixture.text, transcript.text or "", mixture.language)
        lacks = count.words - count.heard > LACKING * count.words
        dropped[lacks].append(_incomplete(clip, transcript))
    return {
        "lacking, dropped": f"{sum(dropped[True])} of {len(dropped[True])}",
        "whole, dropped": f"{sum(dropped[False])} of {len(dropped[False])}",
    }


def _incomplete(clip: SpeechClip, transcript: Transcript) -> bool:
    """Whether `completeness` drops a text."""
    seconds = len(clip.samples) / speech.RATE
    count = len(words(transcript.text or "", transcript.language or "en"))
    values = {
        "speech_after_text": speech.within(clip.speech, transcript.text_end or 0.0, seconds),
        "speech_without_words": transcript.hole[1] if transcript.hole else None,
        "words_per_speech_second": count / speech.within(clip.speech, 0.0, seconds),
    }
    return judge(values, rules_of("text", (Plugin(use="completeness"),))) is not None


def holes(args: argparse.Namespace, model: Any) -> None:
    mixtures = [
        m for m in speech_mixtures.clips(args.corpus, args.clips, args.seed) if len(m.sentences) > 2
    ]
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1), model)
    windows = _holes.Skipping(backend._windows, model)
    backend._windows = windows  # type: ignore[assignment]
    row = dict.fromkeys(
        ("clips", "seen", "gone", "gone and kept", "whole", "whole, heard again"), 0
    )
    for number, mixture in enumerate(mixtures):
        if number and number % SHOWN == 0:
            print(f"{number}/{len(mixtures)}: {row}", flush=True)
        clip = SpeechClip(mixture.samples)
        window = windows.first(clip)
        if gone(mixture, window.heard.text) == 0:
            row["whole"] += 1
            row["whole, heard again"] += bool(whole_clips.begun(clip, window).missed())
        bounds = [(start / RATE, end / RATE) for start, end in mixture.bounds]
        inside = max(bounds[1:-1], key=lambda span: span[1] - span[0])
        holed = windows.skip(clip, window, inside)
        if holed is None or gone(mixture, holed.heard.text) <= gone(mixture, window.heard.text):
            continue
        row["clips"] += 1
        seen = bool(whole_clips.begun(clip, holed).missed())
        row["seen"] += seen
        (transcript,) = backend.transcribe([clip])
        lacking = gone(mixture, transcript.text or "") > gone(mixture, window.heard.text)
        kept = lacking and not _incomplete(clip, transcript)
        row["gone"] += lacking
        row["gone and kept"] += kept
        if not seen or lacking:
            longest = max(holed.words or (), key=lambda word: word.end - word.start, default=None)
            print(f"{mixture.name} {mixture.language}: {'seen' if seen else 'not seen'}, "
                  f"{'gone' if lacking else 'there'}{', kept' if kept else ''}; skipped "
                  f"{inside[0]:.1f}-{inside[1]:.1f} s, longest word {longest}",
                  flush=True)  # fmt: skip
    print(f"| {row} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["clips"], metavar="|".join(PARTS))
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument(
        "--clips", type=int, default=96, help="made ones; a multiple of 8 has all kinds"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.corpus is None or not set(args.parts) <= set(PARTS):
        parser.error("give UTTERMILL_CORPUS or --corpus, and parts of " + ", ".join(PARTS))
    model = loading.load(faster_whisper.Settings(device="cpu", threads=1))
    for part, run in (("clips", clips), ("verdict", verdict), ("holes", holes)):
        if part in args.parts:
            run(args, model)


if __name__ == "__main__":
    main()
