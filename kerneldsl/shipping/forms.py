"""Kernels that a package describes, so that no launch makes their normal form.

A form has what the front end has read to make the normal form of a kernel. That is the text of its
function and of those it calls, and what the names from outside mean in them. If all of it is the
same, so is the normal form, and what was found of it. Then nothing is parsed. The normal form is
made when something else needs it, such as code that is not shipped.

A form is a list, as JSON has it::

    [
      [[[SHA-256 of its text, its line there, its name, its number among those],
        names that its module imports, default values,
        {"np": "module numpy", "np.float32": "dtype float32", "scale": "function 1", …}], …],
      [[number of a function, "scale", "scale"], …],
      fingerprint of the normal form,
      names of the parameters,
      lines from the first decorator to def,
      {trait: value, …}
    ]

The first function is the kernel's own. The second list has the captured values: the function, the
chain of names and the name in the normal form.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.cache.key import Key
from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.captured import AttributeReader, Reader, make_captured, steady_reader
from kerneldsl.frontend.effects.aliases import Augmented
from kerneldsl.frontend.fingerprint import note_fingerprint
from kerneldsl.frontend.linked_code import code_of
from kerneldsl.frontend.resolve import device_function, is_kernel
from kerneldsl.frontend.unit import Captured, DeferredUnit, FunctionUnit
from kerneldsl.shipping.meanings import (
    NoFormError,
    describe_defaults,
    describe_text,
    describe_value,
    number_of_code,
    root_reader,
)
from kerneldsl.shipping.packages import shipped_kernels_of

__all__ = ["FUNCTION", "find_form", "form_key", "read_form", "text_of_functions"]


#: Prefix of the meaning of a name that is a function of the form; its number follows.
FUNCTION = "function "


def find_form(
    function: Callable[..., Any], constants: Mapping[str, Any]
) -> tuple[FunctionUnit, KernelTraits] | None:
    """Return a kernel as its package describes it; ``None`` if it does not, or it is another one.

    - `function`: the kernel's.
    - `constants`: values of its keyword-only parameters.
    """
    if not isinstance(function, types.FunctionType):
        return None
    shipped = shipped_kernels_of(function.__module__ or "")
    if shipped is None or not shipped.has_kernel(f"{function.__module__}.{function.__qualname__}"):
        return None
    try:
        for form in shipped.forms(form_key(function, constants)):
            try:
                return read_form(form, function, constants)
            except NoFormError:
                continue
    except (NoFormError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return None


def form_key(function: types.FunctionType, constants: Mapping[str, Any]) -> str:
    """Return the SHA-256 by which the forms of a kernel are found.

    Raises `ValueError` if a constant cannot be described, or the function has no text.
    """
    try:
        about = {
            "kernel": f"{function.__module__}.{function.__qualname__}",
            "text": describe_text(function)[0],
            **{f"constant {name}": _kind_of(name, each) for name, each in constants.items()},
        }
    except NoFormError as error:
        raise ValueError("the kernel has no form") from error
    return Key(about).digest


def read_form(
    form: Any, function: types.FunctionType, constants: Mapping[str, Any]
) -> tuple[FunctionUnit, KernelTraits]:
    """Return the kernel that a form describes.

    Raises `NoFormError` if it is another one than that of a function and constants.
    """
    return _Reading(function, constants).unit(form)


class _Reading:
    """Compares a form with the functions of this process."""

    def __init__(self, function: types.FunctionType, constants: Mapping[str, Any]) -> None:
        self._function = function
        self._constants = constants
        self._cells = {name: types.CellType(value) for name, value in constants.items()}
        self._found: dict[int, types.FunctionType] = {}
        self._reads: dict[types.FunctionType, dict[str, Any]] = {}

    def unit(self, form: Any) -> tuple[FunctionUnit, KernelTraits]:
        """Return the kernel that a form describes."""
        functions, captured, digest, parameters, line, traits = form
        self._compare(functions, 0, self._function)
        if len(self._found) != len(functions):
            raise NoFormError
        for number, function in self._found.items():
            if number_of_code(function, functions[number][1]) != functions[number][0][3]:
                raise NoFormError
            if describe_text(function) != functions[number][0][:3]:  # the file changed meanwhile
                raise NoFormError
        function = self._function
        unit = DeferredUnit(
            partial(_make_unit, function, self._constants, self._reads),
            name=function.__name__,
            qualname=function.__qualname__,
            module=function.__module__,
            filename=function.__code__.co_filename,
            first_line=function.__code__.co_firstlineno + line,
            parameters=tuple(parameters),
            captured=tuple(self._captured(*each) for each in captured),
            function=function,
        )
        note_fingerprint(unit, digest)
        return unit, self._traits(traits)

    def _compare(self, functions: Any, number: int, function: types.FunctionType) -> None:
        """Compare a function, and those that it calls, with the one of a number."""
        if number in self._found or function in self._reads:
            if self._found.get(number) is not function:
                raise NoFormError
            return
        (*text, _), _, defaults, meanings = functions[number]
        self._found[number] = function
        reads = self._reads[function] = dict[str, Any]()
        if describe_text(function) != text:
            raise NoFormError
        if describe_defaults(function, is_kernel=number == 0) != defaults:
            raise NoFormError
        for path, meaning in meanings.items():
            try:
                value = reads[path] = self._reader(number, path)()
            except NameError as error:
                raise NoFormError from error
            callee = None if is_kernel(value) else device_function(value)
            if callee is None:
                if describe_value(path, value) != meaning:
                    raise NoFormError
                continue
            if not meaning.startswith(FUNCTION) or code_of(value) is not None:
                raise NoFormError
            self._compare(functions, int(meaning.removeprefix(FUNCTION)), callee)

    def _reader(self, number: int, path: str) -> Reader:
        """Return what reads a chain of names, as the front end would."""
        _, *attributes = path.split(".")
        reader: Reader = root_reader(self._found[number], {} if number else self._cells, path)
        for attribute in attributes:
            reader = AttributeReader(reader, attribute)
        return reader

    def _traits(self, values: Mapping[str, Any]) -> KernelTraits:
        found: dict[str, Any] = {
            name: frozenset(each) if isinstance(each, list) else each
            for name, each in values.items()
            if name != "augmented"
        }
        found["augmented"] = tuple(
            Augmented(position, index_count, self._place(*place), tuple(map(frozenset, tuples)))
            for position, index_count, place, tuples in values["augmented"]
        )
        return KernelTraits(**found)

    def _place(self, number: int, line: int, first: int | None, last: int | None) -> SourceLocation:
        function = self._found[number]
        code = function.__code__
        line += code.co_firstlineno
        return SourceLocation(code.co_filename, line, first, last, function.__qualname__)

    def _captured(self, number: int, path: str, name: str) -> Captured:
        read = steady_reader(self._reader(number, path))
        return make_captured(name, path, read(), read)


def _kind_of(name: str, value: Any) -> str:
    """Return what is known at once of a compile-time parameter's value."""
    return FUNCTION if device_function(value) is not None else describe_value(name, value)


