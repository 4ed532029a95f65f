/* Launches on the CPU. The entry of a kernel reads a header of 64-bit words and the parameters that
 * follow it. kerneldsl's targets/cpu/runtime/native_tables.py describes both. kerneldsl_numbers.h is generated. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kerneldsl_code.h"
#include "kerneldsl_numbers.h"

/* So many units before the first look at the clock: all of them. */
#define NO_CLOCK ((int64_t)1 << 62)
#define MAX_THREADS_PER_BLOCK 1024

struct kd_work {
    const kd_cpu_code *code;
    int64_t units;
    /* The header, and the parameters after it. */
    int64_t words[];
};

const char *kd_status_text(kd_status status)
{
    switch (status) {
    case KD_SUCCESS: return "success";
    case KD_INVALID_VALUE: return "a grid, a block, an extent or a range of units is invalid";
    case KD_NO_CODE: return "there is no code for this processor or GPU";
    case KD_OUT_OF_MEMORY: return "there is not enough memory for the blocks of the launch";
    case KD_OUT_OF_SHARED_MEMORY: return "the kernel wrote beyond its dynamic shared memory";
    case KD_DIVERGENT_BARRIER: return "not all blocks came to the same barrier of the grid";
    case KD_FAILED_OPERATION: return "an operation in the kernel failed";
    case KD_NO_GPU: return "there is no CUDA driver or no device";
    case KD_CUDA_ERROR: return "the CUDA driver returned an error";
    }
    return "unknown status";
}

static int processor_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") &&
          __builtin_cpu_supports("ssse3")))
        return 1;
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")))
        return 2;
    if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512vl")))
        return 3;
    return 4;
#else
    return 1;
#endif
}

