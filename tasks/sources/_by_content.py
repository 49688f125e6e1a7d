"""Whether a file in a folder is a recording: by its ending, and of `.ts` by its first bytes, since
that is a transport stream's ending and TypeScript's."""

from __future__ import annotations

from contextlib import closing

from tasks.recording.file_kinds import is_transport_stream, known
from tasks.storage import regular, urls

#: Of a stream, this much tells.
_HEAD = 4 * 188


def is_recording(name: str, path: str) -> bool:
    """`path`: where the file `name` is, absolute or a URL. A `.ts` that cannot be read is taken for
    one, so that its fault is told."""
    if known(name):
        return True
    if not name.lower().endswith(".ts"):
        return False
    try:
        with closing(urls.streamed(path)) as file:
            return is_transport_stream(file.read(_HEAD))
    except regular.NotAFile:
        return False
    except OSError:
        return True
