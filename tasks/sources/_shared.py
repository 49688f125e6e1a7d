"""What the sources share: names that stay unique, files and lists that may be bad.

One rule for lists: a line that cannot be understood, or that names something unusable, is a
`Recording` with an `error` (it counts as failed); what is understood and left out on purpose is
`Ignored`. So rot in a list shows in the failed fraction and is never lost among the ignored.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tasks import masking, recording, storage
from tasks.errors import ConfigError, ItemError, RunError
from tasks.recording import Locator, Recording, printable
from tasks.storage import urls

#: A longer line of a list is a bad line; it is skipped without being held in memory.
MAX_LINE_BYTES = 4 << 20

#: Valid names that look like an escaped one; they get a hash too, so that none can be forged.
_LOOKS_ESCAPED = re.compile(r"~[0-9a-f]{12}\Z")

#: Ends of names (lower case) that programs give to files that they have not finished.
TEMPORARY = ("~", ".part", ".partial", ".tmp", ".crdownload")

#: What other tools put where a path stands: URLs, and WebDataset's `pipe:` commands.
_REMOTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|pipe:)")


def text_of(raw: str) -> str:
    """`printable`, and also safe for lone surrogates that no file name can hold (from JSON)."""
    try:
        return printable(raw)
    except UnicodeEncodeError:
        return raw.encode("utf-8", "backslashreplace").decode("utf-8")


def is_text(raw: str) -> bool:
    """Whether a string is valid Unicode: no bytes that were not UTF-8, no lone surrogates."""
    if raw.isascii():
        return True
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _hashed(shown: str, raw: str) -> str:
    return f"{shown}~{hashlib.sha256(raw.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def name_of(raw: str) -> str:
    """A raw relative name as the name of a recording: valid text, injective, without state.

    Valid UTF-8 stays as it is. Other names are escaped (`\\xNN`) and get a hash of their bytes,
    so that the file `\\xff` and the byte 0xFF differ, whichever of them comes or goes later.
    """
    if is_text(raw) and not _LOOKS_ESCAPED.search(raw):
        return raw
    return _hashed(text_of(raw), raw)


def sane_name(raw: str) -> str:
    """`name_of` for names from outside (keys, tar members, lists): no root, no `.`, no `..`.

    A name that had to be changed gets a hash of the original.
    """
    kept = "/".join(part for part in raw.split("/") if part not in ("", ".", ".."))
    return name_of(raw) if kept == raw != "" else _hashed(text_of(kept) or "unnamed", raw)


def left_out(name: str) -> str | None:
    """Why a name is not even looked at, for files and folders alike."""
    if name.startswith("."):
        return "hidden"
    return "temporary" if name.lower().endswith(TEMPORARY) else None


def failed(path: str, source_path: str, file: str, code: str, detail: str) -> Recording:
    """A recording that the listing itself shows to be bad; `file` is what its bytes would be in."""
    return Recording(path, source_path, Locator(file), 0, "", error=(code, detail))


def trouble(error: OSError) -> tuple[str, str]:
    """(code, detail) for a file that cannot be looked at."""
    gone = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
    code = "missing" if error.errno in gone else "unreadable"
    return code, error.strerror or "cannot be reached"


@dataclass(frozen=True, slots=True)
class Found:
    """What a file that a list names is like: size in bytes and guard, or an error."""

    size: int = 0
    guard: str = ""
    error: tuple[str, str] | None = None


def guard(path: str) -> str:
    """What changes whenever the bytes of a file or an object may have changed; OSError."""
    return urls.look(path).mark if storage.is_url(path) else recording.guard(os.stat(path))


def find(path: str) -> Found:
    """Look at a listed file without opening it."""
    if storage.is_url(path):
        try:
            there = urls.look(path)
            if not there.mark:
                told = "its server tells neither its size nor when it changed"
                return Found(error=("unsupported", told))
            return Found(there.size, there.mark)
        except FileNotFoundError:
            return Found(error=("missing", "no such object"))
    try:
        status = os.stat(path)
    except ValueError:  # a null byte, or a lone surrogate: no file can be called so
        return Found(error=("missing", "no file can have this name"))
    except OSError as error:
        return Found(error=trouble(error))
    if not stat.S_ISREG(status.st_mode):
        return Found(error=("unreadable", "not a file"))
    return Found(status.st_size, recording.guard(status))


def top(path: str) -> tuple[str, os.stat_result]:
    """The absolute top path of a source (links kept) and its status; ConfigError if not there."""
    if not path:
        raise ConfigError("a source's path is empty")
    try:
        absolute = storage.normal(path) if storage.is_url(path) else os.path.abspath(path)
        return absolute, urls.status(absolute)
    except (OSError, ValueError, RunError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        if storage.is_url(path):
            missing = isinstance(error, FileNotFoundError)
            reason = "no such object or folder" if missing else str(error)
        raise ConfigError(
            f"source {text_of(path)!r} cannot be read ({reason}); check the source's path"
        ) from None


def list_file(path: str) -> str:
    """The absolute path of a list, proven to be a readable file; ConfigError if not."""
    absolute, status = top(path)
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"source {text_of(path)!r} is not a file; this kind reads one list")
    if storage.is_url(absolute):
        return absolute
    try:
        with open(absolute, "rb"):
            return absolute
    except OSError as error:
        raise ConfigError(f"source {text_of(path)!r} cannot be read ({error.strerror})") from None


def list_root(path: str, root: str | None) -> str:
    """Absolute folder that a list's relative paths start from; ConfigError if it is not there."""
    return top(root)[0] if root else os.path.dirname(path)


