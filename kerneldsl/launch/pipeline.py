"""The steps of a launch, in their order.

``Request → Specialization → Executable → LaunchConfig``: each is made from those before it, and
found again in a table of the kernel's state. Block, mapping and member are decided in the request.
To choose them, the planner has the steps after it made for some of them, since a device's own
assembler says what each takes. The executable has the artifact that it was loaded from, which the
target compiles without a device.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING

from kerneldsl.contract import (
    ONE_EACH,
    Artifact,
    Device,
    ElementMapping,
    Executable,
    LaunchConfig,
    Resources,
    Specialization,
)
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.launch_counter import launch_counter_of
from kerneldsl.errors import ToolMissingError
from kerneldsl.launch.arguments.checked_promises import NOTHING
from kerneldsl.launch.artifact import barriers_of, find_artifact
from kerneldsl.launch.configuration import configure
from kerneldsl.launch.decision import decide
from kerneldsl.launch.dimensions import check_rank
from kerneldsl.launch.request import Request, check_shape
from kerneldsl.launch.specialize import form_of, specialize, specialize_anew
from kerneldsl.launch.state import KernelState
from kerneldsl.placement.fallback import PERMANENT, fallback_policy
from kerneldsl.utilities.environment import logger

if TYPE_CHECKING:
    from kerneldsl.planner.candidates import Choice
    from kerneldsl.planner.choose import Problem

__all__ = [
    "choose_member",
    "compile_for",
    "decided",
    "load",
    "load_for",
    "make_choice",
    "may_compile",
    "prepare",
    "resources_of",
]


def prepare(request: Request) -> tuple[Executable, LaunchConfig]:
    """Make what a launch starts, or as much of it as is not there yet."""
    if request.state.code is None:
        return _prepare(request)
    from kerneldsl.cache.remembered import checking_files_once  # few kernels depend on files

    with checking_files_once():
        return _prepare(request)


def _prepare(request: Request) -> tuple[Executable, LaunchConfig]:
    request, loaded = decided(request), request.state.loaded
    executable = loaded.get(request.key)
    if executable is None:
        executable = loaded[request.key] = load_for(request, request.mapping)
    return executable, configure(request, executable)


def decided(request: Request) -> Request:
    """Return a request with block, mapping and member, where the planner chooses them."""
    choice = request.state.choices.get(request.key) or make_choice(request)
    return request if choice is None else request._replace(candidate=choice.candidate)


def choose_member(request: Request) -> Request:
    """Take the best member, where the kernel has a space and the request leaves it open."""
    shape = request.shape
    if shape.space is None:
        return request
    if shape.extent is not None:  # before members are compiled
        state = request.state
        check_rank(state.unit, state.traits, len(shape.extent), shape.extent)
    if shape.extent is not None and 0 in shape.extent:
        return request.of(shape.space.members[0])
    candidate = decided(request).candidate
    assert candidate is not None
    assert candidate.member is not None
    return request.of(candidate.member)


def may_compile(request: Request) -> tuple[Specialization, ...]:
    """Return what a launch may compile: for arrays on the device, and for copies of NumPy's."""
    request = choose_member(request)
    check_shape(request)
    requests = dict.fromkeys((request, request.with_promises(NOTHING)))
    found = (specialize_anew(each, decided(each).mapping) for each in requests)
    return tuple(dict.fromkeys(found))


def make_choice(request: Request) -> Choice | None:
    """Decide, with what compiled mappings take."""
    return decide(request, lambda problem, mapping: resources_of(request, problem, mapping))


def load_for(request: Request, mapping: ElementMapping) -> Executable:
    """Return code with a mapping on its device."""
    specialization = specialize(request, mapping)
    state, device = request.state, request.device
    executable = _find_executable(state, device, specialization)
    known = state.forms.setdefault(form_of(request, mapping), [])
    if specialization not in known:
        known.append(specialization)
    return executable


def _find_executable(
    state: KernelState, device: Device, specialization: Specialization
) -> Executable:
    """Return code on its device, compiled and loaded the first time.

    What failed there permanently is not tried again, unless the policy of fallback is ``"never"``:
    the same error is raised.
    """
    key = (specialization, device)
    failure = state.failures.get(key)
    if failure is not None and fallback_policy() != "never":
        raise copy.copy(failure) from failure.__cause__

    def make() -> Executable:
        return load(device, find_artifact(state, device.compiler, specialization))

    try:
        return state.executables.get_or_make(key, make)
    except PERMANENT as error:
        if not device.is_host and fallback_policy() != "never":
            # A copy, because lines may be added to the error, and its traceback holds frames.
            state.failures[key] = remembered = copy.copy(error)
            remembered.__cause__ = error.__cause__
        raise


def load(device: Device, artifact: Artifact) -> Executable:
    """Put code on a device, and prepare it for launches."""
    started = time.perf_counter()
    executable = device.load(artifact)
    specialization = artifact.specialization
    unit = specialization.unit
    # The executable itself adds the pointer to the fault record.
    executable.pack = ParameterLayout(
        unit.parameters,
        specialization.kinds,
        specialization.mode,
        has_slots=device.compiler.has_slots,
    ).pack
    executable.counter = launch_counter_of(f"{unit.module}.{unit.qualname}", device)
    executable.configs = {}
    facts = barriers_of(device.compiler, specialization)
    executable.barriers = facts if facts.needs_checks else None
    logger.debug(
        "loaded %s on %s in %.1f ms",
        artifact.entry_name,
        str(device),
        (time.perf_counter() - started) * 1e3,
    )
    return executable


def compile_for(request: Request, mapping: ElementMapping) -> Artifact:
    """Return code with a mapping."""
    specialization = specialize(request, mapping)
    return find_artifact(request.state, request.device.compiler, specialization)


def resources_of(request: Request, problem: Problem, mapping: ElementMapping) -> Resources:
    """Return what the kernel, or a member of its space, takes with a mapping, compiled for that."""
    if request.shape.space is not None:
        assert problem.member is not None
        request = request.of(problem.member)
    used = mapping if problem.can_map else ONE_EACH
    if not request.device.is_described:
        return load_for(request, used).resources
    try:
        return compile_for(request, used).resources()
    except ToolMissingError:  # no assembler on this machine
        from kerneldsl.planner.choose import estimate_resources

        return estimate_resources(problem, mapping)
