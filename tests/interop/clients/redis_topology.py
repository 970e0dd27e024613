"""redis-py: alone, as a cluster's client and through a sentinel; usage: PROGRAM PORT KEY KIND."""

import json
import sys
import time

import redis

PORT, KEY, KIND = int(sys.argv[1]), sys.argv[2], sys.argv[3]
THROTTLE = ("CL.THROTTLE", KEY, 9, 5, 3600)


def connect():
    if KIND == "cluster":
        return redis.RedisCluster(host="127.0.0.1", port=PORT)
    if KIND == "sentinel":
        return redis.sentinel.Sentinel([("127.0.0.1", PORT)]).master_for("mymaster")
    return redis.Redis(port=PORT)


def ask(client):
    until = time.monotonic() + 30
    while True:
        try:
            return client.execute_command(*THROTTLE)
        except (redis.RedisError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


client = connect()
found = {"first": ask(client)}
with client.pipeline() as pipeline:  # with its defaults: a transaction, but of a cluster's client
    pipeline.execute_command(*THROTTLE)
    pipeline.execute_command(*THROTTLE)
    found["pipelined"] = pipeline.execute()
found["deleted"] = client.delete(KEY)
found["exists"] = client.exists(KEY)
print("ready", flush=True)
sys.stdin.readline()
found["after"] = ask(client)
print(json.dumps(found))
