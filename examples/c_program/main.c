/* Launch kernels that were written in Python, without Python. */
#include <stdio.h>
#include <stdlib.h>

#include "vectors.h"

static void check(kd_status status)
{
    if (status != KD_SUCCESS) {
        fprintf(stderr, "%s %s\n", kd_status_text(status), kd_cuda_error());
        exit(1);
    }
}

int main(void)
{
    enum { N = 1000000, BLOCKS = (N + 255) / 256 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *sums = malloc(BLOCKS * sizeof *sums);
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 10);
        y[i] = 1;
    }

    /* axpy.forall(N)(2, x, y), on all processors. An array is its data and its shape. */
    vectors_axpy_args axpy = {.a = 2, .x = {x, {N}}, .y = {y, {N}}};
    check(vectors_axpy_cpu(&axpy, N, 0));
    printf("y[7] = %g\n", y[7]);

    /* sum_blocks[BLOCKS, 256](y, sums), in the calling thread. */
    vectors_sum_blocks_args blocks = {.x = {y, {N}}, .sums = {sums, {BLOCKS}}};
    kd_dim3 grid = {BLOCKS, 1, 1};
    check(vectors_sum_blocks_cpu(&blocks, grid, 1));
    double total = 0;
    for (int i = 0; i < BLOCKS; i++)
        total += sums[i];
    printf("sum = %.0f\n", total);

    /* The program may also divide a launch among threads of its own: here, block by block. */
    kd_shape shape = {.grid = grid};
    kd_status status;
    kd_work *work = kd_begin(&vectors_sum_blocks_kernel, &blocks, &shape, &status);
    check(status);
    for (int64_t block = 0; block < kd_units(work); block++)
        check(kd_run(work, block, 1));
    check(kd_end(work));
    printf("sums[1] = %g\n", sums[1]);

    free(x);
    free(y);
    free(sums);
    return 0;
}
