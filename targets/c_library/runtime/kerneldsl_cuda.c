/* Launches on a GPU by the CUDA driver, which is loaded by the first one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kerneldsl_code.h"

/* Numbers of cuda.h. */
enum {
    COMPUTE_CAPABILITY_MAJOR = 75,
    COMPUTE_CAPABILITY_MINOR = 76,
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};
/* What a kernel may have without being asked for more. */
#define USUAL_SHARED_BYTES (48 * 1024)

static struct {
    pthread_once_t once;
    int is_usable;
    int (*get_error_name)(int, const char **);
    int (*get_context)(void **);
    int (*set_context)(void *);
    int (*retain_primary)(void **, int);
    int (*get_device)(int *);
    int (*get_attribute)(int *, int, int);
    int (*load_module)(void **, const void *);
    int (*get_function)(void **, void *, const char *);
    int (*set_attribute)(void *, int, int);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*launch_cooperative)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, void *, void **);
} driver = {.once = PTHREAD_ONCE_INIT};

static __thread char last_error[64];

const char *kd_cuda_error(void)
{
    return last_error;
}

static kd_status status_of(int result)
{
    const char *name = NULL;
    if (result == 0)
        return KD_SUCCESS;
    if (driver.get_error_name(result, &name) != 0 || name == NULL)
        name = "CUDA_ERROR_UNKNOWN";
    snprintf(last_error, sizeof last_error, "%s", name);
    return KD_CUDA_ERROR;
}

static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    int (*initialize)(unsigned) = NULL;
    struct {
        const char *name;
        void *address;
    } functions[] = {
        {"cuInit", &initialize},
        {"cuGetErrorName", &driver.get_error_name},
        {"cuCtxGetCurrent", &driver.get_context},
        {"cuCtxSetCurrent", &driver.set_context},
        {"cuDevicePrimaryCtxRetain", &driver.retain_primary},
        {"cuCtxGetDevice", &driver.get_device},
        {"cuDeviceGetAttribute", &driver.get_attribute},
        {"cuModuleLoadData", &driver.load_module},
        {"cuModuleGetFunction", &driver.get_function},
        {"cuFuncSetAttribute", &driver.set_attribute},
        {"cuLaunchKernel", &driver.launch},
        {"cuLaunchCooperativeKernel", &driver.launch_cooperative},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL)
            return;
        memcpy(functions[i].address, &found, sizeof found);
    }
    driver.is_usable = initialize(0) == 0;
}

/* A kernel in a context. */
typedef struct loaded {
    const kd_kernel *kernel;
    void *context;
    void *function;
    int64_t shared_bytes;
    struct loaded *next;
} loaded;

static loaded *all_loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static kd_status make_loaded(const kd_kernel *kernel, void *context, loaded **result)
{
    int device, major, minor, code = driver.get_device(&device);
    if (code == 0)
        code = driver.get_attribute(&major, COMPUTE_CAPABILITY_MAJOR, device);
    if (code == 0)
        code = driver.get_attribute(&minor, COMPUTE_CAPABILITY_MINOR, device);
    if (code != 0)
        return status_of(code);
    int capability = 10 * major + minor;
    /* The newest cubin of the same major version, else the newest PTX. */
    const kd_cuda_code *best = NULL;
    for (int i = 0; i < kernel->cuda_count; i++) {
        const kd_cuda_code *each = &kernel->cuda[i];
        if (each->capability > capability || (!each->is_ptx && each->capability / 10 != major))
            continue;
        if (best == NULL || each->is_ptx < best->is_ptx ||
            (each->is_ptx == best->is_ptx && each->capability > best->capability))
            best = each;
    }
    if (best == NULL)
        return KD_NO_CODE;
    void *module, *function;
    code = driver.load_module(&module, best->image);
    if (code == 0)
        code = driver.get_function(&function, module, best->entry);
    if (code != 0)
        return status_of(code);
    loaded *made = calloc(1, sizeof *made);
    if (made == NULL)
        return KD_OUT_OF_MEMORY;
    *made = (loaded){kernel, context, function, USUAL_SHARED_BYTES, all_loaded};
    *result = all_loaded = made;
    return KD_SUCCESS;
}

