"""Counts the clips of dev and test that share a text, speaker, recording or samples with train.

Counted for each version with splits, whatever `package.disjoint` is; what it keeps apart has no
leaks. Near-equal texts count as equal, as for splits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from .. import storage
from ..base.schema import UTTERANCES_FILE
from ..scoring import near_texts
from ..settings.package import REST
from ..storage import queries, tables
from . import speakers
from .choosing import split_input
from .choosing.components import KINDS
from .choosing.split_input import WORDS
from .name_table import Names
from .speakers import Speakers

COLUMNS = (*split_input.NODES, "split")
TURNS = "turns"  # column of versions whose clips hold several turns: who else speaks in a clip
#: Kinds of names in the database, and how dataset.json calls them.
NAMES = {"text": "text", "speaker": "speaker", "recording": "recording", "pcm": "audio"}

AT_ONCE = 1 << 17  # clips whose texts are read together

Leaks = dict[str, dict[str, int | None]]


def columns(stored: Collection[str]) -> list[str]:
    """The columns from which leaks are counted; TURNS only if it is `stored`."""
    return [*COLUMNS, *({TURNS} & {*stored})]


def of_version(version: Path, splits: Iterable[str], memory: str, scratch: Path | None) -> Leaks:
    """`of_utterances` for a published or staged version."""
    table = version / UTTERANCES_FILE
    needed = columns(tables.schema(table).names)
    parts, links = tables.row_groups(table, needed), linked(version, needed)

    return of_utterances(splits, parts, memory, scratch, links)


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
) -> Leaks:
    """By split except train, and by kind (NAMES), the number of clips whose text, speaker,
    recording or samples are in train too. None for speakers if those of the split or of train are
    all unknown: the same people may be in both.

    `parts`: a version's utterances (`columns`), not read if there is only one split; `memory`:
    limit of the database, which spills to `scratch`; `linked`: the speakers across recordings.
    """
    names = sorted(splits)
    if len(names) < 2:
        return {}
    with Names((*KINDS, WORDS, "split"), memory, scratch) as clips:
        for part in parts:
            named = split_input.columns_of(part, texts=False)
            words = split_input.words_of(part)
            talking = split_input.talking_in(part, linked)
            clips.add({**named, WORDS: words, "split": part["split"]}, talking)
        _group_texts(clips, memory, scratch)
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
    counts = ", ".join(f"count(*) FILTER ({leaks[kind]})" for kind in NAMES)
    has_speaker = "speaker IS NOT NULL OR row IN (SELECT row FROM turn_speakers)"
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
