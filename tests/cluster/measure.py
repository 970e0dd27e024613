#!/usr/bin/python3
"""measure.py - the promises R1 to R5, and what idling costs, on real processes; `make measure`.

Usage: measure.py [--only R1,R2,...,idle,lag,saturated] [--nodes 3,5] [--kills N] [--seconds N]

Prints one table in Markdown, ready for tests/README.md, and what it is doing meanwhile on stderr. A row
that is not what was promised says so, and the exit status is 1. Programs are taken from TIDEGATE_BUILD.
"""

import argparse
import collections
import datetime
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import Cluster, Command, History, Load, Stopwatch, wait_for
from harness.client import RuleLimit, long_limit
from harness.network import Network, why_not

LAST_MOMENTS_S = 0.025
STRICT = RuleLimit(300, "strict")
RULES = f"""
rules:
  - {{name: strict, match: {{plan: strict}}, key: [user], consistency: quorum, on_failure: closed,
     limits: [{{rate: {STRICT.count}/25h, algorithm: fixed_window}}]}}
"""
WRITE_BACK_S = 0.5 + 0.35  # a period, one write, and the loop's round until then
TABLE = ["| promise | measured on | promised | found | |", "|---|---|---|---|---|"]


class Report:
    """Rows of the table, and whether all of them are as promised."""

    def __init__(self):
        self.rows = []
        self.broken = 0

    def add(self, promise, where, promised, found, kept):
        self.broken += not kept
        self.rows.append(f"| {promise} | {where} | {promised} | {found} | "
                         f"{'kept' if kept else '**NOT KEPT**'} |")
        say(self.rows[-1])


def say(line):
    print(line, file=sys.stderr, flush=True)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(values):
    return f"p50 {percentile(values, 0.5):.0f} ms, p99 {percentile(values, 0.99):.0f} ms " \
           f"(of {len(values)})"


class Scene:
    """A fresh cluster in a folder that goes away."""

    def __init__(self, nodes, network=None, rules=None):
        self.folder = tempfile.mkdtemp(prefix="tidegate-measure-")
        arguments = ()
        if rules:
            path = os.path.join(self.folder, "rules.yaml")
            with open(path, "w", encoding="ascii") as file:
                file.write(rules)
            arguments = ("--rules", path)
        self.cluster = Cluster(self.folder, nodes, *arguments, network=network)

    def __enter__(self):
        return self.cluster.start(90)

    def __exit__(self, *ignored):
        self.cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def victims_of(cluster, kills):
    for number in range(kills):
        yield number, cluster[(number + 1) % len(cluster.nodes)]


# --- R1: kill -9 of an owner ------------------------------------------------------------------


def wait_dead(cluster, victim, watch):
    """When each of the others calls the victim dead, in ms."""
    seen = {}

    def look():
        for node in cluster.live:
            if node.name not in seen and node.members()[victim.name]["state"] == "dead":
                seen[node.name] = watch.ms
        return len(seen) == len(cluster.live)
    wait_for(look, 30, f"{victim} is dead to all others", 0.02)
    return list(seen.values())


def idle_kills(cluster, kills):
    """Times to the next answer about a dead node's key, and to its death at every node."""
    answers, deaths = [], []
    for number, victim in victims_of(cluster, kills):
        key = cluster.keys_decided_by(victim.name, 1, f"idle-{number}-")[0]
        asked = next(node for node in cluster if node is not victim)
        with asked.client(attempt_s=5, deadline_s=5) as client:
            client.peek(key, long_limit(100))
            watch = Stopwatch()
            victim.process.kill()
            answer = client.check(key, long_limit(100))
            answers.append(watch.ms)
            assert answer.outcome == "allow" and answer.node != victim.name, answer
        victim.process.wait()
        deaths.append(max(wait_dead(cluster, victim, watch)))
        victim.start()
        cluster.wait_healthy(30)
    return answers, deaths


def busy_kills(cluster, kills):
    """The longest pause of a dead node's keys under load."""
    pauses = []
    for number, victim in victims_of(cluster, kills):
        keys = cluster.keys_decided_by(victim.name, 4, f"busy-{number}-")
        others = [node.endpoint for node in cluster if node is not victim]
        with Load(others, keys, long_limit(10**9, "fixed_window"), threads=2, batch=16, window=4,
                  silence_s=5) as load:
            wait_for(lambda load=load: load.count() > 3000, 20, "the load runs")
            killed = time.monotonic()
            victim.kill()
            wait_for(lambda killed=killed: time.monotonic() - killed > 1, 5, "a second has passed")
            pauses.append(load.longest_pause_ms(killed, time.monotonic(), keys))
        victim.start()
        cluster.wait_healthy(30)
    return pauses


