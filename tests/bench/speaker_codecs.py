"""Clips of one person in several codecs: are they linked to one speaker?

    UTTERMILL_CORPUS=… python -m tests.bench.speaker_codecs [--json]

Takes up to five clips of 2 to 8 s from each of the corpus's speakers with several; each clip is a
recording with one voice. A person's clips alternate between codecs, in each possible way. Prints
for each least mean cosine (`speakers.threshold`) the speakers found, and the share of clips that
belong to the main person of their speaker.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from threadpoolctl import threadpool_limits

from tests.bench import _conversations
from tests.bench.speakers import LEAST_S, through
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.corpus import identities, voices
from uttermill.tasks.speech import embedding
from uttermill.tasks.speech.embedding import fbank

Way = tuple[str, str, int] | None
CLIPS, MOST_S = 5, 8.0
WAYS: dict[str, Way] = {
    "as it is": None,
    "m4a": ("ipod", "aac", 44_100),
    "mp3": ("mp3", "libmp3lame", 44_100),
    "opus": ("ogg", "libopus", 48_000),
    "telephone": ("wav", "pcm_mulaw", 8_000),
}
MIXES = (
    ("as it is",),
    ("m4a", "mp3"),
    ("opus", "telephone", "as it is"),
    ("mp3", "telephone"),
    ("telephone",),
)
LEAST = (0.35, 0.4, 0.45, 0.5, 0.55)

Voices = dict[tuple[str, int, str], voices.VoiceRow]


def heard(corpus: Path) -> Voices:
    """The voice of each clip through each codec, by person, number and codec."""
    rows: Voices = {}
    for person, clips in sorted(_conversations.clips(corpus).items()):
        long = [clip for clip in clips if len(clip) >= LEAST_S * RATE][:CLIPS]
        for number, clip in enumerate(long):
            for name, way in WAYS.items():
                samples = through(clip[: round(MOST_S * RATE)], way)
                vector = embedding.unit(embedding.embed(fbank(samples)))
                rows[person, number, name] = {
                    "recording": f"{person}/{number}",
                    "number": 1,
                    "content": f"{person}/{number}",
                    "seconds": len(samples) / RATE,
                    "vector": vector.astype("<f2").tobytes(),
                }
    return rows


def linked(rows: list[voices.VoiceRow], least: float) -> tuple[int, float]:
    """Speakers found, and their purity."""
    table = pa.Table.from_pylist(rows, schema=voices.VOICES)
    found = pa.concat_tables(identities.link(lambda: [table], list, least, "", refit=False))
    people: dict[str, Counter[str]] = {}
    for row in found.to_pylist():
        who = row["recording"].rpartition("/")[0]
        people.setdefault(row["speaker"], Counter())[who] += 1
    pure = sum(counts.most_common(1)[0][1] for counts in people.values())
    return len(people), pure / len(found)


def measured(corpus: Path) -> dict[str, Any]:
    rows = heard(corpus)
    told: dict[str, Any] = {"speakers": len({person for person, _, _ in rows})}
    for mix in MIXES:
        for least in LEAST:
            results = []
            for first in range(len(mix)):
                some = [
                    row
                    for (_, number, name), row in rows.items()
                    if name == mix[(number + first) % len(mix)]
                ]
                results.append(linked(some, least))
            found = [count for count, _ in results]
            purity = round(min(share for _, share in results), 3)
            told[f"{' + '.join(mix)}, {least}"] = {"found": found, "purity": purity}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with threadpool_limits(limits=1):
        found = measured(Path(os.environ["UTTERMILL_CORPUS"]))
    print(json.dumps(found, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
