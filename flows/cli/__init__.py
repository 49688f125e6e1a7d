"""The command line: `uttermill <command>`."""

# Nothing else is imported until the current folder is shut out.
import sys

Words = list[str] | tuple[str, ...]


def main(argv: Words | None = None) -> int:
    """Run a command, `sys.argv`'s by default, and return its exit code."""
    if argv is None:
        from . import import_path

        import_path.shut()
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


def _main(argv: Words | None) -> int:
    try:
        from .command_line import main as command

        return command(argv)
    except KeyboardInterrupt:  # before the command has begun, or when it has ended
        from .printing import Exit

        return Exit.INTERRUPTED
