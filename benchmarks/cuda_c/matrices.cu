// The kernels of matrices.py as a CUDA programmer writes them.

extern "C" __global__ void transpose(const float *a, float *out, int n)
{
    __shared__ float tile[32][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 32 + tx, y = blockIdx.y * 32 + ty;
    for (int k = 0; k < 32; k += 8)
        tile[ty + k][tx] = a[(y + k) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + tx;
    y = blockIdx.x * 32 + ty;
    for (int k = 0; k < 32; k += 8)
        out[(y + k) * n + x] = tile[tx][ty + k];
}

extern "C" __global__ void product_f64(const double *a, const double *b, double *c, int n)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < n && column < n) {
        double total = 0.0;
        for (int k = 0; k < n; k++)
            total += a[row * n + k] * b[k * n + column];
        c[row * n + column] = total;
    }
}

extern "C" __global__ void rank_updates(const float *a, const float *b, float *c, float alpha,
                                        float beta, int n, int m)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < n) {
        float total = 0.0f;
        for (int k = 0; k < m; k++)
            total += a[j * m + k] * alpha * b[i * m + k] + b[j * m + k] * alpha * a[i * m + k];
        c[i * n + j] = c[i * n + j] * beta + total;
    }
}

extern "C" __global__ void covariances(const float *data, const float *mean, float *out, int rows,
                                       int columns)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < columns && j < columns && i <= j) {
        float total = 0.0f;
        for (int k = 0; k < rows; k++)
            total += (data[k * columns + i] - mean[i]) * (data[k * columns + j] - mean[j]);
        total /= (float)(rows - 1);
        out[i * columns + j] = total;
        out[j * columns + i] = total;
    }
}

extern "C" __global__ void swap_axes(const float *a, float *out, int depth, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < width && y < height && z < depth)
        out[(y * depth + z) * width + x] = a[(z * height + y) * width + x];
}

extern "C" __global__ void register_tiles(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[64][16], right[16][64];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int start = 0; start < n; start += 16) {
        for (int k = 0; k < 4; k++) {
            left[t / 16 + 16 * k][t % 16] = a[(row + t / 16 + 16 * k) * n + start + t % 16];
            right[t / 64 + 4 * k][t % 64] = b[(start + t / 64 + 4 * k) * n + column + t % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += left[ty * 4 + i][k] * right[k][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + ty * 4 + i) * n + column + tx * 4 + j] = sums[i][j];
}
