"""`uttermill init`: a commented settings file for a purpose, from flags or from answers.

Its text is in `templates/`: `head.yaml`, and a file for each purpose.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from string import Template

from flows import checks
from flows.cli.show.tables import Line
from tasks.errors import ConfigError
from tasks.json_types import JsonObject
from tasks.settings import TranscribeSettings

PURPOSES = {
    "asr": "speech recognition: 16 kHz, WeNet shards",
    "tts": "text to speech: 24 kHz, clean clips of 3 to 15 s, Emilia's layout",
    "vc": "voice conversion: 40 kHz, short windows, no text",
}

TEMPLATES = resources.files("flows.cli") / "templates"


def init(args: argparse.Namespace) -> JsonObject:
    """Write the file; ask at a terminal for what no flag gives. ConfigError if the file exists."""
    path = Path(args.file)
    if path.exists() and not args.force:
        raise ConfigError(f"{path} is there already; name another file, or give --force")
    purpose = args.purpose or _answer(
        "What is it for: asr, tts or vc (voice conversion)?", "asr", tuple(PURPOSES), "--for"
    )
    codes = args.languages
    if not codes and purpose != "vc":
        answer = _answer("Languages that are spoken, such as en,zh (empty: detect)?", "", (), "")
        codes = [code for code in re.split(r"[,\s]+", answer) if code]
    for code in codes:
        if not re.fullmatch(r"[a-z]{2,3}", code):
            raise ConfigError(f"--language {code!r}: give a code of ISO 639-1, such as en or zh")
    source = args.source or _answer("Folder of recordings?", "", (), "--source")
    out = args.out or _answer("Where do results go?", "prepared", (), "--out")
    for each in (source, out):
        checks.check_text(each)
    try:
        path.write_text(text(purpose, codes, source, out, path.name), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return {"settings": str(path.absolute()), "purpose": purpose, "languages": codes}


def text(purpose: str, languages: list[str], source: str, out: str, file: str) -> str:
    """The whole file."""
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
    )


def _quoted(path: str) -> str:
    """A YAML string: JSON, with escapes for what YAML does not take as it is, or folds."""
    plain = json.dumps(path, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda c: f"\\u{ord(c[0]):04x}", plain
    )


def _verdicts(languages: list[str]) -> str:
    """The default verdicts, one a line; `language` allows these languages."""
    allowed = f", allowed: [{', '.join(languages)}]" if languages else ""
    lines = (
        f"    - {{use: {plugin.use}{allowed if plugin.use == 'language' else ''}}}"
        for plugin in TranscribeSettings().verdicts
    )
    return "\n".join(lines)


def _answer(question: str, default: str, choices: tuple[str, ...], flag: str) -> str:
    """What a person types; without a terminal the default, or ConfigError if there is none and
    `flag` is needed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        if flag and not default:
            raise ConfigError(f"give {flag}: there is no terminal to ask at")
        return default
    while True:
        shown = f" [{default}]" if default else ""
        print(f"{question}{shown} ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        answer = line.strip() or default
        if (answer in choices or not choices) and (answer or not flag):
            return answer
        if not line:
            raise ConfigError(f"no answer; give {flag}")


def shown(result: JsonObject) -> Iterator[Line]:
    yield f"Wrote {result['settings']}. Read it, then: uttermill plan {result['settings']}"
