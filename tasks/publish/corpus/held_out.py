"""Test sets of others, `package.exclude`: their texts and sounds, which no clip may meet.

A set is a source of any kind, whose texts and sounds are read each time a version is decided; a
list of texts; or a file of hashes, which `write` makes of another set, and from which neither text
nor sound can be heard or read.
"""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ... import plugins, storage
from ...base.counting import counted
from ...base.errors import ConfigError
from ...base.json_types import HeldOutSet
from ...base.logs import log
from ...base.schema import CutRow, RecordingRow
from ...plugins.annotation_kinds import key
from ...scoring import languages, text_sketches, unmarked
from ...scoring.normalisers import normalise
from ...scoring.text_sketches import Sketches
from ...settings import Plugin
from ...settings.job import Job
from ...settings.package import Excluded
from ...shard_store.cuts import speakers_of
from ...stages.listing import entries
from ...stages.listing.skipped import SkippedEntries

ITEMS = pa.schema(
    {
        "item": pa.string(),  # recording, or line of a list
        "high": pa.uint64(),  # of the hash of its text; null: a sound
        "low": pa.uint64(),
        "bands": pa.binary(8 * text_sketches.BANDS),  # null: too few words to be near-equal
        "print": pa.large_binary(),  # fingerprint by the filter `duplicate`; null: no sound
        "voice": pa.large_binary(),  # embedding by the filter `voice`; null: no voice
        "speaker": pa.string(),  # as the source names them; null: nobody is named
    }
)
PERSONAL = ("voice", "speaker")  # columns that tell of people, the last ones
HASHED = [name for name in ITEMS.names if name not in PERSONAL]  # in a file of hashes
KIND = b"uttermill.held_out"  # key of the metadata of a file of hashes
LAYOUT = b"1"
MOST_BYTES = 1 << 30  # of a list or a file of hashes
UNKNOWN = ("", "en", "ja", "zh")  # rules for a text of an unknown language


class HeldOut(NamedTuple):
    name: str
    items: pa.Table  # ITEMS
    voice_cosine: float = 0.5  # least of one voice

    @property
    def sha256(self) -> str:
        state = hashlib.sha256()
        for column in ITEMS.names:
            for value in self.items[column].to_pylist():
                state.update(repr(value).encode())
        return state.hexdigest()


def described(test_set: HeldOut, clips: int) -> HeldOutSet:
    """A set for dataset.json; `clips`: how many were dropped for it."""
    texts = test_set.items["item"].filter(test_set.items["high"].is_valid())
    return {
        "name": test_set.name,
        "texts": pc.count_distinct(texts).as_py(),
        "sounds": len(test_set.items) - test_set.items["print"].null_count,
        "voices": len(test_set.items) - test_set.items["voice"].null_count,
        "speakers": len(test_set.items) - test_set.items["speaker"].null_count,
        "sha256": test_set.sha256,
        "clips": clips,
    }


def check(job: Job) -> None:
    """Raises ConfigError for a set that cannot be read, whose settings are wrong, or that is to be
    compared by what none of its items states."""
    for number, one in enumerate(job.package.exclude):
        where = f"package.exclude.{number}"
        if one.kind in ("texts", "hashes"):
            strange = sorted(one.options.keys() - {"name", "language"})
            if strange:
                raise ConfigError(f"{where}: a set of kind {one.kind} has no {strange[0]!r}")
            if one.kind == "texts" and one.compares("audio"):
                raise ConfigError(f"{where}.by: a list of texts has no sound to compare")
            for person in filter(one.compares, PERSONAL):
                raise ConfigError(
                    f"{where}.by: a set of kind {one.kind} has no {person} to compare"
                )
            language = one.options.get("language")
            if language is not None and not isinstance(language, str):
                raise ConfigError(f"{where}.language must be a code, such as en")
            _ = _of_hashes(one, where) if one.kind == "hashes" else _lines(one, where)
            continue
        dataset = _dataset(one, "", where)
        if not entries.holds_recordings(job, dataset):
            raise ConfigError(f"{where}: {one.path} has no recordings")
        if one.compares("speaker") and not _speakers(job, dataset):
            raise ConfigError(
                f"{where}.by: no item of {one.path} states a speaker; set `speaker` as of a "
                "source, or compare voices"
            )
        texts = (any(_texts_of(row)) for row in _listed(job, dataset))
        if "text" in (one.by or ()) and not any(texts):
            raise ConfigError(
                f"{where}.by: no item of {one.path} has a text; put texts beside its recordings, "
                "or compare only sound (by: [audio])"
            )


