"""Reads the tensors of a PyTorch checkpoint without PyTorch and without running the file's code.

The file is a zip: `<root>/data.pkl` is a pickle of the structure, `<root>/data/<key>` the bytes of
each storage. The unpickler builds tensors and ordered mappings; every other name in the pickle
becomes an empty placeholder, so that no code from the file runs.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Float32s

Tensors = dict[str, Float32s]

#: Keys under which a checkpoint may hold its tensors.
_TENSORS = ("state_dict", "model")
_TYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


class _Placeholder:
    """Stands for any object that is not a tensor or a mapping."""

    def __new__(cls, *_: object, **__: object) -> _Placeholder:
        return super().__new__(cls)

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


def read_checkpoint(data: bytes) -> Tensors:
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
