"""Word error rate by the share of hours kept: ranked by agreement, and by log-probability.

    UTTERMILL_CORPUS=… python -m tests.bench.agreement [--clips 60] [--json] [--plot FILE.svg]

Whisper base and Moonshine transcribe English clips of the corpus with known texts. Clips are ranked
by the agreement of the two, and by Whisper's mean log-probability. The table has, for each share of
the hours, best clips first, the exact word error rate of Whisper's texts. In a third ranking,
Moonshine transcribes only clips with a low log-probability, as with `when: {avg_logprob: {max:
-0.4}}`; the others count as agreed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import corpus_speech
from uttermill.tasks import scoring
from uttermill.tasks.asr import SpeechClip, faster_whisper, moonshine
from uttermill.tasks.scoring import Score, agreement

SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
DOUBTFUL = -0.4  # nats per token: what the second hears, if it hears only doubtful clips


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip: its length in s, Whisper's errors and log-probability, and the agreement."""

    seconds: float
    score: Score
    logprob: float
    agreement: float


def heard(corpus: Path, count: int) -> list[Clip]:
    """`count` English clips, spread over the corpus."""
    rows = [r for r in corpus_speech.transcribed(corpus) if (r.get("language") or "en") == "en"]
    rows = rows[:: max(len(rows) // count, 1)][:count]
    clips = [SpeechClip(corpus_speech.read(corpus / row["path"]), "en") for row in rows]
    short = [(row, clip) for row, clip in zip(rows, clips, strict=True)
             if len(clip.samples) <= 30 * corpus_speech.RATE]  # fmt: skip
    whisper = faster_whisper.Backend(faster_whisper.Settings(share_windows=False))
    other = moonshine.Backend(moonshine.Settings())
    given = [clip for _, clip in short]
    found = []
    for (row, clip), first, second in zip(
        short, whisper.transcribe(given), other.transcribe(given), strict=True
    ):
        texts = [scoring.normalise(each.text or "", "en") for each in (first, second)]
        [(wer, _)] = agreement.rates(texts)
        found.append(
            Clip(
                len(clip.samples) / corpus_speech.RATE,
                scoring.score(row["text"], first.text or "", "en"),
                first.avg_logprob if first.avg_logprob is not None else -9.0,
                1.0 - wer,
            )
        )
    return found


def curve(clips: Sequence[Clip], rank: Callable[[Clip], float]) -> list[tuple[float, float]]:
    """(share of the hours kept, its WER) for SHARES, best clips first."""
    order = sorted(clips, key=lambda clip: -rank(clip))
    whole = sum(clip.seconds for clip in clips)
    found = []
    for share in SHARES:
        kept: list[Clip] = []
        for clip in order:
            if kept and sum(c.seconds for c in kept) + clip.seconds > share * whole + 1e-6:
                break
            kept.append(clip)
        rate = scoring.total(clip.score for clip in kept).wer or 0.0
        found.append((sum(c.seconds for c in kept) / whole, rate))
    return found


def cheap(clip: Clip) -> float:
    """The rank where the second hears only doubtful clips: the others are taken to agree."""
    return 1.0 + clip.logprob / 100 if clip.logprob > DOUBTFUL else clip.agreement


def plot(lines: dict[str, list[tuple[float, float]]]) -> str:
    """SVG: WER in % over the share of the hours that is kept."""
    width, height, left, colours = 560, 320, 50, ("#1668a7", "#c2571a", "#3a7d44")
    top = max(rate for line in lines.values() for _, rate in line) * 1.1 or 1.0

    def at(share: float, rate: float) -> str:
        x = left + (1.0 - share) / 0.6 * (width - left - 20)
        return f"{x:.1f},{height - 40 - rate / top * (height - 70):.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">']
    for number, (name, line) in enumerate(lines.items()):
        points, colour = " ".join(at(*point) for point in line), colours[number]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        parts.append(
            f'<text x="{width - 200}" y="{20 + 16 * number}" fill="{colour}">{name}</text>'
        )
    parts.append(f'<text x="{left}" y="{height - 10}">share of the hours kept: 1.0 to 0.4</text>')
    parts.append(f'<text x="4" y="20">WER, 0 to {100 * top:.1f} %</text></svg>')
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    clips = heard(Path(os.environ["UTTERMILL_CORPUS"]), asked.clips)
    ranks: dict[str, Callable[[Clip], float]] = {
        "agreement": lambda clip: clip.agreement,
        "logprob": lambda clip: clip.logprob,
        "agreement of doubtful ones": cheap,
    }
    lines = {name: curve(clips, rank) for name, rank in ranks.items()}
    if asked.plot:
        asked.plot.write_text(plot(lines))
    told: dict[str, Any] = {
        "clips": len(clips),
        "hours": sum(clip.seconds for clip in clips) / 3600,
        "heard_twice": sum(clip.logprob <= DOUBTFUL for clip in clips),
        "curves": lines,
    }
    if asked.json:
        print(json.dumps(told))
        return
    print(f"{len(clips)} clips, {60 * told['hours']:.1f} min; {told['heard_twice']} are doubtful")
    print("kept  " + "  ".join(f"{name:>26}" for name in lines))
    for n, share in enumerate(SHARES):
        cells = (f"{100 * line[n][1]:.2f} % at {100 * line[n][0]:.0f} %" for line in lines.values())
        print(f"{share:4.2f}  " + "  ".join(f"{cell:>26}" for cell in cells))


if __name__ == "__main__":
    main()
