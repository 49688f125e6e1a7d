"""The environment of a run and of the processes that it starts."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr

from pydantic import ValidationError

from ..tasks.base import environment
from ..tasks.base.errors import ConfigError
from ..tasks.base.process_memory import importing

#: Variables for this process and its children; values that are set already stay.
DEFAULTS = {
    "DO_NOT_TRACK": "1",  # no network unless a setting names it: Prefect would send usage data
    # Dask and Prefect keep their own records; Dask reads this when it is imported, and would
    # undo a level that was set before.
    "DASK_LOGGING__DISTRIBUTED": "error",
    environment.SAFE_PATH: "1",
    environment.PLUGINS_VARIABLE: "",  # what a command trusts ends with it
}


@contextmanager
def set_up() -> Iterator[None]:
    """Inside, libraries send no usage data, have a home, and reach this machine's servers without
    a proxy."""
    with ExitStack() as scope:
        for name, value in DEFAULTS.items():
            scope.enter_context(environment.default(name, value))
        scope.enter_context(environment.with_home())
        scope.enter_context(environment.loopback_without_proxy())
        yield


def import_prefect() -> None:
    """Import Prefect, which reads its settings; ConfigError with the name of one that it refuses.
    Prefect itself would print a traceback, and before it what its plug-ins said of that."""
    output = io.StringIO()
    try:
        with importing(), redirect_stderr(output):
            from prefect.settings import get_current_settings

            get_current_settings()
    except ValidationError as error:
        faults = [
            fault for fault in error.errors() if fault["type"] != "default_factory_not_called"
        ]
        sentences = (f"{_variable(str(f['loc'][-1]), f['input'])}: {f['msg']}" for f in faults)
        raise ConfigError(
            f"Prefect refuses its settings ({'; '.join(sentences)}); correct or unset them"
        ) from None
    except ValueError as error:  # a variable that should hold JSON
        raise ConfigError(
            f"Prefect refuses its settings ({error}); correct or unset its variables (PREFECT_…)"
        ) from None
    sys.stderr.write(output.getvalue())


def _variable(field: str, value: object) -> str:
    """The variable that gives Prefect this value of a setting; else the setting, which is in
    Prefect's profile then."""
    for name, text in os.environ.items():
        mine = name.startswith("PREFECT_") and name.lower().endswith(field.lower())
        if mine and text.lower() == str(value).lower():
            return name
    return f"{field} in Prefect's profile"
