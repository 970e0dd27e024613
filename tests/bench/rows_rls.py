"""rows_rls - Envoy's rate limit service: a client in Go beside envoyproxy/ratelimit on a redis-server, and h2load.

The reference and the client are built of Go modules, by what builds them for tests/interop. Where Go is not there, h2load
alone is measured, and the table says so.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import peers
from report import median

sys.path.insert(0, os.path.join(peers.FOLDER, "..", "interop"))

import kits  # noqa: E402 - it is beside other tests
import reference  # noqa: E402

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
TIMES, STREAMS = 2, 150000
SECONDS, REQUESTS = 4, 400000
IN_FLIGHT = 50
PREFIX_LEN = 5  # of a message of gRPC
SHORTER_MAX = 0.1  # an answer with a digit less
RULES = "domain: bench\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}\n"
ENTRY = b"\x0a\x04user\x12\x03one"
MESSAGE = b"\x0a\x05bench\x12" + bytes([len(ENTRY) + 2]) + b"\x0a" + bytes([len(ENTRY)]) + ENTRY
GRPC = "google.golang.org/grpc@v1.85.0"


def client():
    with open(os.path.join(peers.FOLDER, "rls_client.go"), encoding="utf-8") as file:
        return kits.go("rls-client", file.read(), GRPC)


def ask(program, port, seconds):
    """What the client found: answers a second, and latencies in us."""
    done = subprocess.run([program, f"127.0.0.1:{port}", str(IN_FLIGHT), str(seconds)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"rls_client: {done.stderr.strip()[-300:]}")
    told = json.loads(done.stdout)
    if told["errors"] >= max(1, told["answers"]) * peers.ERRORS_SHARE_MAX:
        raise RuntimeError(f"rls_client: {told['errors']} errors, {told['answers']} answers: {done.stderr.strip()[-200:]}")
    return {"rate": told["answers"] / told["seconds"], "latency": {name: told[name] for name in ("p50", "p99", "p999")}}


def h2load_once(port, body, requests, method, connections, streams):
    """Answers a second, and bytes of data an answer; all are of status 200."""
    done = subprocess.run(["h2load", "-n", str(requests), "-c", str(connections), "-m", str(streams), "-d", body,
                           "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://127.0.0.1:{port}{method}"],
                          check=False, capture_output=True, text=True)
    rate, data = re.search(r"([0-9.]+) req/s", done.stdout), re.search(r"\((\d+)\) data", done.stdout)
    if rate is None or data is None or f"{requests} succeeded, 0 failed, 0 errored" not in done.stdout:
        raise RuntimeError(f"h2load: {(done.stderr or done.stdout).strip()[-300:]}")
    return float(rate.group(1)), int(data.group(1)) / requests


def h2load(port, body, requests, method=METHOD, connections=8, streams=100):
    """Answers a second of so many connections and streams of each. What gRPC refuses is of status 200 as well, without data."""
    usual = h2load_once(port, body, connections, method, connections, 1)[1]
    rate, found = h2load_once(port, body, requests, method, connections, streams)
    if found <= PREFIX_LEN or found < usual * (1 - SHORTER_MAX):
        raise RuntimeError(f"h2load: {found:.1f} bytes an answer, {usual:.1f} of the first ones: some are refused")
    return {"rate": rate, "latency": None}


def rls(bench):
    """S13: ShouldRateLimit of one Go client, 50 in flight, beside envoyproxy/ratelimit; and 8 x 100 streams of h2load"""
    rules, body = (os.path.join(bench.folder, name) for name in ("rls.yaml", "rls.body"))
    with open(rules, "w", encoding="ascii") as file:
        file.write(RULES)
    with open(body, "wb") as file:
        file.write(b"\0" + len(MESSAGE).to_bytes(4, "big") + MESSAGE)
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "rls", 1, *bench.memory, "--rules", rules))[0]
    port, seconds = node.port + 5, bench.seconds(SECONDS)
    sides, beside = {}, not bench.quick and shutil.which("go")
    if beside:
        program, block = client(), bench.stack.enter_context(peers.ports())
        other = bench.stack.enter_context(reference.running(bench.folder, {"rls.yaml": RULES}, block.first))
        sides = {"go": lambda: ask(program, port, seconds), "reference": lambda: ask(program, other, seconds)}
    elif not bench.quick:
        bench.report.absent("rls", "one Go client, 50 in flight", "Go is not installed", f"S13: >= {TIMES} x")
    if shutil.which("h2load"):
        sides["h2load"] = lambda: h2load(port, body, 2000 if bench.quick else REQUESTS)
    else:
        bench.report.absent("rls", "8 x 100 streams", "h2load is not installed", f"S13: >= {STREAMS // 1000} k/s")
    found = bench.in_turns(sides)
    rates = {name: [each["rate"] for each in rounds] for name, rounds in found.items()}
    if beside:
        ratio = median(rates["go"]) / median(rates["reference"])
        bench.report.add("rls", "one Go client, 50 in flight", rates["go"], "answers/s", peer="envoyproxy/ratelimit on Redis",
                         peer_values=rates["reference"], ratio=ratio, promised=f"S13: >= {TIMES} x", kept=ratio >= TIMES,
                         latencies=[each["latency"] for each in found["go"]],
                         peer_latencies=[each["latency"] for each in found["reference"]])
    if "h2load" in rates:
        bench.report.add("rls", "8 x 100 streams of h2load", rates["h2load"], "answers/s", promised=f"S13: >= {STREAMS // 1000} k/s",
                         kept=median(rates["h2load"]) >= STREAMS)


ROWS = {"rls": rls}
