"""redis-py from pip, and node-redis and ioredis from npm: with their defaults, and as the documents use them."""

import json
import os
import subprocess

import pytest

import kits
import session
from harness import Cluster, scaled

SECONDS = 60
NODE_PACKAGES = ("ioredis@6.0.0", "redis@6.3.1")
PYTHON_PACKAGES = ("redis==8.1.0",)
# Pages whose blocks are run with these packages, and the blocks of them that are not run.
PAGES = {"README.md": ("two-commands",), "deploy/docs/how-to/redis-clients.md": ("npm",)}
NODE_PROGRAM = """\
const port = Number(process.argv[2]);
const throttle = ['CL.THROTTLE', process.argv[3], '4', '5', '3600'];
const many = async (ask) => (await Promise.all([...Array(200).keys()].map(ask))).map(String);

async function ioredis() {
  const Redis = require('ioredis');
  const client = new Redis(port, {connectionName: 'io', maxRetriesPerRequest: 1});
  const replies = [await client.ping(), await client.call(...throttle)];
  const order = await many((i) => client.echo(String(i)));
  const pipelined = await client.pipeline().call(...throttle).ping('x').exec();
  const failure = await client.call('CL.THROTTLE', 'k').catch((error) => error.message);
  await client.quit();
  return {replies, order, pipelined, failure};
}

async function noderedis(options) {
  const {createClient} = require('redis');
  const client = createClient({socket: {port, host: '127.0.0.1', reconnectStrategy: false},
                               name: 'node', ...options});
  client.on('error', (error) => { throw error; });
  await client.connect();
  const replies = [await client.ping(), await client.sendCommand(throttle)];
  const order = await many((i) => client.echo(String(i)));
  const pipelined = await Promise.all([client.sendCommand(throttle), client.ping('x')]);
  const failure = await client.sendCommand(['CL.THROTTLE', 'k']).catch((error) => error.message);
  await client.close();
  return {replies, order, pipelined, failure};
}

const clients = {ioredis, redis2: () => noderedis({RESP: 2}), redis3: () => noderedis({RESP: 3})};
clients[process.argv[4]]().then((result) => console.log(JSON.stringify(result)));
"""
PYTHON_PROGRAM = """\
import asyncio, json, sys
import redis, redis.asyncio

THROTTLE = ("CL.THROTTLE", sys.argv[2], 4, 5, 3600)
OPTIONS = {"port": int(sys.argv[1]), "protocol": int(sys.argv[3][-1]), "client_name": "py"}

def plain():
    with redis.Redis(**OPTIONS) as client:
        replies = [client.ping(), client.execute_command(*THROTTLE)]
        with client.pipeline(transaction=False) as pipeline:
            for at in range(200):
                pipeline.echo(str(at))
            order = [reply.decode() for reply in pipeline.execute()]
        with client.pipeline(transaction=False) as pipeline:
            pipeline.execute_command(*THROTTLE)
            pipeline.echo("x")
            pipelined = pipeline.execute()
        try:
            failure = client.execute_command("CL.THROTTLE", "k")
        except redis.ResponseError as error:
            failure = str(error)
    return replies, order, pipelined, failure

async def concurrent():
    async with redis.asyncio.Redis(**OPTIONS) as client:
        replies = [await client.ping(), await client.execute_command(*THROTTLE)]
        async with client.pipeline(transaction=False) as pipeline:
            for at in range(200):
                pipeline.echo(str(at))
            order = [reply.decode() for reply in await pipeline.execute()]
        pipelined = await asyncio.gather(client.execute_command(*THROTTLE), client.echo("x"))
        try:
            failure = await client.execute_command("CL.THROTTLE", "k")
        except redis.ResponseError as error:
            failure = str(error)
    return replies, order, pipelined, failure

replies, order, pipelined, failure = asyncio.run(concurrent()) if "async" in sys.argv[3] else plain()
pipelined[1] = pipelined[1].decode()
replies[0] = "PONG" if replies[0] is True else replies[0]
print(json.dumps({"replies": replies, "order": order, "pipelined": pipelined, "failure": failure}))
"""


@pytest.fixture(scope="module")
def node_kit():
    folder = kits.npm("redis-node", *NODE_PACKAGES)
    with open(os.path.join(folder, "client.js"), "w", encoding="utf-8") as file:
        file.write(NODE_PROGRAM)
    return folder


@pytest.fixture(scope="module")
def python_kit():
    folder = kits.pip("redis-python", *PYTHON_PACKAGES)
    with open(os.path.join(folder, "client.py"), "w", encoding="utf-8") as file:
        file.write(PYTHON_PROGRAM)
    return folder


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("node"), 1) as cluster:
        yield cluster.start()[0]


def result_of(folder, *command):
    """What a client saw, as it prints it."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def holds(result):
    """A client keeps the order of many requests, and tells errors from replies."""
    assert result["replies"] == ["PONG", [0, 5, 4, -1, 720]]
    assert result["order"] == [str(at) for at in range(200)]
    assert result["pipelined"][0][:3] == [0, 5, 3] and result["pipelined"][1] == "x"
    assert result["failure"].startswith("Cell error: Usage: cl.throttle")


@pytest.mark.parametrize("client", ["ioredis", "redis2", "redis3"])
def test_a_client_of_node_works(node_kit, node, client):
    result = result_of(node_kit, "node", "client.js", str(node.port + 3), f"key-{client}", client)
    if client == "ioredis":
        assert [error for error, _ in result["pipelined"]] == [None, None]
        result["pipelined"] = [reply for _, reply in result["pipelined"]]
    holds(result)


@pytest.mark.parametrize("client", ["plain2", "plain3", "async2", "async3"])
def test_redis_py_works(python_kit, node, client):
    holds(result_of(python_kit, "bin/python", "client.py", str(node.port + 3), f"key-{client}", client))


# Reads the document, so that what it shows is what was run.
@pytest.mark.parametrize("path", list(PAGES))
def test_a_page_shows_what_these_clients_do(node_kit, python_kit, path, tmp_path):
    with open(os.path.join(session.ROOT, path), encoding="utf-8") as file:
        text = file.read()
    result = session.run(path, text, tmp_path, PAGES[path], programs=os.path.join(python_kit, "bin"),
                         modules=os.path.join(node_kit, "node_modules"))
    assert result.failure is None, result.failure
    assert result.ran > 0 and result.compared > 0
