"""Debian's Prometheus beside real nodes: it takes their pages, and real faults set off the alerts, which then clear."""

import contextlib
import ctypes
import http.client
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

import pytest

from harness import Cluster, Command, program, scaled, wait_for
from harness.cluster import Until
from harness.disk import fill
from harness.http1 import Http, request
from harness.metrics import Page, fetch
from harness.ports import take_block
from test_clocks import Clock

SECONDS = 300
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
NAME = re.compile(r"\b(?:tidegate|process)_[a-z0-9_]+|\bup\b")
# Hours are seconds here: the alerts are the same but for how long something has to last.
WINDOWS = {"6h": "20s", "1h": "8s", "30m": "5s", "15m": "30s", "10m": "5s", "5m": "5s", "1m": "5s"}
LOAD = pathlib.Path(program("tidegated")).resolve().parent / "tests" / "bench" / "load"
RULES = """
rules:
  - {name: fast, match: {api: /fast}, key: [user], limits: [{rate: 100000/h}]}
  - {name: sure, match: {api: /sure}, key: [user], consistency: quorum, limits: [{rate: 100000/h}]}
  - {name: scarce, match: {api: /scarce}, key: [user], limits: [{rate: 1/h}]}
  - {name: lenient, match: {api: /lenient}, key: [user], on_failure: open, limits: [{rate: 5/24h}]}
"""


def promtool(*words, **options):
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=scaled(60), check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expressions():
    """Of the dashboard, as Grafana would ask them."""
    board = json.loads((FOLDER / "dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"].replace("$__rate_interval", "1m").replace("$job", ".+").replace("$node", ".+")


def quick_alerts(folder):
    """alerts.yaml with short windows, and without waiting."""
    text = (FOLDER / "alerts.yaml").read_text()
    for long_one, short in WINDOWS.items():
        text = text.replace(f"[{long_one}]", f"[{short}]")
    (folder / "alerts.yaml").write_text(re.sub(r"^ +for: \w+\n", "", text, flags=re.MULTILINE))


class Prometheus:
    """The program, scraping nodes each second."""

    def __init__(self, folder, port, nodes):
        quick_alerts(folder)
        config = (FOLDER / "prometheus.yaml").read_text().replace("15s", "1s")
        config = re.sub(r"targets: \[.*\]", f"targets: {json.dumps([node.http for node in nodes])}", config)
        (folder / "prometheus.yaml").write_text(config)
        self.base = f"http://127.0.0.1:{port}/api/v1/"
        with open(folder / "prometheus.log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb",
                 f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

    def close(self):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, **words):
        with urllib.request.urlopen(self.base + path + "?" + urllib.parse.urlencode(words), timeout=scaled(20)) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def up(self):
        """How many nodes it reads."""
        try:
            return sum(row["value"][1] == "1" for row in self.query("up"))
        except OSError:
            return 0

    def firing(self):
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def wait_fires(self, *names):
        """Waits until each of them has fired, at some time from now on."""
        left = set(names)

        def look():
            left.difference_update(self.firing())
            return Until(left)
        wait_for(look, 40, f"{sorted(names)} fire; last: those that have not", 0.2)

    def wait_quiet(self, *but):
        wait_for(lambda: Until(self.firing() - set(but)), 60, "no alert fires; last: those that do", 0.2)


@contextlib.contextmanager
def watched(folder, cluster):
    prometheus = Prometheus(folder, cluster.block.first + 95, cluster.nodes)
    try:
        wait_for(lambda: prometheus.up() == len(cluster.nodes), 40, "all nodes are scraped", 0.1)
        yield prometheus
    finally:
        prometheus.close()


@contextlib.contextmanager
def traffic(node, *apis):
    """Somebody asks a node some hundred times a second, whatever the answer."""
    stop = threading.Event()

    def run():
        number = 0
        while not stop.is_set():
            with contextlib.suppress(OSError, AssertionError, ValueError, http.client.HTTPException):
                with Http(node.http) as http1:
                    while not stop.is_set():
                        number += 1
                        checks = [{"attributes": {"api": api, "user": f"u{number % 97}"}} for api in apis]
                        http1.send(request("POST", "/v1/check", {"checks": checks}))
                        assert http1.read() is not None
                        stop.wait(0.01)  # the pace of the traffic
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def with_rules(folder, count, *arguments):
    (folder / "rules.yaml").write_text(RULES)
    return Cluster(folder, count, "--rules", str(folder / "rules.yaml"), *arguments)


# --- what ships ------------------------------------------------------------------------------------


def test_alert_rules_are_taken_and_each_does_what_its_test_says():
    promtool("check", "rules", str(FOLDER / "alerts.yaml"))
    promtool("test", "rules", "alerts_test.yaml", cwd=FOLDER)
    promtool("check", "config", "prometheus.yaml", cwd=FOLDER)
    names = re.findall(r"- alert: (\w+)", (FOLDER / "alerts.yaml").read_text())
    fires = re.findall(r"alertname: (\w+)\n +exp_alerts:", (FOLDER / "alerts_test.yaml").read_text())
    assert sorted(names) == sorted(fires)


def test_the_dashboard_keeps_its_rules(tmp_path):
    board = json.loads((FOLDER / "dashboard.json").read_text())
    assert (board["uid"], board["id"], board["editable"], board["tags"]) == ("tidegate", None, False, ["tidegate"])
    assert isinstance(board["schemaVersion"], int)
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "region", "node"]
    for name in ("job", "region", "node"):
        assert variables[name]["multi"] and variables[name]["includeAll"] and variables[name]["allValue"] == ".+"
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in panels:
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert target["legendFormat"] and '$job' in target["expr"] and '$node' in target["expr"], panel["title"]
            assert re.findall(r"\[([^\]]+)\]", target["expr"]) in ([], ["$__rate_interval"], ["$__rate_interval"] * 2)
    records = [{"record": "a:b", "expr": expression, "labels": {"at": str(at)}}
               for at, expression in enumerate(expressions())]
    (tmp_path / "panels.json").write_text(json.dumps({"groups": [{"name": "panels", "rules": records}]}))
    promtool("check", "rules", str(tmp_path / "panels.json"))


