/* Asks NVIDIA's occupancy calculator, cuda_occupancy.h, about arrays of configurations.
 *
 * A configuration is a row of 64-bit integers and so is an answer; header.py, which compiles this
 * file, names their columns. Negative inputs mean "not set".
 */
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include <cuda_occupancy.h>

enum { INPUTS = 23, OUTPUTS = 16 };

/* Dynamic shared memory as a function of the block: a line, for the calculator's callback. */
static int64_t slope, intercept;

static size_t bytes_of_block(int block_threads) {
    return (size_t)(slope * block_threads + intercept);
}

static int64_t or_unlimited(int value) { return value == INT_MAX ? -1 : value; }

static void ask(const int64_t *in, int64_t *out) {
    cudaOccDeviceProp device;
    cudaOccFuncAttributes kernel;
    cudaOccDeviceState state;
    cudaOccResult result;
    size_t available = 0;
    int grid = 0, block = 0;
    int block_threads = (int)in[18], i;
    size_t dynamic = (size_t)in[19];

    memset(&device, 0, sizeof device);
    memset(&kernel, 0, sizeof kernel);
    memset(&state, 0, sizeof state);
    memset(&result, 0, sizeof result);
    for (i = 0; i < OUTPUTS; ++i) out[i] = -1;

    device.computeMajor = (int)in[0];
    device.computeMinor = (int)in[1];
    device.maxThreadsPerBlock = (int)in[2];
    device.maxThreadsPerMultiprocessor = (int)in[3];
    device.regsPerBlock = (int)in[4];
    device.regsPerMultiprocessor = (int)in[5];
    device.warpSize = (int)in[6];
    device.sharedMemPerBlock = (size_t)in[7];
    device.sharedMemPerMultiprocessor = (size_t)in[8];
    device.numSms = (int)in[9];
    device.sharedMemPerBlockOptin = (size_t)in[10];
    device.reservedSharedMemPerBlock = (size_t)in[11];

    kernel.maxThreadsPerBlock = (int)in[12];
    kernel.numRegs = (int)in[13];
    kernel.sharedSizeBytes = (size_t)in[14];
    kernel.shmemLimitConfig = in[15] < 0 ? FUNC_SHMEM_LIMIT_DEFAULT : FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = in[15] < 0 ? (size_t)INT_MAX : (size_t)in[15];
    kernel.numBlockBarriers = (int)in[16];
    kernel.virtualResourceCount = (int)in[17];
    state.carveoutConfig = in[20] < 0 ? SHAREDMEM_CARVEOUT_DEFAULT : (int)in[20];

    out[0] = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &device, &kernel, &state, block_threads, dynamic);
    if (out[0] == CUDA_OCC_SUCCESS) {
        out[1] = result.activeBlocksPerMultiprocessor;
        out[2] = or_unlimited(result.blockLimitWarps);
        out[3] = or_unlimited(result.blockLimitRegs);
        out[4] = or_unlimited(result.blockLimitSharedMem);
        out[5] = or_unlimited(result.blockLimitBlocks);
        out[6] = or_unlimited(result.blockLimitBarriers);
        out[7] = or_unlimited(result.blockLimitVirtual);
        out[8] = result.allocatedRegistersPerBlock;
        out[9] = (int64_t)result.allocatedSharedMemPerBlock;
        out[10] = result.limitingFactors;
    }
    slope = in[21];
    intercept = (int64_t)dynamic;
    out[11] = cudaOccMaxPotentialOccupancyBlockSize(
        &grid, &block, &device, &kernel, &state, slope ? bytes_of_block : NULL, dynamic);
    if (out[11] == CUDA_OCC_SUCCESS) {
        out[12] = block;
        out[13] = grid;
    }
    out[14] = cudaOccAvailableDynamicSMemPerBlock(
        &available, &device, &kernel, &state, (int)in[22], block_threads);
    if (out[14] == CUDA_OCC_SUCCESS) out[15] = (int64_t)available;
}

void ask_all(int64_t count, const int64_t *in, int64_t *out) {
    int64_t row;
    for (row = 0; row < count; ++row) ask(in + row * INPUTS, out + row * OUTPUTS);
}
