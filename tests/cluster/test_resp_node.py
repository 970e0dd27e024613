"""node-redis and ioredis, as npm has them, with their defaults; skipped where there is no npm, or it has nothing to install from."""

import json
import shutil
import subprocess

import pytest

from harness import Cluster, scaled

PACKAGES = ("ioredis@5.11.1", "redis@5.12.1")
INSTALL_S = 20
PROGRAM = """\
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


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """A folder in which the packages are installed."""
    folder = tmp_path_factory.mktemp("npm")
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm is not installed")
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock",
               "--ignore-scripts", "--prefer-offline", "--fetch-retries=0", "--fetch-timeout=5000", *PACKAGES]
    try:
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False,
                              timeout=INSTALL_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm cannot install: no end after {INSTALL_S} s")
    if done.returncode != 0:
        pytest.skip(f"npm cannot install: {done.stderr.strip()[-200:]}")
    (folder / "client.js").write_text(PROGRAM)
    return folder


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("node"), 1) as cluster:
        yield cluster.start()[0]


# Each connects with its defaults, keeps the order of many requests, and tells errors from replies.
@pytest.mark.parametrize("client", ["ioredis", "redis2", "redis3"])
def test_a_client_of_node_works(modules, node, client):
    done = subprocess.run(["node", "client.js", str(node.port + 3), f"key-{client}", client],
                          cwd=modules, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["replies"] == ["PONG", [0, 5, 4, -1, 720]]
    assert result["order"] == [str(at) for at in range(200)]
    pipelined = result["pipelined"]
    if client == "ioredis":
        assert [error for error, _ in pipelined] == [None, None]
        pipelined = [reply for _, reply in pipelined]
    assert pipelined[0][:3] == [0, 5, 3] and pipelined[1] == "x"
    assert result["failure"].startswith("Cell error: Usage: cl.throttle")
