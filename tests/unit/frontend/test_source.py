"""Where source is found, and what is said where it is not."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import os
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kerneldsl
from kerneldsl.errors import SourceUnavailableError, UndefinedNameError, UnsupportedConstructError
from kerneldsl.frontend import source as source_module
from kerneldsl.frontend.function_text import lines_of_function
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.source import find_source
from tests.support.shells import interactive_shell


def run(text: str, filename: str = "<cell 1>", register: bool = True) -> dict[str, Any]:
    """Execute a text as a notebook does, registered with linecache or not."""
    text = textwrap.dedent(text)
    if register:
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, filename, "exec"), scope)
    return scope


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decorate(first: Any, *rest: Any) -> Callable[[Any], Any]:
    return lambda function: function


@decorate(
    1,
    "two",
)
@decorate(None)
def decorated(x, y):
    x[0] = y


def test_decorators_over_several_lines() -> None:
    source = find_source(decorated)
    assert source.node.name == "decorated"
    assert linecache.getline(source.filename, source.first_line).startswith("def decorated")


def test_positions_are_those_of_the_file() -> None:
    if True:

        def kernel(x):
            x[0] = "é", nowhere  # noqa: F821

    with pytest.raises(UndefinedNameError) as caught:
        make_unit(kernel)
    where = caught.value.where
    assert where is not None
    assert where.line[where.col_offset : where.end_col_offset] == "nowhere"
    caret = str(caught.value).splitlines()[-1]
    shown = str(caught.value).splitlines()[-2]
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "nowhere"


def test_same_name_twice_is_told_apart_by_line() -> None:
    scope = run(
        """
        def f(x):
            x[0] = 1
        first = f
        def f(x):
            x[0] = 2
        """
    )
    assert find_source(scope["first"]).first_line == 2
    assert find_source(scope["f"]).first_line == 5
    assert "= 2" in make_unit(scope["f"]).source()


def test_a_cell_with_imports_and_await_syntax() -> None:
    scope = run("import math\ndef f(x):\n    x[0] = math.sin(x[1])\n", "<cell 2>")
    assert make_unit(scope["f"]).namespace["math"].__name__ == "math"


def test_without_source_the_error_says_how_to_give_one() -> None:
    scope = run("def f(x):\n    x[0] = 1\n", "<nowhere>", register=False)
    with pytest.raises(SourceUnavailableError, match=r"linecache\.cache\[filename\]") as caught:
        make_unit(scope["f"])
    assert isinstance(caught.value, OSError)
    run("def f(x):\n    x[0] = 1\n", "<nowhere>")
    assert make_unit(scope["f"]).name == "f"


@pytest.mark.parametrize(
    "edited",
    [
        "# a line above\ndef f(x):\n    x[0] = 2\n",
        "def f(x):\n    x[0] = 2\n",
        "def g(x):\n    x[0] = 1\n",
        "def f(x, y):\n    x[0] = 1\n",
        "def f(x:\n",
    ],
)
def test_an_edited_file_is_noticed(tmp_path: Path, edited: str) -> None:
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    x[0] = 1\n")
    module = load(path)
    path.write_text(edited)
    os.utime(path, (1, 1))
    with pytest.raises(SourceUnavailableError, match="has changed since it was imported"):
        make_unit(module.f)


def test_a_function_that_is_on_another_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "moved.py"
    path.write_text("def f(x):\n    x[0] = 1\n")
    module = load(path)
    path.write_text("def g(x):\n    x[0] = 1\n\ndef f(x):\n    x[0] = 1\n")
    os.utime(path, (1, 1))
    unit = make_unit(module.f)
    assert (unit.name, unit.first_line) == ("f", 4)


def test_text_read_before_the_edit_is_used(tmp_path: Path) -> None:
    path = tmp_path / "kept.py"
    path.write_text("def f(x):\n    x[0] = 1\n")
    module = load(path)
    linecache.getlines(str(path))
    path.write_text("def f(x):\n    x[0] = 2\n")
    assert "= 1" in make_unit(module.f).source()
    os.utime(path, (1, 1))
    assert "= 2" in make_unit(load(path).f).source()


class Holder:
    def method(self, x):
        x[0] = 1

    @staticmethod
    def static(x):
        x[0] = 1


async def coroutine(x):
    x[0] = 1


def test_what_is_no_plain_function() -> None:
    for function, word in (
        (lambda x: x, "lambda"),
        (Holder.method, "is a method. Write @staticmethod above it"),
        (Holder().method, "bound method. Write @staticmethod above it"),
        (coroutine, "coroutine"),
        (print, "def"),
    ):
        with pytest.raises(UnsupportedConstructError, match=word):
            make_unit(function)
    assert make_unit(Holder.static).qualname == "Holder.static"


ODD = """# é: a column is counted in characters
def text(x):
    s = \'\'\'
