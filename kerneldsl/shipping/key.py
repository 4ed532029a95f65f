"""The key of shipped code: what it really depends on.

An entry of the cache depends on the whole toolchain, because another one would make other code.
Shipped code is made: it depends on the kernel, on how it is called, and on the machine that runs
it. So the versions of Python, NumPy, Numba and kerneldsl are no part of its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any

from kerneldsl.analysis.work import KernelWork
from kerneldsl.cache.key import Key, describe
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import Dim3, Specialization
from kerneldsl.frontend.fingerprint import UnidentifiedError, fingerprint
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, format_signature
from kerneldsl.shipping.packages import shipped_kernels_of

__all__ = ["CALLING_CONVENTION", "describe_launch", "shipped_keys", "work_digest", "work_of"]

#: Version of how compiled code is called: the layout of parameters (:mod:`kerneldsl.contract.abi`),
#: and the header and frame of an entry on the CPU (``targets/cpu/runtime/native_tables.py``).
#: A change of these makes shipped code a miss.
CALLING_CONVENTION = 1


def shipped_keys(
    specialization: Specialization, family: str, architectures: Iterable[str]
) -> dict[str, Key]:
    """Return the keys of shipped code by the architectures that it is for.

    - `specialization`: what it computes, for which arguments. Its architecture is no part of the
      key.
    - `family`: who compiles it, `Compiler.code_family`.
    - `architectures`: result of `Compiler.shipped_architectures`.
    - raises `UncacheableError` if such code is not shipped, because it depends on more than can be
      found out.
    """
    options = specialization.options
    if options.has_lines:
        what = "debug mode" if options.debug else "line information"
        raise UncacheableError(f"with {what}, code belongs to files and lines")
    components = {
        "calling convention": str(CALLING_CONVENTION),
        "target": family,
        "kernel": _identify(specialization.unit),
        "signature": format_signature(specialization.kinds),
    }
    for name in ("options", "mode", "mapping", "promises"):
        components |= dict(_unusual(name, getattr(specialization, name)))
    for name in ("block_dim", "ptx_version"):
        value = getattr(specialization, name)
        if value is not None:
            components[name] = describe(value)
    return {arch: Key({**components, "arch": arch}) for arch in architectures}


def describe_launch(specialization: Specialization) -> str:
    """Say how code is launched."""
    rank = specialization.mode.forall_ndim
    text = "[grid, block]" if rank is None else f"forall of rank {rank}"
    if specialization.block_dim is not None:
        text += f", block {specialization.block_dim}"
    return text


def work_digest(unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None) -> str:
    """Return the SHA-256 of what is counted for a plan: a kernel, its arguments, and the block.

    Raises `UncacheableError` as :func:`shipped_keys`.
    """
    about = {"signature": format_signature(kinds), "block": describe(block_dim)}
    return Key({"kernel": _identify(unit), **about}).digest


def _identify(unit: FunctionUnit) -> str:
    """Return a digest of what a kernel computes."""
    try:
        return fingerprint(unit)
    except UnidentifiedError as error:
        raise UncacheableError(str(error)) from error


def _unusual(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return the fields with another value than the default, so that a new field changes no key."""
    for field in fields(value):
        found, usual = getattr(value, field.name), field.default
        if usual is MISSING and field.default_factory is not MISSING:
            usual = field.default_factory()
        if usual is MISSING or found != usual:
            yield f"{name}.{field.name}", describe(found)


# The work of kernels that a package ships, so that no launch counts it again.
#
# Another version of kerneldsl, which may count otherwise, does not use it.


def work_of(
    unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
) -> KernelWork | None:
    """Return what the package says that a kernel does for one index, if it does."""
    shipped = shipped_kernels_of(unit.module)
    if shipped is None:
        return None
    try:
        found = shipped.work(work_digest(unit, kinds, block_dim))
        return None if found is None else KernelWork.from_json(found)
    except (UncacheableError, ValueError, TypeError, AttributeError):
        return None
