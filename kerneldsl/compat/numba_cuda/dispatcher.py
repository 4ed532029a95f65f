"""numba.cuda's decorated functions: a kernel and a device function in one object."""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Never

import numpy as np

from kerneldsl.compat.numba_cuda.api import as_cuda_array
from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray, DeviceRecord
from kerneldsl.compat.numba_cuda.errors import missing_launch_config_msg, translated, translating
from kerneldsl.compat.numba_cuda.launches import (
    checked_dimensions,
    warn_of_host_arrays,
    warn_of_no_source,
    warn_of_small_grid,
)
from kerneldsl.compat.numba_cuda.overloads import Overload
from kerneldsl.compat.numba_cuda.shared_arrays import SharedNDArray
from kerneldsl.compat.numba_cuda.streams import stream_of
from kerneldsl.contract import CompileOptions
from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.language.element_types import numpy_dtype
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.language.signatures import read_signature
from kerneldsl.launch.dispatch import Dispatcher
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.placement.devices import current_device
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.modules import is_of_numba

__all__ = ["ArgHint", "CUDADispatcher", "In", "InOut", "Out", "wrap_arg"]


class ArgHint:
    """An argument with the direction in which it is copied."""

    def __init__(self, value: Any) -> None:
        self.value = value


def wrap_arg(value: Any, default: Any = None) -> ArgHint:
    """Return an argument with a direction; the default one is both."""
    return value if isinstance(value, ArgHint) else (default or InOut)(value)


class In(ArgHint):
    """An array that is copied to the device alone."""


class Out(ArgHint):
    """An array that is copied from the device; what the kernel leaves out keeps its value."""


class InOut(ArgHint):
    """An array that is copied to the device and back."""


class _NumbaDispatcher(Dispatcher):
    """Launch with numba.cuda's kinds of arguments, and raise its errors."""

    extensions: Sequence[Any] = ()
    pointers: frozenset[int] = frozenset()

    def launch(self, shape: Any, args: tuple[Any, ...], instead: Any = None) -> None:
        """Launch, as :meth:`Dispatcher.launch` does."""
        after: list[Callable[[], Any]] = []
        try:
            super().launch(shape, self.adapted(args, shape.stream, after), instead)
        except KernelError as error:
            found = translated(error)
            if isinstance(error, ArgumentTypeError) and len(self.definition.signatures) > 1:
                found = TypeError(f"No matching definition for argument type(s): {error}")
            if found is error:
                raise
            raise found from error
        for each in after:
            each()

    def _hidden_of(self, unit: Any) -> tuple[Any, ...]:
        return tuple(map(_adapt, unit.hidden))

    def find(self, shape: Any, args: tuple[Any, ...], *, make: bool = False) -> Any:
        """Find what native code repeats: a launch with arguments that need no conversion."""
        if self.extensions or self.adapted(args, None, []) is not args:
            return None
        return super().find(shape, args, make=make)

    def adapted(
        self, args: tuple[Any, ...], stream: Any, after: list[Callable[[], Any]]
    ) -> tuple[Any, ...]:
        """Return the arguments as kerneldsl takes them, the same tuple if they are."""
        if self.extensions:
            args = tuple(self._extended(each, stream, after) for each in args)
        if self.pointers:
            kinds = enumerate(zip(args, self.definition.signatures[0], strict=True))
            args = tuple(_at(a, k) if n in self.pointers else a for n, (a, k) in kinds)
        warn_of_host_arrays(args)
        if any(isinstance(each, np.void | DeviceRecord) for each in args):
            args = self._with_written_records(args, after)
        made = tuple(_aligned(_adapt(each), after) for each in args)
        if len(self.definition.signatures) == 1:
            made = tuple(map(_wrapped, made, self.definition.signatures[0])) or made
        is_same = all(a is b for a, b in zip(made, args, strict=True))
        return args if is_same else made

    def _with_written_records(
        self, args: tuple[Any, ...], after: list[Callable[[], Any]]
    ) -> tuple[Any, ...]:
        """Return arguments in which records that the kernel may write are arrays without axes."""
        written = self.state().traits.written.union(
            n
            for kinds in self.definition.signatures
            for n, kind in enumerate(kinds)
            if isinstance(kind, ArrayKind) and not kind.ndim
        )
        found = list(args)
        for position in written.intersection(range(len(args))):
            value = args[position]
            if isinstance(value, DeviceRecord):
                found[position] = DeviceNDArray.over(value)
            elif isinstance(value, np.void):
                found[position] = memory = np.array(value)
                after.append(partial(_write_back, value, memory))
        return tuple(found) if written else args

    def _extended(self, value: Any, stream: Any, after: list[Callable[[], Any]]) -> Any:
        kind: Any = None
        for extension in reversed(self.extensions):
            kind, value = extension.prepare_args(kind, value, stream=stream or 0, retr=after)
        return value


