"""``from kerneldsl import cuda``: numba.cuda's names, with numba.cuda's meaning.

Programs of numba.cuda run with this import instead of ``from numba import cuda``, or unchanged
under :mod:`kerneldsl.drop_in`. The tables below have each name once. What they name is in
``kerneldsl.compat.numba_cuda``, which only says in numba's words what the rest of kerneldsl does.
"""

from __future__ import annotations

import os
import sys
import types as _types
from importlib import import_module
from typing import Any

from kerneldsl.language.other_names import ON_HOST, VALUE_ALIASES, VALUE_VECTORS, words_for_vectors

#: Attribute by which the front end recognizes numba.cuda as this package.
__kerneldsl__ = True

#: Name of the implementation of numba.cuda.
implementation = "kerneldsl"
HAS_NUMBA = True

_PACKAGE = "kerneldsl.compat.numba_cuda"
#: Vectors that are values of kernels alone.
_VALUES = " ".join([*VALUE_VECTORS, *VALUE_ALIASES])
#: Module to the names that programs use of it; a module that begins with a point is below the
#: package.
_NAMES = {
    ".api": (
        "as_cuda_array device_array device_array_like from_cuda_array_interface is_cuda_array "
        "managed_array mapped mapped_array mapped_array_like pinned pinned_array "
        "pinned_array_like to_device"
    ),
    ".arguments": "In InOut Out",
    ".arrays": "is_cuda_ndarray",
    ".cache_hints": "ldca ldcg ldcs ldcv ldlu stcg stcs stwb stwt",
    ".compiler": (
        "compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device"
    ),
    ".decorators": "jit",
    ".devices": (
        "MemoryInfo close cuda_error current_context defer_cleanup detect get_current_device gpus "
        "is_available is_bfloat16_supported is_float16_supported is_fp8_supported "
        "is_supported_version list_devices profile_start profile_stop profiling require_context "
        "select_device synchronize"
    ),
    ".driver": "runtime",
    ".errors": "CudaSupportError KernelRuntimeError",
    ".gufuncs": "guvectorize",
    ".ipc": "open_ipc_array",
    ".linking": "CUSource Cubin Fatbin LTOIR LinkableCode PTXSource declare_device",
    ".managers": (
        "BaseCUDAMemoryManager GetIpcHandleMixin HostOnlyCUDAMemoryManager set_memory_manager"
    ),
    ".memory": "MemoryPointer",
    ".reduction": "Reduce reduce",
    ".streams": (
        "default_stream event event_elapsed_time external_stream legacy_default_stream "
        "per_thread_default_stream stream"
    ),
    ".vectors": _VALUES,
    ".vectorizers": "vectorize",
    "kerneldsl": (
        "activemask all_sync any_sync ballot_sync blockDim blockIdx brev cbrt clz const "
        "eq_sync ffs fma grid gridDim gridsize laneid lanemask_lt local match_all_sync "
        "match_any_sync nanosleep popc selp shared shfl_down_sync shfl_sync shfl_up_sync "
        "shfl_xor_sync syncthreads syncthreads_and syncthreads_count syncthreads_or syncwarp "
        "threadIdx threadfence threadfence_block threadfence_system warpsize float32x2 float32x4 "
        "float64x2 int8x2 int8x4 int16x2 int16x4 int32x2 int32x4 int64x2 uint8x2 uint8x4 "
        "uint16x2 uint16x4 uint32x2 uint32x4 uint64x2"
    ),
    "kerneldsl.math_api.bfloat16": "bfloat16",
    "numba": "literal_unroll",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

#: Vectors that arrays have as elements, by the names that CUDA C++ has for them.
_VECTORS = words_for_vectors((2, 4), _NAMES["kerneldsl"].split())

_DRIVER = (".driver", ".devices", ".streams", ".memory", ".managers", ".errors", ".ipc")
#: Modules below numba.cuda to those that have their names, the first that does; after a colon, an
#: object that has them.
SUBMODULES = {
    "api": (".api", ".devices", ".streams", ".arrays"),
    "args": (".arguments",),
    "atomic": (".atomic",),
    "bf16": ("kerneldsl.math_api.bfloat16",),
    # Programs of before numba.cuda.bf16 name the bindings themselves.
    "_internal": (),
    "_internal.cuda_bf16": ("kerneldsl.math_api.bfloat16",),
    "_internal.cuda_fp8": ("kerneldsl.math_api.float8",),
    "cache_hints": (".cache_hints",),
    "cg": (".cg",),
    "cgutils": ("numba.core.cgutils",),
    "cloudpickle": ("numba.cloudpickle",),
    "compiler": (".compiler",),
    "config": ("numba.core.config",),
    "core": (),
    "core.config": ("numba.core.config",),
    "core.errors": ("numba.core.errors",),
    "core.sigutils": ("numba.core.sigutils",),
    "cudadecl": (".cudadecl",),
    "cudaimpl": (".cudaimpl",),
    "cudadrv": (),
    "cudadrv.devicearray": (".arrays", ".api"),
    "cudadrv.devices": (".devices",),
    "cudadrv.driver": _DRIVER,
    "cudadrv.error": (".errors",),
    "cudadrv.nvvm": (".errors", ".devices"),
    "cudadrv.runtime": (".driver",),
    "decorators": (".decorators",),
    "datamodel": ("numba.core.datamodel",),
    "datamodel.models": ("numba.core.datamodel.models",),
    "device_init": ("kerneldsl.cuda",),
    "devices": (".devices",),
    "devicearray": (".arrays", ".api"),
    "dispatcher": (".dispatcher",),
    "driver": _DRIVER,
    "errors": (".errors", "numba.core.errors"),
    "extending": (".extending", "numba.extending"),
    "fp16": ("kerneldsl.math_api.half",),
    "kernels": (),
    "kernels.reduction": (".reduction",),
    "kernels.transpose": (".arrays",),
    "launchconfig": (".launchconfig",),
    "libdevice": ("kerneldsl.language.intrinsics.libdevice:libdevice",),
    "misc": (),
    "misc.special": ("numba.misc.special",),
    "np": (),
    "np.numpy_support": ("numba.np.numpy_support",),
    "np.ufunc": (".vectorizers", ".gufuncs"),
    "random": (".random", "kerneldsl.random"),
    "reduction": (".reduction",),
    "serialize": ("numba.core.serialize",),
    "types": ("numba.core.types", ".typing"),
    "typing": ("numba.core.typing",),
    "typing.templates": ("numba.core.typing.templates",),
    "typing.typeof": ("numba.core.typing.typeof",),
    "vectorizers": (".vectorizers", ".gufuncs"),
}
#: Differences of names from numba-cuda's. The migration page has these sentences.
DIFFERENCES = {
    **dict.fromkeys(_VALUES.split(), "is a value of kernels; arrays have no such elements"),
    **dict.fromkeys(
        ("profile_start", "profile_stop", "profiling"),
        "changes nothing: profilers see the launches of kerneldsl",
    ),
    "add_callback": "waits for the stream, and calls the function in the same thread",
    "cache": "writes code beside the source, too; code that is older than the function is not used",
    "close": "frees the unused memory of the pools",
    "compile": "writes PTX, and no LTO-IR",
    "compile_all": "writes PTX, and no LTO-IR",
    "declare_device": "declares functions of numbers and arrays; only a GPU runs them",
    "GetIpcHandleMixin": "shares memory of GPUs alone",
    "forall": "takes blocks of 256 threads unless tpb is given",
    "is_available": "is true without a GPU, too, unless NUMBA_DISABLE_CUDA is set",
    "link": "takes CUDA C++, PTX, LTO-IR, cubins and fat binaries, and no archives",
    "open_ipc_array": "opens memory of GPUs alone",
    "reduce": "folds in an order that depends only on the number of elements",
    "select_device": "selects a device for the current thread",
}
#: Constructs that kernels may not contain, with the error's text and the remedy. The migration page
#: has them, too.
REFUSED = {
    "a device function that calls itself": ("calls itself", "a loop"),
    "a string of an array in an expression (constants can be assigned)": (
        "does not take Record(text",
        "the codes of their characters, `x.view(np.uint32)`",
    ),
    "an array that a kernel allocates, as `x.copy()`": (
        "needs memory for its result, which a kernel cannot allocate",
        "`cuda.local.array`, and a loop",
    ),
    "a list": ("a list cannot be used in a kernel", "a tuple, or `cuda.local.array`"),
    "a nested function as an argument that reads variables": (
        "which is not a constant",
        "constants, or more parameters",
    ),
    "a ufunc of `vectorize` or `guvectorize` in a kernel": (
        "which is of type",
        "its function, under `cuda.jit(device=True)`",
    ),
    "a pointer in the signature of a device function": (
        "is the type of no argument",
        "an array; kernels take pointers",
    ),
}
#: Replacements in kerneldsl's own vocabulary, if the name there is another one.
INSTEAD = {
    **ON_HOST,
    **dict.fromkeys(_NAMES[".compiler"].split(), "kernel.ptx"),
    **{n: f"kd.{'load' if n[0] == 'l' else 'store'}" for n in _NAMES[".cache_hints"].split()},
    "Reduce": "stdlib_kernels.reduce",
    "close": "kd.MemoryPool.default().trim",
    "declare_device": "kd.func(link=…)",
    "default_stream": "kd.default_stream",
    "event_elapsed_time": "event.elapsed_ms",
    "external_stream": "kd.Stream.from_foreign",
    "from_cuda_array_interface": "kd.as_array",
    "is_bfloat16_supported": "kd.device_info().supports_bf16",
    "is_float16_supported": "kd.device_info().supports_fp16",
    "is_fp8_supported": "kd.device_info().supports_fp8",
    "legacy_default_stream": "kd.default_stream",
    "link": "kd.func(link=…)",
    "mapped_array_like": "kd.pinned_empty",
    "reduce": "stdlib_kernels.reduce",
    "to_device": "kd.to_device",
    "vectorize": "kd.kernel",
    "guvectorize": "kd.kernel",
}
#: Modules of Numba itself, in which programs assign names.
_WHOLE = ("numba.core.config",)

#: Settings that numba-cuda has and Numba has not, with the values that they have by default.
_SETTINGS = {
    "CUDA_DEBUG_POLY": 0,
    "CUDA_ENABLE_MINOR_VERSION_COMPATIBILITY": 0,
    "CUDA_ENABLE_NRT": 0,
    "CUDA_NRT_STATS": 0,
    "CUDA_NVRTC_EXTRA_SEARCH_PATHS": "",
}

_made: dict[str, _types.ModuleType] = {}

if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
    from kerneldsl.placement.devices import host_device as _host_device
    from kerneldsl.placement.devices import use as _use

    _use(_host_device())  # numba.cuda's simulator runs on the CPU, and so does this


def _full(module: str) -> str:
    return _PACKAGE + module if module[0] == "." else module


def _home(named: str) -> Any:
    module, _, attribute = named.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def submodule(name: str) -> _types.ModuleType:
    """Return what is ``numba.cuda.<name>``."""
    known = _made.get(name)
    if known is not None:
        return known
    homes = tuple(_full(each) for each in SUBMODULES[name])
    if homes and homes[0] in _WHOLE:
        settings = import_module(homes[0])
        for each, value in _SETTINGS.items():
            vars(settings).setdefault(each, value)
        return _made.setdefault(name, settings)
    made = _types.ModuleType(f"{__name__}.{name}")
    made.__path__ = []

    def find(attribute: str) -> Any:
        below = f"{name}.{attribute}"
        if below in SUBMODULES:
            return submodule(below)
        for each in () if attribute.startswith("__") else homes:
            home = _home(each)
            if hasattr(home, attribute):
                return getattr(home, attribute)
        raise AttributeError(f"module {made.__name__!r} has no attribute {attribute!r}")

    made.__getattr__ = find  # type: ignore[method-assign]
    made.__dir__ = lambda: sorted(  # type: ignore[method-assign]
        {each for home in homes for each in dir(_home(home)) if not each.startswith("_")}
    )
    return _made.setdefault(name, made)


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is not None:
        home = import_module(_full(module))
        value = globals()[name] = getattr(home, name)
        return value
    if name in _VECTORS:
        return getattr(import_module("kerneldsl"), _VECTORS[name])
    if name in SUBMODULES:
        return submodule(name)
    if not name.startswith("_"):
        numba_types = import_module("numba.core.types")
        value = getattr(numba_types, name, None)
        if name in numba_types.__all__ and value is not None:
            return value
    raise AttributeError(_refused(name), name=name, obj=None)


def _refused(name: str) -> str:
    from kerneldsl.language.other_names import closest_name

    near = closest_name(name, [*_HOME, *SUBMODULES])
    remedy = f"; the closest name is {near}" if near else ""
    return f"module 'numba.cuda' of kerneldsl has no attribute {name!r}{remedy}"


def __dir__() -> list[str]:
    numba_types = import_module("numba.core.types")
    below = (each for each in SUBMODULES if "." not in each)
    return sorted({*_HOME, *_VECTORS, *below, *numba_types.__all__, "implementation"})


__all__ = [*_HOME, *_VECTORS]  # noqa: PLE0604


# These entries make `from kerneldsl.cuda.random import …` work; none imports anything yet.
__path__: list[str] = []
for _name, _homes in SUBMODULES.items():
    if not _homes or _homes[0] not in _WHOLE:
        sys.modules[f"{__name__}.{_name}"] = submodule(_name)