static const kd_cpu_code *best_code(const kd_kernel *kernel)
{
    int level = processor_level();
    const kd_cpu_code *best = NULL;
    for (int i = 0; i < kernel->cpu_count; i++) {
        const kd_cpu_code *each = &kernel->cpu[i];
        if (each->level <= level && (best == NULL || each->level > best->level))
            best = each;
    }
    return best;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Multiply numbers that are not negative; -1 where one is, or the product is too large. */
static int64_t product(const int64_t *values, int count)
{
    int64_t result = 1;
    int is_empty = 0;
    for (int i = 0; i < count; i++) {
        if (values[i] < 0)
            return -1;
        if (values[i] == 0)
            is_empty = 1;
        else if (__builtin_mul_overflow(result, values[i], &result))
            return -1;
    }
    return is_empty ? 0 : result;
}

/* Find the grid and block of a launch, and its extent with ones for the axes that it has not. */
static kd_status complete(const kd_kernel *kernel, const kd_shape *given, kd_shape *shape)
{
    static const kd_dim3 usual[] = {{256, 1, 1}, {32, 8, 1}, {32, 4, 2}};
    int ndim = kernel->extent_ndim;
    if (kernel->version != KD_CODE_VERSION)
        return KD_NO_CODE;
    *shape = *given;
    if (kernel->block.x != 0)
        shape->block = kernel->block;
    for (int axis = ndim; axis < 3; axis++)
        shape->extent[axis] = 1;
    if (ndim && shape->block.x == 0)
        shape->block = usual[ndim - 1];
    int64_t *block = &shape->block.x, threads = product(block, 3);
    if (shape->shared_bytes < 0 || threads < 1 || threads > MAX_THREADS_PER_BLOCK ||
        product(shape->extent, 3) < 0)
        return KD_INVALID_VALUE;
    if (ndim)
        for (int axis = 0; axis < 3; axis++)
            (&shape->grid.x)[axis] = divide_up(shape->extent[axis], block[axis]);
    int64_t blocks = product(&shape->grid.x, 3), all[2] = {blocks, threads};
    return product(all, 2) < 0 ? KD_INVALID_VALUE : KD_SUCCESS;
}

/* Describe the space in the header; return the units of work. */
static int64_t write_space(const kd_kernel *kernel, const kd_cpu_code *code, const kd_shape *shape,
                           int64_t wanted, int64_t *space)
{
    const int64_t *grid = &shape->grid.x, *block = &shape->block.x;
    if (!code->rows_along) {
        for (int axis = 0; axis < 3; axis++) {
            space[axis] = grid[axis];
            space[3 + axis] = kernel->extent_ndim ? shape->extent[axis] : 1;
        }
        return product(grid, 3);
    }
    int64_t n[3] = {1, 1, 1};
    int ndim = kernel->extent_ndim;
    for (int axis = 0; axis < (ndim ? ndim : 3); axis++) {
        int from = ndim && code->rows_along == 2 ? ndim - 1 - axis : axis;
        n[axis] = ndim ? shape->extent[from] : grid[axis] * block[axis];
    }
    int64_t rows = n[1] * n[2], pieces = 1;
    if (rows < wanted)
        pieces = divide_up(wanted, rows > 0 ? rows : 1);
    int64_t segment = divide_up(n[0], pieces);
    if (segment < LEAST_ROW)
        segment = LEAST_ROW;
    if (segment > code->longest_row)
        segment = code->longest_row;
    segment = divide_up(segment, 64) * 64; /* ends of rows are apart from the middle of a vector */
    if (segment > n[0])
        segment = n[0] > 0 ? n[0] : 1;
    space[0] = segment;
    for (int axis = 0; axis < 3; axis++)
        space[1 + axis] = n[axis];
    space[4] = space[5] = 0;
    return n[0] ? rows * divide_up(n[0], segment) : 0;
}

/* Make a launch. `wanted` is the number of steps that it is divided into; 0 where units are. */
static kd_work *make_work(const kd_kernel *kernel, const void *arguments, const kd_shape *shape,
                          int64_t wanted, kd_status *status)
{
    const kd_cpu_code *code = best_code(kernel);
    if (code == NULL) {
        *status = KD_NO_CODE;
        return NULL;
    }
    size_t nbytes = sizeof(kd_work) + 8 * HEADER_WORDS + kd_parameter_bytes(kernel) + 8;
    kd_work *work = calloc(1, nbytes);
    if (work == NULL) {
        *status = KD_OUT_OF_MEMORY;
        return NULL;
    }
    work->code = code;
    char *parameters = (char *)(work->words + HEADER_WORDS);
    memcpy(parameters, arguments, kernel->argument_bytes);
    memcpy(parameters + kernel->extent_offset, shape->extent, 8 * (size_t)kernel->extent_ndim);
    int64_t units = write_space(kernel, code, shape, wanted ? wanted : 1, work->words + SPACE);
    int64_t steps = !wanted || wanted > units ? units : wanted;
    work->units = units;
    work->words[STEP_UNITS] = steps > 0 ? divide_up(units, steps) : 1;
    work->words[ALL_UNITS] = units;
    work->words[SHARED_BYTES] = shape->shared_bytes;
    work->words[FIRST_UNITS] = NO_CLOCK;
    *status = KD_SUCCESS;
    return work;
}

static kd_status status_of(const kd_work *work)
{
    int64_t failure = __atomic_load_n(&work->words[FAILURE], __ATOMIC_RELAXED);
    if (failure == 0)
        return KD_SUCCESS;
    if (failure > 0)
        return KD_OUT_OF_MEMORY;
    if (failure == OVERRUN)
        return KD_OUT_OF_SHARED_MEMORY;
    /* No address is as large: a slice of dynamic shared memory ends beyond it. */
    return -failure >> 61 ? KD_OUT_OF_SHARED_MEMORY : KD_FAILED_OPERATION;
}

static void run_steps(kd_work *work, int64_t first, int64_t count)
{
    int64_t step = 1;
    char *start = (char *)(intptr_t)first;
    work->code->entry(&start, &count, &step, (char *)work->words);
}

/* The pool of threads that Python's launches have, too: targets/cpu/runtime/pool_code.py. */
typedef void parallel_for(kd_entry *, char **, int64_t *, int64_t *, char *, int64_t, int64_t, int);
extern void install_pool(char *state);

static struct {
    pthread_once_t once;
    char *state;
    size_t nbytes;
    int threads;
} pool = {.once = PTHREAD_ONCE_INIT};

/* A forked child has none of the threads. */
static void forget_threads(void)
{
    memset(pool.state, 0, pool.nbytes);
    install_pool(pool.state);
}

static void make_pool(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    size_t nbytes = POOL_SLOTS + (size_t)count * POOL_SLOT_BYTES;
    nbytes = (nbytes + 127) / 128 * 128;
    char *state = aligned_alloc(128, nbytes);
    if (state == NULL)
        return;
    pool.state = state;
    pool.nbytes = nbytes;
    pool.threads = count;
    forget_threads();
    pthread_atfork(NULL, NULL, forget_threads);
}

static void run_shared(kd_work *work, int64_t steps, int threads)
{
    if (threads > 1 && steps > 1) {
        char *base = NULL;
        int64_t stride = 1;
        parallel_for *share;
        memcpy(&share, pool.state + POOL_PARALLEL_FOR, sizeof share);
        share(work->code->entry, &base, &steps, &stride, (char *)work->words, 0, 1, threads);
    } else {
        run_steps(work, 0, steps);
    }
}

/* Run blocks that wait for each other: each as far as the next barrier, again and again. */
static kd_status run_in_passes(kd_work *work, int64_t steps, int threads)
{
    int64_t each = work->code->part_bytes + work->words[SHARED_BYTES], nbytes;
    each = divide_up(each, ALIGNMENT) * ALIGNMENT;
    if (__builtin_mul_overflow(each, work->units, &nbytes))
        return KD_OUT_OF_MEMORY;
    char *parts = aligned_alloc(ALIGNMENT, (size_t)nbytes);
    if (parts == NULL)
        return KD_OUT_OF_MEMORY;
    for (int64_t block = 0; block < work->units; block++)
        memset(parts + block * each, 0, sizeof(int64_t));
    work->words[PARTS] = (int64_t)(intptr_t)parts;
    kd_status status;
    int64_t state = 0;
    do {
        run_shared(work, steps, threads);
        status = status_of(work);
        memcpy(&state, parts, sizeof state);
        for (int64_t block = 1; status == KD_SUCCESS && block < work->units; block++)
            if (memcmp(parts + block * each, &state, sizeof state) != 0)
                status = KD_DIVERGENT_BARRIER;
    } while (status == KD_SUCCESS && state != FINISHED);
    free(parts);
    return status;
}

kd_status kd_launch_cpu(const kd_kernel *kernel, const void *arguments, const kd_shape *shape,
                        int threads)
{
    kd_shape full;
    kd_status status = complete(kernel, shape, &full);
    if (status != KD_SUCCESS)
        return status;
    int64_t all = product(kernel->extent_ndim ? full.extent : &full.grid.x, 3), wanted = 1;
    if (!kernel->extent_ndim || (kernel->cpu_count && !kernel->cpu[0].rows_along))
        all = product(&full.grid.x, 3) * product(&full.block.x, 3);
    if (threads != 1 && all > SERIAL_THREADS) {
        pthread_once(&pool.once, make_pool);
        if (threads <= 0 || threads > pool.threads)
            threads = pool.threads;
        wanted = all / LEAST_STEP_THREADS;
        if (wanted > threads * STEPS_PER_THREAD)
            wanted = threads * STEPS_PER_THREAD;
        if (wanted < threads)
            wanted = threads;
    } else {
        threads = 1;
    }
    kd_work *work = make_work(kernel, arguments, &full, wanted ? wanted : 1, &status);
    if (work == NULL)
        return status;
    int64_t steps = divide_up(work->units, work->words[STEP_UNITS]);
    if (work->units > 0) {
        if (work->code->part_bytes >= 0)
            status = run_in_passes(work, steps, threads);
        else
            run_shared(work, steps, threads);
    }
    if (status == KD_SUCCESS)
        status = status_of(work);
    free(work);
    return status;
}

kd_work *kd_begin(const kd_kernel *kernel, const void *arguments, const kd_shape *shape,
                  kd_status *status)
{
    kd_shape full;
    *status = complete(kernel, shape, &full);
    if (*status != KD_SUCCESS)
        return NULL;
    kd_work *work = make_work(kernel, arguments, &full, 0, status);
    if (work != NULL && work->code->part_bytes >= 0) {
        free(work);
        *status = KD_INVALID_VALUE;
        return NULL;
    }
    return work;
}

int64_t kd_units(const kd_work *work)
{
    return work->units;
}

kd_status kd_run(kd_work *work, int64_t first, int64_t count)
{
    if (first < 0 || count < 0 || first > work->units || count > work->units - first)
        return KD_INVALID_VALUE;
    if (count > 0)
        run_steps(work, first, count);
    return status_of(work);
}

kd_status kd_end(kd_work *work)
{
    kd_status status = status_of(work);
    free(work);
    return status;
}
