"""Commands that compute: run, plan, estimate, demo and serve.

Modules are imported by the command that needs them, so that a command starts quickly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...tasks.base import logs
from ...tasks.base.errors import ConfigError, MillError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.process_memory import importing
from . import at_once
from .printing import Exit, print_answer, print_lines

if TYPE_CHECKING:
    from ...tasks.settings import StageSettings
    from ..settings import PrepareSettings


class Declined(MillError):
    """A person declined the work that a run would do."""


def run(args: argparse.Namespace) -> Exit:
    with importing():
        from ...tasks.stages.listing import once
        from ..run import launch
        from .show import runs

    settings = _settings(args)
    print("Looking at the sources and at earlier results …", file=sys.stderr, flush=True)
    with once.listing():
        if not agreed(settings, args.yes):
            raise Declined("nothing was started")
        return print_answer(args, _launched(launch.run, settings), runs.run)


def _launched(function: Callable[..., JsonObject], *given: StageSettings) -> JsonObject:
    """The function's result. If Prefect's server is gone, this process will end without its
    threads."""
    from ..run import launch

    try:
        return function(*given)
    finally:
        if launch.server_gone.is_set():
            at_once.leave_threads()


def plan(args: argparse.Namespace) -> Exit:
    from ...tasks.insight.estimating import what_if
    from ...tasks.stages.listing import once
    from .. import checks
    from ..run import plans
    from .show import runs as shown

    chosen = _settings(args)
    with once.listing():
        checks.check_wishes(chosen)
        if args.explain:
            lines = what_if.explained(chosen.job())
            return print_lines(args, {"query": lines}, lines)
        return print_answer(args, plans.make(chosen), shown.plan)


def estimate(args: argparse.Namespace) -> Exit:
    from ..run import launch
    from ..settings import SampleSettings
    from .show import runs

    wanted = SampleSettings(fraction=args.fraction, least=args.least)
    return print_answer(args, _launched(launch.estimate, _settings(args), wanted), runs.estimate)


def demo(args: argparse.Namespace) -> Exit:
    from .. import settings
    from ..demo.corpus import DEMO_SETTINGS, make_corpus
    from ..run import launch
    from .show import runs

    if "://" in args.out:
        raise ConfigError("the demo makes its corpus beside its results; give a folder as --out")
    home = Path(args.out).absolute()
    data = {**DEMO_SETTINGS, "sources": make_corpus(home / "corpus"), "out": str(home)}
    settings.assign(data, args.sets)
    return print_answer(args, _launched(launch.run, settings.parse(data)), runs.run)


def serve(args: argparse.Namespace) -> Exit:
    from .. import serve as serving
    from .. import settings
    from ..served_settings import ServedSettings
    from .show import runs

    def ready(served: serving.Served) -> None:
        print_answer(args, vars(served), runs.serve)
        sys.stdout.flush()  # the command goes on for long

    chosen = settings.read(args.settings, [], None, args.sets)
    name = Path(args.settings).stem if args.name is None else args.name
    serving.serve(
        ServedSettings(str(Path(args.settings).absolute()), tuple(args.sets), chosen),
        name,
        args.cron,
        args.timezone,
        ready,
        args.trust_parameters,
        args.allow,
        args.metrics,
        args.alert,
    )
    return Exit.DONE


def _settings(args: argparse.Namespace) -> PrepareSettings:
    """Settings from a file, or from `--source` and `--out`."""
    from .. import settings

    if args.settings is None and not args.sources:
        raise ConfigError("give SETTINGS.yaml, or --source PATH and --out DIR")
    if args.settings is not None and args.sources:
        raise ConfigError("give SETTINGS.yaml or --source, not both")
    if args.settings is None and args.out is None:
        raise ConfigError("--source needs --out DIR, where the dataset goes")
    stated = {"language": args.language, "licence": args.licence, "speaker": args.speaker}
    if not args.sources and any(stated.values()):
        raise ConfigError("--language, --licence and --speaker need --source")
    return settings.read(args.settings, args.sources, args.out, args.sets, stated)


def agreed(settings: PrepareSettings, yes: bool) -> bool:
    """Print the plan in three lines; False when a person at a terminal declines to recompute more
    than an hour of audio."""
    from rich.console import Console

    from ...tasks import storage
    from ...tasks.stages.listing import once
    from ..checks import check_wishes
    from ..run import plans
    from .show.runs import before_run
    from .show.tables import print_to

    try:
        with logs.silent():  # the run itself warns
            check_wishes(settings)  # no plan for settings that the run refuses
        plan = plans.make(settings, brief=True)
    except (MillError, OSError) as error:  # the run meets it too, and explains it
        if isinstance(error, storage.Away) and error.is_of(settings.job().out):
            raise ConfigError(str(error)) from error  # now, and not after the same seconds again
        return True
    print_to(Console(stderr=True), before_run(plan))
    asked = sys.stdin.isatty() and sys.stderr.isatty()
    if yes or plan["hours_again"] <= plans.ASKS / 3600 or not asked:
        return True
    once.forget()  # the answer may take long
    return _confirmed(plan)


def _confirmed(plan: JsonObject) -> bool:
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
