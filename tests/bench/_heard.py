"""Transcripts of a synthetic recording, cached in a folder, so that two ways to align it are
compared on the same words, and the recogniser, which takes minutes, runs once."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from uttermill.tasks.plugins.contracts.segmenters import RecordingTranscript
from uttermill.tasks.recording import Locator, TimedWord
from uttermill.tasks.settings import Plugin
from uttermill.tasks.stages import whole_transcript


def heard(
    recording: Path, recogniser: Plugin, language: str, kept: Path | None
) -> RecordingTranscript:
    """The transcripts, from the folder `kept` if it has those of the same bytes and settings."""
    said = recogniser.model_dump_json().encode() + language.encode()
    key = hashlib.sha256(recording.read_bytes() + said).hexdigest()[:16]
    path = kept / f"{key}.json" if kept else None
    if path is not None and path.is_file():
        row = json.loads(path.read_text())
        words = tuple(TimedWord(*word) for word in row["words"])
        return RecordingTranscript(words, tuple((a, b) for a, b in row["speech"]), row["language"])
    began = time.process_time()
    found = whole_transcript.heard(Locator(str(recording)), recogniser, language)
    if path is not None:
        row = {
            "cpu_seconds": round(time.process_time() - began, 1),
            "language": found.language,
            "speech": found.speech,
            "words": [(w.word, w.start, w.end) for w in found.words],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(row))
    return found
