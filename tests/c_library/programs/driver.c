/* A stand-in for libcuda.so.1, which prints what it is called with. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *context;

int cuInit(unsigned flags)
{
    return (int)flags;
}

int cuGetErrorName(int code, const char **name)
{
    *name = "CUDA_ERROR_OF_TEST";
    return code == 0;
}

int cuCtxGetCurrent(void **found)
{
    *found = context;
    return 0;
}

int cuCtxSetCurrent(void *given)
{
    context = given;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **made, int device)
{
    *made = (void *)(intptr_t)(100 + device);
    return 0;
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int capability = atoi(getenv("TEST_CAPABILITY"));
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return device;
}

int cuModuleLoadData(void **module, const void *image)
{
    printf("load %s\n", memcmp(image, "\177ELF", 4) == 0 ? "cubin" : "ptx");
    *module = (void *)image;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    printf("function %s\n", strstr(name, "axpy") ? "axpy" : name);
    *function = module;
    return 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    printf("attribute %d = %d\n", attribute, value);
    return function == NULL;
}

static int print_launch(const char *how, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, void *stream, void **values)
{
    printf("%s %u,%u,%u %u,%u,%u %u %d: %g %ld %ld %ld\n", how, gx, gy, gz, bx, by, bz, shared,
           stream != NULL, *(float *)values[0], (long)*(int64_t *)values[2],
           (long)*(int64_t *)values[4], (long)*(int64_t *)values[5]);
    return getenv("TEST_FAILS") ? 1 : 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **values, void **extra)
{
    return function == NULL || extra != NULL ||
           print_launch("launch", gx, gy, gz, bx, by, bz, shared, stream, values);
}

int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **values)
{
    return function == NULL ||
           print_launch("cooperative", gx, gy, gz, bx, by, bz, shared, stream, values);
}
