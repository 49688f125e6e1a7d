"""Names of recordings and files as valid UTF-8 text: exact, unique and reversible. Python decodes
bytes that are not UTF-8 with surrogate escapes (`os.fsdecode`), which manifests, JSON and terminals
cannot hold."""

import hashlib
import os
import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

REST = "!rest"  # suffix for the part of a container that could not be listed
_ESCAPE = re.compile(rb"\\x[0-9a-f]{2}")

#: A valid name that ends like a hashed one is hashed too, so that no file can forge another's name.
_LOOKS_HASHED = re.compile(r"~[0-9a-f]{12}\Z")


def printable(path: str) -> str:
    """A file name as valid UTF-8 for manifests: unchanged if it is valid, without `\\xNN`. In
    others, bytes that are not UTF-8 become `\\xNN`, and every backslash `\\x5c`."""
    raw = os.fsencode(path)
    shown = raw.replace(b"\\", rb"\x5c").decode("utf-8", "backslashreplace")
    try:
        return shown if _ESCAPE.search(raw) else raw.decode("utf-8")
    except UnicodeDecodeError:
        return shown


def display_text(raw: str) -> str:
    """`printable`, extended to lone surrogates from JSON that no file name can hold."""
    try:
        return printable(raw)
    except UnicodeEncodeError:
        return raw.encode("utf-8", "backslashreplace").decode("utf-8")


def is_utf8(raw: str) -> bool:
    """Whether a string encodes as UTF-8: it holds neither surrogate escapes nor lone surrogates."""
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def recording_name(raw: str) -> str:
    """The dataset's name of a recording from its raw relative path: valid UTF-8, unique. Invalid
    ones are escaped and get a hash of their bytes, so that the byte 0xFF and a file literally
    called `\\xff` differ."""
    if is_utf8(raw) and not ("~" in raw and _LOOKS_HASHED.search(raw)):
        return raw
    return _hashed(display_text(raw), raw)


def safe_name(raw: str) -> str:
    """`recording_name` for names from keys, tar members and lists: no leading `/`, `.` or `..`. A
    name that had to change gets a hash of the original."""
    kept = "/".join(part for part in raw.split("/") if part not in ("", ".", ".."))
    if raw and kept == raw:
        return recording_name(raw)
    return _hashed(display_text(kept) or "unnamed", raw)


def _hashed(shown: str, raw: str) -> str:
    return f"{shown}~{hashlib.sha256(raw.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


# Utterance ids: stable across runs, unique, and safe as tar member names in every reader.


_UNSAFE_IN_IDS = re.compile(r"[^A-Za-z0-9_-]+")
_STEM = 28  # characters of the path kept for people; the hash makes ids unique


def utterance_id(
    dataset: str, path: str, start: float, end: float, source_id: str | None = None
) -> str:
    """`<dataset>-<end of the path>-<hash16>-<start ms>-<end ms>`, at most 100 characters.

    Matches `[A-Za-z0-9_-]+`: WeNet splits a member's name at the last dot, WebDataset at the first,
    and USTAR names hold 100 bytes. The hash covers dataset, path and the source's own key, because
    cleaning may make two paths equal, and is always present, so that an id never depends on other
    recordings. With 32 bits, ids would collide among a million clips of equal length whose names
    hold no ASCII.
    """
    head = _id_head(dataset, path, source_id or "")
    return f"{head}-{round(start * 1000):08d}-{round(end * 1000):08d}"


@lru_cache(maxsize=16)  # the clips of a recording come in a row
def _id_head(dataset: str, path: str, source_id: str) -> str:
    unique = hashlib.sha256(f"{dataset}\0{path}\0{source_id}".encode()).hexdigest()[:16]
    name, _, tail = path.rpartition(".")
    stem = _UNSAFE_IN_IDS.sub("_", name if name and len(tail) <= 5 else path).strip("_")[-_STEM:]
    return "-".join(filter(None, (dataset[:30], stem, unique)))


def id_head(utterance: str) -> str:
    """The part of an utterance's id that those of its recording or given segment share."""
    return utterance.rsplit("-", 2)[0]


#: The name of a speaker linked over all recordings; it has no dataset.
OVER_ALL = re.compile(r"spk_[0-9a-f]{16}")


def are_over_all(speakers: pa.ChunkedArray | pc.Expression) -> pa.ChunkedArray | pc.Expression:
    """Whether these speakers are linked over all recordings; null for no speaker."""
    return pc.match_substring_regex(speakers, f"^{OVER_ALL.pattern}$")


def speaker_over_all(digest: str) -> str:
    return f"spk_{digest[:16]}"
