// The kernels of records.py as a CUDA programmer writes them.

struct Particle {
    float x, y, z, vx, vy, vz;
};

extern "C" __global__ void move_particles(Particle *particles, float step, float gravity, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Particle &p = particles[i];
        p.vz -= gravity * step;
        p.x += p.vx * step;
        p.y += p.vy * step;
        p.z += p.vz * step;
        if (p.z < 0.0f) {
            p.z = -p.z;
            p.vz = -0.9f * p.vz;
        }
    }
}

extern "C" __global__ void median_of_nine(const float *image, float *out, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1) {
        float values[9];
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++)
                values[dy * 3 + dx] = image[(y + dy - 1) * width + x + dx - 1];
        for (int i = 0; i < 5; i++) {
            for (int j = i + 1; j < 9; j++) {
                if (values[j] < values[i]) {
                    float least = values[j];
                    values[j] = values[i];
                    values[i] = least;
                }
            }
        }
        out[y * width + x] = values[4];
    }
}

extern "C" __global__ void look_up(const unsigned char *image, const float *table, float *out,
                                   int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = table[image[i]];
}

extern "C" __global__ void gather(const int *indices, const float *values, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = values[indices[i]];
}

extern "C" __global__ void bin_counts_2d(const float *x, const float *y, int *counts, float low,
                                         float scale, int height, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int column = (int)((x[i] - low) * scale), row = (int)((y[i] - low) * scale);
        if (0 <= column && column < width && 0 <= row && row < height)
            atomicAdd(&counts[row * width + column], 1);
    }
}
