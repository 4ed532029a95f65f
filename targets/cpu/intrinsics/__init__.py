"""The operations of kernels on a CPU. Importing one of them is cheap: none is imported here."""
