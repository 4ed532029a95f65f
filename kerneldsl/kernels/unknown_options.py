"""Errors for unknown keyword options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kerneldsl.errors import ArgumentTypeError

__all__ = ["refuse_option"]


def refuse_option(
    called: str, function: Callable[..., Any], unknown: Mapping[str, Any]
) -> NoReturn:
    """Raise an error for the first unknown option of a call; it lists the known ones.

    - `called`: the called function, as the user writes it.
    - `function`: its keyword-only parameters are the options.
    - `unknown`: the unknown options, with their values.
    - raises `ArgumentTypeError`: always.
    """
    from kerneldsl.language.other_names import option_remedy

    name = next(iter(unknown))
    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    raise ArgumentTypeError(
        f"{called} was given the option {name!r}",
        value=name,
        limit=f"The options are {', '.join(known)}",
        remedy=option_remedy(name, known),
    )
