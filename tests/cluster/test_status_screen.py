"""What `tidegate status` shows of real nodes: at any of them, what is wrong with each other one."""

import glob
import json
import re
import subprocess
import time

import pytest

from harness import Command, program, wait_for
from harness.client import long_limit
from harness.disk import fill
from harness.waiting import is_slowed

WIDTH, HEALTHY_LINES = 100, 15
SPREAD_S = 2
HOUR_S = 3600
# What scripts may read of a status since release 0.1.0.
FIELDS = {"node", "node_id", "cluster_id", "version", "healthy", "reasons", "warnings", "epoch",
          "stable", "vnodes_total", "replicas", "uptime_ms", "figures_age_ms", "members", "gossip",
          "register", "over_admission", "acknowledgement", "handoff", "storage", "rules",
          "settings", "pools", "usage_lost", "clients", "resp", "http", "files", "shards"}


def status(node, *arguments, **more):
    return Command("status", *arguments, endpoints=[node.endpoint], **more)


def lines_of(done):
    """The lines of a screen, each of which fits, without a control code."""
    lines = done.output.splitlines()
    assert all(len(line) <= WIDTH and line.isprintable() for line in lines), done
    return lines


def rows_of(done):
    """The lines of nodes by name, as words."""
    lines = lines_of(done)
    head = next(at for at, line in enumerate(lines) if "NODE" in line and "CHECKS/S" in line)
    rows = lines[head + 1:lines.index("", head)]
    return {row.split()[0]: row for row in rows}


def use(cluster, prefix, count=3000):
    keys = [f"{prefix}-{at}" for at in range(count)]
    with cluster.client() as client:
        for at in range(0, count, 1000):
            assert all(answer.allowed for answer in client.ask(keys[at:at + 1000], long_limit(10)))


def sum_of(node, figure):
    """As that node has gathered it, of all nodes."""
    told = json.loads(status(node, "-o", "json").output)
    return sum(row["figures"][figure] for row in told["nodes"])


@pytest.mark.smoke
def test_a_healthy_cluster_is_told_in_few_lines_by_every_node(new_cluster):
    cluster = new_cluster(3)
    cluster.start()
    for node in cluster:  # the first one who asks it waits for what the others tell
        first = json.loads(status(node, "-o", "json").output)
        assert first["figures_awaited"] == 0, first
        assert all("figures" in row for row in first["nodes"]), first
    use(cluster, "some")
    wait_for(lambda: all(status(node).code == 0 for node in cluster), 30, "every node says healthy")
    for node in cluster:
        done = status(node)
        assert done.output.startswith("HEALTHY:  3 nodes"), done
        assert len(lines_of(done)) <= HEALTHY_LINES, done
        rows = rows_of(done)
        assert sorted(rows) == ["n1", "n2", "n3"], done
        assert all(" alive " in row and "%/" in row for row in rows.values()), done
        told = json.loads(status(node, "-o", "json").output)
        assert FIELDS <= told.keys() and told["figures_awaited"] == 0
        wait_for(lambda at=node: sum_of(at, "checks") >= 3000, 10, "all tell what they decided")
        assert sum_of(node, "vnodes_deciding") == told["vnodes_total"]
        one = status(node, "--node", "n2")
        assert one.code == 0, one
        assert one.output.startswith("node      n2, region default: alive for "), one
        assert status(node, "--node", "n9").code == 3


# Rates come from the node's own counters, a second apart; whoever watches sees them change.
def test_watching_shows_what_each_node_decides_a_second(new_cluster):
    cluster = new_cluster(3)
    cluster.start()
    words = ["-e", f"tcp://{cluster[1].endpoint}", "status", "--watch"]
    watching = subprocess.Popen([program("tidegate"), *words], stdout=subprocess.PIPE, text=True)
    seen = []
    try:
        end = time.monotonic() + 30
        at = 0
        for line in watching.stdout:
            use(cluster, f"more-{at}", 500)
            at += 1
            found = re.match(r"n1 +alive +\S+ +([\d,.]+) ", line)
            if found:
                seen.append(float(found[1].replace(",", "")))
            if (seen and seen[-1] > 100) or time.monotonic() > end:
                break
    finally:
        watching.terminate()
        watching.wait()
    assert seen and seen[-1] > 100 and "\x1b" not in line, seen


# Which rules answer most, of all nodes together, and how many of their checks are denied.
def test_the_busiest_rules_are_named_with_what_they_deny(new_cluster, tmp_path):
    cluster = new_cluster(2)
    cluster.start()
    rules = tmp_path / "rules.yaml"
    rules.write_text("""
rules:
  - {name: often, match: {api: /a}, key: [user], limits: [{rate: 3/h}]}
  - {name: seldom, match: {api: /b}, key: [user], limits: [{rate: 1000/h}]}
""")
    assert Command("rules", "apply", str(rules), "--yes", endpoints=[cluster[0].endpoint]).code == 0

    def ask():
        for at in range(2):
            Command("check", "api=/a", "user=ada", "--repeat", "100",
                    endpoints=[cluster[at].endpoint])
        Command("check", "api=/b", "user=ada", "--repeat", "5", endpoints=[cluster[1].endpoint])
        return re.search(r"^busiest +often [\d,.]+/s \((9\d|100)% denied\), seldom [\d.]+/s$",
                         status(cluster[0]).output, re.MULTILINE)
    wait_for(ask, 30, "both are named")
    told = json.loads(status(cluster[1], "-o", "json").output)
    newest = told["changes"][0]
    assert newest["author"] != "" and newest["says"] == f"rules version {told['rules']['version']}"


