"""One item in full: its texts, neighbours, recording, audio, and where speech is.

Audio of a span comes from the published tar, from OUT's blobs, or decoded from its source.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pyarrow.compute as pc

from ...tasks import audio, storage
from ...tasks.audio.channels import Listened
from ...tasks.base.arrays import RATE, Int16s
from ...tasks.base.errors import CorruptManifest, ItemError
from ...tasks.base.json_types import JsonObject
from ...tasks.insight import judged
from ...tasks.plugins.annotation_kinds import Array, Events
from ...tasks.publish.published import samples_of
from ...tasks.recording import Locator
from ...tasks.shard_store import annotated, hidden, manifest
from ...tasks.shard_store.utterance import Utterance
from ...tasks.speech import silero
from ...tasks.storage.queries import identifier
from .corpus import Corpus, Gone, Items
from .loading import PLACE
from .query import Parameters

LONGEST = 600.0  # s of a source in one response
HEARD = 3600.0  # s of a source that the voice detector processes for one response
POINTS = 2000  # in that response: the largest probability of each stretch
LATEST = 1e7  # seconds of a recording that can be requested
RATES = range(1, 1_000_000)  # Hz
NEIGHBOURS = 3.0  # s before and after a clip that can be played with it


def speech(locator: Locator | None, going_on: Callable[[], None]) -> JsonObject:
    """Speech over a recording by the voice detector: `values` of stretches of `step` seconds; Gone
    if it cannot be decoded. `going_on` may end it by an exception."""
    if locator is None:
        raise Gone("its source is unknown")
    pieces = []
    try:
        with audio.open_stream(locator) as stream:
            detector = silero.Probabilities(stream.rate)
            for block in Listened(stream.weights).process(stream.blocks()):
                going_on()
                pieces.append(detector.push(block))
                if stream.decoded > HEARD * stream.rate:
                    break
            pieces.append(detector.finish())
    except (ItemError, OSError) as error:
        raise Gone(f"its source cannot be decoded: {error}") from None
    values = np.concatenate(pieces)
    width = max(-(-len(values) // POINTS), 1)
    stretches = np.maximum.reduceat(values, np.arange(0, len(values), width))
    return {
        "step": width * silero.WINDOW / RATE,
        "values": np.round(stretches.astype(float), 3).tolist(),
    }


def row(corpus: Corpus, items: Items, item: int) -> JsonObject:
    """A row of the table; Gone if there is none."""
    rows = corpus.rows(
        f"SELECT * EXCLUDE (searched, spoken, {', '.join(map(identifier, PLACE))}) "
        f"FROM {items.name} WHERE item = ?",
        [item],
    )
    if not rows:
        raise Gone(f"version {items.number} has no item {item}")
    return rows[0]


def detail(corpus: Corpus, items: Items, item: int) -> JsonObject:
    """The row, its texts, words with times, and the spans before and after it."""
    clip_row = row(corpus, items, item)
    around = corpus.rows(
        f'SELECT item, id, start, "end", outcome, reason, text FROM {items.name} '
        "WHERE recording = ? AND item BETWEEN ? AND ? ORDER BY item",
        [clip_row["recording"], item - 3, item + 3],
    )
    stored = corpus.utterance(clip_row["recording"], clip_row["id"])
    texts: JsonObject = {"reference": None, "heard": None, "others": [], "words": None}
    remarks: list[JsonObject] = []
    if stored is not None:
        utterance = stored[1]
        remarks = _annotations(corpus, utterance)
        heard = utterance.transcript
        texts["reference"] = utterance.reference
        texts["others"] = _others(corpus, *stored)
        if heard is not None:
            words = heard.get("word_times")
            texts["heard"] = heard.get("text")
            texts["words"] = None if words is None else [dict(word) for word in words]
    elif clip_row["text_source"] == "reference":
        texts["reference"] = clip_row["text"]
    texts["heard"] = clip_row["hypothesis"] or texts["heard"]
    texts["others"] = [other for other in texts["others"] if other != texts["heard"]]
    if (job := corpus.job()) is not None and hidden.hides(job):
        most = hidden.most_places(job, stored[1], texts["heard"]) if stored else 0
        language, all_texts = clip_row["language"], [texts["reference"], texts["heard"]]
        all_texts += texts["others"]
        most = max(most, *(len(hidden.places(job, text or "", language)) for text in all_texts))
        timed = hidden.words(job, texts["words"], language, most > 0)
        reference, first, *others = (hidden.shown(job, t, language, most) for t in all_texts)
        texts = {"reference": reference, "heard": first, "others": others, "words": timed}
    return {"row": clip_row, "around": around, **texts, "annotations": remarks}


def _annotations(corpus: Corpus, utterance: Utterance) -> list[JsonObject]:
    """The annotations of a clip by the chosen plug-ins: all events, at most POINTS numbers, of
    longer arrays every so many."""
    job = corpus.job()
    shown = []
    for one in annotated.of_job(job) if job is not None else ():
        kind, value, step = one.kind, annotated.value_of(one, utterance), 1
        if kind.large and not isinstance(kind, Events) and value is not None:
            step = max(-(-len(value) // POINTS), 1)
            value = [float(number) for number in value[::step]]
        about = {"name": one.name, "kind": kind.name, "unit": kind.unit, "doc": kind.doc}
        rate = {"rate": kind.rate / step} if isinstance(kind, Array) else {}
        shown.append({**about, **rate, "value": value})
    return shown


def _others(corpus: Corpus, shard: str, utterance: Utterance) -> list[str]:
    """Texts of other recognisers, or of other settings, for the same PCM."""
    heard = utterance.transcript
    transcript, text = (heard["transcript"], heard.get("text")) if heard else ("", None)
    same = pc.field("audio") == (utterance.hears or utterance.audio)
    texts = set[str]()
    for part in manifest.read(corpus.out, "transcribe", shard):
        others = part.table.filter(same & (pc.field("transcript") != transcript))
        texts.update(others["text"].drop_null().to_pylist())
    return sorted(texts - {text})


def audio_of(corpus: Corpus, items: Items, item: int, more: float = 0.0) -> tuple[Int16s, int]:
    """PCM of an item, with `more` seconds of its source before and after; int16 [n], Hz. Gone, with
    the reason, if none is left."""
    clip_row = row(corpus, items, item)
    start, end, rate = bounds(clip_row)
    if not more:
        if clip_row["outcome"] == "packaged" and (ready := _tar(corpus, items, item)):
            return ready
        stored = corpus.utterance(clip_row["recording"], clip_row["id"])
        with suppress(CorruptManifest, OSError):  # it is gone
            if stored is not None and (pcm := judged.stored_pcm(corpus.out, *stored)):
                return pcm
    else:
        last = corpus.rows(
            f'SELECT max("end") AS last FROM {items.name} WHERE recording = ?',
            [clip_row["recording"]],
        )
        end = min(end + more, last[0]["last"])
    return span(corpus, items, clip_row["recording"], max(start - more, 0.0), end, rate)


def bounds(row: JsonObject) -> tuple[float, float, int]:
    """(start, end, rate) of an item, in seconds and Hz; Gone if the ledger's are impossible."""
    start, end, rate = row["start"], row["end"], row["sample_rate"]
    if start is not None and start == end:
        raise Gone("it has no samples: the recording could not be decoded")
    if start is None or end is None or not (0 <= start < end < LATEST and rate in RATES):
        raise Gone("its start, end and sample rate in the ledger are impossible")
    return start, end, rate


