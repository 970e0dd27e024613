"""rows_overload - what a node does that is asked for ten times what it can decide, through libtidegate."""

import concurrent.futures

import peers

TIMES = 10
FLOODERS = 2  # processes
ITEMS = 64
ADMITTED_PROMISED = 0.9
SECONDS = 30
AFTER_S = 1  # a node is as it was by then


def together(runs):
    """Runs all at once, each a process of the load generator; what each found."""
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        return [future.result() for future in [pool.submit(run) for run in runs]]


def overload(bench):
    """ten times what saturates a node, open loop, for 30 s: what is admitted of it, how late, and how soon it recovers"""
    node = bench.stack.enter_context(peers.cluster_of(bench.folder, "overload", 1, *bench.memory))[0]
    seconds = bench.seconds(SECONDS)

    def load(mode, last, **more):
        return lambda: peers.load(mode, node.endpoints, [node.pid], keys=bench.keys, seconds=last, patient=True, **more)

    def polite(last):  # one check after the other, beside all that
        return load("client", last, items=1, window=1)

    def saturate(last):
        *found, asks_little = together([load("client", last, items=ITEMS, window=256, warm=0.5)] * FLOODERS +
                                       [polite(last)])
        return sum(each["decisions_per_s"] for each in found), asks_little

    before, little_before = saturate(max(seconds / 10, 0.05))
    rate = before * TIMES / ITEMS / FLOODERS
    *floods, little = together([load("flood", seconds, items=ITEMS, rate=int(rate))] * FLOODERS + [polite(seconds)])
    after, _ = saturate(min(AFTER_S, seconds))
    tell(bench, floods, before, after, little, little_before)


def tell(bench, floods, before, after, little, little_before):
    admitted = sum(each["decisions_per_s"] for each in floods)
    asked = sum(each["asked"] / each["seconds"] for each in floods)
    worst = max(floods, key=lambda each: each["latency_us"]["p99"])
    saturated = (before + after) / 2  # the machine is not equally fast all the time
    ratio = admitted / saturated
    refused = sum(each["busy"] + each["unsent"] for each in floods) / sum(each["asked"] for each in floods)
    late = sum(each["errors"] + each["lost"] for each in floods) / sum(each["asked"] for each in floods)
    bench.report.add("overload", f"asked {asked / saturated:.1f} x: {refused:.1%} busy at once, {late:.2%} too late", [admitted],
                     "decisions/s", peer="saturated, before and after", peer_values=[before, after], ratio=ratio, latencies=[worst["latency_us"]],
                     promised=f"admitted >= {ADMITTED_PROMISED} x", kept=ratio >= ADMITTED_PROMISED)
    bench.report.add("overload", "who asks little beside that, p50", [little["latency_us"]["p50"]], "us",
                     latencies=[little["latency_us"]], peer="beside a saturated node",
                     peer_values=[little_before["latency_us"]["p50"]], peer_latencies=[little_before["latency_us"]],
                     ratio=little["latency_us"]["p50"] / little_before["latency_us"]["p50"],
                     busy=little["busy"], errors=little["errors"])
    bench.report.add("overload", f"in the {AFTER_S} s after it", [after], "decisions/s", peer="saturated",
                     peer_values=[before], ratio=after / before, promised=f"recovered: >= {ADMITTED_PROMISED} x",
                     kept=after / before >= ADMITTED_PROMISED)


ROWS = {"overload": overload}
