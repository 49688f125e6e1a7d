"""Lists in a folder that name its recordings, and that the folder's source does not read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress

from tasks.base.errors import ConfigError, ItemError
from tasks.recording.names import display_text
from tasks.sources import table

MOST_LOOKED = 2000  # entries, of the folder and of those below it
DEPTH = 2
MOST_LISTS = 5
ENDINGS = (*table.ENDINGS, ".jsonl")
KALDI = "wav.scp"


def sentences(root: str) -> Iterator[str]:
    """What takes each list, with its texts, that names audio which is there."""
    count = 0
    for path in _lists(root):
        if count == MOST_LISTS:
            return
        source = os.path.dirname(path) if os.path.basename(path) == KALDI else path
        if _names_audio(path):
            count += 1
            yield (
                f"{display_text(os.path.relpath(path, root))} names recordings and is not read; "
                f"`--source {display_text(shlex.quote(source))}` takes them, with their texts"
            )


def _lists(root: str) -> Iterator[str]:
    folders, left = [(root, 0)], MOST_LOOKED
    for folder, depth in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if not left:
                        return
                    if entry.name == KALDI or entry.name.lower().endswith(ENDINGS):
                        yield entry.path
                    elif depth < DEPTH and entry.is_dir(follow_symlinks=False):
                        folders.append((entry.path, depth + 1))
        except OSError:  # whoever lists the folder says so
            continue


def _names_audio(path: str) -> bool:
    """Whether a list names a file that is there, among its first; Kaldi's may be pipes."""
    with suppress(ConfigError, ItemError, OSError, ValueError):
        return os.path.basename(path) == KALDI or table.names_audio(path)
    return False
