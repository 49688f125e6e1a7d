"""The environment of this process: the only module of `tasks/` that reads or sets variables.
Everything that affects a run is in its settings; variables hold values of one process or
machine."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .errors import ConfigError

#: Set by the client that spawns workers; absent where workers are started by hand.
VERSION_VARIABLE = "UTTERMILL_VERSION"
#: Set by a client that spawns workers for one run: the modules that its settings need, as JSON (see
#: `tasks.plugins.loading`). Empty or absent where workers may serve any run.
ENGINES_VARIABLE = "UTTERMILL_ENGINES"
#: Dotted names, separated by commas: see `tasks.plugins.trusted`.
PLUGINS_VARIABLE = "UTTERMILL_PLUGINS"
ANY_PLUGIN = frozenset({"*"})  # among them: any name
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def no_telemetry() -> None:
    """Keep ONNX Runtime from starting its telemetry client when it is imported."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def visible_gpus() -> str | None:
    """CUDA_VISIBLE_DEVICES: GPU names separated by commas, "" for none, None for all."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def client_version() -> str | None:
    """Version of the client that spawned this worker."""
    return os.environ.get(VERSION_VARIABLE)


def engines() -> dict[str, str] | None:
    """Modules that this worker loads before its first task, each with an attribute whose first read
    loads it. None: everything that any run may need."""
    value = os.environ.get(ENGINES_VARIABLE)
    return json.loads(value) if value else None


def own_plugins() -> frozenset[str]:
    """Dotted names of plug-ins that this process may import."""
    return frozenset(filter(None, os.environ.get(PLUGINS_VARIABLE, "").split(",")))


def set_own_plugins(names: Iterable[str]) -> None:
    """Set them for this process and its children."""
    os.environ[PLUGINS_VARIABLE] = ",".join(sorted(names))


def secret(name: str) -> str:
    """The value of a variable that the settings name (`api_key_env`); "" if it is not set."""
    return os.environ.get(name, "")


def cache() -> Path:
    """The user's cache: `$XDG_CACHE_HOME`, else `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG standard says to ignore relative paths.
    return Path(base) if os.path.isabs(base) else Path.home() / ".cache"


def set_temporary_folder(folder: Path) -> None:
    """Set where this process and its children put temporary files."""
    os.environ["TMPDIR"] = str(folder)


#: With any value, Python looks for no module in the current folder.
SAFE_PATH = "PYTHONSAFEPATH"


def python(*words: str) -> list[str]:
    """The command line of a Python child, such as `-m`, its module, arguments."""
    return [sys.executable, "-P", *words]


def of_child() -> dict[str, str]:
    """The environment for a Python child process, with this process's import path."""
    path = os.pathsep.join(folder for folder in sys.path if os.path.isabs(folder))
    return {**os.environ, SAFE_PATH: "1", "PYTHONPATH": path}


@contextmanager
def restored(names: Iterable[str]) -> Iterator[None]:
    """Inside, these variables may change; in the end they are as before."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def setting(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a library that has no option for it, or for children; then restore them."""
    with restored(values):
        os.environ.update(values)
        yield


#: Variables for this process and its children; values that are set already stay.
DEFAULTS = {
    "DO_NOT_TRACK": "1",  # no network unless a setting names it: Prefect would send usage data
    # Dask and Prefect keep their own records; Dask reads this when it is imported, and would
    # undo a level that was set before.
    "DASK_LOGGING__DISTRIBUTED": "error",
    SAFE_PATH: "1",
    PLUGINS_VARIABLE: "",  # what a command trusts ends with it
}


@contextmanager
def set_up() -> Iterator[None]:
    """Inside, libraries send no usage data, have a home, and reach this machine's servers without
    a proxy, which cannot reach its loopback."""
    values = {name: os.environ.get(name, value) for name, value in DEFAULTS.items()}
    try:
        Path.home()
    except RuntimeError:
        # As login does, for a user with neither HOME nor a passwd entry, as in a container: some
        # libraries need a home when they are imported.
        values["HOME"] = "/"
    # Libraries read the lower-case name first.
    exceptions = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    missing = [host for host in LOOPBACK if host not in exceptions.split(",")]
    spared = ",".join([*filter(None, [exceptions]), *missing])
    with setting({**values, "no_proxy": spared, "NO_PROXY": spared}):
        yield


# Files in the current folder from which libraries take settings, and through them code: numba names
# a folder of compiled functions, which are pickles, and Prefect the server that gives it work. They
# have no option to leave these files alone, so a command does not start beside them.


MOST_BYTES = 1 << 20
_PREFECT = re.compile(r"^[^#\n]*prefect", re.IGNORECASE | re.MULTILINE)


def check_current_folder(prefect: bool) -> None:
    """Raises ConfigError if such a file lies in the current folder. `prefect`: Prefect is used."""
    if Path(".numba_config.yaml").exists():
        _refuse(".numba_config.yaml", "numba", "its variables (NUMBA_…)")
    for name in ("prefect.toml", "pyproject.toml", ".env") if prefect else ():
        if Path(name).exists() and _sets_prefect(name):
            _refuse(name, "Prefect", "its variables (PREFECT_…) or its profile")


def _refuse(name: str, library: str, instead: str) -> None:
    raise ConfigError(
        f"the current folder, {Path.cwd()}, holds {name}, from which {library} would take settings "
        f"and run code; run the command in another folder, and set {instead} if they are yours"
    )


def _sets_prefect(name: str) -> bool:
    """Whether Prefect would find settings in the file; true if that cannot be told."""
    if name == "prefect.toml" or not Path(name).is_file():
        return not Path(name).is_dir()
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read(MOST_BYTES)
        if name == ".env":
            return len(text) == MOST_BYTES or bool(_PREFECT.search(text))
        return "prefect" in tomllib.loads(text).get("tool", {})
    except (OSError, ValueError, AttributeError):
        return True
