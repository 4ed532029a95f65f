// The kernels of benchmarks/lanes as a CUDA programmer writes them.

__device__ float distribution(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float tail = 0.39894228f * expf(-0.5f * d * d) * k
                 * (0.31938153f
                    + k * (-0.356563782f
                           + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    return d > 0.0f ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(const float *spot, const float *strike,
                                         const float *years, float *call, float *put, float rate,
                                         float volatility, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float root = sqrtf(years[i]);
        float drift = (rate + 0.5f * volatility * volatility) * years[i];
        float d1 = (logf(spot[i] / strike[i]) + drift) / (volatility * root);
        float d2 = d1 - volatility * root;
        float first = distribution(d1), second = distribution(d2);
        float discounted = strike[i] * expf(-rate * years[i]);
        call[i] = spot[i] * first - discounted * second;
        put[i] = discounted * (1.0f - second) - spot[i] * (1.0f - first);
    }
}

extern "C" __global__ void gelu(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

extern "C" __global__ void polar(const float *radius, const float *angle, float *x, float *y,
                                 int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float r = radius[i], phi = angle[i];
        x[i] = r * cosf(phi);
        y[i] = r * sinf(phi);
    }
}

extern "C" __global__ void multiply_adds(const float *x, float *out, int rounds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        for (int k = 0; k < rounds; k++)
            value = value * 0.99f + 0.125f;
        out[i] = value;
    }
}

__device__ unsigned hashed(unsigned i)
{
    unsigned state = i * 747796405u + 2891336453u;
    unsigned word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
    return (word >> 22) ^ word;
}

__device__ unsigned next_state(unsigned state)
{
    return state * 1664525u + 1013904223u;
}

__device__ float uniform(unsigned state)
{
    return ((float)(state >> 8) + 0.5f) * 5.9604644775390625e-8f;
}

extern "C" __global__ void circle(int *hits, int samples, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned state = hashed(i);
        int inside = 0;
        for (int k = 0; k < samples; k++) {
            state = next_state(state);
            float x = uniform(state);
            state = next_state(state);
            float y = uniform(state);
            if (x * x + y * y < 1.0f)
                inside++;
        }
        hits[i] = inside;
    }
}

extern "C" __global__ void asian_option(float *payoff, float strike, float drift,
                                        float deviation, int steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned state = hashed(i);
        float price = 1.0f, total = 0.0f;
        for (int k = 0; k < steps; k++) {
            state = next_state(state);
            float radius = sqrtf(-2.0f * logf(uniform(state)));
            state = next_state(state);
            float normal = radius * cosf(6.2831853f * uniform(state));
            price *= expf(drift + deviation * normal);
            total += price;
        }
        payoff[i] = fmaxf(total / (float)steps - strike, 0.0f);
    }
}

extern "C" __global__ void mandelbrot(int *out, int rounds, int height, int width)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && column < width) {
        float c_re = -2.0f + 3.0f / (float)width * (float)column;
        float c_im = -1.5f + 3.0f / (float)height * (float)row;
        float x = 0.0f, y = 0.0f;
        int count = 0;
        while (count < rounds && x * x + y * y <= 4.0f) {
            float next = x * x - y * y + c_re;
            y = 2.0f * x * y + c_im;
            x = next;
            count++;
        }
        out[row * width + column] = count;
    }
}

extern "C" __global__ void julia(int *out, float c_re, float c_im, int rounds, int height,
                                 int width)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && column < width) {
        float x = -1.5f + 3.0f / (float)width * (float)column;
        float y = -1.5f + 3.0f / (float)height * (float)row;
        int count = rounds;
        for (int k = 0; k < rounds; k++) {
            float xx = x * x, yy = y * y;
            if (xx + yy > 4.0f) {
                count = k;
                break;
            }
            y = 2.0f * x * y + c_im;
            x = xx - yy + c_re;
        }
        out[row * width + column] = count;
    }
}

