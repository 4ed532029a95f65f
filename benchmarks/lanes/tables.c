/* The kernels of tables.py as a C programmer writes them. */
#include <stdint.h>
#include <string.h>

void multiply(const float *restrict a, const float *restrict b, float *restrict c, int64_t n)
{
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        float *row = c + i * n;
        memset(row, 0, n * sizeof(float));
        for (int64_t k = 0; k < n; k++) {
            #pragma omp simd
            for (int64_t j = 0; j < n; j++)
                row[j] += a[i * n + k] * b[k * n + j];
        }
    }
}

void shortest_paths(float *restrict distance, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        #pragma omp parallel for
        for (int64_t i = 0; i < n; i++) {
            float first = distance[i * n + k];
            #pragma omp simd
            for (int64_t j = 0; j < n; j++) {
                float through = first + distance[k * n + j];
                float known = distance[i * n + j];
                distance[i * n + j] = through < known ? through : known;
            }
        }
    }
}

enum { LENGTH = 256, MATCH = 2, MISMATCH = -1, GAP = 1 };

static inline int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Cell (i, d - i) of the table stands at place i + 1 of anti-diagonal d. */
void align(const int8_t *restrict a, const int8_t *restrict b, int32_t *restrict best,
           int64_t pairs)
{
    #pragma omp parallel for
    for (int64_t pair = 0; pair < pairs; pair++) {
        const int8_t *first = a + pair * LENGTH;
        int8_t reversed[LENGTH];
        int32_t cells[3][LENGTH + 1];
        int32_t score = 0;
        memset(cells, 0, sizeof cells);
        for (int i = 0; i < LENGTH; i++)
            reversed[i] = b[pair * LENGTH + LENGTH - 1 - i];
        for (int d = 0; d < 2 * LENGTH - 1; d++) {
            int32_t *restrict now = cells[d % 3];
            const int32_t *before = cells[(d + 2) % 3], *earlier = cells[(d + 1) % 3];
            int start = d < LENGTH ? 0 : d - LENGTH + 1, stop = d < LENGTH ? d + 1 : LENGTH;
            const int8_t *second = reversed + LENGTH - 1 - d;
            #pragma omp simd reduction(max : score)
            for (int i = start; i < stop; i++) {
                int32_t value = earlier[i] + (first[i] == second[i] ? MATCH : MISMATCH);
                value = larger(value, larger(before[i], before[i + 1]) - GAP);
                now[i + 1] = larger(value, 0);
                score = larger(score, now[i + 1]);
            }
        }
        best[pair] = score;
    }
}
