/* Launches every kernel of tests/c_library/kernels.py on the CPU; prints what is wrong. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

enum { N = 100003 };

static int failures;
static float x[N], y[N];

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
}

static int is_axpy(void)
{
    for (int i = 0; i < N; i++)
        if (y[i] != 2 * x[i] + 1)
            return 0;
    return 1;
}

static void launch_axpy(int threads)
{
    kernels_axpy_float32_args args = {2, {x, {N}}, {y, {N}}};
    fill();
    CHECK(kernels_axpy_float32_cpu(&args, N, threads) == KD_SUCCESS);
    CHECK(is_axpy());
}

struct share {
    kd_work *work;
    int64_t first, count;
};

static void *run_share(void *argument)
{
    struct share *share = argument;
    return kd_run(share->work, share->first, share->count) == KD_SUCCESS ? NULL : argument;
}

static void divide_axpy(void)
{
    kernels_axpy_float32_args args = {2, {x, {N}}, {y, {N}}};
    kd_shape shape = {.extent = {N}};
    kd_status status;
    fill();
    kd_work *work = kd_begin(&kernels_axpy_float32_kernel, &args, &shape, &status);
    CHECK(status == KD_SUCCESS);
    int64_t units = kd_units(work), half = units / 2;
    CHECK(units > 1);
    struct share shares[2] = {{work, 0, half}, {work, half, units - half}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run_share, &shares[i]);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
    CHECK(kd_run(work, units, 1) == KD_INVALID_VALUE);
    CHECK(kd_end(work) == KD_SUCCESS);
    CHECK(is_axpy());
}

static void launch_in_two_dimensions(void)
{
    enum { ROWS = 37, COLUMNS = 53 };
    static float rows[2 * ROWS][COLUMNS], out[ROWS][COLUMNS];
    for (int i = 0; i < 2 * ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            rows[i][j] = (float)(100 * i + j);
    /* Every second row. */
    kernels_scale_args args = {
        .x = {&rows[0][0], {ROWS, COLUMNS}, {2 * sizeof rows[0], sizeof(float)}},
        .factors_0 = 0.5,
        .factors_1 = 3,
        .out = {&out[0][0], {ROWS, COLUMNS}},
    };
    for (int threads = 0; threads < 2; threads++) {
        memset(out, 0, sizeof out);
        CHECK(kernels_scale_cpu(&args, ROWS, COLUMNS, threads) == KD_SUCCESS);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                CHECK(out[i][j] == rows[2 * i][j] * 0.5f + 3);
    }
}

static void launch_blocks(void)
{
    enum { BLOCKS = (N + 63) / 64 };
    static float sums[BLOCKS];
    kernels_sum_blocks_args args = {{x, {N}}, {sums, {BLOCKS}}};
    for (int i = 0; i < N; i++)
        x[i] = 1;
    for (int threads = 0; threads < 3; threads++) {
        float sum = 0;
        memset(sums, 0, sizeof sums);
        CHECK(kernels_sum_blocks_cpu(&args, (kd_dim3){BLOCKS, 1, 1}, threads) == KD_SUCCESS);
        for (int i = 0; i < BLOCKS; i++)
            sum += sums[i];
        CHECK(sum == N);
    }
    /* The units are the blocks. */
    kd_shape shape = {.grid = {BLOCKS, 1, 1}};
    kd_status status;
    kd_work *work = kd_begin(&kernels_sum_blocks_kernel, &args, &shape, &status);
    CHECK(kd_units(work) == BLOCKS);
    memset(sums, 0, sizeof sums);
    CHECK(kd_run(work, 2, 1) == KD_SUCCESS);
    CHECK(kd_end(work) == KD_SUCCESS);
    CHECK(sums[1] == 0 && sums[2] == 64 && sums[3] == 0);
}

