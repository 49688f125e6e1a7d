"""Dataset versions: OUT/datasets/v0001 and so on; complete or absent, never changed afterwards.

`latest` names the newest. How they are published depends on the store, see `publication.py`.

Our Parquet files have no checksums, so damage may be read as other values: files that the next
version builds on are first compared with the hashes in dataset.json (`Proved`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from .. import storage
from ..base.errors import ConfigError, RunError, UnsafePlace
from ..base.json_types import DatasetJson, PublishedEntry, parsed
from ..base.logs import log
from ..base.schema import DATASET_FILE
from . import publication, tables
from .publication import VERSION

NEEDED = {"files", "settings"}  # of DatasetJson, in every release


def home(out: Path) -> Path:
    return out / "datasets"


def number(version: Path) -> int:
    return int(version.name[1:])


def numbered(out: Path, number: int) -> Path:
    """The place of a version, published or not."""
    return home(out) / f"v{number:04d}"


def all_of(out: Path) -> list[Path]:
    """Published versions, oldest first."""
    return [*_published(out)][::-1]


def newest(out: Path) -> Path | None:
    """The newest version that has this release's layout."""
    version = next(_published(out), None)
    return version if version and number(version) > foreign_versions(out) else None


def next_number(out: Path) -> int:
    """The number of the version that is published next."""
    return next(map(number, _published(out)), 0) + 1


def _published(out: Path) -> Iterator[Path]:
    """Published versions, newest first."""
    places = sorted(map(home(out).joinpath, _folders(out)), key=number, reverse=True)
    return filter(publication.publisher(out).complete, places)


def _folders(out: Path) -> list[str]:
    """Names of the folders of versions; on an object store, one may not be published."""
    return [*filter(VERSION.fullmatch, storage.store_of(out).folders(home(out)))]


def described(version: Path) -> DatasetJson:
    """dataset.json; ConfigError if the folder is not a version, RunError for damage."""
    try:
        data: DatasetJson = parsed(text_of(version))
    except ValueError:
        raise RunError(differs(version, DATASET_FILE)) from None
    if not isinstance(data, dict) or not data.keys() >= NEEDED:
        raise RunError(differs(version, DATASET_FILE))
    return data


def files(version: Path) -> Mapping[str, PublishedEntry]:
    """Hash and size of each file of a version, by name."""
    return described(version)["files"]


def text_of(version: Path) -> bytes:
    try:
        return storage.read_bounded(version / DATASET_FILE)
    except ValueError:
        raise RunError(differs(version, DATASET_FILE)) from None
    except (FileNotFoundError, NotADirectoryError):
        if not VERSION.fullmatch(version.name) or version.parent.name != "datasets":
            remedy = "; give a folder like OUT/datasets/latest"
        elif not storage.is_folder(version):
            remedy = ": it was removed meanwhile; run the command again"
        else:
            remedy = f", so {_remedy(version)}"
        raise ConfigError(f"{version} holds no {DATASET_FILE}{remedy}") from None


def none_yet(out: Path) -> str:
    return f"{out} holds no dataset version yet; `uttermill run` publishes the first"


def latest(out: Path) -> Path | None:
    """The version that `latest` names."""
    return publication.publisher(out).latest(home(out))


def named(place: Path) -> Path:
    """The version that a place stands for: itself, what `latest` names, or the newest of an OUT."""
    version = publication.publisher(place).follow(place)
    return version if is_version(version) else latest(place) or newest(place) or version


def is_version(place: Path) -> bool:
    return storage.exists(place / DATASET_FILE)


def stage(out: Path, number: int) -> Path:
    """The staging folder of a version, without leftovers of a dead run."""
    return publication.publisher(out).staging(numbered(out, number))


def publish(out: Path, staging: Path, number: int, finished: Path, staged: Collection[str]) -> Path:
    """Publish the staged version, then move `latest`; see `publication.Renamed.publish`."""
    version = numbered(out, number)
    publication.publisher(out).publish(version, staging, finished, staged)
    point_latest(out)
    return version