def test_a_page_passes_promtool_and_has_all_that_alerts_and_panels_name(single):
    text, _ = fetch(single.http)
    assert promtool("check", "metrics", input=text) == ""
    known = Page(single.http).names() | {"up"}
    known |= {f"{name}{more}" for name in known if name.endswith("_duration_seconds")
              for more in ("_bucket", "_sum", "_count")}
    alerts = re.findall(r"expr: (?:'(.*)'|>-\n((?: {10}.*\n)+))", (FOLDER / "alerts.yaml").read_text())
    told = [one or more for one, more in alerts] + list(expressions())
    assert len(told) > 60
    for expression in told:
        named = set(NAME.findall(re.sub(r'"[^"]*"', "", expression)))
        assert named and not named - known, (expression, named - known)


# --- a Prometheus, and faults ----------------------------------------------------------------------


def test_three_nodes_are_scraped_and_deaths_set_off_alerts_that_clear(tmp_path):
    with with_rules(tmp_path, 3).start() as cluster, watched(tmp_path, cluster) as prometheus, \
            traffic(cluster[0], "/fast", "/sure"):
        prometheus.wait_quiet()
        wait_for(lambda: all(prometheus.query(each) for each in expressions() if "trouble" not in each), 40,
                 "each panel has something to show", 0.2)
        assert [row["value"][1] for row in prometheus.query("tidegate_members{state='alive'}")] == ["3"] * 3

        cluster[2].kill()
        prometheus.wait_fires("TidegateNodeDown", "TidegateVoterLost", "TidegateUnhealthy", "TidegateCopiesMissing")
        assert "TidegateRingFrozen" not in prometheus.firing()
        cluster[1].kill()
        prometheus.wait_fires("TidegateRingFrozen", "TidegateConfigFrozen", "TidegateCutOff", "TidegateQuorumUndecided",
                              "TidegateDegradedFast", "TidegateDegradedSlow", "TidegateUndecidedFast",
                              "TidegateUndecidedSlow", "TidegateOverAdmissionHigh")
        for node in (cluster[1], cluster[2]):
            node.start()
        cluster.wait_healthy()
        prometheus.wait_quiet()


