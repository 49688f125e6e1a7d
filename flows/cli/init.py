"""`uttermill init`: a commented settings file for a purpose, from flags or from answers.

Its text is in `templates/`: `head.yaml`, and a file for each purpose.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from ...tasks.base import language_codes, shelves
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.settings import TranscribeSettings
from ...tasks.storage import regular
from .. import checks
from .show.tables import Line

PURPOSES = {
    "asr": "speech recognition: 16 kHz, WeNet shards",
    "tts": "text to speech: 24 kHz, clean clips of 3 to 15 s, Emilia's layout",
    "vc": "voice conversion: 40 kHz, short windows, no text",
}

TEMPLATES = resources.files("uttermill.flows.cli") / "templates"


def init(args: argparse.Namespace) -> JsonObject:
    """Write the file; ask at a terminal for what no flag gives. ConfigError if the file exists."""
    path = Path(args.file)
    regular.check(path, follows=False)
    if path.exists() and not args.force:
        raise ConfigError(f"{path} is there already; name another file, or give --force")
    others = f"is not one of {', '.join(PURPOSES)}"
    purpose = args.purpose or _answer(
        "What is it for: asr, tts or vc (voice conversion)?",
        "asr",
        "--for",
        lambda text: None if text in PURPOSES else f"{text!r} {others}",
    )
    codes = args.languages
    if not codes and purpose != "vc":
        asked = "Languages that are spoken, such as en,zh (empty: detect)?"
        codes = _codes(_answer(asked, "", "--language", lambda text: _codes_fault(_codes(text))))
    if fault := _codes_fault(codes):
        raise ConfigError(f"--language {fault}")
    source = args.source or _answer("Folder of recordings?", None, "--source")
    out = args.out or _answer("Where do results go?", "prepared", "--out")
    for place in (source, out):
        checks.check_text(place)
    try:
        written = text(purpose, codes, source, out, path.name)
        mode = "w" if args.force else "x"
        with open(path, mode, encoding="utf-8", opener=regular.written) as file:
            file.write(written)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return {"settings": str(path.absolute()), "purpose": purpose, "languages": codes}


def text(purpose: str, languages: list[str], source: str, out: str, file: str) -> str:
    one = f"    language: {languages[0]}          # forces it\n" if len(languages) == 1 else ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(source).name)[:40] or "recordings"
    parts = ((TEMPLATES / f"{part}.yaml").read_text(encoding="utf-8") for part in ("head", purpose))
    return Template("\n".join(parts)).substitute(
        about=PURPOSES[purpose].partition(":")[0],
        file=file,
        source=_quoted(source),
        name=json.dumps(name),
        language=one,
        out=_quoted(out),
        chinese=", chinese: simplified" if "zh" in languages else "",
        verdicts=_verdicts(languages),
        kinds=", ".join(kind for kind in shelves.names("sources") if kind != "folder"),
    )


def _quoted(path: str) -> str:
    """A YAML string: JSON, with escapes for what YAML does not take as it is, or folds."""
    plain = json.dumps(path, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda c: f"\\u{ord(c[0]):04x}", plain
    )


def _verdicts(languages: list[str]) -> str:
    """The default rules on text, one a line; `language` allows these languages."""
    allowed = f", allowed: [{', '.join(languages)}]" if languages else ""
    limit = "  # max_wer: 0.3 drops clips whose own text is not what was heard"
    lines = (
        f"    - {{use: {plugin.use}{allowed if plugin.use == 'language' else ''}}}"
        f"{limit if plugin.use == 'error_rate' else ''}"
        for plugin in TranscribeSettings().verdicts
    )
    return "\n".join(lines)


def _codes(answer: str) -> list[str]:
    return [code for code in re.split(r"[,\s]+", answer) if code]


def _codes_fault(codes: Sequence[str]) -> str | None:
    for code in codes:
        if not re.fullmatch(r"[a-z]{2,3}", code):
            example = language_codes.suggestion(code) or "en or zh"
            return f"{code!r}: give a code of ISO 639-1, such as {example}"
    return None


def _answer(
    question: str,
    default: str | None,
    flag: str,
    fault: Callable[[str], str | None] = lambda answer: None,
) -> str:
    """What a person types, asked again until `fault` accepts it. Without a terminal, the default;
    ConfigError, which names `flag`, if there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        if default is None:
            raise ConfigError(f"give {flag}: there is no terminal to ask at")
        return default
    while True:
        shown = f" [{default}]" if default else ""
        print(f"{question}{shown} ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:  # Ctrl-D
            print(file=sys.stderr)
            raise ConfigError(f"no answer; give {flag}")
        answer = line.strip() or default
        refusal = "there is no default; type an answer" if answer is None else fault(answer)
        if answer is not None and refusal is None:
            return answer
        print(f"{refusal}.", file=sys.stderr)


def shown(result: JsonObject) -> Iterator[Line]:
    yield f"Wrote {result['settings']}. Read it, then: uttermill plan {result['settings']}"
