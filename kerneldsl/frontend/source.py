"""The source of a function, as an AST with the positions of the user's file.

Every line and column is absolute. So a function that is in no other one is parsed alone, after as
many empty lines as there are before it. For others, the whole text is parsed. The text comes from
:mod:`linecache`, which knows files, notebook cells, the REPL of Python 3.13 and any text that
somebody registered. It does not know programs of ``python -c`` and ``python -``. The command line
has the first; the second is read again if standard input is a file.
"""

from __future__ import annotations

import ast
import linecache
import os
import stat
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kerneldsl.errors import SourceLocation, SourceUnavailableError, UnsupportedConstructError
from kerneldsl.frontend.function_text import COMPILE_FLAGS, holds_code, lines_of_function
from kerneldsl.frontend.lambdas import find_lambda, function_of_lambda
from kerneldsl.frontend.trees import walk_here

__all__ = [
    "FunctionSource",
    "find_source",
    "how_to_give_text",
    "is_lambda",
    "is_of_program",
    "register_text",
    "texts_of_program",
]


class FunctionSource(NamedTuple):
    """Source location and AST of a function."""

    #: A copy of the caller's own; columns are in characters.
    node: ast.FunctionDef
    #: The file, or the name that the interpreter gave to a cell or to exec'd text.
    filename: str

    @property
    def first_line(self) -> int:
        """Line of ``def``, after the decorators."""
        return self.node.lineno


def is_lambda(code: types.CodeType) -> bool:
    return code.co_name == "<lambda>"


def find_source(function: Callable[..., Any]) -> FunctionSource:
    """Find and parse the source of a plain Python function.

    - `function`: a function, also a lambda: then the node is that of a function which returns its
      value.
    - raises `SourceUnavailableError` if there is no source, or if it is no longer the text that was
      compiled.
    - raises `UnsupportedConstructError` for a method, a coroutine, anything that is not a function,
      and a lambda that cannot be distinguished from others on its line.
    """
    code = _code_of(function)
    where = SourceLocation(code.co_filename, code.co_firstlineno, function=code.co_qualname)
    # The text cached first is the likeliest to be the one that was imported. A reloaded module is
    # found after the cache has been checked against the file.
    for is_checked in (False, True):
        if is_checked:
            linecache.checkcache(code.co_filename)
        text = "".join(linecache.getlines(code.co_filename, function.__globals__))
        if not text.strip():
            continue
        found = _find_in_text(text, code)
        if found is not None:
            return FunctionSource(found, code.co_filename)
    for program in texts_of_program(code.co_filename):
        found = _find_in_text(program, code)
        if found is not None:
            return FunctionSource(found, register_text(code.co_filename, program))
    from kerneldsl.frontend.function_text import executed_texts, registered, typed_text

    typed = typed_text(function)
    found = _find_in_text(typed, code) if typed else None
    if found is not None:
        lines = typed.splitlines(keepends=True)  # for messages
        linecache.cache[code.co_filename] = (len(typed), None, lines, code.co_filename)
        return FunctionSource(found, code.co_filename)
    for executed in executed_texts(code.co_filename):
        found = _find_in_text(executed, code)
        if found is not None:
            return FunctionSource(found, registered(code.co_filename, executed))
    for number, cell in cells_with_magics(code.co_filename):
        found = _find_in_text(cell, code) or _find_moved(cell, code)
        if found is not None:
            shown = f"<cell {number}>"
            linecache.cache[shown] = (len(cell), None, cell.splitlines(keepends=True), shown)
            return FunctionSource(found, shown)
    found = _find_moved(text, code)
    if found is not None:
        return FunctionSource(found, code.co_filename)
    is_installed = os.path.isfile(code.co_filename)
    shipped = None
    if not is_installed:
        from kerneldsl.frontend.function_text import text_of_module

        shipped = text_of_module(function.__module__ or "")
    if shipped is not None:
        found = _find_in_text(shipped, code)
        if found is not None:
            lines = shipped.splitlines(keepends=True)  # for messages
            linecache.cache[code.co_filename] = (len(shipped), None, lines, code.co_filename)
            return FunctionSource(found, code.co_filename)
        if code.co_filename.endswith(".py"):  # and no text that was executed
            raise SourceUnavailableError(
                f"The source of {code.co_qualname} is not the text that its package ships with "
                "its compiled kernels",
                where=where,
                value=function,
                limit="The package is installed without source files, and the module was changed "
                "after the kernels were built",
                remedy="Run kerneldsl build again, and install both",
            )
    # Since Python 3.13, linecache has the text of -c, and exec'd text goes by the same name.
    if not text.strip() or is_of_program(code.co_filename):
        raise SourceUnavailableError(
            f"The source of {code.co_qualname} cannot be found: there is no text for "
            f"{code.co_filename!r}, line {code.co_firstlineno}",
            where=where,
            value=function,
            remedy=how_to_give_text(code.co_filename),
        )
    raise SourceUnavailableError(
        f"The source of {code.co_qualname} has changed since it was imported: line "
        f"{code.co_firstlineno} of {code.co_filename!r} no longer holds that function",
        where=where,
        value=function,
        remedy="Reload the module, or start Python again",
    )


