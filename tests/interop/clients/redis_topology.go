// go-redis: alone, as a cluster's client and through a sentinel; usage: PROGRAM PORT KEY KIND.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

type found struct {
	First     []any   `json:"first"`
	Pipelined [][]any `json:"pipelined"`
	Deleted   int64   `json:"deleted"`
	Exists    int64   `json:"exists"`
	After     []any   `json:"after"`
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	address := "127.0.0.1:" + os.Args[1]
	key := os.Args[2]
	var client redis.UniversalClient
	switch os.Args[3] {
	case "cluster":
		client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	case "sentinel":
		client = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{address}})
	default:
		client = redis.NewClient(&redis.Options{Addr: address})
	}
	throttle := []any{"CL.THROTTLE", key, 9, 5, 3600}
	ask := func() []any {
		until := time.Now().Add(30 * time.Second)
		for {
			reply, err := client.Do(ctx, throttle...).Slice()
			if err == nil {
				return reply
			}
			if time.Now().After(until) {
				panic(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	var result found
	result.First = ask()
	commands, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Do(ctx, throttle...)
		pipe.Do(ctx, throttle...)
		return nil
	})
	must(err)
	for _, command := range commands {
		reply, err := command.(*redis.Cmd).Slice()
		must(err)
		result.Pipelined = append(result.Pipelined, reply)
	}
	result.Deleted = client.Del(ctx, key).Val()
	result.Exists = client.Exists(ctx, key).Val()
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	result.After = ask()
	must(json.NewEncoder(os.Stdout).Encode(result))
}