#: Types of values that need no conversion.
_PLAIN = frozenset({bool, int, float, complex, np.ndarray})


def _adapt(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, DeviceArray):
        return value.copy_to_host()[()] if kind is DeviceRecord else value
    if isinstance(value, ArgHint):
        found = _adapt(value.value)
        is_copied = isinstance(value, In) and isinstance(found, np.ndarray)
        return found.copy(order="K") if is_copied else found
    if isinstance(value, enum.Enum) and isinstance(value, int):
        return int(value)
    if isinstance(value, SharedNDArray):
        return value if value.whole is None else value.on_device
    if isinstance(value, tuple):
        made = [_adapt(each) for each in value]
        if all(a is b for a, b in zip(made, value, strict=True)):
            return value
        return kind(*made) if hasattr(value, "_fields") else tuple(made)
    if not isinstance(value, np.generic) and hasattr(value, "__cuda_array_interface__"):
        return as_cuda_array(value)
    return value


def _write_back(record: np.void, memory: np.ndarray[Any, Any]) -> None:
    """Give a record the values of its fields in memory."""
    for name in record.dtype.names or ():
        record[name] = memory[name]


def _aligned(value: Any, after: list[Callable[[], Any]]) -> Any:
    """Return an array of the host that kernels take; one with odd addresses is copied and back."""
    if type(value) is not np.ndarray or value.flags.aligned:
        return value
    copy = value.copy(order="K")
    if value.flags.writeable:
        after.append(partial(np.copyto, value, copy))
    return copy


#: More elements than memory has: a pointer has no end.
_ENDLESS = 1 << 40


def _at(value: Any, kind: Kind) -> Any:
    """Return the array at an address, for a parameter that is a pointer."""
    from kerneldsl.compat.numba_cuda.api import from_cuda_array_interface

    if not isinstance(value, int | np.integer) or not isinstance(kind, ArrayKind):
        return value
    found = {"data": (int(value), False), "shape": (_ENDLESS,), "strides": None, "version": 3}
    return from_cuda_array_interface({**found, "typestr": numpy_dtype(kind.dtype).str})


def _wrapped(value: Any, kind: Any) -> Any:
    """Return an argument with the signedness of its parameter, as numba.cuda reads it.

    An int becomes its lowest bits. An array of integers is one of others of the same size.
    """
    if isinstance(kind, ArrayKind) and isinstance(value, np.ndarray | DeviceArray):
        wanted, given = kind.element, value.dtype
        is_other = wanted.is_integer and given.kind in "iu" and given.name != wanted.name
        return value.view(wanted.name) if is_other and given.itemsize == wanted.nbytes else value
    if type(value) is not int or not isinstance(kind, ScalarKind):
        return value
    dtype = numpy_dtype(kind.dtype)
    if dtype.kind not in "iu" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return value
    return np.uint64(value % 2**64).astype(dtype)


class CompileStats(NamedTuple):
    """The counts that ``stats`` of a function returns."""

    cache_path: str | None
    cache_hits: Mapping[Any, int]
    cache_misses: Mapping[Any, int]


class ForAll:
    """Launches over a number of tasks; the kernel guards, as in numba.cuda."""

    def __init__(
        self, kernel: CUDADispatcher, ntasks: int, tpb: int, stream: Any, sharedmem: int
    ) -> None:
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        self.dispatcher, self.ntasks, self.thread_per_block = kernel, ntasks, tpb
        self.stream, self.sharedmem = stream, sharedmem

    def __call__(self, *args: Any) -> None:
        if self.ntasks == 0:
            return
        block = self.thread_per_block or _BLOCK
        grid = (self.ntasks + block - 1) // block
        self.dispatcher[grid, block, self.stream, self.sharedmem](*args)


#: Threads of a block where the program leaves the choice.
_BLOCK = 256


def _reader(attribute: str, what: str) -> Any:
    """Return the method that reads an attribute of the overload of a signature."""

    def read(self: CUDADispatcher, signature: Any = None) -> Any:
        return self._of_each(signature, attrgetter(attribute))

    read.__doc__ = f"Return {what}, of all overloads in a dict."
    return read


