"""harness - real daemons and an independent client, for the cluster tests.

    waiting   deadlines, conditions, how slow the programs under test are
    ports     blocks of ports that no other test process has
    client    the native protocol from its specification: sessions, retries, decisions
    node      one tidegated process: start, kill, stop, ask
    cluster   several of them, and waiting until they agree
    load      traffic from threads that outlives the death of nodes
    history   what clients saw, and whether it is what was promised
    network   namespaces on a bridge, and cutting them from one another (root only)
    wide      regions that are milliseconds apart, and clusters over them
    proxy     links that delay what goes through them
    command   the command-line client
    resp      a Redis client of a few lines
    http      an HTTP client of Python's own
    ratelimit Envoy's rate limit service, of gRPC's own client
    metrics   a page of /metrics, read
    collector  what traces and metrics are pushed to
    releases  the programs of releases that were made before
    plugin    hooks and fixtures, for a conftest.py
"""

from . import releases
from .client import Client, Decision, Limit, Refused, Unanswered
from .cluster import Cluster
from .command import Command
from .history import History, Promise
from .http import Answer, Http
from .load import Load
from .node import Node, program
from .resp import Resp, RespError
from .waiting import Stopwatch, promised, scaled, steady, wait_for, within_one

__all__ = ["Answer", "Client", "Cluster", "Command", "Decision", "History", "Http", "Limit", "Load", "Node", "Promise",
           "Refused", "Resp", "RespError", "Stopwatch", "Unanswered", "program", "promised",
           "releases", "scaled", "steady", "wait_for", "within_one"]