def lost(version: Path) -> list[str]:
    """Sorted names of files that a version lacks, or that have another size. UnsafePlace for a link
    to nothing."""
    sizes = publication.sizes(version)
    named = (pair for pair in files(version).items() if _is_inside(version, pair[0]))
    return sorted(name for name, entry in named if sizes.get(name) != entry.get("bytes"))


def _is_inside(version: Path, name: str) -> bool:
    try:
        storage.check_name(name)
    except UnsafePlace:
        return False
    try:
        storage.inside(version, name)
    except UnsafePlace:
        if not (version / name).exists():
            raise
        return False  # a link to what somebody has moved; `verify` names it
    return True


def restore(version: Path, staging: Path, finished: Path, names: Collection[str]) -> None:
    """Put these files of a staged version in the place of those that a published one has lost.
    RunError if one was not made again with the bytes that were published. `finished`: see
    `publication.Renamed.publish`."""
    entries, restored = files(version), dict[str, Path]()
    for name in names:
        path = staging / name
        restored[name] = path if storage.exists(path) else finished / name
        if storage.hashed(restored[name]) != (entries[name]["sha256"], entries[name]["bytes"]):
            raise RunError(
                f"{name} of {version.name} is lost, and these libraries do not make it again with "
                f"the published bytes: restore the file, or remove {version}, and the next run "
                f"publishes it again"
            )
    publication.publisher(version).restore(version, restored)


def point_latest(out: Path) -> None:
    """Make `latest` name the newest version; a run that died after publishing may not have."""
    if (version := newest(out)) is not None:
        publication.publisher(out).point(home(out), version)


def check(out: Path) -> None:
    """ConfigError if the next version could not become `latest`."""
    publication.publisher(out).check(home(out))


def clean(out: Path) -> None:
    """Remove what a dead run left of a version; only while holding OUT's lock."""
    publication.publisher(out).clean(home(out))


def beyond(out: Path, keep: int) -> list[Path]:
    """Published versions older than the newest `keep`, except the one that `latest` names."""
    named = latest(out)
    return [path for path in all_of(out)[:-keep] if named is None or path.name != named.name]


class Proved:
    """Opens files of a version for `tables`; RunError for one that differs from the published
    one."""

    def __init__(self, version: Path) -> None:
        self.version = version
        self.files = files(version)

    @contextmanager
    def __call__(self, path: Path) -> Iterator[pa.NativeFile]:
        with tables.arrow(path) as file:
            if not self._is_whole(path, file):
                raise RunError(differs(self.version, self.name_of(path)))
            yield file

    def holds(self, name: str) -> bool:
        """Whether the version has a file of this name, unchanged since it was published."""
        try:
            path = storage.inside(self.version, name)
            with tables.arrow(path) as file:
                return self._is_whole(path, file)
        except (FileNotFoundError, UnsafePlace):
            return False

    def name_of(self, path: Path) -> str:
        return path.relative_to(self.version).as_posix()

    def _is_whole(self, path: Path, file: pa.NativeFile) -> bool:
        entry = self.files.get(self.name_of(path))
        if entry is None or file.size() != entry["bytes"]:
            return False
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        return bool(digest == entry["sha256"])


def differs(version: Path, name: str) -> str:
    """The error for a file of a version that differs from what was published."""
    return (
        f"{name} of {version.name} is not the file that was published (size or hash differs), so "
        f"{_remedy(version)}; `uttermill verify` names everything that differs"
    )


def _remedy(version: Path) -> str:
    return (
        f"no version can build on it: restore the file, or remove {version}, and the next run "
        f"builds on the version before"
    )


@contextmanager
def reading(version: Path | None) -> Iterator[None]:
    """For commands that only read: inside, an error from a damaged table or a missing file of the
    version becomes a RunError, one from its removal meanwhile a ConfigError."""
    try:
        yield
    except (OSError, pa.ArrowException):
        if version is None:
            raise
        proved, present = Proved(version), {*storage.store_of(version).tree(version)}
        for name in proved.files:
            is_table = name.split("/")[0].endswith(".parquet")
            if name not in present or (is_table and not proved.holds(name)):
                raise RunError(differs(version, name)) from None
        raise


