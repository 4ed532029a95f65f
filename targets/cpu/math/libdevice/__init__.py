"""Meanings of NVIDIA's libdevice functions on a CPU."""
