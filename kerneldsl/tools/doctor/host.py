"""The host: memory, how processes are started, and the variables that were set.

References
----------
Linux kernel documentation, "Control Group v2", section "Memory Interface Files", and "Memory
Resource Controller" for version 1.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

from kerneldsl.contract import MemoryType
from kerneldsl.contract.checks import Check, said_by
from kerneldsl.errors import KernelError
from kerneldsl.placement.devices import device_of
from kerneldsl.placement.passes import check_pass_names
from kerneldsl.placement.registry import get_target, target_of_memory
from kerneldsl.tools.detection import backends
from kerneldsl.utilities import environment
from kerneldsl.utilities.address_space import RAISE_LIMIT, Addresses
from kerneldsl.utilities.control_groups import group_settings
from kerneldsl.utilities.formatting import format_bytes

__all__ = ["cgroup_memory_limit", "check_environment", "check_memory", "check_processes"]

#: Below this, compiling alone can run out of memory.
_LITTLE_MEMORY_BYTES = 512 * 2**20
#: Version 1 of control groups says "no limit" with a number near 2**63.
_NO_LIMIT_BYTES = 2**60


def check_memory() -> Iterator[Check]:
    """Look at the host's memory, and at the limits put on this process."""
    try:
        import psutil
    except ImportError:
        yield Check(
            "memory.host", "warning", "unknown: psutil is not installed", "pip install psutil"
        )
        return
    memory = psutil.virtual_memory()
    available, total = int(memory.available), int(memory.total)
    found = f"{format_bytes(available)} of {format_bytes(total)} available"
    limit = cgroup_memory_limit()
    if limit is not None and limit < total:
        left = max(0, limit - int(psutil.Process().memory_info().rss))
        available = min(available, left)
        found += f"; the control group allows {format_bytes(limit)}"
    if available < _LITTLE_MEMORY_BYTES:
        yield Check(
            "memory.host",
            "warning",
            found,
            "End other programs, or raise the limit: compiling takes about "
            f"{format_bytes(_LITTLE_MEMORY_BYTES)}",
        )
    else:
        yield Check("memory.host", "ok", found)
    yield from _check_address_space()


def _check_address_space() -> Iterator[Check]:
    addresses = Addresses.limited()
    if addresses is None:
        return
    name = "memory.address_space"
    found = f"this process may use {format_bytes(addresses.limit_bytes)} of addresses (ulimit -v)"
    missing = addresses.missing()
    if missing is not None:
        needed, remedy = missing
        found += (
            f", of which {format_bytes(addresses.left_bytes)} are left: compiling needs "
            f"{format_bytes(needed)}"
        )
        yield Check(name, "problem", found, remedy)
    else:
        yield Check(
            name,
            "warning",
            found,
            f"{RAISE_LIMIT}: CUDA reserves addresses for all of the memory of host and devices",
        )


def cgroup_memory_limit(root: str | Path = "/") -> int | None:
    """Return the smallest limit that control groups put on this process's memory, in bytes.

    The system's files begin at `root`, which is another folder in tests. ``None`` if there is no
    limit, or the system knows none.
    """
    texts = group_settings("memory", "memory.max", "memory.limit_in_bytes", Path(root))
    limits = [int(text) for text in texts if text.isdigit() and int(text) < _NO_LIMIT_BYTES]
    return min(limits, default=None)


def check_processes() -> Iterator[Check]:
    """Look at how ``multiprocessing`` starts processes."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    method = chosen or multiprocessing.get_all_start_methods()[0]
    if method != "fork":
        yield Check("processes.start_method", "ok", f"multiprocessing uses {method}")
        return
    remedy = (
        'Use multiprocessing.get_context("spawn"): a forked child cannot use CUDA once its '
        "parent has"
    )
    if chosen and get_target(target_of_memory(MemoryType.CUDA)).unavailable_reason() is None:
        found = "this program has chosen fork for multiprocessing, and uses CUDA"
        yield Check("processes.start_method", "warning", found, remedy)
    else:
        yield Check(
            "processes.start_method",
            "ok",
            "multiprocessing uses fork; children that use CUDA need spawn or forkserver",
        )


def check_environment() -> Iterator[Check]:
    """Look at the environment variables of kerneldsl, misspelled ones too."""
    yield from _check_target_spec()
    yield from _check_words()
    yield from _check_fake_gpu()
    yield from _check_disabled_passes()
    unknown = [
        name
        for name in sorted(os.environ)
        if name.startswith("KERNELDSL_") and not environment.is_known(name)
    ]
    for name in unknown:
        found = f"kerneldsl reads no variable {name}"
        yield Check(f"environment.{name}", "warning", found, environment.nearest_to(name))
    if not unknown:
        names = [n for n in environment.VARIABLES if n in os.environ]
        shown = ", ".join(f"{n}={os.environ[n]!r}" for n in names) or "none is set"
        yield Check("environment", "ok", f"kerneldsl's variables: {shown}")


def _check_fake_gpu() -> Iterator[Check]:
    spec = environment.fake_gpu_spec()
    if spec is None:
        return
    name = "environment.KERNELDSL_FAKE_GPU"
    try:
        backends()  # which reads the variable, and looks at nothing else
    except KernelError as error:
        yield Check(name, "problem", said_by(error), error.remedy)
    else:
        found = f"KERNELDSL_FAKE_GPU is {spec!r}, so kd.backends() pretends"
        yield Check(name, "warning", found, "Unset it outside of tests")


def _check_disabled_passes() -> Iterator[Check]:
    """Warn of passes that do not run, because kernels may be slower without them."""
    disabled = environment.disabled_passes()
    if not disabled:
        return
    name = "environment.KERNELDSL_DISABLE_PASSES"
    try:
        check_pass_names(",".join(disabled))
    except KernelError as error:
        yield Check(name, "problem", said_by(error), error.remedy)
    else:
        found = f"{', '.join(disabled)} do not run, so kernels may be slower"
        yield Check(name, "warning", found, "Unset it if you do not search for a fault")


def _check_words() -> Iterator[Check]:
    """Look at the variables that are one of a few words."""
    for name, variable in environment.VARIABLES.items():
        value = os.environ.get(name, "").strip().lower()
        if value and variable.words and value not in variable.words:
            yield Check(
                f"environment.{name}",
                "warning" if variable.otherwise else "problem",
                f"{name} is {value!r}, and {variable.otherwise or 'no function can be decorated'}",
                f"Unset it, or set it to one of {', '.join(variable.words)}",
            )


def _check_target_spec() -> Iterator[Check]:
    spec = environment.target_spec()
    if spec is None:
        return
    check = "environment.KERNELDSL_TARGET"
    try:
        device = device_of(spec)
    except (KernelError, ImportError) as error:
        yield Check(
            check,
            "problem",
            f"KERNELDSL_TARGET is {spec!r}: {said_by(error)}",
            getattr(error, "remedy", None)
            or "Unset it, or set it to a device that is there, such as cpu",
        )
    else:
        yield Check(check, "ok", f"KERNELDSL_TARGET is {spec!r}: {device}")
