/* The kernels of rows.py as a C programmer writes them. */
#include <math.h>
#include <stdint.h>

void softmax(const float *restrict x, float *restrict out, int64_t rows, int64_t columns)
{
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        const float *from = x + row * columns;
        float *to = out + row * columns;
        float largest = -INFINITY, sum = 0.0f;
        #pragma omp simd reduction(max : largest)
        for (int64_t j = 0; j < columns; j++)
            largest = from[j] > largest ? from[j] : largest;
        #pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < columns; j++) {
            to[j] = expf(from[j] - largest);
            sum += to[j];
        }
        #pragma omp simd
        for (int64_t j = 0; j < columns; j++)
            to[j] /= sum;
    }
}

void layer_norm(const float *restrict x, const float *restrict scale, const float *restrict shift,
                float *restrict out, float epsilon, int64_t rows, int64_t columns)
{
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        const float *from = x + row * columns;
        float *to = out + row * columns;
        float sum = 0.0f, squares = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < columns; j++)
            sum += from[j];
        float mean = sum / columns;
        #pragma omp simd reduction(+ : squares)
        for (int64_t j = 0; j < columns; j++)
            squares += (from[j] - mean) * (from[j] - mean);
        float factor = 1.0f / sqrtf(squares / columns + epsilon);
        #pragma omp simd
        for (int64_t j = 0; j < columns; j++)
            to[j] = (from[j] - mean) * factor * scale[j] + shift[j];
    }
}
