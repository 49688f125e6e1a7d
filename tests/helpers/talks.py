"""Conversations of two people each, in windows that have all that a clip can have: turns with
texts, annotations of a filter and of a text, and times of the text's words."""

import json
from pathlib import Path
from typing import Any

import soundfile as sf

from tests.helpers import corpus
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job

LIST = "talks.jsonl"
RATE = 8000
#: Start, end and speaker of each turn of a recording, s; its text is `text_of`.
TURNS = ((0.5, 14.0, "a"), (14.5, 24.0, "b"), (26.0, 27.0, "a"), (27.5, 39.0, "b"))


def text_of(number: int, turn: int) -> str:
    return f"turn {turn} of talk {number}" if turn != 1 else f"an unsaid turn in talk {number}"


def add(home: Path, number: int) -> None:
    """Recording `number`, and its lines in the list."""
    path = home / "in" / f"talk{number}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, corpus.speech(number, 40.0, RATE), RATE, "PCM_16")
    with (home / LIST).open("a") as file:
        for turn, (start, end, who) in enumerate(TURNS):
            line = {
                **{"wav": str(path), "key": f"t{number}-{turn}", "txt": text_of(number, turn)},
                **{"start": start, "end": end, "speaker": f"{who}{number}"},
            }
            file.write(json.dumps(line) + "\n")


def job(home: Path, **changes: Any) -> Job:
    """`min_sure`, `loud`, `mood`: limits on the text's words, on events and on labels."""
    limits = {name: changes.pop(name, None) for name in ("min_sure", "loud", "mood")}
    tagging: dict[str, Any] = {"use": "tests.plugins.tagging"}
    if limits["loud"] is not None:
        tagging["max_sounds_share"] = {"Loud part": limits["loud"]}
    base: dict[str, Any] = {
        "sources": [{"kind": "jsonl", "path": str(home / LIST), "name": "c"}],
        "speakers": Plugin(use="given"),
        "filter": {
            "segmenter": {"use": "dialogue"},
            "filters": [{"use": "duration", "max": 130}, tagging, {"use": "dialogue"}],
        },
        "transcribe": {
            "backend": {"use": "tests.plugins.doubting_asr"},
            "reference_words": True,
            "verdicts": [
                {"use": "empty_text"},
                {"use": "tests.plugins.moods", "allowed": limits["mood"]},
                {"use": "reference_confidence", "min": limits["min_sure"]},
            ],
        },
        "package": {
            "formats": [
                *({"use": use} for use in ("webdataset", "lhotse_shar")),
                {"use": "chat_jsonl", "tasks": ["dialogue"]},
            ],
            "publish": ["tagging_voice", "tagging_sounds", "moods_words"],
            "tar_hours": 60 / 3600,
        },
    }
    return corpus.job(home, **{**base, **changes})
