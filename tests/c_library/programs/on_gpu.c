/* Launches kernels on a GPU, and copies their results to compare them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum { N = 100032 };

static int (*allocate)(uintptr_t *, size_t);
static int (*to_device)(uintptr_t, const void *, size_t);
static int (*to_host)(void *, uintptr_t, size_t);

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        printf("%s is missing\n", name);
        exit(1);
    }
    return found;
}

static void *on_gpu(const void *data, size_t nbytes)
{
    uintptr_t address = 0;
    if (allocate(&address, nbytes) != 0 || to_device(address, data, nbytes) != 0) {
        printf("no memory of the GPU\n");
        exit(1);
    }
    return (void *)address;
}

static void check(const char *what, kd_status status, int is_right)
{
    printf("%s: %s %s\n", what, status ? kd_cuda_error() : kd_status_text(status),
           is_right ? "right" : "wrong");
}

int main(void)
{
    static float x[N], y[N], sums[N / 64];
    static double values[N];
    double total[1] = {0};
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 1;
        values[i] = i % 2;
    }
    /* A launch makes the primary context current, in which memory is allocated. */
    kernels_axpy_float32_args none = {2, {NULL, {0}}, {NULL, {0}}};
    kd_status status = kernels_axpy_float32_cuda(&none, 1, NULL);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (status != KD_SUCCESS || library == NULL) {
        printf("%s %s\n", kd_status_text(status), kd_cuda_error());
        return 1;
    }
    *(void **)&allocate = find(library, "cuMemAlloc_v2");
    *(void **)&to_device = find(library, "cuMemcpyHtoD_v2");
    *(void **)&to_host = find(library, "cuMemcpyDtoH_v2");

    float *gpu_x = on_gpu(x, sizeof x), *gpu_y = on_gpu(y, sizeof y);
    kernels_axpy_float32_args args = {2, {gpu_x, {N}}, {gpu_y, {N}}};
    status = kernels_axpy_float32_cuda(&args, N, NULL);
    to_host(y, (uintptr_t)gpu_y, sizeof y);
    int is_right = 1;
    for (int i = 0; i < N; i++)
        is_right &= y[i] == 2 * x[i] + 1;
    check("axpy", status, is_right);

    for (int i = 0; i < N; i++)
        x[i] = 1;
    to_device((uintptr_t)gpu_x, x, sizeof x);
    float *gpu_sums = on_gpu(sums, sizeof sums);
    kernels_sum_blocks_args block_args = {{gpu_x, {N}}, {gpu_sums, {N / 64}}};
    status = kernels_sum_blocks_cuda(&block_args, (kd_dim3){N / 64, 1, 1}, (kd_dim3){64, 1, 1}, NULL);
    to_host(sums, (uintptr_t)gpu_sums, sizeof sums);
    is_right = 1;
    for (int i = 0; i < N / 64; i++)
        is_right &= sums[i] == 64;
    check("sum_blocks", status, is_right);

    double *gpu_values = on_gpu(values, sizeof values), *gpu_total = on_gpu(total, sizeof total);
    enum { ALL = 64 * 64 };
    kernels_share_of_all_args all_args = {{gpu_values, {ALL}}, {gpu_total, {1}}};
    status = kernels_share_of_all_cuda(&all_args, (kd_dim3){64, 1, 1}, (kd_dim3){64, 1, 1}, NULL);
    to_host(values, (uintptr_t)gpu_values, sizeof values);
    check("share_of_all", status, values[0] == 0 && values[ALL - 1] == 1.0 / (ALL / 2));
    return 0;
}
