"""The README's first command, twice: real speech from espeak-ng, and each night real Whisper."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Site
from tests.helpers import corpus
from tests.helpers.shared_server import Server
from uttermill.tasks.publish.upkeep.verify import verify

pytestmark = [pytest.mark.server, pytest.mark.cluster, pytest.mark.timeout(1500)]


#: What the corpus holds on purpose, found before anybody listens.
ODD = {
    "filter.silent", "filter.clipped", "filter.non_finite", "filter.decode_error",
    "shard.unreadable", "shard.empty",
}  # fmt: skip


def demo(out: Path, server: Server) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "uttermill.flows.cli", "demo", "--out", str(out), "--json"],
        env={**os.environ, "PREFECT_API_URL": server.url},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=1400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.nightly
def test_demo_with_whisper(tmp_path: Path, prefect_server: Server) -> None:
    """A minute by nature: five minutes of speech and 56 sentences are heard. A second run, in this
    process, finds nothing to do."""
    out = tmp_path / "demo"
    first, words = demo(out, prefect_server)
    assert first["recordings"] == {"in": 68, "failed": 7}
    assert set(first["reasons"]) >= ODD
    assert verify(Path(first["dataset"])) == []
    began = time.monotonic()
    later = Site(tmp_path, prefect_server.url).command("demo", "--out", out)
    assert later.code == 0, later.stderr
    assert "Nothing was left to do" in later.stderr
    assert all(entry["items_computed"] == 0 for entry in later.result["stages"].values())
    assert later.result["version"] == 1
    assert time.monotonic() - began < 120, "seconds, even on a busy machine"
    assert first["wer"] < 0.25, "Whisper base hears espeak's English and Spanish well"
    assert first["scored"] >= 30
    assert "WER" in words
    assert "packaged" in words
    assert "transcribe.wrong_language" in first["reasons"]
    kept = corpus.utterances(Path(first["dataset"]))
    assert {row["language"] for row in kept} == {"en", "es"}
    assert {row["text_source"] for row in kept} == {"reference", "asr"}
    long = [row for row in kept if row["dataset"] == "long"]
    assert len(long) > 10, "five minutes are cut into utterances"
    assert all(row["end"] - row["start"] <= 30.0 for row in kept)
