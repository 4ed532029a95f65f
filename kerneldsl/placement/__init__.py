"""The devices there are: targets by name, the choice of a device, and the fallback to the CPU."""
