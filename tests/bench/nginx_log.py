"""nginx_log.py - an access log as real servers write it: nginx answers wrk, which comes from many addresses.

Usage: tests/bench/nginx_log.py LINES FILE

wrk names an address in X-Forwarded-For of each request, few of them often and most of them seldom, and nginx logs it
as the last quoted field, in the format that its packages come with ("main"). Both are Debian's (`make deps`, and
`deploy/deps all` for wrk and nginx). nginx runs from a configuration of its own on a free port of loopback, as whoever
calls, and ends with the call.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness.waiting import wait_for

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
START_S = 10
WRK_S = 5            # one round of wrk
ROUNDS_MAX = 100

CONFIGURATION = """
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    keepalive_requests 100000000;
    log_format main '$remote_addr - $remote_user [$time_local] "$request" '
                    '$status $body_bytes_sent "$http_referer" '
                    '"$http_user_agent" "$http_x_forwarded_for"';
    server {{
        listen 127.0.0.1:{port};
        access_log {log} main buffer=64k flush=1s;
        location / {{ return 200 "ok\\n"; }}
    }}
}}
"""

# Addresses by a power law: the first of 65,536 sends some thousandths of all, the last hardly anything.
REQUESTS = """
local paths = {"/", "/user/v1/signup", "/search/shoes?q=red&page=2", "/static/site.css", "/api/orders?user=ada"}
math.randomseed(20261121)
request = function()
   local rank = math.floor(65536 ^ math.random()) - 1
   local address = string.format("198.%d.%d.%d", 18 + rank % 2, math.floor(rank / 256) % 256, rank % 256)
   return wrk.format("GET", paths[math.random(#paths)], {["X-Forwarded-For"] = address, ["User-Agent"] = "wrk"})
end
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port, process):
    """Whether somebody takes connections; fails if nginx has ended, for then nobody ever will."""
    if process.poll() is not None:
        raise RuntimeError(f"nginx ended with {process.returncode}")
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def count_lines(path):
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def drive(folder, port, log, lines):
    """Has wrk ask until the log has its lines; it is written with a delay, so wrk's own count is not enough."""
    script = folder / "requests.lua"
    script.write_text(REQUESTS)
    for _ in range(ROUNDS_MAX):
        subprocess.run(["wrk", "-t", "1", "-c", "32", "-d", f"{WRK_S if lines > 20000 else 1}s", "-s", str(script),
                        f"http://127.0.0.1:{port}/"], check=True, stdout=subprocess.DEVNULL)
        if count_lines(log) >= lines:
            return
    raise RuntimeError(f"{log} has {count_lines(log)} lines, not {lines}")


def make_log(path, lines):
    """Writes a log of exactly `lines` lines."""
    with tempfile.TemporaryDirectory(prefix="tidegate-nginx-") as name:
        folder = pathlib.Path(name)
        port, log = free_port(), folder / "access.log"
        (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, port=port, log=log))
        process = subprocess.Popen([NGINX, "-p", name, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")])
        try:
            wait_for(lambda: is_listening(port, process), START_S, f"nginx listens on {port}")
            drive(folder, port, log, lines)
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(START_S)
        with open(log, "rb") as source, open(path, "wb") as target:
            for _, line in zip(range(lines), source):
                target.write(line)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    make_log(sys.argv[2], int(sys.argv[1]))
