// The kernels of blocks.py as a CUDA programmer writes them.

extern "C" __global__ void fourier_transform(float *re, float *im)
{
    __shared__ float x[1024], y[1024];
    int t = threadIdx.x, row = blockIdx.x * 1024;
    for (int k = t; k < 1024; k += blockDim.x) {
        unsigned reverse = __brev(k) >> 22;
        x[reverse] = re[row + k];
        y[reverse] = im[row + k];
    }
    __syncthreads();
    for (int half = 1; half < 1024; half *= 2) {
        int place = t % half, first = t / half * 2 * half + place, second = first + half;
        float angle = -3.14159265f * (float)place / (float)half;
        float c = cosf(angle), s = sinf(angle);
        float u = x[second] * c - y[second] * s, v = x[second] * s + y[second] * c;
        x[second] = x[first] - u;
        y[second] = y[first] - v;
        x[first] += u;
        y[first] += v;
        __syncthreads();
    }
    for (int k = t; k < 1024; k += blockDim.x) {
        re[row + k] = x[k];
        im[row + k] = y[k];
    }
}

extern "C" __global__ void cheapest_paths(const int *wall, const int *costs, int *out, int width)
{
    __shared__ int before[256];
    int t = threadIdx.x, column = blockIdx.x * (256 - 2 * 32) + t - 32;
    int cost = costs[min(max(column, 0), width - 1)];
    for (int row = 0; row < 32; row++) {
        before[t] = cost;
        __syncthreads();
        int least = min(before[max(t - 1, 0)], min(before[t], before[min(t + 1, 255)]));
        if (0 <= column && column < width)
            cost = least + wall[row * width + column];
        __syncthreads();
    }
    if (32 <= t && t < 256 - 32 && column < width)
        out[column] = cost;
}

extern "C" __global__ void scan_by_warps(const int *x, int *out)
{
    __shared__ int warps[32];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, lane = t % 32, warp = t / 32;
    int value = x[i];
    for (int distance = 1; distance < 32; distance *= 2) {
        int other = __shfl_up_sync(0xffffffff, value, distance);
        if (lane >= distance)
            value += other;
    }
    if (lane == 31)
        warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int total = warps[lane];
        for (int distance = 1; distance < 32; distance *= 2) {
            int other = __shfl_up_sync(0xffffffff, total, distance);
            if (lane >= distance)
                total += other;
        }
        warps[lane] = total;
    }
    __syncthreads();
    if (warp > 0)
        value += warps[warp - 1];
    out[i] = value;
}

extern "C" __global__ void keep_positive(const float *x, float *out, int *counts)
{
    __shared__ int total;
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, lane = t % 32;
    if (t == 0)
        total = 0;
    __syncthreads();
    bool is_kept = x[i] > 0.0f;
    unsigned kept = __ballot_sync(0xffffffff, is_kept);
    int start = 0;
    if (lane == 0)
        start = atomicAdd(&total, __popc(kept));
    start = __shfl_sync(0xffffffff, start, 0);
    if (is_kept)
        out[blockIdx.x * blockDim.x + start + __popc(kept & ((1u << lane) - 1))] = x[i];
    __syncthreads();
    if (t == 0)
        counts[blockIdx.x] = total;
}