# One node is dead, one has a full disk, and the clock of one is an hour ahead: the first three
# lines, whoever is asked.
@pytest.mark.skipif(is_slowed(), reason="a sanitizer must be loaded before faketime")
def test_the_first_lines_of_a_bad_day_say_what_is_wrong_at_every_node(
        new_cluster, small_disk, tmp_path, measured):
    cluster = new_cluster(5)
    full, ahead, dead = cluster[2], cluster[3], cluster[4]
    full.data = str(small_disk / full.name)
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    ahead.environment = {"LD_PRELOAD": glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")[0],
                         "FAKETIME_TIMESTAMP_FILE": str(clock),
                         "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                         "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
    cluster.start()
    use(cluster, "before")
    cluster.wait_written()
    wait_for(lambda: all(status(node).code == 0 for node in cluster), 60, "every node says healthy")
    dead.kill()
    fill(small_disk)
    use(cluster, "during", 20000)
    wait_for(lambda: not full.status()["storage"]["ok"], 30, "the node with the full disk knows")
    begun = time.monotonic()
    wait_for(lambda: all("disk_full" in node.members()["n3"]["health"] for node in cluster.live),
             20, "and so do all others", 0.02)
    disk_s = time.monotonic() - begun
    (tmp_path / "fresh").write_text(f"+{HOUR_S}\n")
    (tmp_path / "fresh").replace(clock)
    begun = time.monotonic()
    wait_for(lambda: all("clock_off" in node.members()["n4"]["health"] for node in cluster.live),
             20, "the clock is told by all", 0.02)
    clock_s = time.monotonic() - begun
    measured("known to all nodes after", f"disk {disk_s:.2f} s, clock {clock_s:.2f} s")
    assert disk_s < SPREAD_S and clock_s < SPREAD_S
    wait_for(lambda: all(node.members()["n5"]["state"] == "dead" for node in cluster.live), 30,
             "the death is known")
    for node in cluster.live:
        done = status(node)
        first = lines_of(done)[:3]
        assert done.code == 1, done
        assert first[0].startswith("DEGRADED: n5 is not alive"), done
        assert "n3" in first[1] and "disk" in first[1], done
        assert "n4" in first[2] and "clock" in first[2], done
        rows = rows_of(done)
        assert " DEAD " in rows["n5"] and "no answer" in rows["n5"], done
        assert " FULL " in rows["n3"] and "clock off" in rows["n4"], done
        assert re.search(r" \+(1h0m|59m\d+s) ", rows["n4"]) and " FULL " not in rows["n1"], done
        assert json.loads(status(node, "-o", "json").output)["healthy"] is False
    one = status(cluster[0], "--node", "n3")
    assert one.code == 1 and re.search(r"^do +make room", one.output, re.MULTILINE), one
    assert len(lines_of(one)) > 8, one


# Healthy is waited for at any node, of all of them; and what has ended is told for five seconds
# more.
def test_waiting_for_healthy_is_for_the_health_of_all_members(new_cluster, small_disk):
    cluster = new_cluster(3)
    full, other = cluster[2], cluster[0]
    full.data = str(small_disk / full.name)
    cluster.start()
    use(cluster, "before")
    cluster.wait_written()
    assert status(other, "--wait", "healthy", "--members", "3").code == 0
    ballast = fill(small_disk)
    use(cluster, "during", 20000)
    wait_for(lambda: "disk_full" in other.members()["n3"]["health"], 30, "another node knows")
    in_vain = status(other, "--wait", "healthy", "--timeout", "1s")
    assert in_vain.code == 1 and "n3 has no room" in in_vain.error, in_vain
    assert in_vain.output.startswith("DEGRADED: n3"), in_vain
    ballast.unlink()
    done = status(other, "--wait", "healthy", "--members", "3", "--timeout", "60s")
    assert done.code == 0 and done.output.startswith("HEALTHY:"), done
    assert full.status()["storage"]["ok"] and not other.members()["n3"]["health"]


def test_the_exit_status_tells_healthy_degraded_and_no_answer(new_cluster):
    cluster = new_cluster(2)
    cluster.start()
    wait_for(lambda: status(cluster[0]).code == 0, 30, "healthy")
    cluster[1].kill()
    for output in ("table", "json", "yaml"):
        wait_for(lambda out=output: status(cluster[0], "-o", out).code == 1, 30, "degraded")
    cluster[0].kill()
    silent = status(cluster[0], "--timeout", "500ms")
    assert silent.code == 2 and silent.output == "" and cluster[0].endpoint in silent.error, silent


def test_counters_are_grouped_and_zeros_left_out(new_cluster):
    cluster = new_cluster(1, shards=2)  # their sums are shown
    cluster.start()
    use(cluster, "some", 300)
    wait_for(lambda: re.search(r"^answers +checks +300 ", status(cluster[0], "--all").output,
                               re.MULTILINE), 10, "the counters of both shards are there")
    shown = status(cluster[0], "--all")
    assert re.search(r"^answers +checks +300  items decided here$", shown.output,
                     re.MULTILINE), shown
    assert not re.search(r" 0(  \S.*)?$", shown.output.split("counters of")[1], re.MULTILINE), shown
    assert all(len(line) <= WIDTH for line in shown.output.splitlines())
