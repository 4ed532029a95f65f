"""Image processing: grey conversion, Gaussian blur, Sobel edges, histogram and equalization."""

from stdlib_kernels.imaging.blur import gaussian_blur
from stdlib_kernels.imaging.colour import grey
from stdlib_kernels.imaging.edges import sobel
from stdlib_kernels.imaging.levels import equalize, histogram

__all__ = ["equalize", "gaussian_blur", "grey", "histogram", "sobel"]
