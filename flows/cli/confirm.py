"""The short plan that `run` prints before it starts, and its question before redoing much work."""

from __future__ import annotations

import sys

from rich.console import Console

from flows.checks import check_wishes
from flows.cli.show import runs as shown
from flows.cli.show.tables import print_to
from flows.run import plans
from flows.settings import PrepareSettings
from tasks.base.errors import MillError
from tasks.base.json_types import JsonObject
from tasks.stages.listing import once


def agreed(settings: PrepareSettings, yes: bool) -> bool:
    """Print the plan in three lines; False when a person at a terminal declines to recompute more
    than an hour of audio."""
    try:
        check_wishes(settings)  # no plan for settings that the run refuses
        plan = plans.of(settings, brief=True)
    except (MillError, OSError):  # the run meets it too, and explains it
        return True
    print_to(Console(stderr=True), shown.before_run(plan))
    asked = sys.stdin.isatty() and sys.stderr.isatty()
    if yes or plan["hours_again"] <= plans.ASKS / 3600 or not asked:
        return True
    once.forget()  # nobody knows how long the answer takes
    return _answer(plan)


def _answer(plan: JsonObject) -> bool:
    print(
        f"This computes {plan['hours_again']:.1f} h of audio again that an earlier run has done. "
        "Start? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    line = sys.stdin.readline()
    if not line:  # Ctrl-D
        print(file=sys.stderr)
    return line.strip().lower() in ("y", "yes")
