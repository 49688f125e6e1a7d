"""The environment of a run and of the processes that it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ..tasks.base import environment

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
