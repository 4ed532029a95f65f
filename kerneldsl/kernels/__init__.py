"""The objects that a program holds: kernels, device functions, launches, and their decorators."""
