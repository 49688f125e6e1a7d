"""The form that Prefect's UI makes of the settings: every field says what it is, and offers what
there is to choose from."""

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Annotated, Any, get_args

import pytest
from prefect import flow
from prefect.exceptions import ParameterTypeError, SignatureMismatchError
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import is_valid_schema, validate
from pydantic import BaseModel, Field

from tests.helpers import forms
from uttermill.flows.estimate import estimate
from uttermill.flows.flow_parameters import among, takes, values
from uttermill.flows.prepare import prepare
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves


@cache
def schema() -> dict[str, Any]:
    """Of the flow of a run; half a second."""
    found: dict[str, Any] = parameter_schema(prepare).model_dump(mode="json")
    return found


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, entry in schema()["properties"].items():
        yield name, entry
    for model, entry in schema()["definitions"].items():
        for name, inner in entry["properties"].items():
            yield f"{model}.{name}", inner


def test_the_form_of_the_estimate_has_the_same_and_its_own() -> None:
    entries = parameter_schema(estimate).model_dump(mode="json")["properties"]
    assert set(entries) == {*schema()["properties"], "fraction", "least"}
    assert [name for name, entry in entries.items() if not entry.get("description")] == []


class One(BaseModel):
    must: int
    may: Annotated[float, Field(gt=0)] = Field(0.5, description="How far.")


class Two(BaseModel):
    other: str = Field("x", description="What else.")


def test_a_flow_takes_the_fields_of_its_models() -> None:
    """So that they are listed once; a parameter that no model has is refused."""

    @flow(validate_parameters=True)
    @takes(One, Two, other="What else, here.")
    def tried(**parameters: Any) -> tuple[One, Two]:
        """Try it."""
        return among(One, parameters), among(Two, parameters)

    schema = parameter_schema(tried).model_dump(mode="json")
    assert schema["required"] == ["must"]
    assert list(schema["properties"]) == ["must", "may", "other"]
    assert schema["properties"]["may"]["exclusiveMinimum"] == 0
    assert schema["properties"]["may"]["description"] == "How far."
    assert schema["properties"]["other"]["description"] == "What else, here."
    assert tried.fn(**values(One(must=1), Two())) == (One(must=1), Two())
    assert tried.validate_parameters({"must": "2"}) == {"must": 2, "may": 0.5, "other": "x"}
    with pytest.raises(ParameterTypeError):
        tried.validate_parameters({"must": 1, "may": 0})
    with pytest.raises(SignatureMismatchError):
        tried.validate_parameters({"must": 1, "another": 0})


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
    offered = [each for each in entry["anyOf"] if "properties" in each]
    assert offered[0]["properties"]["use"]["enum"] == shelves.names(shelf)
    assert offered[-1]["properties"]["use"]["pattern"] == r"\."
    for name in shelves.names(shelf):
        known = plugins.load(shelf, name).Settings.model_fields
        shown = offered[chosen(offered, {"use": name, **dict.fromkeys(known)})]
        assert name in shown["properties"]["use"]["enum"]
        assert {*shown["properties"]} == {"use", *known}
        for setting, about in known.items():
            assert str(about.description) in shown["properties"][setting]["description"]


def chosen(offered: list[dict[str, Any]], value: dict[str, Any]) -> int:
    """The alternative that Prefect's form shows: the first of those that know most of the keys."""
    known = [len(value.keys() & each["properties"].keys()) for each in offered]
    return known.index(max(known))


@pytest.mark.parametrize(
    ("shelf", "value"),
    [
        ("filters", {"use": "silence"}),
        ("filters", {"use": "duration", "min": 1, "max": 20}),
        ("filters", {"use": "clipping", "max_fraction": 0.1}),
        ("filters", {"use": "sample_rate", "min_native": 16000}),
        ("text", {"use": "no_speech", "max": 0.5}),
        ("asr", {"use": "faster_whisper", "model": "base", "chinese": "simplified"}),
        ("segmenters", {"use": "auto", "max_seconds": 15}),
        ("formats", {"use": "nemo", "audio": "flac"}),
        ("sources", {"kind": "kaldi", "path": "/x", "name": "c"}),
        ("sources", {"kind": "tar", "path": "/x", "root": "/y"}),
        ("sources", {"kind": "folder", "path": "/x", "system_folders": True}),
    ],
)
def test_what_is_given_is_shown_under_its_own_name(shelf: str, value: dict[str, Any]) -> None:
    offered = forms.alternatives(shelf)
    shown = offered[chosen(offered, value)]["properties"]["kind" if shelf == "sources" else "use"]
    assert value.get("use", value.get("kind")) in shown["enum"]