class Keys:
    """Ever new keys, a thousand a call, and which alerts have fired meanwhile."""

    def __init__(self, node, api, prometheus):
        self.node, self.api, self.prometheus = node, api, prometheus
        self.count = 0
        self.seen = set()

    def add(self, *wanted):
        checks = [{"attributes": {"api": self.api, "user": f"{self.count + at}"}} for at in range(1000)]
        with Http(self.node.http) as http1:
            http1.send(request("POST", "/v1/check", {"checks": checks}))
            assert http1.read().status == 200
        self.count += 1000
        self.seen.update(self.prometheus.firing())
        return set(wanted) <= self.seen

    def wait_fires(self, *wanted):
        wait_for(lambda: self.add(*wanted), 60, f"{wanted} fire", 0.05)


def test_a_store_at_its_bound_sets_off_alerts(tmp_path):
    with with_rules(tmp_path, 1, "--vnodes", "64", "--store-max", "6M",
                    "--flush-interval", "50ms").start() as cluster, watched(tmp_path, cluster) as prometheus:
        prometheus.wait_quiet()
        keys = Keys(cluster[0], "/lenient", prometheus)
        keys.wait_fires("TidegateDiskNearFull", "TidegateDiskFull", "TidegateUnhealthy")
        assert "TidegateDiskFailing" not in keys.seen


def test_a_full_disk_sets_off_alerts_that_clear(tmp_path, small_disk):
    """One of three: it takes no newer configuration, either."""
    with with_rules(tmp_path, 3) as cluster:
        cluster[2].data = str(small_disk / "data")
        cluster.start()
        wait_for(lambda: len({Page(node.http).of("tidegate_config_version") for node in cluster}) == 1, 20,
                 "all have the rules")
        with watched(tmp_path, cluster) as prometheus:
            prometheus.wait_quiet("TidegateDiskNearFull")  # the file system is small
            ballast = fill(small_disk)
            keys = Keys(cluster[2], "/lenient", prometheus)
            keys.wait_fires("TidegateDiskFull", "TidegateDiskFailing", "TidegateFlushLate", "TidegateUnhealthy")
            long_one = tmp_path / "long.yaml"
            long_one.write_text("".join(f"# {line:70}\n" for line in range(8000)) + RULES.replace("5/24h", "6/24h"))
            done = Command("rules", "apply", str(long_one), "--yes", endpoints=[cluster[0].endpoint])
            assert done.code == 0, done
            keys.wait_fires("TidegateConfigDiverged")
            ballast.unlink()
            prometheus.wait_quiet("TidegateDiskNearFull")


def test_a_wrong_clock_sets_off_an_alert_that_clears(tmp_path):
    with with_rules(tmp_path, 3) as cluster:
        clock = Clock(cluster[2], tmp_path)
        cluster.start()
        with watched(tmp_path, cluster) as prometheus:
            prometheus.wait_quiet()
            clock.step_to(60)
            prometheus.wait_fires("TidegateClockOff", "TidegateUnhealthy")
            clock.step_to(0)
            prometheus.wait_quiet()


def test_a_full_memory_and_many_denials_set_off_alerts_that_clear(tmp_path):
    with with_rules(tmp_path, 1, "--ephemeral", "--memory", "8M").start() as cluster, \
            watched(tmp_path, cluster) as prometheus:
        prometheus.wait_quiet()
        Keys(cluster[0], "/lenient", prometheus).wait_fires("TidegateKeysTurnedAway", "TidegateUncounted",
                                                            "TidegateMemoryNearLimit")
        prometheus.wait_quiet("TidegateMemoryNearLimit")  # they stay for a day, as their limit does
        with traffic(cluster[0], "/scarce"):
            prometheus.wait_fires("TidegateDenialsSpike")
        prometheus.wait_quiet("TidegateMemoryNearLimit")


def test_more_than_a_node_can_decide_sets_off_an_alert_that_clears(tmp_path):
    with with_rules(tmp_path, 1).start() as cluster, watched(tmp_path, cluster) as prometheus:
        prometheus.wait_quiet()
        with subprocess.Popen([LOAD, "open", f"endpoints=tcp://{cluster[0].endpoint}",
                               "items=64", "connections=16", "rate=100000", "seconds=10", "timeout_ms=1000", "keys=100000"],
                              stdout=subprocess.DEVNULL) as flood:
            try:
                prometheus.wait_fires("TidegateShedding", "TidegateUndecidedFast")
            finally:
                flood.kill()
        prometheus.wait_quiet()


