"""Paths that settings and lists name: checked, resolved, and kept inside the source's own store."""

import codecs
import os
import posixpath
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence

from .. import storage
from ..base.errors import ConfigError, ItemError, RunError
from ..recording import Ignored, Recording
from ..recording.file_kinds import HEAD, packing
from ..recording.names import display_text, recording_name, safe_name
from ..storage import bounds, regular, urls
from ..storage.containment import OUT_FOLDERS
from ._lists import Entries, refusal

#: Endings (lower case) of files that programs are still writing.
TEMPORARY = ("~", ".part", ".partial", ".tmp", ".crdownload")

#: Folders (lower case) in which systems keep deleted, former and derived files: recycle bins,
#: snapshots, thumbnails, forks of packed files. A recording in one is a copy, or was thrown away.
SYSTEM_FOLDERS = frozenset(
    {
        *("#recycle", "@recycle", "$recycle.bin", "recycler", "recycled"),
        *("#snapshot", "~snapshot", "@snapshots", "@eadir", "lost+found", "__macosx"),
        *("system volume information", "network trash folder", "temporary items"),
    }
)

OUT_SIGN = os.path.join("manifests", "index.json")
RESULTS = "results_of_uttermill"  # why such files and folders are skipped

#: What other tools write in place of a path: URLs, and WebDataset's `pipe:` commands.
_NO_PATH = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|pipe:)")


def skip_reason(name: str, system_folders: bool = False) -> str | None:
    """Why a file or folder of this name is skipped, or None. `system_folders`: keep those."""
    if name.startswith("."):
        return "hidden"
    lower = name.lower()
    if not system_folders and lower in SYSTEM_FOLDERS:
        return "system_folder"
    return "temporary" if lower.endswith(TEMPORARY) else None


def is_results(folder: str) -> bool:
    """Whether a local folder is one of OUT_FOLDERS of an OUT, where nothing is a recording."""
    home, name = os.path.split(folder)
    return name in OUT_FOLDERS and os.path.isfile(os.path.join(home, OUT_SIGN))


def results_above(path: str) -> str | None:
    """The nearest folder of results that a local path is, or lies in."""
    path = os.path.realpath(path)
    while True:
        if is_results(path):
            return path
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def source_root(path: str) -> tuple[str, os.stat_result]:
    """Absolute path of a source (links kept) and its status. ConfigError if it is not there."""
    if not path:
        raise ConfigError("a source's path is empty")
    try:
        absolute = urls.absolute(urls.checked(path))
        return absolute, urls.status(absolute)
    except (OSError, ValueError, RunError) as error:
        raise refusal(path, f"cannot be read ({_reason(error)}); check the source's path") from None


def _reason(error: Exception) -> str:
    if isinstance(error, RunError):
        return str(error)
    words = error.strerror if isinstance(error, OSError) else None
    return words or "no file can have this name"


def list_file(path: str) -> str:
    """Absolute path of a list. ConfigError if it is not a readable file."""
    absolute, status = source_root(path)
    if not stat.S_ISREG(status.st_mode):
        raise refusal(path, "is not a file; this kind reads one list")
    if storage.is_url(absolute):
        return absolute
    try:
        os.close(regular.read(absolute))
        return absolute
    except OSError as error:
        raise refusal(path, f"cannot be read ({error.strerror})") from None


def text_list(path: str) -> str:
    """`list_file` for a list of text. Also raises ConfigError if it is packed, or not in UTF-8 as a
    whole: else each of its lines would fail."""
    file_path = list_file(path)
    try:
        with urls.streamed(file_path) as file:
            head = file.read(HEAD)
    except OSError as error:  # a server may answer differently now
        raise refusal(path, f"cannot be read ({_reason(error)})") from None
    if packed := packing(head):
        raise refusal(path, f"is {packed}")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise refusal(path, "is text in UTF-16; save it in UTF-8")
    return file_path


class Confined(str):
    """A local folder, for a remote list: the list may only name files below it."""


def list_root(path: str, root: str | None) -> str:
    """Absolute folder that a list's relative paths start from. ConfigError if it is not there."""
    if not root:
        return os.path.dirname(path)
    folder = source_root(root)[0]
    return Confined(folder) if storage.is_url(path) and not storage.is_url(folder) else folder


def resolve(root: str, written: object) -> str:
    """The path that a list means by `written`. ValueError if it is not a path, ItemError
    `unsupported` if it leads to a store, bucket or host that the settings do not name, or out of a
    `Confined` root. `.` and `//` are folded so that two spellings are one file, but never `x/..`,
    which is another folder if `x` is a link."""
    if not isinstance(written, str) or not written.strip():
        raise ValueError("it names no file: a path of audio is expected")
    if len(written) > bounds.MAX_PATH_BYTES:
        raise ValueError(f"a path of {len(written):,} characters; no file can have it")
    if storage.is_url(root):
        return _resolve_object(root, written)
    if _NO_PATH.match(written):
        raise ItemError("unsupported", "a remote address or a command, not a path; fetch it first")
    written = _on_disk(root, written)
    path = os.path.join(root, written)
    below = path.startswith(root.rstrip("/") + "/") and ".." not in path.split("/")
    if isinstance(root, Confined) and not below:
        raise ItemError(
            "unsupported", f"outside {root}: a remote list may name only files below its own folder"
        )
    return path if ".." in path.split("/") else os.path.normpath(path)


