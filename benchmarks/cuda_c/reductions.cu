// The kernels of reductions.py as a CUDA programmer writes them.

extern "C" __global__ void strided_sum(const float *x, float *out, int n)
{
    float total = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        total += x[i];
    for (int distance = 16; distance > 0; distance /= 2)
        total += __shfl_down_sync(0xffffffff, total, distance);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, total);
}

extern "C" __global__ void dot(const float *x, const float *y, float *partial, int n)
{
    __shared__ float warps[8];
    int t = threadIdx.x;
    float total = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
        total += x[i] * y[i];
    for (int distance = 16; distance > 0; distance /= 2)
        total += __shfl_down_sync(0xffffffff, total, distance);
    if (t % 32 == 0)
        warps[t / 32] = total;
    __syncthreads();
    if (t == 0) {
        total = 0.0f;
        for (int k = 0; k < 8; k++)
            total += warps[k];
        partial[blockIdx.x] = total;
    }
}

extern "C" __global__ void largest_of_blocks(const float *x, float *partial, int n)
{
    __shared__ float values[256];
    int t = threadIdx.x, first = blockIdx.x * blockDim.x + t;
    float value = x[first];
    for (int i = first; i < n; i += gridDim.x * blockDim.x)
        value = fmaxf(value, x[i]);
    values[t] = value;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (t < step)
            values[t] = fmaxf(values[t], values[t + step]);
        __syncthreads();
    }
    if (t == 0)
        partial[blockIdx.x] = values[0];
}

extern "C" __global__ void matrix_by_vector(const float *a, const float *x, float *y, int rows,
                                            int columns)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row < rows) {
        float total = 0.0f;
        for (int j = lane; j < columns; j += 32)
            total += a[row * columns + j] * x[j];
        for (int distance = 16; distance > 0; distance /= 2)
            total += __shfl_down_sync(0xffffffff, total, distance);
        if (lane == 0)
            y[row] = total;
    }
}

extern "C" __global__ void vector_by_matrix(const float *a, const float *x, float *y, int rows,
                                            int columns)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < columns) {
        float total = 0.0f;
        for (int i = 0; i < rows; i++)
            total += a[i * columns + j] * x[i];
        y[j] = total;
    }
}