def _dataset(one: Excluded, name: str, where: str) -> plugins.Dataset:
    return plugins.Dataset(name, *plugins.resolve_source(one.source, where))


def states(job: Job) -> list[str]:
    """A hash of what each set has now: its file's bytes, or the listing of its recordings."""
    hashes = []
    for number, one in enumerate(job.package.exclude):
        where, state = f"package.exclude.{number}", hashlib.sha256()
        if one.kind in ("texts", "hashes"):
            state.update(_bytes(one, where))
        else:
            for row in _listed(job, _dataset(one, "", where)):
                state.update(repr([row["recording"], row["guard"], row["listed"]]).encode())
        hashes.append(state.hexdigest())
    return hashes


def read(job: Job, heard: bool = True) -> list[HeldOut]:
    """All sets, in the order of the settings, each named as given, or after its path; without
    `heard`, only what their sources state."""
    sets = []
    for number, one in enumerate(job.package.exclude):
        name = str(one.options.get("name") or Path(one.path).stem)
        items = _items(job, one, name, f"package.exclude.{number}", heard)
        sets.append(HeldOut(name, items, one.voice_cosine))
    return sets


def write(test_set: HeldOut, path: Path) -> None:
    """Write a set as a file of hashes, to be shared and named by `{kind: hashes, path: …}`."""
    buffer = io.BytesIO()
    items = test_set.items.select(HASHED)
    pq.write_table(items.replace_schema_metadata({KIND: LAYOUT}), buffer)
    storage.write_atomic(path, buffer.getvalue())


def _items(job: Job, one: Excluded, name: str, where: str, heard: bool) -> pa.Table:
    if one.kind == "hashes":
        items = _of_hashes(one, where)
        some = pa.array(np.zeros(len(items), bool))
        for kind, column in (("text", "high"), ("audio", "print")):
            if one.compares(kind):
                some = pc.or_(some, items[column].is_valid())
        return items.filter(some)
    if one.kind == "texts":
        stated = one.options.get("language")
        lines = enumerate(_lines(one, where), 1)
        texts = {f"line {number}": (text, stated) for number, text in lines if text.strip()}
        return _of_texts(texts, one.min_words, name)
    dataset = _dataset(one, name, where)
    parts = []
    rows = [*_listed(job, dataset)]
    if one.compares("text"):
        texts = {item: text for row in rows for item, text in _texts_of(row)}
        parts.append(_of_texts(texts, one.min_words, name))
        if heard and not texts:
            log.warning("package.exclude: %s has no texts, so only its sound is compared", name)
    if heard and (one.compares("audio") or one.compares("voice")):
        parts.append(_of_sounds(job, one, rows, name))
    if one.compares("speaker"):
        first = _speakers(job, dataset)
        parts.append(_table([*first.values()], speaker=[*first]))
    return pa.concat_tables([_table([]), *parts])


def _table(items: list[str], **columns: object) -> pa.Table:
    """ITEMS with these columns, null in others."""
    nothing = [None] * len(items)
    values = {"item": items, **columns}
    return pa.table(
        [pa.array(values.get(field.name, nothing), field.type) for field in ITEMS], schema=ITEMS
    )


