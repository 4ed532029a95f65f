"""Every code that the CUDA driver answers with: what it is about, and what to do.

A table of :class:`DriverCode`, and :func:`find_code` to read it. A code that is newer than the
table still gets a category, guessed from its name, and a remedy.

References
----------
CUDA Driver API, section "Data types used by CUDA driver", enumeration ``CUresult``, as of the
bindings 13.5.

Notes
-----
A code counts as fatal where its text there says that the process must be started again or that the
context cannot be used. Four more count as fatal, since the device cannot be used
afterwards: uncorrectable faults of memory and of NVLink, a context that another library destroyed,
and a driver that shuts down.

The text also shows what is lost with a fatal code. "This leaves the process in an inconsistent
state and any further CUDA work will return the same error" is literally true. It was tried on a
machine with two H200s (driver 580), by an illegal address (700), a misaligned one (716) and a trap
(719) on the first. Waiting for the second and allocating there then gave the same error, although
nothing was wrong there. So did a failed assertion (710), although its text only says that the
context cannot be used. So an error of a running kernel loses the process. For other codes the text
names the context (``CONTEXT_IS_DESTROYED``) or nothing (ECC, NVLink), and nothing was observed.
Then the device is lost. If another device answers with the error too, it is lost by that answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "DRIVER_CODES",
    "DriverCode",
    "category_of_name",
    "find_code",
]


class DriverCode(NamedTuple):
    """Meaning of one driver code for users."""

    #: The number.
    code: int
    #: The vendor's name for it.
    name: str
    #: Category, as in :attr:`kerneldsl.errors.DriverError.category`.
    category: str
    #: Remedy for the user.
    remedy: str
    #: Whether the device is lost to this process.
    is_fatal: bool = False
    #: Whether every device of the driver is lost to this process.
    loses_process: bool = False


_RESTART_ONLY = "Start a new process: every CUDA device is lost to this one"
_RESTART = (
    f"{_RESTART_ONLY}. Launch with debug=True or KERNELDSL_DEBUG=1 to learn which index was out of "
    "range"
)
_RESTART_FOR_DEVICE = "Start a new process, or use another device: this one is lost here"
_REPORT = "This looks like a bug in kerneldsl; please report it with the log of KERNELDSL_LOG=debug"
_GRAPHICS = "kerneldsl shares nothing with graphics interfaces; look at what else uses the device"
_PROFILER = "Another profiler or tool has the device; run without it"
_MPS = "Look at the log of nvidia-cuda-mps-control, and restart the MPS server"
_CAPTURE = (
    "A stream is being captured into a graph; prepare arrays and kernels, and wait for results, "
    "outside of the capture"
)
_PACKAGES = "Reinstall the driver's packages"

#: Code, category, name without ``CUDA_ERROR_``, and remedy, which may go on in an indented line.
#: ``!`` before the category means that the device is lost, ``!!`` that every one of the process is.
_ROWS = f"""
1 system INVALID_VALUE: {_REPORT}
2 memory OUT_OF_MEMORY: Free device arrays, call kd.MemoryPool.trim(), or use smaller arrays;
  kd.memory_stats() says what is held
3 initialization NOT_INITIALIZED: In a child process, start it with
  multiprocessing.get_context("spawn")
4 !!initialization DEINITIALIZED: The process is ending; finish work with the device before the
  interpreter shuts down
5 system PROFILER_DISABLED: {_PROFILER}
6 system PROFILER_NOT_INITIALIZED: {_PROFILER}
7 system PROFILER_ALREADY_STARTED: {_PROFILER}
8 system PROFILER_ALREADY_STOPPED: {_PROFILER}
34 initialization STUB_LIBRARY: The libcuda.so.1 found first is the toolkit's stub; put the driver's
  folder first in LD_LIBRARY_PATH
36 initialization CALL_REQUIRES_NEWER_DRIVER: Update the NVIDIA driver, or install the bindings of
  an older CUDA: pip install "kerneldsl[cuda12]"
46 device DEVICE_UNAVAILABLE: Another process holds the device in exclusive mode; wait for it, or
  choose another with kd.use or CUDA_VISIBLE_DEVICES
