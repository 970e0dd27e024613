"""rows_box - a row of a node in a container of half a processor and 128 MiB, by libtidegate and by HTTP."""

import time

import peers
from harness import Cluster
from harness.box import box
from harness.http1 import Http, request
from rows_http import BODY, ONE

PROCESSORS, MEMORY = 0.5, 128 << 20
PACE = 1000  # checks a second
KEYS = 100000
SECONDS = 5


def share(sorted_us, part):
    return sorted_us[min(len(sorted_us) - 1, int(len(sorted_us) * part))]


def paced_http(node, seconds):
    """One connection asks PACE times a second; what a wait behind an answer costs counts, too."""
    took, start = [], time.monotonic()
    with Http(node.http) as http1:
        for number in range(int(seconds * PACE)):
            due = start + number / PACE
            time.sleep(max(0.0, due - time.monotonic()))
            http1.send(request("POST", "/v1/check", {"key": f"p{number % 4096}", "rate": "1000000/60s"}))
            assert http1.read().status == 200
            took.append((time.monotonic() - due) * 1e6)
    took.sort()
    return {"rate": len(took) / (time.monotonic() - start),
            "latency": {"p50": share(took, 0.5), "p99": share(took, 0.99), "p999": share(took, 0.999)}}


def small(bench):
    """one node in a container of half a processor and 128 MiB: a thousand checks a second, and all that it can"""
    inside = bench.stack.enter_context(box(processors=PROCESSORS, memory=MEMORY))
    cluster = bench.stack.enter_context(Cluster(bench.folder, 1))
    cluster[0].prefix = inside.prefix
    node = cluster.start(60)[0]
    seconds = bench.seconds(SECONDS)

    def native(mode, **more):
        def run():
            found = peers.load(mode, node.endpoints, [node.pid], keys=KEYS, seconds=seconds, patient=True, **more)
            return {"rate": found["decisions_per_s"], "latency": found["latency_us"]}
        return run

    found = bench.in_turns({
        f"libtidegate, {PACE} a second": native("flood", items=1, rate=PACE),
        "libtidegate, all it can, 64 at once": native("client", items=64, window=64),
        "libtidegate, all it can, one at once": native("client", items=1, window=64),
        f"HTTP, {PACE} a second, one connection": lambda: paced_http(node, seconds),
        "HTTP, all it can, 50 connections": lambda: peers.wrk(node.port + 4, "/v1/check", 1 if bench.quick else SECONDS,
                                                               ONE.replace("BODY", BODY))})
    for name, rounds in found.items():
        bench.report.add("small", name, [each["rate"] for each in rounds], "checks/s",
                         latencies=[each["latency"] for each in rounds])
    periods, throttled = inside.throttled()
    bench.report.notes.append(f"small: in {throttled} of {periods} periods of 100 ms its time was used up; memory at most "
                              f"{inside.most_memory() >> 20} MiB with what the system keeps of files, "
                              f"{node.anonymous_memory() >> 20} MiB without; ended by the system "
                              f"{inside.ended_by_the_system()} times.")
    cluster.kill_all()


ROWS = {"small": small}