def _speakers(job: Job, dataset: plugins.Dataset) -> dict[str, str]:
    """The first recording of each speaker whom a set names, by speaker."""
    first: dict[str, str] = {}
    for row in _listed(job, dataset):
        parts = speakers_of(row) or ()
        for name in (row["speaker"], *(part.speaker for part in parts)):
            if name:
                first.setdefault(name, row["recording"])
    return first


def _listed(job: Job, dataset: plugins.Dataset) -> Iterator[RecordingRow]:
    for batch in entries.listed_now(
        replace(job, speakers=Plugin(use="none")), dataset, SkippedEntries()
    ):
        yield from batch.rows.to_pylist()


def _texts_of(row: RecordingRow) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """(item, (text, language)) of a recording and its segments."""
    if row["text"]:
        yield row["recording"], (row["text"], row["language"])
    for number, segment in enumerate(row["segments"] or (), 1):
        if segment["text"]:
            item = f"{row['recording']}#{segment['source_id'] or number}"
            yield item, (segment["text"], segment["language"] or row["language"])


@cache
def _numbered() -> list[str]:
    """Rules for a text with figures of an unknown language: languages read these differently."""
    return ["", *sorted(code for code in languages.CODES if languages.of(code).decimal)]


def _of_texts(texts: Mapping[str, tuple[str, str | None]], least: int, name: str) -> pa.Table:
    """ITEMS of texts with their languages, by item; those with fewer words than `least` are left
    out."""
    pairs = []
    for item, (text, language) in texts.items():
        rules = _numbered() if any(map(str.isdecimal, text)) else UNKNOWN
        forms = {normalise(unmarked(text), code) for code in ([language] if language else rules)}
        pairs += [(item, form) for form in sorted(forms) if form]
    sketches = text_sketches.sketched(pa.array([form for _, form in pairs], pa.string()))
    enough = sketches.words >= least
    bands = [row.tobytes() if long else None for row, long in zip(*sketches[:2:-1], strict=True)]
    named = [item for item, _ in pairs]
    table = _table(named, high=sketches.high, low=sketches.low, bands=bands)
    table = table.filter(pa.array(enough))
    if short := len(texts) - len(set(table["item"].to_pylist())):
        log.warning(
            "package.exclude: %s of %s with fewer than min_words (%d) words %s compared with "
            "nothing: many clips say them",
            counted(short, "text"),
            name,
            least,
            "is" if short == 1 else "are",
        )
    return table


def _of_sounds(job: Job, one: Excluded, rows: Iterable[RecordingRow], name: str) -> pa.Table:
    """ITEMS of the recordings of a set, cut as the job cuts its own: their sounds and voices."""
    from ...stages import filter as cutting  # decodes: heavy to import
    from ...stages import probe
    from ...stages.contract import OfRecording

    wanted = [fingerprinting(job)] if one.compares("audio") else []
    wanted += [Plugin(use=VOICE)] if one.compares("voice") else []
    changed: dict[str, object] = {"filters": tuple(wanted)}
    segmenter, settings = plugins.SEGMENTERS.resolve(job.filter.segmenter)
    if segmenter.hears(settings) or segmenter.HOLDS_TURNS:  # it would need a recogniser or turns
        changed["segmenter"] = Plugin(use="auto")
    settings_of_cuts = job.filter.model_copy(update=changed)
    measuring = replace(job, speakers=Plugin(use="none"), cache_bytes=0, filter=settings_of_cuts)
    items, unreadable = list[str](), list[str]()
    prints, voices = list[bytes | None](), list[bytes | None]()
    probed = probe.compute([OfRecording(row) for row in rows], measuring)
    for recording in (row for some in probed for row in some):
        if recording["error_code"]:
            unreadable.append(recording["source_path"])
            continue
        [rows_of_cut] = cutting.compute([cutting.Unit(recording, "", None)], measuring)
        cuts = [cast(CutRow, row) for row in rows_of_cut if "cut" in row]
        if any(cut.get("error_code") for cut in cuts):
            unreadable.append(recording["source_path"])
        spoken = [cut for cut in cuts if cut["kind"] == "utterance"]
        for cut in spoken:
            stored = dict(cut.get("prints") or ())
            heard = stored.get(FINGERPRINTS), stored.get(EMBEDDED)
            start, end = (cut[edge] / cut["rate"] for edge in ("start", "end"))
            span = f" {start:.2f}-{end:.2f} s" if len(spoken) > 1 else ""
            for sound, voice in ((heard[0], None), (None, heard[1])):
                if sound or voice:
                    items.append(recording["recording"] + span)
                    prints.append(sound)
                    voices.append(voice)
    if unreadable:
        log.warning(
            "package.exclude: %s of %s cannot be read, so that their sound is compared with "
            "nothing, such as %s",
            counted(len(unreadable), "recording"),
            name,
            unreadable[0],
        )
    return _table(items, print=prints, voice=voices)


