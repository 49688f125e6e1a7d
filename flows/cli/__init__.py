"""The command line: `uttermill <command>`."""

# Nothing else is imported until the current folder is shut out: it may be a stranger's, with a
# `json.py` in it.
import os
import sys

Words = list[str] | tuple[str, ...]


def main(argv: Words | None = None) -> int:
    """Run a command, `sys.argv`'s by default, and return its exit code."""
    if argv is None:
        _shut_out_current_folder()
    from . import process_setup

    if argv is None:
        process_setup.begin()
    try:
        from ... import tasks  # noqa: F401
    except ImportError as error:  # Windows
        print(f"uttermill: {error}", file=sys.stderr)
        return 2
    if argv is not None:
        return _main(argv)
    process_setup.ensure_utf8()
    with process_setup.streams_kept():
        code = _main(None)
        process_setup.over(code)
        return code


def _main(argv: Words | None) -> int:
    try:
        from .command_line import main as command

        return command(argv)
    except KeyboardInterrupt:  # before the command has begun, or when it has ended
        from .printing import Exit

        return Exit.INTERRUPTED


def _shut_out_current_folder() -> None:
    """Import modules from the installation and from absolute folders of PYTHONPATH alone, in this
    process and in each Python that it starts."""
    try:
        os.getcwd()
    except OSError as error:
        gone = f"the current folder cannot be found ({error.strerror})"
        sys.exit(f"uttermill: {gone}: change to another one, and run again")
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder for `-m` and `-c`, and the script's own
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = [folder for folder in given if os.path.isabs(folder)]
    # Python has made these absolute; an empty one is the current folder.
    relative = {os.path.abspath(folder) for folder in given if folder not in absolute}
    sys.path[:] = [
        folder
        for folder in sys.path
        if os.path.isabs(folder) and (folder not in relative or folder in absolute)
    ]
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(absolute)
    os.environ["PYTHONSAFEPATH"] = "1"
