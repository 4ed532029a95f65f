"""Mistakes that people make: short programs, each of which ends with an error or a warning."""

from __future__ import annotations

__all__ = ["HEADER", "MISTAKES"]

HEADER = """\
import math

import numpy as np
import kerneldsl as kd

x, out = np.arange(8.0), np.zeros(8)
"""

_SCALE = """\
@kd.kernel
def scale(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i]
"""


_CUDA = "from numba import cuda"


def _element(statement: str, call: str = "k.forall(8)(x, out)", before: str = "") -> str:
    """Return a program whose kernel has one statement for each element."""
    return f"""{before}
@kd.kernel
def k(x, out):
    i = kd.grid(1)
    if i < out.size:
        {statement}

{call}
"""


#: Name to program, without the header.
MISTAKES: dict[str, str] = {
    # ------------------------------------------------------------------ launches
    "called_like_a_function": _SCALE + "scale(2.0, x, out)",
    "grid_alone": _SCALE + "scale[8](2.0, x, out)",
    "extent_is_an_array": _SCALE + "scale.forall(out)(2.0, x, out)",
    "extent_is_a_float": _SCALE + "scale.forall(x.size / 2)(2.0, x, out)",
    "extent_is_a_bool": _SCALE + "scale.forall(True)(2.0, x, out)",
    "extent_is_negative": _SCALE + "scale.forall(-1)(2.0, x, out)",
    "unknown_keyword": _SCALE + "scale.forall(8, blocks=4)(2.0, x, out)",
    "an_argument_is_missing": _SCALE + "scale.forall(8)(2.0, x)",
    "an_argument_too_many": _SCALE + "scale.forall(8)(2.0, x, out, 8)",
    "a_list_is_passed": _SCALE + "scale.forall(8)(2.0, [1.0, 2.0], out)",
    "a_string_is_passed": _SCALE + "scale.forall(8)('2.0', x, out)",
    "strings_in_an_array": _SCALE + "scale.forall(2)(2.0, np.array(['a', 'b']), out)",
    "None_is_passed": _SCALE + "scale.forall(8)(None, x, out)",
    "a_dict_is_passed": _SCALE + "scale.forall(8)({'a': 2.0}, x, out)",
    "an_int_beyond_int64": _SCALE + "scale.forall(8)(2**63, x, out)",
    "the_output_is_read_only": _SCALE + "out.flags.writeable = False\nscale.forall(8)(2.0, x, out)",
    "too_many_threads_in_a_block": _SCALE + "scale[1, (64, 32)](2.0, x, out)",
    "the_grid_is_a_float": _SCALE + "scale[out.size / 256, 256](2.0, x, out)",
    "an_unknown_target": "kd.use('metal')",
    "an_unknown_architecture": _SCALE + "scale.ptx('f8, f8[::1], f8[::1]', arch='sm_999')",
    "a_wrong_signature": _SCALE + "scale.ptx('f8, float[::1], f9[::1]', arch='sm_90')",
    "no_block_for_a_block_kernel": """\
@kd.kernel
def reverse(x):
    s = kd.shared.array(8, kd.float64)
    t = kd.threadIdx.x
    s[t] = x[t]
    kd.syncthreads()
    x[t] = s[7 - t]

reverse.forall(8)(x)
""",
    "dynamic_shared_memory_without_bytes": """\
@kd.kernel
def reverse(x):
    s = kd.shared.array(0, kd.float64)
    s[kd.threadIdx.x] = x[kd.threadIdx.x]

reverse[1, 8](x)
""",
    "grid_2_under_an_extent_of_1": """\
@kd.kernel
def k(out):
    i, j = kd.grid(2)
    out[i] = j

k.forall(8)(out)
""",
    # ------------------------------------------------------------------ types
    "one_index_for_two_axes": """\
@kd.kernel
def k(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]

k.forall(8)(np.zeros((8, 8)), out)
""",
    "two_indices_for_one_axis": _element("out[i] = x[i, 0]"),
    "a_float_index": _element("out[i] = x[i / 2]"),
    "a_float_index_on_both_sides": _element("x[i] += x[i + i / 2]"),
    "bits_of_a_float": """
@kd.kernel
def mix(x, out):
    i = kd.grid(1)
    h = 0.5
    for k in range(3):
        h ^= k
    out[i] = h

mix.forall(8)(x, out)
""",
    "a_shift_of_a_float": _element("x[i] <<= 2"),
    "a_right_shift_of_both_signs": """
@kd.kernel
def mix(seeds, factors, out):
    i = kd.grid(1)
    h = seeds[i]
    for _ in range(2):
        h ^= h >> 33
        h *= factors[i]
    out[i] = h

mix.forall(8)(np.arange(8, dtype=np.uint64), np.arange(8), out)
""",
    "text_and_number": _element("out[i] = x[i] + 'a'"),
    "the_median_of_a_row": """\
@kd.kernel
def k(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = np.median(x[i])

k.forall(8)(np.zeros((8, 8)), out)
""",
    "two_types_of_a_variable": _element("y = 0.0 if x[i] > 0 else x"),
    "a_method_that_is_not_there": _element("out[i] = x.mode()"),
    "a_whole_array_expression": _element("out = x + 1"),
    "a_slice_of_another_part": _element("x[1:] = x[:-1]"),
    "a_row_in_a_variable": _element("t = x[2:] * 2; out[i] = t[0]"),
    "np_zeros": _element("t = np.zeros(4); out[i] = t[0]"),
    "np_random": _element("out[i] = np.random.rand()"),
    "random_random": _element("out[i] = random.random()", before="import random"),
    "np_linalg": _element("out[i] = np.linalg.norm(x)"),
    "np_unknown": _element("out[i] = np.fft.fft(x)[i]"),
    "math_misspelled": _element("out[i] = math.sine(x[i])"),
    "an_undefined_name": _element("out[i] = y[i]"),
    "used_before_it_is_assigned": _element("out[i] = y; y = x[i]"),
    # ------------------------------------------------------------------ constructs
    "a_list_comprehension": _element("out[i] = sum([v for v in x])"),
    "a_list": _element("w = [1.0, 2.0]; out[i] = w[0]"),
    "a_captured_list": _element("out[i] = weights[0] * x[i]", before="weights = [1.0, 2.0]"),
    "a_captured_dict": _element("out[i] = table['a'] * x[i]", before="table = {'a': 1.0}"),
    "a_captured_object": _element(
        "out[i] = config.a * x[i]",
        before="class Config: pass\nconfig = Config()\nconfig.a = object()",
    ),
    "an_f_string": _element("print(f'{i}')"),
    "a_plain_function_of_python": _element(
        "out[i] = f(x[i])", before="def f(v):\n    try: return 1 / v\n    except: return 0\n"
    ),
    "types_in_a_plain_function": _element(
        "out[i] = f(x[i])", before="def f(v):\n    w = v + 1\n    return w.real.name\n"
    ),
    "a_loop_over_a_number": _element("for j in 3: out[i] += j"),
    "a_constant_array_of_a_parameter": _element("out[i] = kd.const.array_like(x)[i]"),
    "a_recursive_function": _element(
        "out[i] = f(x[i])", before="def f(v): return f(v - 1) if v > 0 else v\n"
    ),
    "a_lambda_as_a_value": _element("f = lambda v: v + 1; g = f; out[i] = g(x[i])"),
    "a_default_value": "@kd.kernel\ndef k(x, n=3):\n    x[0] = n\n\nk.forall(8)(x)",
    "a_value_is_returned": "@kd.kernel\ndef k(x):\n    return x[0]\n\nk.forall(8)(x)",
    "try_except": """\
@kd.kernel
def k(x):
    try:
        x[0] = 1
    except IndexError:
        pass

k.forall(8)(x)
""",
    "recursion": _element(
        "out[i] = f(3)", before="@kd.func\ndef f(n): return 1 if n < 2 else n * f(n - 1)\n"
    ),
    "a_barrier_under_a_guard": """\
@kd.kernel
def k(x, n):
    s = kd.shared.array(8, kd.float64)
    i = kd.grid(1)
    if i < n:
        s[kd.threadIdx.x] = x[i]
        kd.syncthreads()
        x[i] = s[7 - kd.threadIdx.x]

k[1, 8](x, 8)
""",
    "threadIdx_bare": _element("out[kd.threadIdx] = x[i]"),
    "a_shared_array_of_a_variable_size": _element("s = kd.shared.array(x.size, kd.float64)"),
    "an_atomic_of_a_float_index": _element("kd.atomic.add(out, 0.5, 1.0)"),
    "an_intrinsic_outside": "kd.grid(1)",
    "signature_mismatch": (
        "@kd.kernel('f4, f8[:]')\ndef k(a, x):\n    x[kd.grid(1)] = a\n\nk.forall(8)(2.0, 3.0)"
    ),
    # ------------------------------------------------------------------ further
    "a_keyword_of_print": _element("print(x[i], end='')"),
    "a_median_by_np": _element("out[i] = np.median(x)"),
    "np_arange": _element("t = np.arange(4); out[i] = t[0]"),
    "a_float_index_in_a_variable": _element("p = i / 2; out[i] = x[p]"),
    "an_array_as_grid": _SCALE + "scale[out, 32](2.0, x, out)",
    "numba_cuda_vector": _element("v = cuda.float32x3(1.0, 2.0, 3.0); out[i] = v.x", before=_CUDA),
    "numba_cuda_xoroshiro": _element(
        "out[i] = xoroshiro128p_uniform_float32(x, i)",
        before="from numba.cuda.random import xoroshiro128p_uniform_float32",
    ),
    "numba_cuda_fp16": _element("out[i] = cuda.fp16.hadd(x[i], x[i])", before=_CUDA),
    "numba_cuda_device_array": _element("t = cuda.device_array(4); out[i] = t[0]", before=_CUDA),
    "sep_of_print": _element("print(x[i], out[i], sep=', ')"),
    "reversed_range": _element("for j in reversed(range(3)): out[i] = x[j]"),
    "sorted_array": _element("out[i] = sorted(x)[0]"),
    "any_of_an_array": _element("out[i] = any(x)"),
    "a_product_in_place": _element("x @= out"),
    "text_in_an_element": _element("out[i] = 'a'"),
    "an_array_from_np_zeros": _element("out[i] = np.zeros(3)[0]"),
    "an_element_is_None": _element("out[i] = None"),
    "an_object_of_another_library": _element(
        "out[i] = Decimal(3)", before="from decimal import Decimal\n"
    ),
    "grid_1_for_two_indices": _element("i, j = kd.grid(1); out[i] = x[j]"),
    "grid_3_for_two_indices": """\
@kd.kernel
def k(x, out):
    i, j = kd.grid(3)
    out[i] = x[j]

k[(1, 1, 1), (8, 1, 1)](x, out)
""",
    "an_array_as_a_condition": """\
@kd.kernel
def k(x, out):
    i = kd.grid(1)
    if i:
        if x:
            out[i] = 1.0

k.forall(8)(x, out)
""",
    "an_array_in_a_conditional_expression": _element("out[i] = 1.0 if x and i else 2.0"),
    "an_array_that_is_negated": _element(
        "t = kd.local.array(4, kd.float64)\n        while not t: i += 1"
    ),
    "an_architecture_for_assembly": _SCALE + "scale.asm('f8, f8[::1], f8[::1]', arch='sm_90')",
    "an_architecture_that_is_a_number": _SCALE + "scale.ptx('f8, f8[::1], f8[::1]', arch=90)",
    "a_plan_for_a_number": _SCALE + "scale.forall(8).plan('f8, f8[::1], f8[::1]', arch=90)",
    "a_vector_type": _element("v = kd.float4(1.0, 2.0, 3.0, 4.0); out[i] = v.x"),
    "an_array_of_the_host": _element("t = kd.device_array(4); out[i] = t[0]"),
    "an_intrinsic_as_cuda_spells_it": _element("out[i] = kd.popcll(i)"),
    "an_intrinsic_misspelled": _element("j = kd.gird(1); out[j] = x[j]"),
    "a_member_misspelled": _element("kd.atomic.ad(out, 0, 1.0)"),
    "one_argument_is_given": _SCALE + "scale.forall(8)(2.0)",
    "an_argument_is_missing_by_name": _SCALE + "scale.forall(8)(2.0, out=out)",
    "a_signature_in_parentheses": (
        "@kd.kernel('(f8[:],)')\ndef k(x):\n    x[kd.grid(1)] = 0.0\n\nk.forall(8)(x)"
    ),
    # ------------------------------------------------------------------ remedies
    "a_name_misspelled": _element("out[i] = math.sin(x[i]) * scal", before="scale = 2.0\n"),
    "a_name_of_later": """
def made():
    @kd.kernel
    def k(x, out):
        i = kd.grid(1)
        out[i] = later * x[i]

    k.forall(8)(x, out)
    later = 2.0

made()
""",
    "a_method_is_captured": _element("out[i] = at(x[i])", before="at = x.item\n"),
    "an_item_with_an_index": _element("out[i] = x.item(0)"),
    "a_range_is_indexed": _element("out[i] = range(2, 9)[i]"),
    "a_text_is_indexed": _element("text = 'text'\n        out[i] = text[0] == 't'"),
    "hypot_of_one_number": _element("out[i] = math.hypot(x[i])"),
    "strided_as_one_axis": _element(
        "out[i] = x.ravel()[i]", "k.forall(8)(np.ones((4, 4))[:, ::2], out)"
    ),
    "one_axis_in_an_order": _element("out[i] = x.ravel(order='C')[i]"),
    "an_object_is_called": _element(
        "out[i] = scaled(x[i])",
        before="import functools\n\nscaled = functools.partial(max, 1.0)\n",
    ),
    "a_method_as_a_parameter": """
@kd.kernel
def k(x, out, *, f):
    i = kd.grid(1)
    out[i] = f(x[i])

k.forall(8)(x, out, f=[].append)
""",
    "a_function_by_a_threads_index": _element(
        "out[i] = steps[i](x[i])", before="steps = (math.sin, math.cos)\n"
    ),
    "an_array_of_pythons": _SCALE + "import array\nscale.forall(8)(2.0, array.array('d', x), out)",
    "bytes_are_passed": _SCALE + "scale.forall(8)(2.0, b'01234567', out)",
    "a_shape_of_the_block": _element("s = kd.shared.array((kd.blockDim.x, 2), kd.float32)"),
    "a_shape_of_an_argument": _element("s = kd.local.array(x.shape[0], kd.float32)"),
    "an_axis_out_of_range": "from stdlib_kernels.reduce import sum\n\nsum(x, axis=1)",
    "an_int_that_the_dtype_lacks": (
        "from stdlib_kernels.elementwise import map\n\n"
        "map(lambda a, b: a + b, np.arange(8, dtype=np.int8), 300)"
    ),
    "indices_of_uint64": (
        "from stdlib_kernels.movement import take\n\ntake(x, np.arange(3, dtype=np.uint64))"
    ),
    "a_matrix": "from stdlib_kernels.reduce import sum\n\nsum(x.view(np.matrix))",
    "a_masked_array": "from stdlib_kernels.reduce import sum\n\nsum(np.ma.array(x, mask=x > 3))",
    "an_out_of_another_dtype": (
        "from stdlib_kernels.reduce import sum\n\nsum(x, out=np.empty((), np.float32))"
    ),
    "a_sort_of_dates": (
        "from stdlib_kernels.sort import sort\n\nsort(np.array(['2020-01-02'], 'M8[D]'))"
    ),
    "a_sort_of_texts": "from stdlib_kernels.sort import sort\n\nsort(np.array(['b', 'a']))",
    "a_histogram_of_complex_numbers": (
        "from stdlib_kernels.histogram import histogram\n\nhistogram(x * 1j)"
    ),
    "a_sort_of_records": "from stdlib_kernels.sort import sort\n\nsort(np.zeros(2, 'i4,f4'))",
    "a_derivative_by_time": (
        "import sympy\n\ns, t = sympy.symbols('s t')\nu = sympy.Function('u')(s, t)\n"
        "kd.from_expression(sympy.Eq(u.diff(t), u.diff(s, 2)))"
    ),
    "a_derivative_without_a_scheme": (
        "import sympy\n\ns, t = sympy.symbols('s t')\nu = sympy.Function('u')(s, t)\n"
        "kd.from_expression(u.diff(s, 4))"
    ),
}
