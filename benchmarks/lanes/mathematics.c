/* The kernels of mathematics.py as a C programmer writes them. */
#include <math.h>
#include <stdint.h>

static float normal_distribution(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float tail = 0.39894228f * expf(-0.5f * d * d) * k
        * (0.31938153f + k * (-0.356563782f + k * (1.781477937f
        + k * (-1.821255978f + k * 1.330274429f))));
    return d > 0.0f ? 1.0f - tail : tail;
}

void black_scholes(const float *restrict spot, const float *restrict strike,
                   const float *restrict years, float *restrict call, float *restrict put,
                   float rate, float volatility, int64_t n)
{
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        float root = sqrtf(years[i]);
        float d1 = (logf(spot[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i])
            / (volatility * root);
        float d2 = d1 - volatility * root;
        float first = normal_distribution(d1), second = normal_distribution(d2);
        float discounted = strike[i] * expf(-rate * years[i]);
        call[i] = spot[i] * first - discounted * second;
        put[i] = discounted * (1.0f - second) - spot[i] * (1.0f - first);
    }
}

void gelu(const float *restrict x, float *restrict out, int64_t n)
{
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++)
        out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

void polar(const float *restrict radius, const float *restrict angle, float *restrict x,
           float *restrict y, int64_t n)
{
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        x[i] = radius[i] * cosf(angle[i]);
        y[i] = radius[i] * sinf(angle[i]);
    }
}

void multiply_adds(const float *restrict x, float *restrict out, int64_t rounds, int64_t n)
{
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        float value = x[i];
        for (int64_t k = 0; k < rounds; k++)
            value = value * 0.99f + 0.125f;
        out[i] = value;
    }
}
