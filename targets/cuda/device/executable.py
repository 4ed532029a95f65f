"""A compiled kernel on a CUDA device.

Modules of a program's own code are loaded once. All kernels of a source or a file share its
variables, as in C++. A module is unloaded when the last kernel of its source is gone and the device
has finished.

What can be known before a launch is checked before it; in debug mode the launch waits and raises
what the kernel recorded.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import struct
import time
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kerneldsl.contract import Device, Executable, LaunchConfig, Resources
from kerneldsl.contract.tensor_maps import (
    L2_PROMOTION,
    MAP_DTYPES,
    MAP_SWIZZLES,
    TENSOR_MAP_BYTES,
    MapGeometry,
    TensorMap,
    map_geometry,
    pad_for_maps,
)
from kerneldsl.errors import CompileError, DriverError, KernelImageError
from kerneldsl.utilities.locks import OnceTable
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.device import memory
from targets.cuda.device.carveout import Carveout, check_resources
from targets.cuda.device.streams import stream_handle, synchronize_stream
from targets.cuda.driver import functions, retired_modules
from targets.cuda.driver.driver import Driver

if TYPE_CHECKING:
    from kerneldsl.contract import DriverEntry
    from kerneldsl.contract.abi import ParameterLayout

__all__ = ["CudaExecutable"]

#: Bytes of shared memory, static and dynamic, that a block gets without opting in
#: (CUDA Programming Guide, "Technical Specifications per Compute Capability").
_SHARED_BYTES_WITHOUT_OPT_IN = 48 * 1024

_log = logging.getLogger("kerneldsl.cuda.executable")

#: Loaded modules of each owner, by device and digest of the code.
_modules: WeakKeyDictionary[object, OnceTable[tuple[int, bytes], functions.LoadedModule]] = (
    WeakKeyDictionary()
)


def _load(driver: Driver, device: Device, artifact: CudaArtifact) -> functions.LoadedFunction:
    if artifact.owner is not artifact:
        return _load_once(driver, device.index, artifact)
    return functions.load(
        driver,
        device.index,
        artifact.image,
        artifact.entry_name,
        kernel=artifact.specialization.unit.name,
        line_info=artifact.specialization.options.has_lines,
        contents=artifact.contents(),
    )


class CudaExecutable(Executable):
    """A compiled kernel on a CUDA device.

    Raises `CompileError` where the driver's assembler refused the PTX. Raises `DriverError` where
    the device has no room, or has failed.

    - `resources`: resources that the driver's assembler reported.
    - `load_seconds`: what loading cost, assembling the PTX included; the driver remembers assembled
      code.
    """

    def __init__(self, driver: Driver, artifact: CudaArtifact, device: Device) -> None:
        self.artifact = artifact
        self.device = device
        self._cuda_artifact = artifact
        self._driver = driver
        options = artifact.specialization.options
        retired_modules.unload_finished()
        started = time.perf_counter()
        artifact.require(device.arch, driver.cuda_version)
        with artifact.explaining():
            try:
                self._function = _load(driver, device, artifact)
            except (KernelImageError, CompileError) as error:
                # Machine code of a newer toolkit than the driver's; PTX may be older.
                if not artifact.without_machine_code():
                    raise
                _log.debug("the driver assembles %s: %s", artifact.entry_name, error)
                self._function = _load(driver, device, artifact)
        if artifact.owner is artifact:  # else its module is shared
            weakref.finalize(self, retired_modules.retire, driver, self._function).atexit = False
        self.load_seconds = time.perf_counter() - started
        loaded = self._function.resources
        #: Dynamic shared memory that the kernel itself needs. For a launch it is like static one.
        self._own_shared_bytes = artifact.matrix_shared_bytes
        static_bytes = loaded.static_shared_bytes + self._own_shared_bytes
        self._resources = replace(loaded, static_shared_bytes=static_bytes)
        self._is_debug = options.debug
        self._offsets = artifact.offsets
        self._passes_addresses = artifact.passes_addresses
        #: Configuration of the last launch; dispatch passes the same object for the same shape.
        self._last_config: LaunchConfig | None = None
        #: Dynamic shared memory that a launch may have currently.
        self._allowed_shared_bytes = _SHARED_BYTES_WITHOUT_OPT_IN - static_bytes
        self._carveout = Carveout(device, self._resources)
        self._additions = artifact.additions
        maps = artifact.tensor_maps
        self._maps = MapEncoder(driver, artifact.layout, maps) if maps else None
        _log.debug(
            "loaded %s on %s in %.1f ms: %s",
            artifact.entry_name,
            device,
            1e3 * self.load_seconds,
            self.resources,
        )

    @property
    def resources(self) -> Resources:
        return self._resources

    def launch(self, config: LaunchConfig, parameters: bytes) -> None:
        if config is not self._last_config:
            self._check(self._additions.added_to(config))
            self._last_config = config
        stream = stream_handle(config.stream)
        if self._is_debug:
            self._launch_and_check(config, parameters, stream)
        else:
            self._start(config, parameters, stream)

    def native_entry(self, config: LaunchConfig) -> DriverEntry | None:
        """Return where the driver's functions, the context and the kernel are found.

        A lost device needs no word of kerneldsl: the driver refuses each launch, and Python says
        why.
        """
        from kerneldsl.contract import DriverEntry

        config = self._additions.added_to(config)
        driver, index = self._driver, self.device.index
        retained = driver.contexts.get(index)
        if retained is None or self._is_debug:
            return None
        if config.shared_bytes > self._allowed_shared_bytes:  # no launch from Python came before
            self._check(config)
        function = self._function
        stream = stream_handle(config.stream)
        try:
            name = "cuLaunchKernelEx" if self._additions.is_early else "cuLaunchKernel"
            launch, get_context, set_context = map(
                driver.address, (name, "cuCtxGetCurrent", "cuCtxSetCurrent")
            )
            encode = 0 if self._maps is None else driver.address("cuTensorMapEncodeTiled")
        except DriverError as error:
            _log.debug("%s", error)
            return None
        if not (launch and get_context and set_context and (encode or self._maps is None)):
            return None
        return DriverEntry(
            launch,
            get_context,
            set_context,
            context=retained[1],
            may_stay=index == 0,
            function=int(function.handle),
            grid_dim=config.grid_dim,
            block_dim=config.block_dim,
            shared_bytes=config.shared_bytes + self._own_shared_bytes,
            stream=stream,
            note=function.launches.append,
            noted=(function.kernel, config.grid_dim, config.block_dim, stream),
            is_early=self._additions.is_early,
            offsets=self._offsets if self._passes_addresses else (),
            encode=encode,
            keep=(self,),
        )

    def _check(self, config: LaunchConfig) -> None:
        check_resources(self._function.name, self.resources, self.device, config)
        if config.shared_bytes > self._allowed_shared_bytes:
            self._opt_in()
        if self._carveout.is_raised_by(config):
            try:
                functions.prefer_carveout(self._driver, self._function, self._carveout.percent)
            except DriverError as error:  # the launch can do without
                self._driver.suppress(error, self.device.index)

    def _opt_in(self) -> None:
        """Allow all there is at once: as a cap it costs nothing, and no thread lowers another's."""
        limit = self.device.limits.max_shared_memory_per_block
        allowed = limit - self.resources.static_shared_bytes
        own = self._own_shared_bytes
        functions.allow_shared_bytes(self._driver, self._function, allowed + own)
        self._allowed_shared_bytes = allowed

    def _start(self, config: LaunchConfig, parameters: bytes, stream: int) -> None:
        config = self._additions.added_to(config)
        if self._maps is not None:
            parameters = self._maps.append(parameters)
        functions.launch(
            self._driver,
            self._function,
            config.grid_dim,
            config.block_dim,
            parameters,
            shared_bytes=config.shared_bytes + self._own_shared_bytes,
            stream=stream,
            cluster_dim=config.cluster_dim,
            is_cooperative=config.is_cooperative,
            is_early=self._additions.is_early,
            offsets=self._offsets,
            by_address=self._passes_addresses,
        )

    def _launch_and_check(self, config: LaunchConfig, parameters: bytes, stream: int) -> None:
        """Launch with a fault record, wait, and raise what the kernel recorded."""
        from kerneldsl.lowering.faults import FAULT_RECORD_BYTES, raise_fault

        driver, index, nbytes = self._driver, self.device.index, FAULT_RECORD_BYTES
        record = memory.CudaBuffer(driver, self.device, nbytes)
        memory.clear(driver, index, record.pointer, nbytes, stream=stream)
        last = self._cuda_artifact.specialization.layout.parameters[-1]
        pointer = struct.pack("=Q", record.pointer)
        self._start(config, parameters.ljust(last.offset, b"\0") + pointer, stream)
        synchronize_stream(driver, index, stream, doing=f"run {self._function.name}")
        found = ctypes.create_string_buffer(nbytes)
        self.device.copy_to_host(ctypes.addressof(found), record.pointer, nbytes, stream)
        table = self._cuda_artifact.fault_table
        assert table is not None
        raise_fault(found.raw, table, self._cuda_artifact.specialization.unit)


