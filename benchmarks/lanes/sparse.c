/* The kernels of sparse.py as a C programmer writes them. */
#include <stdint.h>

void multiply(const int32_t *restrict starts, const int32_t *restrict columns,
              const float *restrict values, const float *restrict x, float *restrict y,
              int64_t rows)
{
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        float sum = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int32_t k = starts[row]; k < starts[row + 1]; k++)
            sum += values[k] * x[columns[k]];
        y[row] = sum;
    }
}