extern "C" __global__ void stencil(const float *a, float *out, float centre, float side,
                                   int depth, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1 && 0 < z && z < depth - 1) {
        int plane = height * width, i = z * plane + y * width + x;
        out[i] = centre * a[i]
                 + side * (a[i - 1] + a[i + 1] + a[i - width] + a[i + width] + a[i - plane]
                           + a[i + plane]);
    }
}

extern "C" __global__ void blur_rows(const float *image, const float *weights, float *out,
                                     int height, int width)
{
    __shared__ float tile[128 + 16];
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, t = threadIdx.x;
    int start = blockIdx.x * blockDim.x - 8;
    for (int k = t; k < blockDim.x + 16; k += blockDim.x)
        tile[k] = image[y * width + min(max(start + k, 0), width - 1)];
    __syncthreads();
    if (x < width) {
        float total = 0.0f;
        for (int k = 0; k < 17; k++)
            total += weights[k] * tile[t + k];
        out[y * width + x] = total;
    }
}

extern "C" __global__ void blur_columns(const float *image, const float *weights, float *out,
                                        int height, int width)
{
    __shared__ float tile[8 + 16][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * blockDim.x + tx, y = blockIdx.y * blockDim.y + ty;
    int start = blockIdx.y * blockDim.y - 8;
    for (int k = ty; k < blockDim.y + 16; k += blockDim.y)
        tile[k][tx] = image[min(max(start + k, 0), height - 1) * width + min(x, width - 1)];
    __syncthreads();
    if (x < width && y < height) {
        float total = 0.0f;
        for (int k = 0; k < 17; k++)
            total += weights[k] * tile[ty + k][tx];
        out[y * width + x] = total;
    }
}

extern "C" __global__ void fdtd_magnetic(const float *ez, float *hx, float *hy, float factor,
                                         int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width - 1 && y < height - 1) {
        int i = y * width + x;
        hx[i] -= factor * (ez[i + width] - ez[i]);
        hy[i] += factor * (ez[i + 1] - ez[i]);
    }
}

extern "C" __global__ void fdtd_electric(float *ez, const float *hx, const float *hy,
                                         float factor, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1) {
        int i = y * width + x;
        ez[i] += factor * (hy[i] - hy[i - 1] - hx[i] + hx[i - width]);
    }
}

extern "C" __global__ void shorten_paths(float *distance, int k, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < n) {
        float through = distance[i * n + k] + distance[k * n + j];
        if (through < distance[i * n + j])
            distance[i * n + j] = through;
    }
}

__device__ float brightness(int column, int row, int width, int height, const float *spheres,
                            int count)
{
    float u = ((float)column + 0.5f) / (float)width - 0.5f;
    float v = ((float)row + 0.5f) / (float)height - 0.5f;
    float dz = 1.0f / sqrtf(u * u + v * v + 1.0f), dx = u * dz, dy = v * dz;
    float nearest = __int_as_float(0x7f800000);
    int hit = -1;
    for (int s = 0; s < count; s++) {
        float cx = spheres[4 * s], cy = spheres[4 * s + 1], cz = spheres[4 * s + 2];
        float radius = spheres[4 * s + 3];
        float b = dx * cx + dy * cy + dz * cz;
        float inside = b * b - (cx * cx + cy * cy + cz * cz - radius * radius);
        if (inside > 0.0f) {
            float at = b - sqrtf(inside);
            if (0.0f < at && at < nearest) {
                nearest = at;
                hit = s;
            }
        }
    }
    if (hit < 0)
        return 0.0f;
    float radius = spheres[4 * hit + 3];
    float nx = (nearest * dx - spheres[4 * hit]) / radius;
    float ny = (nearest * dy - spheres[4 * hit + 1]) / radius;
    float nz = (nearest * dz - spheres[4 * hit + 2]) / radius;
    return fmaxf(0.6f * nx - 0.48f * ny - 0.64f * nz, 0.1f);
}

extern "C" __global__ void trace(const float *spheres, float *image, int count, int height,
                                 int width)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < width && row < height)
        image[row * width + column] = brightness(column, row, width, height, spheres, count);
}

