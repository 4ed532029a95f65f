/* The kernels of fractals.py as a C programmer writes them: 16 neighbouring points go their rounds
   together until none is left. */
#include <stdint.h>

enum { WIDTH = 16 };

static inline void escape(const float *re, const float *im, const float *cre, const float *cim,
                          int32_t *out, int64_t rounds)
{
    float x[WIDTH], y[WIDTH];
    int32_t count[WIDTH];
    for (int k = 0; k < WIDTH; k++) {
        x[k] = re[k];
        y[k] = im[k];
        count[k] = 0;
    }
    for (int64_t round = 0; round < rounds; round++) {
        int32_t inside = 0;
        #pragma omp simd reduction(+ : inside)
        for (int k = 0; k < WIDTH; k++) {
            float xx = x[k] * x[k], yy = y[k] * y[k], xy = x[k] * y[k];
            int32_t stays = xx + yy <= 4.0f;
            x[k] = stays ? xx - yy + cre[k] : x[k];
            y[k] = stays ? 2.0f * xy + cim[k] : y[k];
            count[k] += stays;
            inside += stays;
        }
        if (inside == 0)
            break;
    }
    for (int k = 0; k < WIDTH; k++)
        out[k] = count[k];
}

void mandelbrot(int32_t *restrict out, int64_t rounds, int64_t size)
{
    #pragma omp parallel for schedule(dynamic, 8)
    for (int64_t row = 0; row < size; row++)
        for (int64_t column = 0; column < size; column += WIDTH) {
            float zero[WIDTH] = {0}, cre[WIDTH], cim[WIDTH];
            for (int k = 0; k < WIDTH; k++) {
                cre[k] = -2.0f + 3.0f / (float)size * (float)(column + k);
                cim[k] = -1.5f + 3.0f / (float)size * (float)row;
            }
            escape(zero, zero, cre, cim, out + row * size + column, rounds);
        }
}

void julia(int32_t *restrict out, float re, float im, int64_t rounds, int64_t size)
{
    #pragma omp parallel for schedule(dynamic, 8)
    for (int64_t row = 0; row < size; row++)
        for (int64_t column = 0; column < size; column += WIDTH) {
            float x[WIDTH], y[WIDTH], cre[WIDTH], cim[WIDTH];
            for (int k = 0; k < WIDTH; k++) {
                x[k] = -1.5f + 3.0f / (float)size * (float)(column + k);
                y[k] = -1.5f + 3.0f / (float)size * (float)row;
                cre[k] = re;
                cim[k] = im;
            }
            escape(x, y, cre, cim, out + row * size + column, rounds);
        }
}
