"""One item in full: its texts, its neighbours, its recording, its audio."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from flows.explore import sound
from flows.explore.corpus import Corpus, Gone, Items
from flows.explore.loading import parquet_glob
from flows.explore.sound import Pcm
from tasks import storage
from tasks.checkpoints import manifest
from tasks.checkpoints.utterance import Utterance
from tasks.json_types import JsonObject
from tasks.recording import Locator
from tasks.schema import UTTERANCES_FILE
from tasks.stages.stage import view_of

HELD = 8  # shards whose utterances stay in memory
NEIGHBOURS = 3.0  # s before and after a clip that can be heard with it


def row(corpus: Corpus, items: Items, item: int) -> JsonObject:
    """A row of the table; Gone if there is none."""
    found = corpus.rows(
        f"SELECT * EXCLUDE (searched, spoken) FROM {items.name} WHERE item = ?", [item]
    )
    if not found:
        raise Gone(f"version {items.number} has no item {item}")
    return found[0]


class Shards:
    """Looks recordings up in the checkpoints of an OUT."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._lock = threading.Lock()
        self._shard_of: dict[str, str] = {}
        self._known: OrderedDict[tuple[str, str], dict[str, Utterance]] = OrderedDict()

    def shard_of(self, recording: str) -> str | None:
        with self._lock:
            if recording not in self._shard_of:
                self._shard_of = self._look()
            return self._shard_of.get(recording)

    def _look(self) -> dict[str, str]:
        out = self.corpus.out
        return {
            name: shard
            for shard in manifest.shards(out)
            for name in manifest.recordings(out, shard)
        }

    def locator(self, recording: str) -> Locator | None:
        """Where a recording's bytes lie; None if no checkpoint says it."""
        shard = self.shard_of(recording)
        if shard is None:
            return None
        parts = manifest.read(self.corpus.out, "shard", shard)
        for each in parts[-1].table.to_pylist() if parts else []:
            if each["recording"] == recording:
                return Locator.loads(each["locator"])
        return None

    def utterance(self, recording: str, key: str | None) -> tuple[str, Utterance] | None:
        """(shard, utterance) by its id, decided by the last run's settings."""
        shard, job = self.shard_of(recording), self.corpus.job()
        if shard is None or job is None or key is None:
            return None
        with self._lock:
            known = self._known.get((shard, recording))
            if known is None:
                view = view_of(job, shard)
                view.recordings = [r for r in view.recordings if r["recording"] == recording]
                known = {u.id: u for u in view.decided()}
                self._known[shard, recording] = known
                while len(self._known) > HELD:
                    self._known.popitem(last=False)
        return (shard, known[key]) if key in known else None


def detail(corpus: Corpus, shards: Shards, items: Items, item: int) -> JsonObject:
    """The row, its texts, words with times, and the spans before and after it."""
    found = row(corpus, items, item)
    around = corpus.rows(
        f'SELECT item, id, start, "end", outcome, reason, text FROM {items.name} '
        "WHERE recording = ? AND item BETWEEN ? AND ? ORDER BY item",
        [found["recording"], item - 3, item + 3],
    )
    known = shards.utterance(found["recording"], found["id"])
    texts: JsonObject = {"reference": None, "heard": None, "others": [], "words": None}
    if known is not None:
        utterance = known[1]
        heard = utterance.heard or {}
        texts["reference"], texts["heard"] = utterance.reference, heard.get("text")
        texts["others"] = _others(corpus, utterance)
        texts["words"] = _plain_words(heard)
    elif found["text_source"] == "reference":
        texts["reference"] = found["text"]
    texts["heard"] = found["hypothesis"] or texts["heard"]
    texts["others"] = [other for other in texts["others"] if other != texts["heard"]]
    return {"row": found, "around": around, **texts}


def _plain_words(heard: Mapping[str, Any]) -> list[JsonObject] | None:
    words = heard.get("word_times")
    return None if words is None else [dict(word) for word in words]


def _others(corpus: Corpus, utterance: Utterance) -> list[str]:
    """Texts of other recognisers, or of other settings, for the same PCM."""
    pattern = str(corpus.out / "manifests" / "transcribe" / "*" / "*.parquet")
    if storage.of(corpus.out).remote:
        return []
    found = corpus.rows(
        "SELECT DISTINCT text FROM read_parquet(?, union_by_name=true) WHERE audio = ? "
        "AND text IS NOT NULL AND transcript <> ? ORDER BY text",
        [pattern, utterance.audio, (utterance.heard or {}).get("transcript") or ""],
    )
    mine = (utterance.heard or {}).get("text")
    return [str(each["text"]) for each in found if each["text"] != mine]


def audio_of(
    corpus: Corpus, shards: Shards, items: Items, item: int, more: float = 0.0
) -> tuple[Pcm, int]:
    """PCM of an item, with `more` seconds of its source before and after; int16 [n], Hz. Gone, with
    the reason, if none is left."""
    found = row(corpus, items, item)
    if found["start"] >= found["end"]:
        raise Gone("it has no samples: the recording could not be decoded")
    if not more:
        if found["outcome"] == "packaged" and (ready := _tar(corpus, items, found["id"])):
            return ready
        known = shards.utterance(found["recording"], found["id"])
        if known is not None:
            pcm = known[1].pcm
            made = pcm is not None and not pcm["error_code"]
            if pcm and made and (ready := sound.of_blob(corpus.out, known[0], pcm)):
                return ready
    start = max(found["start"] - more, 0.0)
    end = found["end"] + more
    if more:
        last = corpus.rows(
            f'SELECT max("end") AS last FROM {items.name} WHERE recording = ?', [found["recording"]]
        )
        end = min(end, last[0]["last"])
    return span(shards, found["recording"], start, end, int(found["sample_rate"]))


def span(shards: Shards, recording: str, start: float, end: float, rate: int) -> tuple[Pcm, int]:
    """Seconds of a recording, decoded from its source."""
    locator = shards.locator(recording)
    if locator is None:
        raise Gone("its audio is neither in the version nor in OUT, and its source is unknown")
    return sound.of_source(locator, start, end, rate)


def _tar(corpus: Corpus, items: Items, key: str) -> tuple[Pcm, int] | None:
    """The clip from the version's own tar."""
    version = corpus.place(items.number)
    if storage.of(version).remote:
        return None
    pattern = parquet_glob(version / UTTERANCES_FILE)
    try:
        found = corpus.rows(
            'SELECT shard, "offset" FROM read_parquet(?, union_by_name=true) WHERE id = ?',
            [pattern, key],
        )
    except Exception as error:  # DuckDB's, where the version was removed meanwhile
        raise Gone(f"version {items.number} cannot be read any more: {error}") from None
    return sound.published(version, found[0]) if found else None


def timeline(corpus: Corpus, items: Items, recording: str) -> JsonObject:
    """All spans of a recording, in order."""
    spans = corpus.rows(
        f'SELECT item, id, start, "end", seconds, outcome, stage, reason, value, threshold, '
        f"detail, text, speaker, source_path, sample_rate FROM {items.name} WHERE recording = ? "
        "ORDER BY item",
        [recording],
    )
    if not spans:
        raise Gone(f"version {items.number} has no recording {json.dumps(recording)}")
    return {"recording": recording, "spans": spans, "end": max(s["end"] for s in spans)}
