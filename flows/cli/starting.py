"""`uttermill init`: a commented settings file for a purpose, from flags or from answers."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from rich.console import Console

from flows import checks
from flows.cli.show.tables import say
from tasks.errors import ConfigError
from tasks.json_types import JsonObject
from tasks.settings import TranscribeSettings

PURPOSES = {
    "asr": "speech recognition: 16 kHz, WeNet shards",
    "tts": "text to speech: 24 kHz, clean clips of 3 to 15 s, Emilia's layout",
    "vc": "voice conversion: 40 kHz, short windows, no text",
}

HEAD = """\
# Settings of uttermill for {about}.
#   uttermill estimate {file}     # a sample first: hours kept, time, disk
#   uttermill plan {file}         # what a run would compute
#   uttermill run {file}
# `uttermill plugins` shows what else there is, `uttermill plugins filters.silence` its settings.
sources:
  # One entry a dataset. Name its licence: it goes into the data card of every version.
  - kind: folder          # or kaldi, lhotse, jsonl, tar, hf_parquet, datajuicer
    path: {source}
    name: {name}
    licence: null         # such as CC-BY-4.0
{language}    expect_broken: false  # true: any number of files may be broken
out: {out}            # checkpoints, audio and datasets; not inside a source
"""

ASR = """
filter:
  segmenter: {use: auto}  # short recordings whole, long ones cut where voices pause
  filters:
    - {use: duration, min: 0.3, max: 30}  # s
    - {use: silence}
    - {use: clipping}
    - {use: decode_faults}  # no clip that a decoder complained about
resample:
  rate: 16000             # Hz
transcribe:
  # The bundled Whisper base; `model` is also the folder of a larger one.
  backend: {use: faster_whisper, model: base%(chinese)s}
  text: reference         # the source's own text where it has one, else what was heard
  verdicts:               # what drops a clip for its text
%(verdicts)s
package:
  formats: [wenet]        # or wenet_raw, kaldi, nemo, lhotse_shar, webdataset, hf_parquet, …
  # splits: {dev: 0.02, test: 0.02}   # shares of the hours; no speaker is in two of them
  max_failed_fraction: 0.1  # nothing is published when more of the recordings are broken
"""

TTS = """
filter:
  segmenter: {use: vad, min_seconds: 3, target_seconds: 10, max_seconds: 15}
  filters:
    - {use: duration, min: 1, max: 15}  # s
    - {use: silence, max_fraction: 0.6}
    - {use: clipping}
    - {use: bandwidth, min: 6000}  # Hz: no telephone speech
    - {use: decode_faults}
    # - {use: dnsmos, min_ovrl: 3.0}  # listening quality; needs uttermill[dnsmos]
resample:
  rate: 24000             # Hz
  levels: [{use: emilia}] # one loudness for all clips
transcribe:
  backend: {use: faster_whisper, model: base%(chinese)s}
  text: reference_if_close
  verdicts:
%(verdicts)s
package:
  formats: [emilia]       # or hf_parquet, lhotse_shar, webdataset, …
  max_failed_fraction: 0.1  # nothing is published when more of the recordings are broken
"""

VC = """
filter:
  segmenter: {use: applio}  # windows of 3 s that overlap
  filters:
    - {use: duration, min: 0, max: null}
    - {use: decode_faults}  # no clip that a decoder complained about
resample:
  rate: 40000             # Hz; or 32000, 48000
  resampler: {use: soxr_vhq}
  levels: [{use: highpass}, {use: applio}]
transcribe:
  backend: {use: none}    # voice conversion needs no text
  verdicts: []
package:
  formats: [wenet_raw]    # single WAV files
  max_failed_fraction: 0.1  # nothing is published when more of the recordings are broken
"""
BODIES = {"asr": ASR, "tts": TTS, "vc": VC}


def init(args: argparse.Namespace) -> JsonObject:
    """Write the file; asks at a terminal for what no flag gives. ConfigError if it is there."""
    path = Path(args.file)
    if path.exists() and not args.force:
        raise ConfigError(f"{path} is there already; name another file, or give --force")
    purpose = args.purpose or _answer(
        "What is it for: asr, tts or vc (voice conversion)?", "asr", tuple(PURPOSES), "--for"
    )
    codes = args.languages
    if not codes and purpose != "vc":
        told = _answer("Languages that are spoken, such as en,zh (empty: detect)?", "", (), "")
        codes = [code for code in re.split(r"[,\s]+", told) if code]
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
    head = HEAD.format(
        about=PURPOSES[purpose].partition(":")[0],
        file=file,
        source=_quoted(source),
        name=json.dumps(name),
        language=one,
        out=_quoted(out),
    )
    chinese = ", chinese: simplified" if "zh" in languages else ""
    return head + BODIES[purpose] % {"chinese": chinese, "verdicts": _verdicts(languages)}


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
            raise ConfigError(f"give {flag}: nobody can be asked here")
        return default
    while True:
        shown = f" [{default}]" if default else ""
        print(f"{question}{shown} ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        told = line.strip() or default
        if (told in choices or not choices) and (told or not flag):
            return told
        if not line:
            raise ConfigError(f"no answer; give {flag}")


def told(result: JsonObject, console: Console) -> None:
    say(console, f"Wrote {result['settings']}. Read it, then: uttermill plan {result['settings']}")
