"""Change an element that other threads change, too. Each returns the old value."""

import numpy as np

import kerneldsl as kd


@kd.kernel
def count(letters, counts):
    i = kd.grid(1)
    if i < letters.size:
        kd.atomic.add(counts, letters[i] - 97, 1)


letters = np.frombuffer(b"abracadabra", np.uint8)
counts = np.zeros(5, np.int32)
count.forall(letters.size)(letters, counts)
print(counts)
#: [5 2 1 1 0]
