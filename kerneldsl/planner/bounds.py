"""What sets the pace of a kernel, and how a person is told."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["BOUND_WORDS", "Bound"]

#: What sets the pace of a kernel.
Bound: TypeAlias = Literal["memory", "latency", "compute", "block starts", "atomics", "launch"]

#: What follows "limited by".
BOUND_WORDS: dict[str, str] = {
    "memory": "the bandwidth of memory",
    "latency": "the latency of memory: too few bytes are asked for at once",
    "compute": "arithmetic",
    "block starts": "the rate at which blocks are started",
    "atomics": "atomic operations",
    "launch": "the launch itself and the life of one block; the device is not filled",
}
