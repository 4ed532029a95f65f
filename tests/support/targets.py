"""Which targets the suites run on, and why one cannot be had."""

from __future__ import annotations

import os

import pytest

from kerneldsl.placement.registry import get_target

__all__ = ["REQUIRE_GPU", "TARGETS_VARIABLE", "require", "required_gpus", "target_names"]

#: Comma-separated names that replace the built-in targets, for targets of third parties.
TARGETS_VARIABLE = "KERNELDSL_CONFORMANCE_TARGETS"
#: How many GPUs there are on this machine: a test that lacks one of them fails, and is not skipped.
REQUIRE_GPU = "KERNELDSL_REQUIRE_GPU"


def target_names() -> tuple[str, ...]:
    """Return the names of the targets the conformance suite runs on."""
    given = os.environ.get(TARGETS_VARIABLE)
    return tuple(given.split(",")) if given else ("cpu", "null", "cuda")


def required_gpus() -> int:
    """How many GPUs must be there, by ``KERNELDSL_REQUIRE_GPU``."""
    return int(os.environ.get(REQUIRE_GPU) or 0)


def require(name: str) -> None:
    """Skip the running test, with the target's own reason, where the target cannot be used.

    ``KERNELDSL_REQUIRE_GPU=1`` (or more) turns the skip into a failure.
    """
    reason = get_target(name).unavailable_reason()
    if reason is None:
        return
    if required_gpus():
        pytest.fail(
            f"{REQUIRE_GPU}={required_gpus()}, but target {name!r} cannot be used: {reason}"
        )
    pytest.skip(f"target {name!r}: {reason}")
