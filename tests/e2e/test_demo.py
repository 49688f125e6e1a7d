"""The README's first command, twice: real speech from espeak-ng, real Whisper base."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows.server.server import LocalServer
from tasks.upkeep.verify import verify

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.cluster, pytest.mark.timeout(1500)]


def demo(out: Path, server: LocalServer) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "demo", "--out", str(out), "--json"],
        env={**os.environ, "PREFECT_API_URL": server.url},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=1400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_demo_twice(tmp_path: Path, prefect_server: LocalServer) -> None:
    first, words = demo(tmp_path / "demo", prefect_server)
    assert first["recordings"] == {"in": 68, "failed": 6}
    assert first["wer"] < 0.25, "Whisper base hears espeak's English and Spanish well"
    assert first["scored"] >= 30
    assert "WER" in words
    assert "packaged" in words
    for reason in (
        "filter.silent", "filter.clipped", "filter.non_finite", "filter.decode_error",
        "shard.unreadable", "shard.empty", "transcribe.wrong_language",
    ):  # fmt: skip
        assert reason in first["reasons"], reason
    version = Path(first["dataset"])
    assert verify(version) == []
    kept = pq.read_table(version / "utterances.parquet").to_pylist()
    assert {row["language"] for row in kept} == {"en", "es"}
    assert {row["text_source"] for row in kept} == {"reference", "asr"}
    long = [row for row in kept if row["dataset"] == "long"]
    assert len(long) > 10, "ten minutes are cut into utterances"
    assert all(row["end"] - row["start"] <= 30.0 for row in kept)
    began = time.monotonic()
    again, words = demo(tmp_path / "demo", prefect_server)
    assert "Nothing was left to do" in words
    assert all(entry["items_computed"] == 0 for entry in again["stages"].values())
    assert again["version"] == 1
    assert time.monotonic() - began < 120, "seconds, even on a busy machine"
