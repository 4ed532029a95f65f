"""The card of every class: well-formed, with what one looks for, and never in the way."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import sympy

import kerneldsl as kd
from kerneldsl.cards import bundle, kernels
from kerneldsl.cards.kernels import code_forms, short_names
from kerneldsl.cards.magics import Code
from kerneldsl.contract import Resources
from kerneldsl.launch.specialization_info import SpecializationInfo
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from kerneldsl.planner.formula import PlanFormula
from kerneldsl.utilities.shown import Shown, ShownTuple
from targets.cpu.runtime.stored import StoredLibrary
from tests.cards.reading import plain_card, read_card

SIGNATURE = "float32, float32[::1], float32[::1]"
EVIL = "<script>alert('x')</script>"


@kd.func
def twice(value):
    return 2 * value


@kd.kernel(lineinfo=True)
def strided(a, x, out):
    """Read every <second> element."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[2 * i] + twice(a)


@kd.kernel(SIGNATURE)
def declared(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[2 * i]


SPACE = kd.Space(block=[64, 128], tile=[1, 2], mode=["a", EVIL])


@kd.kernel(space=kd.Space(block=[64, 128], tile=[1, 2]))
def spaced(x, *, tile):
    x[kd.grid(1)] = tile


@pytest.fixture(scope="module")
def compiled() -> kd.Kernel[..., Any]:
    """The kernel, compiled for the CPU and to PTX."""
    x = np.ones(64, np.float32)
    with kd.use("cpu"):
        strided.forall(32)(np.float32(2), x, np.zeros(32, np.float32))
    strided.ptx(SIGNATURE, forall=1, arch="sm_90")
    return strided


def things() -> dict[str, Any]:
    """Return something of each class that has a card."""
    x = np.ones(64, np.float32)
    cpu = kd.devices("cpu")
    plan = kd.LaunchPlan("k", "cpu", "native", (64,), (1, 1, 1), (64, 1, 1), occupancy=0.5)
    one_block = kd.PlanAlternative((32, 1, 1), plan.mapping, 1.0, "slower")
    limits = DeviceOccupancyLimits.for_compute_capability((9, 0))
    blocks = sympy.Symbol("blocks")
    with kd.use("cpu"), kd.profile() as profiled:
        kd.to_device(x)
    code = Code("add.s32 <r1>;")
    code.heading, code.language = "PTX of k", "ptx"
    explained = kernels._explained(declared, kernels._specialization(declared))
    assert explained is not None
    return {
        "Code": code,
        "Resources": Resources(32, 0, 16, 1024, 1024),
        "Device": kd.empty(1, device="cpu").device,
        "DeviceInfo": cpu[0],
        "AccessReport": explained.accesses[0],
        "Explanation": explained,
        "Finding": explained.findings[0],
        "Roofline": explained.roofline,
        "Stream": kd.Stream("cpu", priority=-1),
        "ShownTuple": explained.accesses,
        "DeviceFunction": twice,
        "Kernel": strided,
        "SpacedKernel": spaced,
        "BoundLaunch": kd.BoundLaunch(strided.forall(32), (2, x)),
        "Launch": strided[3, 32],
        "SpecializationInfo": SpecializationInfo("cpu", None, SIGNATURE, 1, None, 0.25),
        "Timing": kd.Timing(1500.0, 1200.0, 7, 100, "cpu", "everything"),
        "DeviceArray": kd.to_device(x.reshape(8, 8), device="cpu")[:, ::2],
        "LaunchPlan": replace(plan, notes=("a note",), considered=(one_block,), considered_count=2),
        "Member": SPACE.members[0],
        "Space": SPACE,
        "AsTable": cpu,
        "Occupancy": occupancy(limits, KernelResources(registers=80), 160),
        "PlanFormula": PlanFormula(2.0 * blocks, {}, {blocks: 4.0}),
        "Profile": profiled,
    }


def test_every_class_has_a_card(compiled: kd.Kernel[..., Any]) -> None:
    made = things()
    assert {path.rpartition(".")[2] for path in bundle.CARDS} <= set(made)
    shows = {
        "Code": "add.s32 <r1>;",
        "Resources": "registers of a thread32",
        "Device": "threads of a block1024",
        "DeviceInfo": "Every attribute that is not live",
        "AccessReport": "load x[2 * i]",
        "Explanation": "coalescing, line",
        "Finding": "coalescing, line",
        "Roofline": "limited by memoryflops a byte",
        "Stream": "priority-1waits for the default streamyes",
        "ShownTuple": "[0]",
        "DeviceFunction": "return 2 * value",
        "Kernel": "out[i] = a * x[2 * i] + twice(a)",
        "SpacedKernel": "space4 members",
        "BoundLaunch": "ndarray(shape=(64,), dtype=float32)",
        "Launch": "grid(3, 1, 1)block(32, 1, 1)",
        "SpecializationInfo": "250 ms",
        "Timing": "median1.5 µsbest1.2 µs",
        "DeviceArray": "shape8 × 4dtypefloat32device",
        "LaunchPlan": "Note: a noteCompared with others, 2 plans in all",
        "Member": "block64tile1",
        "Space": "Space of 8 members",
        "AsTable": "processors",
        "Occupancy": "occupancy 31 %, limited by registers.",
        "PlanFormula": "time_ns2.0*blocks8",
        "Profile": "copyhost to devicecpu1",
    }
    for name, thing in made.items():
        assert isinstance(thing, Shown), name
        shown = thing._repr_mimebundle_()
        assert set(shown) == {"text/plain", "text/html"}, name
        assert shows[name] in read_card(shown["text/html"]), name
        plain = str(thing) if name in ("Explanation", "Finding", "PlanFormula") else repr(thing)
        assert shown["text/plain"].partition(" at 0x")[0] == plain.partition(" at 0x")[0]
        assert thing._repr_html_()[:2000] == shown["text/html"][:2000]


def test_the_table_names_what_there_is() -> None:
    for path, card in bundle.CARDS.items():
        module, _, name = path.rpartition(".")
        assert issubclass(getattr(import_module(module), name), Shown)
        module, _, name = card.partition(".")
        assert callable(getattr(import_module(f"kerneldsl.cards.{module}"), name))


def test_a_kernel_shows_its_code_joined_by_line(compiled: kd.Kernel[..., Any]) -> None:
    shown = compiled._repr_html_()
    text = read_card(shown)
    line = compiled.function.__code__.co_firstlineno + 5
    assert f"{line}          out[i] = a * x[2 * i]" in text
    assert "load x[2 * i]: 8 sectors a request, 50 % used" in text
    assert "at [k, i] instead of [2*i + k]" in text
    for part in ("PTX (cuda sm_90)", ".visible .entry strided", "LLVM IR (cpu", "Assembly (cpu"):
        assert part in text
    # The line of the source, of PTX and of LLVM have the same color.
    assert shown.count(f'title="line {line}"') > 5
    # Beside the source one pane is open, which is joined to it: machine code, if nvdisasm is there.
    pane = "SASS" if "SASS (cuda" in text else "PTX"
    assert re.findall(r"<details open><summary>(\w+)", shown) == [pane]


def test_without_style_a_kernel_is_legible(compiled: kd.Kernel[..., Any]) -> None:
    lines = plain_card(compiled._repr_html_()).splitlines()
    first = compiled.function.__code__.co_firstlineno
    source = inspect.getsource(compiled.function).splitlines()
    width = len(str(first + len(source) - 1))
    for number, line in enumerate(source, first):
        assert f"{number:{width}}  {line}" in lines
    assert any(re.fullmatch(r" +2  // Generated by LLVM NVPTX Back-End", line) for line in lines)
    assert "| options | lineinfo=True " in lines


def test_code_names_functions_without_their_types(compiled: kd.Kernel[..., Any]) -> None:
    text = read_card(compiled._repr_html_())
    assert "_ZN" not in text
    assert re.search(r"define void @strided\.entry\(", text)
    assert re.search(r"\.globl\s+strided\.entry\n", text)
    for mangled, short in {
        "_ZN8__main__4axpyB1v1E": "__main__.axpy",
        "_Z4axpyi": "axpy",
        "_ZN13_3cdynamic_3e4axpyB2v1E.exit:": "axpy.exit:",
        "%_ZN3foo": "%foo",
        "_ZN13_3cdynamic_3e": "_ZN13_3cdynamic_3e",
        "_ZTV no_Zname": "_ZTV no_Zname",
    }.items():
        assert short_names(mangled) == short


def test_what_was_assumed_is_said_and_no_grid_is_made_of_it(
    compiled: kd.Kernel[..., Any],
) -> None:
    for kernel, extent in ((compiled, ", extent = (1024,)"), (declared, "")):
        (about,) = re.findall(r"Explained for [^<]*", kernel._repr_html_())
        assert about.endswith(f". Assumed: x = (1024,), out = (1024,), block = (256, 1, 1){extent}")


def test_what_was_stored_without_a_module_is_not_compiled_anew(compiled: Any) -> None:
    made = dict(compiled._compiled())["cpu"]
    assert made.forms_at_hand() == ("source", "llvm", "asm")
    library = StoredLibrary(lambda: pytest.fail("it was compiled"))
    stored = replace(made, compiled=replace(made.compiled, library=library))
    forms = [each.title for each in code_forms("cpu", stored, __file__)]
    assert forms == ["Regions that are compiled (cpu)"]


def test_tuples_of_things_are_tables(compiled: kd.Kernel[..., Any]) -> None:
    planned = kd.kernel(declared.function).forall(1 << 20).plans(SIGNATURE, arch="sm_90")
    explained = declared.explain(block=128, arch="sm_90", occupancy=False)
    shows = {
        "blockitemsvectorpredicted[0]": ShownTuple(planned[:9]),
        f"{len(planned) - 40} more are not shown": planned,
        "targetarchitecture": compiled.specializations,
        "lineaboutfoundremedy[0]": explained.findings,
        f"[1]{explained.accesses[1].where.lineno}store out[i]": explained.accesses,
        "usedwavefronts[0]": explained.global_accesses,
        "empty": explained.shared_accesses,
    }
    for text, things in shows.items():
        assert isinstance(things, tuple)
        assert things == tuple(things)
        shown = read_card(things._repr_mimebundle_()["text/html"])  # type: ignore[attr-defined]
        assert text in shown
        assert not things or f"[{min(len(things), 40) - 1}]" in shown


def test_the_card_of_vector_math_is_small_enough_for_a_notebook() -> None:
    x = sympy.Symbol("x")
    with kd.use("cpu"):
        made = kd.from_expression(sympy.sin(x) + 2 / (x + 3), name="tables_of_constants")
        made(np.arange(8.0))
    shown = made._repr_html_()
    text = read_card(shown)
    for part in ("Regions that are compiled", "LLVM IR (cpu", "Assembly (cpu"):
        assert part in text
    assert "more lines are not shown. kernel.llvm(…) returns all of it." in text
    assert len(shown) < 80_000


def test_a_declared_signature_is_explained_before_anything_is_compiled() -> None:
    text = read_card(declared._repr_html_())
    assert "Not compiled yet" in text
    assert f"signatures{SIGNATURE}" in text
    assert "load x[2 * i]: 8 sectors a request, 50 % used" in text
    assert declared.specializations == ()


def test_a_kernel_that_nobody_has_called_is_shown_and_not_compiled() -> None:
    @kd.kernel
    def untouched(x):
        x[kd.grid(1)] = 1.0

    assert "Not compiled yet" in read_card(untouched._repr_html_())
    assert untouched.specializations == ()


def test_much_work_in_loops_is_left_to_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    @kd.kernel(SIGNATURE)
    def looped(a, x, out):
        i = kd.grid(1)
        for j in range(8):
            out[i] += a * x[i + j]

    monkeypatch.setattr(kernels, "_MAX_LOOPED_STATEMENTS", 1)
    assert "Explained for" not in read_card(looped._repr_html_())


# ------------------------------------------------------------------------------------- hostile


def test_names_and_values_inject_nothing() -> None:
    @kd.kernel
    def named(x):
        x[kd.grid(1)] = 1.0  # </pre><script>alert(1)</script>

    named.__qualname__ = EVIL
    plan = kd.LaunchPlan(
        EVIL, EVIL, EVIL, (3,), (1, 1, 1), (3, 1, 1), reasons=(EVIL,), notes=(EVIL,)
    )
    for thing in (
        named,
        kd.BoundLaunch(named[1, 1], (EVIL,)),
        plan,
        replace(
            plan,
            considered_count=2,
            considered=(kd.PlanAlternative((1, 1, 1), plan.mapping, 1.0, EVIL),),
        ),
        kd.Timing(1.0, 1.0, 1, 1, EVIL, EVIL),
        SpecializationInfo(EVIL, EVIL, EVIL, 1, None, 1.0),
        SPACE,
        SPACE.members[1],
        named[1, 1],
    ):
        text = read_card(thing._repr_mimebundle_()["text/html"])
        assert "alert" in text, thing


# ------------------------------------------------------------------------------------- failing


class Broken:
    """Raises whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("broken")

    __repr__ = __str__


def test_a_broken_part_leaves_the_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = kd.Timing(1.0, 1.0, 1, 1, "cpu", "all")
    broken = replace(timing, device=Broken())  # type: ignore[arg-type]
    (text,) = broken._repr_mimebundle_().values()
    assert text.startswith("<kerneldsl.launch.timing.Timing object")
    assert broken._repr_html_() is None
    monkeypatch.setattr("kerneldsl.cards.launches.timing_card", None)
    assert timing._repr_mimebundle_() == {"text/plain": repr(timing)}


def test_a_kernels_card_does_without_parts_that_fail(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(kernels, "annotate", fail)
    monkeypatch.setattr(kernels, "code_forms", fail)
    with caplog.at_level("DEBUG", "kerneldsl.cards"):
        text = read_card(strided._repr_html_())
    assert "out[i] = a * x[2 * i]" in text
    assert "PTX" not in text
    assert "RuntimeError: broken" in caplog.text


def test_a_kernel_without_source_is_shown() -> None:
    scope: dict[str, Any] = {"kd": kd}
    exec("def made(x):\n    x[0] = 1", scope)  # what no file holds
    text = read_card(kd.kernel(scope["made"])._repr_html_())
    assert "The source cannot be found" in text


def test_closed_arrays_and_captured_streams_are_shown() -> None:
    with kd.use("null"):
        closed = kd.zeros(3)
        closed.close()
        assert "closed" in read_card(closed._repr_html_())
        captured = kd.zeros(3)
        with kd.Stream().capture():
            assert "being captured" in read_card(captured._repr_html_())


def test_a_lost_device_is_not_asked_for_values(monkeypatch: pytest.MonkeyPatch) -> None:
    with kd.use("null"):
        array = kd.zeros((2, 3))
    monkeypatch.setattr(type(array.device), "unusable_reason", lambda self: "it was lost")
    monkeypatch.setattr("kerneldsl.memory.display._read", None)
    text = read_card(array._repr_html_())
    assert "values not shown: it was lost" in text
    assert "shape2 × 3" in text
    assert "cannot be usedit was lost" in read_card(array.device._repr_html_())


def test_values_are_summarized_as_numpy_does() -> None:
    array = kd.to_device(np.arange(10_000.0), device="cpu")
    assert "0.000e+00, 1.000e+00, 2.000e+00, ..., 9.997e+03" in read_card(array._repr_html_())


@pytest.mark.parametrize("layout", ["C", "F", "A"])
def test_strides_are_shown_of_what_is_not_contiguous(layout: str) -> None:
    base = kd.zeros((6, 4), np.float64, device="cpu")
    array = {"C": base, "F": base.T, "A": base[::2]}[layout]
    text = read_card(array._repr_html_())
    assert ("strides" in text.replace("strided", "")) == (layout != "C")
    assert (str(array.strides) in text) == (layout != "C")


def test_only_what_is_wanted_is_made() -> None:
    timing = kd.Timing(1.0, 1.0, 1, 1, "cpu", "all")
    assert set(timing._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert set(timing._repr_mimebundle_(exclude={"text/plain"})) == {"text/html"}
    assert set(timing._repr_mimebundle_(include={"text/html", "a/b"})) == {"text/html"}


def test_a_card_explains_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = read_card(declared._repr_html_())
    monkeypatch.setattr(kernels, "_explain", None)
    assert "Explained for" in text
    assert read_card(declared._repr_html_()) == text
