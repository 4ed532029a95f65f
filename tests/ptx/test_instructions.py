"""What stands in the PTX: contraction, address spaces, barriers, bounds, lines, parameters."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.errors import ArgumentValueError
from tests.ptx.helpers import body_of, compile_ptx

_AXPY = "float32, float32[::1], float32[::1], float32[::1]"


def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def test_multiply_and_add_become_one_operation() -> None:
    body = body_of(compile_ptx(axpy, _AXPY))
    assert "fma.rn.f32" in body
    assert "mul" not in re.sub(r"mul\.(wide|lo)", "", body)


def test_without_contraction_each_operation_is_rounded() -> None:
    body = body_of(compile_ptx(axpy, _AXPY, contract=False))
    assert "fma" not in body
    assert "mul.rn.f32" in body  # a plain mul.f32 ptxas might still fuse
    assert "add.rn.f32" in body


def test_arrays_are_read_and_written_in_global_memory() -> None:
    body = body_of(compile_ptx(axpy, _AXPY))
    assert body.count("ld.global.b32") == 2
    assert body.count("st.global.b32") == 1
    assert not re.search(r"\b(ld|st)\.(b|u|s|f|v)", body)


def test_an_index_that_cannot_be_negative_is_not_tested() -> None:
    def guarded(x, out):
        i = kd.grid(1)
        if i < x.size:
            out[i] = x[i]

    def maybe_negative(x, out):
        i = kd.grid(1)
        if i < x.size:
            out[i - 1] = x[i]

    signature = "int32[::1], int32[::1]"
    assert body_of(compile_ptx(guarded, signature)).count("setp") == 1
    wrapping = body_of(compile_ptx(maybe_negative, signature))
    promised = body_of(compile_ptx(maybe_negative, signature, wraparound=False))
    assert len(wrapping.splitlines()) > len(promised.splitlines())
    assert promised.count("setp") == 1


def test_fastmath_approximates() -> None:
    def quotient(x, y):
        i = kd.grid(1)
        y[i] = x[i] / y[i]

    exact = body_of(compile_ptx(quotient, "float32[::1], float32[::1]"))
    fast = body_of(compile_ptx(quotient, "float32[::1], float32[::1]", fastmath=True))
    assert "div.rn.f32" in exact
    assert re.search(r"div\.(approx|full)\.ftz\.f32", fast)


def barriers(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(64, np.float32)
    d = kd.shared.array(0, np.int32)
    s[t] = x[t]
    kd.syncthreads()
    out[t] = s[63 - t]
    out[0] = kd.syncthreads_count(x[t] > 0)
    out[1] = kd.syncthreads_and(t < 3) + kd.syncthreads_or(t)
    kd.syncwarp()
    kd.threadfence()
    kd.threadfence_block()
    kd.threadfence_system()
    d[t] = 1
    kd.syncthreads()
    out[2] = d[63 - t]


@pytest.mark.parametrize(
    "instruction",
    [
        "bar.sync",
        "bar.red.popc.u32",
        "bar.red.and.pred",
        "bar.red.or.pred",
        "bar.warp.sync",
        "membar.gl",
        "membar.cta",
        "membar.sys",
        "st.shared.b32",
        "ld.shared.b32",
    ],
)
@pytest.mark.parametrize("arch", ["sm_60", "sm_70", "sm_90"])
def test_synchronization(instruction: str, arch: str) -> None:
    assert instruction in body_of(compile_ptx(barriers, "float32[::1], float32[::1]", arch))


def shuffles(x, y):
    t = kd.threadIdx.x
    x[t] = kd.shfl_sync(0xFFFFFFFF, x[t], 7)
    x[t] = kd.shfl_up_sync(0xFFFFFFFF, x[t], 1)
    x[t] = kd.shfl_down_sync(0xFFFF, x[t], 2)
    y[t] = kd.shfl_xor_sync(0xFFFFFFFF, y[t], 16)


@pytest.mark.parametrize("arch", ["sm_60", "sm_70", "sm_90"])
def test_shuffles(arch: str) -> None:
    body = body_of(compile_ptx(shuffles, "float32[::1], float64[::1]", arch))
    found = re.findall(r"shfl\.sync\.(\w+)\.b32\s+\S+, *\S+, *(\S+), *(\S+), *(\S+);", body)
    # What is given, the clamp and the mask; a value of 64 bits takes two.
    assert found == [
        ("idx", "7", "31", "-1"),
        ("up", "1", "0", "-1"),
        ("down", "2", "31", "65535"),
        ("bfly", "16", "31", "-1"),
        ("bfly", "16", "31", "-1"),
    ]


def warp_votes(x, y, out):
    t = kd.threadIdx.x
    out[t, 0] = kd.ballot_sync(0xFFFFFFFF, x[t] > 0)
    out[t, 1] = kd.all_sync(0xFFFFFFFF, x[t] > 1) + kd.any_sync(0xFFFFFFFF, x[t] > 2)
    out[t, 2] = kd.popc(x[t]) + kd.popc(y[t])


@pytest.mark.parametrize(
    "instruction",
    ["vote.sync.ballot.b32", "vote.sync.all.pred", "vote.sync.any.pred", "popc.b32", "popc.b64"],
)
@pytest.mark.parametrize("arch", ["sm_60", "sm_70", "sm_90"])
def test_warp_votes(instruction: str, arch: str) -> None:
    signature = "int32[::1], int64[::1], int64[:, ::1]"
    assert instruction in body_of(compile_ptx(warp_votes, signature, arch))


def test_shared_arrays_are_declared() -> None:
    artifact = compile_ptx(barriers, "float32[::1], float32[::1]")
    assert re.search(r"\.shared \.align 16 \.b8 shared\[256\];", artifact.ptx)
    assert re.search(r"\.extern \.shared \.align 16 \.b8 kd_dynamic_shared\[\];", artifact.ptx)
    assert artifact.uses_dynamic_shared
    assert artifact.static_shared_bytes == 256
    assert artifact.resources().static_shared_bytes == 256


def test_two_shared_arrays_do_not_overlap() -> None:
    def two(out):
        a = kd.shared.array(8, np.int64)
        b = kd.shared.array((4, 4), np.int8)
        t = kd.threadIdx.x
        a[t] = t
        b[t, t] = t
        kd.syncthreads()
        out[t] = a[3 - t] + b[3 - t, 3 - t]

    artifact = compile_ptx(two, "int64[::1]")
    sizes = re.findall(r"\.shared \.align 16 \.b8 \S+\[(\d+)\];", artifact.ptx)
    assert sorted(sizes) == ["16", "64"]


def test_a_local_array_is_on_the_stack_when_it_is_indexed_by_a_variable() -> None:
    def local(x, out):
        a = kd.local.array(8, np.float32)
        i = kd.grid(1)
        for k in range(8):
            a[k] = x[i, k]
        out[i] = a[int(x[i, 0])]

    def unrolled(x, out):
        a = kd.local.array(4, np.float32)
        i = kd.grid(1)
        for k in range(4):
            a[k] = x[i, k]
        out[i] = a[0] + a[3]

    signature = "float32[:, ::1], float32[::1]"
    assert ".local .align" in compile_ptx(local, signature).ptx
    assert ".local" not in compile_ptx(unrolled, signature).ptx


def test_bounds_become_directives() -> None:
    artifact = compile_ptx(axpy, _AXPY, launch_bounds=(256, 2), max_registers=32)
    head = artifact.ptx[: artifact.ptx.index("{\n")]
    assert ".maxntid 256, 1, 1\n" in head
    assert ".minnctapersm 2\n" in head
    assert ".maxnreg 32\n" in head
    assert ".maxntid" not in compile_ptx(axpy, _AXPY).ptx


def test_clusters_are_bounded() -> None:
    artifact = compile_ptx(axpy, _AXPY, launch_bounds=(256, 2, 4), arch="sm_90")
    assert ".maxclusterrank 4\n" in artifact.ptx
    with pytest.raises(ArgumentValueError, match="from sm_90 on"):
        compile_ptx(axpy, _AXPY, "sm_80", launch_bounds=(256, 2, 4))


def test_line_information() -> None:
    artifact = compile_ptx(axpy, _AXPY, lineinfo=True)
    first = axpy.__code__.co_firstlineno
    assert re.search(r'\.file\s+\d+ ".*test_instructions\.py"', artifact.ptx)
    assert re.search(rf"\.loc\s+\d+ {first + 3} ", artifact.ptx)
    assert ".loc" not in compile_ptx(axpy, _AXPY).ptx
    assert artifact.resources().registers


def test_line_information_of_inlined_functions() -> None:
    artifact = compile_ptx(_calls_device, "float32[::1]", lineinfo=True)
    assert ", debug" not in artifact.ptx  # which would stop ptxas from optimizing
    lines = {int(n) for n in re.findall(r"\.loc\s+\d+ (\d+) ", artifact.ptx)}
    assert _device_line() in lines


@kd.func
def _device(v):
    return v * v


def _device_line() -> int:
    return _device.__wrapped__.__code__.co_firstlineno + 2


def _calls_device(x):
    i = kd.grid(1)
    x[i] = round(_device(x[i]), 2)


_PTX_TYPES = {"bool": "u8", "int32": "u32", "int64": "u64", "pointer": "u64", "float32": "f32"}


def test_parameters_are_those_of_the_layout() -> None:
    def many(flag, z, x, f, s, pair):
        i = kd.grid(1)
        if flag:
            x[i, i] = f[i, i] + s[i] + z.real + z.imag + pair[0] + pair[1][i] + kd.gridsize(1)

    signature = (
        "bool, complex64, float32[:, ::1], float32[::1, :], float32[:], (int32, float32[::1])"
    )
    artifact = compile_ptx(many, signature, mode=LaunchMode(1), debug=True)
    found = re.findall(
        r"\.param \.(\w+)(?: \.ptr \.global \.align (\d+))? many_param", artifact.ptx
    )
    expected = [_PTX_TYPES[p.dtype] for p in artifact.layout.parameters]
    assert [kind for kind, _ in found] == expected
    aligned = [a for _, a in found if a]
    assert aligned == ["4", "4", "4", "4", "1"]  # elements' own alignment, no promise beyond
    assert artifact.resources().registers


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("axpy", "axpy"),
        ("größe", "gr_u00f6_u00dfe"),
        ("_", "__kernel"),
        ("WARP_SZ", "WARP_SZ_kernel"),
        ("add", "add"),
    ],
)
def test_entries_have_readable_valid_names(name: str, identifier: str) -> None:
    namespace: dict[str, object] = {"kd": kd}
    text = f"def {name}(x):\n    x[0] = kd.grid(1)\n"
    filename = f"<test of {name}>"
    exec(compile(text, filename, "exec"), namespace)
    import linecache

    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    artifact = compile_ptx(namespace[name], "int64[::1]")  # type: ignore[arg-type]
    assert artifact.entry_name == identifier
    assert f".visible .entry {identifier}(" in artifact.ptx
    assert artifact.resources().registers


class TestForall:
    """Which thread computes which index of an extent."""

    @staticmethod
    def copy3(x, out):
        i, j, k = kd.grid(3)
        out[i, j, k] = x[i, j, k]

    @staticmethod
    def by_thread(x, out):
        i, j = kd.grid(2)
        out[i, j] = x[i, j] + kd.threadIdx.x

    @staticmethod
    def with_block(x, out):
        s = kd.shared.array(32, np.float32)
        i = kd.grid(1)
        t = kd.threadIdx.x
        if i < out.size:
            s[t] = x[i]
        kd.syncthreads()
        if i < out.size:
            out[i] = s[t]

    def test_y_and_z_are_walked_and_x_is_not(self) -> None:
        signature = "float32[:, :, ::1], float32[:, :, ::1]"
        body = body_of(compile_ptx(self.copy3, signature, mode=LaunchMode(3)))
        assert "%nctaid.y" in body
        assert "%nctaid.z" in body
        assert "%nctaid.x" not in body
        assert body.count("ld.global") == body.count("st.global") == 1

    def test_the_last_axis_is_x_for_a_kernel_that_asks_for_grid_alone(self) -> None:
        def index_of_last(out):
            i, j = kd.grid(2)
            out[i, j] = j

        llvm = compile_ptx(index_of_last, "int64[:, ::1]", mode=LaunchMode(2)).text("llvm")
        stored = re.search(r"store i64 %(\S+?), ptr", llvm)
        assert stored
        definition = re.search(rf"%{re.escape(stored[1])} = (.*)", llvm)
        assert definition
        assert "%" in definition[1]
        assert _reaches(llvm, stored[1], "tid.x")
        assert not _reaches(llvm, stored[1], "tid.y")

    def test_the_first_axis_is_x_for_a_kernel_that_asks_for_its_thread(self) -> None:
        signature = "float32[:, ::1], float32[:, ::1]"
        body = body_of(compile_ptx(self.by_thread, signature, mode=LaunchMode(2)))
        assert "%nctaid" not in body

    def test_a_block_kernel_has_no_guard_before_its_barrier(self) -> None:
        signature = "float32[::1], float32[::1]"
        body = body_of(compile_ptx(self.with_block, signature, mode=LaunchMode(1)))
        assert "ret;" not in body[: body.index("bar.sync")]

    def test_an_element_kernel_returns_beyond_the_extent(self) -> None:
        def store(out):
            out[kd.grid(1)] = 1

        guarded = body_of(compile_ptx(store, "int32[::1]", mode=LaunchMode(1)))
        explicit = body_of(compile_ptx(store, "int32[::1]"))
        assert "setp" in guarded
        assert "setp" not in explicit


def _reaches(llvm: str, value: str, register: str) -> bool:
    """Whether a value is computed from a special register."""
    pending, seen = [value], set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        definition = re.search(rf"%{re.escape(name)} = (.*)", llvm)
        if definition:
            if f"sreg.{register}(" in definition[1]:
                return True
            pending += re.findall(r"%([\w.]+)", definition[1])
    return False


def test_a_captured_array_is_constant_memory_of_the_module() -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    table.flags.writeable = False

    def look_up(x):
        i = kd.grid(1)
        x[i] = table[i, 1] + table[0, i]

    ptx = compile_ptx(look_up, "float32[::1]").ptx
    assert len(re.findall(r"^\.global \.align 16 \.b8 constant_array_\w+\[24\]", ptx, re.M)) == 1
    assert "ld.global.nc" in ptx


def test_print_calls_the_drivers_function() -> None:
    def show(x):
        i = kd.grid(1)
        print("value 100%", i, x[i], i > 2)

    artifact = compile_ptx(show, "float32[::1]")
    assert "call.uni (retval0), vprintf" in artifact.ptx
    texts = [
        bytes(int(n) for n in found.split(", ")).decode()
        for found in re.findall(r"\.b8 text_\w+\[\d+\] = \{([^}]*)\}", artifact.ptx)
    ]
    texts = [text.rstrip("\0") for text in texts]
    assert "value 100%% %lld %.7g%s %s\n" in texts
    assert ".0" in texts  # behind a whole number
    assert artifact.resources().registers


def test_more_floats_than_there_are_places_for_marks_are_printed() -> None:
    def show(x):
        if kd.grid(1) == 0:
            a = x[0]
            print(a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a)

    assert "call.uni (retval0), vprintf" in compile_ptx(show, "float32[::1]").ptx


def test_more_values_than_the_driver_formats_are_refused() -> None:
    def show(x):
        a = x[0]
        print((a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a), "text", (a * 1j, a, a * 2j))
        print((a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a), "text", (a * 1j, a, a * 2j), a < 1,
              a, a, a, a, a, a, a, a, a, a, a)  # fmt: skip

    message = r"print of 33 values.*at most 32 in one call.*Print them in several calls"
    with pytest.raises(kd.KernelTypingError, match=message) as raised:
        compile_ptx(show, "float32[::1]")
    assert raised.value.where.line.strip().startswith("print((a")


def test_a_large_local_array_is_neither_filled_nor_slow_to_compile() -> None:
    def scratch(x):
        a = kd.local.array(50000, np.int64)
        a[x[0]] = x[1]
        x[2] = a[x[3]]

    body = body_of(compile_ptx(scratch, "int64[::1]"))
    assert body.count("st.local") == 1


def test_too_much_static_shared_memory_is_refused() -> None:
    def greedy(x):
        s = kd.shared.array(100000, np.int64)
        s[x[0]] = x[1]
        kd.syncthreads()
        x[2] = s[x[3]]

    with pytest.raises(kd.ResourceLimitError, match="800000 bytes"):
        compile_ptx(greedy, "int64[::1]")


def test_a_local_array_beyond_a_threads_local_memory_is_refused() -> None:
    size = 2**33

    def greedy(x):
        s = kd.local.array(size, np.float32)
        s[x[0]] = x[1]
        x[2] = s[x[3]]

    with pytest.raises(kd.ResourceLimitError, match=r"34359738368 bytes.*524288") as told:
        compile_ptx(greedy, "int64[::1]")
    assert told.value.where is not None
    assert "kd.local.array" in told.value.where.line


def opposite(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = -x[i] + abs(x[i + 1])


def test_signs_of_16_bits_are_written_so_that_ptxas_lets_them_wrap() -> None:
    body = body_of(compile_ptx(opposite, "int16[::1], int64[::1]"))
    assert not re.search(r"(neg|abs)\.s16", body)
    assert re.search(r"sub\.u16\s+%rs\d+, 0, %rs\d+;", body)
    wide = re.search(
        r"cvt\.s32\.s16 (%\w+), %rs\d+; abs\.s32 \1, \1; cvt\.u16\.u32 %rs\d+, \1;", body
    )
    assert wide is not None
    assert body.count(f".reg .b32 {wide[1]};") == 1


@pytest.mark.parametrize("bits", [32, 64])
def test_magnitudes_of_other_sizes_are_not_taken_for_nonnegative(bits) -> None:
    body = body_of(compile_ptx(opposite, f"int{bits}[::1], int64[::1]"))
    assert f"neg.s{bits}" in body
    assert f"max.s{bits}" in body
    assert f"abs.s{bits}" not in body
    assert ".u16" not in body


def words(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i, 0] = kd.clz(x[i])
        out[i, 1] = kd.brev(x[i])
        out[i, 2] = kd.byte_perm(x[i], y[i], 0x3715)
        out[i, 3] = kd.byte_perm(x[i], y[i], x[i])
        out[i, 4] = kd.funnelshift_l(x[i], y[i], y[i])
        out[i, 5] = kd.mulhi(x[i], y[i])
        out[i, 6] = kd.dot4(x[i], y[i], x[i])
        out[i, 7] = kd.bitcast(x[i], np.float32) * np.float32(2)
        kd.nanosleep(100)


_WORDS = "uint32[::1], uint32[::1], int64[:, ::1]"


@pytest.mark.parametrize(
    "instruction",
    ["clz.b32", "brev.b32", "prmt.b32", "shf.l.wrap.b32", "mad.hi.u32", "dp4a.u32.u32"],
)
def test_operations_on_words_are_one_instruction(instruction: str) -> None:
    assert instruction in body_of(compile_ptx(words, _WORDS, "sm_70"))


def test_a_selector_counts_modulo_eight() -> None:
    """prmt's fourth bit would repeat a sign."""
    body = body_of(compile_ptx(words, _WORDS))
    assert re.search(r"and\.b32 \s*(%r\d+), %r\d+, 30583;\s*prmt\.b32 .*, \1;", body)


