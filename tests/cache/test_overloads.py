"""What a program registers with numba.extending is never mixed up with what was kept without it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numba
import pytest
from numba.core import registry
from numba.core.imputils import builtin_registry as lowerings
from numba.core.typing import templates

from kerneldsl.cache.overloads import _Watch
from kerneldsl.cache.reasons import UncacheableError
from tests.cache.programs import run_script

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="object code is kept on Linux alone, so nothing can be stale"
)

KERNEL = """
import math
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 8 * math.sqrt(x[i])

def launch():
    x, out = np.full(3, 0.25), np.zeros(3)
    with kd.use("cpu"):
        kernel.forall(3)(x, out)
    return out.tolist()
"""
USUAL = [4.0] * 3
#: Numba itself knows no such function.
OVERLOAD = """
from numba.extending import overload
VALUE = {value}

@overload(math.comb)
def comb(n, k):
    def comb(n, k):
        return VALUE
    return comb
"""
SOME_OVERLOAD = OVERLOAD.format(value=1.0)
LAUNCH = "\nresult = launch()\n"


@pytest.mark.full
def test_a_kernel_that_calls_it(tmp_path: Path) -> None:
    """With another value each time."""
    script = tmp_path / "script.py"
    kernel = KERNEL.replace("8 * math.sqrt(x[i])", "math.comb(3, i)")
    for value in (1.0, 2.0):
        found = run_script(script, kernel + OVERLOAD.format(value=value) + LAUNCH)
        assert found["result"] == [value] * 3
        assert (found["misses"], found["writes"]) == ({"uncacheable": 1}, 0)


def test_a_kernel_that_was_kept_without_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    assert run_script(script, KERNEL + LAUNCH)["writes"] == 1
    found = run_script(script, KERNEL + SOME_OVERLOAD + LAUNCH)
    assert (found["hits"], found["misses"]) == (0, {"uncacheable": 1})
    found = run_script(script, KERNEL + LAUNCH)
    assert (found["result"], found["hits"]) == (USUAL, 1)
    assert "numba" not in found["modules"]


@pytest.mark.full
def test_one_that_is_registered_after_the_launch(tmp_path: Path) -> None:
    """What is compiled before is kept, and found where nothing was registered yet."""
    late = KERNEL + LAUNCH + SOME_OVERLOAD
    script = tmp_path / "script.py"
    assert run_script(script, late)["writes"] == 1
    found = run_script(script, late)
    assert (found["result"], found["hits"]) == (USUAL, 1)


@pytest.mark.full
def test_one_that_is_registered_while_the_kernel_is_compiled(tmp_path: Path) -> None:
    """As by a package that Numba imports when it begins: the key was made without it."""
    during = f"""{KERNEL}
from targets.cpu.target import CpuCompiler
compile_now = CpuCompiler.compile
def compile_later(self, specialization):
    exec({SOME_OVERLOAD!r}, globals())
    return compile_now(self, specialization)
CpuCompiler.compile = compile_later
{LAUNCH}"""
    found = run_script(tmp_path / "script.py", during)
    assert (found["misses"], found["writes"]) == ({"absent": 1}, 0)


@pytest.mark.full
def test_on_a_gpu(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    kernel = KERNEL.replace('"cpu"', '"null"')
    assert run_script(script, kernel + LAUNCH)["writes"] == 1
    found = run_script(script, kernel + SOME_OVERLOAD + LAUNCH)
    assert (found["hits"], found["misses"]) == (0, {"uncacheable": 1})


OTHERS = {
    "a ufunc": SOME_OVERLOAD.replace("math.comb", "np.spacing"),
    "an implementation": """
from numba import types
from numba.extending import lower_builtin
@lower_builtin(math.sqrt, types.float64)
def other(context, builder, sig, args):
    return context.get_constant(types.float64, 7.0)
""",
    "a registry of its own": """
from numba import types
from numba.core.imputils import Registry
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
registry = Registry("mine")
@registry.lower(math.sqrt, types.Float)
def other(context, builder, sig, args):
    return args[0]
cpu_target.target_context.install_registry(registry)
""",
    "a type": """
from numba import types
from numba.extending import type_callable
@type_callable(math.perm)
def other(context):
    return lambda x: types.float64
""",
    "a template": """
from numba.core.typing.templates import AbstractTemplate
from numba.core.typing.mathdecl import infer_global
@infer_global(len)
class Other(AbstractTemplate):
    def generic(self, args, kws):
        return None
""",
    "a method": """
from numba import types
from numba.extending import overload_method
@overload_method(types.Array, "twice")
def twice(x):
    return lambda x: 2 * x
""",
    "a conversion": """
from numba import types
from numba.extending import lower_cast
@lower_cast(types.int8, types.int16)
def other(context, builder, from_type, to_type, value):
    return value