def measure_r1(report, options):
    for nodes in options.nodes:
        with Scene(nodes) as cluster:
            answers, deaths = idle_kills(cluster, options.kills)
            pauses = busy_kills(cluster, options.kills)
        where = f"{nodes} nodes, {options.kills} kills"
        report.add("R1 answers resume, idle", where, "<= 100 ms", spread(answers),
                   percentile(answers, 0.99) <= 100)
        report.add("R1 answers resume, under load", where, "<= 100 ms", spread(pauses),
                   percentile(pauses, 0.99) <= 100)
        report.add("R1 dead at every node", where, "p50 <= 4 s, p99 <= 5 s", spread(deaths),
                   percentile(deaths, 0.5) <= 4000 and percentile(deaths, 0.99) <= 5000)


# --- R2: planned changes ----------------------------------------------------------------------


def lost_and_refused(cluster, load):
    history = History(load)
    with cluster.client(1) as client:
        used = {key: client.used(key, load.limit) for key in load.keys}
    lost = sum(max(0, history.keys[key].admitted - used[key]) for key in load.keys)
    twice = sum(max(0, used[key] - history.keys[key].admitted) for key in load.keys)
    errors = len(history.refusals) + len(history.unanswered) + \
        sum(key.undecided for key in history.keys.values())
    return history, lost, twice, errors


def under_load(cluster, change):
    keys = [f"planned-{number}" for number in range(24)]
    with Load(list(cluster.endpoints), keys, long_limit(10**9, "fixed_window"), threads=3, batch=16,
              window=4, last_s=5) as load:
        wait_for(lambda: load.count() > 10000, 30, "the load runs")
        change()
    return lost_and_refused(cluster, load)


def rolling_restart(cluster):
    for node in cluster:
        assert node.stop() == 0
        node.start()
        cluster.wait_healthy(30)


def join(cluster):
    cluster.add().start()
    cluster.wait_healthy(60)


def drain(cluster):
    done = Command("drain", endpoints=[cluster[0].endpoint], within_s=120)
    assert done.code == 0, done


def leave(cluster):
    """The clients know it: who is asked and goes, sends them on."""
    done = Command("leave", endpoints=[cluster[0].endpoint], within_s=120)
    assert done.code == 0, done
    assert cluster[0].wait_exit() == 0


def measure_r2(report, options):
    for name, change in (("rolling restart", rolling_restart), ("join", join), ("drain", drain),
                         ("leave", leave)):
        for nodes in options.nodes:
            with Scene(nodes) as cluster:
                history, lost, twice, errors = under_load(cluster, lambda: change(cluster))
            admitted = sum(key.admitted for key in history.keys.values())
            report.add(f"R2 counts lost, {name}", f"{nodes} nodes, {admitted} admitted meanwhile",
                       "0, no client error",
                       f"{lost} lost, {errors} errors, {twice} charged twice, longest pause "
                       f"{history.pause_ms():.0f} ms", lost == 0 and errors == 0)


# --- R3: a decider's crash --------------------------------------------------------------------


def crash_excess(cluster, number, victim):
    """One kill of a busy decider: items beyond the limit, and what it had answered last."""
    keys = cluster.keys_decided_by(victim.name, 4, f"crash-{number}-")
    limit = long_limit(6000)
    with Load(cluster.endpoints, keys, limit, threads=2, batch=16, window=4) as load:
        wait_for(lambda: all(load.allowed(key) > limit.count * 0.3 for key in keys), 30, "a third")
        killed, gone = victim.kill()

        def exhausted():
            last = {answer.key: answer for answer in load.all()}
            return all(last[key].allowed == 0 and last[key].undecided == 0 for key in keys) and \
                time.monotonic() - killed > 0.5
        wait_for(exhausted, 30, "every key is exhausted", 0.1)
    history = History(load)
    last = history.last_moments([(victim.name, killed, gone)], LAST_MOMENTS_S)
    excess = sum(key.excess for key in history.keys.values())
    within = all(key.excess <= last[name] for name, key in history.keys.items())
    victim.start()
    cluster.wait_healthy(30)
    return excess, sum(last.values()), within


