/* What a generated file says of a kernel's code; not for programs. */
#ifndef KERNELDSL_CODE_H
#define KERNELDSL_CODE_H

#include "kerneldsl.h"

/* The entry of a kernel on the CPU: void(range, count, steps, launch). */
typedef void kd_entry(char **range, int64_t *count, int64_t *steps, char *launch);

/* Code for a level of processors. */
typedef struct {
    /* 1 for any, 2 to 4 for x86-64-v2 to v4. */
    int level;
    kd_entry *entry;
    /* Units of work: 0, blocks; 1, rows along the first axis of an extent; 2, along the last. */
    int rows_along;
    /* The longest row, after which a launch may be divided. */
    int64_t longest_row;
    /* Bytes that a block keeps between barriers of the grid; -1 for a kernel without any. */
    int64_t part_bytes;
} kd_cpu_code;

/* Code for GPUs. */
typedef struct {
    /* Compute capability times ten, such as 90. */
    int capability;
    /* PTX, which serves this capability and later ones; else a cubin for its major version. */
    int is_ptx;
    const char *entry;
    const unsigned char *image;
} kd_cuda_code;

/* Version of this structure. */
#define KD_CODE_VERSION 1

struct kd_kernel {
    /* KD_CODE_VERSION of the library that the kernel is of. Where a process has libraries of
     * several versions, the functions of one of them are called for all. */
    int version;
    /* Size of the arguments without extents, and where the extents follow. */
    size_t argument_bytes;
    size_t extent_offset;
    /* Rank of the extent; 0 for kernel[grid, block]. */
    int extent_ndim;
    /* The block that the code for the CPU is for; zeros if it serves every block. */
    kd_dim3 block;
    /* Whether the last axis of an extent is along x on a GPU, where the grid may be cut along y and
     * z; else the first one is. */
    int is_mapped;
    /* Whether a launch on a GPU is cooperative. */
    int is_cooperative;
    /* Where each parameter begins, for the driver. */
    int parameter_count;
    const uint16_t *offsets;
    int cpu_count;
    const kd_cpu_code *cpu;
    int cuda_count;
    const kd_cuda_code *cuda;
};

/* Return the bytes of arguments with extents. */
static inline size_t kd_parameter_bytes(const kd_kernel *kernel)
{
    return kernel->extent_ndim ? kernel->extent_offset + 8 * (size_t)kernel->extent_ndim
                               : kernel->argument_bytes;
}

#endif