@contextmanager
def steady(out: Path) -> Iterator[None]:
    """Warn if a run or a prune has changed OUT's versions inside."""
    before = _folders(out)
    yield
    if _folders(out) != before:
        log.warning(
            "versions of %s came or went while it was read, so these numbers may be of two states; "
            "run the command again",
            out,
        )


# The layout of an OUT: one number for its files, and for the code that makes what is in them.
#
# OUT/manifests/layout holds the number of the release that wrote OUT, and the last version that
# another layout published; if it is lost, the newest version's dataset.json tells both.
#
# Raise LAYOUT when a change to the code alters what a stage stores, how it is stored, or what is
# published: decoding, cutting, resampling, scoring, columns, names. (A change to a plug-in raises
# its VERSION instead.) A run on an OUT of another layout removes the checkpoints, and publishes as
# if there were no versions yet; these stay. OUT may hold folders `manifests` and `audio` of others:
# only what lies where runs store it is removed.


LAYOUT = 2
LAYOUT_FILE = "manifests/layout"
STAGES = ("shard", "filter", "resample", "transcribe")
WRITTEN = re.compile(r"(\d{1,9}) (\d{1,9})\n")
SHARD = re.compile(r"shard-\d{6,}")
#: What runs keep beside the shards' checkpoints.
OTHERS = ("manifests/package", "manifests/.listing")
FILES = ("manifests/index.json", "manifests/mixed.json")


def other_layout(out: Path) -> str:
    """How the layout of an OUT differs from this release's, in words; "" if it does not."""
    layout, _ = _layout(out)
    if layout == LAYOUT or (layout is None and not _shards(out, "manifests/shard")):
        return ""
    return f"{out} has the layout of another release: {layout or 'none'}, not {LAYOUT}"


def refuse_other_layout(out: Path) -> None:
    """ConfigError for an OUT of another layout; for commands that look at what runs stored."""
    if sentence := other_layout(out):
        raise ConfigError(f"{sentence}; `uttermill run` computes everything in it once again")


def foreign_versions(out: Path) -> int:
    """The number of the last version that another layout published; 0 if there is none."""
    return _layout(out)[1]


def begin_layout(out: Path, newest: int) -> None:
    """Remove the checkpoints of another layout, and note this release's; `newest`: the number of
    the newest version, 0 without one. Only while holding OUT's lock."""
    sentence, foreign = other_layout(out), foreign_versions(out)
    if sentence:
        foreign = newest
        log.warning("%s; everything is computed once again", sentence)
        store = storage.store_of(out)
        for home in ("audio", *(f"manifests/{stage}" for stage in STAGES)):
            for name in _shards(out, home):
                store.clear(out / home / name)
        for name in OTHERS:
            store.clear(out / name)
        for name in FILES:
            if storage.exists(out / name):
                store.remove(out / name)
    data = f"{LAYOUT} {foreign}\n".encode()
    if not storage.exists(out / LAYOUT_FILE) or storage.read(out / LAYOUT_FILE) != data:
        storage.write_atomic(out / LAYOUT_FILE, data)


def _shards(out: Path, home: str) -> list[str]:
    """Names of the folders of shards in a folder of OUT."""
    return [name for name in storage.store_of(out).folders(out / home) if SHARD.fullmatch(name)]


def _layout(out: Path) -> tuple[int | None, int]:
    """Both numbers of the file; by the newest version, if that is lost or damaged, or there is none
    yet; (None, 0) if neither tells."""
    with suppress(FileNotFoundError, NotADirectoryError):
        written = WRITTEN.fullmatch(storage.read(out / LAYOUT_FILE).decode(errors="replace"))
        if written:
            return int(written[1]), int(written[2])
    for name in sorted(_folders(out), key=lambda name: int(name[1:]), reverse=True):
        try:
            described = storage.read_json(home(out) / name / DATASET_FILE)
            layout = int(described["recipes"]["layout"])
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            break
        return layout, 0 if layout == LAYOUT else int(name[1:])
    return None, 0
