"""The native functions of this process: compiled once, put in the place of Python's methods.

What is made here is never given back: a finalizer may launch a kernel while the interpreter shuts
down, so the code, and whatever the code knows by its address, must be there to the very end.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kerneldsl.environment import launcher_is_off, logger
from kerneldsl.errors import KernelWarning
from kerneldsl.launcher.layout import UnknownLayout, check_layout, function_address, slot_offset
from kerneldsl.locks import ForkSafeLock
from kerneldsl.runtime import streams
from kerneldsl.runtime.arrays import DeviceArray
from kerneldsl.runtime.placement import context_place
from kerneldsl.runtime.readers import seal

__all__ = ["Method", "generation", "install", "is_installed", "suspended"]

_METH_O = 0x8
_METH_FASTCALL_KEYWORDS = 0x80 | 0x2

#: Tables are good in the generation they were made in: a forked child begins another.
_generation = (ctypes.c_int64 * 1)(1)
_lock = ForkSafeLock()
_is_installed = False
#: Why it is not, once that was tried.
_refusal: str | None = None


class Method:
    """A method that gets a native form.

    Parameters
    ----------
    owner : type
        The class.
    name : str
        Of the method.
    symbol : str
        Of the native function.
    takes_one : bool
        Whether it takes one argument, given by position; else any.
    """

    def __init__(self, owner: type, name: str, symbol: str, *, takes_one: bool = False) -> None:
        self.owner = owner
        self.name = name
        self.symbol = symbol
        self.takes_one = takes_one
        self.python: Callable[..., Any] = owner.__dict__[name]


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: The methods, as :func:`install` was given them.
_methods: tuple[Method, ...] = ()
#: Their native forms.
_descriptors: tuple[Any, ...] = ()


def generation() -> int:
    """The generation in which tables are made now."""
    return _generation[0]


def is_installed() -> bool:
    """Whether launches try the native functions first."""
    return _is_installed


def install(methods: tuple[Method, ...], slots: dict[str, tuple[type, str, Any]]) -> bool:
    """Compile the native functions and put them in their places, once.

    Parameters
    ----------
    methods : tuple of Method
        The methods of a launch, a prepared launch, and a kernel's ``forall`` and ``__getitem__``.
    slots : dict
        Name of an address of :class:`~kerneldsl.launcher.emit.Addresses` to the class, the name of
        its slot, and an instance on which the offset is tried out.

    Returns
    -------
    bool
        Whether they are there. On an interpreter that is not known they are not, with one warning.
    """
    global _is_installed, _refusal, _methods, _descriptors  # noqa: PLW0603 -- one for the process
    with _lock:
        if _is_installed:
            return True
        if _refusal is not None:
            return False
        if launcher_is_off():
            _refusal = "KERNELDSL_LAUNCHER is off"
            return False
        try:
            if not _descriptors:
                check_layout()
                _descriptors = _make(methods, slots)
                _methods = methods
        except (UnknownLayout, OSError, RuntimeError, ImportError) as error:
            _refusal = str(error)
            warnings.warn(
                "kernels are launched by way of Python, which costs some microseconds more: the "
                f"native launcher does not know this interpreter ({error}). "
                "KERNELDSL_LAUNCHER=off says that this is known",
                KernelWarning,
                stacklevel=2,
            )
            return False
        _put(_descriptors)
        _is_installed = True
        return True


@contextmanager
def suspended() -> Iterator[None]:
    """A ``with`` block in which the whole process launches by way of Python.

    For tests and comparisons; launches of other threads that are going on stay native.
    """
    global _is_installed  # noqa: PLW0603 -- one for the process
    with _lock:
        was_installed, _is_installed = _is_installed, False
        if was_installed:
            _put([method.python for method in _methods])
    try:
        yield
    finally:
        with _lock:
            if was_installed:
                _put(_descriptors)
                _is_installed = True


def _put(forms: Sequence[Any]) -> None:
    for method, form in zip(_methods, forms, strict=True):
        setattr(method.owner, method.name, form)


def _make(methods: tuple[Method, ...], slots: dict[str, tuple[type, str, Any]]) -> tuple[Any, ...]:
    from kerneldsl.launcher.emit import Addresses, emit_module
    from kerneldsl.launcher.emit_methods import MethodAddresses

    offsets = {
        name: slot_offset(owner, slot, trial, ()) for name, (owner, slot, trial) in slots.items()
    }
    trial = DeviceArray.__new__(DeviceArray)
    nothing = ()  # the default of the variable, and CPython's one empty tuple
    by_symbol = {method.symbol: id(method.python) for method in methods}
    addresses = Addresses(
        generation=ctypes.addressof(_generation),
        array_block=slot_offset(DeviceArray, "_block", trial, b"trial"),
        seal=id(seal),
        launch_tables=offsets.pop("launch_tables"),
        place_variable=id(context_place),
        streams_variable=id(streams._active),
        no_streams=id(nothing),
        methods=MethodAddresses(
            launch_type=slots["launch_tables"][0],
            slow_launch=by_symbol["launch"],
            slow_bound=by_symbol["bound"],
            slow_forall=by_symbol["forall"],
            slow_getitem=by_symbol["getitem"],
            **offsets,
        ),
    )
    engine = _compile(str(emit_module(addresses)))
    new_descriptor = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
        function_address("PyDescr_NewMethod")
    )
    made = []
    for method in methods:
        definition = _MethodDef(
            method.name.encode(),
            engine.get_function_address(method.symbol),
            _METH_O if method.takes_one else _METH_FASTCALL_KEYWORDS,
            _document(method),
        )
        _keep_forever(definition)
        _keep_forever(method)
        made.append(new_descriptor(method.owner, ctypes.addressof(definition)))
    for each in (engine, _generation, context_place, streams._active, nothing, DeviceArray, seal):
        _keep_forever(each)
    logger.debug("the native launcher is in place")
    return tuple(made)


def _compile(text: str) -> Any:
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    # Optimizing the text takes LLVM twice as long as all the rest, and gains nothing to speak of.
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _document(method: Method) -> bytes:
    """The method's own text, with its signature as CPython's methods carry it."""
    import inspect

    signature = inspect.signature(method.python)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    shown = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    shown = shown.replace("(self", "($self", 1)
    return f"{method.name}{shown}\n--\n\n{inspect.getdoc(method.python)}".encode()


def _keep_forever(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _begin_generation() -> None:
    _generation[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_generation)
