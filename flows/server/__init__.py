"""The Prefect server of a run, and the run's records in it."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr

from pydantic import ValidationError

from ...tasks.base.errors import ConfigError
from ...tasks.base.process_memory import importing


def import_prefect() -> None:
    """Import Prefect, which reads its settings; ConfigError with the name of one that it refuses.
    Prefect itself would print a traceback, and before it what its plug-ins said of that."""
    output = io.StringIO()
    try:
        with importing(), redirect_stderr(output):
            from prefect.settings import get_current_settings

            get_current_settings()
    except ValidationError as error:
        faults = [f for f in error.errors() if f["type"] != "default_factory_not_called"]
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
