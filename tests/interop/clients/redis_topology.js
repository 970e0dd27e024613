// ioredis and node-redis: alone, as a cluster's client and through a sentinel; PROGRAM PORT KEY KIND.
const [port, key, kind] = [Number(process.argv[2]), process.argv[3], process.argv[4]];
const host = '127.0.0.1';
const args = [key, '9', '5', '3600'];

async function ioredis() {
  const Redis = require('ioredis');
  const client = kind === 'ioredis-cluster' ? new Redis.Cluster([{host, port}])
    : kind === 'ioredis-sentinel' ? new Redis({sentinels: [{host, port}], name: 'mymaster'})
      : new Redis(port);
  client.on('error', () => {});
  return {
    throttle: () => client.call('CL.THROTTLE', ...args),
    pipelined: async () => {
      const found = await client.multi().call('CL.THROTTLE', ...args).call('CL.THROTTLE', ...args).exec();
      return found.map(([error, reply]) => { if (error) throw error; return reply; });
    },
    del: () => client.del(key),
    exists: () => client.exists(key),
    end: () => client.disconnect(),
  };
}

async function noderedis() {
  const redis = require('redis');
  const client = kind === 'redis-cluster' ? redis.createCluster({rootNodes: [{url: `redis://${host}:${port}`}]})
    : kind === 'redis-sentinel' ? redis.createSentinel({name: 'mymaster', sentinelRootNodes: [{host, port}]})
      : redis.createClient({socket: {host, port}});
  client.on('error', () => {});
  await client.connect();
  const command = ['CL.THROTTLE', ...args];
  const send = () => kind === 'redis' ? client.sendCommand(command)
    : kind === 'redis-cluster' ? client.sendCommand(key, false, command) : client.sendCommand(false, command);
  const add = (multi) => kind === 'redis' ? multi.addCommand(command)
    : kind === 'redis-cluster' ? multi.addCommand(key, false, command) : multi.addCommand(false, command);
  return {
    throttle: send,
    pipelined: () => add(add(client.multi())).exec(),
    del: () => client.del(key),
    exists: () => client.exists(key),
    end: () => client.destroy(),
  };
}

async function patiently(ask) {
  const until = Date.now() + 30000;
  for (;;) {
    try {
      return await Promise.race([ask(), new Promise((_, no) => setTimeout(no, 5000, new Error('late')))]);
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((go) => setTimeout(go, 100));
    }
  }
}

async function main() {
  const client = await (kind.startsWith('ioredis') ? ioredis() : noderedis());
  const found = {first: await patiently(client.throttle), pipelined: await client.pipelined(),
                 deleted: await client.del(), exists: await client.exists()};
  console.log('ready');
  await new Promise((go) => process.stdin.once('data', go));
  found.after = await patiently(client.throttle);
  console.log(JSON.stringify(found));
  process.exit(0);
}
main().catch((error) => { console.error(error); process.exit(1); });
