"""What is drawn: curves, points and cells, compared with what the planner and explanations say."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kerneldsl as kd
from kerneldsl import plots
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources
from kerneldsl.planner import occupancy as held_by
from kerneldsl.plots.landscape import times_by
from kerneldsl.plots.occupancy import curves
from kerneldsl.plots.roofline import points_of
from kerneldsl.utilities.figures import INK

matplotlib = pytest.importorskip("matplotlib", reason="the plots extra is not installed")
pytest.importorskip("sympy", reason="the sym extra is not installed")
matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402 -- once it draws into memory


@kd.kernel
def axpy(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + out[i]


@kd.kernel
def polynomial(x, out):
    i = kd.grid(1)
    if i < out.size:
        v = x[i]
        total = kd.float32(0)
        for _ in range(200):
            total = total * v + v
        out[i] = total


@kd.kernel(space=kd.Space(block=[64, 128], tile=[1, 2, 4]))
def tiled(x, *, tile):
    i = kd.grid(1)
    if i < x.size:
        x[i] *= tile


@kd.kernel(space=kd.Space(block=[64, 128], items=[2, 8]))
def counted(x, *, items):
    i = kd.grid(1)
    if i < x.size:
        x[i] *= items


HOPPER = DeviceOccupancyLimits.for_compute_capability((9, 0), multiprocessor_count=132)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def explained():
    return [
        axpy.explain(
            "float32, float32[::1], float32[::1]",
            block=256,
            arch="sm_90",
            sizes={"x": (1 << 20,), "out": (1 << 20,)},
        ),
        polynomial.explain(
            "float32[::1], float32[::1]",
            block=256,
            arch="sm_90",
            sizes={"x": (1 << 20,), "out": (1 << 20,)},
        ),
    ]


class TestRoofline:
    def test_points_lie_where_the_explanations_say(self, explained):
        axes = plots.roofline(*explained)
        points = {
            line.get_label(): (line.get_xdata()[0], line.get_ydata()[0])
            for line in axes.lines
            if line.get_marker() == "o"
        }
        assert set(points) == {"axpy", "polynomial"}
        for each in explained:
            intensity, height = points[each.kernel]
            assert intensity == pytest.approx(each.roofline.intensity)
            least = max(each.roofline.memory_s, each.roofline.arithmetic_s)
            assert height == pytest.approx(each.flops() / least)

    def test_axpy_is_under_memory_and_the_polynomial_under_arithmetic(self, explained):
        low, high = points_of(explained, None, ("memory",), None)
        roofs = explained[0].roofline
        assert low.flops_per_s == pytest.approx(low.intensity * roofs.memory_bytes_per_s)
        assert high.flops_per_s == pytest.approx(roofs.peak_flops_per_s)

    def test_roofs_bend_at_the_ridge(self, explained):
        axes = plots.roofline(explained[0], levels=("memory", "L2"))
        memory, second = axes.lines[:2]
        roofs = explained[0].roofline
        assert memory.get_xdata()[1] == pytest.approx(roofs.ridge)
        assert second.get_xdata()[1] * roofs.l2_bytes_per_s == pytest.approx(roofs.peak_flops_per_s)
        assert second.get_xdata()[1] < memory.get_xdata()[1]

    def test_a_measured_time_is_as_high_as_it_came(self, explained):
        (point,) = points_of(explained[:1], ["mine"], ("memory",), {"mine": 1e-3})
        assert point.flops_per_s == pytest.approx(explained[0].flops() * 1e3)

    def test_what_cannot_be_drawn_is_refused(self, explained):
        other = axpy.explain("float32, float32[::1], float32[::1]", block=256, arch="sm_80")
        with pytest.raises(kd.ArgumentValueError, match="2 devices"):
            plots.roofline(explained[0], other)
        with pytest.raises(kd.ArgumentValueError, match="0 devices: none"):
            plots.roofline()
        with pytest.raises(kd.ArgumentTypeError, match=r"kernel\.explain"):
            plots.roofline("axpy")
        with pytest.raises(kd.ArgumentValueError, match="levels"):
            plots.roofline(explained[0], levels="memory")
        with pytest.raises(kd.ArgumentValueError, match="labels"):
            plots.roofline(explained[0], labels=["a", "b"])
        with pytest.raises(kd.ArgumentValueError, match="seconds"):
            plots.roofline(explained[0], seconds={"axpy": 0.0})
        with pytest.raises(kd.ArgumentTypeError, match="ax is 3"):
            plots.roofline(explained[0], ax=3)


class TestOccupancy:
    def test_curves_are_the_planners(self):
        found = held_by(HOPPER, KernelResources(registers=80, static_shared_bytes=2048), 160)
        blocks, registers, shared = plots.occupancy(found)
        line = blocks.lines[0]
        assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True))[160] == found.active_warps
        for ax, now in ((blocks, 160), (registers, 80), (shared, 2.0)):
            (mark,) = [each for each in ax.lines if each.get_marker() == "o"]
            assert mark.get_xdata()[0] == now
            assert mark.get_ydata()[0] == found.active_warps
        assert "limited by registers" in registers.get_title()

    def test_each_point_is_what_the_planner_holds(self):
        kernel = KernelResources(registers=40)
        _, values, warps, _ = curves(held_by(HOPPER, kernel, 256))[1]
        for registers, held in zip(values[::10], warps[::10], strict=True):
            changed = KernelResources(registers=int(registers))
            assert held == held_by(HOPPER, changed, 256).active_warps
        assert warps[0] > warps[-1]

    def test_shared_memory_goes_as_far_as_a_block_can_have(self):
        found = held_by(HOPPER, KernelResources(registers=32, static_shared_bytes=4096), 128)
        _, values, warps, now = curves(found)[2]
        assert (values[0], values[-1], now) == (4.0, 227.0, 4.0)
        assert warps[-1] == 4  # one block

    def test_what_is_none_is_refused(self):
        with pytest.raises(kd.ArgumentTypeError, match="assembler"):
            plots.occupancy(None)
        found = held_by(HOPPER, KernelResources(registers=32), 128)
        with pytest.raises(kd.ArgumentValueError, match="three"):
            plots.occupancy(found, axes=[1, 2])


@pytest.fixture(scope="module")
def plans():
    return tiled.forall(1 << 20).plans("float32[::1]", arch="sm_90")


class TestLandscape:
    def test_a_cell_has_the_fastest_of_its_plans(self, plans):
        axes = plots.landscape(plans)
        assert {axes.get_xlabel(), axes.get_ylabel()} == {"block", "tile"}
        times = times_by(plans, axes.get_xlabel(), axes.get_ylabel())
        texts = sorted(each.get_text() for each in axes.texts)
        assert texts == sorted(f"{time / 1e3:.3g}" for time in times.values())
        assert min(times.values()) == min(plan.predicted_ns for plan in plans)

    def test_the_best_is_framed(self, plans):
        axes = plots.landscape(plans, "tile", "block")
        (frame,) = axes.patches
        column, row = (int(at + 0.5) for at in frame.get_xy())
        best = min(plans, key=lambda plan: plan.predicted_ns)
        assert axes.get_xticklabels()[column].get_text() == str(dict(best.parameters)["tile"])
        assert axes.get_yticklabels()[row].get_text() == str(best.block_dim[0])

    def test_of_a_kernel_without_a_space(self):
        plans = axpy.forall(1 << 20).plans("float32, float32[::1], float32[::1]", arch="sm_90")
        axes = plots.landscape(plans, "block", "items")
        assert len(axes.texts) == len(times_by(plans, "block", "items")) > 8

    def test_a_parameter_goes_before_a_choice_of_its_name(self):
        plans = counted.forall(1 << 20).plans("float32[::1]", arch="sm_90")
        assert {items for _, items in times_by(plans, "block", "items")} == {2, 8}

    def test_what_is_no_plan_is_refused(self, plans):
        with pytest.raises(kd.ArgumentTypeError, match="not a plan"):
            plots.landscape(["a"])
        with pytest.raises(kd.ArgumentValueError, match="none of 0"):
            plots.landscape([])
        with pytest.raises(kd.ArgumentValueError, match="tile"):
            plots.landscape(plans, "colour")


def test_matplotlib_is_imported_when_something_is_drawn():
    program = "import sys, kerneldsl.plots; print('matplotlib' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(kd.ToolMissingError, match=r"kerneldsl\[plots\]"):
        plots.occupancy(held_by(HOPPER, KernelResources(registers=32), 128))


def _luminance(color: str) -> float:
    parts = matplotlib.colors.to_rgb(color)
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return float(0.2126 * r + 0.7152 * g + 0.0722 * b)


def test_new_figures_suit_light_and_dark_pages_and_given_axes_stay() -> None:
    for page in ("#ffffff", "#111111"):
        low, high = sorted((_luminance(INK), _luminance(page)))
        assert (high + 0.05) / (low + 0.05) > 4
    limits = DeviceOccupancyLimits.for_compute_capability((9, 0))
    held = held_by(limits, KernelResources(registers=80), 160)
    found = axpy.explain("float32, float32[::1], float32[::1]", block=256, arch="sm_90")
    for axes in (plots.occupancy(held), (plots.roofline(found),)):
        figure = axes[0].figure
        assert figure.patch.get_alpha() == 0
        for ax in axes:
            assert ax.patch.get_alpha() == 0
            for text in (ax.title, ax.xaxis.label, *ax.get_xticklabels()):
                assert text.get_color() == INK
        pyplot.close(figure)
    figure, ax = pyplot.subplots()
    plots.roofline(found, ax=ax)
    assert figure.patch.get_alpha() is None
    assert ax.title.get_color() == "black"
    pyplot.close(figure)
