"""What every model of settings builds on: masking, roles of fields, plug-ins named by file.

A field is one of four kinds:

    Field        can change a measure, the PCM or a transcript: part of the recipe
    Threshold    judges measures: applied again at every run, at no cost
    Transient    changes speed or looks only: batch sizes, threads, log levels
    SECRET       marks a Field that grants access: a `SecretStr` with a name that
                 `masking.is_secret` knows

A text among settings may name code, a file, an address or a variable. So parameters from a form or
an API may differ from a deployment's settings file only in numbers, choices, and texts that are
marked as harmless (`flows/flow_parameters.py`):

    WORDS        says something, and names nothing that is opened, called or run
    READ         what is read as a source: it may be another below the folders of the file's
    WRITE        where results go: likewise
    FIXED        as the settings file has it, even if that is the default
    SWITCH       lets a run reach further: off, unless the settings file has it on

Serialising hides secrets and the credentials of URLs (`masking.py`): settings that we or Prefect
write down never hold them; objects in memory and those sent to workers do.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ..base import masking, shelves
from ..base.json_types import JsonObject

THRESHOLD: JsonDict = {"role": "threshold"}
TRANSIENT: JsonDict = {"role": "transient"}
SECRET: JsonDict = {"role": "secret"}
#: Marks a Threshold that changes what is published of a clip, and not only which clips.
ROW: JsonDict = {"changes": "row"}
WORDS: JsonDict = {"form": "words"}
READ: JsonDict = {"form": "read"}
WRITE: JsonDict = {"form": "write"}
FIXED: JsonDict = {"form": "fixed"}
SWITCH: JsonDict = {"form": "switch"}
FORMS = Path(__file__).with_name("forms.json")  # written by `python -m tests.pages`


def Threshold(default: Any, description: str, mark: JsonDict | None = None, **limits: Any) -> Any:
    """A setting that decides what is kept or published; changing it recomputes nothing. `mark`:
    another role or form; `limits`: as of `pydantic.Field`."""
    kind = THRESHOLD | (mark or {})
    return Field(default, description=description, json_schema_extra=kind, **limits)


def Transient(default: Any, description: str, mark: JsonDict | None = None, **limits: Any) -> Any:
    """A setting that changes speed or looks, and no result. Arguments as for `Threshold`."""
    kind = TRANSIENT | (mark or {})
    return Field(default, description=description, json_schema_extra=kind, **limits)


def _with_unit(value: object) -> object:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number or (isinstance(value, str) and _FEW_BYTES.fullmatch(value.strip())):
        raise ValueError("an amount of memory needs a unit, such as 4GB")
    return value


_FEW_BYTES = re.compile(r"[0-9]{1,6}(\.[0-9]*)?")
#: An amount of memory, such as 4GB.
Memory = Annotated[str, BeforeValidator(_with_unit)]


class Masked(BaseModel):
    """Base of models that get written: no secrets in them or in error messages."""

    model_config = ConfigDict(
        frozen=True, hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )

    @model_serializer(mode="wrap")
    def _masked(self, plain: SerializerFunctionWrapHandler) -> JsonObject:
        given: JsonObject = plain(self)
        for name, value in given.items():
            inner = getattr(self, name, None)
            first = inner[0] if isinstance(inner, tuple) and inner else inner
            # Models in it are masked already, and numbers hide nothing.
            if isinstance(value, str | list | tuple | dict) and not isinstance(first, Masked):
                given[name] = masking.value(value, name)
        return given


class StageSettings(Masked):
    """Base of all settings: frozen, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    def recipe(self) -> JsonObject:
        """The fields that can change an output (the unmarked ones), as JSON values."""
        return {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if roles(type(self))[name] is None
        }


@cache
def roles(model: type[BaseModel]) -> dict[str, str | None]:
    """Each field's role: `threshold`, `transient`, `secret`, or None for a part of the recipe."""
    marks = {name: _marks(model, name).get("role") for name in model.model_fields}
    return {name: None if role is None else str(role) for name, role in marks.items()}


def _marks(model: type[BaseModel], field: str) -> JsonDict:
    extra = model.model_fields[field].json_schema_extra
    return extra if isinstance(extra, dict) else {}


@cache
def changes_rows(model: type[BaseModel], field: str) -> bool:
    """Whether the field may change what is stored or published of a clip: a recipe, or ROW."""
    marked = _marks(model, field).get("changes") == ROW["changes"]
    return marked or roles(model)[field] is None


def form(model: type[BaseModel], field: str) -> str | None:
    """`words`, `read`, `write` or `fixed`; None: its texts come from a settings file only."""
    named = _marks(model, field).get("form")
    return None if named is None else str(named)


class Plugin(Masked):
    """A plug-in by file name, with its own settings beside it: `{use: vad, min_seconds: 3}`."""

    model_config = ConfigDict(extra="allow")

    use: str = Field(description="Its file name, or the dotted name of a module of your own.")

    @property
    def options(self) -> JsonObject:
        return dict(self.model_extra or {})


def named(value: object) -> object:
    """Expand a plug-in's bare name to the plug-in with its defaults."""
    return {"use": value} if isinstance(value, str) else value


def as_data(value: object) -> object:
    """A plug-in in the form of a settings file."""
    return {"use": value.use, **value.options} if isinstance(value, Plugin) else named(value)


class Shelf:
    """Adds to a type what a form offers: an alternative for each plug-in with its settings;
    plug-ins with the same settings share one.

    `listed`: for the entries of a list, where Prefect's form shows alternatives as bare JSON. Such
    an entry also gets a type and the properties that all plug-ins of the kind have (the form sends
    all that it shows).
    """

    def __init__(self, name: str, title: str, listed: bool = False) -> None:
        self.name, self.title, self.listed = name, title, listed

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        whole = handler.resolve_ref_schema(handler(core))
        if "anyOf" in whole:  # a plug-in's name alone is valid, too
            return {"title": self.title, "anyOf": [*_forms()[self.name], {"type": "string"}]}
        if "properties" not in whole:  # the serialised form, which may have any keys
            return whole
        offered = _forms()[self.name]
        if not self.listed:
            return {"title": self.title, "anyOf": offered}
        key, shown = ("kind", offered[:-1]) if self.name == "sources" else ("use", offered[:1])
        on_shelf = {"title": "built in", "type": "string", "enum": shelves.names(self.name)}
        foreign = {**offered[-1]["properties"][key], "title": "of your own"}
        properties: JsonObject = {
            key: {**foreign, "title": key.title(), "anyOf": [on_shelf, foreign]}
        }
        del properties[key]["pattern"], properties[key]["type"]
        for name, about in shown[0]["properties"].items():
            if all(name in entry_form["properties"] for entry_form in shown):
                properties.setdefault(name, about)
        entry = {"title": self.title, "type": "object", "properties": properties}
        return {**entry, "required": offered[0]["required"], "anyOf": offered}


@cache
def _forms() -> dict[str, list[JsonObject]]:
    """Generated in advance: loading all plug-ins takes a second."""
    forms: dict[str, list[JsonObject]] = json.loads(FORMS.read_text("utf-8"))
    return forms
