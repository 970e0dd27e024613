"""resp - a Redis client of a few lines: bytes out, replies in, versions 2 and 3."""

import socket

from .waiting import scaled


class RespError(Exception):
    """An error reply; they are returned, not raised."""

    def __eq__(self, other):
        return isinstance(other, RespError) and self.args == other.args

    __hash__ = Exception.__hash__


def encode(*words):
    """A request as client libraries send it."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Resp:
    """One connection."""

    def __init__(self, endpoint, within_s=60):
        host, port = endpoint.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), scaled(within_s))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb", 1 << 16)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        self.input.close()
        self.socket.close()

    def send(self, *requests):
        """Requests (tuples of words) in one piece."""
        self.socket.sendall(b"".join(encode(*request) for request in requests))

    def ask(self, *words):
        self.send(words)
        return self.read()

    def pipeline(self, requests):
        self.send(*requests)
        return [self.read() for _ in requests]

    def line(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(f"the connection ended with {line!r}")
        return line[:-2]

    def read(self):
        """The next reply; an error is a RespError, null is None."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RespError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind in b"$=":
            return self.bulk(kind, int(rest))
        if kind in b"*~":
            return [self.read() for _ in range(int(rest))]
        assert kind == b"%", f"an unknown type: {line!r}"
        return {self.read(): self.read() for _ in range(int(rest))}

    def bulk(self, kind, count):
        if count < 0:
            return None
        text = self.input.read(count + 2)
        assert len(text) == count + 2 and text.endswith(b"\r\n"), f"a bulk ended with {text[-8:]!r}"
        text = text[:-2].decode()
        return text if kind == b"$" else text.split(":", 1)[1]
