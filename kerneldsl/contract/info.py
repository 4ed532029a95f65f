"""Attributes of a device, as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from kerneldsl.contract.info_fields import Applies, Field
from kerneldsl.contract.limits import DeviceKind, DeviceLimits, Dim3
from kerneldsl.errors import AttributeUnavailableError, KernelError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.shown import Shown

if TYPE_CHECKING:
    from kerneldsl.contract.device import Device

__all__ = ["DeviceInfo", "DeviceLike"]


@dataclass(frozen=True, eq=False, repr=False)
class DeviceInfo(Shown):
    """Attributes of a device.

    Made by :func:`kerneldsl.devices` and :func:`kerneldsl.device_info`. It can be passed instead of
    a device; ``str()`` returns the name of the device, such as ``"cuda:0"``.

    Static attributes have their values from the time when the object was made. Live attributes
    (free memory, utilization, temperature, power, clocks, processes) are read at each access;
    :meth:`live` reads all of them. An unavailable attribute raises `AttributeUnavailableError` with
    the reason. It never reads as 0.

    Parameters
    ----------
    device : Device
        The device.
    values : mapping
        Static attributes by name.
    unavailable : mapping
        Names of unavailable attributes, with the reasons in words.
    reasons : mapping
        Names of attributes, with the origin of the value; see :meth:`why`.
    readers : mapping
        Names of live attributes, with the functions that read them. These raise a `KernelError` if
        the attribute is unavailable.

    References
    ----------
    CUDA Driver API, enumeration ``CUdevice_attribute``: attributes have the driver's names in lower
    case, with the unit added. NVML API Reference: live values of NVIDIA GPUs.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> info = kd.device_info("cpu")
    >>> info.logical_core_count >= info.physical_core_count
    True
    >>> info.why("compute_capability")
    'cpu is a CPU'
    """

    device: Device
    values: Mapping[str, Any] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    readers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    # Fields of the group "identity".
    name = Field[str]("identity", "name")
    kind = Field[DeviceKind]("identity", "discrete, integrated, virtual, cpu or other")
    arch = Field[str]("identity", "architecture that is compiled for")
    uuid = Field[str]("identity", "UUID, as nvidia-smi -L shows it", applies="gpu")
    pci_address = Field[str]("identity", "PCI domain:bus:device.function", applies="gpu")
    compute_capability = Field[tuple[int, int]]("identity", "compute capability", applies="gpu")
    cuda_driver_version = Field[tuple[int, int]](
        "identity", "CUDA version that the driver supports", applies="gpu"
    )
    driver_version = Field[str]("identity", "version of the driver", applies="gpu")
    runtime_version = Field[tuple[int, int]](
        "identity", "version of the CUDA runtime library in this environment", applies="gpu"
    )
    is_integrated = Field[bool]("identity", "shares the host's memory", applies="gpu")

    # Fields of the group "processors".
    multiprocessor_count = Field[int]("processors", "multiprocessors", applies="gpu")
    warp_size = Field[int]("processors", "threads in a warp")
    clock_rate_khz = Field[int]("processors", "highest clock rate", "kHz")
    async_engine_count = Field[int](
        "processors", "engines that copy while kernels run", applies="gpu"
    )
    physical_core_count = Field[int]("processors", "cores", applies="cpu")
    logical_core_count = Field[int]("processors", "hardware threads", applies="cpu")
    usable_core_count = Field[int](
        "processors", "hardware threads this process may use", applies="cpu"
    )
    llvm_cpu = Field[str]("processors", "LLVM's name of the processor", applies="cpu")
    vector_extension = Field[str](
        "processors", "widest vector extension in use: AVX-512, AVX2, …, baseline", applies="cpu"
    )
    vector_extensions = Field[tuple[str, ...]](
        "processors", "vector extensions in use, widest first", applies="cpu"
    )

    # Fields of the group "memory".
    total_memory_bytes = Field[int]("memory", "memory", "bytes")
    constant_memory_bytes = Field[int]("memory", "constant memory", "bytes", applies="gpu")
    l1_cache_bytes = Field[int]("memory", "level 1 data cache of a core", "bytes", applies="cpu")
    l2_cache_bytes = Field[int]("memory", "level 2 cache (of a core, on a CPU)", "bytes")
    l3_cache_bytes = Field[int]("memory", "largest level 3 cache", "bytes", applies="cpu")
    memory_bus_width_bits = Field[int]("memory", "width of the memory bus", "bits", applies="gpu")
    memory_clock_rate_khz = Field[int](
        "memory", "highest clock rate of the memory", "kHz", applies="gpu"
    )
    peak_bandwidth_bytes_per_s = Field[float](
        "memory", "peak bandwidth of the memory", "bytes/s", applies="gpu"
    )
    is_ecc_enabled = Field[bool]("memory", "memory corrects errors (ECC)", applies="gpu")

    # Fields of the group "limits".
    max_threads_per_block = Field[int]("limits", "threads in a block")
    max_threads_per_multiprocessor = Field[int](
        "limits", "threads on a multiprocessor", applies="gpu"
    )
    max_blocks_per_multiprocessor = Field[int](
        "limits", "blocks on a multiprocessor", applies="gpu"
    )
    max_block_dim = Field[Dim3]("limits", "extents of a block")
    max_grid_dim = Field[Dim3]("limits", "extents of a grid")
    max_registers_per_block = Field[int]("limits", "registers of a block", applies="gpu")
    max_registers_per_multiprocessor = Field[int](
        "limits", "registers of a multiprocessor", applies="gpu"
    )
    max_shared_memory_per_block_bytes = Field[int](
        "limits", "shared memory of a block", "bytes", applies="gpu"
    )
    max_shared_memory_per_block_optin_bytes = Field[int](
        "limits", "shared memory of a block that opts in", "bytes"
    )
    max_shared_memory_per_multiprocessor_bytes = Field[int](
        "limits", "shared memory of a multiprocessor", "bytes", applies="gpu"
    )
    reserved_shared_memory_per_block_bytes = Field[int](
        "limits", "shared memory that the driver reserves in each block", "bytes", applies="gpu"
    )

    # Fields of the group "abilities".
    has_unified_addressing = Field[bool](
        "abilities", "one address space with the host", applies="gpu"
    )
    supports_managed_memory = Field[bool]("abilities", "managed memory", applies="gpu")
    supports_memory_pools = Field[bool]("abilities", "stream-ordered memory pools", applies="gpu")
    supports_concurrent_kernels = Field[bool](
        "abilities", "several kernels at a time", applies="gpu"
    )
    supports_cooperative_launch = Field[bool](
        "abilities", "barriers over a whole grid", applies="gpu"
    )
    supports_cluster_launch = Field[bool]("abilities", "clusters of blocks", applies="gpu")
    supports_fp16 = Field[bool]("abilities", "arithmetic in float16")
    supports_bf16 = Field[bool]("abilities", "arithmetic in bfloat16")
    supports_fp8 = Field[bool]("abilities", "8-bit floating-point numbers")
    supports_tensor_cores = Field[bool]("abilities", "matrix units (tensor cores)")

    # Fields of the group "live", which change while the program runs.
    free_memory_bytes = Field[int]("live", "free memory", "bytes", is_live=True)
    utilization_percent = Field[float](
        "live", "share of time in which it was busy", "%", is_live=True
    )
    memory_utilization_percent = Field[float](
        "live", "share of time in which its memory was busy", "%", applies="gpu", is_live=True
    )
    temperature_celsius = Field[float]("live", "temperature", "°C", is_live=True)
    power_watts = Field[float]("live", "power drawn", "W", is_live=True)
    power_limit_watts = Field[float]("live", "power allowed", "W", applies="gpu", is_live=True)
    current_clock_mhz = Field[float]("live", "clock rate now", "MHz", is_live=True)
    current_memory_clock_mhz = Field[float](
        "live", "clock rate of the memory now", "MHz", applies="gpu", is_live=True
    )
    processes = Field[tuple[tuple[int, int | None], ...]](
        "live", "processes on it, each with its bytes of memory", applies="gpu", is_live=True
    )

    def __post_init__(self) -> None:
        frozen = {
            "values": {**_known_of(self.device), **self.values},
            "unavailable": dict(self.unavailable),
            "reasons": dict(self.reasons),
            "readers": dict(self.readers),
        }
        for name, mapping in frozen.items():
            object.__setattr__(self, name, MappingProxyType(mapping))

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.device.target

    @property
    def index(self) -> int:
        """The index of the device in its target."""
        return self.device.index

    @property
    def limits(self) -> DeviceLimits:
        """Limits that a launch is checked against."""
        return self.device.limits

    # ---------------------------------------------------------------- reading

    def fields(self, *, is_live: bool | None = None) -> tuple[Field[Any], ...]:
        """Return the attributes of devices of this kind, also those that are unavailable here.

        Parameters
        ----------
        is_live : bool, optional
            Return only live attributes, or only static ones.
        """
        own: Applies = "cpu" if self.device.kind == "cpu" else "gpu"
        return tuple(
            f
            for f in _FIELDS
            if f.applies in ("any", own) and (is_live is None or f.is_live is is_live)
        )

    def get(self, name: str) -> Any:
        """Return an attribute by name.

        Raises
        ------
        AttributeUnavailableError
            If it is unavailable; the message has the reason.
        """
        if name in self.values:
            return self.values[name]
        reader = self.readers.get(name)
        if reader is None:
            raise self._unavailable(name, self._why_unavailable(name))
        try:
            return reader()
        except AttributeUnavailableError as error:
            raise self._unavailable(name, error.what) from error
        except KernelError as error:
            raise self._unavailable(name, str(error)) from error

    def live(self) -> dict[str, Any]:
        """Read all live attributes; unavailable ones are ``None``."""
        return self.collect(self.fields(is_live=True))[0]

    def why(self, name: str) -> str:
        """Return the origin of an attribute's value, or why it is unavailable, in words.

        Parameters
        ----------
        name : str
            The attribute, such as ``"supports_fp8"`` or ``"peak_bandwidth_bytes_per_s"``.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.device_info("cpu").why("compute_capability")
        'cpu is a CPU'
        """
        if name in self.reasons:
            return self.reasons[name]
        if name in self.values or name in self.readers:
            return f"{self} says so itself"
        return self._why_unavailable(name)

    def to_dict(self, *, live: bool = True) -> dict[str, Any]:
        """Return all attributes as values for JSON.

        Parameters
        ----------
        live : bool
            Whether to read live attributes as well.

        Returns
        -------
        dict
            ``target``, ``index`` and every attribute of a device of this kind by name, ``None`` if
            it is unavailable. ``unavailable`` maps names to reasons. ``reasons`` maps names to the
            origin of values.
        """
        values, unavailable = self.collect(self.fields(is_live=None if live else False))
        return {
            "device": str(self),
            "target": self.target,
            "index": self.index,
            **{name: _plain(value) for name, value in values.items()},
            "unavailable": unavailable,
            "reasons": {n: text for n, text in self.reasons.items() if values.get(n) is not None},
        }

    def collect(self, fields: Iterable[Field[Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        """Read attributes; return their values by name, and the reasons of unavailable ones."""
        values: dict[str, Any] = {}
        unavailable: dict[str, str] = {}
        for each in fields:
            try:
                values[each.name] = self.get(each.name)
            except AttributeUnavailableError as error:
                values[each.name] = None
                unavailable[each.name] = error.limit or error.what
        return values, unavailable

    def _why_unavailable(self, name: str) -> str:
        known = self.unavailable.get(name)
        if known is not None:
            return known
        field_ = next((f for f in _FIELDS if f.name == name), None)
        if field_ is None:
            return f"There is no such attribute; there are {', '.join(f.name for f in _FIELDS)}"
        if field_ not in self.fields():
            return f"{self} is {'a CPU' if self.kind == 'cpu' else 'no CPU'}"
        return f"The target {self.target!r} does not report it"

    def _unavailable(self, name: str, reason: str) -> AttributeUnavailableError:
        return AttributeUnavailableError(
            f"{name} of {self} is unavailable", value=name, limit=reason
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceInfo):
            return NotImplemented
        mine, its = (self.device.description, self.values), (other.device.description, other.values)
        return mine == its

    def __hash__(self) -> int:
        return hash(self.device.description)

    # ---------------------------------------------------------------- showing

    def __str__(self) -> str:
        return str(self.device)

    def __repr__(self) -> str:
        from kerneldsl.contract.info_display import as_text

        return as_text(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Readers of live values belong to this process and machine.
        left = dict.fromkeys(self.readers, "It was described in another process")
        return (
            DeviceInfo,
            (self.device, dict(self.values), {**self.unavailable, **left}, dict(self.reasons)),
        )


_FIELDS: tuple[Field[Any], ...] = tuple(
    v for v in vars(DeviceInfo).values() if isinstance(v, Field)
)


#: Values for a parameter that takes a device: a text such as ``"cuda:1"``, or a device.
DeviceLike: TypeAlias = "str | Device | DeviceInfo"


def _known_of(device: Device) -> dict[str, Any]:
    """Return what the device itself says, whatever its target adds."""
    limits = device.limits
    return {
        "name": device.name,
        "kind": device.kind,
        "arch": device.arch,
        "multiprocessor_count": limits.multiprocessor_count,
        "warp_size": limits.warp_size,
        "max_threads_per_block": limits.max_threads_per_block,
        "max_block_dim": limits.max_block_dim,
        "max_grid_dim": limits.max_grid_dim,
        "max_shared_memory_per_block_optin_bytes": limits.max_shared_memory_per_block,
    }


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
