"""A Prefect flow whose parameters are settings. It starts without the work that only a deployment
needs, the schema of its parameters, and turns them into JSON without FastAPI: 0.2 s of CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import prefect.flows
from prefect.flows import Flow
from prefect.utilities.callables import ParameterSchema, parameter_schema
from pydantic_core import to_jsonable_python

from flows.server.history import replaced

P = ParamSpec("P")
R = TypeVar("R")


class SettingsFlow(Flow[P, R]):
    """Prefect's flow, with a schema that is made when it is first asked for."""

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
