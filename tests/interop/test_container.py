"""A node in a real control group of the kernel: what it finds there, and that it lives on half a core and 128 MiB."""

import pathlib
import subprocess

import pytest

from harness import Cluster, program
from harness.box import box
from harness.http1 import Http, request
from harness.metrics import Page

SECONDS = 60
MIB = 1 << 20
LOAD = pathlib.Path(program("tidegated")).resolve().parent / "tests" / "bench" / "load"


def boxed(folder, inside, *arguments):
    cluster = Cluster(folder, 1, *arguments)
    cluster[0].prefix = inside.prefix
    return cluster


@pytest.mark.parametrize("limits, arguments, found, mib", [
    ({"processors": 0.5, "memory": 128 * MIB}, [],
     "0.500 of their time, 128 MiB of memory; chosen: 64 MiB for keys (half of what there is), no busy polling", 64),
    ({"processors": 1.5}, [],
     "1.500 of their time, no limit of memory; chosen: 256 MiB for keys (the default), no busy polling", 256),
    ({"memory": 256 * MIB}, ["--memory", "20M"],
     "no limit of their time, 256 MiB of memory; chosen: 20 MiB for keys (--memory), ", 20)])
def test_a_node_finds_its_limits_and_follows_them(tmp_path, limits, arguments, found, mib):
    with box(**limits) as inside, boxed(tmp_path, inside, *arguments).start() as cluster:
        node = cluster[0]
        assert found in node.log()
        huge = pathlib.Path(f"/proc/{node.pid}/status").read_text().split("THP_enabled:")[1].split()[0]
        assert huge == ("0" if "memory" in limits else "1")  # 2 MiB for a byte are for who has them
        assert " warn  --memory" not in node.log()
        assert Page(node.http).of("tidegate_memory_limit_bytes") == mib * MIB
        cluster.kill_all()


def test_too_much_for_keys_gets_a_warning_and_too_little_for_all_a_sentence(tmp_path):
    with box(memory=128 * MIB) as inside, boxed(tmp_path, inside, "--memory", "200M").start() as cluster:
        assert "--memory: found 200 MiB for keys, beside which a node of 1 shards needs 48 MiB, and a container that " \
               "allows 128 MiB; expected less" in cluster[0].log()
        cluster.kill_all()
    with box(memory=64 * MIB) as inside:
        done = subprocess.run([*inside.prefix, program("tidegated"), "--ephemeral"], capture_output=True, text=True,
                              timeout=20, check=False)
        assert done.returncode == 2
        assert done.stderr == "tidegated: the container: found a limit of 64M of memory; expected at least 96M for 1 " \
                              "shards, half of it for keys, or --memory\n"


def load(node, mode, **words):
    return subprocess.run([LOAD, mode, f"endpoints=tcp://{node.endpoint}", *(f"{key}={value}" for key, value in words.items())],
                          stdout=subprocess.DEVNULL, check=True)


def test_half_a_core_and_128_mib_outlive_a_flood_of_keys_of_all_protocols(tmp_path, measured):
    """Four times as many keys as there is memory for, all of which last; and big batches over HTTP."""
    with box(processors=0.5, memory=128 * MIB) as inside, boxed(tmp_path, inside).start() as cluster:
        node = cluster[0]
        most = 0
        with Http(node.http) as http1:
            for turn in range(8):
                load(node, "closed", keys=4_000_000, draws=500_000, first_key=turn * 500_000, items=256, seconds=2,
                     window=8, limit="5/24h")
                checks = [{"key": f"h{turn}-{at}", "rate": "5/24h"} for at in range(4096)]
                http1.send(request("POST", "/v1/check", {"checks": checks}))
                assert http1.read().status in (200, 503)
                most = max(most, node.anonymous_memory())
        measured("of 128 MiB, a flood of keys took", f"{most >> 20} MiB; keys in memory "
                                                     f"{Page(node.http).of('tidegate_keys'):.0f}")
        assert node.is_running and inside.ended_by_the_system() == 0
        assert most < 112 * MIB  # the rest is for what is read and written
        cluster.kill_all()
