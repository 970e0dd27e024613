#!/usr/bin/python3
"""gateway - in front of a language model: it reserves an estimate of tokens, and commits what was used.

    POST /v1/chat   {"user": "ada", "prompt": "...", "max_tokens": 500}     answered by events, as the model gives them

    TIDEGATE=127.0.0.1:7604,127.0.0.1:7614 MODEL=127.0.0.1:9000 PORT=8000 python3 gateway.py

1. How many tokens the answer takes is not known before it is over: the prompt and `max_tokens` are reserved. Who has
   not so many left is told 429, and when to come again, before the model has done anything.
2. What was streamed is committed, also when the caller has gone away, or the model broke off. A commit may be sent
   again at will: it is counted once.
3. If this process dies the reservation ends by itself, and nothing is charged.
4. Where no node answers in time, the request passes and is not counted: that is this gateway's own choice.
"""

import http.client
import json
import os
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TIDEGATE = (os.environ.get("TIDEGATE") or "127.0.0.1:7604").split(",")  # any node decides, or passes on
MODEL = os.environ.get("MODEL") or "127.0.0.1:9000"
PORT = int(os.environ.get("PORT") or 8000)

TTL = "120s"  # longer than any answer takes
ASK_S, SETTLE_S = 0.3, 2
SETTLE_TIMES = 5
LETTERS_A_TOKEN = 4


def ask(operation, question, timeout, headers):
    """Status, header fields and decision of the first node that has decided; None if none has."""
    for node in TIDEGATE:
        told = ask_one(node, operation, question, timeout, headers)
        if told is not None:
            return told
    return None


def ask_one(node, operation, question, timeout, headers):
    link = http.client.HTTPConnection(node, timeout=timeout)
    try:
        link.request("POST", f"/v1/{operation}", json.dumps(question), {"Content-Type": "application/json", **headers})
        answer = link.getresponse()
        decision = json.loads(answer.read())
        return None if decision.get("outcome") in (None, "busy", "error") else (answer.status, answer.headers, decision)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        link.close()


class Reservation:
    """So many tokens of a user, held until they are settled."""

    def __init__(self, attributes, tokens):
        self.attributes = attributes
        question = {"attributes": attributes, "cost": tokens, "ttl": TTL}
        # Where an answer is lost another node is asked: under the same key it is the same reservation.
        key = {"Idempotency-Key": str(uuid.uuid4())}
        told = ask("reserve", question, ASK_S, key)
        self.status, self.headers, decision = told or (200, {}, {"allowed": True})
        self.allowed = decision["allowed"]
        self.message = decision.get("message")
        self.hold = decision.get("hold_id")  # none where nothing limits it, or nobody could be asked

    def settle(self, operation, **what):
        question = {"attributes": self.attributes, "hold_id": self.hold, **what}
        for again in range(SETTLE_TIMES if self.hold else 0):
            time.sleep(0.1 * again)
            if ask(operation, question, SETTLE_S, {}) is not None:
                break
        self.hold = None


class Gateway(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def tell(self, status, said, headers=()):
        body = json.dumps(said).encode()
        self.send_response(status)
        for name in ("RateLimit-Policy", "RateLimit", "Retry-After"):
            if name in headers:
                self.send_header(name, headers[name])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        prompt = len(request["prompt"]) // LETTERS_A_TOKEN + 1
        attributes = {"api": "/v1/chat", "user": str(request["user"])}
        reserved = Reservation(attributes, prompt + int(request.get("max_tokens", 500)))
        if not reserved.allowed:
            self.tell(reserved.status, {"error": reserved.message}, reserved.headers)
            return
        model = http.client.HTTPConnection(MODEL, timeout=60)
        try:
            model.request("POST", "/generate", json.dumps(request), {"Content-Type": "application/json"})
            answer = model.getresponse()
        except (OSError, http.client.HTTPException) as failure:
            answer = failure
        if getattr(answer, "status", None) != 200:
            reserved.settle("cancel")
            self.tell(502, {"error": "the model does not answer"})
        else:
            self.stream(answer, reserved, prompt)
        model.close()

    def stream(self, answer, reserved, prompt):
        """Passes on what the model says, event by event. Each is a token; the last one tells how many there were."""
        used = prompt
        try:
            self.send_response(200)
            for name, value in (("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"),
                                ("Connection", "close")):
                self.send_header(name, value)
            self.end_headers()
            for line in answer:
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    used = event.get("used", used + 1)
                self.wfile.write(line)
        except (OSError, http.client.HTTPException, ValueError):
            pass  # the caller has gone, or the model broke off: what there was is charged
        finally:
            reserved.settle("commit", actual=used)
            self.close_connection = True

    def log_message(self, *ignored):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Gateway).serve_forever()
