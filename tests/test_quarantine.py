"""Items quarantined for a death are tried again when asked, others never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tasks.stages import pcm
from tests import corpus

RETRY = {"shard": {"retry": True}}


def test_one_utterance_that_cannot_be_converted_costs_no_other(tmp_path: Path) -> None:
    """A level that refuses one segment of a recording leaves the others alone."""
    (tmp_path / "in").mkdir()
    loud = corpus.speech(2, 3, 16000)
    loud[16000:32000] *= 100
    sf.write(tmp_path / "in" / "loud.wav", loud, 16000, "FLOAT")
    rows = [{"wav": str(tmp_path / "in" / "loud.wav"), "key": f"k{n}", "txt": "words",
             "start": float(n), "end": n + 1.0} for n in range(3)]  # fmt: skip
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
    job = corpus.job(
        tmp_path, sources=source, resample={"levels": [{"use": "applio"}]},
        filter={"segmenter": {"use": "given"}, "filters": [{"use": "duration"}]},
    )  # fmt: skip
    published, _ = corpus.run(job)
    assert published.summary["utterances"] == {"in": 3, "packaged": 2, "dropped": 0, "failed": 1}
    assert published.summary["reasons"]["resample.over_full_scale"]["items"] == 1


def test_a_machine_that_got_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "in" / "broken.wav").write_bytes(b"no audio")
    package = {"package": {"max_failed_fraction": 1.0}}
    convert = pcm.of_clip

    def greedy(clip: Any, chosen: Any) -> Any:
        if clip.num_samples == round(corpus.seconds_of(5) * corpus.RATES[0]):
            raise MemoryError("so much")
        return convert(clip, chosen)

    with monkeypatch.context() as small:
        small.setattr(pcm, "of_clip", greedy)
        published, _ = corpus.run(corpus.job(tmp_path, **package))
        assert published.summary["utterances"]["failed"] == 1
        assert "resample.out_of_memory" in published.summary["reasons"]
    _, counts = corpus.run(corpus.job(tmp_path, **package))
    assert counts["resample"] == (0, 6), "it stays so until somebody asks"
    healed, counts = corpus.run(corpus.job(tmp_path, **package, **RETRY))
    assert counts["shard"] == (0, 7), "what is broken itself is not tried again"
    assert counts["filter"] == (0, 6)
    assert counts["resample"] == (1, 5)
    assert healed.summary["utterances"]["packaged"] == 6
    again, counts = corpus.run(corpus.job(tmp_path, **package, **RETRY))
    assert not again.new
    assert {computed for computed, _ in counts.values()} == {0}
