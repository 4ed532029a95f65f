"""The state of a generator, and where it comes from."""

from __future__ import annotations

import secrets
import threading
from typing import Any, NamedTuple

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.parameters import integer_of

__all__ = ["Counter", "State", "seeded"]


class State(NamedTuple):
    """The numbers to come: the key of Philox4x32-10, and the counter of the next draw.

    Attributes
    ----------
    key : int
        64 bits.
    counter : int
        128 bits. A draw of n numbers advances it by n / 4, or n / 2 for numbers of more than 32
        bits, rounded up. Draws above 2**96 may meet the numbers that `Generator.integers` rejects.
    """

    key: int
    counter: int


class Counter:
    """The state of a generator that threads may share."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = threading.Lock()

    @property
    def state(self) -> State:
        """The state; a tuple like it may be assigned."""
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        try:
            key, counter = value
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(
                f"state is {safe_repr(value)}",
                value=value,
                limit="It is a key and a counter, as a generator's `state` gives them",
            ) from error
        found = State(_of_bits("key", key, 64), _of_bits("counter", counter, 128))
        with self._lock:
            self._state = found

    def take(self, count: int) -> State:
        """Return the state, and advance the counter."""
        with self._lock:
            now = self._state
            self._state = State(now.key, (now.counter + count) % (1 << 128))
        return now


def seeded(seed: Any) -> State:
    """Return the first state of a seed, which is the key; of ``None`` one that is not foreseen."""
    return State(secrets.randbits(64) if seed is None else _of_bits("seed", seed, 64), 0)


def _of_bits(name: str, value: Any, bits: int) -> int:
    found = integer_of(name, value)
    if not 0 <= found < 1 << bits:
        raise ArgumentValueError(
            f"{name} is {found}", value=found, limit=f"It is from 0 to 2**{bits} - 1"
        )
    return found
