/* The kernels of random_numbers.py as a C programmer writes them. */
#include <math.h>
#include <stdint.h>

#pragma omp declare simd
static inline uint32_t hashed(uint32_t i)
{
    uint32_t state = i * 747796405u + 2891336453u;
    uint32_t word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
    return (word >> 22) ^ word;
}

static inline uint32_t next_state(uint32_t state)
{
    return state * 1664525u + 1013904223u;
}

static inline float uniform(uint32_t state)
{
    return ((float)(state >> 8) + 0.5f) * 0x1p-24f;
}

void circle(int32_t *restrict hits, int64_t samples, int64_t n)
{
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t state = hashed((uint32_t)i);
        int32_t inside = 0;
        for (int64_t k = 0; k < samples; k++) {
            state = next_state(state);
            float x = uniform(state);
            state = next_state(state);
            float y = uniform(state);
            inside += x * x + y * y < 1.0f;
        }
        hits[i] = inside;
    }
}

void asian_option(float *restrict payoff, float strike, float drift, float deviation,
                  int64_t steps, int64_t n)
{
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t state = hashed((uint32_t)i);
        float price = 1.0f, sum = 0.0f;
        for (int64_t k = 0; k < steps; k++) {
            state = next_state(state);
            float radius = sqrtf(-2.0f * logf(uniform(state)));
            state = next_state(state);
            float normal = radius * cosf(6.2831853f * uniform(state));
            price *= expf(drift + deviation * normal);
            sum += price;
        }
        float gain = sum / steps - strike;
        payoff[i] = gain > 0.0f ? gain : 0.0f;
    }
}