@pytest.mark.parametrize("shelf", shelves.SHELVES)
def test_a_form_shows_nothing_that_the_plugin_lacks(shelf: str) -> None:
    """The form sends all that it shows. Whatever up to three settings a value has, it is shown as
    plug-ins that have these, and with what all of them have."""
    offered = forms.alternatives(shelf)
    key, needed = ("kind", {"path"}) if shelf == "sources" else ("use", set[str]())
    for name in shelves.names(shelf):
        fields = {*plugins.load(shelf, name).Settings.model_fields} - {key}
        for count in range(4):
            for given in combinations(sorted(fields), count):
                shown = offered[chosen(offered, dict.fromkeys({key, *needed, *given}))]
                assert name in shown["properties"][key]["enum"]
                assert {*given} <= shown["properties"].keys() <= {key, *fields}


def test_what_is_sent_by_default_is_the_default() -> None:
    for shelf in shelves.SHELVES:
        key = "kind" if shelf == "sources" else "use"
        for shown in forms.alternatives(shelf)[:-1]:
            for name in shown["properties"][key]["enum"]:
                model = plugins.load(shelf, name).Settings
                whole = model.model_json_schema()["properties"]
                for setting, about in shown["properties"].items():
                    if setting != key and "default" in about:
                        assert about["default"] == whole[setting]["default"], (name, setting)


def test_mappings_of_several_plugins_show_what_all_have() -> None:
    """As lists and tables do, whose columns are not the same."""
    for shown in forms.alternatives("sources")[:-1]:
        for kind in shown["properties"]["kind"]["enum"]:
            columns = shown["properties"].get("columns", {}).get("anyOf", ())
            known = plugins.load("sources", kind).Settings.model_fields.get("columns")
            for mapping in (each for each in columns if "properties" in each):
                assert known is not None
                assert mapping["properties"].keys() <= known_columns(known.annotation)


def known_columns(annotation: Any) -> set[str]:
    models = [each for each in get_args(annotation) if hasattr(each, "model_fields")]
    return {name for model in models or [annotation] for name in model.model_fields}


def test_sources_have_kind_name_and_licence() -> None:
    entry = schema()["properties"]["sources"]["items"]
    assert [*entry["properties"]][:4] == ["kind", "path", "name", "licence"]
    for kind in shelves.names("sources"):  # the form sends them all, whatever the kind
        assert {*entry["properties"]} <= {*plugins.SOURCES.load(kind).Settings.model_fields}
    offered = entry["anyOf"]
    assert offered[0]["properties"]["kind"]["enum"] == ["folder", *sorted(
        {*shelves.names("sources")} - {"folder"}
    )]  # fmt: skip
    for each in offered[:-1]:
        assert {"path", "name", "licence", "language"} <= each["properties"].keys()
        assert each["properties"]["licence"]["description"]
        assert each["required"] == ["path"]


@pytest.mark.nightly
def test_the_server_takes_what_a_settings_file_may_hold() -> None:
    """Prefect refuses parameters that the schema refuses, before the flow is asked."""
    given = {
        "sources": [{"kind": "folder", "path": "/in", "licence": "CC0"}], "out": "/out",
        "filter": {"filters": [{"use": "duration", "min": 1}, {"use": "mine.crest", "max": 3}]},
        "package": {"formats": ["wenet", {"use": "nemo", "audio": "flac"}]},
    }  # fmt: skip
    is_valid_schema(schema())
    assert validate(given, schema()) == []
    for wrong in ({"use": "wrong"}, {"min": 1}):
        assert validate({**given, "filter": {"filters": [wrong]}}, schema())
