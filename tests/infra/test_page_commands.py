"""Commands, settings and scripts that the pages of infra/ tell people to use are ones that work."""

import json
import re
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.settings.models.server.services import ServerServicesDBVacuumSettings

from tests.infra.test_infra import INFRA, unknown
from uttermill.flows import settings

PAGES = sorted(INFRA.rglob("*.md"))
PROGRAMS = ("uttermill", "dask", "prefect")
NAMED = re.compile(rf"^(\S*/)?({'|'.join(PROGRAMS)}) [a-z]")
SEPARATORS = ("|", ">", ">>", "&&", "||", "&", ";", "#")


def blocks(page: Path) -> list[str]:
    """The fenced parts of a page, without their fences."""
    return re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text(), re.M | re.S)


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Words of each command of ours, of Dask or of Prefect that a page has in a fenced part."""
    for page in PAGES:
        for block in blocks(page):
            for line in block.replace("\\\n", " ").splitlines():
                line = re.sub(r"^ *([A-Z_]+=\S+ |ExecStart=)*", "", line)
                if NAMED.match(line):
                    words = shlex.split(line, comments=True)
                    ends = (i for i, word in enumerate(words) if word in SEPARATORS)
                    yield page.name, [Path(words[0]).name, *words[1 : next(ends, None)]]


def test_every_command_of_a_page_parses() -> None:
    lines = [*command_lines()]
    for page, command in lines:
        assert parsed(command), (page, command)
    assert {"cloud.md", "27000-hours.md", "README.md", "nightly.md"} <= {page for page, _ in lines}
    assert not parsed(["uttermill", "estimate", "settings.yaml", "--jsno"])
    assert not parsed(["dask", "worker", "--nthread", "1"])


def test_compose_commands_name_the_profile_of_what_they_run() -> None:
    """Docker finds a service that has a profile by its name alone, podman-compose does not."""
    services = yaml.safe_load((INFRA / "compose.yaml").read_text())["services"]
    texts = [page.read_text() for page in (*PAGES, INFRA / "compose.yaml")]
    commands = re.findall(r"compose\.yaml ((?:--\S+ \S+ )*)run (.*)", "\n".join(texts))
    assert len(commands) >= 4
    for before, words in commands:
        service = next(word for word in words.split() if word in services)
        named = re.findall(r"--profile (\S+)", before)
        assert set(services[service].get("profiles", ())) <= {*named}, (before, words)


def parsed(command: list[str]) -> bool:
    from uttermill.flows.cli.command_line import parser

    if command[0] != "uttermill":
        return unknown(command) == []
    try:
        parser().parse_args(command[1:])
    except SystemExit as ended:
        return ended.code == 0
    return True


def test_all_settings_of_a_page_are_taken(tmp_path: Path) -> None:
    taken = 0
    for page in PAGES:
        for block in blocks(page):
            if not re.match(r"(cluster|out|sources):", block):
                continue
            data: dict[str, Any] = yaml.safe_load(block.replace("{…}", "{}"))
            needed = {"sources": [{"kind": "folder", "path": str(tmp_path), "name": "x"}],
                      "out": str(tmp_path / "out")}  # fmt: skip
            settings.parse({**needed, **data})
            taken += 1
    assert taken >= 3


def test_the_script_of_27000_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (INFRA / "27000-hours.md").read_text()
    (script,) = re.findall(r"python - <<'END'\n(.*?)^END$", page, re.M | re.S)
    estimate = {"cpu_seconds": {"expected": 0.1589 * 27_000 * 3600}}  # the example of the page
    (tmp_path / "estimate.json").write_text(json.dumps(estimate))
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "27000-hours.md", "exec"), {})
    hours = re.findall(r"(\d+) workers of one thread: +([\d.]+) h", capsys.readouterr().out)
    assert [int(workers) for workers, _ in hours] == [16, 64, 256, 1000]
    (row,) = re.findall(r"^\| all \| .*", page, re.M)
    told = [float(cell) for cell in re.findall(r"([\d.]+) h(?= \|)", row)]
    # The table's numbers are those of the script.
    for (_, hour), of_table in zip(hours[1:], told, strict=True):
        assert float(hour) == pytest.approx(of_table, rel=0.03)


# The page for nights names the settings by which Prefect removes old runs, as this release knows
# them.


PAGE = Path(__file__).parents[2] / "infra" / "nightly.md"


def test_the_page_removes_old_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = re.findall(r"^Environment=(PREFECT_\w+_DB_VACUUM_\w+)=(\S+)$", PAGE.read_text(), re.M)
    assert len(lines) == 2
    for name, value in lines:
        monkeypatch.setenv(name, value)
    settings = ServerServicesDBVacuumSettings()
    assert settings.enabled_vacuum_types >= {"flow_runs", "events"}
    assert settings.retention_period == timedelta(days=90)
    assert settings.loop_seconds == 3600
