"""Errors and cost of the measures of the voice, on synthetic and on real speech.

    [UTTERMILL_CORPUS=…] python -m tests.bench.voice_measures [speech_rate effective_rate …]

`speech_rate`  espeak-ng's sentences in fifteen languages, four speeds and four voices: the true
               rate is its phones with a vowel over the time that its phones sound. Of real speech
               only the text is known: true is then what espeak-ng would say of it, over the time
               in which the voice detector hears speech, so that readers who swallow or add a
               syllable count as errors.
`effective_rate`  espeak-ng's and real speech as it is; upsampled from 8, 16 and 22.05 kHz by ten
               resamplers; and as MP3, whose encoder cuts off what it finds no bits for. What a
               clip does not hold at its own rate is not asked of it.
`reverberation`  espeak-ng's sentences and real speech in rooms by image sources and by decaying
               noise: none of these rooms and sentences was used to fit the measure. Of real
               recordings as they are the medians, as nobody knows their rooms.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tests.bench import _voice_bands, _voice_rates, _voice_rooms

PARTS = {
    "speech_rate": _voice_rates.report,
    "effective_rate": _voice_bands.report,
    "reverberation": _voice_rooms.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measures", nargs="*", choices=[*PARTS, []], default=[])
    corpus = os.environ.get("UTTERMILL_CORPUS")
    for name in parser.parse_args().measures or PARTS:
        for line in PARTS[name](Path(corpus) if corpus else None):
            print(line, flush=True)


if __name__ == "__main__":
    main()
