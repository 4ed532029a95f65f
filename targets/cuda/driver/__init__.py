"""The CUDA driver: calls, errors, loaded code, and the state of the process that it depends on."""