def measure_r3(report, options):
    for nodes in options.nodes:
        with Scene(nodes) as cluster:
            found = [crash_excess(cluster, number, victim)
                     for number, victim in victims_of(cluster, options.kills)]
        excesses = [excess for excess, _, _ in found]
        report.add("R3 `one`: admitted again after a crash",
                   f"{nodes} nodes, {options.kills} kills under load",
                   "<= what no replica had acknowledged",
                   f"p50 {percentile(excesses, 0.5)}, most {max(excesses)} items of 24000; answered "
                   f"in the last 25 ms: most {max(last for _, last, _ in found)}",
                   all(within for _, _, within in found))


def strict_load(cluster, keys, endpoints=None):
    return Load(endpoints or list(cluster.endpoints), keys, STRICT, threads=3, batch=2, window=2)


def strict_kill(cluster, number, victim):
    """One kill of a node under load of consistency quorum: excess and lost items, and the pause."""
    keys = [f"strict-{number}-{at}" for at in range(12)]
    with strict_load(cluster, keys) as load:
        wait_for(lambda: load.allowed() > STRICT.count * 3, 30, "a quarter is used")
        killed, _ = victim.kill()
        wait_for(lambda: load.count() > 1.5 * STRICT.count * len(keys), 60, "all was asked for")
        pause = load.longest_pause_ms(killed, min(killed + 3, time.monotonic()))  # then the load ends
    victim.start()
    cluster.wait_healthy(30)
    history = History(load)
    with cluster.client(attempt_s=3, deadline_s=10) as client:
        used = {key: client.peek(key, STRICT, cost=0).used for key in keys}
    return sum(key.excess for key in history.keys.values()), \
        sum(max(0, history.keys[key].admitted - used[key]) for key in keys), pause


def measure_r3_quorum(report, options):
    for nodes in options.nodes:
        with Scene(nodes, rules=RULES) as cluster:
            found = [strict_kill(cluster, number, victim)
                     for number, victim in victims_of(cluster, options.kills)]
        excess, lost = sum(row[0] for row in found), sum(row[1] for row in found)
        report.add("R3 `quorum`: admitted again after a crash",
                   f"{nodes} nodes, {options.kills} kills under load", "0",
                   f"{excess} admitted again, {lost} forgotten; longest pause p50 "
                   f"{percentile([row[2] for row in found], 0.5):.0f} ms", excess == 0 and lost == 0)


# --- R4: a split ------------------------------------------------------------------------------


def split_once(cluster, sides):
    """What each side admits of keys that were untouched, and when it began to answer."""
    limit = long_limit(100)
    keys = [f"split-{number}-{time.time_ns()}" for number in range(24)]
    loads = [Load([cluster[number].endpoint for number in side], keys, limit, threads=1, batch=2,
                  window=4, pace_s=0.005) for side in sides]
    cluster.network.split(*sides)
    for load in loads:
        load.__enter__()

    def exhausted():
        lasts = [{answer.key: answer for answer in load.all()} for load in loads]
        return all(len(last) == len(keys) and all(answer.allowed == 0 for answer in last.values())
                   for last in lasts)
    try:
        wait_for(exhausted, 60, "every key is denied on every side", 0.1)
    finally:
        for load in loads:
            load.stop()
    cluster.network.heal()
    watch = Stopwatch()
    cluster.wait_healthy(60)
    histories = [History(load) for load in loads]
    most = max(key.admitted for history in histories for key in history.keys.values())
    with cluster.client() as client:
        again = sum(answer.allowed for answer in client.ask(keys, limit))
        used = [answer.used for answer in client.ask(keys, limit, "peek", cost=0)]
    return most, again, min(used), watch.ms