def test_a_region_that_is_lost_sets_off_an_alert_that_clears(tmp_path):
    with with_rules(tmp_path, 2) as cluster:
        cluster[1].arguments += ["--region", "far"]
        cluster.start_all()
        with watched(tmp_path, cluster) as prometheus:
            prometheus.wait_quiet()
            cluster[1].kill()
            prometheus.wait_fires("TidegateRegionCutOff", "TidegateNodeDown")
            cluster[1].start()
            prometheus.wait_quiet()


def test_a_node_whose_files_are_used_up_and_that_starts_often_sets_off_alerts(tmp_path):
    with with_rules(tmp_path, 1) as cluster:
        cluster[0].prefix = ("prlimit", "--nofile=300:300")
        cluster.start()
        with watched(tmp_path, cluster) as prometheus, contextlib.ExitStack() as held:
            prometheus.wait_quiet()
            for _ in range(3):
                cluster[0].kill()
                cluster[0].start()
                wait_for(lambda: prometheus.up() == 1, 20, "it is scraped", 0.1)
                started = Page(cluster[0].http).of("process_start_time_seconds")
                wait_for(lambda at=started: prometheus.query(f"process_start_time_seconds >= {at - 0.001}"), 20,
                         "this process is scraped", 0.1)
            prometheus.wait_fires("TidegateNodeRestarts")

            def dial():
                for add in (0, 3):  # each protocol has at most half of the files
                    connection = held.enter_context(socket.socket())
                    connection.settimeout(scaled(5))
                    connection.connect(("127.0.0.1", cluster[0].port + add))
                return "TidegateAcceptingPaused" in prometheus.firing()
            wait_for(dial, 40, "clients use all files", 0.02)
            held.close()
            prometheus.wait_quiet()


def test_a_node_that_hangs_sets_off_alerts_that_clear(tmp_path):
    with with_rules(tmp_path, 3).start() as cluster, watched(tmp_path, cluster) as prometheus, \
            traffic(cluster[0], "/fast"):
        prometheus.wait_quiet()
        os.kill(cluster[1].pid, signal.SIGSTOP)
        try:
            prometheus.wait_fires("TidegateNodeDown", "TidegateUnhealthy")
        finally:
            os.kill(cluster[1].pid, signal.SIGCONT)
        cluster.wait_healthy()
        prometheus.wait_quiet()



# --- the demo --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo():
    """deploy/demo as a module."""
    loader = importlib.machinery.SourceFileLoader("tidegate_demo", str(FOLDER.parent / "demo"))
    spec = importlib.util.spec_from_loader("tidegate_demo", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


# What a healthy cluster has nothing to show for, and why.
EMPTY = {
    "Troubles": "it lists troubles that there are",
}


def panels():
    """Title and expression of each, as Grafana would ask for every node."""
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], re.sub(r"\$(job|node|region)\b", ".+", target["expr"].replace("$__rate_interval", "5s"))


class Watched:
    """A node of the demo, as far as Prometheus has to know it."""

    def __init__(self, port):
        self.http = f"127.0.0.1:{port}"


def test_each_panel_shows_the_demo(tmp_path, demo):
    with contextlib.closing(take_block()) as block, contextlib.ExitStack() as ends:
        stage = demo.Demo(str(pathlib.Path(program("tidegated")).resolve().parent), threading.Event())
        ends.callback(stage.stop)
        stage.start_nodes()
        prometheus = Prometheus(tmp_path, block.first + 95, [Watched(stage.port(node, 4)) for node in range(demo.NODES)])
        ends.callback(prometheus.close)
        wait_for(lambda: prometheus.up() == demo.NODES, 40, "all nodes are scraped", 0.1)
        load = threading.Thread(target=stage.run_clients, args=(12, 20))
        load.start()
        ends.callback(load.join)
        told = list(panels())
        assert len(told) > 50 and set(EMPTY) <= {title for title, _ in told}

        def silent():
            return Until([title for title, expression in told if title not in EMPTY and not prometheus.query(expression)])
        wait_for(silent, 30, "each panel shows something; last: those that do not", 0.2)
        load.join()
        for title, expression in told:
            values = [float(row["value"][1]) for row in prometheus.query(expression)]
            assert title not in EMPTY or not values, f"{title} is not empty: it is no exception any more"


# --- faults of one thread, one disk, one machine's files -------------------------------------------


