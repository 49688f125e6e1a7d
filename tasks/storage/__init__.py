"""Where folders and object stores differ: places, whole objects, listings, atomic writes.

A place is a `pathlib.Path`, or for a URL (`s3://bucket/key`) a `UPath` of universal-pathlib, which
takes the same steps (`/`, `name`, `parent`) and names the same files. Nothing remote is imported
before a URL is named; any scheme of fsspec will do that puts an object exclusively.

On an object store nothing is renamed: a PUT is atomic, and an object that must not be there before
is put with `If-None-Match: *`. fsspec's memory of listings is off: it would show a store as it was.
A store that is away or refuses us is a RunError; a missing object is a FileNotFoundError.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from tasks import masking
from tasks.errors import ConfigError, RunError
from tasks.storage import copies

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: Answers of S3 to a condition that does not hold, or to two conditional puts at the same time.
_CONDITION = ("PreconditionFailed", "ConditionalRequestConflict")
_ARCHIVED = "InvalidObjectState"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE)
#: Libraries whose errors say that a store is away or refuses us.
_NETWORK = {"botocore", "aiobotocore", "aiohttp", "s3fs", "gcsfs", "google", "adlfs", "azure",
            "asyncio", "requests", "urllib3"}  # fmt: skip
SHA256 = "uttermill-sha256"  # name of the hash among an object's metadata


class Archived(RunError):
    """An object that a store has put away: it cannot be read before it is restored."""


class Seen(NamedTuple):
    """What a listing says of an object; `mark` changes whenever its bytes may have changed."""

    size: int
    mark: str


def is_url(text: str) -> bool:
    return _SCHEME.match(text) is not None


def is_remote(place: Path) -> bool:
    return not isinstance(place, Path)


def place(text: str) -> Path:
    """An absolute place; ConfigError where a URL cannot be used, by its form or for want of a
    library. Nothing is asked of the network yet."""
    if not is_url(text):
        return Path(os.path.abspath(text))
    if text.startswith("file://"):
        return Path(os.path.abspath(text.removeprefix("file://")))
    text = normal(text)
    try:
        import fsspec
        from upath import UPath

        fsspec.get_filesystem_class(text.split("://")[0])
        path = UPath(text, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise ConfigError(no_library(text, error)) from None
    return cast(Path, path)  # it walks like one; its reading and writing is done here


def no_library(text: str, error: Exception) -> str:
    scheme = text.split("://")[0]
    what = f"{scheme}:// needs a library that is not installed ({error})"
    return f"{what}; pip install 'uttermill[s3]' brings s3fs" if scheme == "s3" else what


def normal(url: str) -> str:
    """A URL without a last slash, `.` or `..`; ConfigError where it names an account or nothing."""
    if masking.text(url) != url:
        raise ConfigError(
            f"the URL {masking.text(url)} holds credentials, which would be kept with the results; "
            "give them by the environment (AWS_ACCESS_KEY_ID, say)"
        )
    scheme, _, rest = url.partition("://")
    host, slash, key = rest.partition("/")
    if not host:
        raise ConfigError(f"the URL {url} names no bucket")
    key = posixpath.normpath(f"/{key}").lstrip("/") if slash else ""
    return f"{scheme}://{host}/{key}".rstrip("/")


def files_in(path: Path) -> tuple[Any, str]:
    """fsspec's file system of a remote place, and the path in it."""
    remote = cast(Any, path)
    return remote.fs, str(remote.path).rstrip("/")