def _code_of(function: Callable[..., Any]) -> types.CodeType:
    if isinstance(function, types.MethodType):
        raise UnsupportedConstructError(
            f"{function.__qualname__} is a bound method",
            value=function,
            remedy="Write @staticmethod above its decorators, and pass what it needs as arguments",
        )
    if not isinstance(function, types.FunctionType):
        raise UnsupportedConstructError(
            f"A kernel is a Python function written with def, found {type(function).__name__}",
            value=function,
            remedy="Decorate a function",
        )
    code = function.__code__
    return code


def _find_in_text(text: str, code: types.CodeType) -> ast.FunctionDef | None:
    if is_lambda(code):
        return _find_lambda_in(text, _parse(text, code.co_filename), code)
    alone = lines_of_function(text, code.co_firstlineno)
    found = None if alone is None else _find_among(_parse(alone, code.co_filename), alone, code)
    return found or _find_among(_parse(text, code.co_filename), text, code)


def _find_among(
    statements: Iterable[ast.stmt], text: str, code: types.CodeType
) -> ast.FunctionDef | None:
    for statement in statements:
        if not _holds_line(statement, code.co_firstlineno):
            continue
        for node, parents in _functions(statement, ()):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if (
                node.name == code.co_name
                and first == code.co_firstlineno
                and _is_same_code(text, statement, code, node)
            ):
                _refuse_method(node, parents, code)
                if isinstance(node, ast.AsyncFunctionDef):
                    raise UnsupportedConstructError(
                        f"{node.name} is a coroutine",
                        where=SourceLocation(code.co_filename, node.lineno),
                        remedy="Write def instead of async def",
                    )
                found: ast.FunctionDef = node
                return found
    return None


def _find_moved(text: str, code: types.CodeType) -> ast.FunctionDef | None:
    """Return a function of a text that has the same code on another line.

    IPython's autoreload compiles an edited function alone, as if it began on line 1.
    """
    for statement in () if is_lambda(code) else _parse(text, code.co_filename):
        for node, _ in _functions(statement, ()):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if node.name == code.co_name:
                moved = code.replace(co_firstlineno=first)
                found = _find_among((statement,), text, moved)
                if found is not None:
                    return found
    return None


def _find_lambda_in(
    text: str, statements: tuple[ast.stmt, ...], code: types.CodeType
) -> ast.FunctionDef | None:
    candidates = [
        node
        for statement in statements
        if _holds_line(statement, code.co_firstlineno)
        for node in walk_here(statement)
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and _is_same_code(text, statement, code, node)
    ]
    if not candidates:
        return None
    found = find_lambda(candidates, code, text.splitlines())
    if found is None:
        raise UnsupportedConstructError(
            f"Line {code.co_firstlineno} has {len(candidates)} lambdas that look the same",
            where=SourceLocation(code.co_filename, code.co_firstlineno),
            remedy="Write each on a separate line, or with def",
        )
    return function_of_lambda(found)


def _holds_line(statement: ast.stmt, line: int) -> bool:
    """Return whether a line belongs to a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    return first <= line <= (statement.end_lineno or first)


@lru_cache(maxsize=16)
def _parse(text: str, filename: str) -> tuple[ast.stmt, ...]:
    try:
        module = compile(
            text, filename, "exec", ast.PyCF_ONLY_AST | COMPILE_FLAGS, dont_inherit=True
        )
    except SyntaxError:
        return ()  # the file has been edited since; the caller says so
    if not text.isascii():
        _count_columns_in_characters(module, text)
    return tuple(module.body)


def _count_columns_in_characters(module: ast.Module, text: str) -> None:
    """Turn the parser's columns, which are UTF-8 bytes, into characters."""
    lines = [line.encode() for line in text.splitlines()]
    for node in walk_here(module):
        for line_field, column_field in (
            ("lineno", "col_offset"),
            ("end_lineno", "end_col_offset"),
        ):
            line = getattr(node, line_field, None)
            column = getattr(node, column_field, None)
            if line is not None and column is not None and line <= len(lines):
                characters = len(lines[line - 1][:column].decode(errors="replace"))
                setattr(node, column_field, characters)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(
    node: ast.AST, parents: tuple[ast.AST, ...]
) -> Iterator[tuple[Any, tuple[ast.AST, ...]]]:
    if isinstance(node, _Function):
        yield node, parents
    for child in ast.iter_child_nodes(node):
        yield from _functions(child, (*parents, node))


