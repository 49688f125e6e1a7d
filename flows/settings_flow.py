"""A Prefect flow whose parameters are settings. It starts without the schema of its parameters,
which only a deployment needs, and turns them into JSON without FastAPI, which saves 0.2 s of
CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import prefect.flows
from prefect.flows import Flow
from prefect.utilities.callables import ParameterSchema, parameter_schema
from pydantic_core import to_jsonable_python

from .server.history import replaced

P = ParamSpec("P")
R = TypeVar("R")


class SettingsFlow(Flow[P, R]):
    """Prefect's flow, whose schema is made on first use."""

    def __init__(self, fn: Callable[P, R], **options: Any) -> None:
        self._schema: ParameterSchema | None = None
        with replaced(prefect.flows, "parameter_schema", lambda function: None):
            super().__init__(fn, **options)

    @property
    def parameters(self) -> ParameterSchema:
        if self._schema is None:
            self._schema = parameter_schema(self.fn)
        return self._schema

    @parameters.setter
    def parameters(self, schema: ParameterSchema | None) -> None:
        self._schema = schema

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {name: to_jsonable_python(value) for name, value in parameters.items()}
