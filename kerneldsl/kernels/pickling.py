"""Pickling of kernels and device functions for other processes.

A function that can be imported is pickled as its module and qualified name, like plain functions.
Other functions (of ``__main__``, a notebook, the REPL, another function's body) are pickled as
source. That is their text, the values of the outside names that they use, and their options. The
receiving process registers the text with :mod:`linecache`, and runs it with those values alone.

As with every pickle, loading runs code: load only what you trust.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
import importlib
import linecache
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from kerneldsl.errors import SourceUnavailableError
from kerneldsl.frontend.lambdas import LAMBDA_NAME
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup
from kerneldsl.language.intrinsics.table import find_intrinsic
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["load_function", "reduce_function"]

#: Modules that another process has under the same name with other contents.
_MAIN = frozenset({"__main__", "__mp_main__"})

_loaded: dict[bytes, Any] = {}
_lock = ForkSafeLock()


def reduce_function(
    wrapper: Any, function: Callable[..., Any], *arguments: Any
) -> str | tuple[Callable[..., Any], tuple[bytes]]:
    """Return what ``__reduce__`` of a kernel or device function returns.

    - `wrapper`: the object.
    - `function`: the Python function it wraps.
    - `*arguments`: arguments of its class besides the function, such as a kernel's options.
    - raises `SourceUnavailableError` if the source has to travel and cannot be found.
    - raises `pickle.PicklingError` if a captured value cannot be pickled.
    """
    if _is_importable(wrapper):
        return str(wrapper.__qualname__)
    from kerneldsl.frontend.resolve import is_kernel
    from kerneldsl.frontend.source import is_lambda

    assert isinstance(function, FunctionType)
    outside = _outside(function, is_device=not is_kernel(wrapper))
    payload = {
        "name": LAMBDA_NAME if is_lambda(function.__code__) else function.__name__,
        "qualname": function.__qualname__,
        "module": function.__module__,
        "doc": function.__doc__,
        "text": _text_of(function),
        "defaults": function.__defaults__,
        "keyword_defaults": _sendable(function.__kwdefaults__),
        "outside": {name: _encode(value, wrapper) for name, value in outside},
        "type": type(wrapper),
        "arguments": tuple(map(_sendable, arguments)),
    }
    return load_function, (pickle.dumps(payload, protocol=pickle.HIGHEST_PROTOCOL),)


class _Travelling:
    """A plain function that a kernel calls, on its way as source."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__

    def __reduce__(self) -> Any:
        return reduce_function(self, self.function)


def _sendable(value: Any) -> Any:
    """Return a value, or values by name; plain functions travel as source where need be."""
    if isinstance(value, dict):
        return {name: _sendable(each) for name, each in value.items()}
    if type(value) is tuple:
        return tuple(map(_sendable, value))
    if isinstance(value, FunctionType) and not _is_importable(value):
        return _Travelling(value)
    return value


def load_function(payload: bytes) -> Any:
    """Make the kernel or device function that :func:`reduce_function` took apart.

    The same bytes give the same object, so that a worker compiles a kernel once, however often it
    is sent one.
    """
    digest = hashlib.sha256(payload).digest()
    with _lock:
        known = _loaded.get(digest)
        if known is None:
            known = _loaded[digest] = _load(pickle.loads(payload), digest)  # noqa: S301
        return known


