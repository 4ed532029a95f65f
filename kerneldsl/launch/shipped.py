"""Code that the kernel's package ships, in the place of compiling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import Artifact, Compiler, Specialization, UnusableCodeError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import format_signature
from kerneldsl.launch.recorded import recordings
from kerneldsl.shipping.key import describe_launch, shipped_keys
from kerneldsl.shipping.packages import DamagedFileError, ShippedKernels, shipped_kernels_of
from kerneldsl.utilities.environment import logger

__all__ = ["Shipped", "find_shipped", "is_shipped", "ships_anything"]


class Shipped(NamedTuple):
    """Code that a package ships."""

    #: The code.
    artifact: Artifact
    #: Facts that the kernel's warnings depend on.
    notes: Mapping[str, Any]


def find_shipped(compiler: Compiler, specialization: Specialization) -> Shipped | None:
    """Return the shipped code of a specialization, for the best architecture that there is.

    ``None`` if it is compiled as usual.

    - raises `NotShippedError` if it is not shipped, and its package was loaded with
      ``strict=True``.
    """
    shipped = shipped_kernels_of(specialization.unit.module)
    if shipped is None or specialization.code is not None:
        return None
    problems: list[str] = []
    try:
        architectures = compiler.shipped_architectures(specialization.arch)
        found = _find(shipped, compiler, specialization, architectures, problems)
        if found is not None:
            return found
    except UncacheableError as error:
        architectures = ()
        problems.append(str(error))
        logger.debug("%s is not shipped: %s", specialization.unit.qualname, error)
    if shipped.strict:
        unit = specialization.unit
        name = f"{unit.module}.{unit.qualname}"
        where = " or ".join(architectures) or specialization.arch or compiler.name
        launch = describe_launch(specialization)
        wanted = f"{name}({format_signature(specialization.kinds)}), {launch}, for {where}"
        raise shipped.refuse(name, wanted, "; ".join(problems))
    return None


def ships_anything(unit: FunctionUnit) -> bool:
    """Return whether the package of a kernel ships code of it."""
    shipped = None if recordings else shipped_kernels_of(unit.module)
    return shipped is not None and shipped.has_kernel(f"{unit.module}.{unit.qualname}")


def is_shipped(compiler: Compiler, specialization: Specialization) -> bool:
    """Return whether the kernel's package ships code for a specialization."""
    shipped = shipped_kernels_of(specialization.unit.module)
    if shipped is None:
        return False
    architectures = compiler.shipped_architectures(specialization.arch)
    try:
        keys = shipped_keys(specialization, compiler.code_family, architectures)
    except UncacheableError:
        return False
    return any(shipped.find(each.digest) is not None for each in keys.values())


def _find(
    shipped: ShippedKernels,
    compiler: Compiler,
    specialization: Specialization,
    architectures: tuple[str, ...],
    problems: list[str],
) -> Shipped | None:
    """Return the first code that can be used, and warn of files that cannot be.

    If nothing is compiled in their place, `problems` takes them instead.
    """
    keys = shipped_keys(specialization, compiler.code_family, architectures)
    found, instead, failed = None, "The kernel is compiled", list[str]()
    for arch in architectures:
        entry = shipped.find(keys[arch].digest)
        if entry is None:
            continue
        try:
            artifact = compiler.restore(specialization, shipped.sections(entry))
        except (DamagedFileError, UnusableCodeError) as error:
            failed.append(str(error))
        else:
            found, instead = Shipped(artifact, entry.metadata), f"Code for {arch} is used"
            break
    if shipped.strict and found is None:
        problems += failed
    else:
        for each in failed:
            shipped.report(each, instead)
    return found
