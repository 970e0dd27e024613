#!/usr/bin/python3
"""model - what the gateway is tried with: it says nothing new, a token at a time.

    POST /generate   {"max_tokens": 500, "pace_ms": 20, "length": 100}

    PORT=9000 python3 model.py
"""

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        length = min(int(request.get("length", 100)), int(request.get("max_tokens", 500)))
        prompt = len(request["prompt"]) // 4 + 1
        self.send_response(503 if request["prompt"] == "be silent" else 200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in range(length):
            self.say({"token": f"word-{number} "})
            time.sleep(int(request.get("pace_ms", 20)) / 1000)
        self.say({"used": prompt + length})

    def say(self, event):
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *ignored):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT") or 9000)), Model).serve_forever()
