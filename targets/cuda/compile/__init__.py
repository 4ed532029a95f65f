"""From a kernel to PTX, which takes neither a driver nor a GPU."""
