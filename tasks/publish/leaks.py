"""Counts the clips of dev and test that share a text, speaker, recording or samples with train.

Counted for each version with splits, whatever `package.disjoint` is; what it keeps apart has no
leaks. Near-equal texts count as equal, as for splits. With `package.leaks_by_voice`, a clip of an
unknown speaker shares one with clips of the same voice, by average linkage of their embeddings.
"""

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import storage
from ..base.schema import UTTERANCES_FILE
from ..scoring import near_texts
from ..settings.job import Job
from ..settings.package import REST
from ..speech.linkage import linked as linked_voices
from ..storage import queries, tables
from . import speakers
from .choosing import split_input
from .choosing.components import KINDS, Names
from .choosing.split_input import WORDS
from .corpus import identities, rejections
from .outcomes.shard_batches import ShardBatch
from .speakers import Speakers

COLUMNS = ("id", *split_input.NODES, "split")
TURNS = "turns"  # column of versions whose clips hold several turns: who else speaks in a clip
#: Kinds of names in the database, and how dataset.json calls them.
NAMES = {"text": "text", "speaker": "speaker", "recording": "recording", "pcm": "audio"}

VOICE = "voice"  # a kind of names: the group of clips with one voice
ONE_VOICE = 0.5  # least mean cosine of the clips of one voice

AT_ONCE = 1 << 17  # clips whose texts are read together

Leaks = dict[str, dict[str, int | None]]


def columns(stored: Collection[str]) -> list[str]:
    """The columns from which leaks are counted; TURNS only if it is `stored`."""
    return [*COLUMNS, *({TURNS} & {*stored})]


def of_version(
    job: Job, version: Path, splits: Iterable[str], batches: Sequence[ShardBatch]
) -> Leaks:
    table = version / UTTERANCES_FILE
    needed = columns(tables.schema(table).names)
    parts, links = tables.row_groups(table, needed), linked(version, needed)
    memory = job.package.memory, job.scratch
    return of_utterances(splits, parts, *memory, links, voices(job, batches))


def voices(job: Job, batches: Sequence[ShardBatch]) -> Iterator[pa.Table]:
    """The columns id, seconds and voice of utterances with an embedding; none if the settings link
    no voices."""
    for batch in batches if job.package.links_voices else ():
        table = batch.table("heard.arrow", ("id", "seconds", "voice"))
        yield table.filter(pc.is_valid(table["voice"]))


def linked(version: Path, columns: Collection[str]) -> Speakers | None:
    """The speakers across recordings, if a version has turns; else None."""
    if TURNS not in columns:
        return None
    links = version / speakers.FILE
    return speakers.of_tables(tables.row_groups(links) if storage.exists(links) else ())


def of_utterances(
    splits: Iterable[str],
    parts: Iterable[pa.Table],
    memory: str,
    scratch: Path | None,
    linked: Speakers | None = None,
    voices: Iterable[pa.Table] = (),
) -> Leaks:
    """By split except train, and by kind (NAMES), the number of clips whose text, speaker,
    recording or samples are in train too. None for speakers if those of the split or of train are
    all unknown: the same people may be in both.

    `parts`: a version's utterances (`columns`), not read if there is only one split; `memory`:
    limit of the database, which spills to `scratch`; `linked`: the speakers across recordings;
    `voices`: as by `voices`.
    """
    names = sorted(splits)
    if len(names) < 2:
        return {}
    with Names((*KINDS, WORDS, "id", VOICE, "split"), memory, scratch) as clips:
        for part in parts:
            named = split_input.columns_of(part, texts=False)
            words = split_input.words_of(part)
            talking = split_input.talking_in(part, linked)
            named |= {WORDS: words, VOICE: pa.nulls(len(part), pa.string())}
            clips.add({**named, "id": part["id"], "split": part["split"]}, talking)
        _group_texts(clips, memory, scratch)
        _group_voices(clips, voices)
        rows = clips.database.execute(_shared_with_train())
        counts = {name: values for name, *values in rows.fetchall()}
    with_speakers = {name for name, (*_, speakers) in counts.items() if speakers}
    shared: Leaks = {}
    for name in names:
        if name != REST:
            values = counts.get(name, [0] * (len(NAMES) + 1))[:-1]
            shared[name] = dict(zip(NAMES.values(), values, strict=True))
            if name in counts and not {name, REST} <= with_speakers:
                shared[name]["speaker"] = None
    return shared


