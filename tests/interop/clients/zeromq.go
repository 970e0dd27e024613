// go-zeromq/zmq4, which is no libzmq: sends each line of its input, which is base 16, as a message; prints
// what is answered. Usage: PROGRAM PORT.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/go-zeromq/zmq4"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	socket := zmq4.NewDealer(context.Background())
	defer socket.Close()
	must(socket.Dial("tcp://127.0.0.1:" + os.Args[1]))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		frame, err := hex.DecodeString(lines.Text())
		must(err)
		must(socket.Send(zmq4.NewMsg(frame)))
		answer, err := socket.Recv()
		must(err)
		fmt.Println(hex.EncodeToString(answer.Bytes()))
	}
}
