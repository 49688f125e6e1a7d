"""Parts of the README pages that are made from the code, and the form's schemas of plug-ins.

    python -m tests.pages       writes them anew, in every page that has markers

A part stands between `<!-- made from the code: NAME ARGUMENT -->` and `<!-- end -->`.
tests/laws/test_readme.py fails when a page is stale.
"""

import argparse
import ast
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tests.helpers import forms
from uttermill.flows.cli.command_line import parser as command_parser
from uttermill.flows.cli.printing import Exit
from uttermill.flows.run import prometheus
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.settings.base import FORMS
from uttermill.tasks.settings.transcribe import LlmText

ROOT = Path(__file__).parents[1]
PART = re.compile(r"<!-- made from the code: (\S+) ?(\S*) -->\n.*?<!-- end -->", re.DOTALL)


def shelf(name: str) -> str:
    """A table of the plug-ins of one shelf, and one of each plug-in's settings."""
    lines = ["| plug-in | what it does |", "|---|---|"]
    tables: list[str] = []
    for use in shelves.names(name):
        module: Any = plugins.module(name, use)
        lines.append(f"| `{use}` | {_cell(_first_line(module.__doc__ or ''))} |")
        tables += _settings(name, use, module)
    return "\n".join([*lines, *tables])


def settings_of(name: str) -> str:
    """A table of the settings of a model that a server runs."""
    return "\n".join(_fields({"llm_text": LlmText}[name].model_fields))


def _settings(name: str, use: str, module: Any) -> Iterator[str]:
    measures = name in ("filters", "text")  # a format's COLUMNS are names alone
    columns = getattr(module, "COLUMNS", {}) if measures else {}
    annotations = getattr(module, "ANNOTATIONS", {})
    fields = {key: field for key, field in module.Settings.model_fields.items() if key != "kind"}
    if not (fields or columns or annotations):
        return
    yield f"\n### `{use}`\n"
    if columns:
        yield "| column | unit | meaning |\n|---|---|---|"
        for column, (unit, text) in columns.items():
            yield f"| `{column}` | {unit} | {_cell(text)} |"
        yield ""
    if annotations:
        yield "| annotation | kind | meaning |\n|---|---|---|"
        for annotation, kind in annotations.items():
            yield f"| `{annotation}` | {kind.name} | {_cell(f'{kind.doc} ({kind.extent})')} |"
        yield ""
    if fields:
        yield from _fields(fields)


def _fields(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    yield "| setting | default | meaning |\n|---|---|---|"
    for key, field in fields.items():
        yield f"| `{key}` | {_default(field)} | {_cell(field.description or '')} |"


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        if field.default_factory is None:
            return "required"
        return f"`{field.default_factory()}`"  # type: ignore[call-arg]
    value = field.default.value if isinstance(field.default, Enum) else field.default
    if value is None:
        return "not set"
    if value in ((), ""):
        return "empty"
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, tuple | dict) and value:
        value = yaml.safe_dump(
            [*value] if isinstance(value, tuple) else value,
            default_flow_style=True, sort_keys=False, width=1000,
        ).strip()  # fmt: skip
    return f"`{value}`"


def modules(folder: str) -> str:
    """Every module of a folder with the first sentence of its docstring."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"{folder}/*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    homes: dict[str, list[Path]] = {}
    for name in sorted(set(listed.stdout.split())):
        if (ROOT / name).exists():
            homes.setdefault(str(Path(name).parent), []).append(Path(name))
    lines = []
    for home, paths in homes.items():
        about = _about(ROOT / home / "__init__.py")
        lines += [f"\n**`{home}/`** {about}\n", "| module | what it does |", "|---|---|"]
        lines += [
            f"| `{path.name}` | {_cell(_about(ROOT / path))} |"
            for path in paths if path.name != "__init__.py"
        ]  # fmt: skip
        if lines[-1] == "|---|---|":
            del lines[-2:]
    return "\n".join(lines)


def commands(_: str) -> str:
    """Every command with its help line."""
    parser = command_parser()
    (actions,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    lines = ["| command | what it does |", "|---|---|"]
    helps = {action.dest: action.help or "" for action in actions._choices_actions}
    for name, command in actions.choices.items():
        usage = " ".join(command.format_usage().split()).removeprefix("usage: ")
        usage = usage.replace("[-h] ", "").replace("[--json] ", "").replace("[--json]", "")
        lines.append(f"| `{usage.strip().replace('|', chr(92) + '|')}` | {_cell(helps[name])} |")
    return "\n".join(lines)


def exits(_: str) -> str:
    """Every exit code with its meaning."""
    lines = [f"| {code:d} | {_cell(code.meaning)} |" for code in Exit]
    return "\n".join(["| exit code | means |", "|---|---|", *lines])


def metric_names(_: str) -> str:
    """Metrics for Prometheus."""
    rows = [
        f"| `{name}` | {', '.join(f'`{label}`' for label in labels)} | {_cell(meaning)} |"
        for name, (labels, meaning) in prometheus.METRICS.items()
    ]
    return "\n".join(["| metric | labels | meaning |", "|---|---|---|", *rows])


PARTS: dict[str, Callable[[str], str]] = {
    "shelf": shelf,
    "settings": settings_of,
    "modules": modules,
    "commands": commands,
    "exits": exits,
    "metrics": metric_names,
}


def pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = (ROOT / name for name in sorted(set(listed.stdout.split())))
    # The package shows pages of infra/ once more, by links.
    return [path for path in found if path.exists() and not path.is_symlink()]


def renewed(text: str) -> str:
    """A page with all of its made parts made anew; equal to `text` unless it was stale."""

    def make(found: re.Match[str]) -> str:
        head = f"<!-- made from the code: {found[1]}{' ' if found[2] else ''}{found[2]} -->"
        return f"{head}\n{PARTS[found[1]](found[2])}\n<!-- end -->"

    return PART.sub(make, text)


def _about(path: Path) -> str:
    if not path.exists():
        return ""
    return _first_line(ast.get_docstring(_parsed(path.read_text())) or "")


def _parsed(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SystemError:  # CPython 3.11 counts depth for all threads: one compiled at the same time
        return ast.parse(code)


def _first_line(docstring: str) -> str:
    """The first paragraph, where it is one sentence long; else its first sentence."""
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.?])\s+(?=[A-Z])", paragraph)[0]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def forms_text() -> str:
    """tasks/settings/forms.json: what a form shows of plug-ins."""
    return json.dumps(forms.every(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if not FORMS.exists() or FORMS.read_text() != forms_text():
        FORMS.write_text(forms_text())
        print(f"renewed {FORMS.relative_to(ROOT)}")
    for page in pages():
        before = page.read_text()
        if (after := renewed(before)) != before:
            page.write_text(after)
            print(f"renewed {page.relative_to(ROOT)}")
