"""Compile only: what PTX a kernel becomes, on machines without a GPU."""
