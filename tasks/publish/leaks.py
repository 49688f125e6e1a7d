"""How many clips of dev and test share a text, speaker, recording or samples with train.

Counted of each version with splits, whatever `package.disjoint` asks: of what it keeps apart, none.
Texts count as one if they are near-equal, as for splits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks import storage
from tasks.base.schema import UTTERANCES_FILE
from tasks.publish import speakers
from tasks.publish.choosing import split_input
from tasks.publish.choosing.components import KINDS
from tasks.publish.choosing.split_input import WORDS
from tasks.publish.name_table import Names
from tasks.publish.speakers import Speakers
from tasks.scoring import near_texts
from tasks.settings.package import REST
from tasks.storage import queries, tables

COLUMNS = (*split_input.NODES, "split")
TURNS = "turns"  # who else speaks in a clip, in versions whose clips hold several turns
NAMES = {"text": "text", "speaker": "speaker", "recording": "recording", "pcm": "audio"}

AT_ONCE = 1 << 17  # clips whose texts are read together

Leaks = dict[str, dict[str, int]]


def columns(stored: Collection[str]) -> list[str]:
    """The columns of utterances that leaks are counted by, of those that are stored."""
    return [*COLUMNS, *({TURNS} & {*stored})]


def of_version(version: Path, splits: Iterable[str], memory: str, scratch: Path | None) -> Leaks:
    """What the splits of a version share with train."""
    table = version / UTTERANCES_FILE
    asked = columns(tables.schema(table).names)
    parts, links = tables.row_groups(table, asked), linked(version, asked)
    return of_utterances(splits, parts, memory, scratch, links)


def linked(version: Path, columns: Collection[str]) -> Speakers | None:
    """Who the people in turns of a version are over all recordings; None: it has no turns."""
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
    """For each split but train, the clips whose text, speaker, recording or audio is in train too.
    `parts`: a version's utterances (`columns`); they are not read if there is one split only.
    Beyond `memory`, tables lie in `scratch`. `linked`: who people in turns are over recordings."""
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
        train = f"FROM named WHERE split = {queries.literal(REST)}"
        in_train = {kind: f"SELECT {kind} {train} AND {kind} IS NOT NULL" for kind in NAMES}
        in_train["speaker"] += f" UNION SELECT name FROM talking WHERE row IN (SELECT row {train})"
        leaking = {kind: f"{kind} IN ({names})" for kind, names in in_train.items()}
        also = f"SELECT row FROM talking WHERE name IN ({in_train['speaker']})"
        leaking["speaker"] += f" OR row IN ({also})"
        shared = ", ".join(f"count(*) FILTER ({leaking[kind]})" for kind in NAMES)
        rows = clips.database.execute(f"SELECT split, {shared} FROM named GROUP BY split")
        counts = {name: values for name, *values in rows.fetchall()}
    return {
        name: dict(zip(NAMES.values(), counts.get(name, [0] * len(NAMES)), strict=True))
        for name in names
        if name != REST
    }


def _group_texts(clips: Names, memory: str, scratch: Path | None) -> None:
    """Name the text of each clip by its group of near-equal ones."""
    rows = np.arange(len(clips), dtype=np.int32)
    pieces = (rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE))
    texts = (clips.named(WORDS, piece) for piece in pieces)
    group = near_texts.groups(texts, memory, scratch)
    with queries.given(clips.database, pa.table({"row": rows, "number": group})):
        clips.database.execute(
            "UPDATE named SET text = number::VARCHAR FROM given "
            "WHERE given.row = named.row AND number >= 0"
        )