def _load(parts: dict[str, Any], digest: bytes) -> Any:
    text = parts["text"]
    filename = f"<pickled {parts['qualname']} {digest[:4].hex()}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    tree = ast.parse(text)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    # Default values have been pickled; their expressions would need names that have not.
    arguments = definition.args
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [each and ast.Constant(None) for each in arguments.kw_defaults]
    code = compile(
        ast.fix_missing_locations(tree),
        filename,
        "exec",
        flags=__future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    namespace: dict[str, Any] = {"__name__": parts["module"]}
    exec(code, namespace)
    function = namespace[parts["name"]]
    function.__qualname__ = parts["qualname"]
    function.__doc__ = parts["doc"]
    function.__defaults__ = parts["defaults"]
    function.__kwdefaults__ = parts["keyword_defaults"]
    is_plain = parts["type"] is _Travelling
    made = function if is_plain else parts["type"](function, *parts["arguments"])
    namespace[parts["name"]] = made
    for name, (how, value) in parts["outside"].items():
        namespace[name] = made if how == "self" else _decode(how, value)
    return made


def _is_importable(wrapper: Any) -> bool:
    """Return whether another process finds the object by module and qualified name."""
    module = sys.modules.get(wrapper.__module__)
    if module is None or wrapper.__module__ in _MAIN or getattr(module, "__spec__", None) is None:
        return False
    found: Any = module
    for part in wrapper.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is wrapper


def _text_of(function: FunctionType) -> str:
    """Return the function's own text, from ``def`` to its end, undecorated and dedented.

    A lambda's is that of the function which it stands for.
    """
    from kerneldsl.frontend.source import find_source, is_lambda

    source = find_source(function)
    if is_lambda(function.__code__):
        return ast.unparse(source.node)
    lines = linecache.getlines(source.filename, function.__globals__)
    assert source.node.end_lineno is not None
    text = textwrap.dedent("".join(lines[source.node.lineno - 1 : source.node.end_lineno]))
    try:
        ast.parse(text)
    except SyntaxError as error:  # a def that shares its line with other statements
        raise SourceUnavailableError(
            f"{function.__qualname__} cannot be pickled: its source is not on separate lines",
            remedy="Move it to a module, or put def on a separate line",
        ) from error
    return text


def _outside(function: FunctionType, is_device: bool) -> Iterator[tuple[str, Any]]:
    """Return every outside name that the function uses, with its value; builtins are left out."""
    from kerneldsl.frontend.source import find_source

    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    looked_up = _names_in(function.__code__)
    for name in sorted(
        {n.id for n in ast.walk(find_source(function).node) if isinstance(n, ast.Name)}
    ):
        if name in cells:
            yield name, _portable(name, cells[name].cell_contents, function, is_device)
        elif name in looked_up and name in function.__globals__:
            yield name, _portable(name, function.__globals__[name], function, is_device)


def _names_in(code: CodeType) -> set[str]:
    """Return names that code, and what is nested in it, looks up; attributes among them."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names


def _portable(name: str, value: Any, function: FunctionType, is_device: bool) -> Any:
    """Return the value; of an object that cannot be pickled, the attributes that are constants."""
    from kerneldsl.frontend.captured import holds_functions
    from kerneldsl.frontend.normalize import make_unit
    from kerneldsl.frontend.resolve import device_function, is_kernel

    if isinstance(value, (ModuleType, Intrinsic, IntrinsicGroup)):
        return value
    if isinstance(value, FunctionType) and device_function(value) is not None:
        return _sendable(value)
    if type(value) is tuple and holds_functions(value):
        return _sendable(value)
    if is_kernel(value) or device_function(value) is not None:
        return value
    try:
        pickle.dumps(value)
    except Exception:
        constants = make_unit(function, is_device=is_device).constants.values()
        paths = {c.path: c.value for c in constants if c.path.startswith(f"{name}.")}
        if not paths:
            raise
        return _namespace(name, paths)
    return value


def _namespace(name: str, paths: dict[str, Any]) -> SimpleNamespace:
    root = SimpleNamespace()
    for path, value in paths.items():
        *parents, last = path.removeprefix(f"{name}.").split(".")
        at = root
        for parent in parents:
            if not hasattr(at, parent):
                setattr(at, parent, SimpleNamespace())
            at = getattr(at, parent)
        setattr(at, last, value)
    return root


def _encode(value: Any, wrapper: Any) -> tuple[str, Any]:
    if value is wrapper:
        return "self", None
    if isinstance(value, ModuleType):
        if value.__name__ in _MAIN:
            raise pickle.PicklingError(
                "a kernel that reads attributes of the main module cannot be pickled; import the "
                "values by name"
            )
        return "module", value.__name__
    if isinstance(value, Intrinsic):
        return "intrinsic", value.name
    if isinstance(value, IntrinsicGroup):
        return "group", repr(value).rpartition(".")[2]
    return "value", value


def _decode(how: str, value: Any) -> Any:
    if how == "module":
        return importlib.import_module(value)
    if how == "intrinsic":
        return find_intrinsic(value)
    if how == "group":
        return getattr(importlib.import_module("kerneldsl"), value)
    return value
