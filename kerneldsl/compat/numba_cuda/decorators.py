"""``cuda.jit``."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any
from warnings import warn

from kerneldsl.compat.numba_cuda.dispatcher import CUDADispatcher, constants_of, make_options
from kerneldsl.compat.numba_cuda.linking import read_links
from kerneldsl.compat.numba_cuda.modules import check_carveout
from kerneldsl.compat.numba_cuda.typing import (
    kinds_of_signature,
    pointers_of_signature,
    records_by_reference,
    types_of_signature,
)

__all__ = ["jit"]

#: Options that change nothing here: kerneldsl decides by itself, or always does it.
_WITHOUT_EFFECT = (
    "_dbg_optnone abi abi_info boundscheck error_model forceinline inline lto nopython "
    "shared_memory_carveout"
)
#: Options that are read here, and in the dispatcher.
_READ = (
    "cache cooperative debug device extensions fastmath launch_bounds lineinfo link max_registers "
    "opt"
)
_KNOWN = {*_WITHOUT_EFFECT.split(), *_READ.split()}


def jit(
    func_or_sig: Any = None,
    device: bool = False,
    inline: Any = "never",
    forceinline: bool = False,
    link: Any = (),
    debug: bool | None = None,
    opt: bool | None = None,
    lineinfo: bool = False,
    cache: bool = False,
    launch_bounds: Any = None,
    lto: bool | None = None,
    shared_memory_carveout: Any = None,
    **kws: Any,
) -> Any:
    """Make a function that kernels call and that the host launches.

    Parameters
    ----------
    func_or_sig : function, signature or list of signatures, optional
        The function; or the types of its parameters, for which it is compiled at once.
    device : bool, optional
        Whether it is for kernels alone.
    debug, lineinfo, launch_bounds, fastmath, max_registers, cooperative
        As of :func:`kerneldsl.kernel`.
    extensions : list, optional
        Objects with a method ``prepare_args``, which converts arguments before a launch.
    link : path, LinkableCode or list of these, optional
        Code with the functions that ``cuda.declare_device`` declares.
    **kws
        Other options of numba.cuda's, which change nothing here.
    """
    options = dict(locals())
    options |= options.pop("kws")
    del options["func_or_sig"]
    from numba import config, errors

    from kerneldsl.lowering.numba_internals.vocabulary import is_signature

    for name in ("argtypes", "restype", "bind"):
        if kws.get(name) is not None:
            raise errors.DeprecationError(
                f"Deprecated keyword argument `{name}`. Signatures should be passed as the first "
                "positional argument."
            )
    if kws.get("boundscheck"):
        raise NotImplementedError("bounds checking is not supported for CUDA")
    debug = bool(config.CUDA_DEBUGINFO_DEFAULT) if debug is None else debug
    opt = config.OPT != 0 if opt is None else opt
    if debug and opt:
        warn(
            errors.NumbaInvalidConfigWarning(
                "debug=True with opt=True is not supported by CUDA. This may result in a crash - "
                "set debug=False or opt=False."
            )
        )
    if debug and lineinfo:
        warn(
            errors.NumbaInvalidConfigWarning(
                "debug and lineinfo are mutually exclusive. Use debug to get full debug info (this "
                "disables some optimizations), or lineinfo for line info only with code generation "
                "unaffected."
            )
        )
    if shared_memory_carveout is not None:
        check_carveout(shared_memory_carveout)
    if link and device:
        raise ValueError("link keyword invalid for device function")
    options |= {"debug": debug, "opt": opt}
    if isinstance(func_or_sig, list):
        signatures, is_one = func_or_sig, False
    elif is_signature(func_or_sig):
        signatures, is_one = [func_or_sig], True
    else:
        return _decorator(options) if func_or_sig is None else _decorated(func_or_sig, options)
    declared = [kinds_of_signature(each, of_kernel=not device) for each in signatures]
    return _decorator(options, declared, signatures[0] if len(signatures) == 1 else (), is_one)


def _decorator(
    options: dict[str, Any],
    signatures: list[Any] | None = None,
    only: Any = (),
    is_one: bool = False,
) -> Callable[[Any], CUDADispatcher]:
    def decorate(function: Any) -> CUDADispatcher:
        made = _decorated(function, options, signatures or [], types_of_signature(only))
        made.specialized, made.pointers = is_one, pointers_of_signature(only)
        return made

    return decorate


def _decorated(
    function: Any,
    options: dict[str, Any],
    signatures: list[Any] | None = None,
    values: dict[int, Any] | None = None,
) -> CUDADispatcher:
    from numba import types

    if isinstance(function, CUDADispatcher):  # with other options
        function = function.py_func
    if not isinstance(function, FunctionType):
        raise TypeError(f"cuda.jit needs a Python function, found {type(function).__name__}")
    declared = signatures or []
    if not options["device"]:
        declared = [(records_by_reference(kinds), result) for kinds, result in declared]
    if not options["device"] and any(r not in (None, types.void) for _, r in declared):
        raise TypeError("CUDA kernel must have void return type.")
    unknown = set(options) - _KNOWN
    if unknown:
        raise KeyError(f"Unrecognized options: {sorted(unknown)}. Known options: {sorted(_KNOWN)}")
    bounds = options["launch_bounds"]
    made = CUDADispatcher(
        function,
        make_options(
            () if options["device"] else tuple(kinds for kinds, _ in declared),
            bool(options.get("cooperative", False)),
            fastmath=bool(options.get("fastmath", False)),
            contract=bool(options["opt"]),
            debug=bool(options["debug"]),
            checks_division=bool(options["debug"]) and not options.get("fastmath"),
            lineinfo=bool(options["lineinfo"]),
            optimize=bool(options["opt"]),
            variables=bool(options["debug"]) and not options["opt"],
            max_registers=options.get("max_registers"),
            launch_bounds=None if bounds is None else _bounds(bounds),
        ),
        options,
        constants_of(function, values or {}),
    )
    if options["link"]:
        #: Attribute in which the front end looks for linked code.
        made.py_func.__kerneldsl_link__ = read_links(options["link"])  # type: ignore[attr-defined]
    for kinds, result in declared:
        if options["device"]:
            made._declare(kinds, result)
        else:
            made._compile(kinds)
    if options["device"]:
        made._convert_to(declared)
    return made


def _bounds(bounds: Any) -> Any:
    found = tuple(bounds) if isinstance(bounds, (tuple, list)) else (bounds,)
    if not 1 <= len(found) <= 3:
        raise ValueError(f"Got {len(found)} launch bounds: {found}. Give one to three")
    return found
