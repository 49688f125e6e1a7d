"""The page for nights names the settings by which Prefect removes old runs, as this release knows
them."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from prefect.settings.models.server.services import ServerServicesDBVacuumSettings

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
