/* The kernels of sorting_and_scans.py as a C programmer writes them. */
#include <omp.h>
#include <stdint.h>
#include <string.h>

void histogram(const uint8_t *restrict x, int32_t *restrict counts, int64_t n)
{
    int32_t bins[256] = {0};
    #pragma omp parallel for reduction(+ : bins)
    for (int64_t i = 0; i < n; i++)
        bins[x[i]]++;
    memcpy(counts, bins, sizeof bins);
}

/* A bitonic network a row: within a span, the elements of two halves are compared. */
void sort_rows(const float *restrict x, float *restrict out, int64_t rows, int64_t columns)
{
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        float *keys = out + row * columns;
        memcpy(keys, x + row * columns, columns * sizeof(float));
        for (int64_t span = 2; span <= columns; span *= 2)
            for (int64_t step = span / 2; step > 0; step /= 2)
                for (int64_t start = 0; start < columns; start += 2 * step) {
                    float *low = keys + start, *high = low + step;
                    int falls = (start & span) != 0;
                    #pragma omp simd
                    for (int64_t k = 0; k < step; k++) {
                        float a = low[k], b = high[k];
                        float least = a < b ? a : b, most = a < b ? b : a;
                        low[k] = falls ? most : least;
                        high[k] = falls ? least : most;
                    }
                }
    }
}

void prefix_sum(const int32_t *restrict x, int32_t *restrict out, int64_t n)
{
    int32_t totals[257] = {0};
    #pragma omp parallel
    {
        int64_t parts = omp_get_num_threads(), part = omp_get_thread_num();
        int64_t start = n * part / parts, stop = n * (part + 1) / parts;
        int32_t sum = 0;
        #pragma omp simd reduction(+ : sum)
        for (int64_t i = start; i < stop; i++)
            sum += x[i];
        totals[part + 1] = sum;
        #pragma omp barrier
        sum = 0;
        for (int64_t k = 0; k <= part; k++)
            sum += totals[k];
        for (int64_t i = start; i < stop; i++) {
            sum += x[i];
            out[i] = sum;
        }
    }
}
