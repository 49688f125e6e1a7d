"""Lists in a folder that name its recordings, and that the folder's source does not read."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress

from ...base.errors import ConfigError, ItemError
from ...recording.names import display_text
from ...storage import urls
from .. import table
from .._folders import some_below
from .._paths import Boundary

MOST_LOOKED = 2000  # entries, of the folder and of those below it
DEPTH = 3
MOST_LISTS = 5
ENDINGS = (*table.ENDINGS, ".jsonl")
KALDI = "wav.scp"
NAMES = ("metadata.", "transcripts.", "transcript.")  # lists of these names may have other endings
PLAIN = (".txt", ".csv.gz", ".tsv.gz", ".jsonl.gz")
#: Lists among other files in JSON, most of which are about one recording.
_JSON = re.compile(
    r"(?:.*[_-])?(?:manifest|train|dev|val|valid|test|data|dataset)(?:[_-].*)?\.json"
)
AUDIO = (b".wav", b".flac", b".mp3", b".ogg", b".opus", b".m4a")
HEAD = 4096  # bytes in which audio is looked for
MISSING = (
    "the audio that it names is not there, or not where it says; name the list itself as a source "
    "(`kind: table`), with `root` and `columns`"
)


def sentences(root: str, boundary: Boundary) -> Iterator[str]:
    """For each list that names existing audio, a sentence with the source that reads it; for one
    that only seems to, why it is not read."""
    count = 0
    for relative in some_below(root, _is_list, depth=DEPTH, most=MOST_LOOKED):
        path = os.path.join(root, relative)
        if boundary.outside(path):
            continue
        if count == MOST_LISTS:
            return
        source = os.path.dirname(path) if os.path.basename(path) == KALDI else path
        name, why = display_text(os.path.relpath(path, root)), ""
        try:
            if os.path.basename(path) == KALDI or table.names_audio(path):  # Kaldi's may be pipes
                count += 1
                yield (
                    f"{name} names recordings and is not read; "
                    f"`--source {display_text(shlex.quote(source))}` takes them, with their texts"
                )
                continue
        except ConfigError as error:
            why = str(error)
        except (ItemError, OSError, ValueError):
            continue
        if os.path.basename(path).lower().startswith(NAMES) or (why and _holds_audio(path)):
            count += 1
            yield f"{name} seems to name recordings and is not read: {why or MISSING}"


def _is_list(name: str) -> bool:
    lower = name.lower()
    named = lower.startswith(NAMES) and lower.endswith(PLAIN)
    return name == KALDI or named or lower.endswith(ENDINGS) or bool(_JSON.fullmatch(lower))


def _holds_audio(path: str) -> bool:
    """Whether the first bytes of a list contain endings of audio."""
    with suppress(OSError), urls.streamed(path) as file:
        head = file.read(HEAD)
        return any(ending in head for ending in AUDIO)
    return False