extern "C" __global__ void histogram(const unsigned char *x, int *counts, int n)
{
    __shared__ int bins[256];
    int t = threadIdx.x;
    bins[t] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    atomicAdd(&counts[t], bins[t]);
}

extern "C" __global__ void sort_rows(const float *x, float *out)
{
    __shared__ float keys[1024];
    int t = threadIdx.x, i = blockIdx.x * 1024 + t;
    keys[t] = x[i];
    __syncthreads();
    for (int span = 2; span <= blockDim.x; span *= 2) {
        for (int step = span / 2; step > 0; step /= 2) {
            int other = t ^ step;
            if (other > t) {
                float low = keys[t], high = keys[other];
                if ((low > high) == ((t & span) == 0)) {
                    keys[t] = high;
                    keys[other] = low;
                }
            }
            __syncthreads();
        }
    }
    out[i] = keys[t];
}

extern "C" __global__ void scan_blocks(const int *x, int *out, int *totals, int n)
{
    __shared__ int sums[1024];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int value = sums[t];
        if (t >= step)
            value += sums[t - step];
        __syncthreads();
        sums[t] = value;
        __syncthreads();
    }
    if (i < n)
        out[i] = sums[t];
    if (t == blockDim.x - 1)
        totals[blockIdx.x] = sums[t];
}

extern "C" __global__ void add_totals(int *out, const int *totals, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && blockIdx.x > 0)
        out[i] += totals[blockIdx.x - 1];
}

extern "C" __global__ void attract(const float *x, const float *y, const float *z,
                                   const float *mass, float *ax, float *ay, float *az,
                                   float softening, int n)
{
    __shared__ float tile_x[128], tile_y[128], tile_z[128], tile_mass[128];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float xi = x[i], yi = y[i], zi = z[i], sx = 0.0f, sy = 0.0f, sz = 0.0f;
    for (int start = 0; start < n; start += 128) {
        tile_x[t] = x[start + t];
        tile_y[t] = y[start + t];
        tile_z[t] = z[start + t];
        tile_mass[t] = mass[start + t];
        __syncthreads();
        for (int j = 0; j < 128; j++) {
            float dx = tile_x[j] - xi, dy = tile_y[j] - yi, dz = tile_z[j] - zi;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float weight = tile_mass[j] * inverse * inverse * inverse;
            sx += dx * weight;
            sy += dy * weight;
            sz += dz * weight;
        }
        __syncthreads();
    }
    ax[i] = sx;
    ay[i] = sy;
    az[i] = sz;
}

extern "C" __global__ void assign(const float *points, const float *centres, int *labels,
                                  float *sums, int *counts, int n)
{
    __shared__ float block_sums[16][3];
    __shared__ int block_counts[16];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 16) {
        block_counts[t] = 0;
        for (int axis = 0; axis < 3; axis++)
            block_sums[t][axis] = 0.0f;
    }
    __syncthreads();
    if (i < n) {
        float x = points[i], y = points[n + i], z = points[2 * n + i];
        float least = __int_as_float(0x7f800000);
        int nearest = 0;
        for (int k = 0; k < 16; k++) {
            float dx = x - centres[3 * k], dy = y - centres[3 * k + 1];
            float dz = z - centres[3 * k + 2];
            float distance = dx * dx + dy * dy + dz * dz;
            if (distance < least) {
                least = distance;
                nearest = k;
            }
        }
        labels[i] = nearest;
        atomicAdd(&block_sums[nearest][0], x);
        atomicAdd(&block_sums[nearest][1], y);
        atomicAdd(&block_sums[nearest][2], z);
        atomicAdd(&block_counts[nearest], 1);
    }
    __syncthreads();
    if (t < 16) {
        atomicAdd(&counts[t], block_counts[t]);
        for (int axis = 0; axis < 3; axis++)
            atomicAdd(&sums[3 * t + axis], block_sums[t][axis]);
    }
}

