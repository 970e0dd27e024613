"""HTTP to a node, by Python's own library: one connection, kept."""

import http.client
import json
from dataclasses import dataclass


@dataclass
class Answer:
    """A response: its status, its header fields, and what its body says."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def said(self):
        return json.loads(self.body)


class Http:
    """A client of one node's HTTP port."""

    def __init__(self, node, timeout=30):
        self.link = http.client.HTTPConnection(node.host, node.port + 4, timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.link.close()

    def ask(self, method, path, body=None, **headers):
        """Sends a request; `body` is bytes, or what JSON has. Header fields have - for each _."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            fields.setdefault("Content-Type", "application/json")
        self.link.request(method, path, body, fields)
        response = self.link.getresponse()
        return Answer(response.status, response.headers, response.read())

    def post(self, path, body, **headers):
        return self.ask("POST", path, body, **headers)
