"""numba.cuda's decorated functions: a kernel and a device function in one object."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Never

from kerneldsl.compat.numba_cuda.arguments import adapt, kinds_of_arguments
from kerneldsl.compat.numba_cuda.errors import missing_launch_config_msg, translating
from kerneldsl.compat.numba_cuda.launchconfig import (
    Configuration,
    NumbaDispatcher,
    ensure_current_launch_config,
    overload_of_launch,
)
from kerneldsl.compat.numba_cuda.launches import (
    ForAll,
    checked_dimensions,
    warn_of_no_source,
    warn_of_small_grid,
)
from kerneldsl.compat.numba_cuda.overloads import Overload
from kerneldsl.compat.numba_cuda.streams import stream_of
from kerneldsl.compat.numba_cuda.typing import (
    argument_types,
    kinds_of_signature,
    records_by_reference,
)
from kerneldsl.contract import CompileOptions
from kerneldsl.kernels.kernel import Kernel, KernelOptions
from kerneldsl.language.signatures import read_signature
from kerneldsl.launch.dispatch import Dispatcher
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.placement.devices import current_device
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.modules import is_of_numba

__all__ = ["CUDADispatcher", "constants_of", "make_options"]


class CompileStats(NamedTuple):
    """The counts that ``stats`` of a function returns."""

    cache_path: str | None
    cache_hits: Mapping[Any, int]
    cache_misses: Mapping[Any, int]


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
    constants : dict, optional
        Parameters that are types, by name, and what they are.
    """

    #: Kernels may call it.
    __kerneldsl_kernel__ = False

    def __init__(
        self,
        py_func: Callable[..., Any],
        options: KernelOptions,
        targetoptions: dict[str, Any] | None = None,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(py_func, options, constants)
        self.py_func = py_func
        self.targetoptions = dict(targetoptions or {})
        self.specialized = False
        #: Positions of parameters that are pointers.
        self.pointers: frozenset[int] = frozenset()
        #: Attribute by which the front end recognizes a device function.
        self.__kerneldsl_function__ = py_func
        self._declared: dict[tuple[Any, ...], Overload] = {}
        self._specializations: dict[tuple[Any, ...], CUDADispatcher] = {}
        self._launch_config_sensitive = False
        #: The kernels for launch configurations, of one that depends on them.
        self._launch_config_specializations: dict[tuple[Any, ...], CUDADispatcher] = {}

    def _dispatcher_class(self) -> type[Dispatcher]:
        return NumbaDispatcher

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
        if self.targetoptions.get("link"):
            raise RuntimeError("Cannot pickle CUDACodeLibrary with linking files: leave out cache=")
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
        if self._store is not None:
            self._store.forget()
        self._made_dispatcher = None
        self._remember_launches()

    # ------------------------------------------------------------------ launches

    #: numba.cuda's names for the shape of a launch.
    _names_of_shape = Configuration.names

    def _shape_class(self) -> type[LaunchShape]:
        return Configuration

    def _read_grid(self, grid: Any, block: Any, stream: Any, shared_bytes: Any) -> Any:
        griddim, blockdim = checked_dimensions(grid, block)
        warn_of_small_grid(math.prod(griddim))
        with translating():
            shape: Any = super()._read_grid(griddim, blockdim, stream_of(stream), shared_bytes)
        shape.dispatcher = self
        return shape

    def _compile_for_args(self, *args: Any) -> Overload:
        """Return the overload for arguments; called before a launch compiles the kernel."""
        compiled: Overload | None = overload_of_launch()
        return compiled or self._compile(kinds_of_arguments(tuple(map(adapt, args))))

    def mark_launch_config_sensitive(self) -> None:
        """Have the kernel compiled for each launch configuration, from the current one on."""
        config = ensure_current_launch_config()
        if config.dispatcher is not self:
            raise RuntimeError(
                "mark_launch_config_sensitive() must be called on the active launch "
                "configuration's dispatcher"
            )
        self._launch_config_sensitive = True
        self._launch_config_specializations.setdefault(config.values, self)

    def _kernel_for(self, config: Configuration) -> CUDADispatcher:
        """Return the kernel that is compiled for a configuration, if this one depends on it."""
        if not self._launch_config_sensitive:
            return self
        known = self._launch_config_specializations
        if config.values not in known:
            known.setdefault(config.values, self._with(self._constant_values))
        return known[config.values]

    def _for_members(self, values: Mapping[int, Any]) -> CUDADispatcher:
        """Return the kernel in which these parameters are members of enumerations."""
        key = tuple((n, type(each), each) for n, each in values.items())
        if key not in self._specializations:
            constants = self._constant_values or {}
            names = [n for n in self.py_func.__code__.co_varnames if n not in constants]
            constants = {**constants, **{names[n]: each for n, each in values.items()}}
            self._specializations.setdefault(key, self._with(constants))
        return self._specializations[key]

    def _with(self, constants: Mapping[str, Any] | None, **options: Any) -> CUDADispatcher:
        """Return this kernel with other values of parameters, and with other options."""
        changed = self.options._replace(**options)
        return CUDADispatcher(self.py_func, changed, self.targetoptions, constants)

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
        return self._compile(kinds_of_signature(sig)[0])

    def _compile(self, kinds: tuple[Any, ...]) -> Overload:
        overload = self._declare(kinds, None)
        names = self.py_func.__code__.co_varnames
        with translating(self.py_func, dict(zip(names, overload.argument_types, strict=False))):
            if current_device().is_host:
                overload.typed()
            else:
                self.artifact(*overload._kernel()[1])
            overload.dump()
        return overload

    def compile_device(self, args: Any, return_type: Any = None) -> Overload:
        """Return the device function for types of its parameters, for inspection."""
        return self._declare(read_signature(tuple(args)) if args else (), return_type)

    def _convert_to(self, signatures: Sequence[Any]) -> None:
        """Let a device function convert to its signatures, as numba.cuda does."""
        is_void = [result is None or str(result) in ("none", "void") for _, result in signatures]
        #: Attribute in which the front end looks for the signatures.
        self.__kerneldsl_signatures__ = tuple(
            (None if void else read_signature((result,))[0], kinds)
            for void, (kinds, result) in zip(is_void, signatures, strict=True)
        )

    def _declare(self, kinds: tuple[Any, ...], result: Any) -> Overload:
        key = argument_types(kinds)
        return self._declared.setdefault(key, Overload(self, key, result))

    @property
    def specializations(self) -> Any:
        """The kernels that `specialize` has made, by Numba's types of the parameters."""
        return self._specializations

    def specialize(self, *args: Any) -> CUDADispatcher:
        """Return the kernel for the types of these arguments alone."""
        if self.specialized:
            raise RuntimeError("Dispatcher already specialized")
        constants = constants_of(
            self.py_func, {n: each for n, each in enumerate(args) if isinstance(each, type)}
        )
        args = tuple(each for each in args if not isinstance(each, type))
        if any(is_of_numba(each, "Type") for each in args):
            kinds = read_signature(args)
        else:
            kinds = kinds_of_arguments(args)
        key = (*argument_types(kinds), *(constants or {}).items())
        found = self._specializations.get(key)
        if found is None:
            found = self._with(constants, signatures=(kinds,))
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
            kinds = kinds_of_signature(signature, of_kernel=not self._is_device)[0]
            kinds = kinds if self._is_device else records_by_reference(kinds)
            return read(self.overloads[argument_types(kinds)])
        if self.specialized and not is_text:
            return read(next(iter(self.overloads.values())))
        return {key: read(each) for key, each in self.overloads.items()}

    def inspect_llvm(self, signature: Any = None) -> Any:
        """Return the LLVM IR, of all overloads in a dict."""
        return self._of_each(signature, Overload.inspect_llvm, is_text=True)

    def inspect_asm(self, signature: Any = None) -> Any:
        """Return the PTX, of all overloads in a dict."""
        return self._of_each(signature, Overload.inspect_asm, is_text=True)

    #: Calls are compiled away in it, as numba.cuda's linker does with ``lto=True``.
    inspect_lto_ptx = inspect_asm

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

        given = self.options, self.targetoptions, self._constant_values
        return reduce_function(self, self.function, *given)


def constants_of(function: Any, values: Mapping[int, Any]) -> dict[str, Any] | None:
    """Return the values of parameters by their names, given by position."""
    return {function.__code__.co_varnames[n]: each for n, each in values.items()} or None


def make_options(signatures: tuple[Any, ...], cooperative: bool, **compile: Any) -> KernelOptions:
    """Return the options of a kernel."""
    from kerneldsl.launch.attributes import read_attributes

    return KernelOptions(
        signatures, CompileOptions(**compile), None, read_attributes(None, cooperative)
    )