static void launch_with_dynamic_memory(void)
{
    int32_t values[64];
    kernels_reverse_blocks_args args = {{values, {64}}, 32};
    for (int i = 0; i < 64; i++)
        values[i] = i;
    CHECK(kernels_reverse_blocks_cpu(&args, (kd_dim3){2, 1, 1}, 32 * 4, 1) == KD_SUCCESS);
    for (int i = 0; i < 64; i++)
        CHECK(values[i] == (i < 32 ? 31 - i : 95 - i));
    CHECK(kernels_reverse_blocks_cpu(&args, (kd_dim3){2, 1, 1}, 4, 1) == KD_OUT_OF_SHARED_MEMORY);
    CHECK(kernels_reverse_blocks_cpu(&args, (kd_dim3){2, 1, 1}, -1, 1) == KD_INVALID_VALUE);
}

static void launch_with_a_barrier_of_the_grid(void)
{
    enum { COUNT = 40000 };
    static double values[COUNT];
    for (int threads = 0; threads < 2; threads++) {
        double total[1] = {0};
        kernels_share_of_all_args args = {{values, {COUNT}}, {total, {1}}};
        for (int i = 0; i < COUNT; i++)
            values[i] = i % 3;
        CHECK(kernels_share_of_all_cpu(&args, (kd_dim3){COUNT / 64, 1, 1}, threads) == KD_SUCCESS);
        CHECK(total[0] == 39999);
        CHECK(values[2] == 2 / 39999.0 && values[COUNT - 1] == 0);
    }
    kernels_share_of_all_args args = {{values, {COUNT}}, {values, {1}}};
    kd_shape shape = {.grid = {COUNT / 64, 1, 1}};
    kd_status status;
    CHECK(kd_begin(&kernels_share_of_all_kernel, &args, &shape, &status) == NULL);
    CHECK(status == KD_INVALID_VALUE);
}

static void launch_complex_numbers(void)
{
    kd_complex128 z[2] = {{1, 2}, {3, 4}}, out[2];
    kernels_rotate_args args = {{z, {2}}, {0, 1}, 1, {out, {2}}};
    CHECK(kernels_rotate_cpu(&args, (kd_dim3){1, 1, 1}, (kd_dim3){2, 1, 1}, 1) == KD_SUCCESS);
    CHECK(out[0].real == -2 && out[0].imag == 1 && out[1].real == -4 && out[1].imag == 3);
    args.flag = 0;
    CHECK(kernels_rotate_cpu(&args, (kd_dim3){2, 1, 1}, (kd_dim3){1, 1, 1}, 1) == KD_SUCCESS);
    CHECK(out[1].real == 3 && out[1].imag == 4);
}

static void refuse_shapes(void)
{
    kernels_axpy_float32_args args = {2, {x, {N}}, {y, {N}}};
    kd_complex128 z[1] = {{1, 2}};
    kernels_rotate_args other = {{z, {1}}, {0, 1}, 1, {z, {1}}};
    CHECK(kernels_axpy_float32_cpu(&args, -1, 0) == KD_INVALID_VALUE);
    CHECK(kernels_axpy_float32_cpu(&args, INT64_MAX, 1) == KD_INVALID_VALUE);
    CHECK(kernels_axpy_float32_cpu(&args, 0, 0) == KD_SUCCESS);
    CHECK(kernels_rotate_cpu(&other, (kd_dim3){1, 1, 1}, (kd_dim3){2048, 1, 1}, 1) ==
          KD_INVALID_VALUE);
    CHECK(kernels_rotate_cpu(&other, (kd_dim3){1, 1, 1}, (kd_dim3){0, 1, 1}, 1) ==
          KD_INVALID_VALUE);
    CHECK(strcmp(kd_status_text(KD_NO_CODE), "there is no code for this processor or GPU") == 0);
}

static void launch_in_a_child(void)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        launch_axpy(0);
        fflush(stdout);
        _exit(failures != 0);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    for (int threads = 0; threads < 4; threads++)
        launch_axpy(threads);
    divide_axpy();
    launch_in_two_dimensions();
    launch_blocks();
    launch_with_dynamic_memory();
    launch_with_a_barrier_of_the_grid();
    launch_complex_numbers();
    refuse_shapes();
    launch_in_a_child();
    printf("%d failures\n", failures);
    return failures != 0;
}
