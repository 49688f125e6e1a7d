"""Words that are heard in minutes of noise are not packaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus


def reasons(tmp: Path, **limits: Any) -> dict[str, str]:
    """Of noise of 65 s and of 20 s, in which a recogniser hears words."""
    (tmp / "in").mkdir()
    for name, seconds in (("long", 65.0), ("short", 20.0)):
        sf.write(tmp / "in" / f"{name}.wav", corpus.speech(1, seconds, 8000), 8000, "PCM_16")
    job = corpus.job(
        tmp,
        filter=corpus.filters(max=100.0),
        transcribe={
            "backend": {"use": "tests.plugins.guessing_asr"},
            "verdicts": [{"use": "no_speech", **limits}],
        },
    )
    version, _ = corpus.run(job)
    rows = pq.read_table(version.path / "ledger.parquet").to_pylist()
    return {row["recording"]: row["reason"] for row in rows}


@pytest.mark.parametrize(
    ("limits", "reason"), [({}, "little_speech"), ({"min_recording_speech": None}, "packaged")]
)
def test_a_long_recording_needs_speech(tmp_path: Path, limits: Any, reason: str) -> None:
    assert reasons(tmp_path, **limits) == {"c/long.wav": reason, "c/short.wav": "packaged"}
