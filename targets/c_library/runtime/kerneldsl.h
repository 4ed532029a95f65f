/* Launching kernels of kerneldsl from C, without Python: on the CPU, and on a GPU by the driver.
 *
 * `kerneldsl build --header` writes this file beside a header with the functions of a package's
 * kernels. Functions return KD_SUCCESS, or why a launch is not complete. All of them may be called
 * from several threads at the same time.
 */
#ifndef KERNELDSL_H
#define KERNELDSL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define KD_CHECK_OFFSET(type, member, offset)                                                      \
    static_assert(offsetof(type, member) == offset, "the code has it elsewhere")
extern "C" {
#else
#define KD_CHECK_OFFSET(type, member, offset)                                                      \
    _Static_assert(offsetof(type, member) == offset, "the code has it elsewhere")
#endif

typedef enum {
    KD_SUCCESS = 0,
    /* A grid, a block, an extent or a range of units is negative or too large. */
    KD_INVALID_VALUE = 1,
    /* There is no code for this processor, or for this GPU. */
    KD_NO_CODE = 2,
    /* There is no memory for the shared and local arrays of a block, or for the launch. */
    KD_OUT_OF_MEMORY = 3,
    /* The kernel wrote beyond its dynamic shared memory. */
    KD_OUT_OF_SHARED_MEMORY = 4,
    /* Not all blocks of a grid came to the same barrier of the grid. */
    KD_DIVERGENT_BARRIER = 5,
    /* An operation in the kernel failed, such as an index beyond a tuple. */
    KD_FAILED_OPERATION = 6,
    /* There is no libcuda.so.1, or it has no device. */
    KD_NO_GPU = 7,
    /* The CUDA driver returned an error, which kd_cuda_error() names. */
    KD_CUDA_ERROR = 8
} kd_status;

/* Return the text of a status. */
const char *kd_status_text(kd_status status);

/* Return the name of the last error of the CUDA driver in this thread, such as
 * "CUDA_ERROR_INVALID_VALUE"; "" if there was none. */
const char *kd_cuda_error(void);

/* Blocks of a grid, or threads of a block, along each axis. */
typedef struct {
    int64_t x, y, z;
} kd_dim3;

typedef struct {
    float real, imag;
} kd_complex64;

typedef struct {
    double real, imag;
} kd_complex128;

/* The shape of a launch. */
typedef struct {
    /* Of kernel[grid, block]. */
    kd_dim3 grid;
    /* Threads of a block; zeros are the block that the kernel was compiled for, or 256 threads of a
     * launch by extent. On the CPU, code for one block ignores it. */
    kd_dim3 block;
    /* Of kernel.forall: indices along each axis, the first axis first. */
    int64_t extent[3];
    /* Bytes of dynamic shared memory of a block. */
    int64_t shared_bytes;
} kd_shape;

/* A compiled kernel with its code for processors and GPUs. */
typedef struct kd_kernel kd_kernel;

/* Run a kernel on the CPU, and wait for it. `arguments` are the structure that the header of the
 * package declares for the kernel. `threads` is the number of threads that share the launch; 1 is
 * the calling thread alone, and 0 means all processors of this process. */
kd_status kd_launch_cpu(const kd_kernel *kernel, const void *arguments, const kd_shape *shape,
                        int threads);

/* Launch a kernel on a GPU; return before it has finished. Arrays are in memory of the GPU.
 * `stream` is a CUstream or cudaStream_t, NULL for the default one. The kernel runs in the
 * context of the calling thread, or in the primary context of device 0 if it has none. */
kd_status kd_launch_cuda(const kd_kernel *kernel, const void *arguments, const kd_shape *shape,
                         void *stream);

/* A launch on the CPU that the program divides among its own threads. */
typedef struct kd_work kd_work;

/* Begin a launch: copy its arguments, and return how it is run. NULL on failure, with the reason in
 * *status. Kernels with a barrier of the whole grid are not divided: KD_INVALID_VALUE. */
kd_work *kd_begin(const kd_kernel *kernel, const void *arguments, const kd_shape *shape,
                  kd_status *status);

/* Return the units of work: the blocks of the grid, x first, or rows of a kernel without blocks. */
int64_t kd_units(const kd_work *work);

/* Run `count` units from `first` in the calling thread. Several threads may do so at once. */
kd_status kd_run(kd_work *work, int64_t first, int64_t count);

/* End a launch after all its calls of kd_run have returned; return its status. */
kd_status kd_end(kd_work *work);

#ifdef __cplusplus
}
#endif

#endif
