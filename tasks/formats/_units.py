"""`units.txt`: the characters of the training texts, numbered for WeNet's char tokenizer.

    <blank> 0
    <unk> 1
    <sos/eos> 2
    a 3          a character and its number a line, by code point; `▁` is a blank between words

WeNet splits a line at white space, so no other kind of blank can be a unit: it becomes `<unk>`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from tasks.schema import UTTERANCES_FILE
from tasks.settings.portions import REST
from tasks.storage import tables, write_atomic

NAME = "units.txt"
SPECIAL = ("<blank>", "<unk>", "<sos/eos>")
BLANK = "▁"


def write(home: Path, folder: str) -> None:
    """From the version's texts of `train`; of all splits if there is no `train`."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for part in tables.row_groups(home / UTTERANCES_FILE, ["split", "text"]):
        own = pc.equal(part["split"], REST)
        for is_own, chosen in ((True, own), (False, pc.invert(own))):
            for text in part["text"].filter(chosen).to_pylist():
                found[is_own].update(text.strip())
    text = text_of(found[True] or found[False])
    write_atomic(home / folder / NAME, text.encode())


def text_of(characters: set[str]) -> str:
    letters = sorted({BLANK if c == " " else c for c in characters if c == " " or not c.isspace()})
    return "".join(f"{unit} {number}\n" for number, unit in enumerate((*SPECIAL, *letters)))
