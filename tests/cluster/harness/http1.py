"""http1 - an HTTP/1.1 client of a few lines: requests as bytes, pipelined, responses in order."""

import collections
import json
import socket

from .waiting import scaled

Response = collections.namedtuple("Response", "status headers body")


def request(method, path, body=None, **headers):
    """A request as client libraries send it; underscores of headers stand for dashes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {headers.pop('host', 'localhost')}"]
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    if body is not None:
        headers.setdefault("content_type", "application/json")
        lines.append(f"Content-Length: {len(data)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def check(key, rate, **more):
    return request("POST", "/v1/check", {"key": key, "rate": rate, **more})


class Http:
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
        self.socket.sendall(b"".join(requests))

    def read(self, head=False):
        """The next response; None at the end of the connection, if it ends between two."""
        line = self.input.readline()
        if not line:
            return None
        version, status, _ = line.split(b" ", 2)
        assert version == b"HTTP/1.1" and line.endswith(b"\r\n")
        headers = {}
        while (line := self.input.readline()) != b"\r\n":
            name, value = line.decode().split(":", 1)
            assert line.endswith(b"\r\n") and name.lower() not in headers
            headers[name.lower()] = value.strip()
        length = 0 if head else int(headers.get("content-length", 0))
        body = self.input.read(length)
        assert len(body) == length
        return Response(int(status), headers, body)

    def ask(self, *arguments, **headers):
        self.send(request(*arguments, **headers))
        return self.read(head=arguments[0] == "HEAD")

    def pipeline(self, requests):
        self.send(*requests)
        return [self.read() for _ in requests]

    def rest(self):
        """The responses until the end of the connection."""
        found = []
        while (response := self.read()) is not None:
            found.append(response)
        return found
