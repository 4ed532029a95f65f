"""The explorer of occupancies: what its sliders change is what the planner computes."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl import plots
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from kerneldsl.planner.limits import RULES
from kerneldsl.plots import explorer as module
from targets.cuda.device.described import described_device
from tests.notebooks.execution import WIDGET, execute, stored_form

HOPPER = DeviceOccupancyLimits.for_compute_capability((9, 0))


def held(
    device: DeviceOccupancyLimits, registers: int, static: int, threads: int, dynamic: int
) -> Any:
    most = device.max_shared_memory_per_block_optin - static
    kernel = KernelResources(registers, static, max_dynamic_shared_bytes=most)
    return occupancy(device, kernel, threads, dynamic)


def test_begins_with_what_is_given() -> None:
    found = held(HOPPER, 72, 8192, 192, 0)
    assert plots.explore_occupancy(found).found == found
    assert plots.explore_occupancy(HOPPER, registers=40).found == held(HOPPER, 40, 0, 256, 0)
    assert plots.explore_occupancy((8, 6)).found.device.compute_capability == (8, 6)
    device = described_device("sm_90")
    explorer = plots.explore_occupancy(device, block_threads=96)
    assert explorer.found.device == DeviceOccupancyLimits.from_device(device)
    assert explorer.found.block_threads == 96
    assert eval(repr(explorer), vars(plots)).shared_bytes == explorer.shared_bytes  # noqa: S307


def test_changes_are_the_planners() -> None:
    explorer = plots.explore_occupancy(held(HOPPER, 72, 8192, 192, 0))
    explorer.change(shared_bytes=100_000)
    assert explorer.found == held(HOPPER, 72, 8192, 192, 100_000 - 8192)
    assert explorer.found.limiters == ("shared_memory",)
    explorer.change(compute_capability=(8, 0), registers=128, block_threads=512)
    ampere = DeviceOccupancyLimits.for_compute_capability((8, 0))
    assert explorer.found == held(ampere, 128, 8192, 512, 100_000 - 8192)
    explorer.change(shared_bytes=0)
    assert explorer.found == held(ampere, 128, 0, 512, 0)
    assert explorer.found.limiters == ("registers",)


def test_what_cannot_be_explored_is_refused() -> None:
    with pytest.raises(kd.ArgumentTypeError, match="'sm_90' has no occupancy to explore"):
        plots.explore_occupancy("sm_90")  # type: ignore[arg-type]
    with pytest.raises(kd.ArgumentValueError, match=r"compute_capability \(1, 0\)"):
        plots.explore_occupancy((1, 0))


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        *(("registers", value, "0 to 256") for value in (-1, 257, 4000)),
        *(("block_threads", value, "1 to 1024") for value in (0, 1025)),
        *(("shared_bytes", value, f"0 to {227 * 1024}") for value in (-1, 227 * 1024 + 1)),
    ],
)
def test_a_number_out_of_its_range_is_refused(name: str, value: int, limit: str) -> None:
    explorer = plots.explore_occupancy()
    before = explorer.found
    with pytest.raises(kd.ArgumentValueError, match=f"^{name} is {value}") as caught:
        explorer.change(**{name: value})
    assert f"{limit} on compute capability 9.0" in caught.value.limit
    with pytest.raises(kd.ArgumentValueError, match=f"{name} is {value}"):
        plots.explore_occupancy(**{name: value})
    with pytest.raises(kd.ArgumentTypeError, match=f"{name} is 2.5"):
        explorer.change(**{name: 2.5})  # type: ignore[arg-type]
    assert explorer.found == before


def test_what_another_device_cannot_have_is_told() -> None:
    explorer = plots.explore_occupancy(shared_bytes=200 * 1024)
    explorer.change(compute_capability=(7, 5))
    assert explorer.shared_bytes == 200 * 1024
    assert "No block of 256 threads fits" in str(explorer)
    with pytest.raises(kd.ArgumentValueError, match="shared_bytes is 102400"):
        explorer.change(shared_bytes=100 * 1024)


def test_a_terminal_shows_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = plots.explore_occupancy(block_threads=160, registers=80)
    assert "limited by registers" in str(explorer)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert explorer._repr_mimebundle_() == {"text/plain": str(explorer)}
    assert explorer._repr_mimebundle_(include={"text/html"}) == {}
    with pytest.raises(kd.ToolMissingError, match="Matplotlib is not installed"):
        explorer.html()


class TestDrawn:
    @pytest.fixture(autouse=True)
    def in_memory(self) -> None:
        pytest.importorskip("matplotlib", reason="the plots extra is not installed").use("agg")

    def test_a_page_shows_the_words_and_a_picture(self) -> None:
        explorer = plots.explore_occupancy(block_threads=160, registers=80)
        bundle = explorer._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/html"}
        page = bundle["text/html"]
        assert "limited by registers" in page
        assert "<script" not in page
        (picture,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
        assert base64.b64decode(picture).startswith(b"\x89PNG")
        explorer.change(registers=32)
        assert explorer._repr_mimebundle_()["text/html"] != page
        assert set(explorer._repr_mimebundle_(exclude={"text/html"})) == {"text/plain"}

    def test_the_figure_is_of_the_present_choice(self) -> None:
        explorer = plots.explore_occupancy(block_threads=160, registers=80)
        marks = [axes.lines[1] for axes in explorer.figure().axes]
        assert [mark.get_xdata()[0] for mark in marks] == [160, 80, 0]
        assert {mark.get_ydata()[0] for mark in marks} == {explorer.found.active_warps}

    def test_without_ipywidgets_a_notebook_has_the_static_form(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "ipywidgets", None)
        monkeypatch.setattr(module, "_is_in_notebook", lambda: True)
        explorer = plots.explore_occupancy()
        assert set(explorer._repr_mimebundle_()) == {"text/plain", "text/html"}
        with pytest.raises(kd.ToolMissingError, match="ipywidgets is not installed"):
            explorer.widget()


class TestSliders:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("matplotlib", reason="the plots extra is not installed").use("agg")
        pytest.importorskip("ipywidgets", reason="the notebook extra is not installed")

    @pytest.fixture
    def parts(self) -> Any:
        explorer = plots.explore_occupancy(held(HOPPER, 72, 8192, 192, 0))
        capability, threads, registers, shared, shown = explorer.widget().children
        return SimpleNamespace(
            explorer=explorer,
            capability=capability,
            threads=threads,
            registers=registers,
            shared=shared,
            shown=shown,
        )

    def test_begin_where_the_explorer_is(self, parts: Any) -> None:
        assert (parts.threads.value, parts.registers.value, parts.shared.value) == (192, 72, 8192)
        assert parts.capability.value == (9, 0)
        offered = {value for _, value in parts.capability.options}
        assert offered == {each for each, rules in RULES.items() if rules.threads is not None}
        assert parts.shown.value == str(parts.explorer.html())
        assert parts.explorer.widget() is parts.explorer.widget()

    def test_change_the_explorer(self, parts: Any) -> None:
        before = parts.shown.value
        parts.registers.value = 128
        assert parts.explorer.found == held(HOPPER, 128, 8192, 192, 0)
        parts.threads.value = 512
        parts.shared.value = 65536
        assert parts.explorer.found == held(HOPPER, 128, 8192, 512, 65536 - 8192)
        assert "limited by registers" in parts.shown.value
        assert parts.shown.value != before

    def test_another_capability_has_other_ends(self, parts: Any) -> None:
        assert parts.shared.max == HOPPER.max_shared_memory_per_block_optin
        parts.capability.value = (7, 5)
        turing = DeviceOccupancyLimits.for_compute_capability((7, 5))
        assert parts.explorer.found == held(turing, 72, 8192, 192, 0)
        assert parts.shared.max == turing.max_shared_memory_per_block_optin

    def test_go_back_from_what_a_device_cannot_have(self, parts: Any) -> None:
        parts.explorer.change(shared_bytes=200 * 1024)
        parts.capability.value = (7, 5)
        parts.shared.value = 100 * 1024
        assert parts.shared.value == parts.explorer.shared_bytes == 200 * 1024
        parts.shared.value = 8192
        assert parts.explorer.shared_bytes == 8192

    def test_follow_the_explorer(self, parts: Any) -> None:
        parts.explorer.change(
            compute_capability=(8, 0), block_threads=320, registers=40, shared_bytes=1024
        )
        values = [each.value for each in (parts.threads, parts.registers, parts.shared)]
        assert (parts.capability.value, *values) == ((8, 0), 320, 40, 1024)

    def test_every_end_of_a_slider_is_drawn(self, parts: Any) -> None:
        for slider in (parts.threads, parts.registers, parts.shared):
            for end in (slider.min, slider.max):
                slider.value = end
                assert "Occupancy, compute capability 9.0" in parts.shown.value

    def test_are_what_a_notebook_shows(self, parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_is_in_notebook", lambda: True)
        bundle = parts.explorer._repr_mimebundle_()
        assert set(bundle) == {WIDGET, "text/html", "text/plain"}
        assert bundle["text/plain"] == str(parts.explorer)


@pytest.mark.full
def test_a_kernel_of_jupyter_is_sent_sliders(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the notebook extra is not installed")
    for each in ("nbclient", "ipykernel", "ipywidgets"):
        pytest.importorskip(each, reason="the notebook extra is not installed")
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    source = "from kerneldsl import plots\nplots.explore_occupancy()"
    path = tmp_path / "explorer.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    executed = execute(path)
    (output,) = executed.cells[0].outputs
    assert set(output.data) == {WIDGET, "text/html", "text/plain"}
    # What is stored has no widget: its state went with the kernel.
    (output,) = stored_form(executed).cells[0].outputs
    assert set(output.data) == {"text/html", "text/plain"}
