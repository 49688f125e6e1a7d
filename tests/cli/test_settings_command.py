"""`uttermill settings`: every setting of a run with unit, default, meaning and an example."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from uttermill.flows import cli, settings
from uttermill.flows.cli import setting_listing
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks.settings import PackageSettings

LEAST = {"sources": [{"kind": "folder", "path": "in"}], "out": "out"}
EVERY = [entry for held in setting_listing.listing(None).values() for entry in held]


def test_every_setting_of_every_stage_is_listed() -> None:
    names = {entry["setting"] for entry in EVERY}
    for group, field in PrepareSettings.model_fields.items():
        inner = getattr(type(field.default), "model_fields", {})
        stage = {f"{group}.{key}" for key in inner if "use" not in inner}
        assert stage <= names if stage else group in names
    assert {"sources.licence", "transcribe.llm_text.timeout", "cluster.tls.key"} <= names
    assert len(names) == len(EVERY)


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: str(entry["setting"]))
def test_an_example_is_taken_and_changes_the_setting(entry: dict[str, Any]) -> None:
    assert entry["meaning"], entry
    assert entry["example"].startswith("--set "), "EXAMPLES has none"
    sets = shlex.split(entry["example"])[1::2]
    kind = "address" if entry["setting"] == "cluster.address" else None
    data: dict[str, Any] = {"cluster": {"kind": kind}} if kind else {}
    data |= json.loads(json.dumps(LEAST))
    settings.assign(data, sets)
    changed = settings.parse(data)
    settings.read(None, ["in"], "out", sets)  # as the command line does, plug-ins included
    assert changed.model_dump(mode="json") != settings.parse(LEAST).model_dump(mode="json")


def test_units_and_defaults() -> None:
    entries = {entry["setting"]: entry for entry in EVERY}
    assert entries["package.tar_hours"]["unit"] == "h"
    assert entries["package.max_failed_fraction"]["unit"] == "0 to 1"
    assert entries["cluster.item_timeout"]["unit"] == "s"
    assert entries["resample.rate"]["unit"] == "Hz"
    assert entries["package.keep"]["default"] == PackageSettings().keep
    assert entries["filter.segmenter"]["default"] == {"use": "auto"}
    assert entries["out"]["required"]


def test_the_command_lists_a_stage_or_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["settings", "package", "--json"]) == 0
    (stage,) = json.loads(capsys.readouterr().out).values()
    assert {entry["setting"].split(".")[0] for entry in stage} == {"package"}
    assert cli.main(["settings", "package.splits"]) == 0
    text = capsys.readouterr().out
    assert "--set 'package.splits={dev: 0.05" in text
    assert "package.seed" not in text
    assert cli.main(["settings", "package.split"]) == 2
    assert "package has package.formats, package.audio" in capsys.readouterr().err
    assert cli.main(["settings", "pack"]) == 2
    assert "known: sources, out, speakers, shard" in capsys.readouterr().err


def test_plugins_says_where_the_settings_of_stages_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plugins", "package"]) == 2
    assert "`uttermill settings package` prints the settings of a stage" in capsys.readouterr().err
    assert cli.main(["plugins"]) == 0
    assert "Settings of stages: uttermill settings." in capsys.readouterr().out
