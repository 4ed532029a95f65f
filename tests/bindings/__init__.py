"""What the CUDA target needs of ``cuda.bindings`` and ``cuda.core``, checked without a GPU.

``make bindings`` runs this folder and the suites of the null and CUDA targets with the bindings of
CUDA 12 and of CUDA 13, each in an environment of its own.
"""
