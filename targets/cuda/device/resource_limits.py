"""Check of a device's resources against a compiled kernel's needs at a launch.

Asked before each launch, so that a kernel never starts with a configuration the driver would
refuse.
"""

from __future__ import annotations

from typing import NoReturn

from kerneldsl.contract import Device, LaunchConfig, Resources
from kerneldsl.errors import ResourceLimitError

__all__ = ["check_resources"]


def check_resources(name: str, resources: Resources, device: Device, config: LaunchConfig) -> None:
    """Refuse a launch for which the device has too little.

    Raises `ResourceLimitError` where the block has more threads than the kernel's registers allow,
    or static and dynamic shared memory together are more than a block may have.
    """
    threads = config.block_dim[0] * config.block_dim[1] * config.block_dim[2]
    if threads > resources.max_block_threads:
        _refuse_block(name, resources, device, config, threads)
    shared = resources.static_shared_bytes + config.shared_bytes
    limit = device.limits.max_shared_memory_per_block
    if shared > limit:
        raise ResourceLimitError(
            f"{name} needs {shared} bytes of shared memory a block "
            f"({resources.static_shared_bytes} static, {config.shared_bytes} dynamic)",
            value=shared,
            limit=f"{device} ({device.name}) allows {limit} (MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)",
            remedy="Use smaller tiles or fewer shared_bytes",
        )


def _refuse_block(
    name: str, resources: Resources, device: Device, config: LaunchConfig, threads: int
) -> NoReturn:
    registers = f" with its {resources.registers} registers a thread" if resources.registers else ""
    raise ResourceLimitError(
        f"block_dim {config.block_dim} has {threads} threads",
        value=config.block_dim,
        limit=f"{name}{registers} can run with {resources.max_block_threads} threads a block on "
        f"{device} ({device.name}) (MAX_THREADS_PER_BLOCK of the compiled kernel)",
        remedy="Use a smaller block, or compile with launch_bounds= or max_registers=",
    )