static kd_status find_loaded(const kd_kernel *kernel, int64_t shared_bytes, void **function)
{
    void *context;
    int code = driver.get_context(&context);
    if (code == 0 && context == NULL) {
        code = driver.retain_primary(&context, 0);
        if (code == 0)
            code = driver.set_context(context);
    }
    if (code != 0)
        return status_of(code);
    kd_status status = KD_SUCCESS;
    pthread_mutex_lock(&lock);
    loaded *found = all_loaded;
    while (found != NULL && (found->kernel != kernel || found->context != context))
        found = found->next;
    if (found == NULL)
        status = make_loaded(kernel, context, &found);
    if (status == KD_SUCCESS && shared_bytes > found->shared_bytes) {
        code = driver.set_attribute(found->function, MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    (int)shared_bytes);
        status = status_of(code);
        if (status == KD_SUCCESS)
            found->shared_bytes = shared_bytes;
    }
    if (status == KD_SUCCESS)
        *function = found->function;
    pthread_mutex_unlock(&lock);
    return status;
}

static kd_status dimensions(const kd_kernel *kernel, const kd_shape *shape, unsigned *result)
{
    static const int64_t usual[3][3] = {{256, 1, 1}, {32, 8, 1}, {32, 4, 2}};
    const int64_t *block = &shape->block.x;
    int ndim = kernel->extent_ndim;
    if (block[0] == 0 && kernel->block.x)
        block = &kernel->block.x;
    else if (block[0] == 0 && ndim)
        block = usual[ndim - 1];
    for (int axis = 0; axis < 3; axis++) {
        int64_t blocks = (&shape->grid.x)[axis];
        if (block[axis] < 1 || block[axis] > 1024)
            return KD_INVALID_VALUE;
        int64_t most = axis ? 65535 : INT32_MAX;
        if (ndim) {
            int from = kernel->is_mapped ? ndim - 1 - axis : axis;
            int64_t extent = axis < ndim ? shape->extent[from] : 1;
            blocks = extent < 0 ? -1 : extent / block[axis] + (extent % block[axis] != 0);
            if (kernel->is_mapped && axis && blocks > most)
                blocks = most;
        }
        if (blocks < 0 || blocks > most)
            return KD_INVALID_VALUE;
        result[axis] = (unsigned)blocks;
        result[3 + axis] = (unsigned)block[axis];
    }
    return KD_SUCCESS;
}

kd_status kd_launch_cuda(const kd_kernel *kernel, const void *arguments, const kd_shape *shape,
                         void *stream)
{
    if (kernel->version != KD_CODE_VERSION)
        return KD_NO_CODE;
    unsigned n[6];
    void *function = NULL, *where[kernel->parameter_count + 1];
    int64_t buffer[kd_parameter_bytes(kernel) / 8 + 1];
    kd_status status = dimensions(kernel, shape, n);
    if (status != KD_SUCCESS)
        return status;
    if (shape->shared_bytes < 0 || shape->shared_bytes > INT32_MAX)
        return KD_INVALID_VALUE;
    if (n[0] == 0 || n[1] == 0 || n[2] == 0)
        return KD_SUCCESS;
    pthread_once(&driver.once, find_driver);
    if (!driver.is_usable)
        return KD_NO_GPU;
    status = find_loaded(kernel, shape->shared_bytes, &function);
    if (status != KD_SUCCESS)
        return status;
    memcpy(buffer, arguments, kernel->argument_bytes);
    memcpy((char *)buffer + kernel->extent_offset, shape->extent, 8 * (size_t)kernel->extent_ndim);
    for (int i = 0; i < kernel->parameter_count; i++)
        where[i] = (char *)buffer + kernel->offsets[i];
    unsigned shared = (unsigned)shape->shared_bytes;
    if (kernel->is_cooperative)
        return status_of(driver.launch_cooperative(function, n[0], n[1], n[2], n[3], n[4], n[5],
                                                   shared, stream, where));
    return status_of(driver.launch(function, n[0], n[1], n[2], n[3], n[4], n[5], shared, stream,
                                   where, NULL));
}