47 memory MULTICAST_RESOURCE_FULL: Free multicast objects of other libraries
100 device NO_DEVICE: Check that nvidia-smi lists a device and what CUDA_VISIBLE_DEVICES says
101 device INVALID_DEVICE: kd.devices() lists the devices that there are
102 device DEVICE_NOT_LICENSED: The virtual GPU has no licence; see nvidia-smi -q and the licence
  server
200 kernel INVALID_IMAGE: The driver cannot load code of this format; update the driver, or
  compile for an older ptx_version
201 device INVALID_CONTEXT: Another library closed or replaced the device's context; do not call
  cudaDeviceReset or cuda.close() while kerneldsl is in use
202 device CONTEXT_ALREADY_CURRENT: {_REPORT}
205 memory MAP_FAILED: {_GRAPHICS}
206 memory UNMAP_FAILED: {_GRAPHICS}
207 memory ARRAY_IS_MAPPED: {_GRAPHICS}
208 memory ALREADY_MAPPED: {_GRAPHICS}
209 kernel NO_BINARY_FOR_GPU: Compile for the architecture of this device: omit arch=, or see
  kd.device_info().arch
210 memory ALREADY_ACQUIRED: {_GRAPHICS}
211 memory NOT_MAPPED: {_GRAPHICS}
212 memory NOT_MAPPED_AS_ARRAY: {_GRAPHICS}
213 memory NOT_MAPPED_AS_POINTER: {_GRAPHICS}
214 !device ECC_UNCORRECTABLE: The device's memory failed. {_RESTART_FOR_DEVICE}; look at nvidia-smi
  -q -d ECC, and reset the device if it comes back
215 device UNSUPPORTED_LIMIT: This device has no such limit; do not set it
216 device CONTEXT_ALREADY_IN_USE: Another thread holds the context; finish its work first
217 device PEER_ACCESS_UNSUPPORTED: These two devices cannot reach each other's memory; kd.copy goes
  through the host instead
218 kernel INVALID_PTX: {_REPORT}
219 system INVALID_GRAPHICS_CONTEXT: {_GRAPHICS}
220 !device NVLINK_UNCORRECTABLE: The link between devices failed. {_RESTART_FOR_DEVICE}; look at
  nvidia-smi nvlink -e
221 initialization JIT_COMPILER_NOT_FOUND: libnvidia-ptxjitcompiler.so.1 is missing; it is part of
  the driver's packages. In a container, NVIDIA_DRIVER_CAPABILITIES must hold compute
222 kernel UNSUPPORTED_PTX_VERSION: The driver is older than the PTX; compile with an older
  ptx_version=, or update the driver
223 kernel JIT_COMPILATION_DISABLED: Unset CUDA_DISABLE_PTX_JIT and CUDA_DISABLE_JIT: kernels reach
  the driver as PTX
224 device UNSUPPORTED_EXEC_AFFINITY: Choose another execution affinity, or none
225 kernel UNSUPPORTED_DEVSIDE_SYNC: A kernel cannot wait for another one on the device; wait on the
  host
226 !!device CONTAINED: The device contained an error, such as a bad access over NVLink.
  {_RESTART_ONLY}; look at nvidia-smi -q
227 kernel INSUFFICIENT_LOADER_VERSION: Update the driver
300 kernel INVALID_SOURCE: {_REPORT}
301 system FILE_NOT_FOUND: Check the path
302 system SHARED_OBJECT_SYMBOL_NOT_FOUND: {_PACKAGES}
303 system SHARED_OBJECT_INIT_FAILED: {_PACKAGES}
304 system OPERATING_SYSTEM: Check the permissions of /dev/nvidia*, and ulimit -a; dmesg may say
  more
400 stream INVALID_HANDLE: A stream, event, graph or function is closed, or belongs to another
  device
401 stream ILLEGAL_STATE: Something needed is not ready for this call yet
402 device LOSSY_QUERY: Update the bindings: the answer does not fit the older form
500 kernel NOT_FOUND: The module holds no such name; {_REPORT}
600 stream NOT_READY: The work has not finished; wait with .synchronize()
700 !!launch ILLEGAL_ADDRESS: {_RESTART}
701 launch LAUNCH_OUT_OF_RESOURCES: Use a smaller block, or limit registers with max_registers= or
  launch_bounds=
