"""Parameters that somebody typed into the form of a run: what is wrong with them is said in our words.

The server does not check them (see prefect.yaml), so the run's own message is all that a person gets to see.
"""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, get_type_hints

from prefect import Flow
from prefect.exceptions import ParameterTypeError, SignatureMismatchError
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from delegation.errors import UsageError
from delegation.wrong_values import sentence
from tasks.expected import log_only_unexpected_tracebacks

P = ParamSpec("P")
R = TypeVar("R")
_TO_DO = "Nothing was done. Choose 'Copy to new run' on this page, mend it in the form, and start it there"


class _CheckedFlow(Flow[P, R]):
    """A flow that tells which parameter is wrong, what is allowed there, and what to do."""

    def validate_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """As Prefect's own, but for the words. Raises UsageError."""
        try:
            return super().validate_parameters(parameters)
        except (ParameterTypeError, SignatureMismatchError) as error:
            log_only_unexpected_tracebacks()
            said = _wrong(self.fn, parameters) or str(error)
            raise UsageError(f"{said}{'' if said.endswith('?') else '.'} {_TO_DO}") from None


def checked_flow(
    name: str, *, flow_run_name: Callable[[], str] | None = None
) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """The decorator of our flows. Nothing of what they return is kept by Prefect: the records have it."""

    def made(fn: Callable[P, R]) -> Flow[P, R]:
        return _CheckedFlow(fn, name=name, flow_run_name=flow_run_name, persist_result=False)

    return made


def _wrong(fn: Callable[..., Any], parameters: dict[str, Any]) -> str | None:
    """Everything that is wrong, on one line; None where nothing is that a form could hold."""
    model = _model(fn)
    try:
        model.model_validate(parameters)
    except ValidationError as error:
        return sentence(error, model)
    return None


def _model(fn: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(fn, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is inspect.Parameter.empty else parameter.default)
        for name, parameter in inspect.signature(fn).parameters.items()
    }
    return create_model("Parameters", __config__=ConfigDict(extra="forbid"), **fields)
