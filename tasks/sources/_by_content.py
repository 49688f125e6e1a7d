"""Whether a file in a folder or an archive is a recording: by its ending, and for `.ts` by its
first bytes, since TypeScript shares that ending with transport streams."""

from __future__ import annotations

from collections.abc import Callable

from ..base.errors import ItemError
from ..recording.file_kinds import is_transport_stream, known
from ..storage import regular, urls

#: Bytes that identify a transport stream.
_HEAD = 4 * 188

#: (path or URL, most bytes) -> the first bytes of a file. Raises OSError or ItemError.
ReadFile = Callable[[str, int], bytes]


def first_bytes(path: str, most: int, opener: regular.Opener = regular.read) -> bytes:
    """All bytes of a file or object, or the first `most`."""
    if urls.is_url(path):
        with urls.streamed(path) as file:
            return file.read(most)
    with open(path, "rb", opener=opener) as file:
        return file.read(most)


def is_recording(name: str, path: str, read: ReadFile = first_bytes) -> bool:
    """`path`: where the file `name` is, as `read` takes it. A `.ts` that cannot be read counts as
    one, so that its fault is reported."""
    if known(name):
        return True
    if not name.lower().endswith(".ts"):
        return False
    try:
        return is_transport_stream(read(path, _HEAD))
    except regular.NotAFile:
        return False
    except (OSError, ItemError):
        return True