@contextmanager
def asked(what: object) -> Iterator[None]:
    """Around whatever asks a store: its faults as ours."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except Exception as error:
        codes = set(_codes(error))
        if codes & {*_CONDITION}:
            raise FileExistsError(str(what)) from error
        if _ARCHIVED in codes:
            raise Archived(f"{what} is in cold storage; restore it") from error
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise RunError(
                f"{what} has no room on this machine: {error.strerror}; copies of what is worked "
                f"on lie in {tempfile.gettempdir()} (TMPDIR)"
            ) from error
        if isinstance(error, PermissionError):
            raise RunError(
                f"{what}: access is refused ({_short(error)}); check the account and its rights"
            ) from error
        if isinstance(error, OSError) or type(error).__module__.split(".")[0] in _NETWORK:
            raise RunError(f"{what} cannot be reached: {_short(error)}") from error
        raise


def _codes(error: BaseException | None) -> Iterator[str]:
    """What S3 said, of an error and of those behind it."""
    while error is not None:
        answer = getattr(error, "response", None)
        if isinstance(answer, dict):
            yield str(answer.get("Error", {}).get("Code"))
        error = error.__cause__


def _short(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__


# Whole files


def read(path: Path) -> bytes:
    if not is_remote(path):
        return path.read_bytes()
    files, key = files_in(path)
    with asked(path):
        data: bytes = files.cat_file(key)
        return data


def put(path: Path, data: bytes, exclusive: bool = False) -> None:
    """One atomic PUT of an object; FileExistsError where it is there and must not be."""
    files, key = files_in(path)
    with asked(path):
        files.pipe_file(key, data, mode="create" if exclusive else "overwrite")


def upload(source: Path, path: Path, sha256: str) -> None:
    """Put a local file where nothing is yet. FileExistsError where something else is; the same
    bytes, of a worker that was thought dead, say, do no harm."""
    files, key = files_in(path)
    about = {"Metadata": {SHA256: sha256}} if "s3" in _protocols(files) else {}
    try:
        with asked(path):
            files.put_file(str(source), key, mode="create", **about)
    except (FileExistsError, FileNotFoundError):
        # The second where the answer to a put in parts was lost: s3fs then gives up an upload that
        # is no more.
        if hashed(path)[0] != sha256:
            raise


def copy_unchanged(old: Path, new: Path, sha256: str, size: int) -> bool:
    """Copy an object within the store; False when it is not the one that was published.

    Where our `upload` left the hash with it, that and the size are proof: whoever writes over an
    object writes over its metadata. Else all of it is read. What is there already stays: a worker
    that wakes up late does not write into a version.
    """
    files, key = files_in(old)
    try:
        if exists(new):
            return hashed(new) == (sha256, size)
        with asked(old):
            there = files.info(key)
            known = files.metadata(key).get(SHA256) if "s3" in _protocols(files) else None
            if there["size"] != size:
                return False
            if known is None and hashed(old)[0] != sha256:
                return False
            if known is not None and known != sha256:
                return False
            files.cp_file(key, files_in(new)[1])
    except FileNotFoundError:
        return False
    return True


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


def hashed(path: Path) -> tuple[str, int]:
    """(sha256, bytes) of a file or an object, read in blocks."""
    if not is_remote(path):
        with path.open("rb", buffering=0) as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest(), handle.tell()
    with asked(path), copies.fetched(*files_in(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()  # type: ignore[arg-type]


def ranges(folder: Path, wanted: Sequence[tuple[str, int, int]]) -> list[bytes | None]:
    """Bytes `low` to `high` of remote files below a folder, all at once; None for one that is not
    there. One that is too short gives what it has."""
    files, key = files_in(folder)
    paths = [f"{key}/{name}" for name, _, _ in wanted]
    low, high = [low for _, low, _ in wanted], [high for _, _, high in wanted]
    found = files.cat_ranges(paths, low, high, on_error="return")
    return [_answer(folder, each) for each in found]


def _answer(folder: Path, found: Any) -> bytes | None:
    if not isinstance(found, Exception):
        return bytes(found)
    try:
        with asked(folder):
            raise found
    except FileNotFoundError:
        return None
    except RunError as error:
        if getattr(found, "errno", None) == errno.EINVAL:  # beyond the end of the object
            return b""
        raise error


def remove(path: Path) -> None:
    """It is gone afterwards, whether it was there or not."""
    if not is_remote(path):
        path.unlink(missing_ok=True)
        return
    files, key = files_in(path)
    with asked(path), suppress(FileNotFoundError):
        files.rm_file(key)


def remove_tree(folder: Path) -> None:
    """Every object under a remote folder."""
    files, key = files_in(folder)
    names = [f"{key}/{name}" for name in tree(folder)]
    plain = [name for name in names if not glob.has_magic(name)]  # fsspec would take it as one
    with asked(folder):
        if plain:
            files.rm(plain)
        for name in sorted({*names} - {*plain}):
            files.rm_file(name)


def forget(folder: Path) -> None:
    """Remove a folder of things that nobody needs any more."""
    if is_remote(folder):
        remove_tree(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def read_all(folder: Path) -> dict[str, bytes]:
    """Every file right in a folder, by name; meant for small ones."""
    if not is_remote(folder):
        return {path.name: path.read_bytes() for path in names(folder)}
    files, key = files_in(folder)
    wanted = [f"{key}/{name}" for name in sizes(folder)]
    with asked(folder):
        found = files.cat(wanted) if wanted else {}
    return {posixpath.basename(name): data for name, data in found.items()}


# Listings


def names(folder: Path, ending: str = "") -> list[Path]:
    """Files right in a folder, by name; none when there is no folder."""
    return [folder / name for name in sorted(sizes(folder)) if name.endswith(ending)]


def sizes(folder: Path) -> dict[str, int]:
    """Names and sizes of the files right in a folder; of a local one sizes are not looked up."""
    if not is_remote(folder):
        try:
            with os.scandir(folder) as found:
                return {entry.name: -1 for entry in found if not entry.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
    return {
        posixpath.basename(entry["name"]): int(entry["size"])
        for entry in _ls(folder)
        if entry["type"] == "file" and not entry["name"].endswith("/")
    }


def folders(folder: Path) -> list[str]:
    """Names of the folders right in a remote folder, sorted."""
    found = (entry for entry in _ls(folder) if entry["type"] == "directory")
    return sorted(posixpath.basename(entry["name"].rstrip("/")) for entry in found)


def _ls(folder: Path) -> list[dict[str, Any]]:
    files, key = files_in(folder)
    with asked(folder):
        try:
            found: list[dict[str, Any]] = files.ls(key, detail=True)
        except FileNotFoundError:
            return []
    return [entry for entry in found if entry["name"].rstrip("/") != key]


def tree(folder: Path) -> dict[str, int]:
    """Sizes of all objects under a remote folder, by relative name."""
    return {name: entry.size for name, entry in under(*files_in(folder)).items()}


def under(files: Any, key: str) -> dict[str, Seen]:
    """The same with their marks, of any of fsspec's file systems."""
    root = key.rstrip("/") + "/"
    with asked(key):
        found = files.find(root, detail=True)
    return {
        name.removeprefix(root): seen(entry)
        for name, entry in found.items()
        if entry["type"] == "file" and name.startswith(root) and not name.endswith("/")
    }


