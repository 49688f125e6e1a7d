"""The parameters of a flow: the fields of its settings, which list them once.

Prefect takes a flow's parameters, and the form in its UI, from the signature and the docstring of
its function: `takes` writes both from models such as `PrepareSettings`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel

Function = TypeVar("Function", bound=Callable[..., object])
Model = TypeVar("Model", bound=BaseModel)


def takes(*models: type[BaseModel], **about: str) -> Callable[[Function], Function]:
    """Makes the fields of the models the parameters of a function of `**parameters`. `about`: what
    the form says of a parameter, if not the field's description."""

    def with_parameters(function: Function) -> Function:
        lines = [
            f"    {name}: {about.get(name, field.description)}"
            for model in models
            for name, field in model.model_fields.items()
        ]
        described = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = "\n".join([described, "", "Args:", *lines])
        parameters = [each for model in models for each in _of(model)]
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return function

    return with_parameters


def values(*settings: BaseModel) -> dict[str, Any]:
    """Settings as the parameters of a flow that takes their models."""
    return {name: getattr(each, name) for each in settings for name in type(each).model_fields}


def among(model: type[Model], parameters: Mapping[str, object]) -> Model:
    """The settings of one model among a flow's parameters."""
    return model.model_validate({name: parameters[name] for name in model.model_fields})


def _of(model: type[BaseModel]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        default = inspect.Parameter.empty if field.is_required() else field.default
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(name, kind, default=default, annotation=hints[name])
