"""Recognises the layouts of known corpora in a folder or file.

A layout's function returns what it finds in a folder, or None unless the folder is certainly one:
its lists have the layout's names and columns, and audio of the first rows exists.
"""

from __future__ import annotations

from collections.abc import Callable

from . import objects, tables, transcripts
from .folders import only_folder
from .rows import Found

#: By name, in the order in which they are tried.
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
    """A local folder or file as `layout`, or as any; None unless it certainly is one. A folder that
    holds only one folder and no audio, as an unpacked archive leaves it, stands for that one."""
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
