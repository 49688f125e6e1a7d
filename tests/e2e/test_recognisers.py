"""Real recognisers through the whole line: what they say of each clip stands in the version."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.faults.command import Site
from uttermill.flows.demo import corpus
from uttermill.flows.demo import voice as demo_voice
from uttermill.tasks.publish.upkeep.verify import verify

pytestmark = [pytest.mark.cluster]

TEXTS = (
    "The library closes at nine in the evening, and the last bus leaves a little later.",
    "Please bring two bottles of water and a warm coat for the walk along the river.",
)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sentences in English, with their texts, as a JSONL list."""
    home = tmp_path_factory.mktemp("spoken")
    lines = [corpus.Line(text, "en-us", 140) for text in TEXTS]
    rows = []
    for number, samples in enumerate(corpus.speak(lines)):
        path = home / f"s{number}.wav"
        sf.write(path, samples, demo_voice.RATE, "PCM_16")
        rows.append({"key": f"s{number}", "wav": str(path), "txt": TEXTS[number]})
    (home / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home / "list.jsonl"


@pytest.fixture
def run(shared_cluster: dict[str, Any]) -> Callable[..., Any]:
    return partial(prepared, shared_cluster)


def prepared(
    cluster: dict[str, Any], listed: Path, out: Path, backend: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    settings = out.with_suffix(".yaml")
    source = {"kind": "jsonl", "path": str(listed), "name": "spoken"}
    head = {"sources": [source], "out": str(out), "transcribe": {"backend": backend}}
    head["history"] = "none"  # Prefect has no part in what is heard
    settings.write_text(json.dumps({**head, "cluster": cluster}))
    answer = Site(out.parent, "", history="none").done(settings).result
    version = Path(answer["dataset"])
    assert verify(version) == []
    return answer, pq.read_table(version / "utterances.parquet").to_pylist()


def test_moonshine_through_the_command(
    spoken: Path, run: Callable[..., Any], tmp_path: Path
) -> None:
    answer, rows = run(spoken, tmp_path / "out", {"use": "moonshine"})
    assert (len(rows), answer["wer"] < 0.3) == (2, True)
    assert all(row["hypothesis"] and row["language"] == "en" for row in rows)
    assert all(row["word_times"] is None and row["avg_logprob"] is None for row in rows)