def seen(entry: dict[str, Any]) -> Seen:
    """Size, and a text of all that a store says of an object that changes with its bytes; an empty
    one where it says nothing of the kind."""
    when = _first(entry, "LastModified", "last_modified", "Last-Modified", "mtime", "updated")
    tag = _first(entry, "ETag", "etag", "md5Hash", "Content-MD5", "content_md5")
    size = entry.get("size")
    if size is None or not (when or tag):
        return Seen(size or 0, "")
    at = when.timestamp() if hasattr(when, "timestamp") else when or ""
    return Seen(int(size), f"{size}-{at}-{str(tag or '').strip(chr(34))}")


def _first(entry: dict[str, Any], *names: str) -> Any:
    return next((entry[name] for name in names if entry.get(name)), None)


def size(path: Path) -> int:
    """Bytes of a remote object; 0 when it is gone."""
    files, key = files_in(path)
    with asked(path), suppress(FileNotFoundError):
        return int(files.info(key)["size"] or 0)
    return 0


def is_folder(path: Path) -> bool:
    """Whether there is a folder; a remote one is there while something is in it."""
    return bool(_ls(path)) if is_remote(path) else path.is_dir()


def exists(path: Path) -> bool:
    """Whether there is a file or an object."""
    if not is_remote(path):
        return path.is_file()
    files, key = files_in(path)
    with asked(path):
        try:
            return bool(files.info(key)["type"] == "file")
        except FileNotFoundError:
            return False


# Before a run


def check(out: Path) -> None:
    """ConfigError where a remote OUT cannot be written to and read from."""
    if "memory" in _protocols(files_in(out)[0]):
        raise ConfigError(f"OUT {out} is seen by one process alone; workers are others")
    probe = out / f".writable-{os.getpid()}"
    try:
        put(probe, b"")
        names(out)
        remove(probe)
    except FileNotFoundError as error:
        raise ConfigError(f"OUT {out} cannot be written ({error}); make the bucket") from None
    except RunError as error:
        raise ConfigError(f"OUT cannot be written: {error}") from None
    except NotImplementedError:
        raise ConfigError(f"OUT {out}: what it names can be read only") from None


def reach(path: Path, what: Callable[[Path], Any]) -> Any:
    """`what(path)` for a command that looks; ConfigError where a store is away or refuses us."""
    try:
        return what(path)
    except RunError as error:
        raise ConfigError(str(error)) from None
