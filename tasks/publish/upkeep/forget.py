"""`forget`: removes recordings, or a speaker's, from everything that OUT stores but versions.

The record comes first, so that whatever happens next, no later version has them. Then rows, PCM and
texts of the recordings go from the checkpoints, which are written anew without them; a shard's
listing goes last, so that the same command finishes what a kill interrupted. A recording in which
the speaker is heard with others is removed as a whole, and so are all copies of its bytes.

Published versions never change: `Answer.versions` names those that still hold such a recording.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ... import storage
from ...base.errors import ConfigError
from ...base.schema import LEDGER_FILE, RECORDINGS, RecordingRow
from ...recording import forgotten
from ...recording.forgotten import Forgotten
from ...recording.names import id_head, utterance_id
from ...shard_store import decision_log, manifest
from ...shard_store.index import Index
from ...stages import compaction
from ...storage import append_log, lock, tables, versions
from ...storage.queries import literal
from ..outcomes.shard_batches import FACTS
from ..published import Dataset

RESULTS = ("transcribe", "filter", "resample")  # texts are found by PCM, which goes last


@dataclass(slots=True)
class Answer:
    recordings: int = 0
    clips: int = 0  # whose PCM was stored
    texts: int = 0  # transcripts, and answers of models
    decisions: int = 0  # by people
    bytes: int = 0  # of files that were removed or became smaller
    versions: list[str] = field(default_factory=list)


def forget(out: Path, recording: str | None, speaker: str | None, when: str) -> Answer:
    """Remove one recording, by its name (`dataset/path`) or source path, or all of one speaker, by
    name or `dataset/speaker`. Requires OUT's lock. ConfigError if OUT knows none."""
    lock.check(out)
    before = forgotten.read(out)
    rows, people = _asked(out, recording, speaker)
    if rows or people:
        names = [row["recording"] for row in rows]
        contents = [row["content"] for row in rows if row["content"]]
        forgotten.add(out, names, contents, people, when)
    elif not _known(out, before, recording, speaker):
        what = f"recording {recording!r}" if recording else f"speaker {speaker!r}"
        raise ConfigError(
            f"{out} knows no {what}; `uttermill ledger {out} --items` lists what it has: give a "
            "recording as dataset/path, or a speaker by name"
        )
    return _purge(out, forgotten.read(out))


def _known(out: Path, before: Forgotten, recording: str | None, speaker: str | None) -> bool:
    """Whether it was removed earlier."""
    if recording is not None:
        return before.names(recording)
    if speaker is None or forgotten.name_hash(speaker) in before.speakers:
        return speaker is not None
    datasets = (table["dataset"].unique().to_pylist() for table in manifest.listings(out))
    return any(before.speaks(dataset, speaker) for some in datasets for dataset in some)


def _asked(
    out: Path, recording: str | None, speaker: str | None
) -> tuple[list[RecordingRow], set[str]]:
    """The listed recordings to remove, with all channels and copies of their files; and the
    speakers, as `dataset/speaker`."""
    heard = _heard(out, speaker) if speaker is not None else set()
    rows, people = list[RecordingRow](), set[str]()
    files, contents = set[str](), set[str]()
    for table in manifest.listings(out):
        for row in table.to_pylist():
            if recording is not None:
                file = forgotten.file_of(row["recording"])
                chosen = recording in (row["recording"], row["source_path"], file)
            else:
                turns = (*(row["segments"] or ()), *(row.get("rttm") or ()))
                names = {row["speaker"], *(one["speaker"] for one in turns)} - {None}
                named = {f"{row['dataset']}/{name}" for name in names}
                named = {one for one in named if speaker in (one, one.split("/", 1)[1])}
                people |= named
                chosen = bool(named) or row["recording"] in heard
            if chosen:
                files.add(forgotten.file_of(row["recording"]))
                contents |= {row["content"]} - {None}
    for table in manifest.listings(out) if files else ():
        for row in table.to_pylist():
            if forgotten.file_of(row["recording"]) in files or row["content"] in contents:
                rows.append(row)
    return rows, people


def _heard(out: Path, speaker: str) -> set[str]:
    """The recordings in which the newest version has a speaker, also one that a diarizer found."""
    newest = versions.newest(out)
    if newest is None:
        return set()
    names = "(speaker, concat(dataset, '/', speaker))"
    sql = f"SELECT DISTINCT recording FROM utterances WHERE {literal(speaker)} IN {names}"
    return {*Dataset(newest).query(sql)["recording"].to_pylist()}


