"""Tools around kernels: the command line, checks of a machine, and reports of its devices."""
