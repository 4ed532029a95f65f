"""The operations of kernels on a CPU; nothing is imported here, so that one of them is cheap."""
