"""The text of a function, and of programs that are executed; no syntax tree is made."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import os
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

__all__ = [
    "COMPILE_FLAGS",
    "FunctionText",
    "executed_texts",
    "holds_code",
    "imported_names",
    "lines_of_function",
    "number_in_text",
    "packages_of",
    "record",
    "register_texts",
    "registered",
    "text_of_function",
    "text_of_module",
    "typed_text",
]

#: A notebook cell may await at its top level.
COMPILE_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_DEFINITIONS = ("def ", "async def ")
_IMPORTS = ("import ", "from ")


class FunctionText(NamedTuple):
    """The top-level statement of a module that has a function in it, or is its definition."""

    #: The statement, without comments after it.
    text: str
    #: Line of the module on which it begins, with decorators.
    first_line: int


def text_of_function(function: types.FunctionType) -> FunctionText | None:
    """Return the text of a function: that of its file, or the one that its package ships.

    Whether the function was compiled from it is for :func:`number_in_text` to say. ``None`` if no
    such statement is found.
    """
    lines = _text_of_module(function).split("\n")
    at = function.__code__.co_firstlineno - 1
    if at >= len(lines):
        return None
    while at > 0 and not _begins_statement(lines[at]):
        at -= 1
    before = at
    while before > 0:
        before -= 1
        if not _begins_statement(lines[before]):
            continue
        if not lines[before].startswith("@"):
            break
        at = before
    end, is_decorated = at + 1, lines[at].startswith("@")
    while end < len(lines) and (is_decorated or not _begins_statement(lines[end])):
        is_decorated &= not lines[end].startswith(_DEFINITIONS)
        end += 1
    while end > at and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return FunctionText("\n".join(lines[at:end]), at + 1) if end > at else None


def _begins_statement(line: str) -> bool:
    """Return whether a line begins a statement of a module, if it is in no string."""
    return bool(line) and line[0] not in " \t\r#)]}"


def _text_of_module(function: types.FunctionType) -> str:
    filename = function.__code__.co_filename
    text = "".join(linecache.getlines(filename, function.__globals__))
    if not text and not os.path.isfile(filename):
        text = text_of_module(function.__module__ or "") or ""
    return text


def imported_names(function: types.FunctionType) -> list[str]:
    """Return the names that a function's module imports, and the function's code has.

    The interpreter compiles calls of such names in another way.
    """
    used = {name for code in _every_code(function.__code__) for name in code.co_names}
    pending: list[ast.AST] = list(ast.parse(_text_of_module(function)).body)
    found = set[str]()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.asname or each.name.partition(".")[0] for each in node.names}
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += ast.iter_child_nodes(node)
    return sorted(used & found)


def number_in_text(
    function: types.FunctionType, text: FunctionText, imported: Iterable[str]
) -> int | None:
    """Return which code of a text, as this interpreter compiles it, is that of a function.

    - `text`: result of :func:`text_of_function`.
    - `imported`: result of :func:`imported_names`.
    - returns: its number among those with its name on its line; several lambdas may be on a line.
    """
    code, names = function.__code__, ", ".join(imported)
    if text.first_line < 2 and names:
        return None  # there is no line for the imports
    before = (f"import {names}" if names else "") + "\n" * (text.first_line - 1)
    try:
        compiled = compile(
            before + text.text, code.co_filename, "exec", COMPILE_FLAGS, dont_inherit=True
        )
    except (SyntaxError, ValueError):
        return None
    place = code.co_qualname, code.co_firstlineno
    there = (
        each for each in _every_code(compiled) if (each.co_qualname, each.co_firstlineno) == place
    )
    return next((number for number, each in enumerate(there) if _is_same(each, code)), None)


def lines_of_function(text: str, first: int) -> str | None:
    """Return the lines of a function and of the one around it, if they are found.

    Before them are imports, which are seen in the code of functions, and empty lines. They end
    before the next line that is not indented. It may be a line of a string, as may an import: then
    the code is another one, which its caller sees.
    """
    lines, start = text.split("\n"), first - 1
    while 0 < start < len(lines) and not _begins_statement(lines[start]):
        start -= 1
    found = [line if _is_import(line) else "" for line in lines[:start]]
    is_begun = False
    for line in lines[start:]:
        is_outside = _begins_statement(line)
        if is_outside and is_begun:
            break
        is_begun |= is_outside and line.startswith(_DEFINITIONS)
        found.append(line)
    return "\n".join((*found, "")) if is_begun else None


def _is_import(line: str) -> bool:
    """Return whether a line is an import, which does not go on in the next one."""
    return line.startswith(_IMPORTS) and "(" not in line and not line.endswith("\\")


def holds_code(compiled: types.CodeType, code: types.CodeType) -> bool:
    """Return whether the code of a text has that of a function."""
    return any(_is_same(candidate, code) for candidate in _every_code(compiled))


def _is_same(one: types.CodeType, other: types.CodeType) -> bool:
    inner, its = list(_inner_code(one)), list(_inner_code(other))
    return (
        one.co_name == other.co_name
        and one.co_firstlineno == other.co_firstlineno
        and one.co_code == other.co_code
        and one.co_names == other.co_names
        and one.co_varnames == other.co_varnames
        and one.co_freevars == other.co_freevars
        and _plain_constants(one) == _plain_constants(other)
        and len(inner) == len(its)
        and all(map(_is_same, inner, its))
    )


def _every_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in _inner_code(code):
        yield from _every_code(inner)


def _inner_code(code: types.CodeType) -> Iterator[types.CodeType]:
    return (each for each in code.co_consts if isinstance(each, types.CodeType))


def _plain_constants(code: types.CodeType) -> list[str]:
    return [repr(each) for each in code.co_consts if not isinstance(each, types.CodeType)]


# Python keeps no text of ``exec`` and ``compile``. :func:`record` replaces both builtins by
# functions that keep the last texts with functions. :mod:`kerneldsl.drop_in` calls it, and nothing
# else does. Code that is executed inherits what its caller imports from ``__future__``, and nothing
# of this module.

#: Texts that are kept. A program with more executes them in a loop, and uses each at once.
_MAX_TEXTS = 4096
#: Flags of a frame's code that are those of ``from __future__ import``.
_INHERITED = 0x1FF0000
#: File name of a text that ``exec`` is given directly.
_STRING = "<string>"

#: The name and the text, the last used last.
_texts: OrderedDict[tuple[str, str], None] = OrderedDict()
_compile, _exec = builtins.compile, builtins.exec


def record() -> None:
    """Record what is executed from now on; again is harmless."""
    if builtins.exec is _exec:
        builtins.exec, builtins.compile = _recording_exec, _recording_compile


def executed_texts(filename: str) -> Iterator[str]:
    """Find the texts that were executed under a name, the last first."""
    for name, text in reversed(tuple(_texts)):
        if name == filename:
            yield text


def typed_text(function: Callable[..., Any]) -> str:
    """Return the text of a function that was typed at Python's prompt; empty if there is none.

    Python 3.14 keeps these texts by their code instead of their file name.
    """
    if not function.__code__.co_filename.startswith("<"):
        return ""
    try:
        return "".join(inspect.findsource(function)[0])
    except OSError:
        return ""


def registered(filename: str, text: str) -> str:
    """Register a text with linecache, for messages, under a name that no other text has."""
    number = list(_texts).index((filename, text))
    shown = f"{filename.rstrip('>')} {number}>"
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    return shown


def _remember(filename: object, source: object) -> None:
    if isinstance(source, (bytes, bytearray)):
        try:
            source = bytes(source).decode()
        except UnicodeDecodeError:
            return
    if not isinstance(source, str) or not ("def " in source or "lambda" in source):
        return
    key = str(filename), source
    _texts.pop(key, None)
    _texts[key] = None
    while len(_texts) > _MAX_TEXTS:
        _texts.popitem(last=False)


def _recording_compile(
    source: Any,
    filename: Any,
    mode: str,
    flags: int = 0,
    dont_inherit: bool = False,
    optimize: int = -1,
    **more: Any,
) -> Any:
    """Compile source into a code object that can be executed by exec() or eval()."""
    if isinstance(filename, str) and filename.startswith("<"):
        _remember(filename, source)
    if not dont_inherit:
        flags |= sys._getframe(1).f_code.co_flags & _INHERITED
    return _compile(source, filename, mode, flags, True, optimize, **more)


def _recording_exec(
    source: Any,
    globals: dict[str, Any] | None = None,
    locals: Any = None,
    /,
    **more: Any,
) -> None:
    """Execute the given source in the context of globals and locals."""
    caller = sys._getframe(1)
    if globals is None:
        globals = caller.f_globals
        locals = caller.f_locals if locals is None else locals
    if isinstance(source, (str, bytes, bytearray)):
        _remember(_STRING, source)
        inherited = caller.f_code.co_flags & _INHERITED
        source = _compile(source, _STRING, "exec", inherited, True)
    _exec(source, globals, globals if locals is None else locals, **more)


_recording_compile.__name__ = _recording_compile.__qualname__ = "compile"
_recording_exec.__name__ = _recording_exec.__qualname__ = "exec"


_finders: dict[str, Callable[[str], str | None]] = {}


def register_texts(package: str, find: Callable[[str], str | None]) -> None:
    """Take the texts of a package's modules from a function, given the name of a module."""
    _finders[package] = find


def text_of_module(module: str) -> str | None:
    """Return the registered text of a module, or ``None``."""
    for package in packages_of(module):
        find = _finders.get(package)
        text = None if find is None else find(module)
        if text is not None:
            return text
    return None


def packages_of(module: str) -> Iterator[str]:
    """Return a module's name and those of the packages that it is in, the nearest first.

    Examples
    --------
    >>> list(packages_of("a.b.c"))
    ['a.b.c', 'a.b', 'a']
    """
    while module:
        yield module
        module = module.rpartition(".")[0]
