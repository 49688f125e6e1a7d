"""Commands that need no run: what is installed, known weights, a settings file to start from.

Modules are imported by the command that needs them, so that a command starts quickly.
"""

from __future__ import annotations

import argparse

from ...tasks.base.errors import ConfigError
from .printing import Exit, print_answer


def doctor(args: argparse.Namespace) -> Exit:
    from . import doctor as examination

    return examination.doctor(args, *examination.chosen(args.settings, args.sets))


def plugins(args: argparse.Namespace) -> Exit:
    from . import setting_listing
    from .show import results

    if args.which is None:
        return print_answer(args, setting_listing.all_shelves(), results.shelves)
    return print_answer(args, setting_listing.plugins_named(args.which), results.plugins)


def settings(args: argparse.Namespace) -> Exit:
    from . import setting_listing
    from .show import results

    return print_answer(args, setting_listing.of(args.which), results.settings)


def schema(args: argparse.Namespace) -> Exit:
    from . import queries
    from .show import results

    return print_answer(args, queries.columns(), results.columns)


def models(args: argparse.Namespace) -> Exit:
    from . import models as weights

    if (args.action == "fetch") != (args.name is not None):
        raise ConfigError(
            "give a NAME, such as speakers, to `uttermill models fetch` and only to it"
        )
    answer = weights.answer(args)
    print_answer(args, answer, weights.shown)
    return Exit.FAULT if answer.get("damaged") else Exit.DONE


def files(args: argparse.Namespace) -> Exit:
    from . import infra_files

    return print_answer(args, infra_files.answer(args), infra_files.shown)


def test_set(args: argparse.Namespace) -> Exit:
    from . import test_set as hashing

    return print_answer(args, hashing.written(args), hashing.shown)


def init(args: argparse.Namespace) -> Exit:
    from . import init as starting

    return print_answer(args, starting.init(args), starting.shown)


def completion_script(args: argparse.Namespace) -> Exit:
    from . import completion

    print(completion.script(args.shell))
    return Exit.DONE
