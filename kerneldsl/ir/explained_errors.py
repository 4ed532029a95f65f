"""Errors of a kernel in the words of this project, with the user's line first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numba import config, errors

from kerneldsl.errors import (
    CompileError,
    KernelError,
    KernelTypingError,
    SourceLocation,
    UnsupportedConstructError,
)
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.refusals import Refusal, as_refusal
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.numba_internals.moved import moved_name
from kerneldsl.utilities.tracebacks import causes_of, error_of_handler

__all__ = ["NO_JIT", "explained_errors", "translate"]

#: Message and remedy if a setting keeps Numba from compiling.
NO_JIT = (
    "NUMBA_DISABLE_JIT is set, so Numba compiles nothing",
    "Unset NUMBA_DISABLE_JIT; to look into a kernel, use @kd.kernel(debug=True)",
)


@contextmanager
def explained_errors(unit: FunctionUnit, kinds: tuple[Kind, ...], *, where: str) -> Iterator[None]:
    """Raise errors of this project for those of Numba and of the front end.

    `where` is the kind of device, such as ``"on a GPU"``.
    """
    try:
        yield
    except (errors.NumbaError, NotReadError) as error:
        raise translate(error, unit, kinds, where=where) from error


def translate(
    error: BaseException, unit: FunctionUnit, kinds: tuple[Kind, ...], *, where: str
) -> KernelError:
    """Return kerneldsl's error for one of the front end, of Numba or of LLVM, which is its cause.

    It is a `KernelTypingError` where types do not fit, and an `UnsupportedConstructError` where a
    construct is not supported. Any other is a `CompileError`. A `KernelError` is returned as it is.
    An error over a name that a release has moved says which.

    Raises what a handler of a signal raised meanwhile, which is no error of the compiler's.
    """
    if isinstance(error, NotReadError):
        return UnsupportedConstructError(
            f"{unit.qualname} has a construct that a kernel {where} cannot have: {error}",
            where=unit.locate(unit.tree),
            limit="These are methods that are kept in a variable, and starred arguments",
            remedy="Call the method directly, and name each argument",
        )
    raised = error_of_handler(error)
    if raised is not None:
        raise raised
    own = _own_error(error) or moved_name(error)
    if own is not None:
        return own
    if config.DISABLE_JIT:
        what, remedy = NO_JIT
        disabled = CompileError(what, value=unit.name, remedy=remedy)
        disabled.__cause__ = error
        return disabled
    refusal = as_refusal(error)
    arguments = ", ".join(
        f"{name}: {kind}" for name, kind in zip(unit.parameters, kinds, strict=False)
    )
    place, expression = _place_of(refusal, unit)
    what = refusal.what
    if expression:
        what = f"{what}, in `{expression}`"
    if refusal.reason:
        what = f"{what}; {refusal.reason}"
    kind = KernelTypingError if refusal.is_known else _class_of(refusal.__cause__ or error)
    result = kind(
        f"{unit.name}({arguments}) cannot be compiled: {what}",
        where=place,
        value=error,
        limit=refusal.limit,
        remedy=refusal.remedy,
    )
    result.__cause__ = error
    return result


def _place_of(refusal: Refusal, unit: FunctionUnit) -> tuple[SourceLocation, str]:
    """Return the place of an error, and the expression if it is about one."""
    place = refusal.place
    if place is not None:
        return SourceLocation(place.unit.filename, place.line, function=place.unit.qualname), ""
    if refusal.source is None:
        return unit.locate(unit.tree), ""
    where = refusal.source.where
    if refusal.source.is_expression:
        return where, refusal.source.text
    return SourceLocation(where.filename, where.lineno, function=where.function), ""


def _own_error(error: BaseException) -> KernelError | None:
    """Return a `KernelError` that Numba passed on, alone or wrapped in another error."""
    return next((each for each in causes_of(error) if isinstance(each, KernelError)), None)


def _class_of(error: BaseException) -> type[KernelError]:
    if isinstance(error, TypeError):  # NumPy's, of two types that nothing holds
        return KernelTypingError
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"UnsupportedError", "UnsupportedBytecodeError", "UnsupportedParforsError"}:
        return UnsupportedConstructError
    if names & {"TypingError", "NotDefinedError", "NumbaTypeError", "IRError"}:
        return KernelTypingError
    return CompileError
