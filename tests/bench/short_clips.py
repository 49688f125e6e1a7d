"""Whisper base on clips of one to four words, whose language is stated: which wrong texts pass.

    UTTERMILL_CORPUS=… python -m tests.bench.short_clips [--json]

Digits of three speakers; words and phrases cut out of longer recordings by aligned times; digits,
answers, commands and phrases of espeak-ng's voices in four languages. Each is heard as it is, and
by telephone at 12 dB. Voices are divided into two halves: limits are chosen on the first. A text is
wrong if more than WRONG of its words are.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import soxr

from tests.bench.transcribe import WRONG
from tests.helpers import calls, timed_speech, verdict_clips, verdict_listening, verdict_sounds
from tests.helpers.corpus_speech import RATE
from tests.helpers.verdict_clips import Said
from uttermill.tasks import scoring
from uttermill.tasks.asr import SpeechClip, Transcript, Word
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.settings import TranscribeSettings
from uttermill.tasks.shard_store.annotated import rules_of

TEXTS = {
    "en": "one/two/three/four/five/six/seven/eight/nine/ten/yes/no/okay/stop/go/left/thank you/"
    "goodbye/open the door/turn it off/next page please/call my mother/how are you/I don't know",
    "de": "eins/zwei/drei/vier/fünf/sechs/sieben/acht/neun/zehn/ja/nein/gut/halt/los/links/danke/"
    "tschüss/mach die Tür auf/schalte es aus/nächste Seite bitte/wie geht es dir/ich weiß nicht",
    "es": "uno/dos/tres/cuatro/cinco/seis/siete/ocho/nueve/diez/sí/no/vale/alto/adelante/izquierda/"
    "gracias/adiós/abre la puerta/apágalo/página siguiente/llama a mi madre/cómo estás/no lo sé",
    "fr": "un/deux/trois/quatre/cinq/six/sept/huit/neuf/dix/oui/non/bien/arrête/avance/gauche/"
    "merci/au revoir/ouvre la porte/page suivante/appelle ma mère/comment ça va/je ne sais pas",
}
VOICES = ("m1", "f2", "m3", "f4")  # variants of espeak-ng's voice of a language
MADE_TWICE = 2  # voices of each made text
PAD = 0.1  # s around a made text
EDGE = 0.04  # s around the words of a cut-out
PAUSE = 0.12  # s, least, around a phrase
LONGEST = 3  # words of a phrase
PROBABLE = 0.4  # of an aligned word, at least
SNR = 12.0  # dB, by telephone
SOURCES = ("en/librispeech", "en/ljspeech", "en/asterisk", "es/asterisk", "de/kerstin")


def clips() -> Iterator[Said]:
    """All of them, clean and by telephone. `kind` names the voice; the recording, where one reader
    is all that a source has."""
    for number, said in enumerate([*digits(), *cut_outs(), *made()]):
        level = verdict_sounds.levelled(said.samples)
        white = verdict_sounds.coloured(np.random.default_rng(number), len(level), 0.0)
        call = verdict_sounds.mixed(level, white, SNR)[:, None]
        yield said
        yield replace(said, group="telephone", samples=calls.telephone(call)[:, 0])


def digits() -> Iterator[Said]:
    for said in verdict_clips.clean():
        if said.kind == "digit":
            yield replace(said, kind=said.name.split("_")[1])


def made() -> Iterator[Said]:
    lines, languages = list[timed_speech.Line](), list[str]()
    for language, texts in TEXTS.items():
        for number, text in enumerate(texts.split("/")):
            for turn in range(MADE_TWICE):
                variant = VOICES[(number + turn * (1 + number // 4 % 3)) % len(VOICES)]
                speed = 130 + 20 * (number % 3)
                lines.append(timed_speech.Line(text, f"{language}+{variant}", speed))
                languages.append(language)
    for line, language, spoken in zip(lines, languages, timed_speech.speak(lines), strict=True):
        wide = soxr.resample(spoken.samples, timed_speech.RATE, RATE, "HQ")
        loud = np.flatnonzero(np.abs(wide) > np.abs(wide).max() / 50)
        wide = np.pad(wide[loud[0] : loud[-1]], round(PAD * RATE)).astype(np.float32)
        name = f"{line.voice} {line.text}"
        yield Said(name, "clean", line.voice, wide, language, line.text)


def cut_outs() -> Iterator[Said]:
    """Of each recording a phrase between pauses, or else, and of every second one, a word."""
    found = [said for said in verdict_clips.clean() if said.name.startswith(SOURCES)]
    asked = [SpeechClip(said.samples, said.language) for said in found]
    texts = [said.text or "" for said in found]
    aligned = verdict_listening.backend().align(asked, texts)
    for number, (said, heard) in enumerate(zip(found, aligned, strict=True)):
        words = [*(heard.words or ())]
        phrases = [*_phrases(words, said.seconds)]
        single = [[w] for w in words if w.end - w.start > 0.25 and len(w.word.strip(" .,;")) > 2]
        chosen = phrases if phrases and number % 2 else single
        chosen = [some for some in chosen if min(w.probability or 0 for w in some) > PROBABLE]
        if chosen:
            some = chosen[number % len(chosen)]
            start, end = some[0].start - EDGE, some[-1].end + EDGE
            samples = said.samples[max(round(start * RATE), 0) : round(end * RATE)]
            text = "".join(word.word for word in some).strip()
            # A reader of many recordings is in both halves.
            several = said.name.startswith("en/librispeech")
            voice = said.name.rpartition("/")[2].partition("-")[0] if several else said.name
            yield Said(f"{said.name}@{start:.2f}", "clean", voice, samples, said.language, text)


def _phrases(words: Sequence[Word], seconds: float) -> Iterator[list[Word]]:
    """Runs of up to LONGEST words between pauses."""
    ends, starts = [0.0, *(w.end for w in words)], [*(w.start for w in words), seconds]
    breaks = [n for n, (a, b) in enumerate(zip(ends, starts, strict=True)) if b - a > PAUSE]
    for first, last in pairwise(sorted({0, *breaks, len(words)})):
        if 0 < last - first <= LONGEST:
            yield list(words[first:last])


def wrong(said: Said, text: str) -> float:
    """Share of a text's words that are wrong."""
    return scoring.score(said.text or "", text, said.language or "en").wer or 0.0


