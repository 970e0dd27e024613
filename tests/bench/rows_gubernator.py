"""rows_gubernator - Gubernator's API: its client library in Go beside a node of Gubernator, and h2load with one message.

Program and library are built of its Go module, by what builds it for tests/interop. Where Go is not there, h2load alone
is measured, and the table says so.
"""

import json
import os
import shutil
import subprocess
import sys

import peers
from report import median
from rows_rls import h2load

sys.path.insert(0, os.path.join(peers.FOLDER, "..", "interop"))

import gubernator  # noqa: E402 - it is beside other tests
import kits  # noqa: E402

METHOD = "/pb.gubernator.V1/GetRateLimits"
SECONDS, MESSAGES = 4, 6000
ITEMS = 1000  # the most that a call may have
KEYS = 40000  # of the client; Gubernator keeps 50,000 by default
LIMIT, DURATION_MS = 1000000000, 3600000
SHAPES = [(50, 1, 2), (8, ITEMS, 2.5)]  # calls in flight, items of each, and how many times as much is promised
STREAMS = (8, 10)  # connections of h2load, and streams of each
PREBUILT = 1000000


def client():
    with open(os.path.join(peers.FOLDER, "gubernator_client.go"), encoding="utf-8") as file:
        return kits.go("gubernator-client", file.read(), f"{gubernator.MODULE}@{gubernator.VERSION}")


def ask(program, endpoint, calls, items, seconds):
    """What the client found: answers of items a second, and latencies of calls in us."""
    done = subprocess.run([program, endpoint, *map(str, (calls, items, KEYS, seconds))], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"gubernator_client: {done.stderr.strip()[-300:]}")
    told = json.loads(done.stdout)
    if told["errors"] >= max(1, told["answers"]) * peers.ERRORS_SHARE_MAX:
        raise RuntimeError(f"gubernator_client: {told['errors']} errors, {told['answers']} answers: {done.stderr.strip()[-200:]}")
    return {"rate": told["answers"] / told["seconds"], "latency": {name: told[name] for name in ("p50", "p99", "p999")}}


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def text(number, value):
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def message(items):
    """The bytes of a GetRateLimitsReq of so many keys, with the prefix of gRPC: what the client asks."""
    fields = b"".join(bytes([number << 3]) + varint(value) for number, value in ((3, 1), (4, LIMIT), (5, DURATION_MS)))
    whole = b"".join(text(1, text(1, b"requests_per_hour") + text(2, b"account:%06d" % i) + fields) for i in range(items))
    return b"\0" + len(whole).to_bytes(4, "big") + whole


def beside(bench, endpoint, sides):
    """Adds the sides of both shapes, here and at Gubernator."""
    program, block = client(), bench.stack.enter_context(peers.ports())
    other = bench.stack.enter_context(gubernator.running(bench.folder, 1, block.first))[0]
    for calls, items, _ in SHAPES:
        for name, where in (("here", endpoint), ("there", other)):
            sides[name, calls, items] = lambda where=where, calls=calls, items=items: ask(program, where, calls, items, bench.seconds(SECONDS))


def prebuilt(bench, port, sides):
    body = os.path.join(bench.folder, "gubernator.body")
    with open(body, "wb") as file:
        file.write(message(ITEMS))
    sides["h2load"] = lambda: h2load(port, body, 100 if bench.quick else MESSAGES, METHOD, *STREAMS)


def label(calls, items):
    return f"one Go client, {calls} x {items:,} item" + ("s" if items > 1 else "")


def of_gubernator(bench):
    """S14: GetRateLimits of Gubernator's Go client, single items and 1,000 a call, beside Gubernator; and by h2load"""
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "gubernator", 1, *bench.memory))[0]
    port, sides, streams = node.port + 5, {}, f"{STREAMS[0]} x {STREAMS[1]} streams of {ITEMS:,} items by h2load"
    if not bench.quick and shutil.which("go"):
        beside(bench, f"127.0.0.1:{port}", sides)
    elif not bench.quick:
        for calls, items, times in SHAPES:
            bench.report.absent("gubernator", label(calls, items), "Go is not installed", f"S14: >= {times} x")
    if shutil.which("h2load"):
        prebuilt(bench, port, sides)
    else:
        bench.report.absent("gubernator", streams, "h2load is not installed", f"S14: >= {PREBUILT // 1000000} M/s")
    found = bench.in_turns(sides)
    for calls, items, times in SHAPES:
        if ("here", calls, items) not in found:
            continue
        here, there = found["here", calls, items], found["there", calls, items]
        rates, peer_rates = [each["rate"] for each in here], [each["rate"] for each in there]
        ratio = median(rates) / median(peer_rates)
        bench.report.add("gubernator", label(calls, items), rates, "items/s", peer="Gubernator", peer_values=peer_rates, ratio=ratio,
                         promised=f"S14: >= {times} x", kept=ratio >= times, latencies=[each["latency"] for each in here],
                         peer_latencies=[each["latency"] for each in there])
    if "h2load" in found:
        rates = [each["rate"] * ITEMS for each in found["h2load"]]
        bench.report.add("gubernator", streams, rates, "items/s", promised=f"S14: >= {PREBUILT // 1000000} M/s",
                         kept=median(rates) >= PREBUILT)


ROWS = {"gubernator": of_gubernator}