702 !!launch LAUNCH_TIMEOUT: The device drives a display and stops long kernels. {_RESTART_ONLY};
  split the work, or use a device without a display
703 launch LAUNCH_INCOMPATIBLE_TEXTURING: {_REPORT}
704 device PEER_ACCESS_ALREADY_ENABLED: Nothing to do: peer access is enabled already
705 device PEER_ACCESS_NOT_ENABLED: Call kd.enable_peer_access before
708 device PRIMARY_CONTEXT_ACTIVE: Set device flags before the first use of the device
709 !device CONTEXT_IS_DESTROYED: Another library reset the device, such as by cudaDeviceReset.
  {_RESTART_FOR_DEVICE}
710 !!launch ASSERT: {_RESTART_ONLY}. The assertion's text is on the standard error
711 device TOO_MANY_PEERS: Enable access to fewer devices; kd.copy goes through the host without it
712 memory HOST_MEMORY_ALREADY_REGISTERED: The memory is page-locked already
713 memory HOST_MEMORY_NOT_REGISTERED: The memory is not page-locked
714 !!launch HARDWARE_STACK_ERROR: {_RESTART}
715 !!launch ILLEGAL_INSTRUCTION: {_RESTART}
716 !!launch MISALIGNED_ADDRESS: {_RESTART}
717 !!launch INVALID_ADDRESS_SPACE: {_RESTART}
718 !!launch INVALID_PC: {_RESTART}
719 !!launch LAUNCH_FAILED: {_RESTART}
720 launch COOPERATIVE_LAUNCH_TOO_LARGE: All blocks of a cooperative launch must fit on the device
  at once; use fewer
721 !!launch TENSOR_MEMORY_LEAK: {_RESTART_ONLY}
800 system NOT_PERMITTED: The process may not do this: check the permissions of /dev/nvidia*, the
  container's settings, and whether a stream is being captured
801 device NOT_SUPPORTED: This device or system cannot do it; see kd.device_info()
802 initialization SYSTEM_NOT_READY: Start nvidia-fabricmanager, or wait until the system is up
803 initialization SYSTEM_DRIVER_MISMATCH: The kernel module and libcuda differ in version; reboot,
  or reinstall the driver
804 initialization COMPAT_NOT_SUPPORTED_ON_DEVICE: The forward-compatibility libcuda does not serve
  this device; use the driver's own
805 initialization MPS_CONNECTION_FAILED: {_MPS}
806 initialization MPS_RPC_FAILURE: {_MPS}
807 initialization MPS_SERVER_NOT_READY: The MPS server recovers from a fault of another client; try
  again shortly
808 initialization MPS_MAX_CLIENTS_REACHED: Too many processes share the device through MPS; end
  some
809 initialization MPS_MAX_CONNECTIONS_REACHED: Too many connections; set
  CUDA_DEVICE_MAX_CONNECTIONS lower, or end other processes
810 !!device MPS_CLIENT_TERMINATED: The MPS server ended this process's work. {_RESTART_ONLY}
811 kernel CDP_NOT_SUPPORTED: Kernels cannot launch kernels here; launch from the host
812 kernel CDP_VERSION_MISMATCH: Compile all modules with one version of CUDA
900 stream STREAM_CAPTURE_UNSUPPORTED: {_CAPTURE}
901 stream STREAM_CAPTURE_INVALIDATED: An error before has spoilt the capture; find that one first
  (kd.error_log), and capture again
902 stream STREAM_CAPTURE_MERGE: Two captures would become one; end the first before the second
  waits for it
903 stream STREAM_CAPTURE_UNMATCHED: End the capture in the stream that it began in
904 stream STREAM_CAPTURE_UNJOINED: Let the captured stream wait for every stream that joined the
  capture, before it ends
905 stream STREAM_CAPTURE_ISOLATION: Captured work must not wait for an event recorded outside of
  the capture
