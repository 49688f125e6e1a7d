"""The command line: `uttermill <command>`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, `sys.argv`'s by default, and return its exit code."""
    from . import at_once

    if argv is None:
        at_once.begin()
    try:
        from ... import tasks  # noqa: F401
    except ImportError as error:  # Windows
        print(f"uttermill: {error}", file=sys.stderr)
        return 2
    if argv is not None:
        return _main(argv)
    from . import process_setup

    process_setup.ensure_utf8()
    with process_setup.streams_kept():
        code = _main(None)
        at_once.over(code)
        return code


def _main(argv: Sequence[str] | None) -> int:
    try:
        from .command_line import main as command

        return command(argv)
    except KeyboardInterrupt:  # before the command has begun, or when it has ended
        from .printing import Exit

        return Exit.INTERRUPTED
