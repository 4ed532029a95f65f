"""Image processing: grey conversion, Gaussian blur, Sobel edges, histogram and equalization."""

from stdlib_kernels.imaging.filters import gaussian_blur, sobel
from stdlib_kernels.imaging.levels import equalize, grey, histogram

__all__ = ["equalize", "gaussian_blur", "grey", "histogram", "sobel"]
