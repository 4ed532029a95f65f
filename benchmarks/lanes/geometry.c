/* The kernels of geometry.py as a C programmer writes them. */
#include <math.h>
#include <stdint.h>
#include <string.h>

void attract(const float *restrict x, const float *restrict y, const float *restrict z,
             const float *restrict mass, float *restrict ax, float *restrict ay,
             float *restrict az, float softening, int64_t n)
{
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        float sx = 0.0f, sy = 0.0f, sz = 0.0f;
        #pragma omp simd reduction(+ : sx, sy, sz)
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + softening);
            float weight = mass[j] * inverse * inverse * inverse;
            sx += dx * weight;
            sy += dy * weight;
            sz += dz * weight;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}

enum { CENTRES = 16 };

void assign(const float *restrict points, const float *restrict centres, int32_t *restrict labels,
            float *restrict sums, int32_t *restrict counts, int64_t n)
{
    const float *x = points, *y = points + n, *z = points + 2 * n;
    float sum[CENTRES * 3] = {0};
    int32_t count[CENTRES] = {0};
    #pragma omp parallel
    {
        #pragma omp for simd
        for (int64_t i = 0; i < n; i++) {
            float least = INFINITY;
            int32_t nearest = 0;
            for (int32_t k = 0; k < CENTRES; k++) {
                float dx = x[i] - centres[3 * k], dy = y[i] - centres[3 * k + 1];
                float dz = z[i] - centres[3 * k + 2];
                float distance = dx * dx + dy * dy + dz * dz;
                nearest = distance < least ? k : nearest;
                least = distance < least ? distance : least;
            }
            labels[i] = nearest;
        }
        #pragma omp for reduction(+ : sum, count)
        for (int64_t i = 0; i < n; i++) {
            int32_t k = labels[i];
            sum[3 * k] += x[i];
            sum[3 * k + 1] += y[i];
            sum[3 * k + 2] += z[i];
            count[k]++;
        }
    }
    memcpy(sums, sum, sizeof sum);
    memcpy(counts, count, sizeof count);
}

enum { LARGEST_WIDTH = 4096 };

/* Spheres are the outer loop over the rays of a row, so that rays are what is vectorized. */
void trace(const float *restrict spheres, float *restrict image, int64_t count, int64_t width,
           int64_t height)
{
    #pragma omp parallel for
    for (int64_t row = 0; row < height; row++) {
        float dx[LARGEST_WIDTH], dy[LARGEST_WIDTH], dz[LARGEST_WIDTH], nearest[LARGEST_WIDTH];
        int32_t hit[LARGEST_WIDTH];
        #pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            float u = ((float)i + 0.5f) / (float)width - 0.5f;
            float v = ((float)row + 0.5f) / (float)height - 0.5f;
            float factor = 1.0f / sqrtf(u * u + v * v + 1.0f);
            dx[i] = u * factor;
            dy[i] = v * factor;
            dz[i] = factor;
            nearest[i] = INFINITY;
            hit[i] = -1;
        }
        for (int32_t s = 0; s < count; s++) {
            float cx = spheres[4 * s], cy = spheres[4 * s + 1], cz = spheres[4 * s + 2];
            float r = spheres[4 * s + 3], c = cx * cx + cy * cy + cz * cz - r * r;
            #pragma omp simd
            for (int64_t i = 0; i < width; i++) {
                float b = dx[i] * cx + dy[i] * cy + dz[i] * cz, inside = b * b - c;
                float at = b - sqrtf(inside > 0.0f ? inside : 0.0f);
                int found = inside > 0.0f && at > 0.0f && at < nearest[i];
                nearest[i] = found ? at : nearest[i];
                hit[i] = found ? s : hit[i];
            }
        }
        #pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            const float *sphere = spheres + 4 * (hit[i] < 0 ? 0 : hit[i]);
            float t = hit[i] < 0 ? 0.0f : nearest[i], r = sphere[3];
            float nx = (t * dx[i] - sphere[0]) / r, ny = (t * dy[i] - sphere[1]) / r;
            float nz = (t * dz[i] - sphere[2]) / r;
            float light = 0.6f * nx - 0.48f * ny - 0.64f * nz;
            image[row * width + i] = hit[i] < 0 ? 0.0f : light > 0.1f ? light : 0.1f;
        }
    }
}