FINGERPRINTS = "duplicate"  # the filter that takes them
VOICE = "voice"  # the filter that embeds them
EMBEDDED = key(VOICE, "voice_embedding")


def fingerprinting(job: Job) -> Plugin:
    """The job's filter that takes fingerprints, or that filter with its defaults."""
    chosen = (plugin for plugin in job.filter.filters if plugin.use == FINGERPRINTS)
    return next(chosen, Plugin(use=FINGERPRINTS))


def _bytes(one: Excluded, where: str) -> bytes:
    try:
        with open(one.path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{where}: {one.path} cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{where}: {one.path} has more than {MOST_BYTES >> 20} MiB")
    return data


def _lines(one: Excluded, where: str) -> list[str]:
    try:
        text = _bytes(one, where).decode("utf-8-sig")
    except ValueError:
        raise ConfigError(f"{where}: {one.path} is not text in UTF-8") from None
    lines = text.splitlines()
    if not any(line.strip() for line in lines):
        raise ConfigError(f"{where}: {one.path} has no texts")
    return lines


def _of_hashes(one: Excluded, where: str) -> pa.Table:
    try:
        table = pq.read_table(io.BytesIO(_bytes(one, where)))
        if (table.schema.metadata or {}).get(KIND) != LAYOUT:
            raise ValueError("no hashes")
        items = table.select(HASHED).replace_schema_metadata(None)
        for name in PERSONAL:
            items = items.append_column(name, pa.nulls(len(items)))
        items = items.cast(ITEMS)
    except (pa.ArrowException, ValueError, KeyError):
        raise ConfigError(
            f"{where}: {one.path} is not a file of hashes; `uttermill test-set` writes one"
        ) from None
    return items


Owner = tuple[int, str]  # the index of a set, and an item of it


def having(sets: Sequence[HeldOut], column: str) -> tuple[list[Owner], pa.Table]:
    """The items of all sets that have a value in this column."""
    owners, parts = list[Owner](), [ITEMS.empty_table()]
    for number, one in enumerate(sets):
        parts.append(one.items.filter(one.items[column].is_valid()))
        owners += [(number, item) for item in parts[-1]["item"].to_pylist()]
    return owners, pa.concat_tables(parts)


def texts_of(sets: Sequence[HeldOut]) -> tuple[list[Owner], Sketches]:
    """The texts of all sets, and their sketches."""
    owners, whole = having(sets, "high")
    long = whole["bands"].is_valid().to_numpy()
    bands = np.zeros((len(whole), text_sketches.BANDS), np.uint64)
    data = b"".join(whole["bands"].drop_null().to_pylist())
    bands[long] = np.frombuffer(data, "<u8").reshape(-1, text_sketches.BANDS)
    words = np.zeros(len(whole), np.int64)  # counted before
    high, low = (whole[name].to_numpy() for name in ("high", "low"))
    return owners, Sketches(words, high, low, long, bands)
