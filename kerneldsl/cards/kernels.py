"""Cards of kernels and device functions: the pane of a compiler explorer for one kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kerneldsl.cards.annotations import Annotations, annotate
from kerneldsl.cards.code import listing
from kerneldsl.cards.forms import CodeForm, code_forms
from kerneldsl.cards.measured import specializations_rows, specializations_table
from kerneldsl.kernels.kernel import DeviceFunction, Kernel
from kerneldsl.language.kinds import format_signature
from kerneldsl.utilities.formatting import format_count, text_table
from kerneldsl.utilities.html import Html, card, element, facts_table, fold

__all__ = ["function_card", "kernel_card", "kernel_text"]

T = TypeVar("T")


def kernel_card(kernel: Kernel[..., Any]) -> Html:
    """Return the card of a kernel: its signatures, its source with remarks, and its code folded."""
    code = kernel.function.__code__
    options = kernel.options
    notes = _attempt(lambda: annotate(kernel), Annotations())
    no_forms: list[CodeForm] = []
    forms = _attempt(lambda: _forms(kernel, code.co_filename), no_forms)
    source = _source(kernel.function, notes, frozenset().union(*(each.lines for each in forms)))
    compiled = kernel.specializations
    space = getattr(kernel, "space", None)
    return card(
        f"kernel {_call(kernel)}",
        facts_table(
            (
                ("file", f"{code.co_filename}:{code.co_firstlineno}"),
                ("signatures", "; ".join(map(format_signature, options.signatures)) or None),
                ("block", options.block),
                ("space", None if space is None else format_count(len(space), "member")),
                ("options", _changed(options.compile)),
            )
        ),
        element("p", notes.about) if notes.about else Html(),
        fold("Compiled specializations", specializations_table(compiled))
        if compiled
        else element("p", "Not compiled yet: a launch compiles it."),
        _panes(source, forms) if forms else source,
    )


def _panes(source: Html, forms: Sequence[CodeForm]) -> Html:
    """Return the source with the code made of it: beside it if there is room, else below.

    Of the code that is joined to the source by line the shortest is open.
    """
    joined = [each for each in forms if each.lines]
    opened = min(joined, key=lambda each: len(each.code), default=None)
    folded = [fold(each.title, each.code, is_open=each is opened) for each in forms]
    return element("div", element("div", source), element("div", *folded), class_="panes")


def kernel_text(kernel: Kernel[..., Any]) -> str:
    """Return what a terminal shows of a kernel: where it is, and what was compiled of it."""
    code = kernel.function.__code__
    signatures = "; ".join(map(format_signature, kernel.options.signatures))
    lines = [f"kernel {_call(kernel)}", f"  {code.co_filename}:{code.co_firstlineno}"]
    lines += [f"  declared for {signatures}"] * bool(signatures)
    compiled = kernel.specializations
    if compiled:
        return "\n".join((*lines, "", text_table(*specializations_rows(compiled))))
    return "\n".join((*lines, "  not compiled yet: a launch compiles it"))


def _forms(kernel: Kernel[..., Any], filename: str) -> list[CodeForm]:
    """Return the code that was compiled last for each target."""
    latest = dict(kernel._compiled())
    return [each for pair in latest.items() for each in code_forms(*pair, filename)]


def function_card(function: DeviceFunction[..., Any]) -> Html:
    """Return the card of a device function: its source."""
    return card(
        f"device function {_call(function)}", _source(function.function, Annotations(), frozenset())
    )


def _attempt(make: Callable[[], T], instead: T) -> T:
    """Return a part of a card, or something in its place where the part fails."""
    try:
        return make()
    except Exception:  # noqa: BLE001 -- the other parts are of use without it
        return instead


def _call(function: Any) -> str:
    code = function.function.__code__
    names = code.co_varnames[: code.co_argcount]
    return f"{function.__module__}.{function.__qualname__}({', '.join(names)})"


def _changed(options: Any) -> str | None:
    """Say which options are not the default."""
    default = type(options)()
    names = (name for name in type(options).__dataclass_fields__)
    changed = (
        f"{name}={value!r}"
        for name in names
        if (value := getattr(options, name)) != getattr(default, name)
    )
    return ", ".join(changed) or None


def _source(function: Any, notes: Annotations, joined: frozenset[int]) -> Html:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return element("p", "The source cannot be found.")
    joins = {line: line for line in joined}
    whole = "kernel.source is all of it."
    return listing("".join(lines), "python", first=first, joins=joins, remarks=notes, whole=whole)