def measure_r4(report, options):
    missing = why_not()
    if missing:
        report.add("R4 a split", "-", "<= one limit a side", f"not measured: {missing}", True)
        return
    for name, sides in (("2 and 1", [[0, 1], [2]]), ("1, 1 and 1", [[0], [1], [2]])):
        with Network(3) as network, Scene(3, network) as cluster:
            found = [split_once(cluster, sides) for _ in range(max(3, options.kills // 3))]
        most = max(row[0] for row in found)
        again = sum(row[1] for row in found)
        report.add(f"R4 `one`: a split of {name}", f"3 nodes in namespaces, {len(found)} splits, 24 keys",
                   "<= one limit (100) a side, none after the heal",
                   f"most {most} a side, {again} after; healthy again in "
                   f"{max(row[3] for row in found):.0f} ms", most <= 100 and again == 0)


def measure_r4_quorum(report, options):
    missing = why_not()
    if missing:
        return
    splits = max(3, options.kills // 3)
    most = alone = 0
    with Network(3) as network, Scene(3, network, RULES) as cluster:
        for number in range(splits):
            keys = [f"apart-{number}-{at}" for at in range(12)]
            network.split([0, 1], [2])
            few = strict_load(cluster, keys, [cluster[2].endpoint])
            with strict_load(cluster, keys, [node.endpoint for node in cluster.nodes[:2]]) as many, few:
                wait_for(lambda many=many: many.count() > 1.2 * STRICT.count * len(keys), 60,
                         "the majority was asked for more than there is")
                healed = time.monotonic()
                network.heal()
                cluster.wait_healthy(60)
            alone += sum(answer.allowed for answer in few.all() if answer.at < healed)
            most = max(most, *(key.admitted for key in History(many, few).keys.values()))
    report.add("R4 `quorum`: a split of 2 and 1", f"3 nodes in namespaces, {splits} splits, 12 keys",
               f"0 above the limit ({STRICT.count})", f"most {most} on both sides together, {alone} "
               f"by the side without a majority", most <= STRICT.count and alone == 0)


# --- R5: all nodes ----------------------------------------------------------------------------


def kill_all_once(cluster, number):
    """Items that were answered and are forgotten, the worst key's age of them, and the pause."""
    keys = [f"all-{number}-{at}" for at in range(12)]
    limit = long_limit(10**9, "fixed_window")
    with Load(cluster.endpoints, keys, limit, threads=2, batch=8, window=2, pace_s=0.002,
              last_s=0.3) as load:
        wait_for(lambda: load.count() > 15000, 30, "the load runs")
        killed = time.monotonic()
        cluster.kill_all()
        load.stopping.set()
    cluster.start(30)
    history = History(load)
    with cluster.client() as client:
        used = {key: client.used(key, limit) for key in keys}
    lost = {key: max(0, history.keys[key].admitted - used[key]) for key in keys}
    bound = {key: history.admitted_between(killed - WRITE_BACK_S, killed + 1, key) for key in keys}
    ages = [age_of(history, key, lost[key], killed) for key in keys]
    return sum(lost.values()), sum(bound.values()), max(ages), \
        all(lost[key] <= bound[key] for key in keys)


def age_of(history, key, lost, killed):
    """How old the oldest forgotten answer was, if the last ones are the forgotten ones."""
    counted = collections.deque(answer for answer in history.answers
                                if answer.key == key and answer.allowed)
    oldest = killed
    while lost > 0 and counted:
        answer = counted.pop()
        lost -= answer.allowed
        oldest = min(oldest, answer.at)
    return killed - oldest


def measure_r5(report, options):
    for nodes in options.nodes:
        with Scene(nodes) as cluster:
            found = [kill_all_once(cluster, number) for number in range(options.kills)]
        report.add("R5 all killed at once: hits forgotten", f"{nodes} nodes, {options.kills} times",
                   "<= 0.5 s + one flush",
                   f"most {max(row[0] for row in found)} items, the oldest answered "
                   f"{max(row[2] for row in found) * 1000:.0f} ms before",
                   all(row[3] for row in found))


# --- a busy machine, and an idle one ------------------------------------------------------------


def acknowledgement_lag(cluster):
    """p50 and p99 in ms at the slowest node, of grants asked for one after the other."""
    limit = long_limit(10**6)
    with cluster.client() as client:
        for number in range(3000):
            client.check(f"lag-{number % 200}", limit)
    found = []

    def look():
        found.append([node.status()["acknowledgement"] for node in cluster])
        return len(found) > 1 and found[-1] == found[-2] and sum(
            lag["samples"] for lag in found[-1]) > 0
    wait_for(look, 10, "the figures of the last checks are published", 0.2)
    return [max(lag[name] for lag in found[-1]) / 1000 for name in ("p50_us", "p99_us")]


def measure_lag(report, options):
    for nodes in options.nodes:
        with Scene(nodes) as cluster:
            found = [acknowledgement_lag(cluster) for _ in range(3)]
        p99 = percentile([row[1] for row in found], 0.5)
        report.add("R3 acknowledgement lag of `one`, unsaturated", f"{nodes} nodes, 3 rounds of 3000",
                   "p99 <= 5 ms", f"p50 {percentile([row[0] for row in found], 0.5):.1f} ms, p99 "
                   f"{p99:.1f} ms (medians), load {os.getloadavg()[0]:.0f}", p99 <= 5)


def measure_saturated(report, options):
    """Deciders that lost their terms though nothing was wrong but that the processors were taken."""
    burner = [sys.executable, "-c", "while True: pass"]
    for nodes in options.nodes:
        with Scene(nodes) as cluster:
            before = sum(node.counter("takeovers") for node in cluster)
            burners = [subprocess.Popen(burner) for _ in range(2 * os.cpu_count())]
            try:
                with Load(cluster.endpoints, [f"busy-{at}" for at in range(48)],
                          long_limit(10**9, "fixed_window"), threads=4, batch=512, window=8,
                          silence_s=5) as load:
                    begin = time.monotonic()
                    wait_for(lambda begin=begin: time.monotonic() > begin + options.seconds,
                             options.seconds + 5, "the machine was busy for long enough", 0.1)
                answers = load.count()
            finally:
                for process in burners:
                    process.kill()
                    process.wait()
            cluster.wait_healthy(30)
            false = sum(node.counter("takeovers") for node in cluster) - before
        report.add("R1a false take-overs, processors saturated",
                   f"{nodes} nodes, {options.seconds} s, {2 * os.cpu_count()} busy loops beside a "
                   f"load of {answers / options.seconds:,.0f} checks/s", "0 vnodes",
                   f"{false} vnodes", false == 0)


def processor_s(node):
    """Seconds that all threads of the node's process have run, as the scheduler counts them."""
    total = 0
    for task in os.listdir(f"/proc/{node.pid}/task"):
        with open(f"/proc/{node.pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def wakeups(node):
    """How often the threads of the node's process have gone to sleep."""
    total = 0
    for task in os.listdir(f"/proc/{node.pid}/task"):
        with open(f"/proc/{node.pid}/task/{task}/status", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary"))
    return total


def measure_idle(report, options):
    for name, rules in (("", None), (", with a rule of quorum", RULES)):
        for nodes in options.nodes:
            with Scene(nodes, rules=rules) as cluster:
                wait_for(lambda cluster=cluster: all(
                    node.status()["shards"][0]["parts_waiting"] == 0 for node in cluster), 10, "rest")
                begin = time.monotonic()
                wait_for(lambda begin=begin: time.monotonic() > begin + 7, 12,
                         "the nodes have been idle for a while", 0.5)  # nobody asks for figures
                before = [(processor_s(node), wakeups(node)) for node in cluster]
                begin = time.monotonic()
                wait_for(lambda begin=begin: time.monotonic() > begin + options.seconds,
                         options.seconds + 5, "the nodes were idle for long enough", 0.5)
                spent = time.monotonic() - begin
                shares = [(processor_s(node) - was[0]) / spent * 100
                          for node, was in zip(cluster, before)]
                wakes = [(wakeups(node) - was[1]) / spent for node, was in zip(cluster, before)]
            middle = percentile(shares, 0.5)
            report.add(f"Idle: share of a core{name}", f"{nodes} nodes, {options.seconds} s", "< 0.5%",
                       f"median {middle:.2f}%, most {max(shares):.2f}%, {percentile(wakes, 0.5):.0f} "
                       f"wake-ups a second, load {os.getloadavg()[0]:.0f}", middle < 0.5)


MEASURES = {"R1": [measure_r1], "R2": [measure_r2],
            "R3": [measure_r3, measure_r3_quorum, measure_lag],
            "R4": [measure_r4, measure_r4_quorum, measure_saturated], "R5": [measure_r5],
            "lag": [measure_lag], "saturated": [measure_saturated], "idle": [measure_idle]}
USUAL = "R1,R2,R3,R4,R5,idle"


def machine():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else platform.machine()}, Linux {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=USUAL)
    parser.add_argument("--nodes", default="3,5")
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=20, help="of an idle or a saturated machine")
    options = parser.parse_args()
    options.nodes = [int(count) for count in options.nodes.split(",")]
    random.seed(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    report = Report()
    for name in options.only.split(","):
        for measure in MEASURES[name]:
            measure(report, options)
    print(f"Measured on {datetime.date.today()}, {machine()}, nodes and clients on the one machine, "
          f"write-back every 0.5 s:\n")
    print("\n".join(TABLE + report.rows))
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
