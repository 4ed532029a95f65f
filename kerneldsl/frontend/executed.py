"""Texts that a program executes, remembered so that kernels in them have a source.

Python keeps no text of ``exec`` and ``compile``. :func:`record` replaces both builtins by functions
that keep the last texts with functions. :mod:`kerneldsl.drop_in` calls it, and nothing else does.

This module has no ``from __future__ import``: code that is executed would inherit it.
"""

import builtins
import linecache
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

__all__ = ["executed_texts", "record", "registered"]

#: Texts that are kept. A program with more executes them in a loop, and uses each at once.
_MAX_TEXTS = 4096
#: Flags of a frame's code that are those of ``from __future__ import``.
_INHERITED = 0x1FF0000
#: The name of a text that ``exec`` is given as it is.
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
