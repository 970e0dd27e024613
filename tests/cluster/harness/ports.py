"""ports - blocks of ports for one cluster each, disjoint between test processes.

A block is taken by an advisory lock on a file, which the kernel gives back however the holder
ends; a block in which some other program listens is passed over. All lie below the range from
which the kernel chooses ports of its own.
"""

import fcntl
import os
import socket
import tempfile

FIRST = 20000
BLOCK = 100
BLOCKS = 120
FOLDER = os.path.join(tempfile.gettempdir(), f"tidegate-ports-{os.getuid()}")


class Block:
    """`count` ports from `first`; close() lets others have them."""

    def __init__(self, lock, first):
        self.lock = lock
        self.first = first
        self.count = BLOCK

    def close(self):
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None


def is_free(port):
    """Whether a listener could be bound to `port` of loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def take_block():
    """A block that nobody uses; starts looking at a place that depends on the process."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    for step in range(BLOCKS):
        number = (os.getpid() * 7 + step) % BLOCKS
        lock = os.open(os.path.join(FOLDER, str(number)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        first = FIRST + number * BLOCK
        if all(is_free(port) for port in range(first, first + BLOCK)):
            return Block(lock, first)
        os.close(lock)
    raise RuntimeError("no block of free ports was found")
