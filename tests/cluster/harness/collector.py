"""collector - what traces and metrics are pushed to: it keeps what it is sent, and behaves as it is told."""

import http.server
import json
import re
import threading
import time

HEX = {"traceId": re.compile(r"^[0-9a-f]{32}$"), "spanId": re.compile(r"^[0-9a-f]{16}$"),
       "parentSpanId": re.compile(r"^[0-9a-f]{16}$")}
HUGE = 1 << 26


def value_of(value):
    """An AnyValue of OTLP as a value of Python."""
    (kind, found), = value.items()
    return int(found) if kind == "intValue" else found


def attributes_of(holder):
    found = {}
    for item in holder.get("attributes", []):
        assert item["key"] not in found, f"twice: {item['key']}"
        found[item["key"]] = value_of(item["value"])
    return found


class Collector:
    """A server of HTTP at a port of loopback; `mode` is what it does with a message:

    an int   answers with that status and `headers`, and `answer` as the body
    "hang"   answers nothing until it is closed
    "huge"   answers 200 and a body, or a head, without end
    """

    def __init__(self, port):
        self.mode = 200
        self.headers = {}
        self.answer = b"{}"
        self.posts = []  # (path, headers, body, time)
        self.poured = 0  # bytes of an answer without end that were taken, at most
        self.ended = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                collector.take(self)

            def log_message(self, *ignored):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *ignored):
                pass  # a client that gives up is what some tests are about

        self.server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def take(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.posts.append((request.path, dict(request.headers), body, time.monotonic()))
        if self.mode == "hang":
            self.ended.wait()
            return
        if self.mode == "huge":
            self.flood(request)
            return
        request.send_response(self.mode)
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(self.answer)))
        request.end_headers()
        request.wfile.write(self.answer)

    def flood(self, request):
        request.send_response(200)
        request.send_header("Content-Length", str(HUGE))
        if len(self.posts) % 2 == 0:
            request.flush_headers()
            self.pour(request, b"X-More: " + b"x" * 1000 + b"\r\n")
        request.end_headers()
        self.pour(request, b" " * (1 << 16))

    def pour(self, request, piece):
        for at in range(HUGE // len(piece)):
            request.wfile.write(piece)
            self.poured = max(self.poured, at * len(piece))

    def bodies(self, path):
        return [json.loads(body) for at, _, body, _ in list(self.posts) if at == path]

    def spans(self):
        """All spans that it was sent, with `attributes` and `resource` as mappings."""
        found = []
        for body in self.bodies("/v1/traces"):
            for resource in body["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    assert scope["scope"]["name"] == "tidegated"
                    for span in scope["spans"]:
                        assert all(pattern.match(span[key]) for key, pattern in HEX.items() if key in span)
                        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
                        found.append(dict(span, attributes=attributes_of(span),
                                          resource=attributes_of(resource["resource"])))
        return found

    def pages(self):
        """Each page of metrics that it was sent: {name: metric}."""
        found = []
        for body in self.bodies("/v1/metrics"):
            page = {}
            for resource in body["resourceMetrics"]:
                for scope in resource["scopeMetrics"]:
                    for metric in scope["metrics"]:
                        assert metric["name"] not in page
                        page[metric["name"]] = metric
            found.append(page)
        return found