def _on_disk(root: str, written: str) -> str:
    """A path as this disk has it, where a list writes it as Windows does, or its accents in the
    other of Unicode's two forms; else as it is written."""
    if written.isascii() and "\\" not in written:
        return written
    slashes = written.replace("\\", "/")
    others = (unicodedata.normalize(form, slashes) for form in ("NFC", "NFD"))
    spellings = (written, slashes, *others)
    return next((s for s in spellings if os.path.lexists(os.path.join(root, s))), written)


def _resolve_object(root: str, written: str) -> str:
    scheme, _, host, *_ = root.split("/")
    bucket = f"{scheme}//{host}"
    if written.startswith(f"{bucket}/"):
        key = written.removeprefix(f"{bucket}/")
    elif _NO_PATH.match(written) or written.startswith("/"):
        raise ItemError("unsupported", f"outside {bucket}, the only place that this list may name")
    else:
        key = posixpath.join(root.removeprefix(bucket).lstrip("/"), written)
    url = f"{bucket}{posixpath.normpath(f'/{key}')}"
    # A bucket's key may contain `?`; for a server, or in a signed link, it begins a query.
    query = r"[?#]|;[^/]*=" if scheme.startswith("http") else r"\?.*="
    if re.search(query, key) or "\0" in url:
        raise ItemError(
            "unsupported",
            "an address with a query or fragment: it may hold a secret, which OUT would keep",
        )
    return url


def listed_name(path: str, written: str, root: str) -> str:
    """Recording name of a listed file: relative to the root if below it, else as written."""
    prefix, is_url = root.rstrip("/") + "/", storage.is_url(path)
    if not is_url and ("/." in path or "//" in path):
        path = os.path.normpath(path)
    if path.startswith(prefix):
        return safe_name(path[len(prefix) :])
    if is_url:
        return safe_name(path.split("/", 3)[3])
    return safe_name(path.lstrip("/") if os.path.isabs(written) else os.path.normpath(written))


# The audio that a table names by a path, or by a name without folder or extension.

#: Folders and extensions to try, first the name as it is.
FOLDERS = (
    *("", "wavs/", "clips/", "wav/", "audio/", "audios/", "mp3/", "data/"),
    *("../", "../wavs/", "../wav/"),
)
EXTENSIONS = ("", ".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".WAV")
LOOKED, ASKED = 20, 3  # names to choose the place of all by; under a URL, each costs requests


#: A place of audio: how a name in a table becomes its path from the root.
AS_WRITTEN = "<name>"


def place_of(root: str, names: Iterable[str], folders: Sequence[str] = FOLDERS) -> tuple[str, int]:
    """The place of most of the first names, and how many it has; (`AS_WRITTEN`, 0) if none."""
    looked = [*names][: ASKED if storage.is_url(root) else LOOKED]
    best, most = AS_WRITTEN, 0
    for before in folders:
        for after in EXTENSIONS:
            place = f"{before}{AS_WRITTEN}{after}"
            present = sum(is_there(root, place.replace(AS_WRITTEN, name)) for name in looked)
            if present == len(looked) > 0:
                return place, present
            if present > most:
                best, most = place, present
    return best, most


def is_there(root: str, written: str) -> bool:
    try:
        urls.state(resolve(root, written))
    except (OSError, ValueError, ItemError):
        return False
    return True


def stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]


# Links in the folder of a source: those that lead out of it are skipped, unless `follow_links` is
# set. Whoever fills a folder could otherwise have any file published that the user can read. What a
# person names is followed: the source's own path, and the lines of a list.

OUTSIDE = "link_outside"


class Boundary:
    """What links in `folder`, an absolute path, may reach: all of it, or anything at all."""

    def __init__(self, folder: str, follow_links: bool = False) -> None:
        self.folder = folder.rstrip("/") or "/"
        #: For `Locator.inside`.
        self.inside = None if follow_links else len(self.folder)
        #: Opens files of the folder for reading.
        self.opener = regular.read if follow_links else regular.read_inside(self.folder)
        self._real = os.path.realpath(self.folder)

    def outside(self, path: str) -> str | None:
        """Where a path in the folder leads, if links lead it out; else None."""
        if self.inside is None:
            return None
        real = os.path.realpath(path)
        if not regular.lies_in(real, self._real):
            return real
        try:
            # A link of /proc may lead elsewhere than it says.
            same = os.path.samestat(os.stat(path), os.lstat(real))
        except OSError:  # a link to nothing, or a loop
            same = True
        return None if same else path

    def left_out(self, relative: str, path: str) -> Ignored | None:
        """The link `path`, if it leads out; `relative` names it in the source."""
        if (target := self.outside(path)) is None:
            return None
        detail = f"it leads to {display_text(target)}; `follow_links: true` takes it"
        return Ignored(recording_name(relative), OUTSIDE, detail)

    def checked(self, entries: Entries) -> Entries:
        """What a list in the folder, or an archive there, names: recordings below the folder are
        confined to it."""
        if self.inside is None:
            yield from entries
            return
        below, last = f"{self.folder.rstrip('/')}/", ""
        for entry in entries:
            if isinstance(entry, Recording) and entry.locator.path.startswith(below):
                path = entry.locator.path
                if path != last and (outside := self.left_out(path[len(below) :], path)):
                    yield outside
                    continue
                entry.locator.inside, last = self.inside, path
            yield entry