extern "C" __global__ void align(const signed char *a, const signed char *b, int *best)
{
    __shared__ int cells[3][257], scores[256];
    int pair = blockIdx.x, t = threadIdx.x;
    for (int k = 0; k < 3; k++) {
        cells[k][t + 1] = 0;
        if (t == 0)
            cells[k][0] = 0;
    }
    signed char letter = a[pair * 256 + t];
    int score = 0;
    __syncthreads();
    for (int d = 0; d < 511; d++) {
        int column = d - t;
        if (0 <= column && column < 256) {
            int now = d % 3, before = (d + 2) % 3, earlier = (d + 1) % 3;
            int value = cells[earlier][t] + (letter == b[pair * 256 + column] ? 2 : -1);
            value = max(value, max(cells[before][t], cells[before][t + 1]) - 1);
            value = max(value, 0);
            cells[now][t + 1] = value;
            score = max(score, value);
        }
        __syncthreads();
    }
    scores[t] = score;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (t < step)
            scores[t] = max(scores[t], scores[t + step]);
        __syncthreads();
    }
    if (t == 0)
        best[pair] = scores[0];
}

extern "C" __global__ void multiply(const float *a, const float *b, float *c, int n)
{
    __shared__ float tile_a[16][16], tile_b[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int column = blockIdx.x * blockDim.x + tx, row = blockIdx.y * blockDim.y + ty;
    float total = 0.0f;
    for (int start = 0; start < n; start += 16) {
        tile_a[ty][tx] = a[row * n + start + tx];
        tile_b[ty][tx] = b[(start + ty) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            total += tile_a[ty][k] * tile_b[k][tx];
        __syncthreads();
    }
    c[row * n + column] = total;
}

extern "C" __global__ void softmax(const float *x, float *out, int columns)
{
    __shared__ float s[128];
    int row = blockIdx.x, t = threadIdx.x;
    float largest = __int_as_float(0xff800000);
    for (int j = t; j < columns; j += 128)
        largest = fmaxf(largest, x[row * columns + j]);
    s[t] = largest;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (t < step)
            s[t] = fmaxf(s[t], s[t + step]);
        __syncthreads();
    }
    largest = s[0];
    __syncthreads();
    float total = 0.0f;
    for (int j = t; j < columns; j += 128)
        total += expf(x[row * columns + j] - largest);
    s[t] = total;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    total = s[0];
    for (int j = t; j < columns; j += 128)
        out[row * columns + j] = expf(x[row * columns + j] - largest) / total;
}

__device__ float block_sum(float *partial, int t, float value)
{
    partial[t] = value;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (t < step)
            partial[t] += partial[t + step];
        __syncthreads();
    }
    float total = partial[0];
    __syncthreads();
    return total;
}

extern "C" __global__ void layer_norm(const float *x, const float *scale, const float *shift,
                                      float *out, float epsilon, int columns)
{
    __shared__ float partial[128];
    int row = blockIdx.x, t = threadIdx.x;
    float total = 0.0f;
    for (int j = t; j < columns; j += blockDim.x)
        total += x[row * columns + j];
    float mean = block_sum(partial, t, total) / (float)columns;
    total = 0.0f;
    for (int j = t; j < columns; j += blockDim.x) {
        float centred = x[row * columns + j] - mean;
        total += centred * centred;
    }
    float factor = rsqrtf(block_sum(partial, t, total) / (float)columns + epsilon);
    for (int j = t; j < columns; j += blockDim.x)
        out[row * columns + j] = (x[row * columns + j] - mean) * factor * scale[j] + shift[j];
}

extern "C" __global__ void multiply_by_threads(const int *starts, const int *columns,
                                               const float *values, const float *x, float *y,
                                               int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        float total = 0.0f;
        for (int k = starts[row]; k < starts[row + 1]; k++)
            total += values[k] * x[columns[k]];
        y[row] = total;
    }
}

extern "C" __global__ void multiply_by_warps(const int *starts, const int *columns,
                                             const float *values, const float *x, float *y, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row < n) {
        float total = 0.0f;
        for (int k = starts[row] + lane; k < starts[row + 1]; k += 32)
            total += values[k] * x[columns[k]];
        for (int step = 16; step > 0; step /= 2)
            total += __shfl_down_sync(0xffffffff, total, step);
        if (lane == 0)
            y[row] = total;
    }
}
