"""IPython's line magics: ``%load_ext kerneldsl``, then ``%kdtime``, ``%kdexplain``, ``%kdptx``.

Each takes a launch as it is written, ``kernel.forall(n)(x, out)`` or ``kernel[grid, block](x,
out)``, or a kernel with what its method takes, ``kernel("float32[::1]", arch="sm_90")``. Nothing of
it is launched but by ``%kdtime``.

References
----------
IPython documentation, "IPython extensions" and "Defining custom magics".
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NamedTuple

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.kernel import Kernel
from kerneldsl.kernels.launches import Launch
from kerneldsl.utilities.html import Html
from kerneldsl.utilities.shown import Shown

__all__ = ["Code", "code_card", "register"]


class Code(Shown, str):
    """Code that shows itself as a card and is text otherwise.

    Attributes
    ----------
    heading, language : str
        What it is, and what Pygments calls its language.
    """

    heading: str
    language: str

    def __repr__(self) -> str:
        return str(self)


def code_card(code: Code) -> Html:
    from kerneldsl.cards.code import listing
    from kerneldsl.utilities.html import card

    return card(code.heading, listing(code, code.language, whole="It is a str: print(…) it."))


class _Call(NamedTuple):
    """A call as it is written in a magic's line, evaluated but not called."""

    #: The called object.
    called: Any
    #: Arguments of the call.
    args: tuple[Any, ...]
    named: dict[str, Any]


def register(shell: Any) -> None:
    """Give an IPython shell the magics."""
    for function in (kdtime, kdexplain, kdptx):
        shell.register_magic_function(_of_shell(function, shell), "line", function.__name__)


def _of_shell(function: Any, shell: Any) -> Any:
    def magic(line: str, local_ns: Mapping[str, Any]) -> Any:
        return function(_read(function.__name__, line, _namespace(shell.user_ns, local_ns)))

    magic.__doc__ = function.__doc__
    magic.needs_local_scope = True  # type: ignore[attr-defined]  # as IPython marks its own
    return magic


def _namespace(of_user: dict[str, Any], local: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names that a line sees: first those of its function, if it is in one."""
    return of_user if local is of_user else {**of_user, **local}


def kdtime(call: _Call) -> Any:
    """Time a launch: ``%kdtime kernel.forall(n)(x, out)``; the kernel runs many times."""
    return call.called.time(*call.args, **call.named)


def kdexplain(call: _Call) -> Any:
    """Explain a launch: ``%kdexplain kernel[grid, block](x, out)``; nothing is launched."""
    kernel, named = call.called, call.named
    if isinstance(kernel, Launch):
        shape, kernel = kernel._shape, kernel.kernel
        named = {**_shape_of(shape), **named}
        if shape.extent is None:
            named["grid"] = shape.grid_dim
        else:
            named["forall"] = shape.extent
    return kernel.explain(*call.args, **named)


def kdptx(call: _Call) -> Code:
    """Show the PTX of a launch: ``%kdptx kernel.forall(n)(x, out)``; nothing is launched."""
    kernel, named = call.called, call.named
    if isinstance(kernel, Launch):
        shape, kernel = kernel._shape, kernel.kernel
        named = {**_shape_of(shape), "forall": shape.forall_ndim, **named}
    code = Code(kernel.ptx(*call.args, **named))
    code.heading, code.language = f"PTX of {kernel.__qualname__}", "ptx"
    return code


def _shape_of(shape: Any) -> dict[str, Any]:
    return {} if shape.block_dim is None else {"block": shape.block_dim}


def _read(name: str, line: str, names: dict[str, Any]) -> _Call:
    """Read a magic's line, which sees these names.

    - raises `ArgumentTypeError` if it is no call of a kernel or a launch. IPython shows its message
      alone.
    """
    try:
        tree = ast.parse(line.strip(), mode="eval").body
    except SyntaxError:
        tree = None
    called = _evaluate(tree.func, names) if isinstance(tree, ast.Call) else None
    if not isinstance(called, Kernel | Launch) or not isinstance(tree, ast.Call):
        error = ArgumentTypeError(
            f"%{name} was given {safe_repr(line)}",
            value=line,
            limit="It takes a launch as it is written, or a kernel with a signature",
            remedy=f"Write %{name} kernel.forall(n)(…) or %{name} kernel[grid, block](…)",
        )
        # IPython shows this alone: the frames up to here do not help the reader.
        error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
        raise error
    # Python itself evaluates the arguments of the call, starred ones included.
    tree.func = ast.parse("lambda *args, **named: (args, named)", mode="eval").body
    return _Call(called, *_evaluate(tree, names))


def _evaluate(tree: ast.expr, names: dict[str, Any]) -> Any:
    # All of them are globals, which functions and comprehensions in the line see, too.
    return eval(ast.unparse(tree), names)  # noqa: S307 -- the user's own line
