"""Device functions as functions that other GPU code calls.

An exported function is a kernel with an entry of another form
(:attr:`kerneldsl.contract.CompileOptions.entry`). It stores the result of the device function into
its first parameter, which the compiler makes the result of the entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any, NamedTuple

from kerneldsl.contract import Artifact, CompileOptions
from kerneldsl.contract.options import EntryForm
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, format_signature
from kerneldsl.language.types import NoneType, Type
from kerneldsl.placement.registry import target_writing
from kerneldsl.utilities.written_functions import written_function

__all__ = ["OFFLINE", "Exported", "export_function", "result_of", "signature_of"]

#: Options for determining types: no device is needed.
OFFLINE: dict[str, Any] = {"target": target_writing("ptx"), "arch": "sm_90"}


def signature_of(kinds: tuple[Kind, ...]) -> tuple[str, ...]:
    """Return the signature as inspecting methods of kernels take it."""
    return (format_signature(kinds),) if kinds else ()


class Exported(NamedTuple):
    """A device function that other GPU code calls."""

    #: The entry.
    kernel: Kernel[Any, Any]
    #: Kinds of the result, if there is one, and of the parameters.
    kinds: tuple[Kind, ...]
    #: Kind of the result; ``None`` if there is none.
    result: ScalarKind | None

    def artifact(self, arch: str) -> Artifact:
        """Return the compiled code for an architecture."""
        options = {**OFFLINE, "arch": arch}
        return self.kernel.artifact(*signature_of(self.kinds), **options)


def export_function(
    function: Callable[..., Any],
    kinds: tuple[Kind, ...],
    name: str,
    *,
    form: EntryForm = EntryForm.FUNCTION,
    options: CompileOptions | None = None,
    made_by: Callable[[FunctionType, KernelOptions], Kernel[Any, Any]] = Kernel,
) -> Exported:
    """Make a function that other GPU code calls of a device function.

    Parameters
    ----------
    function : device function
        The function.
    kinds : tuple of Kind
        The types of its parameters: numbers.
    name : str
        Its name in the code, a Python identifier.
    form : EntryForm, optional
        How it is called.
    options : CompileOptions, optional
        How it is compiled.
    made_by : callable, optional
        What makes the kernel of its Python function and its options.

    Raises
    ------
    ArgumentTypeError
        If a function of C cannot have such a parameter or result.
    KernelTypingError
        If the function has no type for these parameters.
    """
    for kind in kinds:
        _require_number(kind, f"a parameter of {name}")
    given = options or CompileOptions()
    given = replace(
        given,
        entry=form,
        debug=False,
        lineinfo=given.has_lines,
        launch_bounds=None,
        max_registers=None,
    )
    compiled = KernelOptions(compile=given)
    probe, result = _probe(function, kinds, name, lambda f: made_by(f, compiled))
    parameters = [f"a{number}" for number in range(len(kinds))]
    if isinstance(result, NoneType):
        return Exported(probe, kinds, None)
    kind = _require_number(result, f"the result of {name}")
    text = f"def {name}({', '.join(('out', *parameters))}):\n"
    text += f"    out[0] = {name}_body({', '.join(parameters)})\n"
    kernel = made_by(written_function(name, text, {f"{name}_body": function}, __name__), compiled)
    return Exported(kernel, (ArrayKind(kind.dtype, 1, "C"), *kinds), kind)


def result_of(
    function: Callable[..., Any],
    kinds: tuple[Kind, ...],
    made_by: Callable[[FunctionType, KernelOptions], Kernel[Any, Any]] = Kernel,
) -> Kind | Type:
    """Return the type of what a device function returns for types of its parameters."""
    options = KernelOptions()
    return _probe(function, kinds, "function", lambda f: made_by(f, options))[1]


def _probe(
    function: Callable[..., Any],
    kinds: tuple[Kind, ...],
    name: str,
    made_by: Callable[[FunctionType], Kernel[Any, Any]],
) -> tuple[Kernel[Any, Any], Kind | Type]:
    """Return a kernel that calls a device function, and the type of what that returns."""
    parameters = ", ".join(f"a{number}" for number in range(len(kinds)))
    text = f"def {name}({parameters}):\n    {name}_body({parameters})\n"
    probe = made_by(written_function(name, text, {f"{name}_body": function}, __name__))
    compiler, specialization = probe.specialization(*signature_of(kinds), **OFFLINE)
    typed = compiler.typed_unit(specialization.unit, specialization.kinds)
    (called,) = dict.fromkeys(typed.calls.values())
    return probe, called.result


def _require_number(kind: Kind | Type, what: str) -> ScalarKind:
    if isinstance(kind, ScalarKind):
        row = kind.element
        is_plain = row.is_integer or row.kind.name == "BOOL"
        if is_plain or row.name in ("float16", "float32", "float64", "complex64", "complex128"):
            return kind
    raise ArgumentTypeError(
        f"{what} is of the type {kind}",
        value=kind,
        limit="A function that other GPU code calls takes and returns integers, bool, float16, "
        "float32, float64 and complex numbers",
        remedy="Compile a kernel, or a function of numbers",
    )
