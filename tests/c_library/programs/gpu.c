/* Launches axpy on a GPU twice, and prints the statuses. The addresses are not used. */
#include <stdio.h>

#include "kernels.h"

int main(void)
{
    kernels_axpy_float32_args args = {2, {NULL, {1000}}, {NULL, {1000}}};
    int stream;
    for (int i = 0; i < 2; i++) {
        kd_status status = kernels_axpy_float32_cuda(&args, 1000, i ? &stream : NULL);
        printf("%s (%s)\n", kd_status_text(status), kd_cuda_error());
    }
    return 0;
}
