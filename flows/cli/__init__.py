"""The command line: `uttermill <command>`."""

from flows.cli.command_line import main, parser

__all__ = ["main", "parser"]
