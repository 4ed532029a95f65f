"""From code to an executable on a device, with what a launch of it needs at hand."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kerneldsl.contract import Artifact, Device, Executable, LaunchConfig, Specialization
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.launch.request import Request
from kerneldsl.placement.fallback import PERMANENT, fallback_policy
from kerneldsl.statistics.launch_counters import LaunchCounter, launch_counter_of
from kerneldsl.utilities.environment import logger

__all__ = ["Loaded", "find_loaded", "load"]


class Loaded:
    """An executable with what a launch of it needs at hand."""

    __slots__ = ("_in_stream", "configs", "counter", "executable", "pack")

    def __init__(
        self, executable: Executable, pack: Callable[..., Any], counter: LaunchCounter
    ) -> None:
        self.executable = executable
        self.pack = pack
        #: Counts the launches.
        self.counter = counter
        #: Checked launch configurations, by grid, block, extent and shared memory.
        self.configs: dict[tuple[Any, ...], LaunchConfig] = {}
        #: A configuration, a stream, and the configuration with the stream in it.
        self._in_stream: tuple[LaunchConfig, Any, LaunchConfig] | None = None

    def in_stream(self, config: LaunchConfig, stream: Any) -> LaunchConfig:
        """Return the configuration with a stream in it, remembered for the next launch."""
        known = self._in_stream
        if known is not None and known[0] is config and known[1] == stream:
            return known[2]
        found = replace(config, stream=stream)
        self._in_stream = (config, stream, found)
        return found


def find_loaded(
    request: Request, specialization: Specialization, find_artifact: Callable[[], Artifact]
) -> Loaded:
    """Return code on its device, compiled and loaded the first time.

    What failed there permanently is not tried again, unless the policy of fallback is ``"never"``:
    the same error is raised.
    """
    state, device = request.state, request.device
    key = (specialization, device)
    failure = state.failures.get(key)
    if failure is not None and fallback_policy() != "never":
        raise copy.copy(failure) from failure.__cause__
    try:
        return state.executables.get_or_make(
            key, lambda: load(device, specialization, find_artifact())
        )
    except PERMANENT as error:
        if not device.is_host and fallback_policy() != "never":
            # A copy, because lines may be added to the error, and its traceback holds frames.
            state.failures[key] = remembered = copy.copy(error)
            remembered.__cause__ = error.__cause__
        raise


def load(device: Device, specialization: Specialization, artifact: Artifact) -> Loaded:
    """Put code on a device."""
    started = time.perf_counter()
    executable = device.load(artifact)
    unit = specialization.unit
    # The executable itself adds the pointer to the fault record.
    layout = ParameterLayout(
        unit.parameters,
        specialization.kinds,
        specialization.mode,
        has_slots=device.compiler.has_slots,
    )
    logger.debug(
        "loaded %s on %s in %.1f ms",
        artifact.entry_name,
        str(device),
        (time.perf_counter() - started) * 1e3,
    )
    return Loaded(
        executable, layout.pack, launch_counter_of(f"{unit.module}.{unit.qualname}", device)
    )
