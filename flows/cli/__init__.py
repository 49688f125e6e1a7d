"""The command line: `uttermill <command>`."""

from flows.cli.arguments import parser
from flows.cli.command_line import main

__all__ = ["main", "parser"]
