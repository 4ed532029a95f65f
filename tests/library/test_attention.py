"""attention against NumPy: a query at a time, in float64."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from stdlib_kernels import attention
from stdlib_kernels.linalg import attention as of_family
from tests.support.extent import examples, sample
from tests.support.launched import null_in_use
from tests.support.products import compile_product

#: A name of the package is its function.
_MODULE = import_module("stdlib_kernels.linalg.attention")
#: Largest difference, relative to the values' scale.
_BOUNDS = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


def wanted(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: Any = None,
    query_lengths: Any = None,
    pages: Any = None,
) -> np.ndarray:
    """Return what attention computes, of arrays with a batch axis."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    if pages is not None:
        k, v = (np.stack([np.concatenate(a[table], axis=1) for table in pages]) for a in (k, v))
    (count, heads, queries, width), shared = q.shape, q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(width) if scale is None else scale
    out = np.zeros(q.shape)
    for b, h, i in np.ndindex(count, heads, queries):
        keys = k.shape[2] if lengths is None else lengths[b]
        asked = queries if query_lengths is None else query_lengths[b]
        end = min(keys, i + keys - asked + 1) if causal else keys
        first = 0 if window is None else max(0, i + keys - asked + 1 - window)
        if i >= asked or first >= end:
            continue
        scores = k[b, h // shared, first:end] @ q[b, h, i] * scale
        if np.all(scores == -np.inf):
            continue
        weights = np.exp(scores - scores.max())
        out[b, h, i] = weights / weights.sum() @ v[b, h // shared, first:end]
    return out


def _arrays(rng: Any, shapes: Any, dtype: str) -> list[np.ndarray]:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return [rng.standard_normal(shape).astype(kind) for shape in shapes]


def _check(call: Any, arrays: list[np.ndarray], **options: Any) -> None:
    got = call(attention, *arrays, **options)
    assert got.dtype == arrays[0].dtype
    bound = _BOUNDS[got.dtype.name] * float(np.abs(arrays[2].astype(float)).max(initial=1))
    np.testing.assert_allclose(got.astype(float), wanted(*arrays, **options), atol=bound)


@pytest.mark.parametrize("dtype", sample(["float32", "float16", "bfloat16"], count=2))
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(),
    queries=st.integers(1, 150),
    keys=st.integers(0, 150),
    width=st.sampled_from([1, 7, 16]),
    causal=st.booleans(),
)
def test_attention_of_any_sizes(call, rng, dtype, data, queries, keys, width, causal):
    window = data.draw(st.sampled_from([None, 1, 40, 1000])) if causal else None
    shapes = [(2, 4, queries, width), (2, 2, keys, width), (2, 2, keys, width)]
    options: dict[str, Any] = {"causal": causal, "window": window}
    if data.draw(st.booleans()):
        options["lengths"] = np.array([data.draw(st.integers(0, keys)) for _ in range(2)])
        if data.draw(st.booleans()):
            options["query_lengths"] = np.array([queries, data.draw(st.integers(0, queries))])
    _check(_on_device(call), _arrays(rng, shapes, dtype), **options)


def _on_device(call: Any) -> Any:
    """Return a function that makes the arrays among options of the kind of the others."""

    def called(function: Any, *args: Any, **options: Any) -> Any:
        names = [name for name, each in options.items() if isinstance(each, np.ndarray)]
        arrays = [options.pop(name) for name in names]
        count = len(args)

        def with_options(*given: Any, **others: Any) -> Any:
            named = dict(zip(names, given[count:], strict=True))
            return function(*given[:count], **named, **others)

        return call(with_options, *args, *arrays, **options)

    return called


@pytest.mark.parametrize(("causal", "dtype"), [(False, "int64"), (True, "int64"), (True, "int32")])
def test_attention_by_pages(call, rng, causal, dtype):
    arrays = _arrays(rng, [(2, 4, 20, 16), (9, 2, 32, 16), (9, 2, 32, 16)], "float32")
    pages, lengths = np.array([[7, 2, 8], [0, 1, 2]], dtype), np.array([90, 33], dtype)
    _check(_on_device(call), arrays, pages=pages, lengths=lengths, causal=causal)
    _check(_on_device(call), arrays, pages=pages, causal=causal)


@pytest.mark.parametrize("lengths", [None, np.array([1300]), np.array([0]), np.array([5])])
def test_few_queries_take_keys_in_parts(call, rng, lengths):
    arrays = _arrays(rng, [(1, 4, 1, 32), (1, 2, 2100, 32), (1, 2, 2100, 32)], "float32")
    _check(
        _on_device(call), arrays, causal=True, **({} if lengths is None else {"lengths": lengths})
    )


def test_attention_without_batches_into_out(call, rng):
    q, k, v = _arrays(rng, [(2, 9, 16), (1, 12, 16), (1, 12, 16)], "float32")
    out = np.full(q.shape, 77, np.float32)
    got = call(lambda *given: attention(*given[:3], scale=0.5, out=given[3]), q, k, v, out)
    expected = wanted(q[None], k[None], v[None], scale=0.5)[0]
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("scale", [-0.5, -0.0])
@pytest.mark.parametrize("causal", [True, False])
def test_hidden_keys_stay_hidden_by_a_scale_that_is_not_positive(call, rng, scale, causal):
    arrays = _arrays(rng, [(2, 4, 9, 16), (2, 2, 12, 16), (2, 2, 12, 16)], "float32")
    _check(call, arrays, causal=causal, scale=scale)


def test_attention_of_strided_heads(call, rng):
    """Arrays of tokens by heads, as a layer of projections gives them."""
    arrays = [x.swapaxes(1, 2) for x in _arrays(rng, [(2, 33, 2, 16)] * 3, "float32")]
    _check(call, arrays, causal=True)


def test_nan_and_infinities_stay_in_their_rows(call, rng):
    q, k, v = _arrays(rng, [(1, 1, 6, 16), (1, 1, 5, 16), (1, 1, 5, 16)], "float32")
    q[0, 0, 1] = np.nan
    k[0, 0, :, 0], q[0, 0, :, 0] = 1, 0
    q[0, 0, 2, 0] = -np.inf  # all scores are -inf
    q[0, 0, 3, 0] = np.inf
    got = call(attention, q, k, v)
    assert np.isnan(got[0, 0, [1, 3]]).all()
    assert not got[0, 0, 2].any()
    rest = [0, 4, 5]
    expected = wanted(q[:, :, rest], k, v)
    np.testing.assert_allclose(got[:, :, rest], expected, atol=1e-5)
    k[0, 0, 4] = np.nan  # the last query alone sees it
    got = call(attention, q[:, :, 4:], k, v, causal=True)
    assert np.isfinite(got[0, 0, 0]).all()
    assert np.isnan(got[0, 0, 1]).all()


@pytest.mark.parametrize("has_lengths", [False, True])
def test_a_call_is_planned_once(monkeypatch, rng, has_lengths):
    planned, check = [], _MODULE.check_heads
    monkeypatch.setattr(_MODULE, "check_heads", lambda *a, **b: planned.append(a) or check(*a, **b))
    with kd.use("cpu"):
        shapes = [(1, 2, 3, 8), (1, 1, 2000 + has_lengths, 8), (1, 1, 2000 + has_lengths, 8)]
        q, k, v = map(kd.to_device, _arrays(rng, shapes, "float32"))
        lengths = kd.to_device(np.array([70])) if has_lengths else None
        first, *others = (attention(q, k, v, lengths=lengths).copy_to_host() for _ in range(3))
    assert len(planned) == 1
    assert all(np.array_equal(first, each) for each in others)


def test_attention_of_nothing(call):
    for q, k in [((0, 2, 3, 8), (0, 2, 4, 8)), ((1, 2, 0, 8), (1, 2, 4, 8))]:
        got = call(attention, np.zeros(q, np.float32), *[np.zeros(k, np.float32)] * 2)
        assert got.shape == q
    got = call(
        attention, np.ones((1, 2, 3, 8), np.float32), *[np.zeros((1, 2, 0, 8), np.float32)] * 2
    )
    assert not got.any()


_Q, _K = np.zeros((2, 4, 3, 8), np.float32), np.zeros((2, 2, 5, 8), np.float32)
_POOL = np.zeros((3, 2, 16, 8), np.float32)


@pytest.mark.parametrize(
    ("given", "options", "kind", "message"),
    [
        ((_Q.astype(float), _K, _K), {}, ArgumentTypeError, "q has the dtype float64"),
        ((_Q, _K.astype(np.float16), _K), {}, ArgumentTypeError, "k has the dtype float16"),
        ((_Q[0, 0], _K, _K), {}, ArgumentValueError, "heads, queries, d"),
        ((_Q, _K[:, :, :, :4], _K[:, :, :, :4]), {}, ArgumentValueError, "Batches and d are equal"),
        ((_Q[:, :3], _K, _K), {}, ArgumentValueError, "multiple of those of k"),
        ((_Q, _K, _K[:, :, :2]), {}, ArgumentValueError, "v has the shape"),
        ((_Q, _K, _K), {"window": 3}, ArgumentValueError, "causal=True"),
        ((_Q, _K, _K), {"window": 0, "causal": True}, ArgumentValueError, "window is 0"),
        ((_Q, _K, _K), {"scale": math.inf}, ArgumentValueError, "finite"),
        ((_Q, _K, _K), {"lengths": np.zeros(3, np.int64)}, ArgumentValueError, "lengths has the"),
        ((_Q, _K, _K), {"lengths": np.zeros(2)}, ArgumentTypeError, "lengths has the dtype"),
        ((_Q, _K, _K), {"pages": np.zeros((2, 1), np.int64)}, ArgumentValueError, "multiple of 16"),
        ((_Q, _K, _K), {"out": _K}, ArgumentError, "out has the shape"),
        *(
            (
                (_Q, _K, _K),
                {name: np.array([0, n])},
                ArgumentValueError,
                f"element of {name} is {n}",
            )
            for name, most in (("lengths", _K.shape[2]), ("query_lengths", _Q.shape[2]))
            for n in (-1, most + 1)
        ),
        *(
            (
                (_Q, _POOL, _POOL),
                {"pages": np.array([[0, 1], [0, n]])},
                ArgumentValueError,
                "from 0 to 2",
            )
            for n in (-1, 3)
        ),
    ],
)
def test_what_does_not_fit_is_refused(given, options, kind, message):
    with kd.use("cpu"), pytest.raises(kind, match=message):
        attention(*given, **options)


def _compiled(dtype: str, tile: tuple[int, int, int], width: int, arch: str) -> Any:
    array, parts = f"{dtype}[:, :, :, ::1]", f"{dtype}[:, :, :, :, ::1]"
    integers = "int64[::1], int64[::1], int64[:, ::1]"
    numbers = "int64, int64, int64, float32, int64, int64"
    signature = f"{array}, {array}, {array}, {integers}, {array}, {parts}, {parts}, {numbers}"
    static = dict(zip(("BM", "BN"), tile, strict=False), D=width, causal=True)
    static |= {"masked": True, "paged": False, "split": False, "save_statistics": False}
    member = _MODULE.attend.member(**static)
    return compile_product(member, signature, threads=tile[2], arch=arch)


@pytest.mark.parametrize(
    ("width", "tile"),
    sample([*_MODULE.HOPPER_TILES.items(), *_MODULE.FEW_TILES.items()], count=2),
)
def test_halves_are_multiplied_by_warpgroups(width, tile):
    assert _compiled("bfloat16", tile, width, "sm_90a").additions.threads == 128


def test_other_tiles_fit_the_shared_memory_of_a_block():
    assert "mma.sync" in _compiled("bfloat16", _MODULE.HALVES_TILE, 256, "sm_80").ptx
    for width, tile in sample(list(_MODULE.WIDE_TILES.items()), count=2):
        assert "fma.rn" in _compiled("float32", tile, width, "sm_75").ptx


@pytest.mark.parametrize(
    ("dtype", "queries", "width", "keys", "tile", "threads"),
    [
        ("float16", 300, 96, 300, (128, 128, 256), 128),
        ("float16", 1, 64, 300, (64, 128, 128), 128),
        ("float16", 1, 64, 9000, (64, 128, 128), 128),
        ("float32", 9, 64, 300, (32, 16, 128), 0),
    ],
)
def test_tiles_are_chosen_by_device_and_width(dtype, queries, width, keys, tile, threads):
    """Arguments never overlap, so that warpgroups multiply."""
    with null_in_use() as null:
        q = kd.to_device(np.zeros((1, 2, queries, width), dtype))
        k, v = (kd.to_device(np.zeros((1, 2, keys, width), dtype)) for _ in range(2))
        attention(q, k, v, causal=True)
        (launch,) = (each for each in null.launches if each.kernel == "attend")
    parts = launch.config.grid_dim[0] // -(-queries // tile[0])
    assert (parts > 1) == (keys > 1000)
    assert launch.config.block_dim[0] == tile[2]
    wide = next(each for each in _MODULE.WIDTHS if width <= each)
    static = {"BM": tile[0], "BN": tile[1], "D": wide, "causal": True}
    static |= {"masked": True, "paged": False, "split": parts > 1, "save_statistics": False}
    loaded = _MODULE.attend.member(**static)._dispatcher.state().loaded.values()
    assert {each.artifact.additions.threads for each in loaded} == {threads}


def test_a_cpu_takes_parts_that_depend_on_the_shapes_alone(monkeypatch):
    """Parts decide the order of sums: a machine with more cores computes the same bits."""
    grids, launch = [], _MODULE.launch

    def noted(kernel, grid, *arguments, **static):
        grids.append(grid)
        launch(kernel, grid, *arguments, **static)

    monkeypatch.setattr(_MODULE, "launch", noted)
    q, k = np.ones((1, 1, 8), np.float32), np.ones((1, 2100, 8), np.float32)
    with kd.use("cpu"):
        for count, keys in ((1, k), (64, k[:, 1:])):  # a call like an earlier one is repeated
            monkeypatch.setattr("os.cpu_count", lambda count=count: count)
            assert (attention(q, keys, keys) == 1).all()
    assert grids == [(4, 1, 1)] * 2


def test_a_warp_reads_small_pages():
    """A block of one warp has few queries; others wait longer for each page than they compute."""
    with null_in_use() as null:
        q = kd.to_device(np.zeros((2, 4, 1, 64), "float16"))
        k, v = (kd.to_device(np.zeros((300, 2, 16, 64), "float16")) for _ in range(2))
        pages = kd.to_device(np.zeros((2, 150), np.int64))
        attention(q, k, v, causal=True, pages=pages)
        (launch,) = (each for each in null.launches if each.kernel == "attend")
    assert launch.config.block_dim[0] == 32
    assert launch.config.grid_dim[0] > 1


def test_the_family_has_the_function():
    assert of_family is attention
