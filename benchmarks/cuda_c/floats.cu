// The kernels of floats.py as a CUDA programmer writes them.
#include <cuda_fp16.h>

extern "C" __global__ void axpy(float a, const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a * x[i] + y[i];
}

extern "C" __global__ void axpy_f16(__half a, const __half *x, const __half *y, __half *out,
                                    int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a * x[i] + y[i];
}

extern "C" __global__ void triad_f64(double *a, const double *b, const double *c, double scalar,
                                     int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] = b[i] + scalar * c[i];
}

extern "C" __global__ void fused_f64(const double *x, double *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double v = x[i];
        out[i] = exp(-v * v) * sin(3.0 * v) + sqrt(fabs(v));
    }
}

extern "C" __global__ void mandelbrot_f64(int *out, int rounds, int height, int width)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && column < width) {
        double c_re = -2.0 + 3.0 * column / width, c_im = -1.5 + 3.0 * row / height;
        double re = 0.0, im = 0.0;
        int count = 0;
        while (re * re + im * im <= 4.0 && count < rounds) {
            double next = re * re - im * im + c_re;
            im = 2.0 * re * im + c_im;
            re = next;
            count++;
        }
        out[row * width + column] = count;
    }
}

extern "C" __global__ void polynomial_f64(const double *x, const double *coefficients,
                                          double *out, int count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double total = 0.0;
        for (int k = 0; k < count; k++)
            total = total * x[i] + coefficients[k];
        out[i] = total;
    }
}

extern "C" __global__ void complex_products(const float2 *a, const float2 *b, float2 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float2 p = a[i], q = b[i];
        out[i] = make_float2(p.x * q.x - p.y * q.y + p.x, p.x * q.y + p.y * q.x - p.y);
    }
}

extern "C" __global__ void rotate_quaternions(const float *q, const float *v, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float w = q[4 * i], x = q[4 * i + 1], y = q[4 * i + 2], z = q[4 * i + 3];
        float a = v[3 * i], b = v[3 * i + 1], c = v[3 * i + 2];
        float s = y * c - z * b + w * a, t = z * a - x * c + w * b, u = x * b - y * a + w * c;
        out[3 * i] = a + 2.0f * (y * u - z * t);
        out[3 * i + 1] = b + 2.0f * (z * s - x * u);
        out[3 * i + 2] = c + 2.0f * (x * t - y * s);
    }
}
