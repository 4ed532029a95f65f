// The kernels of integers.py as a CUDA programmer writes them.

extern "C" __global__ void hash_rounds(const unsigned *x, unsigned *out, int rounds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned h = x[i];
        for (int k = 0; k < rounds; k++) {
            h = (h ^ (h >> 16)) * 0x85ebca6bu;
            h = (h ^ (h >> 13)) * 0xc2b2ae35u;
            h ^= h >> 16;
        }
        out[i] = h;
    }
}

extern "C" __global__ void xorshift(const unsigned long long *state, unsigned long long *out,
                                    int rounds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned long long x = state[i];
        for (int k = 0; k < rounds; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        out[i] = x;
    }
}

extern "C" __global__ void modular_power(const long long *base, const long long *exponent,
                                         long long *out, long long modulus, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        long long result = 1, power = base[i] % modulus, left = exponent[i];
        while (left > 0) {
            if (left & 1)
                result = result * power % modulus;
            power = power * power % modulus;
            left >>= 1;
        }
        out[i] = result;
    }
}

extern "C" __global__ void collatz(const long long *x, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        long long value = x[i];
        int steps = 0;
        while (value != 1) {
            value = value % 2 == 0 ? value / 2 : 3 * value + 1;
            steps++;
        }
        out[i] = steps;
    }
}

extern "C" __global__ void checksum(const unsigned *words, unsigned *out, int length, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned crc = 0xffffffffu;
        for (int k = 0; k < length; k++) {
            crc ^= words[k * n + i];
            for (int bit = 0; bit < 32; bit++)
                crc = (crc >> 1) ^ ((crc & 1) * 0xedb88320u);
        }
        out[i] = ~crc;
    }
}

extern "C" __global__ void grey_levels(const unsigned char *image, unsigned char *out, int height,
                                       int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        const unsigned char *pixel = image + 3 * (y * width + x);
        out[y * width + x] = (pixel[0] * 77 + pixel[1] * 150 + pixel[2] * 29) >> 8;
    }
}

extern "C" __global__ void set_bits(const unsigned *words, int *counts, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int total = 0;
        for (int k = 0; k < width; k++)
            total += __popc(words[i * width + k]);
        counts[i] = total;
    }
}

extern "C" __global__ void visit_neighbours(const int *starts, const int *targets, int *level,
                                            int depth, int *changed, int n)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < n && level[node] == depth) {
        for (int k = starts[node]; k < starts[node + 1]; k++) {
            int target = targets[k];
            if (level[target] < 0) {
                level[target] = depth + 1;
                *changed = 1;
            }
        }
    }
}
