"""Dataset versions: OUT/datasets/v0001 and so on, complete or not there, never changed after.

`latest` names the newest. How they are published depends on the store, see `publication.py`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path

from tasks import storage
from tasks.dataset import publication
from tasks.errors import ConfigError
from tasks.json_types import JsonObject, PublishedEntry


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
    return next(_published(out), None)


def _published(out: Path) -> Iterator[Path]:
    """Published versions, newest first."""
    published = publication.of(out)
    names = (n for n in storage.of(out).folders(home(out)) if n[:1] == "v" and n[1:].isdigit())
    places = sorted((home(out) / name for name in names), key=number, reverse=True)
    return (place for place in places if published.complete(place))


def described(version: Path) -> JsonObject:
    """dataset.json of a version; ConfigError when the folder is none."""
    data: JsonObject = json.loads(text_of(version))
    return data


def files(version: Path) -> Mapping[str, PublishedEntry]:
    """Hash and size of each file of a version, by its name. Not to be changed: a process parses
    the text of many thousand files once."""
    found: Mapping[str, PublishedEntry] = _parsed(text_of(version))["files"]
    return found


@lru_cache(maxsize=1)
def _parsed(text: bytes) -> JsonObject:
    data: JsonObject = json.loads(text)
    return data


def text_of(version: Path) -> bytes:
    try:
        return storage.read(version / "dataset.json")
    except FileNotFoundError:
        raise ConfigError(
            f"{version} holds no dataset.json; give a folder like OUT/datasets/latest"
        ) from None


def latest(out: Path) -> Path | None:
    """The version that `latest` names."""
    return publication.of(out).latest(home(out))


def named(place: Path) -> Path:
    """The version that a place means: itself, what `latest` is, or the newest of an OUT."""
    version = publication.of(place).follow(place)
    if storage.exists(version / "dataset.json"):
        return version
    return latest(place) or version


def stage(out: Path, number: int) -> Path:
    """The staging folder of a version, without a dead run's leftovers."""
    return publication.of(out).staging(numbered(out, number))


def finishing(
    staging: Path, read: Iterable[str], sizes: Mapping[str, int | None], scratch: Path | None
) -> AbstractContextManager[Path]:
    """A local folder for the last files of a version; see `Publication.finishing`."""
    return publication.of(staging).finishing(staging, read, sizes, scratch)


def publish(out: Path, staging: Path, number: int, finished: Path, staged: Collection[str]) -> Path:
    """Publish the staged version, then move `latest`; see `Publication.publish`."""
    version = numbered(out, number)
    publication.of(out).publish(version, staging, finished, staged)
    point_latest(out)
    return version


def point_latest(out: Path) -> None:
    """Let `latest` name the newest version, as a run that died after publishing could not."""
    if (version := newest(out)) is not None:
        publication.of(out).point(home(out), version)


def clean(out: Path) -> None:
    """Remove a dead run's leftovers of a version; only while holding OUT's lock."""
    publication.of(out).clean(home(out))


def beyond(out: Path, keep: int) -> list[Path]:
    """Published versions older than the newest `keep`; never what `latest` names."""
    named = latest(out)
    return [path for path in all_of(out)[:-keep] if named is None or path.name != named.name]
