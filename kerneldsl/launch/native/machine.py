"""The native functions of this process: compiled once, put in the place of Python's methods.

Nothing that is made here is freed, since a finalizer may launch a kernel while the interpreter
shuts down. Until then, the code and all objects that it knows by address must exist.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import CompileError, KernelWarning
from kerneldsl.launch.arguments.array_readers import seal
from kerneldsl.launch.native.layout import (
    METH_O,
    UnknownLayout,
    UnknownPlatform,
    check_layout,
    function_address,
    put_subscript,
    slot_offset,
)
from kerneldsl.launch.native.vectorcall import ENTRIES, METHODS, SLOTS
from kerneldsl.memory import pools
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.device_memory import BufferMethods, Counts, PooledBuffer
from kerneldsl.memory.forms import ArrayForm, FormMethods, NativeForms
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.host_memory import FreeList
from kerneldsl.placement.devices import context_device
from kerneldsl.streams import current
from kerneldsl.utilities.address_space import require_addresses
from kerneldsl.utilities.environment import is_on, logger
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.tracebacks import warn_user

if TYPE_CHECKING:  # it imports llvmlite
    from kerneldsl.launch.native.emit_forms import ContextAddresses

__all__ = [
    "begin_generation",
    "entry_address",
    "generation",
    "install",
    "install_forms",
    "is_installed",
    "is_refused",
    "is_suspended",
    "suspended",
]

_METH_FASTCALL_KEYWORDS = 0x80 | 0x2

#: Tables are good in the generation they were made in: a forked child begins another. And whether
#: no table is good for the time being.
_state = (ctypes.c_int64 * 2)(1, 0)
_lock = ForkSafeLock()
_is_installed = False
#: Whether compiling the methods of forms was tried.
_has_forms = False
#: Class and name of each method of forms, by the symbol of its native form.
_FORM_METHODS: dict[str, tuple[type, str]] = {
    "form_view": (NativeForms, "view"),
    "form_at": (NativeForms, "_at"),
    "form_empty": (NativeForms, "empty"),
    "buffer_del": (PooledBuffer, "__del__"),
}
#: Reason why native code is not installed, once that was tried.
_refusal: str | None = None


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: Addresses of the native functions that take calls, by their symbols.
_entries: dict[str, int] = {}


def generation() -> int:
    """Return the generation in which tables are made now."""
    return _state[0]


def is_installed() -> bool:
    """Return whether launches try the native functions first."""
    return _is_installed


def is_refused() -> bool:
    """Return whether launches stay with Python."""
    return _refusal is not None


def entry_address(symbol: str) -> int:
    """Address of a native function that takes the calls of instances."""
    return _entries[symbol]


def install() -> bool:
    """Compile the native functions and put those that are methods in their places, once.

    On an interpreter that is not known they are not there, with one warning; on a system that is
    not, without.
    """
    global _is_installed, _refusal  # noqa: PLW0603 -- one for the process
    with _lock:
        if _is_installed:
            return True
        if _refusal is not None:
            return False
        if not is_on("KERNELDSL_LAUNCHER", default=True):
            _refusal = "KERNELDSL_LAUNCHER is off"
            return False
        try:
            check_layout()
            _make()
        except (UnknownPlatform, CompileError) as error:
            _refusal = str(error)
            logger.debug("kernels are launched through Python: %s", error)
            return False
        except (UnknownLayout, OSError, RuntimeError, ImportError, AttributeError) as error:
            from kerneldsl.utilities.tracebacks import error_of_handler

            if error_of_handler(error) is not None:  # such as a TimeoutError
                raise
            _refusal = str(error)
            warn_user(
                "kernels are launched through Python, which costs some microseconds more: the "
                f"native launcher does not know this interpreter ({error}). "
                "KERNELDSL_LAUNCHER=off says that this is known",
                KernelWarning,
            )
            return False
        _is_installed = True
        return True


@contextmanager
def suspended() -> Iterator[None]:
    """Return a context manager in which the whole process launches through Python.

    For tests and comparisons; launches of other threads that are going on stay native.
    """
    _state[1] += 1
    try:
        yield
    finally:
        _state[1] -= 1


def is_suspended() -> bool:
    """Return whether the whole process launches through Python now."""
    return _state[1] > 0


def _make() -> None:
    from kerneldsl.launch.native.emit import Addresses, emit_module
    from kerneldsl.launch.native.emit_methods import MethodAddresses

    offsets = {
        name: slot_offset(owner, slot, object.__new__(made), ())
        for name, (owner, slot, made) in SLOTS.items()
    }
    if not all(hasattr(owner, "_entry") for owner in ENTRIES.values()):
        raise UnknownLayout("calls of instances cannot be taken")
    python: dict[str, Any] = {symbol: owner.__call__ for symbol, owner in ENTRIES.items()}
    python |= {symbol: getattr(owner, name) for symbol, (owner, name) in METHODS.items()}
    trial = DeviceArray.__new__(DeviceArray)
    addresses = Addresses(
        context=_context_addresses(),
        array_block=slot_offset(ArrayGeometry, "_block", trial, b"trial"),
        seal=id(seal),
        launch_tables=offsets.pop("launch_tables"),
        device_variable=id(context_device),
        methods=MethodAddresses(
            launch_type=ENTRIES["launch"],
            slow_launch=id(python["launch"]),
            slow_bound=id(python["bound"]),
            slow_forall=id(python["forall"]),
            slow_getitem=id(python["getitem"]),
            **offsets,
        ),
    )
    engine = _compile(str(emit_module(addresses)))
    for symbol in ENTRIES:
        _entries[symbol] = engine.get_function_address(symbol)
    for symbol, (owner, name) in METHODS.items():
        _put(owner, name, python[symbol], engine.get_function_address(symbol))
    for kept in (
        engine,
        python,
        _state,
        context_device,
        DeviceArray,
        seal,
    ):
        _keep_forever(kept)
    logger.debug("the native launcher is in place")


def _context_addresses() -> ContextAddresses:
    from kerneldsl.launch.native.emit_forms import ContextAddresses

    nothing = ()  # the default of both variables, and CPython's one empty tuple
    for kept in (_state, current._active, pools.active_pools, nothing):
        _keep_forever(kept)
    return ContextAddresses(
        state=ctypes.addressof(_state),
        streams_in_use=ctypes.addressof(current.in_use_word),
        streams_variable=id(current._active),
        pools_variable=id(pools.active_pools),
        nothing=id(nothing),
    )


def install_forms() -> None:
    """Compile the methods of forms too, once launches are native; nothing if they are not.

    They are for calls that make the same launches again, which few programs have.
    """
    global _has_forms  # noqa: PLW0603 -- one for the process
    with _lock:
        if not _is_installed or _has_forms:
            return
        try:
            _make_forms()
        except (UnknownLayout, OSError, RuntimeError, AttributeError) as error:
            logger.debug("arrays of forms are made by Python: %s", error)
        _has_forms = True


def _make_forms() -> None:
    from kerneldsl.launch.native.emit_forms import FormAddresses, emit_forms

    form, buffer = ArrayForm.__new__(ArrayForm), PooledBuffer.__new__(PooledBuffer)
    array = DeviceArray.__new__(DeviceArray)

    def offsets(owner: Any, trial: Any) -> dict[str, int]:
        names = [name for name in owner.__slots__ if name != "__weakref__"]
        return {name: slot_offset(owner, name, trial, b"trial") for name in names}

    python = {symbol: getattr(owner, name) for symbol, (owner, name) in _FORM_METHODS.items()}
    addresses = FormAddresses(
        array=offsets(ArrayGeometry, array),
        form=offsets(FormMethods, form),
        buffer=offsets(BufferMethods, buffer),
        free_list=offsets(FreeList, FreeList.__new__(FreeList)),
        counts=offsets(Counts, Counts()),
        slow={symbol: id(method) for symbol, method in python.items()},
    )
    buffer.pointer = 0  # it goes without giving anything back
    engine = _compile(str(emit_forms(addresses, _context_addresses())))
    for kept in (engine, python, PooledBuffer, FreeList):
        _keep_forever(kept)
    for symbol, (owner, name) in _FORM_METHODS.items():
        _put(owner, name, python[symbol], engine.get_function_address(symbol))


def _put(owner: type, name: str, python: Callable[..., Any], address: int) -> None:
    """Put the native form of a method into the class that is there for it."""
    document = _document(name, python)
    takes_one = name == "__getitem__"
    if takes_one:
        try:
            put_subscript(owner, address, document)
        except UnknownLayout as error:
            logger.debug("%s is not known: it is found by its name at each call", error)
        else:
            return
    new_descriptor = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
        function_address("PyDescr_NewMethod")
    )
    flags = METH_O if takes_one else _METH_FASTCALL_KEYWORDS
    definition = _MethodDef(name.encode(), address, flags, document)
    _keep_forever(definition)
    setattr(owner, name, new_descriptor(owner, ctypes.addressof(definition)))


def _compile(text: str) -> Any:
    require_addresses("compiling the native launcher", compiles=False)
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    # Optimizing the text takes LLVM twice as long as all the rest, and gains almost nothing.
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _document(name: str, python: Callable[..., Any]) -> bytes:
    """Return the method's own text, with its signature as CPython's methods carry it."""
    import inspect

    signature = inspect.signature(python)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    shown = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    shown = shown.replace("(self", "($self", 1)
    return f"{name}{shown}\n--\n\n{inspect.getdoc(python)}".encode()


def _keep_forever(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def begin_generation() -> None:
    """Pass over every table that was made so far; launches are prepared again.

    Call it after a change of what Python would choose for a launch, such as another plan for it.
    """
    _state[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=begin_generation)
