"""Functions of PTX that kernels of the tests are linked with, and the same in CUDA C++."""

from __future__ import annotations

__all__ = ["CUDA", "PTX"]

#: ``weigh(a, b)`` is a * b + 0.25, ``is_even(n)``, ``narrow(a, b, c)`` adds three integers of fewer
#: bits, ``add_to(p, i, v)`` adds to an element, and ``swap(p, q)`` exchanges two.
PTX = b"""
.version 6.3
.target sm_50
.address_size 64

.visible .const .align 4 .b8 quarter[4] = {0, 0, 128, 62};
.func (.param .b32 product) times(.param .b32 a, .param .b32 b)
{
    .reg .f32 %f<4>;
    ld.param.f32 %f1, [a];
    ld.param.f32 %f2, [b];
    mul.rn.f32 %f3, %f1, %f2;
    st.param.f32 [product], %f3;
    ret;
}
.visible .func (.param .b32 out) weigh(
    .param .b32 a, // the value
    .param .b32 b  /* its weight; */
)
{
    .reg .f32 %f<6>;
    ld.param.f32 %f1, [a];
    ld.param.f32 %f2, [b];
    {
        .param .b32 first;
        .param .b32 second;
        .param .b32 result;
        st.param.f32 [first], %f1;
        st.param.f32 [second], %f2;
        call.uni (result), times, (first, second);
        ld.param.f32 %f3, [result];
    }
    ld.const.f32 %f4, [quarter];
    add.rn.f32 %f5, %f3, %f4;
    st.param.f32 [out], %f5;
    ret;
}
.visible .func (.param .b32 out) is_even(.param .b64 n)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [n];
    and.b64 %rd2, %rd1, 1;
    cvt.u32.u64 %r1, %rd2;
    xor.b32 %r2, %r1, 1;
    st.param.b32 [out], %r2;
    ret;
}
.visible .func (.param .b32 out) narrow(.param .b32 a, .param .b32 b, .param .b32 c)
{
    .reg .b32 %r<6>;
    ld.param.s8 %r1, [a];
    ld.param.u16 %r2, [b];
    ld.param.u8 %r3, [c];
    add.s32 %r4, %r1, %r2;
    add.s32 %r5, %r4, %r3;
    cvt.s32.s16 %r5, %r5;
    st.param.b32 [out], %r5;
    ret;
}
.visible .func add_to(.param .b64 p, .param .b64 i, .param .b64 v)
{
    .reg .b64 %rd<5>;
    .reg .f64 %fd<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [i];
    ld.param.f64 %fd1, [v];
    shl.b64 %rd3, %rd2, 3;
    add.s64 %rd4, %rd1, %rd3;
    ld.f64 %fd2, [%rd4];
    add.rn.f64 %fd3, %fd2, %fd1;
    st.f64 [%rd4], %fd3;
    ret;
}
.visible .func swap(.param .b64 p, .param .b64 q)
{
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    ld.u64 %rd3, [%rd1];
    ld.u64 %rd4, [%rd2];
    st.u64 [%rd1], %rd4;
    st.u64 [%rd2], %rd3;
    ret;
}
.visible .entry kernel_of_its_own(.param .u64 p)
{
    ret;
}
"""

#: The same in CUDA C++.
CUDA = """
__constant__ float quarter = 0.25f;

static __device__ __noinline__ float times(float a, float b) { return __fmul_rn(a, b); }

extern "C" {
__device__ float weigh(float a, float b) { return __fadd_rn(times(a, b), quarter); }
__device__ bool is_even(long long n) { return n % 2 == 0; }
__device__ short narrow(signed char a, unsigned short b, bool c) { return a + b + c; }
__device__ void add_to(double* p, long long i, double v) { p[i] += v; }
__device__ void swap(long long* p, long long* q) { long long old = *p; *p = *q; *q = old; }
}

__global__ void kernel_of_its_own(float* p) { *p = weigh(*p, 2.0f); }
"""
