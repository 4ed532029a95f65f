"""Registry of targets, their passes and commands, found by their entry points.

Tables contain the names of built-in ones: of targets in their package, of commands here. So they
work from a checkout without installed entry points. Others are found through entry points. In the
group ``kerneldsl.targets``, one is a function without arguments that returns a
:class:`~kerneldsl.contract.Target`. In ``kerneldsl.commands``, it is a function that typer can turn
into a command. A target or command is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from kerneldsl.contract.entry import MemoryType
from kerneldsl.errors import ArgumentValueError, KernelError, UnknownTargetError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.language.other_names import closest_name
from kerneldsl.utilities.environment import logger, pass_names
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.own_packages import import_own, require_own_packages

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from kerneldsl.contract import PassInfo, Target, TargetEntry

__all__ = [
    "built_in_targets",
    "c_library",
    "check_pass_names",
    "command_names",
    "command_summary",
    "get_command",
    "get_target",
    "hardware_targets",
    "is_hardware",
    "load_own",
    "optimizing_passes",
    "require_target",
    "target_names",
    "target_of_memory",
    "target_writing",
]


#: Name to ``module:function``, and the sentence for the list of commands.
_BUILT_IN_COMMANDS = {
    "demo": (
        "kerneldsl_demo:command",
        "Process a photograph with kernels, and compare the result with NumPy and SciPy.",
    )
}

_targets: dict[str, Target] = {}
_lock = ForkSafeLock()


def target_names() -> tuple[str, ...]:
    """Return the names of targets for :func:`get_target`: built-in ones, then entry points."""
    built_in = built_in_targets()
    return (*built_in, *(n for n in _entries("kerneldsl.targets") if n not in built_in))


@cache
def built_in_targets() -> dict[str, TargetEntry]:
    """Return the targets that belong to kerneldsl, by name; none of them is imported.

    - raises `ShadowedPackageError` if another module hides their package.
    """
    found: dict[str, TargetEntry] = import_own("targets.table").TARGETS
    return found


def c_library(name: str) -> Any:
    """Return an empty C library of compiled kernels, which writes code of the built-in targets."""
    return load_own(import_own("targets.table").C_LIBRARY)(name)


def is_hardware(name: str) -> bool:
    """Return whether the devices of a target are real."""
    entry = built_in_targets().get(name)
    return entry is None or entry.is_hardware


def hardware_targets() -> tuple[str, ...]:
    """Return the built-in targets with real devices, the host last."""
    found = (name for name in built_in_targets() if is_hardware(name))
    return tuple(sorted(found, key=lambda name: name == target_of_memory(MemoryType.CPU)))


@cache
def target_of_memory(kind: int) -> str:
    """Return the target with kernels that accept memory of a type."""
    return next(name for name, entry in built_in_targets().items() if kind in entry.memory)


def target_writing(form: str) -> str:
    """Return the target that writes a form of code, such as ``"ptx"``."""
    return next(name for name, entry in built_in_targets().items() if form in entry.forms)


def get_target(name: str) -> Target:
    """Return the target of a name; it is imported and made at the first call.

    It may be unusable on this machine; see `Target.unavailable_reason`.

    Raises
    ------
    UnknownTargetError
        If there is no target of that name.
    ShadowedPackageError
        If a module of the program hides the package of the target.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.get_target("cpu").name
    'cpu'
    """
    known = _targets.get(name) if isinstance(name, str) else None
    if known is not None:
        return known
    if not isinstance(name, str):
        raise _unknown(name)
    with _lock:
        if name not in _targets:
            _targets[name] = _make_target(name)
        return _targets[name]


def require_target(name: str) -> None:
    """Raise `UnknownTargetError` if no target of a name is known; none is imported."""
    if not (name in _targets or name in built_in_targets() or name in target_names()):
        raise _unknown(name)


def _make_target(name: str) -> Target:
    from kerneldsl.contract import Target  # names can be listed without it, and without NumPy

    if name in built_in_targets():
        make = load_own(built_in_targets()[name].make)
    else:
        entry = _entries("kerneldsl.targets").get(name)
        if entry is None:
            raise _unknown(name)
        make = entry.load()
    target = make()
    if not isinstance(target, Target):
        raise KernelError(
            f"the target {safe_repr(name)} is {a_type(target)}",
            value=target,
            limit="built-in targets and entry points of kerneldsl.targets return a "
            "kerneldsl.contract.Target",
        )
    logger.debug("target %s is %s", name, type(target).__qualname__)
    return target


def _unknown(name: object) -> UnknownTargetError:
    known, near = target_names(), None
    if isinstance(name, str):
        word = name.lower().rstrip("0123456789")
        near = {"gpu": target_of_memory(MemoryType.CUDA)}.get(word) or closest_name(word, known)
        near = near and repr(f"{near}:{name[len(word) :]}".removesuffix(":"))
    return UnknownTargetError(
        f"no target is named {safe_repr(name)}",
        value=name,
        limit=f"Known targets are {', '.join(known)}",
        remedy=f"Write {near}"
        if near
        else "Use one of them, or install the package that provides it through the entry-point "
        "group kerneldsl.targets",
    )


def command_names() -> tuple[str, ...]:
    """Return the names of the extra commands of the command line."""
    extra = (n for n in _entries("kerneldsl.commands") if n not in _BUILT_IN_COMMANDS)
    return (*_BUILT_IN_COMMANDS, *extra)


def command_summary(name: str) -> str:
    """Return one sentence about an extra command, without importing it."""
    if name in _BUILT_IN_COMMANDS:
        return _BUILT_IN_COMMANDS[name][1]
    distribution = _entries("kerneldsl.commands")[name].dist
    return f"Provided by {distribution.name}." if distribution is not None else ""


def get_command(name: str) -> Callable[..., Any]:
    """Return the function of an extra command.

    - raises `KeyError` if there is no such command.
    - raises `ShadowedPackageError` if another module hides a package of kerneldsl that commands may
      use.
    """
    if name not in _BUILT_IN_COMMANDS:
        loaded: Callable[..., Any] = _entries("kerneldsl.commands")[name].load()
        return loaded
    require_own_packages()
    return load_own(_BUILT_IN_COMMANDS[name][0])


def load_own(reference: str) -> Callable[..., Any]:
    """Import ``module:function`` from a package of kerneldsl."""
    module, _, attribute = reference.partition(":")
    function: Callable[..., Any] = getattr(import_own(module), attribute)
    return function


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # it imports e-mail and zip; built-ins need it not

    return {entry.name: entry for entry in entry_points(group=group)}


def optimizing_passes() -> tuple[PassInfo, ...]:
    """Return the passes of each target, in the order in which they run."""
    found = {
        each.name: each for name in target_names() for each in get_target(name).compiler.passes()
    }
    return tuple(found.values())


def check_pass_names(text: str) -> None:
    """Raise `ArgumentValueError` if ``KERNELDSL_DISABLE_PASSES`` names an unknown pass."""
    known = [each.name for each in optimizing_passes()]
    for name in pass_names(text):
        if name not in known:
            near = closest_name(name, known)
            raise ArgumentValueError(
                f"KERNELDSL_DISABLE_PASSES names the pass {name!r}, which does not exist",
                value=name,
                limit=f"The passes are {', '.join(known)}",
                remedy=f"The closest name is {near}" if near else "kerneldsl passes describes them",
            )
