"""The null target refuses what a driver would refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kerneldsl.contract import LaunchConfig
from kerneldsl.contract.abi import LaunchMode, ParameterLayout
from kerneldsl.errors import CompileError, DriverError, LaunchConfigError
from kerneldsl.language.signatures import parse_signature
from targets.null.devices import H100, SMALL_OLD_CARD
from targets.null.executable import check_arrays, check_config, check_ptx, unpack_parameters
from targets.null.memory import AddressSpace


def _ptx(version: str = "7.0", target: str = "sm_60", entry: str = "axpy") -> str:
    return (
        f"//\n.version {version}\n.target {target}\n.address_size 64\n.visible .entry {entry}(\n)"
    )


def test_older_code_runs_on_newer_devices() -> None:
    check_ptx(_ptx(), "axpy", H100)
    check_ptx(_ptx(), "axpy", SMALL_OLD_CARD)
    check_ptx(_ptx("8.0", "sm_90a"), "axpy", H100)


@pytest.mark.parametrize(
    ("ptx", "words"),
    [
        (_ptx(target="sm_70"), "compiled for sm_70.*null:0 is sm_61"),
        (_ptx(version="8.0"), r"PTX 8\.0.*up to 7\.8"),
        (_ptx(entry="other"), r"no entry axpy.*\['other'\]"),
        (".visible .entry axpy()", "lacks .version or .target"),
    ],
)
def test_code_for_another_device(ptx: str, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        check_ptx(ptx, "axpy", SMALL_OLD_CARD)


def test_architecture_specific_code_runs_there_alone() -> None:
    newer = replace(H100, arch="sm_100")
    with pytest.raises(CompileError, match="sm_90a"):
        check_ptx(_ptx("8.0", "sm_90a"), "axpy", newer)


@pytest.mark.parametrize(
    ("grid", "block", "words"),
    [
        ((0, 1, 1), (1, 1, 1), "grid_dim.*is 0 along x"),
        ((1, 65536, 1), (1, 1, 1), r"grid_dim.*allows 1 to 65535 \(MAX_GRID_DIM_Y\)"),
        ((1, 1, 1), (1, 1, 65), r"block_dim.*allows 1 to 64 \(MAX_BLOCK_DIM_Z\)"),
        ((1, 1, 1), (64, 32, 1), "needs 2048 threads.*allows 1024"),
        ((1, -1, 1), (1, 1, 1), "is -1 along y"),
    ],
)
def test_impossible_grids(
    grid: tuple[int, int, int], block: tuple[int, int, int], words: str
) -> None:
    with pytest.raises(LaunchConfigError, match=words):
        check_config("axpy", LaunchConfig(grid, block), H100)


def test_the_largest_grid_passes() -> None:
    check_config("axpy", LaunchConfig((2**31 - 1, 65535, 65535), (16, 1, 64)), H100)


def _layout(signature: str, names: str, mode: LaunchMode | None = None) -> ParameterLayout:
    return ParameterLayout(tuple(names.split()), parse_signature(signature), mode or LaunchMode())


def test_parameters_are_read_by_name() -> None:
    layout = _layout("float32, int64[:, ::1]", "a x", LaunchMode(1))
    packed = layout.packer.pack(1.5, 4096, 3, 4, 12)
    assert unpack_parameters("k", layout, packed) == {
        "a": 1.5,
        "x.data": 4096,
        "x.shape[0]": 3,
        "x.shape[1]": 4,
        "kd_extent[0]": 12,
    }


def test_a_buffer_of_another_length_is_refused() -> None:
    layout = _layout("float32[::1]", "x")
    with pytest.raises(LaunchConfigError, match=r"15 bytes of parameters.*declares 16"):
        unpack_parameters("k", layout, bytes(15))


def test_the_fault_pointer_is_not_the_callers() -> None:
    plain = _layout("float32[::1], int8", "x c")
    debug = ParameterLayout(plain.names, plain.kinds, plain.mode, debug=True)
    packed = plain.packer.pack(0, 0, 7)
    assert unpack_parameters("k", debug, packed)["c"] == 7


@pytest.mark.parametrize(
    ("signature", "values"),
    [
        ("float32[::1]", {"x.data": 0, "x.shape[0]": 26}),
        ("float64[:, ::1]", {"x.data": 0, "x.shape[0]": 13, "x.shape[1]": 1}),
        ("int16[:]", {"x.data": 0, "x.shape[0]": 2, "x.strides[0]": 99}),
        ("int16[:]", {"x.data": 98, "x.shape[0]": 51, "x.strides[0]": -2}),
        ("complex64[()]", {"x.data": 96}),
    ],
)
def test_arrays_that_reach_too_far(signature: str, values: dict[str, int]) -> None:
    space = AddressSpace(H100)
    address = space.allocate(100)
    moved = {k: v + address if k.endswith("data") else v for k, v in values.items()}
    with pytest.raises(DriverError, match="launch with the array x"):
        check_arrays(_layout(signature, "x"), moved, space)


@pytest.mark.parametrize(
    ("signature", "values"),
    [
        ("float32[::1]", {"x.data": 0, "x.shape[0]": 25}),
        ("float32[::1]", {"x.data": 12345678, "x.shape[0]": 0}),
        ("int16[:]", {"x.data": 98, "x.shape[0]": 50, "x.strides[0]": -2}),
        ("complex64[()]", {"x.data": 92}),
    ],
)
def test_arrays_that_fit(signature: str, values: dict[str, int]) -> None:
    space = AddressSpace(H100)
    address = space.allocate(100)
    moved = {k: v + address if k.endswith("data") else v for k, v in values.items()}
    check_arrays(_layout(signature, "x"), moved, space)
    assert space.live_count == 1


def test_arrays_in_tuples_are_checked_too() -> None:
    space = AddressSpace(H100)
    layout = _layout("(float32[::1], int32)", "pair")
    values = {"pair[0].data": 4096, "pair[0].shape[0]": 1, "pair[1]": 3}
    with pytest.raises(DriverError, match=r"pair\[0\]"):
        check_arrays(layout, values, space)
