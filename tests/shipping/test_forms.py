"""A kernel that its package describes is what the front end makes, and else is not taken."""

from __future__ import annotations

import importlib
import json
import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kerneldsl._version import __version__
from kerneldsl.analysis.analyze import analyze
from kerneldsl.frontend import unit as unit_module
from kerneldsl.frontend.fingerprint import fingerprint
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.unit import DeferredUnit, FunctionUnit
from kerneldsl.shipping import forms, meanings
from kerneldsl.shipping.forms import find_form
from kerneldsl.shipping.manifest import Manifest
from kerneldsl.shipping.packages import ShippedKernels
from kerneldsl.shipping.writer import make_form

SETTINGS = "WIDTH = 4\nSCALE = 2.5\n"
KERNELS = '''
import math
from enum import IntEnum

import numpy as np

import kerneldsl as kd
import settings_of_forms as settings

LIMIT = 3
NUMBER = np.float32(2)


@kd.func
def square(v, power=2):
    return v ** power + LIMIT


def _closing(low, high):
    def clamped(v):
        return min(max(v, low), high)

    return clamped


CHOICES = {"less": lambda v, w: v < w, "more": lambda v, w: v > w}
clamp = _closing(-1.0, 1.0)


@kd.kernel(
    wraparound=False,
)
def plain(x, out):
    """Text that no code has."""
    i = kd.grid(1)
    if i < out.size:
        # A comment.
        out[i] = clamp(square(x[i])) * settings.SCALE + np.float32(math.pi) + NUMBER


@kd.kernel
def chosen(x, *, better, width):
    i = kd.grid(1)
    held = kd.local.array(width, np.float32)
    held[0] = x[i]
    if better(x[i], held[0]):
        held[0] += 1
    x[i] = held[0]


@kd.func
def left_out(v):
    return square(v) + LIMIT


@kd.kernel
def without_a_branch(x, out, *, is_used):
    i = kd.grid(1)
    if is_used:
        out[i] = left_out(x[i])
    else:
        out[i] = x[i] + LIMIT


@kd.kernel(block=64)
def tiled(x, out):
    t = kd.tile.load(x, kd.blockIdx.x, 64)
    kd.tile.store(out, kd.blockIdx.x, t * 2)


@kd.kernel
def in_place(x, out):
    row = x[0]
    row += 1
    out[0] = row
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the kernels, of which tests change the text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "settings_of_forms.py").write_text(SETTINGS)
    (tmp_path / "kernels_of_forms.py").write_text(KERNELS)
    yield importlib.import_module("kernels_of_forms")
    for name in ("kernels_of_forms", "settings_of_forms"):
        sys.modules.pop(name, None)
    _forget(tmp_path / "kernels_of_forms.py")


def _forget(path: Path) -> None:
    """Let the text of a file be read anew; that of generated functions is nowhere else."""
    linecache.cache.pop(str(path), None)


def _import_anew(module: ModuleType, change: Callable[[str], str]) -> ModuleType:
    """Change the text, and import it anew."""
    path = Path(str(module.__file__))
    changed = change(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    _forget(path)
    del sys.modules[module.__name__]
    importlib.invalidate_caches()
    return importlib.import_module(module.__name__)


def _constants(module: ModuleType, name: str) -> dict[str, Any]:
    constants = {"chosen": {"better": module.CHOICES["less"], "width": 4}}
    return constants.get(name, {"is_used": False} if name == "without_a_branch" else {})


def _made(module: ModuleType, name: str) -> FunctionUnit:
    return make_unit(getattr(module, name).function, constants=_constants(module, name))


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let a package have the form of a kernel."""

    def ship(
        unit: FunctionUnit, change: Callable[[Any], Any] | None = None, version: str = __version__
    ) -> None:
        found = make_form(unit, analyze(unit))
        assert found is not None
        key, form = found
        form = json.loads(json.dumps(form))
        form = form if change is None else change(form)
        manifest = Manifest("m", version, {}, (), forms={key: [form]}).encode()
        shipped = ShippedKernels("m", "_kernels", lambda name: manifest, strict=False)
        monkeypatch.setattr(shipped, "has_kernel", lambda name: True, raising=False)
        monkeypatch.setattr(forms, "shipped_kernels_of", lambda module: shipped)
        monkeypatch.setattr(meanings, "_known", type(meanings._known)())  # as in another process

    return ship


KERNEL_NAMES = ("plain", "chosen", "without_a_branch", "tiled", "in_place")


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_a_form_is_what_the_front_end_makes(
    module: ModuleType, ship: Callable[..., None], name: str
) -> None:
    expected = _made(module, name)
    traits, digest = analyze(expected), fingerprint(expected)
    ship(expected)
    found = find_form(getattr(module, name).function, _constants(module, name))
    assert found is not None
    unit, its_traits = found
    assert (its_traits, fingerprint(unit)) == (traits, digest)
    for part in ("name", "qualname", "module", "filename", "first_line", "parameters"):
        assert getattr(unit, part) == getattr(expected, part)
    assert unit.function is expected.function
    assert not unit.is_plain_numba
    assert len(unit.captured) == len(expected.captured)
    for mine, its in zip(unit.captured, expected.captured, strict=True):
        assert (mine.name, mine.path, mine.arrays) == (its.name, its.path, its.arrays)
        assert mine.value is its.value is mine.read()
    assert type(unit) is DeferredUnit  # all of that has not made the normal form
    assert unit.source() == expected.source()
    assert type(unit) is FunctionUnit
    assert unit.place() == expected.place()
    assert unit.uses.keys() == expected.uses.keys()


def test_the_forms_of_the_examples_have_all_kinds_of_values(module: ModuleType) -> None:
    found = make_form(_made(module, "plain"), analyze(_made(module, "plain")))
    assert found is not None
    kernel, square, clamped = sorted(found[1][0], key=lambda row: row[0][2] != "plain")
    assert kernel[3]["kd.grid"] == "intrinsic grid"
    assert kernel[3]["settings"] == "module settings_of_forms"
    assert {kernel[3]["square"], kernel[3]["clamp"]} == {"function 1", "function 2"}
    assert {square[0][2], clamped[0][2]} == {"square", "_closing.<locals>.clamped"}
    assert analyze(_made(module, "in_place")).augmented


#: What makes another kernel: of the module, or a change of its text before it is imported.
CHANGES: dict[str, Callable[[ModuleType], Any]] = {
    "a captured number": lambda m: setattr(m, "NUMBER", m.np.float32(3)),
    "its type": lambda m: setattr(m, "NUMBER", 2),
    "an attribute of a module": lambda m: setattr(m.settings, "SCALE", 2.0),
    "the sign of zero": lambda m: setattr(m.settings, "SCALE", -0.0),
    "a constant of a callee": lambda m: setattr(m, "LIMIT", 4),
    "a default value": lambda m: setattr(m.square.function, "__defaults__", (3,)),
    "a function": lambda m: setattr(m, "square", m.clamp),
    "a closure": lambda m: setattr(m, "clamp", m._closing(-1.0, 2.0)),
    "a library's function": lambda m: setattr(m, "min", max),
    "a module": lambda m: setattr(m, "math", m.np),
    "a name that is deleted": lambda m: delattr(m, "NUMBER"),
    "a linked function": lambda m: setattr(m.square, "__kerneldsl_linked__", _linked()),
    "code": lambda m: setattr(
        m.square.function, "__code__", m.square.function.__code__.replace(co_consts=(None, 5))
    ),
}


def _linked() -> Any:
    from kerneldsl.frontend.linked_code import CodeForm, LinkedCode

    return LinkedCode("square", (), None, b"", CodeForm.PTX, "square")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_the_kernel_is_a_miss(
    module: ModuleType, ship: Callable[..., None], change: Callable[[ModuleType], Any]
) -> None:
    ship(_made(module, "plain"))
    assert find_form(module.plain.function, {}) is not None
    meanings._known.clear()
    change(module)
    assert find_form(module.plain.function, {}) is None


def test_equal_values_of_other_objects_are_found(
    module: ModuleType, ship: Callable[..., None]
) -> None:
    ship(_made(module, "plain"))
    module.NUMBER = module.np.float32(2)
    module.clamp = module._closing(-1.0, 1.0)
    unit, _ = find_form(module.plain.function, {}) or pytest.fail("it is a miss")
    assert next(each for each in unit.captured if each.name == "clamp").value is module.clamp


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v ** power", "v * power"),
        ("out[i] = clamp", "out[i] = 1 + clamp"),
        ("min(max(v, low), high)", "max(min(v, high), low)"),
        ("wraparound=False", "wraparound=True"),
        ("# A comment.", "# Another comment."),
        ("def square(v,", "def square(v: int,"),
    ],
)
def test_another_text_is_a_miss(
    module: ModuleType, ship: Callable[..., None], old: str, new: str
) -> None:
    ship(_made(module, "plain"))
    module = _import_anew(module, lambda text: text.replace(old, new))
    assert find_form(module.plain.function, {}) is None


def test_other_lines_may_change(module: ModuleType, ship: Callable[..., None]) -> None:
    ship(_made(module, "plain"))
    module = _import_anew(
        module,
        lambda text: text.replace("\nLIMIT", "\n\n# More.\nLIMIT").replace(
            "@kd.kernel(block=64)", "# A comment after the kernel.\n@kd.kernel(block=64)"
        ),
    )
    unit, _ = find_form(module.plain.function, {}) or pytest.fail("it is a miss")
    assert unit.place() == _made(module, "plain").place()


def test_a_text_that_is_not_that_of_the_code_is_a_miss(
    module: ModuleType, ship: Callable[..., None]
) -> None:
    # The file is the shipped one again, after another one was imported.
    ship(_made(module, "plain"))
    path = Path(str(module.__file__))
    shipped = path.read_text()
    module = _import_anew(module, lambda text: text.replace("v ** power", "v * power"))
    path.write_text(shipped)
    _forget(path)
    assert find_form(module.plain.function, {}) is None


def test_lambdas_of_a_line_are_distinguished(module: ModuleType, ship: Callable[..., None]) -> None:
    ship(_made(module, "chosen"))
    less = {"better": module.CHOICES["less"], "width": 4}
    assert find_form(module.chosen.function, less) is not None
    for other in ({"better": module.CHOICES["more"]}, {"width": 8}, {"better": module.square}):
        assert find_form(module.chosen.function, less | other) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda form: form[:-1],
        lambda form: [],
        lambda form: {"a": 1},
        lambda form: 3,
        lambda form: [[], *form[1:]],
        lambda form: [*form[:5], {}],
        lambda form: [*form[:5], form[5] | {"more": True}],
        lambda form: [form[0], [[9, "NUMBER", "NUMBER"]], *form[2:]],
        lambda form: [[*form[0], form[0][0]], *form[1:]],
    ],
)
def test_a_form_that_is_none_is_a_miss(
    module: ModuleType, ship: Callable[..., None], change: Callable[[Any], Any]
) -> None:
    ship(_made(module, "plain"), change)
    assert find_form(module.plain.function, {}) is None


def test_another_version_has_other_forms(module: ModuleType, ship: Callable[..., None]) -> None:
    ship(_made(module, "plain"), version="0.0")
    assert find_form(module.plain.function, {}) is None


def test_the_normal_form_is_made_of_what_was_read(
    module: ModuleType, ship: Callable[..., None]
) -> None:
    expected = _made(module, "plain")
    ship(expected)
    unit, _ = find_form(module.plain.function, {}) or pytest.fail("it is a miss")
    digest = fingerprint(unit)
    module.NUMBER, module.LIMIT = module.np.float32(9), 9
    assert fingerprint(replace(unit)) == digest
    assert _made(module, "plain").constants["NUMBER"].value == 9


def test_it_is_made_once(
    module: ModuleType, ship: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(_made(module, "plain"))
    made, make = [], forms._make_unit
    monkeypatch.setattr(forms, "_make_unit", lambda *given: made.append(1) or make(*given))
    unit, _ = find_form(module.plain.function, {}) or pytest.fail("it is a miss")
    trees = list[Any]()
    threads = [threading.Thread(target=lambda: trees.append(unit.tree)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1
    assert all(each is trees[0] for each in trees)
    with pytest.raises(AttributeError):
        unit.nothing
    assert unit_module.FunctionUnit is type(unit)


def test_kernels_that_depend_on_more_have_no_form(module: ModuleType) -> None:
    array, values = module.np.arange(3), {"better": module.CHOICES["less"], "width": 4}

    def form(unit: FunctionUnit) -> Any:
        return make_form(unit, analyze(unit))

    assert form(make_unit(module.chosen.function, constants=values)) is not None
    module.NUMBER = array
    assert form(_made(module, "plain")) is None
    module.NUMBER = module.IntEnum("Number", {"TWO": 2}).TWO
    assert form(_made(module, "plain")) is None
