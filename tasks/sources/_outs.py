"""The folders of an OUT, which hold results: nothing in them is ever a recording."""

from __future__ import annotations

import os

#: What a run makes in its OUT; anything else beside them is the user's own.
FOLDERS = frozenset({"manifests", "audio", "runs", "datasets"})
SIGN = os.path.join("manifests", "index.json")
REASON = "results_of_uttermill"  # of files and folders that are left aside


def is_results(folder: str) -> bool:
    """Whether a local folder is one of FOLDERS of an OUT."""
    home, name = os.path.split(folder)
    return name in FOLDERS and os.path.isfile(os.path.join(home, SIGN))


def above(path: str) -> str | None:
    """The nearest folder of results that a local path is, or lies in."""
    path = os.path.realpath(path)
    while True:
        if is_results(path):
            return path
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent
