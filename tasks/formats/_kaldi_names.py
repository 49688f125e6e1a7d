"""Names of speakers and utterances in a Kaldi data folder, and its texts.

Kaldi wants `utt2spk` sorted by utterance and, at the same time, by speaker. So an utterance is
named `<speaker>-<id>`, and no speaker's name has a `-`, which sorts before every other character
that a name may have: of `a` and `ab`, all of `a-…` comes first. Speakers belong to a dataset:
`<dataset>_<speaker>`. Characters outside [A-Za-z0-9_] become `_`, and a hash then keeps names
unique. An utterance of an unknown speaker is its own speaker and keeps its plain id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from tasks.recording import ids

_LONGEST = 60  # characters of a speaker's name that are kept for people
#: Words that Kaldi reserves; its script looks for them with `grep -w` in the C locale.
_RESERVED = re.compile(r"(?<!\w)(?:<s>|</s>|#0)(?!\w)", re.ASCII)
_SPACED = {"<s>": "< s >", "</s>": "< /s >", "#0": "# 0"}


def text_of(text: str) -> str:
    """Single spaces only, and none of the words that Kaldi reserves."""
    return _RESERVED.sub(lambda word: _SPACED[word[0]], " ".join(text.split()))


def reserved(tables: Iterable[pa.Table]) -> set[str]:
    """What precedes the first `-` in ids without a speaker. No speaker may have such a name: `a-…`
    of no speaker would be sorted among the utterances of `a`."""
    found: set[str] = set()
    for table in tables:
        for batch in table.select(["id", "speaker"]).to_batches(max_chunksize=65536):
            known = pc.fill_null(pc.not_equal(batch["speaker"], ""), False)
            ids = batch["id"].filter(pc.invert(known))
            found.update(key.partition("-")[0] for key in ids.to_pylist())
    return found


def speaker_name(dataset: str, speaker: str, taken: set[str]) -> str:
    """`<dataset>_<speaker>`; with a hash if that is changed, ambiguous or reserved."""
    if ids.OVER_ALL.fullmatch(speaker):  # of all datasets
        return speaker
    name = f"{dataset}_{speaker}"
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name)[:_LONGEST]
    if plain == name and "_" not in dataset and plain not in taken:
        return name
    digest = hashlib.sha256(f"{dataset}\0{speaker}".encode()).hexdigest()
    return f"{plain}_{digest[:8]}"


def with_names(table: pa.Table, taken: set[str]) -> pa.Table:
    """The table with `name`, the speaker's, and `utterance`, its name for Kaldi."""
    names: dict[tuple[str, str], str] = {}
    speakers, utterances = [], []
    for batch in table.select(["id", "dataset", "speaker"]).to_batches(max_chunksize=65536):
        found, keys = [], []
        columns = (column.to_pylist() for column in batch.columns)
        for key, dataset, speaker in zip(*columns, strict=True):
            if not speaker:
                found.append(key)
                keys.append(key)
                continue
            if (dataset, speaker) not in names:
                names[dataset, speaker] = speaker_name(dataset, speaker, taken)
            found.append(names[dataset, speaker])
            keys.append(f"{found[-1]}-{key}")
        speakers.append(pa.array(found, pa.string()))
        utterances.append(pa.array(keys, pa.string()))
    table = table.append_column("name", pa.chunked_array(speakers, pa.string()))
    return table.append_column("utterance", pa.chunked_array(utterances, pa.string()))
