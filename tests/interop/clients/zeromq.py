"""pyzmq: sends each line of its input, which is base 16, as a message; prints what is answered. PROGRAM PORT."""

import sys

import zmq

socket = zmq.Context().socket(zmq.DEALER)
socket.linger = 0
socket.connect(f"tcp://127.0.0.1:{sys.argv[1]}")
for line in sys.stdin:
    socket.send(bytes.fromhex(line))
    print(socket.recv().hex(), flush=True)
socket.close()
