"""The real corpus, when UTTERMILL_CORPUS points at it: broken files, CJK names, every codec."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.faults.command import Site
from tests.helpers.fetched import CORPUS
from uttermill.tasks.base.errors import CODES
from uttermill.tasks.publish.upkeep.verify import verify

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.needs("corpus"),
]  # fmt: skip


@pytest.fixture
def run(shared_cluster: dict[str, Any]) -> Callable[..., Any]:
    return partial(prepared, shared_cluster)


def prepared(
    cluster: dict[str, Any], out: Path, *words: str, apart: bool = False
) -> dict[str, Any]:
    """A run without Prefect, which has no part in what is heard and kept. `apart`: in a process of
    its own."""
    there = [word for key, value in cluster.items() for word in ("--set", f"cluster.{key}={value}")]
    chosen = ("run", *words, *there, "--out", str(out), "--set", "history=none")
    site = Site(out.parent, "", history="none")
    ended = site.apart(*chosen, seconds=1100) if apart else site.command(*chosen)
    assert ended.code == 0, ended.stderr[-3000:]
    return ended.result


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_the_whole_corpus_is_accounted_for(
    tmp_path: Path, run: Callable[..., Any], long: bool
) -> None:
    """By night with its folder of long recordings, which is half of its audio."""
    folders = [p for p in sorted(CORPUS.iterdir()) if p.is_dir() and p.name != "long"]
    sources = [str(CORPUS)] if long else [str(path) for path in folders]
    chosen = [word for source in sources for word in ("--source", source)]
    fake = ("--set", "transcribe.backend.use=fake")
    result = run(tmp_path / "out", *chosen, *fake, apart=True)
    version = Path(result["dataset"])
    assert verify(version) == []
    ledger = pq.read_table(version / "ledger.parquet")
    broken = {p.name for p in (CORPUS / "broken").iterdir() if p.suffix != ".raw"}
    listed = {Path(p).name for p in ledger["source_path"].to_pylist() if "/broken/" in p}
    assert listed == broken, "every broken file is in the ledger"
    failed = ledger.filter(pc.equal(ledger["outcome"], "failed"))
    assert set(failed["reason"].to_pylist()) <= set(CODES)
    clean = [
        row
        for row in ledger.to_pylist()
        if "/en/librispeech/" in row["source_path"] and row["outcome"] in ("dropped", "failed")
    ]
    assert clean == [], "no LibriSpeech clip falls to the default filters"
    again = run(tmp_path / "out", *chosen, *fake)
    assert all(entry["items_computed"] == 0 for entry in again["stages"].values())
