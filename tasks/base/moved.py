"""Former names of modules that users' plug-ins import: they work for one release, with a
warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Former module or package, and where it is now.
MOVED = {
    "tasks.arrays": "tasks.base.arrays",
    "tasks.checkpoints": "tasks.shard_store",
    "tasks.environment": "tasks.base.environment",
    "tasks.errors": "tasks.base.errors",
    "tasks.job": "tasks.settings.job",
    "tasks.json_types": "tasks.base.json_types",
    "tasks.language_codes": "tasks.base.language_codes",
    "tasks.logs": "tasks.base.logs",
    "tasks.masking": "tasks.base.masking",
    "tasks.recording.identity": "tasks.recording.locator",
    "tasks.schema": "tasks.base.schema",
    "tasks.served.asking": "tasks.served.client",
    "tasks.speech_rate": "tasks.base.arrays",
    "tasks.weights": "tasks.models",
}


class _Moved(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("tasks.") or now(fullname) is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = str(now(spec.name))
        warnings.warn(
            f"{spec.name} is {name} now; plug-ins import from tasks.api, and the former name goes "
            f"with the next release",
            FutureWarning,
            stacklevel=2,
        )
        module = importlib.import_module(name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Only restore the specification: the module has already run under its new name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def now(former: str) -> str | None:
    """The current name of a renamed module; None if it was not renamed."""
    for old, new in MOVED.items():
        if former == old or former.startswith(f"{old}."):
            return new + former[len(old) :]
    return None


def install() -> None:
    """Make the former names importable in this process."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())  # before the finder that looks in a package's folder
