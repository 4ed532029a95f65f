"""Remarks of an explanation on a kernel's lines, for the listing of its source.

A card explains what is compiled already, or declared, for assumed extents. It must not keep its
reader waiting, so a kernel with much work in loops is left to ``kernel.explain``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from kerneldsl.contract import Specialization
from kerneldsl.errors import KernelError
from kerneldsl.explain import AccessReport, Explanation, Finding
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.kernels.kernel import Kernel
from kerneldsl.language.kinds import format_signature
from kerneldsl.placement.registry import get_target, target_writing
from kerneldsl.utilities.html import Html, element

__all__ = ["Annotations", "annotate"]

#: Statements in loops above which a card explains nothing: each is walked a thousand times.
_MAX_LOOPED_STATEMENTS = 40
#: Extent along each axis of a launch over an extent, as explanations assume it of arrays.
_EXTENT = 1024

#: What was explained of each kernel's normal form, as long as that lives.
_known: WeakKeyDictionary[FunctionUnit, dict[Any, Explanation | None]] = WeakKeyDictionary()


class Annotations(dict[int, list[Html]]):
    """Line of the source to what is said of it, and of what launch.

    Attributes
    ----------
    about : str
        The launch that it is said of; empty where nothing is said.
    """

    about = ""


def annotate(kernel: Kernel[..., Any]) -> Annotations:
    """Return what is to be said of a kernel's lines; nothing if it cannot be explained."""
    found = Annotations()
    specialization = _specialization(kernel)
    explained = None if specialization is None else _explained(kernel, specialization)
    if explained is None or specialization is None:
        return found
    found.about = _about(explained, specialization.mode.forall_ndim)
    filename = kernel.function.__code__.co_filename
    for each in explained.accesses:
        if each.where.filename == filename and each.space in ("global", "shared"):
            found.setdefault(each.where.lineno, []).append(element("span", _cost(each)))
    for finding in explained.findings:
        if finding.where.filename == filename:
            found.setdefault(finding.where.lineno, []).append(_remark(finding))
    return found


def _about(explained: Explanation, ndim: int | None) -> str:
    """Return what is explained; its grid follows from extents that are assumed, and is left out."""
    assumed = {name: value for name, value in explained.assumed.items() if name != "grid"}
    if ndim is not None:
        assumed["extent"] = _extent(ndim)
    text = f"Explained for {explained.signature} on {explained.arch}"
    if "block" not in assumed:
        text += f", block {explained.block_dim}"
    pairs = ", ".join(f"{name} = {value}" for name, value in assumed.items())
    return f"{text}. Assumed: {pairs}" if pairs else text


def _extent(ndim: int) -> tuple[int, ...]:
    return (_EXTENT,) * ndim


def _cost(access: AccessReport) -> str:
    head = f"{access.operation} {access.text}: "
    if access.space == "shared":
        return f"{head}{access.wavefronts_per_request:.4g} wavefronts a request"
    return (
        f"{head}{access.sectors_per_request:.4g} sectors a request, "
        f"{100 * access.efficiency:.3g} % used"
    )


def _remark(finding: Finding) -> Html:
    return element("span", f"{finding.kind}: {finding.what}. {finding.remedy}.", class_="finding")


def _specialization(kernel: Kernel[..., Any]) -> Specialization | None:
    """Return what was compiled last, or is declared first."""
    compiled = kernel._compiled()
    if compiled:
        return compiled[-1][1].specialization
    if not kernel.options.signatures:
        return None
    signature = format_signature(kernel.options.signatures[0])
    return kernel.specialization(signature, target=target_writing("ptx"))[1]


def _explained(kernel: Kernel[..., Any], specialization: Specialization) -> Explanation | None:
    known = _known.setdefault(specialization.unit, {})
    key = specialization.kinds, specialization.mode, specialization.block_dim
    if key not in known:
        try:
            known[key] = _explain(kernel, specialization)
        except (KernelError, ImportError):  # no SymPy, or nothing that the GPU's target can type
            known[key] = None
    return known[key]


def _explain(kernel: Kernel[..., Any], specialization: Specialization) -> Explanation | None:
    if sum(1 for _ in _looped_statements(specialization.unit.tree)) > _MAX_LOOPED_STATEMENTS:
        return None
    from kerneldsl.explain.explain import explain_kernel, explained_device

    target = target_writing("ptx")
    ndim = specialization.mode.forall_ndim
    return explain_kernel(
        get_target(target).compiler,
        specialization,
        None,
        explained_device(target, None),
        block=specialization.block_dim or kernel._block,
        extent=None if ndim is None else _extent(ndim),
    )


def _looped_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For | ast.While):
            yield from (each for each in ast.walk(loop) if isinstance(each, ast.stmt))
