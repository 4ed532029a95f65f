"""Written by docs/library_stubs.py."""

from typing import Any, Protocol

from kerneldsl.random.integers import (
    integers_int32 as integers_int32,
    integers_int64 as integers_int64,
    integers_uint32 as integers_uint32,
    integers_uint64 as integers_uint64,
)
from kerneldsl.random.normal import (
    exponential2_float64 as exponential2_float64,
    exponential4_float32 as exponential4_float32,
    exponential_float32 as exponential_float32,
    exponential_float64 as exponential_float64,
    normal2_float64 as normal2_float64,
    normal4_float32 as normal4_float32,
    normal_float32 as normal_float32,
    normal_float64 as normal_float64,
)
from kerneldsl.random.philox import (
    philox as philox,
    philox_4x32_10 as philox_4x32_10,
)
from kerneldsl.random.states import (
    create_xoroshiro128p_states as create_xoroshiro128p_states,
    init_xoroshiro128p_states as init_xoroshiro128p_states,
    xoroshiro128p_dtype as xoroshiro128p_dtype,
    xoroshiro128p_next as xoroshiro128p_next,
    xoroshiro128p_normal_float32 as xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64 as xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32 as xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64 as xoroshiro128p_uniform_float64,
)
from kerneldsl.random.uniform import (
    uniform2_float64 as uniform2_float64,
    uniform4_float32 as uniform4_float32,
    uniform_bfloat16 as uniform_bfloat16,
    uniform_float16 as uniform_float16,
    uniform_float32 as uniform_float32,
    uniform_float64 as uniform_float64,
    unit_float32 as unit_float32,
    unit_float64 as unit_float64,
)

xoroshiro128p_type: Any

__all__: list[str]