906 stream STREAM_CAPTURE_IMPLICIT: The default stream cannot be used while a blocking stream is
  captured; use another stream, or capture one made with blocking=False
907 stream CAPTURED_EVENT: An event recorded in a capture cannot be waited for or timed outside of
  it
908 stream STREAM_CAPTURE_WRONG_THREAD: End the capture in the thread that began it
909 stream TIMEOUT: Waiting took too long; see nvidia-smi for what holds the device
910 stream GRAPH_EXEC_UPDATE_FAILURE: The newer graph has another topology; launch it separately
911 !!device EXTERNAL_DEVICE: A device outside of the GPU failed. {_RESTART_ONLY}
912 launch INVALID_CLUSTER_SIZE: The cluster does not divide the grid, or is larger than the device
  allows
913 kernel FUNCTION_NOT_LOADED: {_REPORT}
914 device INVALID_RESOURCE_TYPE: Choose another kind of resource for the context
915 device INVALID_RESOURCE_CONFIGURATION: Request fewer multiprocessors, or others
916 device KEY_ROTATION: Confidential computing could not renew its keys; try again, and see the
  system's log
917 stream STREAM_DETACHED: The green context of the stream is gone; use a stream of kerneldsl's own
918 stream GRAPH_RECAPTURE_FAILURE: Capture the work as a new graph
919 initialization FABRIC_NOT_READY: Wait for nvidia-fabricmanager and try again;
  CUDA_FABRIC_INIT_TIMEOUT_MS sets how long starting waits
999 system UNKNOWN: Look at dmesg for lines with NVRM or Xid; after suspend, reload nvidia_uvm or
  reboot
"""


def _read_rows() -> Mapping[int, DriverCode]:
    table = {}
    for row in _ROWS.strip().replace("\n ", "").splitlines():
        head, _, remedy = row.partition(": ")
        code, category, name = head.split()
        table[int(code)] = DriverCode(
            int(code),
            f"CUDA_ERROR_{name}",
            category.lstrip("!"),
            remedy,
            is_fatal=category.startswith("!"),
            loses_process=category.startswith("!!"),
        )
    return table


#: Every code of ``CUresult`` but success.
DRIVER_CODES: Mapping[int, DriverCode] = _read_rows()

#: Category by a part of the name, the first that fits; for codes that the table does not know.
_PATTERNS = (
    ("initialization", r"INIT|DRIVER|LOADER|STUB|MPS|SYSTEM|FABRIC|COMPAT"),
    ("stream", r"STREAM|CAPTURE|EVENT|GRAPH|HANDLE|TIMEOUT"),
    ("launch", r"LAUNCH|ADDRESS|INSTRUCTION|ASSERT|STACK|CLUSTER|COOPERATIVE|EXCEPTION"),
    ("memory", r"MEMORY|ALLOC|MAP|POOL|MULTICAST"),
    ("kernel", r"PTX|IMAGE|BINARY|KERNEL|FUNCTION|MODULE|SYMBOL|JIT|CDP"),
    ("compile", r"COMPIL|NVRTC|NVJITLINK|NVVM|LTO"),
    ("device", r"DEVICE|ECC|NVLINK|PEER|CONTEXT|RESOURCE|LIMIT"),
)


def category_of_name(name: str) -> str:
    """Guess the category of an error from its name; ``"system"`` where nothing fits."""
    # Runtime names run together: cudaErrorStreamGone is read as STREAM_GONE's.
    shouted = name.upper()
    return next((c for c, pattern in _PATTERNS if re.search(pattern, shouted)), "system")


def find_code(code: int, name: str | None = None, text: str = "") -> DriverCode:
    """Return what a code means, also where the table does not know it.

    `text`, what the vendor writes about it, says whether an unknown code is fatal.
    """
    known = DRIVER_CODES.get(code)
    if known is not None:
        return known
    return DriverCode(
        code,
        name or f"code {code}",
        category_of_name(name or ""),
        "This code is newer than this version of kerneldsl: update kerneldsl, and look the code up "
        "in NVIDIA's documentation",
        is_fatal=bool(re.search(r"process must be terminated|context cannot be used", text)),
        loses_process="process must be terminated" in text,
    )
