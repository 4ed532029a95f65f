// The kernels of fields.py as a CUDA programmer writes them.

extern "C" __global__ void heat(const float *u, float *out, float factor, int depth, int height,
                                int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1 && 0 < z && z < depth - 1) {
        int plane = height * width, i = z * plane + y * width + x;
        float middle = u[i];
        float around = u[i - 1] + u[i + 1] + u[i - width] + u[i + width] + u[i - plane]
                       + u[i + plane];
        out[i] = middle + factor * (around - 6.0f * middle);
    }
}

extern "C" __global__ void jacobi_f64(const double *u, const double *source, double *out,
                                      int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1) {
        int i = y * width + x;
        out[i] = 0.25 * (u[i - width] + u[i + width] + u[i - 1] + u[i + 1] - source[i]);
    }
}

extern "C" __global__ void hot_spots(const float *temperature, const float *power, float *out,
                                     float step, float along_x, float along_y, float up,
                                     float ambient, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float here = temperature[y * width + x];
        float north = temperature[max(y - 1, 0) * width + x];
        float south = temperature[min(y + 1, height - 1) * width + x];
        float west = temperature[y * width + max(x - 1, 0)];
        float east = temperature[y * width + min(x + 1, width - 1)];
        float change = power[y * width + x] + (north + south - 2.0f * here) * along_y
                       + (east + west - 2.0f * here) * along_x + (ambient - here) * up;
        out[y * width + x] = here + step * change;
    }
}

extern "C" __global__ void bilateral(const float *image, float *out, float space, float colour,
                                     int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float centre = image[y * width + x], total = 0.0f, weights = 0.0f;
        for (int dy = -3; dy <= 3; dy++) {
            for (int dx = -3; dx <= 3; dx++) {
                float value = image[min(max(y + dy, 0), height - 1) * width
                                    + min(max(x + dx, 0), width - 1)];
                float difference = value - centre, distance = dx * dx + dy * dy;
                float weight = expf(-distance * space - difference * difference * colour);
                total += weight * value;
                weights += weight;
            }
        }
        out[y * width + x] = total / weights;
    }
}

__device__ float relaxed(float weight, float velocity, float square)
{
    return weight * (square + 3.0f * velocity + 4.5f * velocity * velocity);
}

extern "C" __global__ void lattice_boltzmann(const float *f, float *out, float omega, int height,
                                             int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1) {
        int n = height * width, i = y * width + x;
        float f0 = f[i], f1 = f[n + i - 1], f2 = f[2 * n + i - width], f3 = f[3 * n + i + 1];
        float f4 = f[4 * n + i + width], f5 = f[5 * n + i - width - 1];
        float f6 = f[6 * n + i - width + 1], f7 = f[7 * n + i + width + 1];
        float f8 = f[8 * n + i + width - 1];
        float density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
        float vx = (f1 + f5 + f8 - f3 - f6 - f7) / density;
        float vy = (f2 + f5 + f6 - f4 - f7 - f8) / density;
        float square = 1.0f - 1.5f * (vx * vx + vy * vy);
        float rest = 4.0f / 9.0f * density, straight = 1.0f / 9.0f * density;
        float diagonal = 1.0f / 36.0f * density;
        out[i] = f0 + omega * (rest * square - f0);
        out[n + i] = f1 + omega * (relaxed(straight, vx, square) - f1);
        out[2 * n + i] = f2 + omega * (relaxed(straight, vy, square) - f2);
        out[3 * n + i] = f3 + omega * (relaxed(straight, -vx, square) - f3);
        out[4 * n + i] = f4 + omega * (relaxed(straight, -vy, square) - f4);
        out[5 * n + i] = f5 + omega * (relaxed(diagonal, vx + vy, square) - f5);
        out[6 * n + i] = f6 + omega * (relaxed(diagonal, vy - vx, square) - f6);
        out[7 * n + i] = f7 + omega * (relaxed(diagonal, -vx - vy, square) - f7);
        out[8 * n + i] = f8 + omega * (relaxed(diagonal, vx - vy, square) - f8);
    }
}