class CUDADispatcher(Kernel[Any, Any]):
    """A function under ``cuda.jit``: kernels call it, and the host launches it.

    Parameters
    ----------
    py_func : function
        The Python function.
    options : KernelOptions
        Options for compiling it.
    targetoptions : dict
        numba.cuda's options, as they were given.
    """

    #: Kernels may call it.
    __kerneldsl_kernel__ = False

    def __init__(
        self,
        py_func: Callable[..., Any],
        options: KernelOptions,
        targetoptions: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(py_func, options)
        self.py_func = py_func
        self.targetoptions = dict(targetoptions or {})
        self.specialized = False
        #: Positions of parameters that are pointers.
        self.pointers: frozenset[int] = frozenset()
        #: By this attribute the front end knows a device function.
        self.__kerneldsl_function__ = py_func
        self._declared: dict[tuple[Any, ...], Overload] = {}
        self._specializations: dict[tuple[Any, ...], CUDADispatcher] = {}

    def _dispatcher_class(self) -> type[Dispatcher]:
        return _NumbaDispatcher

    @property
    def _dispatcher(self) -> Dispatcher:
        found: Any = super()._dispatcher
        found.extensions, found.pointers = self.extensions, self.pointers
        return found  # type: ignore[no-any-return]

    def _define(self, make: Any) -> Any:
        if self.options.compile.debug:
            warn_of_no_source(self.py_func)
        return super()._define(make)._replace(follows_numba=True, store=self._store)

    @cached_property
    def _store(self) -> Any:
        if not self.targetoptions.get("cache"):
            return None
        from kerneldsl.compat.numba_cuda.caching import FilesBeside

        return FilesBeside(self.py_func)

    @property
    def stats(self) -> CompileStats:
        """The folder of cached code, and how often code was and was not there, by types."""
        store = self._store
        if store is None:
            return CompileStats(None, {}, {})
        return CompileStats(store.path, store.hits, store.misses)

    def recompile(self) -> None:
        """Compile the function again at its next launch, with the globals of that time."""
        self._made_dispatcher = None
        self._remember_launches()

    # ------------------------------------------------------------------ launches

    #: numba.cuda's names for the shape of a launch.
    _names_of_shape: ClassVar[dict[str, str]] = {
        "blockdim": "block_dim",
        "griddim": "grid_dim",
        "sharedmem": "shared_bytes",
        "stream": "stream",
    }

    def _read_grid(self, grid: Any, block: Any, stream: Any, shared_bytes: Any) -> Any:
        griddim, blockdim = checked_dimensions(grid, block)
        warn_of_small_grid(math.prod(griddim))
        return super()._read_grid(griddim, blockdim, stream_of(stream), shared_bytes)

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Any:
        """Return a launch, as ``kernel[griddim, blockdim, stream, sharedmem]`` does."""
        return self[griddim, blockdim, stream, sharedmem]

    def forall(  # type: ignore[override]  # numba.cuda's parameters
        self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0
    ) -> ForAll:
        """Return a launch of at least `ntasks` threads, in blocks of `tpb`."""
        return ForAll(self, ntasks, tpb, stream, sharedmem)

    def __getitem__(self, config: Any) -> Any:
        if self._is_device:
            raise RuntimeError("Cannot compile a device function as a kernel")
        return super().__getitem__(config)

    def __call__(self, *args: Any, **kwargs: Any) -> Never:
        raise ValueError(missing_launch_config_msg)

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return self if obj is None else types.MethodType(self, obj)

    # ------------------------------------------------------------------ signatures

    @property
    def extensions(self) -> list[Any]:
        """Objects that convert arguments before a launch."""
        if self.targetoptions.get("extensions") is None:
            self.targetoptions["extensions"] = []
        found: list[Any] = self.targetoptions["extensions"]
        return found

    @property
    def _is_device(self) -> bool:
        return bool(self.targetoptions.get("device"))

    @property
    def overloads(self) -> dict[tuple[Any, ...], Overload]:
        """The compiled forms, by Numba's types of the parameters."""
        from kerneldsl.compat.numba_cuda.typing import argument_types

        found = dict(self._declared)
        if self._made_dispatcher is not None and not self.options.signatures:
            for state in self._made_dispatcher._states:
                for _, specialization in tuple(state.compile_s):
                    key = argument_types(specialization.kinds)
                    found.setdefault(key, Overload(self, key))
        return found

    @property
    def signatures(self) -> list[tuple[Any, ...]]:
        """Types of the parameters that the function is compiled for."""
        return list(self.overloads)

    nopython_signatures = signatures

    def compile(self, sig: Any) -> Overload:
        """Compile the kernel for a signature."""
        from kerneldsl.compat.numba_cuda.typing import kinds_of_signature

        return self._compile(kinds_of_signature(sig)[0])

    def _compile(self, kinds: tuple[Any, ...]) -> Overload:
        overload = self._declare(kinds, None)
        with translating():
            if current_device().is_host:
                overload.typed()
            else:
                self.artifact(*overload._kernel()[1])
        return overload

    def compile_device(self, args: Any, return_type: Any = None) -> Overload:
        """Return the device function for types of its parameters, for inspection."""
        return self._declare(read_signature(tuple(args)) if args else (), return_type)

    def _convert_to(self, kinds: tuple[Any, ...], result: Any) -> None:
        """Let a device function convert to its one signature, as numba.cuda does."""
        is_void = result is None or str(result) in ("none", "void")
        #: By this attribute the front end knows the signature.
        self.__kerneldsl_signature__ = None if is_void else read_signature((result,))[0], kinds

    def _declare(self, kinds: tuple[Any, ...], result: Any) -> Overload:
        from kerneldsl.compat.numba_cuda.typing import argument_types

        key = argument_types(kinds)
        return self._declared.setdefault(key, Overload(self, key, result))

    @property
    def specializations(self) -> Any:
        """The kernels that `specialize` has made, by Numba's types of the parameters."""
        return self._specializations

    def specialize(self, *args: Any) -> CUDADispatcher:
        """Return the kernel for the types of these arguments alone."""
        from kerneldsl.compat.numba_cuda.typing import argument_types
        from kerneldsl.launch.arguments.arguments import bind
        from kerneldsl.launch.arguments.binding import kinds_of

        if self.specialized:
            raise RuntimeError("Dispatcher already specialized")
        if any(is_of_numba(each, "Type") for each in args):
            kinds = read_signature(args)
        else:
            kinds = kinds_of(bind(tuple(map(str, range(len(args)))), args).given)
        key = argument_types(kinds)
        found = self._specializations.get(key)
        if found is None:
            options = self.options._replace(signatures=(kinds,))
            found = CUDADispatcher(self.py_func, options, self.targetoptions)
            found._compile(kinds)
            found.specialized = True
            self._specializations[key] = found
        return found

    # ------------------------------------------------------------------ inspection

    def _of_each(
        self, signature: Any, read: Callable[[Overload], Any], *, is_text: bool = False
    ) -> Any:
        """Return what is read of the overload of a signature, or of all of them in a dict."""
        if signature is not None:
            return read(self.overloads[tuple(getattr(signature, "args", signature))])
        if self.specialized and not is_text:
            return read(next(iter(self.overloads.values())))
        return {key: read(each) for key, each in self.overloads.items()}

    def inspect_llvm(self, signature: Any = None) -> Any:
        """Return the LLVM IR, of all overloads in a dict."""
        return self._of_each(signature, Overload.inspect_llvm, is_text=True)

    def inspect_asm(self, signature: Any = None) -> Any:
        """Return the PTX, of all overloads in a dict."""
        return self._of_each(signature, Overload.inspect_asm, is_text=True)

    def inspect_sass(self, signature: Any = None) -> Any:
        """Return the machine code as text, of all overloads in a dict."""
        if self._is_device:
            raise RuntimeError("Cannot inspect SASS of a device function")
        return self._of_each(signature, Overload.inspect_sass, is_text=True)

    def inspect_types(self, file: Any = None) -> None:
        """Print the function with the types of its values."""
        for key, each in self.overloads.items():
            print(self.py_func.__name__, key, file=file)
            print("-" * 80, each.typed(), "=" * 80, sep="\n", file=file)

    get_regs_per_thread = _reader("regs_per_thread", "the registers of a thread")
    get_const_mem_size = _reader("const_mem_size", "the bytes of constant memory")
    get_shared_mem_per_block = _reader(
        "shared_mem_per_block", "the bytes of static shared memory of a block"
    )
    get_max_threads_per_block = _reader(
        "max_threads_per_block", "the largest number of threads of a block"
    )
    get_local_mem_per_thread = _reader(
        "local_mem_per_thread", "the bytes of local memory of a thread"
    )

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        return reduce_function(self, self.function, self.options, self.targetoptions)


def make_options(signatures: tuple[Any, ...], cooperative: bool, **compile: Any) -> KernelOptions:
    """Return the options of a kernel."""
    from kerneldsl.launch.attributes import read_attributes

    return KernelOptions(
        signatures, CompileOptions(**compile), None, read_attributes(None, cooperative)
    )
