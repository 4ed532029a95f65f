"""What only a CUDA device can show.

The conformance suite says what kernels compute; here is how they meet the hardware and other
libraries: streams, memory, limits, faults, and code compiled ahead of time. A test is skipped only
where the target says why it cannot be used; ``KERNELDSL_REQUIRE_GPU=1`` makes that a failure.
"""
