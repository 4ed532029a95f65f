"""Errors of a program's signal handlers, which may be raised between any two instructions."""

from __future__ import annotations

import signal
from types import CodeType, FunctionType
from typing import Any

__all__ = ["error_of_handler"]


def error_of_handler(error: BaseException) -> BaseException | None:
    """Return the error that a signal handler raised, if it is this error or caused it.

    A compiler reports every error in it as a failure to compile. A timeout is not a failure.
    """
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        traceback = each.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code in codes:
                return each
            traceback = traceback.tb_next
        each = each.__cause__ or each.__context__
    return None


def _code_of(handler: Any) -> CodeType | None:
    """Return the code of a function, a method, a partial or an object that is called."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if not isinstance(handler, FunctionType):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004 -- of its class
    return handler.__code__ if isinstance(handler, FunctionType) else None
