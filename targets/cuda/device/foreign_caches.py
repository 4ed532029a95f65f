"""Memory of a device that other libraries keep, for the error that says who has it."""

from __future__ import annotations

from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.formatting import format_bytes
from kerneldsl.utilities.modules import imported

__all__ = ["foreign_caches"]


def foreign_caches(index: int) -> list[tuple[str, str]]:
    """Return what torch and CuPy keep for later on a device, and how to make them let go of it."""
    found = []
    torch = imported("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            used, kept = torch.cuda.memory_allocated(index), torch.cuda.memory_reserved(index)
            if kept:
                found.append(
                    (
                        f"torch has reserved {format_bytes(kept)}, of which "
                        f"{format_bytes(used)} are in use",
                        "torch.cuda.empty_cache() empties torch's cache",
                    )
                )
    except (AttributeError, RuntimeError, ValueError) as error:
        logger.debug("torch's memory could not be read: %s", error)
    cupy = imported("cupy")
    try:
        if cupy is not None:
            with cupy.cuda.Device(index):
                pool = cupy.get_default_memory_pool()
                used, kept = pool.used_bytes(), pool.total_bytes()
            if kept:
                found.append(
                    (
                        f"CuPy has reserved {format_bytes(kept)}, of which "
                        f"{format_bytes(used)} are in use",
                        "cupy.get_default_memory_pool().free_all_blocks() empties CuPy's cache",
                    )
                )
    except (AttributeError, RuntimeError, ValueError) as error:
        logger.debug("CuPy's memory could not be read: %s", error)
    return found