def _purge(out: Path, gone: Forgotten) -> Answer:
    """Remove everything that is recorded, whenever that was."""
    answer, store = Answer(), storage.store_of(out)
    for version in versions.all_of(out):
        recordings = tables.read(version / LEDGER_FILE, columns=["recording"])["recording"]
        if any(map(gone.names, filter(None, recordings.unique().to_pylist()))):
            answer.versions.append(version.name)
    store.remove_tree(out / "manifests" / "package" / FACTS)
    for folder in store.folders(out / "runs"):
        store.remove(out / "runs" / folder / "report.html")
    for shard in manifest.shards(out):
        listed = manifest.listed(out, shard)
        is_gone = gone.rows(listed)
        if is_gone.any():
            rows = listed.filter(pa.array(is_gone)).to_pylist()
            answer.decisions += _purge_decisions(out, rows)
            names = {*listed["recording"].filter(pa.array(is_gone)).to_pylist()}
            _purge_shard(out, shard, names, answer)
            stays = listed.filter(pa.array(~is_gone)).cast(RECORDINGS)
            manifest.commit(out, "shard", shard, stays, RECORDINGS, {})
            answer.recordings += int(is_gone.sum())
        # An interrupted removal leaves older listings, too.
        listings = manifest.read(out, "shard", shard)
        _remove(out, [p.path for p in listings[:-1] if gone.rows(p.table).any()], answer)
    return answer


def _purge_shard(out: Path, shard: str, names: set[str], answer: Answer) -> None:
    """Write the files of a shard's results anew without some recordings. Texts that belong to no
    PCM of others go, too: answers of language models, which may be of any clip."""
    gone = pa.array(sorted(names), pa.string())

    def of_others(table: pa.Table) -> pa.ChunkedArray:
        return pc.invert(pc.is_in(table["recording"], gone))

    pcm = [part.table for part in manifest.read(out, "resample", shard)]
    others = {name for t in pcm for name in t["audio"].filter(of_others(t)).to_pylist()}
    heard = pa.array(sorted(others), pa.string())
    for stage in RESULTS:
        for path in manifest.files(out, stage, shard):
            parts = manifest.open_parts(path)
            kept, dropped = list[pa.Table](), list[pa.Table]()
            for table in (part.table for part in parts):
                of_texts = stage == "transcribe"
                stays = pc.is_in(table["audio"], heard) if of_texts else of_others(table)
                kept.append(table.filter(stays))
                dropped.append(table.filter(pc.invert(stays)))
            if not (count := sum(map(len, dropped))):
                continue
            if stage == "resample":
                blobs_of = {name for table in dropped for name in table["blob"].to_pylist()}
                kept = compaction.moved(out, shard, kept, blobs_of - {None})
                answer.clips += count
            answer.texts += count if stage == "transcribe" else 0
            if any(map(len, kept)):
                holds = [(part.name, len(t)) for part, t in zip(parts, kept, strict=True)]
                meta: manifest.Footer = {**parts[0].meta, "holds": holds}
                whole = pa.concat_tables(kept).replace_schema_metadata(None)
                number = manifest.number_of(path.name)
                manifest.commit(out, stage, shard, whole, whole.schema, meta, number)
            _remove(out, [path], answer)
    parts = manifest.read(out, "resample", shard)
    _remove(out, compaction.unnamed(out, shard, parts), answer)


def _remove(out: Path, paths: Sequence[Path], answer: Answer) -> None:
    if paths:
        answer.bytes += sum(
            file.size for path in paths for file in storage.store_of(out).files(path)
        )
        Index(out).forget(path.relative_to(out).as_posix() for path in paths)
        for path in paths:
            storage.remove(path)


def _purge_decisions(out: Path, rows: Sequence[RecordingRow]) -> int:
    """Remove decisions by people on utterances of these recordings, with their texts and notes;
    returns how many."""
    heads = {
        id_head(utterance_id(row["dataset"], row["path"], 0, 0, key))
        for row in rows
        for key in {None, row["source_id"], *(one["source_id"] for one in row["segments"] or ())}
    }
    data = decision_log.stored(out)
    decisions = decision_log.read(data)
    stay = [one for one in decisions if id_head(one.id) not in heads]
    if count := len(decisions) - len(stay):
        lines = b"".join(map(decision_log.line, stay))
        append_log.replace(decision_log.path(out), out / decision_log.FOLDER, lines)
    return count
