"""Second opinions on texts that the default rules keep, mainly in white noise.

    UTTERMILL_CORPUS=… python -m tests.bench.verdict_second [--carriers 12] [--json]

Sentences clean, in white noise at 5, 0 and -5 dB, in pink noise at 0 and in real noise at 5 dB.
Whisper base hears them; a text is wrong if half of its words are. Of those that pass the default
rules, each measure drops the ones beyond the limit that costs none of the right texts, or one of
fifty. Measures: a greedy decode and a sampled one that differ (of characters); the least certain
fifth of the words; how much likelier the audio makes the tokens than silence of its length does,
which is what the language model alone expects; the share of speech by another detector
(segmentation 3.0); a denoised copy (GTCRN) that is heard otherwise; SNR; and `confidence`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

import ctranslate2
import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from tests.bench import verdict_clips
from tests.bench.verdict_clips import Said
from tests.bench.verdict_listening import (
    BEAM,
    WRONG,
    Values,
    _measured,
    backend,
    reason,
    text_values,
)
from tests.bench.verdict_tables import table
from uttermill.tasks import scoring
from uttermill.tasks.asr import SpeechClip
from uttermill.tasks.asr._whisper.windows import tokenizer_of
from uttermill.tasks.diarizers import _windows as segmentation
from uttermill.tasks.enhance import gtcrn

NOISES = {("white", 5), ("white", 0), ("white", -5), ("pink", 0), ("real", 5)}
COSTS = (0.0, 0.02)  # shares of right texts
#: Larger is worse.
MEASURES: dict[str, Callable[[Values], float]] = {
    "greedy differs": lambda v: v["greedy"],
    "sampled differs": lambda v: v["sampled"],
    "least certain words": lambda v: -v["least_words"],
    "audio over language model": lambda v: -v["information"],
    "speech by another detector": lambda v: -v["other_speech"],
    "denoised differs": lambda v: v["denoised"],
    "snr": lambda v: -(v["snr"] or 0.0),
    "confidence": lambda v: -v["confidence"],
    "confidence and information": lambda v: -v["confidence"] - 0.3 * v["information"],
}


def clips(count: int) -> Iterator[Said]:
    yield from verdict_clips.carriers(count)
    yield from (s for s in verdict_clips.mixtures(count) if (s.kind, s.snr) in NOISES)


def opinions(said: Said) -> dict[str, Any]:
    """The values of a clip that rules see, and the second opinions."""
    ear = backend(BEAM)
    clip = SpeechClip(said.samples)
    [heard] = ear.transcribe([clip])
    values = {**_measured(said), **text_values(said, heard)}
    text, code = values["text"], heard.language or "en"
    windows, model = ear._windows, ear._model
    tokenizer = tokenizer_of(model, code)
    encoded, silent = (windows.encode([SpeechClip(s)]) for s in (said.samples, 0 * said.samples))
    start = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
    spoken = tokenizer.encode(" " + text)

    def decoded(audio: Any, **options: Any) -> str:
        [found] = model.model.generate(audio, [start], beam_size=1, **options)
        return str(tokenizer.decode(found.sequences_ids[0])).strip()

    def likely(audio: Any) -> NDArray[np.float64]:
        [found] = model.model.align(audio, tokenizer.sot_sequence, [spoken], 1500)
        logs: NDArray[np.float64] = np.log(np.maximum(found.text_token_probs, 1e-6))
        return logs

    ctranslate2.set_random_seed(0)
    certain = likely(encoded)
    cleaner = gtcrn.start(gtcrn.Settings())
    clean = np.concatenate([cleaner.push(said.samples), cleaner.finish()])
    window = np.pad(said.samples, (0, max(segmentation.WINDOW - len(said.samples), 0)))
    scores = segmentation._session(None).run(None, {"x": window[None, None, : segmentation.WINDOW]})
    frames = segmentation.frame_of(said.seconds)

    def differs(other: str) -> float:
        return Levenshtein.normalized_distance(text.casefold(), other.casefold())

    return values | {
        "greedy": differs(decoded(encoded)),
        "sampled": differs(decoded(encoded, sampling_topk=0, sampling_temperature=0.6)),
        "denoised": differs(decoded(windows.encode([SpeechClip(clean.astype(np.float32))]))),
        "least_words": float(np.mean(np.sort(certain)[: max(len(certain) // 5, 1)])),
        "information": float(np.mean(certain - likely(silent))),
        "other_speech": float(1 - np.exp(scores[0][0, :frames, 0]).mean()),
        "wer": scoring.score(said.text or "", heard.text or "", said.language or "en").wer,
    }


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """For each measure, how many wrong texts that pass it finds at each cost."""
    heard = [row for row in rows if row["text"]]
    passed = [row for row in heard if row["reason"] is None]
    right = [row for row in passed if row["wer"] <= WRONG]
    wrong = [row for row in passed if row["wer"] > WRONG]
    found: dict[str, Any] = {
        "heard": len(heard), "passed": len(passed), "right": len(right), "wrong": len(wrong),
        "wrong, white at 0 dB": sum(r["kind"] == "white" and r["snr_db"] == 0 for r in wrong),
    }  # fmt: skip
    for name, take in MEASURES.items():
        limits = [float(np.quantile([take(r) for r in right], 1 - cost)) for cost in COSTS]
        found[name] = [sum(take(r) > limit for r in wrong) for limit in limits]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.verdict_second", description=__doc__
    )
    parser.add_argument("--carriers", type=int, default=12, help="sentences")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    args = parser.parse_args()
    rows = []
    for said in clips(args.carriers):
        values = opinions(said)
        about = {"name": said.name, "kind": said.kind, "snr_db": said.snr}
        rows.append(
            {**values, **about, "reason": reason({k: values[k] for k in values if k != "wer"})}
        )
    found = report(rows)
    if args.json:
        print(json.dumps(found))
        return
    counts = {name: value for name, value in found.items() if isinstance(value, int)}
    print(", ".join(f"{name} {value}" for name, value in counts.items()))
    head = ("measure", "wrong found at no right text lost", "at one in fifty")
    print(table(head, [[n, *map(str, v)] for n, v in found.items() if isinstance(v, list)]))


if __name__ == "__main__":
    main()
