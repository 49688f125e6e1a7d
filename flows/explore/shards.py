"""Looks recordings and utterances up in the checkpoints of an OUT."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from tasks.recording import Locator
from tasks.settings.job import Job
from tasks.shard_store import manifest
from tasks.shard_store.utterance import Utterance
from tasks.stages.stage import view_of

HELD = 8  # shards whose utterances stay in memory


class Shards:
    """The checkpoints of `out`; `job`: of the last run, if OUT keeps it."""

    def __init__(self, out: Path, job: Callable[[], Job | None]) -> None:
        self._out, self._job = out, job
        self._lock = threading.Lock()
        self._shard_of: dict[str, str] = {}
        self._decided = lru_cache(HELD)(self._decide)

    def shard_of(self, recording: str) -> str | None:
        with self._lock:
            if recording not in self._shard_of:
                self._shard_of = {
                    name: shard
                    for shard in manifest.shards(self._out)
                    for name in manifest.recordings(self._out, shard)
                }
            return self._shard_of.get(recording)

    def locator(self, recording: str) -> Locator | None:
        """Where a recording's bytes lie; None if no checkpoint says it."""
        shard = self.shard_of(recording)
        if shard is None:
            return None
        for each in manifest.listed(self._out, shard).to_pylist():
            if each["recording"] == recording:
                return Locator.loads(each["locator"])
        return None

    def utterance(self, recording: str, key: str | None) -> tuple[str, Utterance] | None:
        """(shard, utterance) by its id, judged by the last run's settings."""
        shard, job = self.shard_of(recording), self._job()
        if shard is None or job is None or key is None:
            return None
        known = self._decided(shard, recording)
        return (shard, known[key]) if key in known else None

    def _decide(self, shard: str, recording: str) -> dict[str, Utterance]:
        """The utterances of a recording by id."""
        job = self._job()
        assert job is not None
        view = view_of(job, shard)
        view.recordings = [r for r in view.recordings if r["recording"] == recording]
        return {u.id: u for u in view.transcribed()}
