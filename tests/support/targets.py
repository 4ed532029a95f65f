"""Which targets the suites run on, and why one cannot be had."""

from __future__ import annotations

import os

import pytest

from kerneldsl.registry import get_target

__all__ = ["REQUIRE_GPU", "TARGETS_VARIABLE", "require", "target_names"]

#: Comma-separated names that replace the built-in targets, for targets of third parties.
TARGETS_VARIABLE = "KERNELDSL_CONFORMANCE_TARGETS"
#: Set to 1 on a machine where a missing GPU is a failure, not a reason to skip.
REQUIRE_GPU = "KERNELDSL_REQUIRE_GPU"


def target_names() -> tuple[str, ...]:
    """Return the names of the targets the conformance suite runs on."""
    given = os.environ.get(TARGETS_VARIABLE)
    return tuple(given.split(",")) if given else ("cpu", "null", "cuda")


def require(name: str) -> None:
    """Skip the running test, with the target's own reason, where the target cannot be used.

    ``KERNELDSL_REQUIRE_GPU=1`` turns the skip into a failure.
    """
    reason = get_target(name).unavailable_reason()
    if reason is None:
        return
    if os.environ.get(REQUIRE_GPU) == "1":
        pytest.fail(f"{REQUIRE_GPU}=1, but target {name!r} cannot be used: {reason}")
    pytest.skip(f"target {name!r}: {reason}")
