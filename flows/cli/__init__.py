"""The command line: `uttermill <command>`."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, `sys.argv`'s by default, and return its exit code."""
    if argv is not None:
        return _main(argv)
    from flows.cli import encoding, streams

    encoding.ensure_utf8()
    with streams.kept():
        return _main(None)


def _main(argv: Sequence[str] | None) -> int:
    try:
        from flows.cli.command_line import main as command
    except KeyboardInterrupt:  # before anything has begun
        from flows.cli.exit_codes import Exit

        return Exit.INTERRUPTED
    return command(argv)
