"""proxy - slow links: TCP forwarded with a delay in each direction.

Connections are accepted at (host, port) and forwarded to another address; every chunk of bytes waits
`delay_s` on its way, in order. One thread runs all proxies of a Proxies.
"""

import asyncio
import threading


class Proxies:
    """Forwarders that start with the object and end with close()."""

    def __init__(self, *routes, delay_s=0.0):
        """`routes`: ((host, port) to listen at, (host, port) to forward to)."""
        self.routes = routes
        self.delay_s = delay_s  # may be changed at any time
        self.loop = asyncio.new_event_loop()
        self.started = threading.Event()
        self.servers = []
        self.writers = set()
        self.failure = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        self.started.wait()
        if self.failure is not None:
            raise self.failure
        return self

    def __exit__(self, *ignored):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def run(self):
        asyncio.set_event_loop(self.loop)
        try:
            for listen, forward in self.routes:
                self.loop.run_until_complete(self.listen(listen, forward))
        except OSError as failure:
            self.failure = failure
        self.started.set()
        if self.failure is None:
            self.loop.run_forever()
        for closing in [*self.servers, *self.writers]:
            closing.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    async def listen(self, listen, forward):
        async def accept(reader, writer):
            try:
                there = await asyncio.open_connection(*forward)
            except OSError:
                writer.close()
                return
            self.writers |= {writer, there[1]}
            await asyncio.gather(self.pump(reader, there[1]), self.pump(there[0], writer))
            self.writers -= {writer, there[1]}
        self.servers.append(await asyncio.start_server(accept, *listen, reuse_address=True))

    async def pump(self, reader, writer):
        """One direction: chunks leave in the order in which they came, each after its delay."""
        queue = asyncio.Queue()

        async def send():
            while True:
                due, chunk = await queue.get()
                await asyncio.sleep(max(0.0, due - self.loop.time()))  # the delay that is asked for
                if not chunk:
                    break
                writer.write(chunk)
                await writer.drain()
            writer.close()
        sender = asyncio.ensure_future(send())
        try:
            while chunk := await reader.read(65536):
                queue.put_nowait((self.loop.time() + self.delay_s, chunk))
        except OSError:
            pass
        queue.put_nowait((self.loop.time() + self.delay_s, b""))
        try:
            await sender
        except OSError:
            writer.close()
