"""Wrong drops and false accepts of the default rules, on the corpus's speech and noise.

    UTTERMILL_CORPUS=… python -m tests.bench.verdicts [--json] [language|worthless]
        [--carriers 5] [--sounds 6] [--every 2]

language:  limits on the probability of the detected language, alone and together with the text's
           own, over clean, noisy and foreign clips and sounds; close languages in synthetic voices.
worthless: speech in six kinds of noise at five levels; which measures tell that the text has a word
           error rate above 50 %, what the rules before and the rules now drop of it, and each
           default filter and verdict by itself.

Every clip is heard by Whisper base; no reference is shown to the rules unless a table says so.
`--carriers` sentences are mixed with noise (30 clips each); `--sounds` is how many of each made
sound are tried; `--every 2` takes half of the clean clips and of those of
long recordings, which no limit was chosen on. A clip costs about 1.7 CPU seconds, one
in noise 2.6: a greedy decode and DNSMOS, where it is installed, are compared with it.
"""

from __future__ import annotations

import argparse
import json
import resource
from itertools import chain

from tests.bench import verdict_clips, verdict_language, verdict_worthless
from tests.bench.verdict_listening import Row, hear

PARTS = {"language": verdict_language.report, "worthless": verdict_worthless.report}


def rows(part: str | None, carriers: int, sounds: int, every: int) -> list[Row]:
    """All clips that a part (None: both) wants, heard."""
    second = part != "language"
    found = [*hear(verdict_clips.mixtures(carriers), second)]
    quiet = chain(verdict_clips.clean(every), verdict_clips.unseen(50 // every))
    found += hear(chain(quiet, verdict_clips.sounds(sounds)))
    return found if part == "worthless" else [*found, *hear(verdict_clips.close_languages())]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.verdicts", description=__doc__)
    parser.add_argument("part", nargs="?", choices=tuple(PARTS))
    parser.add_argument("--carriers", type=int, default=5, help="sentences mixed with noise")
    parser.add_argument("--sounds", type=int, default=6, help="of each made sound")
    parser.add_argument("--every", type=int, default=2, help="of the clean clips")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    args = parser.parse_args()
    heard = rows(args.part, args.carriers, args.sounds, args.every)
    told: dict[str, object] = {"clips": len(heard)}
    for name, report in PARTS.items():
        if args.part in (None, name):
            text, told[name] = report(heard)
            if not args.json:
                print(f"\n{name}\n\n{text}")
    used = resource.getrusage(resource.RUSAGE_SELF)
    told["cpu_seconds"] = round(used.ru_utime + used.ru_stime, 1)
    print(json.dumps(told) if args.json else f"\n{len(heard)} clips, {told['cpu_seconds']} CPU s")


if __name__ == "__main__":
    main()
