"""An interruption of the main thread by another one, whether it computes or waits for the system.

It is a real signal, which ends a call of the system that waits, such as one for the lock of a file.
SIGINT would not do: what a shell starts in the background ignores it.
"""

import signal
import threading
from types import FrameType
from typing import Any

SIGNAL = signal.SIGUSR1


class Interruption:
    """A KeyboardInterrupt in the main thread, for which another thread may ask from `begin` on."""

    def __init__(self) -> None:
        self._is_on = False
        self._before: Any = None
        self._turn = threading.Lock()

    def begin(self) -> None:
        """The signal is this object's until `end`, if the main thread calls; else none is sent."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(SIGNAL, self._raise)
            self._is_on = True

    def end(self) -> None:
        """The main thread is no longer interrupted, and the signal is whose it was."""
        was_on, self._is_on = self._is_on, False
        with self._turn:  # nobody asks any more
            if was_on:
                signal.signal(SIGNAL, self._before)

    def ask(self) -> None:
        """Interrupts the main thread, soon, unless that has ended."""
        main = threading.main_thread().ident
        with self._turn:
            if self._is_on and main is not None:
                signal.pthread_kill(main, SIGNAL)

    def _raise(self, _: int, __: FrameType | None) -> None:
        if self._is_on:
            raise KeyboardInterrupt