def first_half(said: Sequence[Said]) -> set[str]:
    """Every second voice, by name."""
    return set(sorted({one.kind for one in said})[::2])


def dropped(said: Said, heard: Transcript) -> tuple[bool, bool]:
    """Whether the default rules on text drop a clip without and with `expected_wer_evidence`."""
    values = verdict_listening.text_values(said, heard)
    rules = rules_of("text", TranscribeSettings().verdicts)
    after = judge(values, rules) is not None
    return judge({**values, "expected_wer_evidence": None}, rules) is not None, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="hear one of so many pairs of clips")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    every = [*clips()]
    chosen = first_half(every)
    said = [one for number, one in enumerate(every) if number // 2 % args.every == 0]
    asked = [SpeechClip(one.samples, one.language) for one in said]
    began = time.process_time()
    heard = [*verdict_listening.backend().transcribe(asked)]
    spent = time.process_time() - began
    rows: list[dict[str, Any]] = []
    print("Without and with `min_evidence`\n| half, condition | clips | wrong texts | that pass "
          "| right texts dropped |\n|---|---|---|---|---|")  # fmt: skip
    for half, group in product(("first", "second"), ("clean", "telephone", "both")):
        some = [
            (wrong(one, text.text or "") > WRONG, *dropped(one, text))
            for one, text in zip(said, heard, strict=True)
            if group in (one.group, "both") and (one.kind in chosen) == (half == "first")
        ]
        bad, good = ([one for one in some if one[0] == is_wrong] for is_wrong in (True, False))
        row = {
            "half": half, "group": group, "clips": len(some), "wrong": len(bad),
            "before": sum(not one[1] for one in bad), "after": sum(not one[2] for one in bad),
            "right": len(good), "lost_before": sum(one[1] for one in good),
            "lost": sum(one[2] for one in good),
        }  # fmt: skip
        print("| {half}, {group} | {clips} | {wrong} | {before}, {after} "
              "| {lost_before}, {lost} of {right} |".format(**row))  # fmt: skip
        rows.append(row)
    print(f"{spent:.0f} CPU s")
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