def lines(path: str) -> Iterator[tuple[int, str | None]]:
    """(number from 1, line) of a list, blank lines skipped; None for a line beyond the limit.

    Bytes that are not UTF-8 become surrogate escapes, so that paths stay exact. Only `\\n` and
    `\\r\\n` end a line: Unicode has other separators, and transcripts hold them.
    """
    with urls.lined(path) as file:
        number = 0
        while chunk := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(chunk) > MAX_LINE_BYTES and not chunk.endswith(b"\n"):
                while chunk and not chunk.endswith(b"\n"):
                    chunk = file.readline(MAX_LINE_BYTES)
                yield number, None
                continue
            if number == 1:
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            line = chunk.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            if line.strip():
                yield number, line


def bad_line(file: str, number: int, detail: str, code: str = "unreadable") -> Recording:
    """A line that cannot be used, as a failed recording named `<list>:<line>`."""
    place = line_name(file, number)
    return failed(place, f"{text_of(file)}:{number}", file, code, detail)


def line_name(file: str, number: int) -> str:
    return name_of(f"{os.path.basename(file)}:{number}")


def json_object(line: str) -> dict[str, Any]:
    """A line as a JSON object; ValueError says what is wrong."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {text_of(str(error))}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def located(root: str, written: Any) -> str:
    """The path that a list means; ValueError where it is no path, ItemError where it is remote,
    and not in the bucket that the settings name.

    `.` and `//` are folded so that two spellings are one file, but never `x/..`, which is
    another folder where `x` is a link.
    """
    if not isinstance(written, str) or not written.strip():
        raise ValueError("a path is expected")
    if storage.is_url(root):
        return _in_store(root, written)
    if _REMOTE.match(written):
        raise ItemError("unsupported", "a remote address or a command, not a path")
    path = os.path.join(root, written)
    return path if ".." in path.split("/") else os.path.normpath(path)


def _in_store(root: str, written: str) -> str:
    """An object that a list means; a list sends us nowhere but to the bucket of its root."""
    scheme, host = root.split("/")[0], root.split("/")[2]
    if written.startswith(f"{scheme}//{host}/"):
        key = written.removeprefix(f"{scheme}//{host}/")
    elif _REMOTE.match(written) or written.startswith("/"):
        raise ItemError("unsupported", f"not in {scheme}//{host}, which the settings name")
    else:
        key = posixpath.join(root.removeprefix(f"{scheme}//{host}").lstrip("/"), written)
    url = f"{scheme}//{host}{posixpath.normpath(f'/{key}')}"
    if masking.text(url) != url or "\0" in url:
        raise ItemError("unsupported", "an address with credentials, which would be kept")
    return url


def listed_name(path: str, written: str, root: str) -> str:
    """Name of a listed file: relative to the root if below it, else as written, made sane."""
    if storage.is_url(path):
        inside = path.startswith(root.rstrip("/") + "/")
        return sane_name(path[len(root.rstrip("/")) + 1 :] if inside else path.split("/", 3)[3])
    path = os.path.normpath(path)
    prefix = root.rstrip("/") + "/"
    if path.startswith(prefix):
        return sane_name(path[len(prefix) :])
    if os.path.isabs(written):
        return sane_name(path.lstrip("/"))
    return sane_name(os.path.normpath(written))


def source_text(path: str) -> str:
    """A path for people: absolute, links kept, valid text."""
    if storage.is_url(path):
        return text_of(path)
    return text_of(os.path.abspath(path))


def text_field(value: Any) -> str | None:
    """A text or number of a list as text, None if empty or absent; ValueError if unusable."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"a text is expected, not {type(value).__name__}")
    text = str(value).strip()
    if not is_text(text):
        raise ValueError("a text is not valid UTF-8")
    return text or None


def seconds_field(value: Any) -> float | None:
    """Seconds, finite; None if absent; ValueError if unusable."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("seconds are not a number")
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        raise ValueError("seconds are not a number") from None
    if not math.isfinite(seconds):
        raise ValueError("seconds are not a finite number")
    return seconds


def span(start: float | None, end: float | None) -> tuple[float, float | None]:
    """A checked span; an `end` of -1 (Kaldi) or None means to the end; ValueError if impossible."""
    begin = 0.0 if start is None else start
    finish = None if end == -1 else end
    if begin < 0:
        raise ValueError("the segment starts before 0")
    if finish is not None and finish <= begin:
        raise ValueError("the segment ends before it starts")
    return begin, finish
