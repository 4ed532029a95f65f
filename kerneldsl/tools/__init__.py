"""What is run beside kernels: the command line, checks of a machine, and what is found on it."""