class Halted:
    """One thread of a process stands still, by ptrace: the others go on, so the node lives and does not decide.

    Who traces must be one thread and the same for all calls: this process's main one."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, thread):
        self.thread = thread
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.call(self.SEIZE)
        self.call(self.INTERRUPT)
        assert os.waitpid(thread, 0x40000000)[0] == thread  # __WALL

    def call(self, what):
        assert self.libc.ptrace(what, self.thread, None, None) == 0, os.strerror(ctypes.get_errno())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call(self.DETACH)


def deciding_thread(node):
    """Of a node with one shard: the one that has used most of the processor."""
    def used(thread):
        fields = (thread / "stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    threads = [thread for thread in pathlib.Path(f"/proc/{node.pid}/task").iterdir()
               if (thread / "comm").read_text().strip() == "tidegated" and int(thread.name) != node.pid]
    return int(max(threads, key=used).name)


def test_a_newcomer_whose_thread_stands_still_sets_off_handoff_stuck_that_clears(tmp_path):
    with with_rules(tmp_path, 2, "--handoff-rate", "64K").start() as cluster:
        with watched(tmp_path, cluster) as prometheus:
            keys = Keys(cluster[0], "/fast", prometheus)
            for _ in range(60):
                keys.add()
            newcomer = cluster.add()
            newcomer.spawn()
            newcomer.wait_ready()
            wait_for(lambda: prometheus.query("sum(tidegate_handoff_pending_vnodes) > 0"), 30, "copies are under way", 0.1)
            with Halted(deciding_thread(newcomer)):
                prometheus.wait_fires("TidegateHandoffStuck")
            wait_for(lambda: "TidegateHandoffStuck" not in prometheus.firing(), 60, "copies go on", 0.2)


def test_a_replica_whose_thread_stands_still_sets_off_replication_lag_that_clears(tmp_path):
    """Its node lives, so gossip says nothing; whoever sends it changes does."""
    with with_rules(tmp_path, 3).start() as cluster, watched(tmp_path, cluster) as prometheus:
        keys = Keys(cluster[0], "/fast", prometheus)
        keys.add()
        with Halted(deciding_thread(cluster[2])):
            keys.wait_fires("TidegateReplicationLag")
        wait_for(lambda: "TidegateReplicationLag" not in prometheus.firing(), 60, "it acknowledges again", 0.2)


SLOW_DISK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *name = getenv("SLOW_DISK");
    if (name != NULL && access(name, F_OK) == 0)
        (void)usleep(150000);
    return real(file);
}
"""


def test_slow_disks_set_off_slow_that_clears(tmp_path):
    """Each write takes 150 ms more: rules of consistency quorum wait for it."""
    source, library, slow = tmp_path / "slow.c", tmp_path / "slow.so", tmp_path / "slow"
    source.write_text(SLOW_DISK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    with with_rules(tmp_path, 3) as cluster:
        for node in cluster:
            node.environment = {"LD_PRELOAD": str(library), "SLOW_DISK": str(slow)}
        cluster.start()
        with watched(tmp_path, cluster) as prometheus, traffic(cluster[0], "/sure"):
            prometheus.wait_quiet()
            slow.touch()
            prometheus.wait_fires("TidegateSlow")
            slow.unlink()
            prometheus.wait_quiet()


ZONED = RULES + '  - {name: daily, match: {api: /daily}, key: [user], limits: [{rate: 9/day, algorithm: fixed_window, ' \
                'align: calendar, timezone: Europe/Berlin}]}\n'
WITHOUT_ZONES = ("unshare", "-m", "sh", "-ec", 'mount -t tmpfs tmpfs /usr/share/zoneinfo; exec "$@"', "sh")


def test_a_node_without_time_zones_sets_off_rules_refused_that_clears(tmp_path):
    with with_rules(tmp_path, 3) as cluster:
        cluster[2].prefix = WITHOUT_ZONES
        cluster.start()
        with watched(tmp_path, cluster) as prometheus:
            prometheus.wait_quiet()
            for text, fires in ((ZONED, True), (RULES, False)):
                (tmp_path / "edit.yaml").write_text(text)
                done = Command("rules", "apply", str(tmp_path / "edit.yaml"), "--yes", endpoints=[cluster[0].endpoint])
                assert done.code == 0, done
                if fires:
                    prometheus.wait_fires("TidegateRulesRefused", "TidegateUnhealthy")
            prometheus.wait_quiet()


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("page"), 1) as cluster:
        yield cluster.start()[0]
