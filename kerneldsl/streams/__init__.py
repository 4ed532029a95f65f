"""Queues of work on a device: streams, events, graphs, and the order that they keep."""
