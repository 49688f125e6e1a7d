"""Recognises the layouts of known corpora in a folder or file. A layout's function returns what it
finds, or None unless the folder is certainly one: its lists have the layout's names and columns,
and audio of the first rows exists."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from ...recording.file_kinds import known
from .._archives import is_archive
from .._folders import only_folder, some_below
from .._paths import Boundary
from .._rows import FileRow, Found, Part, of_parts
from . import corpora, objects


def _of_lists(
    layout: str, title: str, parts_in: Callable[[str], Iterator[Part | None]], folder: str
) -> Found | None:
    parts = [part for part in parts_in(folder) if part is not None]
    return of_parts(layout, title, folder, parts) if parts else None


#: By name, in the order in which they are tried.
LAYOUTS: dict[str, tuple[Callable[[str], Found | None], ...]] = {
    "m_ailabs": (partial(_of_lists, "m_ailabs", "M-AILABS", corpora.m_ailabs),),
    "ljspeech": (corpora.ljspeech,),
    "common_voice": (partial(_of_lists, "common_voice", "Common Voice", corpora.common_voice),),
    "audiofolder": (partial(_of_lists, "audiofolder", "AudioFolder", corpora.audiofolder),),
    "voxpopuli": (partial(_of_lists, "voxpopuli", "VoxPopuli", corpora.voxpopuli),),
    "mls": (partial(_of_lists, "mls", "MLS", corpora.mls),),
    "librispeech": (corpora.librispeech,),
    "vctk": (corpora.vctk,),
    "aishell": (corpora.aishell,),
    "gigaspeech": (objects.corpus,),
    "wenetspeech": (objects.corpus,),
    "emilia": (partial(_of_lists, "emilia", "Emilia", corpora.emilia), objects.emilia_pipe),
}


MOST_WRAPPED = 3  # folders, each alone in the one before


def found_in(path: str, layout: str | None = None, follow_links: bool = False) -> Found | None:
    """A local folder or file as `layout`, or as any; None unless it certainly is one. A folder that
    holds only one folder and no audio, as an unpacked archive leaves it, stands for that one."""
    boundary = Boundary(path, follow_links or not os.path.isdir(path))
    inner: str | None = path
    for _ in range(MOST_WRAPPED):
        if inner is None:
            return None
        if (layout_found := _found_in(inner, layout, boundary)) is not None:
            return layout_found
        inner = only_folder(inner)
    return None


def explains(layout: Found) -> bool:
    """Whether a folder's layout accounts for its audio: each folder and archive of recordings lies
    where some of its rows have theirs. Otherwise its lists are those of a part."""
    root = layout.root.rstrip("/") + "/"
    named = (name for name in layout.audio() if isinstance(name, str))
    homes = {os.path.dirname(os.path.normpath(name.strip().removeprefix(root))) for name in named}
    lies = some_below(layout.root, lambda name: known(name) or is_archive(name))
    return all(os.path.dirname(path) in homes for path in lies)


def _found_in(path: str, layout: str | None, boundary: Boundary) -> Found | None:
    for name, ways in LAYOUTS.items():
        if layout in (None, name):
            for way in ways:
                layout_found = way(path)
                if layout_found is not None and layout in (None, layout_found.layout):
                    layout_found = _confined(layout_found, boundary)
                    if layout_found is not None:
                        return layout_found
    return None


def _confined(layout: Found, boundary: Boundary) -> Found | None:
    """The layout without lists that are links out of the folder; None if none is left."""
    if boundary.inside is None:
        return layout
    is_outside: dict[str, bool] = {}

    def leaves(file: str) -> bool:
        if file not in is_outside:
            is_outside[file] = boundary.outside(file) is not None
            if is_outside[file]:
                layout.outside[file] = None
        return is_outside[file]

    parts = tuple(part for part in layout.parts if not leaves(part.file))

    def rows() -> Iterator[FileRow]:
        if layout.parts:
            yield from chain.from_iterable(part.rows() for part in parts)
        else:
            yield from (row for row in layout.rows() if not leaves(row.file))

    confined = replace(layout, rows=rows, parts=parts)
    return confined if parts or [*islice(confined.rows(), 1)] else None