""",
}


@pytest.mark.full
@pytest.mark.parametrize("how", OTHERS)
def test_every_kind_of_registration(tmp_path: Path, how: str) -> None:
    script = tmp_path / "script.py"
    assert run_script(script, KERNEL + LAUNCH)["writes"] == 1
    found = run_script(script, KERNEL + OTHERS[how] + LAUNCH)
    assert (found["hits"], found["misses"]) == (0, {"uncacheable": 1})


OF_NO_CONSEQUENCE = """
from numba import njit, types
from numba.extending import (
    intrinsic, lower_builtin, lower_cast, overload, overload_attribute, overload_method,
    register_jitable,
)

class Own(types.Type):
    pass

def mine(x):
    return x

@overload(mine)
def of_mine(x):
    return lambda x: x

@register_jitable
def helper(x):
    return mine(x)

@overload_method(Own, "twice")
def twice(x):
    return lambda x: 2

@overload_attribute(Own, "size")
def size(x):
    return lambda x: 2

@lower_builtin(len, Own)
def of_own(context, builder, sig, args):
    return context.get_constant(types.intp, 0)

@lower_cast(Own, types.int64)
def cast(context, builder, from_type, to_type, value):
    return context.get_constant(types.int64, 0)

@intrinsic
def nothing(context, x):
    return None

@njit
def compiled(x):
    return helper(x)

compiled(1.0)
"""


@pytest.mark.full
def test_what_no_kernel_that_is_kept_can_reach(tmp_path: Path) -> None:
    """Overloads of a program's own functions, and for its own types."""
    script = tmp_path / "script.py"
    text = KERNEL + OF_NO_CONSEQUENCE + LAUNCH
    assert run_script(script, text)["writes"] == 1
    assert run_script(script, text)["hits"] == 1
    found = run_script(script, KERNEL + LAUNCH)
    assert (found["result"], found["hits"]) == (USUAL, 1)


# ------------------------------------------------------------------- names that a release has moved


#: As a program teaches Numba another meaning of ``len``.
REGISTERED = templates.make_overload_template(len, lambda x: None, {}, True, "never")
GONE: dict[str, Callable[[pytest.MonkeyPatch], None]] = (
    {
        name: partial(pytest.MonkeyPatch.delattr, target=target, name=name)
        for target, names in (
            (templates, ("builtin_registry", "_OverloadFunctionTemplate", "CallableTemplate")),
            (templates.builtin_registry, ("functions", "attributes", "globals")),
            (sys.modules["numba.core.typing.npydecl"], ("registry",)),
            (registry, ("cpu_target",)),
            (registry.CPUTarget, ("_toplevel_typing_context", "_toplevel_target_context")),
            (REGISTERED, ("_overload_func",)),
        )
        for name in names
    }
    | {
        f"lowerings.{name}": partial(pytest.MonkeyPatch.delattr, target=lowerings, name=name)
        for name in ("functions", "getattrs", "setattrs", "casts", "constants")
    }
    | {
        "a module": lambda patch: patch.delitem(sys.modules, "numba.core.imputils"),
        "another kind of list": lambda patch: patch.setattr(lowerings, "casts", ()),
        "contexts that are made otherwise": lambda patch: patch.setattr(
            registry.CPUTarget, "_toplevel_typing_context", property(lambda self: None)
        ),
    }
)


@pytest.mark.parametrize("name", GONE)
def test_nothing_can_be_told_where_a_name_is_gone(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    registered = [*templates.builtin_registry.functions, REGISTERED]
    monkeypatch.setattr(templates.builtin_registry, "functions", registered)
    assert _Watch().look() is not None
    GONE[name](monkeypatch)
    with pytest.raises(UncacheableError, match="cannot be read"):
        _Watch().look()


def test_nothing_can_be_told_of_contexts_without_their_registries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contexts = registry.cpu_target.typing_context, registry.cpu_target.target_context
    for context in contexts:
        monkeypatch.delattr(context, "_registries")
    with pytest.raises(UncacheableError, match="_registries"):
        _Watch().look()


def test_nothing_can_be_told_of_another_kind_of_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowerings, "casts", [object()])
    with pytest.raises(UncacheableError, match="casts"):
        _Watch().look()


def test_a_function_without_its_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    function = numba.types.Function(REGISTERED)
    del function.templates
    items = [*templates.builtin_registry.globals, (len, function)]
    monkeypatch.setattr(templates.builtin_registry, "globals", items)
    with pytest.raises(UncacheableError, match="templates"):
        _Watch().look()


UNREADABLE = """
from numba.core import imputils
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()  # knows the list by now
del imputils.builtin_registry.constants
"""


@pytest.mark.full
def test_a_launch_keeps_and_takes_nothing_where_a_name_is_gone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    for _ in range(2):
        found = run_script(script, KERNEL + UNREADABLE + LAUNCH)
        assert found["result"] == USUAL
        assert (found["misses"], found["writes"]) == ({"uncacheable": 1}, 0)
        run_script(script, KERNEL + LAUNCH)
