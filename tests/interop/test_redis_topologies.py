"""Redis clients that look for a cluster or a sentinel, their transactions, and a node that dies under them."""

import json
import os
import shutil
import subprocess

import pytest

import kits
from harness import Cluster, scaled

SECONDS = 260
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")


def source(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def commands():
    """{language: a command, to be followed by port, key and kind}"""
    python = kits.pip("redis-python", "redis==8.1.0")
    node = kits.npm("redis-node", "ioredis@6.0.0", "redis@6.3.1")
    shutil.copy(os.path.join(FOLDER, "redis_topology.js"), node)  # it is to find node_modules beside it
    return {
        "python": [os.path.join(python, "bin/python"), os.path.join(FOLDER, "redis_topology.py")],
        "node": ["node", os.path.join(node, "redis_topology.js")],
        "go": [kits.go("redis-go", source("redis_topology.go"), "github.com/redis/go-redis/v9@v9.23.0")],
        "java": kits.maven("redis-java", source("RedisTopology.java").replace("class RedisTopology", "class Peer"),
                           "redis.clients:jedis:7.5.0", "org.slf4j:slf4j-nop:1.7.36"),
        "lettuce": kits.maven("redis-lettuce", source("LettuceTopology.java"), "io.lettuce:lettuce-core:7.7.0.RELEASE",
                              "org.slf4j:slf4j-nop:1.7.36"),
    }


# One that is alone asks for three; the transaction of jedis has looks, for it takes no command of another's.
@pytest.mark.parametrize("language, kind", [
    *(("python", kind) for kind in ("alone", "cluster", "sentinel")),
    *(("node", kind) for kind in ("ioredis", "ioredis-cluster", "ioredis-sentinel", "redis", "redis-cluster",
                                  "redis-sentinel")),
    *(("go", kind) for kind in ("alone", "cluster", "sentinel")),
    *(("java", kind) for kind in ("alone", "cluster", "sentinel")),
    *(("lettuce", kind) for kind in ("alone", "cluster", "sentinel")),
])
def test_a_client_finds_the_node_and_comes_back_when_it_died(commands, tmp_path, language, kind):
    with Cluster(tmp_path, 1) as cluster:
        node = cluster.start()[0]
        command = [*commands[language], str(node.port + 3), f"key-{language}-{kind}", kind]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as client:
            try:
                line = client.stdout.readline()
                assert line == "ready\n", line + client.stderr.read()
                node.kill()
                node.start()
                text, errors = client.communicate("go on\n", timeout=scaled(60))
            finally:
                client.kill()
    assert client.returncode == 0, errors
    found = json.loads(text)
    assert found["first"] == [0, 10, 9, -1, 720]
    used = [reply[:3] for reply in found["pipelined"]] if (language, kind) != ("java", "alone") else None
    assert used in ([[0, 10, 8], [0, 10, 7]], None)
    assert found["deleted"] == 1 and found["exists"] == 0
    assert found["after"][:2] == [0, 10]
