"""Kernels that a C program launches."""

import kerneldsl as kd

kd.load_package(__name__)
