"""The steps of a launch, in their order.

``Request → Choice → Specialization → Artifact → Loaded → LaunchConfig``: each is made from those
before it, and found again in a table of the kernel's state. To choose a mapping, the planner has
the steps behind it made for some mappings, since a device's own assembler says what each takes.
"""

from __future__ import annotations

from kerneldsl.errors import ToolMissingError
from kerneldsl.launch.artifact import find_artifact
from kerneldsl.launch.configuration import configure
from kerneldsl.launch.decision import decide, mapping_of
from kerneldsl.launch.executable import Loaded, find_loaded
from kerneldsl.launch.request import Request, check_shape
from kerneldsl.launch.specialize import form_of, specialize, specialize_anew
from kerneldsl.planner.choose import Choice, Problem, estimate_resources
from kerneldsl.runtime.arguments.promise_table import NOTHING
from kerneldsl.target import (
    ONE_EACH,
    Artifact,
    ElementMapping,
    LaunchConfig,
    Resources,
    Specialization,
)

__all__ = ["compile_for", "load_for", "make_choice", "may_compile", "prepare", "resources_of"]


def prepare(request: Request) -> tuple[Loaded, LaunchConfig]:
    """Make what a launch starts, or as much of it as is not there yet."""
    state, key = request.state, request.key
    loaded = state.loaded.get(key)
    if loaded is not None:
        choice = state.choices.get(key)
    else:
        choice = make_choice(request)
        loaded = state.loaded[key] = load_for(request, mapping_of(request, choice))
    return loaded, configure(request, choice, loaded)


def may_compile(request: Request) -> tuple[Specialization, ...]:
    """What a launch may compile: for arrays on the device, and for copies of NumPy's."""
    check_shape(request)
    requests = dict.fromkeys((request, request.with_promises(NOTHING)))
    found = (specialize_anew(each, mapping_of(each, make_choice(each))) for each in requests)
    return tuple(dict.fromkeys(found))


def make_choice(request: Request) -> Choice | None:
    """Decide, with what compiled mappings take."""
    return decide(request, lambda problem, mapping: resources_of(request, problem, mapping))


def load_for(request: Request, mapping: ElementMapping) -> Loaded:
    """Code with a mapping on its device."""
    specialization = specialize(request, mapping)
    compiler = request.place.compiler
    loaded = find_loaded(
        request, specialization, lambda: find_artifact(request.state, compiler, specialization)
    )
    known = request.state.forms.setdefault(form_of(request, mapping), [])
    if specialization not in known:
        known.append(specialization)
    return loaded


def compile_for(request: Request, mapping: ElementMapping) -> Artifact:
    """Code with a mapping."""
    specialization = specialize(request, mapping)
    return find_artifact(request.state, request.place.compiler, specialization)


def resources_of(request: Request, problem: Problem, mapping: ElementMapping) -> Resources:
    """What the kernel takes with a mapping, compiled for that."""
    used = mapping if problem.can_map else ONE_EACH
    if not request.place.is_described:
        return load_for(request, used).executable.resources
    try:
        return compile_for(request, used).resources()
    except ToolMissingError:  # no assembler on this machine
        return estimate_resources(problem, mapping, {})
