"""Native entry of a compiled kernel: how an executable describes a launch to the launcher.

An :class:`Executable` may describe one of its launches as an entry: addresses and constants, from
which :mod:`kerneldsl.launch.native` starts the kernel without Python. An entry is good for one
launch configuration on the device's default stream, as long as its executable lives and what it
names holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, NoReturn, TypeAlias

from kerneldsl.contract.limits import Dim3
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["DriverEntry", "Holds", "HostEntry", "NativeEntry"]


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """Required contents of a dictionary for an entry to be valid; objects are compared by identity.

    Parameters
    ----------
    mapping : dict
        Where to look at each launch.
    key : object
        Under which key.
    value : object
        What must be there.
    is_missing : bool
        Instead of `value`: nothing must be there.
    """

    mapping: dict[Any, Any]
    key: Any
    value: Any = None
    is_missing: bool = False


@dataclass(frozen=True)
class HostEntry:
    """A kernel in this process's memory, which runs until it has finished.

    Parameters
    ----------
    address : int
        Of ``void(char **range, int64 *count, int64 *steps, char *launch)``, where `launch` points
        to the header and then the parameters.
    header : bytes
        What is before the parameters; its size is a multiple of 8.
    steps : int
        Length of the range.
    parallel_for : int
        Address of Numba's function of that name, which shares the range among threads; 0 runs it
        in the calling thread.
    thread_count : int
        Threads that share it.
    running : int
        Address of an int64 that counts the parallel launches that are running; changed only under
        the interpreter's lock.
    current : int
        Address of an int64 that is set to the launch's address while the main thread waits for it,
        and to 0 then; 0 for none.
    main_thread : int
        Address of an int64 with the main thread's :func:`threading.get_ident`.
    holds : tuple of Holds
        What must hold.
    keep : tuple
        What the addresses belong to.
    failure_word : int
        Which int64 of the header the entry sets to another value than 0 if it failed.
    fail : callable or None
        Is called with that value after such a launch, and raises what is wrong.
    """

    address: int
    header: bytes
    steps: int
    parallel_for: int = 0
    thread_count: int = 1
    running: int = 0
    current: int = 0
    main_thread: int = 0
    holds: tuple[Holds, ...] = ()
    keep: tuple[Any, ...] = field(default=(), repr=False)
    failure_word: int = 0
    fail: Callable[[int], NoReturn] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DriverEntry:
    """A kernel that a driver with the signature of CUDA's starts.

    Parameters
    ----------
    launch : int
        Address of ``cuLaunchKernel``, or of ``cuLaunchKernelEx`` if the kernel `is_early`. If it
        answers another status than 0, nothing was started, and the launch is made again through
        Python, which raises what is wrong.
    get_context, set_context : int
        Addresses of ``cuCtxGetCurrent`` and ``cuCtxSetCurrent``.
    context : int
        The context the launch needs.
    may_stay : bool
        Whether the context may stay current in a thread that had none.
    function : int
        The kernel's handle.
    grid_dim, block_dim : tuple of int
        Blocks of the grid and threads of a block, x first.
    shared_bytes : int
        Dynamic shared memory of a block.
    stream : int
        The default stream's handle.
    note : builtin_function_or_method
        Of one argument, such as a list's ``append``: it is called with `noted` after each launch;
        what it raises is dropped. With any other callable launches stay with Python.
    noted : object
        What it is called with.
    is_early : bool
        Whether the kernel may begin before the one before it ends, for which it waits.
    offsets : tuple of int
        Places in the parameter buffer. The driver is given their addresses, one for each parameter
        that the kernel declares. If it is empty, the driver is given the whole buffer, which is
        then packed as the kernel declares it.
    encode : int
        Address of ``cuTensorMapEncodeTiled``, for a kernel that takes tensor maps
        (`Artifact.tensor_maps`).
    holds : tuple of Holds
        What must hold, such as that the device is not lost.
    keep : tuple
        What the addresses belong to.

    References
    ----------
    CUDA Driver API, "Execution Control" and "Context Management".
    """

    launch: int
    get_context: int
    set_context: int
    context: int
    may_stay: bool
    function: int
    grid_dim: Dim3
    block_dim: Dim3
    shared_bytes: int
    stream: int
    note: Callable[[Any], Any]
    noted: Any
    is_early: bool = False
    offsets: tuple[int, ...] = ()
    encode: int = 0
    holds: tuple[Holds, ...] = ()
    keep: tuple[Any, ...] = field(default=(), repr=False)


NativeEntry: TypeAlias = HostEntry | DriverEntry