def _shared_with_train() -> str:
    """SQL: for each split, the number of clips that share a name of each kind (NAMES) with train,
    and the number with a known speaker.
    The speakers of a clip are its own (`clip_names`) and those of its turns (`turn_speakers`)."""
    from_train = f"FROM clip_names WHERE split = {queries.literal(REST)}"
    in_train = {kind: f"SELECT {kind} {from_train} AND {kind} IS NOT NULL" for kind in NAMES}
    in_train["speaker"] += (
        f" UNION SELECT name FROM turn_speakers WHERE row IN (SELECT row {from_train})"
    )
    leaks = {kind: f"{kind} IN ({subquery})" for kind, subquery in in_train.items()}
    turns_leak = f"SELECT row FROM turn_speakers WHERE name IN ({in_train['speaker']})"
    leaks["speaker"] += f" OR row IN ({turns_leak})"
    voices = f"SELECT {VOICE} {from_train} AND {VOICE} IS NOT NULL"  # of whom a name is unknown
    leaks["speaker"] += f" OR {VOICE} IN ({voices} AND speaker IS NULL)"
    leaks["speaker"] += f" OR (speaker IS NULL AND {VOICE} IN ({voices}))"
    counts = ", ".join(f"count(*) FILTER ({leaks[kind]})" for kind in NAMES)
    has_speaker = (
        f"coalesce(speaker, {VOICE}) IS NOT NULL OR row IN (SELECT row FROM turn_speakers)"
    )
    return f"SELECT split, {counts}, count(*) FILTER ({has_speaker}) FROM clip_names GROUP BY split"


def _group_texts(clips: Names, memory: str, scratch: Path | None) -> None:
    """Replace the text of each clip by the number of its group of near-equal texts."""
    rows = np.arange(len(clips), dtype=np.int32)
    pieces = (rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE))
    texts = (clips.named(WORDS, piece) for piece in pieces)
    group = near_texts.groups(texts, memory, scratch)
    with queries.given(clips.database, pa.table({"row": rows, "text_group": group})):
        clips.database.execute(
            "UPDATE clip_names SET text = text_group::VARCHAR FROM given "
            "WHERE given.row = clip_names.row AND text_group >= 0"
        )


def _group_voices(clips: Names, voices: Iterable[pa.Table]) -> None:
    heard = [np.zeros(0, np.int32)]
    weights = np.ones(len(clips))
    with tempfile.TemporaryFile(buffering=0) as file:
        # A clip without a voice is like no other.
        os.truncate(file.fileno(), identities.BYTES * len(clips))
        means = identities.Vectors(file, 0, len(clips))
        for table in voices:
            of_id = "(SELECT row, id FROM clip_names) JOIN given USING (id)"
            table = queries.joined(clips.database, table, f"SELECT row, given.* FROM {of_id}")
            rows = table["row"].to_numpy()
            vectors = rejections.vectors(table["voice"]).astype("<f2")
            means.put(
                rows, [vector.tobytes() for vector in vectors], np.ones(len(rows), np.float32)
            )
            weights[rows] = np.minimum(table["seconds"].to_numpy(), identities.ENOUGH_S)
            heard.append(rows)
        if not len(every := np.concatenate(heard)):
            return
        group = linked_voices(means, weights, ONE_VOICE)
    with queries.given(clips.database, pa.table({"row": every, "voice_group": group[every]})):
        clips.database.execute(
            f"UPDATE clip_names SET {VOICE} = voice_group::VARCHAR FROM given "
            "WHERE given.row = clip_names.row"
        )
