/* The kernels of grids.py as a C programmer writes them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void stencil(const float *restrict a, float *restrict out, float centre, float side, int64_t size)
{
    const int64_t row = size, plane = size * size;
    #pragma omp parallel for
    for (int64_t z = 1; z < size - 1; z++)
        for (int64_t y = 1; y < size - 1; y++) {
            #pragma omp simd
            for (int64_t x = 1; x < size - 1; x++) {
                const float *at = a + z * plane + y * row + x;
                out[z * plane + y * row + x] = centre * at[0]
                    + side * (at[-1] + at[1] + at[-row] + at[row] + at[-plane] + at[plane]);
            }
        }
}

enum { RADIUS = 8 };

static inline int64_t clamped(int64_t i, int64_t size)
{
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

void blur(const float *restrict image, const float *restrict weights, float *restrict between,
          float *restrict out, int64_t size)
{
    #pragma omp parallel
    {
        float *line = malloc((size + 2 * RADIUS) * sizeof(float));
        #pragma omp for
        for (int64_t y = 0; y < size; y++) {
            for (int64_t x = 0; x < RADIUS; x++) {
                line[x] = image[y * size];
                line[size + RADIUS + x] = image[y * size + size - 1];
            }
            memcpy(line + RADIUS, image + y * size, size * sizeof(float));
            #pragma omp simd
            for (int64_t x = 0; x < size; x++) {
                float sum = 0.0f;
                for (int k = 0; k <= 2 * RADIUS; k++)
                    sum += weights[k] * line[x + k];
                between[y * size + x] = sum;
            }
        }
        free(line);
        #pragma omp for
        for (int64_t y = 0; y < size; y++) {
            float *to = out + y * size;
            memset(to, 0, size * sizeof(float));
            for (int k = 0; k <= 2 * RADIUS; k++) {
                const float *from = between + clamped(y + k - RADIUS, size) * size;
                #pragma omp simd
                for (int64_t x = 0; x < size; x++)
                    to[x] += weights[k] * from[x];
            }
        }
    }
}

void fdtd(float *restrict ez, float *restrict hx, float *restrict hy, float factor, int64_t steps,
          int64_t size)
{
    for (int64_t step = 0; step < steps; step++) {
        #pragma omp parallel for
        for (int64_t y = 0; y < size - 1; y++) {
            #pragma omp simd
            for (int64_t i = y * size; i < (y + 1) * size - 1; i++) {
                hx[i] -= factor * (ez[i + size] - ez[i]);
                hy[i] += factor * (ez[i + 1] - ez[i]);
            }
        }
        #pragma omp parallel for
        for (int64_t y = 1; y < size - 1; y++) {
            #pragma omp simd
            for (int64_t i = y * size + 1; i < (y + 1) * size - 1; i++)
                ez[i] += factor * (hy[i] - hy[i - 1] - hx[i] + hx[i - size]);
        }
    }
}
