"""Without a recogniser the texts are the sources' own."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.helpers import corpus
from uttermill.tasks.accounting import summary
from uttermill.tasks.stages.listing import shard_choice

NONE = {"backend": {"use": "none"}}


@pytest.mark.full
def test_references_are_packaged_and_the_rest_has_no_text(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 4)
    corpus.listed(tmp_path / "in", 4, tmp_path / "list.jsonl", r02="")
    source = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
    published, _ = corpus.run(corpus.job(tmp_path, sources=source, transcribe=NONE))
    rows = corpus.utterances(published.path)
    assert {(row["hypothesis"], row["words"]) for row in rows} == {(None, None)}
    assert summary.errors_of(published.path)["scored"] == 0
    assert {(row["text"], row["text_source"]) for row in rows} == {
        (f"reference number {n}", "reference") for n in (0, 1, 3)
    }
    assert published.summary["reasons"]["transcribe.empty_text"]["items"] == 1
    kept = {**NONE, "verdicts": []}
    published, _ = corpus.run(corpus.job(tmp_path, sources=source, transcribe=kept))
    assert published.summary["utterances"]["packaged"] == 4


def test_shards_are_larger_where_nobody_listens(tmp_path: Path) -> None:
    seconds = np.full(40, 60.0)
    names = pa.array([f"r{n:02d}" for n in range(40)])
    counts = {}
    for use in ("none", "fake"):
        job = corpus.job(tmp_path, transcribe={"backend": {"use": use}})
        smallest = shard_choice.least(job)
        counts[use] = shard_choice.assigned(seconds, names, None, smallest)[1]
        assert shard_choice.assigned(seconds, names, 600 / 3600, smallest)[1] == 4, (
            "a setting decides"
        )
    assert counts == {"none": 3, "fake": 40}
