"""Raw recordings in, training-ready speech shards out, every second of audio accounted for.

    result = uttermill.prepare({"sources": [{"kind": "folder", "path": "in"}], "out": "out"})
    dataset = uttermill.load("out")

The folders `flows/` and `tasks/` of the source tree are packages of this one, so that only the name
`uttermill` is installed. Names are imported when they are first used.
"""

TYPE_CHECKING = False  # `python -m uttermill.flows.cli` shuts out the current folder after this
if TYPE_CHECKING:
    from .flows.api import Reason, Result, prepare
    from .tasks.base.errors import ConfigError, MillError
    from .tasks.publish.published import Clip, Dataset, load

__all__ = [
    "Clip",
    "ConfigError",
    "Dataset",
    "MillError",
    "Reason",
    "Result",
    "load",
    "prepare",
]

_HOMES = {
    "uttermill.flows.api": ("Reason", "Result", "prepare"),
    "uttermill.tasks.base.errors": ("ConfigError", "MillError"),
    "uttermill.tasks.publish.published": ("Clip", "Dataset", "load"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'uttermill' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
