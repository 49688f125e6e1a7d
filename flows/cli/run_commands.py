"""Commands that compute: run, plan, estimate, demo and serve."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

from rich.console import Console

from ...tasks import storage
from ...tasks.base import logs
from ...tasks.base.errors import ConfigError, MillError
from ...tasks.base.json_types import JsonObject
from ...tasks.insight.estimating import what_if
from ...tasks.settings import StageSettings
from ...tasks.stages.listing import entries
from .. import checks, settings
from .. import serve as serving
from ..demo.corpus import DEMO_SETTINGS, make_corpus
from ..run import launch, plans
from ..settings import PrepareSettings, SampleSettings
from . import process_setup
from .printing import Declined, Exit, print_answer, print_lines
from .show import runs
from .show.tables import print_to


def run(args: argparse.Namespace) -> Exit:
    chosen = _settings(args)
    print("Looking at the sources and at earlier results …", file=sys.stderr, flush=True)
    with entries.listed_once():
        if not agreed(chosen, args.yes):
            raise Declined("nothing was started")
        return print_answer(args, _launched(launch.run, chosen), runs.run)


def _launched(function: Callable[..., JsonObject], *given: StageSettings) -> JsonObject:
    """The function's result. If Prefect has something left to send, this process will end without
    its threads."""
    try:
        return function(*given)
    finally:
        if launch.server_gone.is_set() or launch.unsent.is_set():
            process_setup.leave_threads()


def plan(args: argparse.Namespace) -> Exit:
    chosen = _settings(args)
    with entries.listed_once():
        checks.check_wishes(chosen)
        if args.explain:
            lines = what_if.explained(chosen.job())
            return print_lines(args, {"query": lines}, lines)
        return print_answer(args, plans.make(chosen), runs.plan)


def estimate(args: argparse.Namespace) -> Exit:
    wanted = SampleSettings(fraction=args.fraction, least=args.least)
    return print_answer(args, _launched(launch.estimate, _settings(args), wanted), runs.estimate)


def demo(args: argparse.Namespace) -> Exit:
    if "://" in args.out:
        raise ConfigError("the demo makes its corpus beside its results; give a folder as --out")
    home = Path(args.out).absolute()
    data = {**deepcopy(DEMO_SETTINGS), "sources": make_corpus(home / "corpus"), "out": str(home)}
    settings.assign(data, args.sets)
    return print_answer(args, _launched(launch.run, settings.parse(data)), runs.run)


def serve(args: argparse.Namespace) -> Exit:
    def ready(served: serving.Served) -> None:
        print_answer(args, vars(served), runs.serve)
        sys.stdout.flush()  # the command goes on for long

    chosen = settings.read(args.settings, [], None, args.sets)
    name = Path(args.settings).stem if args.name is None else args.name
    serving.serve(
        serving.ServedSettings(str(Path(args.settings).absolute()), tuple(args.sets), chosen),
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


def agreed(chosen: PrepareSettings, yes: bool) -> bool:
    """Print the plan in three lines; False when a person at a terminal declines to recompute more
    than an hour of audio."""
    try:
        with logs.silent():  # the run itself warns
            checks.check_wishes(chosen)  # no plan for settings that the run refuses
        plan = plans.make(chosen, brief=True)
    except (MillError, OSError) as error:  # the run meets it too, and explains it
        if isinstance(error, storage.Away) and error.is_of(chosen.job().out):
            raise ConfigError(str(error)) from error  # now, and not after the same seconds again
        return True
    print_to(Console(stderr=True), runs.before_run(plan))
    again = plan["hours_again"]
    if yes or again <= plans.ASKS / 3600 or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    entries.forget_listings()  # the answer may take long
    question = f"This computes {again:.1f} h of audio again that an earlier run has done. Start?"
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:  # Ctrl-D
        print(file=sys.stderr)
    return line.strip().lower() in ("y", "yes")
