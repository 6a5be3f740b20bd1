"""Options that stand in a record, in the signature and the documentation of a function that takes them as **options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import Field
from typing import Any


def document(function: Callable[..., Any], heading: str, options: Iterable[tuple[Field[Any], str]]) -> None:
    """Name the options of a function, each a field whose metadata has its `text`, and a remark on it."""
    signature = inspect.signature(function)
    parameters = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    lines = []
    for one, remark in options:
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(one.name, kind, default=one.default, annotation=one.type))
        lines.append(f"    {one.name}: {one.metadata['text']}{remark}.")
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n    {heading}:\n\n" + "\n".join(lines) + "\n"