def _load_once(driver: Driver, index: int, artifact: CudaArtifact) -> functions.LoadedFunction:
    """Look up a kernel in the module of its owner, which is loaded the first time.

    Raises what :func:`targets.cuda.driver.functions.load` raises.
    """
    owner, image = artifact.owner, artifact.image
    data = image.encode() if isinstance(image, str) else image
    kernel = artifact.specialization.unit.name
    modules = _modules.setdefault(owner, OnceTable())

    def load_first() -> functions.LoadedModule:
        made = functions.load_module(driver, index, image, artifact.entry_name)
        first = functions.find_function(driver, made, artifact.entry_name, kernel=kernel)
        weakref.finalize(owner, retired_modules.retire, driver, first).atexit = False
        return made

    key = (index, hashlib.sha256(data).digest())
    module = modules.get_or_make(key, load_first)
    return functions.find_function(driver, module, artifact.entry_name, kernel=kernel)


# Tensor maps of a launch, encoded by the driver.
#
# See CUDA Driver API, "Tensor Map Object Management".

#: Maps that are remembered of each parameter.
_MAX_KNOWN = 64


class MapEncoder:
    """Encodes the tensor maps of one kernel, and remembers them.

    - `driver`: encodes them.
    - `layout`: the parameters of the kernel's arguments.
    """

    def __init__(self, driver: Driver, layout: ParameterLayout, maps: Sequence[TensorMap]) -> None:
        self._driver = driver
        self._packer = layout.packer
        self._maps = [(each, layout.arrays[each.array]) for each in maps]
        self._known: list[dict[MapGeometry, bytes]] = [{} for _ in maps]

    def append(self, parameters: bytes) -> bytes:
        """Return a parameter buffer with the maps of its arrays after it.

        Raises `DriverError` for an array that no map can describe.
        """
        values = self._packer.unpack(parameters)
        found = []
        for (wanted, array), known in zip(self._maps, self._known, strict=True):
            geometry = map_geometry(wanted, array, values)
            encoded = known.get(geometry)
            if encoded is None:
                if len(known) >= _MAX_KNOWN:
                    known.clear()
                encoded = known[geometry] = self._encode(wanted, array.kind.dtype, geometry)
            found.append(encoded)
        return pad_for_maps(parameters, found)

    def _encode(self, wanted: TensorMap, dtype: str, geometry: MapGeometry) -> bytes:
        api = self._driver.api
        made = self._driver.call(
            api.cuTensorMapEncodeTiled,
            api.CUtensorMapDataType(MAP_DTYPES[dtype]),
            len(wanted.axes),
            geometry.address,
            [api.cuuint64_t(each) for each in geometry.extents],
            [api.cuuint64_t(each) for each in geometry.strides],
            [api.cuuint32_t(each) for each in wanted.box],
            [api.cuuint32_t(1)] * len(wanted.box),
            api.CUtensorMapInterleave(0),
            api.CUtensorMapSwizzle(MAP_SWIZZLES[wanted.swizzle]),
            api.CUtensorMapL2promotion(L2_PROMOTION),
            api.CUtensorMapFloatOOBfill(0),
            doing=f"describe an array of shape {geometry.extents[::-1]} for copies",
        )
        return ctypes.string_at(int(made.getPtr()), TENSOR_MAP_BYTES)