def _make_unit(
    function: types.FunctionType,
    constants: Mapping[str, Any],
    reads: Mapping[types.FunctionType, Mapping[str, Any]],
) -> FunctionUnit:
    from kerneldsl.frontend.normalize import make_unit  # shipped code does without

    return make_unit(function, constants=constants, reads=reads.get)


def text_of_functions(text: str, lines: Iterable[int]) -> str:
    """Return the statements of a module that hold some functions, and its imports.

    - `text`: the module.
    - `lines`: a line of each function.
    - returns: other lines are empty, so that lines keep their numbers. Imports stay, because the
      interpreter compiles calls of imported names in another way.

    Examples
    --------
    >>> text_of_functions("import math\\nKEY = 3\\ndef f(x):\\n    return x\\n", [3])
    'import math\\n\\ndef f(x):\\n    return x\\n'
    """
    wanted = set(lines)
    kept: set[int] = set()
    for node in ast.parse(text).body:
        decorators = getattr(node, "decorator_list", ())
        first = min([node.lineno, *(each.lineno for each in decorators)])
        span = range(first, (node.end_lineno or first) + 1)
        if isinstance(node, ast.Import | ast.ImportFrom) or not wanted.isdisjoint(span):
            kept.update(span)
    rows = text.splitlines()
    last = max(kept, default=0)
    return "".join(
        f"{row}\n" if number in kept else "\n" for number, row in enumerate(rows[:last], 1)
    )