def test_older_architectures_do_without_the_instructions_of_newer_ones() -> None:
    old, new = (body_of(compile_ptx(words, _WORDS, arch)) for arch in ("sm_60", "sm_70"))
    assert "nanosleep.u32 \t100;" in new
    assert "nanosleep" not in old
    assert "dp4a" in body_of(compile_ptx(words, _WORDS, "sm_61"))
    assert "dp4a" not in old


def saturated(x):
    i = kd.grid(1)
    x[i] = kd.saturate(x[i])


def test_a_number_is_clamped_without_branches() -> None:
    for dtype in ("f32", "f64"):
        body = body_of(compile_ptx(saturated, f"float{dtype[1:]}[::1]"))
        assert "bra" not in body
        assert not re.search(r"selp|setp", body), body


def roots(x):
    i = kd.grid(1)
    x[i] = kd.rsqrt(x[i]) + kd.fma(x[i], x[i], x[i + 1])


def test_roots_and_fused_products_need_no_library() -> None:
    for dtype in ("f32", "f64"):
        artifact = compile_ptx(roots, f"float{dtype[1:]}[::1]", contract=False)
        assert f"rsqrt.approx.{dtype}" in artifact.ptx
        assert f"fma.rn.{dtype}" in artifact.ptx
        assert not artifact.uses_libdevice


