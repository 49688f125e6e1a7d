"""Layouts of known corpora, and plain tables: what a folder or file is taken for.

A layout's function gives what it finds in a folder, or None where the folder is not certainly its
own: the lists have its names and columns, and audio of the first rows is there.
"""

from __future__ import annotations

from collections.abc import Callable

from tasks.sources._layouts import objects, tables, transcripts
from tasks.sources._layouts.folders import only_folder
from tasks.sources._layouts.rows import Found

#: By name, in the order in which a folder is tried.
LAYOUTS: dict[str, tuple[Callable[[str], Found | None], ...]] = {
    "m_ailabs": (tables.m_ailabs,),
    "ljspeech": (tables.ljspeech,),
    "common_voice": (tables.common_voice,),
    "audiofolder": (tables.audiofolder,),
    "voxpopuli": (tables.voxpopuli,),
    "mls": (tables.mls,),
    "librispeech": (transcripts.librispeech,),
    "vctk": (transcripts.vctk,),
    "aishell": (transcripts.aishell,),
    "gigaspeech": (objects.corpus,),
    "wenetspeech": (objects.corpus,),
    "emilia": (tables.emilia, objects.emilia_pipe),
}


MOST_WRAPPED = 3  # folders, each alone in the one before


def found_in(path: str, layout: str | None = None) -> Found | None:
    """What a local folder or file is, of this layout or of any; None if it is none for certain. A
    folder that holds no audio and one folder is that one, as an unpacked archive leaves it."""
    inner: str | None = path
    for _ in range(MOST_WRAPPED):
        if inner is None:
            return None
        if (layout_found := _found_in(inner, layout)) is not None:
            return layout_found
        inner = only_folder(inner)
    return None


def _found_in(path: str, layout: str | None) -> Found | None:
    for name, ways in LAYOUTS.items():
        if layout in (None, name):
            for way in ways:
                layout_found = way(path)
                if layout_found is not None and layout in (None, layout_found.layout):
                    return layout_found
    return None
