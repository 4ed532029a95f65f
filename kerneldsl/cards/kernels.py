"""Cards of kernels and device functions: the pane of a compiler explorer for one kernel.

Forms of the compiled code are joined to the source by line, and so are remarks of an explanation.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from kerneldsl.cards.code import listing
from kerneldsl.cards.launches import specializations_rows, specializations_table
from kerneldsl.contract import Artifact, Specialization
from kerneldsl.errors import KernelError
from kerneldsl.explain import AccessReport, Explanation, Finding
from kerneldsl.frontend.trees import statements_in_loops
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.kernels.kernel import DeviceFunction, Kernel
from kerneldsl.language.kinds import format_signature
from kerneldsl.placement.registry import get_target, target_writing
from kerneldsl.utilities.formatting import format_count, format_percent, text_table
from kerneldsl.utilities.html import Html, card, element, facts_table, fold

__all__ = [
    "Annotations",
    "CodeForm",
    "annotate",
    "code_forms",
    "function_card",
    "joined_lines",
    "kernel_card",
    "kernel_text",
    "short_names",
]

T = TypeVar("T")
_logger = logging.getLogger("kerneldsl.cards")


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
    """Return what a terminal shows of a kernel: its place, and what was compiled of it."""
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
    except Exception:
        _logger.debug("a part of a card fails", exc_info=True)
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


# -- forms of the compiled code -------------------------------------------------------------------


#: Title, Pygments' name of the language, and the call that returns all of the code, by form.
_FORMS = {
    "ptx": ("PTX", "ptx", "ptx(…)"),
    "sass": ("SASS", None, 'artifact(…).text("sass")'),
    "source": ("Regions that are compiled", None, "cpu_source(…)"),
    "llvm": ("LLVM IR", "llvm", "llvm(…)"),
    "asm": ("Assembly", "gas", "asm(…)"),
}
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_PTX_LINE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_SASS_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_LLVM_PLACE = re.compile(r"^!(\d+) = !DILocation\(line: (\d+)", re.MULTILINE)
_LLVM_USE = re.compile(r"!dbg !(\d+)")
_MANGLED = re.compile(r"_ZN?\d\w*")
#: Numba's escape of a character that a mangled name cannot have.
_ESCAPED = re.compile(r"_([0-9a-f]{2})")
#: Scope of functions that are made while the program runs; every kernel's entry is one.
_DYNAMIC = "<dynamic>"


class CodeForm(NamedTuple):
    """Compiled code in a card."""

    #: Form of the code and its architecture.
    title: str
    #: Listing of the code.
    code: Html
    #: Source lines that the listing is linked with.
    lines: frozenset[int]


def code_forms(target: str, artifact: Artifact, filename: str) -> Iterator[CodeForm]:
    """Yield the forms of compiled code that the target has."""
    for form in artifact.forms_at_hand():
        try:
            text = artifact.text(form)
        except KernelError:  # a tool is missing, or does not know the architecture
            continue
        title, language, call = _FORMS.get(form, (form, None, f"artifact(…).text({form!r})"))
        joins = joined_lines(form, text, filename)
        where = f"{target} {artifact.arch}" if artifact.arch else target
        whole = f"kernel.{call} returns all of it."
        code = listing(short_names(text), language, joins=joins, whole=whole)
        yield CodeForm(f"{title} ({where})", code, frozenset(joins.values()))


def short_names(text: str) -> str:
    """Return code with the names of functions in place of their mangled forms.

    Examples
    --------
    >>> short_names("call @_ZN13_3cdynamic_3e4axpyB2v1B6c8tJTA_3dEf5ArrayIfLi1E1CE.entry(ptr %x)")
    'call @axpy.entry(ptr %x)'
    """
    return _MANGLED.sub(lambda found: _short_name(found[0]), text)


def _short_name(mangled: str) -> str:
    """Return the scopes and the name that a mangled name begins with, joined by dots."""
    rest, parts = mangled.removeprefix("_Z").removeprefix("N"), []
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        parts.append(_ESCAPED.sub(lambda code: chr(int(code[1], 16)), rest[length.end() : end]))
        rest = rest[end:]
    return ".".join(part for part in parts if part != _DYNAMIC) or mangled


def joined_lines(form: str, text: str, filename: str) -> dict[int, int]:
    """Return the line of the source of each line of code that says it.

    - `form`: ``"ptx"``, ``"sass"`` or ``"llvm"``; others say nothing.
    - `text`: the code.
    - `filename`: the file of the source; lines of others are left out.

    Examples
    --------
    >>> joined_lines("ptx", '.file 1 "/a/b.py"\\n.loc 1 7 0\\nadd\\n.loc 2 9 0\\nret', "b.py")
    {3: 7}
    """
    finder = {"ptx": _of_ptx, "sass": _of_sass, "llvm": _of_llvm}.get(form)
    return {} if finder is None else dict(finder(text, PurePath(filename).name))


def _of_ptx(text: str, name: str) -> Iterator[tuple[int, int]]:
    files = {n for n, path in _PTX_FILE.findall(text) if PurePath(path).name == name}
    line = None
    for number, row in enumerate(text.split("\n"), 1):
        found = _PTX_LINE.match(row)
        if found is not None:
            line = int(found[2]) or None if found[1] in files else None  # 0 is none
        elif line is not None and row.strip() and not row.lstrip().startswith(("//", ".", "}")):
            yield number, line


def _of_sass(text: str, name: str) -> Iterator[tuple[int, int]]:
    line = None
    for number, row in enumerate(text.split("\n"), 1):
        found = _SASS_LINE.match(row)
        if found is not None:
            line = int(found[2]) if PurePath(found[1]).name == name else None
        elif line is not None and row.lstrip().startswith("/*"):
            yield number, line


def _of_llvm(text: str, name: str) -> Iterator[tuple[int, int]]:
    if f'filename: "{name}"' not in text:
        return
    places = dict(_LLVM_PLACE.findall(text))
    for number, row in enumerate(text.split("\n"), 1):
        found = _LLVM_USE.search(row)
        if found is not None and int(places.get(found[1], 0)):
            yield number, int(places[found[1]])


# -- remarks on lines -----------------------------------------------------------------------------


#: Statements in loops above which a card explains nothing: each is walked a thousand times.
_MAX_LOOPED_STATEMENTS = 40
#: Extent along each axis of a launch over an extent, as explanations assume it of arrays.
_EXTENT = 1024

#: Explanations of each kernel's normal form, until it is deleted.
_known: WeakKeyDictionary[FunctionUnit, dict[Any, Explanation | None]] = WeakKeyDictionary()


class Annotations(dict[int, list[Html]]):
    """Line of the source to what is said of it, and of what launch.

    - `about`: the launch that it is said of; empty where nothing is said.
    """

    about = ""


def annotate(kernel: Kernel[..., Any]) -> Annotations:
    """Return the remarks on a kernel's lines; nothing if it cannot be explained."""
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
        f"{format_percent(access.efficiency)} used"
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
    if statements_in_loops(specialization.unit.tree) > _MAX_LOOPED_STATEMENTS:
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
