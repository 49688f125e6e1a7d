"""Every command by its name: parsed arguments in, exit code out."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from flows.cli import result_commands, run_commands, tool_commands
from flows.cli.exit_codes import Exit

COMMANDS: dict[str, Callable[[argparse.Namespace], Exit]] = {
    "demo": run_commands.demo,
    "run": run_commands.run,
    "plan": run_commands.plan,
    "estimate": run_commands.estimate,
    "serve": run_commands.serve,
    "status": result_commands.status,
    "ledger": result_commands.ledger,
    "report": result_commands.report,
    "explore": result_commands.explore,
    "review": result_commands.review,
    "what-if": result_commands.what_if,
    "verify": result_commands.verify,
    "prune": result_commands.prune,
    "list": result_commands.list_clips,
    "doctor": tool_commands.doctor,
    "plugins": tool_commands.plugins,
    "schema": tool_commands.schema,
    "models": tool_commands.models,
    "init": tool_commands.init,
    "completion": tool_commands.completion,
}
