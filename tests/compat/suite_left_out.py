"""Tests that compare the text of numba-cuda's own compiler, which no other compiler writes.

The table of the suite has its share with these tests and without them. Each has its reason, and
there are at most 15. Their kernels compute what they should: a test whose result differs counts.
"""

from __future__ import annotations

__all__ = ["LEFT_OUT"]

_NVVM = "looks for the first line of what NVIDIA's NVVM compiler writes"
_VARIABLES = "looks for the names that numba-cuda's lowering gives variables, and typed pointers"
_ROUNDS = "looks for cvt.rni, which rounds to the nearest; kernels drop the fraction, as NumPy"
_IN = {
    "test_casting.TestCasting": {
        "test_float16_to_int_ptx": _ROUNDS,
        "test_float16_to_uint_ptx": _ROUNDS,
    },
    "test_compiler.TestCompile": {
        "test_numba_abi_has_env_global": "looks for a global variable of Numba, NumbaEnv",
    },
    "test_debug.TestDebugOutput": {
        "test_dump_assembly": _NVVM,
        "test_dump_ir": "looks for a line of Numba's IR; the dump here is the typed function",
        "test_dump_llvm": "looks for the metadata by which LLVM 7 marks a kernel",
    },
    "test_debuginfo.TestCudaDebugInfo": {
        "test_DILocation": "looks for Numba's sequence of alloca and store, with typed pointers",
        "test_DILocation_versioned_variables": _VARIABLES,
        "test_kernel_args_names": "looks for the head of a kernel in LLVM 7, define void",
        "test_llvm_dbg_value_loadvar_coverage": _VARIABLES,
        "test_llvm_dbg_value_range": _VARIABLES,
        "test_llvm_inliner_flag_conflict": "looks for Numba's ABI of calls: i32 that is a status",
        "test_terminator_line_number": _VARIABLES,
    },
    "test_inspect.TestInspect": {
        "test_monotyped": _NVVM,
        "test_polytyped": _NVVM,
    },
}
#: The tests by their names, with the reasons.
LEFT_OUT = {
    f"numba.cuda.tests.cudapy.{place}.{name}": why
    for place, tests in _IN.items()
    for name, why in tests.items()
}
