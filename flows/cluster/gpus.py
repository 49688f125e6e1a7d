"""The GPUs of this machine, by their names in CUDA_VISIBLE_DEVICES. Never initialises CUDA."""

from __future__ import annotations

import os
import re
from types import ModuleType
from typing import Literal

from ...tasks.base.errors import ConfigError
from ...tasks.plugins import gpu

VARIABLE = "CUDA_VISIBLE_DEVICES"
#: An index, or a UUID of a GPU or of a slice of one (MIG, in its two spellings).
NAME = re.compile(r"[0-9]+|(GPU|MIG)-[\w/-]+")

Chosen = Literal["auto", "none"] | tuple[int | str, ...]


def devices(chosen: Chosen) -> tuple[str, ...]:
    if chosen == "none":
        return ()
    if chosen != "auto":
        return tuple(map(str, chosen))
    allowed = visible(os.environ.get(VARIABLE))
    return installed() if allowed is None else allowed


def check_devices(chosen: Chosen) -> None:
    """Raises ConfigError if a list names a GPU that is hidden or does not exist."""
    if not isinstance(chosen, tuple):
        return
    names = devices(chosen)
    allowed = visible(os.environ.get(VARIABLE))
    if allowed is not None and (others := [name for name in names if name not in allowed]):
        raise ConfigError(
            f"cluster.gpus names {', '.join(others)}, but {VARIABLE} here allows "
            f"{', '.join(allowed) or 'no GPU'}; name GPUs as it does, or unset it"
        )
    installed_here = _by_nvml()
    if installed_here is not None and all(map(str.isdecimal, installed_here)):
        beyond = [name for name in names if name.isdecimal() and int(name) >= len(installed_here)]
        if beyond:
            raise ConfigError(
                f"cluster.gpus names {', '.join(beyond)}, but GPUs here are numbered below "
                f"{len(installed_here)}; `nvidia-smi -L` lists them"
            )


def visible(value: str | None) -> tuple[str, ...] | None:
    """Devices that the variable makes visible, None if it is not set; like CUDA, ignores the first
    bad name and all after it."""
    if value is None:
        return None
    names: list[str] = []
    for name in map(str.strip, value.split(",")):
        if not NAME.fullmatch(name) or name in names:
            break
        names.append(name)
    return tuple(names)


def installed() -> tuple[str, ...]:
    """All GPUs of this machine, as NVML lists them, else as the kernel does."""
    listed = _by_nvml()
    if listed is not None:
        return listed
    return tuple(map(str, range(gpu.driver_count())))


def _by_nvml() -> tuple[str, ...] | None:
    """Indices, or UUIDs if a GPU is divided into slices; None without NVML or a driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        count = pynvml.nvmlDeviceGetCount()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        slices = [_slices(pynvml, handle) for handle in handles]
        if not any(slices):
            return tuple(map(str, range(count)))
        # By its index, CUDA would show only one slice of a divided GPU.
        return tuple(
            name
            for handle, some in zip(handles, slices, strict=True)
            for name in (some or [pynvml.nvmlDeviceGetUUID(handle)])
        )
    finally:
        pynvml.nvmlShutdown()


def _slices(pynvml: ModuleType, handle: object) -> list[str]:
    """UUIDs of the slices of a GPU; empty when it is not divided."""
    uuids = []
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
        most = pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) if current else 0
    except pynvml.NVMLError:  # this GPU cannot be divided
        return []
    for index in range(most):
        try:
            part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError:  # no slice has this index
            continue
        uuids.append(pynvml.nvmlDeviceGetUUID(part))
    return uuids