def span(
    corpus: Corpus, items: Items, recording: str, start: float, end: float, rate: int
) -> tuple[Int16s, int]:
    """Seconds of a recording, decoded from its source, mono; what is muted there, in the version or
    by the last run's rules, is silent. Gone, with the reason, if it cannot be decoded."""
    locator = corpus.locator(recording)
    if locator is None:
        raise Gone("its audio is neither in the version nor in OUT, and its source is unknown")
    end = min(end, start + LONGEST)
    try:
        mono = audio.read_mix(locator, round(start * rate), round(end * rate))
    except ItemError as error:
        raise Gone(f"its source cannot be decoded: {error.detail or error.code}") from None
    except OSError as error:
        raise Gone(f"its source cannot be read: {error}") from None
    pcm = (mono * 32767).round().clip(-32768, 32767).astype(np.int16)
    muted: list[tuple[float, float]] = []
    if "muted" in items.columns:
        rows = corpus.rows(
            f"SELECT start, num_samples / seconds AS rate, muted FROM {items.name} "
            "WHERE recording = ? AND muted IS NOT NULL",
            [recording],
        )
        for one in rows:
            spans = hidden.muted_spans(one["muted"])
            muted += [
                (one["start"] + a / one["rate"], one["start"] + b / one["rate"]) for a, b in spans
            ]
    if (job := corpus.job()) is not None and hidden.mutes(job):
        muted += corpus.muted(recording)
    hit = ((low - start, high - start) for low, high in muted)
    return hidden.silenced(pcm, hidden.muted_places(hit, rate, len(pcm))), rate


def _tar(corpus: Corpus, items: Items, item: int) -> tuple[Int16s, int] | None:
    """The clip from the version's own tar."""
    version = corpus.place(items.number)
    if storage.store_of(version).mounted(version) is None:
        return None
    place = f'SELECT shard, "offset"::BIGINT AS "offset" FROM {items.name} WHERE item = ?'
    rows = corpus.rows(f'SELECT * FROM ({place}) WHERE "offset" >= 0', [item])
    return samples_of(version, rows[0]) if rows else None


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