def _is_same_code(
    text: str, statement: ast.stmt, code: types.CodeType, node: ast.FunctionDef | ast.Lambda
) -> bool:
    """Return whether the text still says what the function was compiled from."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    if tuple(names) != code.co_varnames[: code.co_argcount]:
        return False
    if any(name.startswith("@py_") for name in code.co_varnames):
        return True  # pytest rewrites every assert of a test module before it is compiled
    # A notebook compiles one statement at a time; a file is compiled whole, and its imports are
    # seen in the code of its functions.
    return holds_code(_compile_statement(statement, code.co_filename), code) or holds_code(
        _compile_text(text, code.co_filename), code
    )


def _compile_statement(statement: ast.stmt, filename: str) -> types.CodeType:
    module = ast.Module([statement], [])
    compiled: types.CodeType = compile(module, filename, "exec", COMPILE_FLAGS, dont_inherit=True)
    return compiled


@lru_cache(maxsize=16)
def _compile_text(text: str, filename: str) -> types.CodeType:
    compiled: types.CodeType = compile(text, filename, "exec", COMPILE_FLAGS, dont_inherit=True)
    return compiled


def _refuse_method(
    node: ast.FunctionDef, parents: tuple[ast.AST, ...], code: types.CodeType
) -> None:
    if not parents or not isinstance(parents[-1], ast.ClassDef):
        return
    if code.co_varnames[: code.co_argcount][:1] not in (("self",), ("cls",)):
        return  # it is called as a function of the class
    raise UnsupportedConstructError(
        f"{code.co_qualname} is a method",
        where=SourceLocation(
            code.co_filename, node.lineno, node.col_offset, node.col_offset + 3, code.co_qualname
        ),
        remedy="Write @staticmethod above its decorators, and pass what it needs as arguments",
    )


#: File names that the interpreter gives to the program of ``python -c`` and to standard input.
_COMMAND, _INPUT = "<string>", "<stdin>"
#: The name of the first in messages: exec'd text has the interpreter's name for it too.
_SHOWN = {_COMMAND: "<python -c>", _INPUT: _INPUT}
#: Options of the interpreter that may take the next argument as their value.
_WITH_VALUE = frozenset("WX")

_HOW_TO_REGISTER = (
    "Put the function in a file or a notebook cell, or register its text before the function is "
    "used: linecache.cache[filename] = (len(text), None, text.splitlines(True), filename), with "
    "the filename that was given to compile()"
)


def is_of_program(filename: str) -> bool:
    """Return whether a name is one of those that the interpreter gives to text in no file."""
    return filename in _SHOWN


def texts_of_program(filename: str) -> Iterator[str]:
    """Find texts that may be the program's; callers compare it with the code.

    - `filename`: file name that the interpreter gives to the text.
    """
    if filename == _COMMAND:
        text = _command(sys.orig_argv)
        if text is not None:
            yield text
            yield textwrap.dedent(text)  # as Python 3.14 does
    elif filename == _INPUT and not _is_interactive():
        text = _input_file()
        if text is not None:
            yield text


def cells_with_magics(filename: str) -> Iterator[tuple[int, str]]:
    """Find the texts below ``%%time`` and other magics in notebook cells, with the cells' numbers.

    These magics compile a cell under another filename, and keep no text. The newest is first.
    """
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if find_shell is None or not filename.startswith("<"):
        return
    history = getattr(find_shell(), "history_manager", None)
    cells = list(enumerate(getattr(history, "input_hist_raw", ())))
    for number, cell in reversed(cells):
        text = cell
        while text.startswith("%%"):
            text = text.partition("\n")[2]
        if text != cell:
            yield number, text + "\n"


def register_text(filename: str, text: str) -> str:
    """Register a text that was found with linecache, for messages; returns its name there."""
    shown = _SHOWN[filename]
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    return shown


def how_to_give_text(filename: str) -> str:
    """Say what to do if there is no text of a name."""
    if filename != _INPUT:
        return _HOW_TO_REGISTER
    if _is_interactive():
        return (
            "Put the function in a file and import it, or work in IPython or with Python 3.13 or "
            "later: before, Python's prompt keeps no text of what was typed"
        )
    return (
        "Put the program in a file and run that: `python program.py`, or `python - < program.py`; "
        "of what comes through a pipe Python keeps no text"
    )


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _command(arguments: Sequence[str]) -> str | None:
    """Find the text that follows ``-c`` on the interpreter's command line."""
    rest = iter(arguments[1:])
    for argument in rest:
        if argument.startswith("--"):
            if argument == "--check-hash-based-pycs":
                next(rest, None)
            continue
        if not argument.startswith("-") or argument == "-":
            return None
        for at, option in enumerate(argument[1:], 2):
            if option == "c":
                return argument[at:] or next(rest, None)
            if option == "m":
                return None
            if option in _WITH_VALUE:
                if at == len(argument):
                    next(rest, None)
                break
    return None


def _input_file() -> str | None:
    """Read standard input again, if it is a file, without moving in it."""
    try:
        information = os.fstat(0)
        if stat.S_ISREG(information.st_mode) and hasattr(os, "pread"):
            return os.pread(0, information.st_size, 0).decode()
    except (OSError, UnicodeDecodeError):
        pass
    return None
