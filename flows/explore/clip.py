"""One item in full: its texts, its neighbours, its recording, its audio."""

from __future__ import annotations

import json

import duckdb

from flows.explore import sound
from flows.explore.corpus import Corpus, Gone, Items
from flows.explore.loading import first_line, parquet_glob
from flows.explore.query import Parameters
from tasks import storage
from tasks.base.arrays import Int16s
from tasks.base.json_types import JsonObject
from tasks.base.schema import UTTERANCES_FILE
from tasks.shard_store.utterance import Utterance

LATEST = 1e7  # seconds of a recording that can be asked for
RATES = range(1, 1_000_000)  # Hz
NEIGHBOURS = 3.0  # s before and after a clip that can be heard with it


def row(corpus: Corpus, items: Items, item: int) -> JsonObject:
    """A row of the table; Gone if there is none."""
    found = corpus.rows(
        f"SELECT * EXCLUDE (searched, spoken) FROM {items.name} WHERE item = ?", [item]
    )
    if not found:
        raise Gone(f"version {items.number} has no item {item}")
    return found[0]


def detail(corpus: Corpus, items: Items, item: int) -> JsonObject:
    """The row, its texts, words with times, and the spans before and after it."""
    found = row(corpus, items, item)
    around = corpus.rows(
        f'SELECT item, id, start, "end", outcome, reason, text FROM {items.name} '
        "WHERE recording = ? AND item BETWEEN ? AND ? ORDER BY item",
        [found["recording"], item - 3, item + 3],
    )
    known = corpus.shards.utterance(found["recording"], found["id"])
    texts: JsonObject = {"reference": None, "heard": None, "others": [], "words": None}
    if known is not None:
        utterance = known[1]
        heard = utterance.heard or {}
        texts["reference"], texts["heard"] = utterance.reference, heard.get("text")
        texts["others"] = _others(corpus, utterance)
        words = heard.get("word_times")
        texts["words"] = None if words is None else [dict(word) for word in words]
    elif found["text_source"] == "reference":
        texts["reference"] = found["text"]
    texts["heard"] = found["hypothesis"] or texts["heard"]
    texts["others"] = [other for other in texts["others"] if other != texts["heard"]]
    return {"row": found, "around": around, **texts}


def _others(corpus: Corpus, utterance: Utterance) -> list[str]:
    """Texts of other recognisers, or of other settings, for the same PCM."""
    home = storage.of(corpus.out).mounted(corpus.out / "manifests" / "transcribe")
    if home is None:
        return []
    pattern = str(home / "*" / "*.parquet")
    if not corpus.rows("SELECT 1 FROM glob(?) LIMIT 1", [pattern]):
        return []
    found = corpus.rows(
        "SELECT DISTINCT text::VARCHAR AS text FROM read_parquet(?, union_by_name=true) "
        "WHERE audio::VARCHAR = ? AND text IS NOT NULL AND transcript::VARCHAR <> ? ORDER BY text",
        [pattern, utterance.audio, (utterance.heard or {}).get("transcript") or ""],
    )
    mine = (utterance.heard or {}).get("text")
    return [str(each["text"]) for each in found if each["text"] != mine]


def audio_of(corpus: Corpus, items: Items, item: int, more: float = 0.0) -> tuple[Int16s, int]:
    """PCM of an item, with `more` seconds of its source before and after; int16 [n], Hz. Gone, with
    the reason, if none is left."""
    found = row(corpus, items, item)
    start, end, rate = bounds(found)
    if not more:
        if found["outcome"] == "packaged" and (ready := _tar(corpus, items, found["id"])):
            return ready
        known = corpus.shards.utterance(found["recording"], found["id"])
        if known is not None:
            pcm = known[1].pcm
            made = pcm is not None and not pcm["error_code"]
            if pcm and made and (ready := sound.of_blob(corpus.out, known[0], pcm)):
                return ready
    end += more
    if more:
        last = corpus.rows(
            f'SELECT max("end") AS last FROM {items.name} WHERE recording = ?', [found["recording"]]
        )
        end = min(end, last[0]["last"])
    return span(corpus, found["recording"], max(start - more, 0.0), end, rate)


def bounds(row: JsonObject) -> tuple[float, float, int]:
    """(start, end, rate) of an item, in seconds and Hz; Gone if the ledger has none that can be."""
    start, end, rate = row["start"], row["end"], row["sample_rate"]
    if start is not None and start == end:
        raise Gone("it has no samples: the recording could not be decoded")
    if start is None or end is None or not (0 <= start < end < LATEST and rate in RATES):
        raise Gone("its start, end and sample rate in the ledger are none of a recording")
    return start, end, rate


def span(corpus: Corpus, recording: str, start: float, end: float, rate: int) -> tuple[Int16s, int]:
    """Seconds of a recording, decoded from its source."""
    locator = corpus.shards.locator(recording)
    if locator is None:
        raise Gone("its audio is neither in the version nor in OUT, and its source is unknown")
    return sound.of_source(locator, start, end, rate)


def _tar(corpus: Corpus, items: Items, key: str) -> tuple[Int16s, int] | None:
    """The clip from the version's own tar."""
    version = corpus.place(items.number)
    table = storage.of(version).mounted(version / UTTERANCES_FILE)
    if table is None:
        return None
    try:
        found = corpus.rows(
            'SELECT shard::VARCHAR AS shard, "offset"::BIGINT AS "offset" '
            'FROM read_parquet(?, union_by_name=true) WHERE id::VARCHAR = ? AND "offset" >= 0',
            [parquet_glob(table), key],
        )
    except duckdb.Error as error:  # the version was removed meanwhile, or names no tars
        raise Gone(f"version {items.number} cannot be read any more: {first_line(error)}") from None
    return sound.published(version, found[0]) if found else None


def timeline(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """All spans of a recording, in order."""
    recording = dict(asked).get("recording", "")
    spans = corpus.rows(
        f'SELECT item, id, start, "end", seconds, outcome, stage, reason, value, threshold, '
        f"detail, text, speaker, source_path, sample_rate FROM {items.name} WHERE recording = ? "
        "ORDER BY item",
        [recording],
    )
    if not spans:
        raise Gone(f"version {items.number} has no recording {json.dumps(recording)}")
    return {"recording": recording, "spans": spans, "end": max(s["end"] or 0.0 for s in spans)}
