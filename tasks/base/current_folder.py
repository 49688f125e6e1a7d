"""Files in the current folder from which libraries take settings, and through them code: numba
names a folder of compiled functions, which are pickles, and Prefect the server that gives it work.
They have no option to leave these files alone, so a command does not start beside them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from .errors import ConfigError

MOST_BYTES = 1 << 20
_PREFECT = re.compile(r"^[^#\n]*prefect", re.IGNORECASE | re.MULTILINE)


def check(prefect: bool) -> None:
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