def warp_values(x, out):
    t = kd.threadIdx.x
    lanes, _ = kd.match_all_sync(0xFFFFFFFF, x[t])
    out[t, 0] = kd.match_any_sync(0xFFFFFFFF, x[t]) + lanes
    out[t, 1] = kd.activemask() + kd.lanemask_lt()
    out[t, 2] = kd.reduce_add_sync(0xFFFFFFFF, x[t])
    out[t, 3] = kd.reduce_max_sync(0xFFFFFFFF, x[t]) + kd.reduce_xor_sync(0xFFFFFFFF, x[t])


@pytest.mark.parametrize(
    ("dtype", "arch", "reductions", "shuffles"),
    [
        ("int32", "sm_80", ("add.s32", "max.s32", "xor.b32"), 0),
        ("uint32", "sm_90", ("add.s32", "max.u32", "xor.b32"), 0),
        ("int64", "sm_90", ("xor.b32", "xor.b32"), 20),
        ("int32", "sm_75", (), 15),
    ],
)
def test_reductions_are_one_instruction_where_there_is_one(
    dtype: str, arch: str, reductions: tuple[str, ...], shuffles: int
) -> None:
    body = body_of(compile_ptx(warp_values, f"{dtype}[::1], int64[:, ::1]", arch))
    assert tuple(re.findall(r"redux\.sync\.(\S+)", body)) == reductions
    assert body.count("shfl.sync.idx") == shuffles


@pytest.mark.parametrize("version", ["6.0", "6.1", "7.0"])
def test_matches_are_votes_before_there_were_instructions(version: str) -> None:
    signature = "uint32[::1], int64[:, ::1]"
    old, new = (
        body_of(compile_ptx(warp_values, signature, arch, ptx_version=version))
        for arch in ("sm_60", "sm_70")
    )
    assert "match.any.sync.b32" in new
    assert "match.all.sync.b32" in new
    assert "match" not in old
    assert old.count("vote.sync.ballot.b32") == 32
    assert ("activemask" in old) == (version == "7.0")


def test_a_product_is_rounded_before_lanes_add_it() -> None:
    """Else lanes of one warp would find different sums."""

    def products(x, out):
        t = kd.threadIdx.x
        out[t] = kd.reduce_add_sync(0xFFFFFFFF, x[t] * x[t])

    body = body_of(compile_ptx(products, "float32[::1], float32[::1]"))
    assert "fma" not in body
    assert body.count("add.rn.f32") == 5
