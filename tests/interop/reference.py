"""reference - envoyproxy/ratelimit on a redis-server: what Tidegate stands in for, to be asked the same, or measured beside.

It is built from its Go module by `kits`, and keeps nothing on disk.
"""

import contextlib
import os
import socket
import subprocess

import kits
from harness import wait_for

MODULE = "github.com/envoyproxy/ratelimit"
VERSION = "v1.4.1-0.20260122083618-3fb702589d36"
PROGRAM = f"""\
package main

import (
	"{MODULE}/src/service_cmd/runner"
	"{MODULE}/src/settings"
)

func main() {{
	service := runner.NewRunner(settings.NewSettings())
	service.Run()
}}
"""


def build():
    """Its program; made at the first call."""
    return kits.go("ratelimit", PROGRAM, f"{MODULE}@{VERSION}")


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _process(*command, **more):
    """Of a process that dies with this one."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, **more)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(folder, rules, first_port):
    """It, with rules of `{file name: text}`, as it is by default but for where it listens; its port of gRPC.

    Takes five ports from `first_port` on.
    """
    program = build()
    config = os.path.join(folder, "rules", "ratelimit", "config")
    os.makedirs(config)
    for name, text in rules.items():
        with open(os.path.join(config, name), "w", encoding="utf-8") as file:
            file.write(text)
    redis, grpc, http, debug = range(first_port, first_port + 4)
    environment = {
        "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis}", "USE_STATSD": "false", "LOG_LEVEL": "warn",
        "RUNTIME_ROOT": os.path.join(folder, "rules"), "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false",
        **{name + "HOST": "127.0.0.1" for name in ("", "GRPC_", "DEBUG_")},
        "PORT": str(http), "GRPC_PORT": str(grpc), "DEBUG_PORT": str(debug),
        "RESPONSE_DYNAMIC_METADATA": "true", "NO_PROXY": "*"}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(os.path.join(folder, "reference.log"), "wb"))
        stack.enter_context(_process("redis-server", "--port", str(redis), "--dir", folder, "--save", "", "--appendonly", "no",
                                     "--bind", "127.0.0.1", stdout=log))
        wait_for(lambda: listens(redis), 10, "redis-server listens")
        service = stack.enter_context(_process(program, stdout=log, stderr=log, env={**os.environ, **environment}))
        wait_for(lambda: service.poll() is not None or listens(grpc), 30, "envoyproxy/ratelimit listens")
        assert service.poll() is None, f"envoyproxy/ratelimit ended: see {log.name}"
        yield grpc
