"""Line magics in IPython's own shell, and how the shell shows cards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cards.reading import read_card
from tests.support.shells import interactive_shell

PROGRAM = """\
import kerneldsl as kd
import numpy as np

@kd.kernel
def double(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

x = np.ones(64, np.float32)
out = np.zeros_like(x)
arguments = (x, out)
"""


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    with interactive_shell() as shell:
        assert shell.run_cell(PROGRAM).success
        shell.extension_manager.load_extension("kerneldsl")
        yield shell


def run(shell: Any, line: str) -> Any:
    done = shell.run_cell(line)
    done.raise_error()
    return done.result


def test_time(shell: Any) -> None:
    with shell.user_ns["kd"].use("null"):
        timing = run(shell, "%kdtime double.forall(64)(x, out, samples=2)")
    assert timing.samples == 2
    assert timing.device.startswith("null")
    assert "median" in read_card(timing._repr_html_())


@pytest.mark.parametrize(
    ("line", "block", "grid"),
    [
        ("%kdexplain double[2, 32](x, out)", (32, 1, 1), (2, 1, 1)),
        ("%kdexplain double.forall(64, block=32)(*arguments)", (32, 1, 1), (2, 1, 1)),
        ('%kdexplain double("f4[::1], f4[::1]", block=64, grid=3)', (64, 1, 1), (3, 1, 1)),
    ],
)
def test_explain(shell: Any, line: str, block: Any, grid: Any) -> None:
    shell.user_ns["out"][:] = 7
    found = run(shell, line)
    assert (found.block_dim, found.grid_dim) == (block, grid)
    assert found.flops() > 0
    assert (shell.user_ns["out"] == 7).all()


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ("%kdptx double.forall(64)(x, out)", 1),
        ('%kdptx double("f4[::1], f4[::1]", arch="sm_90")', 0),
    ],
)
def test_ptx(shell: Any, line: str, marks: int) -> None:
    code = run(shell, line)
    assert code == str(code)
    assert ".visible .entry double" in code
    # With an extent the entry takes it, too.
    assert code.count("double_param_4") > 0 if marks else "double_param_4" not in code
    shown = code._repr_mimebundle_()
    assert shown["text/plain"] == code
    assert "PTX of double" in read_card(shown["text/html"])


@pytest.mark.parametrize("name", ["kdtime", "kdexplain", "kdptx"])
def test_a_line_in_a_function_sees_its_variables(shell: Any, name: str) -> None:
    lines = (
        "def show(extent, arrays, double, shift=0):",
        "    for factor in (1, 2):",
        f"        found = %{name} double.forall(extent // factor - shift)(*[a for a in arrays])",
        "    return found",
    )
    assert shell.run_cell("\n".join(lines)).success
    shell.user_ns["extent"] = "a local variable goes before"
    with shell.user_ns["kd"].use("null"):
        found = run(shell, "show(64, (x, out), double)")
    if name == "kdexplain":
        assert found.flops() == 32
    assert shell.user_ns["extent"] == "a local variable goes before"
    assert "arrays" not in shell.user_ns


@pytest.mark.parametrize("line", ["", "x", "x.sum()", "double", "len(x)", "double.forall(64)(x"])
@pytest.mark.parametrize("name", ["kdtime", "kdexplain", "kdptx"])
def test_what_is_no_launch_is_refused(shell: Any, name: str, line: str) -> None:
    from kerneldsl import ArgumentTypeError

    with pytest.raises(ArgumentTypeError, match=f"%{name} was given") as info:
        shell.run_line_magic(name, line)
    assert f"%{name} kernel.forall(n)(…)" in str(info.value)


def test_a_mistake_is_one_line_without_a_traceback(shell: Any, capsys: Any) -> None:
    done = shell.run_cell("%kdtime double.forall(64")
    assert not done.success
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).strip().splitlines()
    assert len(lines) == 1
    assert "%kdtime was given 'double.forall(64'" in lines[0]


def test_the_shell_shows_cards_and_a_terminal_makes_none(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = shell.user_ns["double"]
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    shown, _ = shell.display_formatter.format(double)
    assert "out[i] = 2 * x[i]" in read_card(shown["text/html"])
    monkeypatch.setattr(shell.display_formatter, "active_types", ["text/plain"])
    monkeypatch.setattr("kerneldsl.cards.kernels.kernel_card", None)
    (kind, text), *others = double._repr_mimebundle_().items()
    assert (kind, others) == ("text/plain", [])
    assert text.startswith("kernel __main__.double(x, out)\n")
    assert "compiled" in text
    shown, _ = shell.display_formatter.format(double)
    assert shown == {"text/plain": text}
    launch = double.forall(64)
    assert launch._repr_mimebundle_() == {"text/plain": repr(launch)}


def test_a_terminal_shows_what_a_card_would_unfold(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    import kerneldsl as kd
    from kerneldsl.cards import bundle
    from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy

    @kd.kernel
    def double(x):
        x[kd.grid(1)] *= 2

    limits = DeviceOccupancyLimits.for_compute_capability((9, 0))
    held = occupancy(limits, KernelResources(registers=80), 160)
    monkeypatch.setattr(bundle, "is_html_shown", lambda: False)
    assert "not compiled yet" in bundle.mimebundle(double)["text/plain"]
    with kd.use("cpu"), kd.profile() as profiled:
        double.forall(8)(np.ones(8, np.float32))
    shown = bundle.mimebundle(double)["text/plain"]
    assert "extent of rank 1" in shown
    assert "float32[::1]" in shown
    assert bundle.mimebundle(held) == {"text/plain": held.explain()}
    first, header, *rows = bundle.mimebundle(profiled)["text/plain"].splitlines()
    assert first == repr(profiled)
    assert header.startswith("kind")
    assert any(row.startswith("launch") for row in rows)