not indented, def no(x):
\'\'\'
    return s, "é", x

@decorate(
    1,
)
def decorated(
    x,
    y=(
1),
):
    if x:
        return y
# a comment at the margin

    return é + x
def next_one(x): return x
async def later(x):
    await x
class Class:
    def method(self):
        return self
def outer(x):
    def inner(y):
        return x + y

\treturn_ = inner
    return inner
"""


def _functions_of(code: types.CodeType) -> list[types.CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return inner + [each for one in inner for each in _functions_of(one)]


def _find(text: str, code: types.CodeType) -> ast.FunctionDef | None:
    try:
        return source_module._find_among(source_module._parse(text, "f.py"), text, code)
    except UnsupportedConstructError:  # a method or a coroutine
        return None


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_function_that_is_parsed_alone_is_that_of_the_whole_text(end: str) -> None:
    root = Path(kerneldsl.__file__).parent
    texts = [each.read_text(encoding="utf-8") for each in sorted(root.glob("frontend/*.py"))]
    texts.append(ODD.replace("\t", "    ").replace("return_", "other"))
    alone = 0
    for text in (each.replace("\n", end) for each in texts):
        for code in _functions_of(compile(text, "f.py", "exec")):
            lines = lines_of_function(text, code.co_firstlineno)
            if lines is None:
                continue
            parts = [_find(each, code) for each in (lines, text)]
            if parts[0] is not None:
                alone += 1
                first, second = (ast.dump(each, include_attributes=True) for each in parts)
                assert first == second
    assert alone > 200


def test_a_function_in_another_one_is_found_without_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of imports are seen in the code of functions, so these are compiled, too."""
    path = tmp_path / "inside.py"
    text = "import math\n\n\ndef make(y):\n    def inner(x):\n        return math.erf(x) + y\n\n"
    path.write_text(f"{text}    return inner\n\n\ndef other():\n    pass\n", "utf-8")
    compiled = Recorded()
    monkeypatch.setattr(source_module, "_compile_text", compiled)
    assert find_source(load(path).make(1)).node.lineno == 5
    assert compiled.texts
    assert not any("other" in each for each in compiled.texts)


class Recorded:
    """The texts that are compiled."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._compile = source_module._compile_text

    def __call__(self, text: str, filename: str) -> types.CodeType:
        self.texts.append(text)
        return self._compile(text, filename)


def test_other_functions_of_a_file_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    original = source_module._parse
    monkeypatch.setattr(
        source_module, "_parse", lambda text, name: parsed.append(text) or original(text, name)
    )
    node = find_source(find_source).node
    assert node.name == "find_source"
    assert len(parsed) == 1
    assert parsed[0].count("\ndef ") == 1


@pytest.mark.parametrize("magic", ["%%time", "%%timeit -n1 -r1", "%%capture\n%%time", "%%prun -q"])
def test_kernels_of_cells_that_are_timed(magic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = (
        f"{magic}\n\n@kd.kernel\ndef timed(x):\n    i = kd.grid(1)\n    x[i] = {len(magic)}\n\n"
        "with kd.use('cpu'):\n    timed.forall(3)(x)\n"
    )
    with interactive_shell() as shell:
        monkeypatch.setattr("IPython.get_ipython", lambda: shell)
        shell.run_cell("import kerneldsl as kd; import numpy as np; x = np.zeros(3)").raise_error()
        shell.run_cell(cell, store_history=True).raise_error()
        assert shell.user_ns["x"].tolist() == [len(magic)] * 3
