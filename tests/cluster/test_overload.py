"""Who asks for ten times what a node can decide gets what there is, and is in nobody's way."""

import json
import os
import subprocess

import pytest

from harness import program
from harness.client import long_limit

LOAD = os.path.join(os.path.dirname(os.path.realpath(program("tidegated"))), "tests", "bench", "load")
CONNECTIONS, MESSAGES_PER_S, CHECKS = 16, 100000, 64  # 6.4 M checks a second: nobody decides so many on a shared core
CHECKS_MIN = 20
MEMORY_MAX = 600 << 20


# Sixteen connections that never wait for an answer, and one client that does: it is answered each time, and never `busy`;
# nobody waits in a queue that only grows, and nothing is left of it afterwards.
@pytest.mark.skipif(not os.path.exists(LOAD), reason="the load generator of the benchmarks is not built")
def test_who_asks_little_is_answered_while_others_ask_for_too_much(new_cluster):
    node = new_cluster(1).start()[0]
    limit = long_limit(1000000, "fixed_window")
    command = [LOAD, "open", f"endpoints=tcp://{node.endpoint}", f"items={CHECKS}", f"connections={CONNECTIONS}",
               f"rate={MESSAGES_PER_S}", "seconds=2", "timeout_ms=1000", "keys=100000"]
    asked = 0
    with node.client(attempt_s=20, deadline_s=20) as client:
        flood = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while flood.poll() is None or asked < CHECKS_MIN:
                answer = client.check("polite", limit)
                asked += 1
                assert answer.outcome == "allow" and answer.used == asked, answer
        finally:
            flood.kill()
            text, errors = flood.communicate()
        assert flood.returncode == 0, errors
        found = json.loads(text.splitlines()[-1])
        assert found["allowed"] > 0, found
        assert found["busy"] + found["unsent"] + found["lost"] > found["asked"] / 2, "it was not too much"
        assert found["errors"] == 0, found
        assert node.anonymous_memory() < MEMORY_MAX
        print(f"\n    measured: {asked} polite checks; of {found['asked']} asked too much: decided", found["allowed"], "busy",
              found["busy"], "not taken", found["unsent"], "late", found["lost"], "shed", node.counter("shed"), end="")
        assert client.check("polite", limit).used == asked + 1
