"""The form that Prefect's UI makes of the settings: every field says what it is, and offers what
there is to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import is_valid_schema, validate

from flows.estimate import estimate
from flows.prepare import prepare
from tasks import shelves

SCHEMA: dict[str, Any] = parameter_schema(prepare).model_dump(mode="json")
MODELS: dict[str, Any] = SCHEMA["definitions"]


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, entry in SCHEMA["properties"].items():
        yield name, entry
    for model, entry in MODELS.items():
        for name, inner in entry["properties"].items():
            yield f"{model}.{name}", inner


def test_the_form_of_the_estimate_has_the_same_and_its_own() -> None:
    entries = parameter_schema(estimate).model_dump(mode="json")["properties"]
    assert set(entries) == {*SCHEMA["properties"], "fraction", "least"}
    assert [name for name, entry in entries.items() if not entry.get("description")] == []


def test_every_field_has_title_and_description() -> None:
    found = dict(fields())
    assert {"sources", "cluster", "FilterSettings.segmenter", "TlsSettings.key"} <= set(found)
    assert [name for name, entry in found.items() if not entry.get("title")] == []
    assert [name for name, entry in found.items() if not entry.get("description")] == []


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("TranscribeSettings.text", ["reference", "asr", "reference_if_close"]),
        ("ClusterSettings.kind", ["local", "address", "class"]),
        ("PackageSettings.rebalance", ["grow", "full"]),
    ],
)
def test_literals_are_choices(field: str, values: list[str]) -> None:
    assert dict(fields())[field]["enum"] == values


@pytest.mark.parametrize(
    ("field", "shelf"),
    [
        ("FilterSettings.segmenter", "segmenters"),
        ("FilterSettings.filters", "filters"),
        ("ResampleSettings.resampler", "resamplers"),
        ("ResampleSettings.levels", "levels"),
        ("TranscribeSettings.backend", "asr"),
        ("TranscribeSettings.verdicts", "text"),
        ("PackageSettings.formats", "formats"),
    ],
)
def test_plugins_are_choices(field: str, shelf: str) -> None:
    entry = dict(fields())[field]
    entry = entry.get("items", entry)
    entry = entry.get("anyOf", [entry])[0]  # a format may be named alone, too
    on_shelf, own = entry["properties"]["use"]["anyOf"]
    assert on_shelf["enum"] == shelves.names(shelf)
    assert own["pattern"] == r"\."


def test_sources_are_choices() -> None:
    assert MODELS["Source"]["properties"]["kind"]["anyOf"][0]["enum"] == shelves.names("sources")


def test_the_server_takes_what_a_settings_file_may_hold() -> None:
    """Prefect refuses parameters that the schema refuses, before the flow is asked."""
    given = {
        "sources": [{"kind": "folder", "path": "/in", "licence": "CC0"}], "out": "/out",
        "filter": {"filters": [{"use": "duration", "min": 1}, {"use": "mine.crest", "max": 3}]},
        "package": {"formats": ["wenet", {"use": "nemo", "audio": "flac"}]},
    }  # fmt: skip
    is_valid_schema(SCHEMA)
    assert validate(given, SCHEMA) == []
    for wrong in ({"use": "wrong"}, {"min": 1}):
        assert validate({**given, "filter": {"filters": [wrong]}}, SCHEMA)
