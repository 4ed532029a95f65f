"""The CUDA Math API on floats of 16 and 8 bits: device functions by its names.

Kernels call them as any device function, ``half.hfma(a, b, c)``. ``numba.cuda.fp16`` and
``numba.cuda.bf16`` are :mod:`~kerneldsl.math_api.half` and :mod:`~kerneldsl.math_api.bfloat16`.

References
----------
CUDA Math API Reference Manual, "Half Precision Intrinsics", "Bfloat16 Precision Intrinsics" and
"FP8 Intrinsics".
"""
