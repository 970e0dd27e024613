// grpc-go asks nodes for their health. Usage: PROGRAM WHAT PORT...; prints what it saw as JSON, a line each.
//
//	once PORT         deadlines, cancellations, 1,000 streams at a time
//	steady PORT...    calls without a pause, through whichever node is there; a line asks how it goes, an empty one ends it
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

const (
	streams = 1000
	callers = 8
	patient = 30 * time.Second
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func show(seen any) {
	line, err := json.Marshal(seen)
	must(err)
	fmt.Println(string(line))
}

var connections atomic.Int64

func dial(ports []string) *grpc.ClientConn {
	nodes := manual.NewBuilderWithScheme("nodes")
	state := resolver.State{}
	for _, port := range ports {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: "127.0.0.1:" + port})
	}
	nodes.InitialState(state)
	channel, err := grpc.NewClient("nodes:///all", grpc.WithResolvers(nodes),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			connections.Add(1)
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}))
	must(err)
	return channel
}

func code(err error) string {
	return status.Code(err).String()
}

// The status of a stream of answers, once it ends.
func ended(watch grpc_health_v1.Health_WatchClient) string {
	for {
		if _, err := watch.Recv(); err != nil {
			return code(err)
		}
	}
}

// So many streams that are open at a time: how many were answered, and the statuses with which they end when cancelled.
func openMany(health grpc_health_v1.HealthClient) (int, map[string]int) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	watches := make([]grpc_health_v1.Health_WatchClient, streams)
	serving := 0
	for at := range watches {
		watch, err := health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		must(err)
		watches[at] = watch
	}
	for _, watch := range watches {
		answer, err := watch.Recv()
		must(err)
		if answer.Status == grpc_health_v1.HealthCheckResponse_SERVING {
			serving++
		}
	}
	cancel()
	ends := map[string]int{}
	for _, watch := range watches {
		ends[ended(watch)]++
	}
	return serving, ends
}

func askMany(health grpc_health_v1.HealthClient) int64 {
	var good atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	for range streams {
		all.Go(func() {
			if _, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err == nil {
				good.Add(1)
			}
		})
	}
	all.Wait()
	return good.Load()
}

// With which status calls are refused.
func refusals(channel *grpc.ClientConn, health grpc_health_v1.HealthClient) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	refused := map[string]string{}
	anyone := &grpc_health_v1.HealthCheckRequest{}
	_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "no"})
	refused["stranger"] = code(err)
	refused["method"] = code(channel.Invoke(ctx, "/a.B/C", anyone, &grpc_health_v1.HealthCheckResponse{}))
	refused["case"] = code(channel.Invoke(ctx, "/grpc.health.v1.health/Check", anyone, &grpc_health_v1.HealthCheckResponse{}))
	_, err = health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: string(make([]byte, 100))},
		grpc.UseCompressor(gzip.Name))
	refused["compressed"] = code(err)
	_, err = health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: string(make([]byte, 5000))})
	refused["long"] = code(err)
	return refused
}

func once(ports []string) {
	channel := dial(ports)
	defer channel.Close()
	health := grpc_health_v1.NewHealthClient(channel)
	seen := map[string]any{"asked": askMany(health), "refused": refusals(channel, health)}
	serving, ends := openMany(health)
	seen["open"], seen["cancelled"] = serving, ends
	short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	watch, err := health.Watch(short, &grpc_health_v1.HealthCheckRequest{})
	must(err)
	seen["late"] = ended(watch)
	_, err = health.Check(short, &grpc_health_v1.HealthCheckRequest{})
	seen["over"] = code(err)
	seen["connections"] = connections.Load()
	show(seen)
}

// Calls without a pause; tells calls, failures by what they were, and connections so far.
func steady(ports []string) {
	channel := dial(ports)
	defer channel.Close()
	health := grpc_health_v1.NewHealthClient(channel)
	var calls atomic.Int64
	var lock sync.Mutex
	failed := map[string]int{}
	stop := make(chan bool)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), patient)
				_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
				cancel()
				calls.Add(1)
				if status.Code(err) != codes.OK {
					lock.Lock()
					failed[err.Error()]++
					lock.Unlock()
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() { // each line is answered, an empty one with the last word
		lock.Lock()
		show(map[string]any{"calls": calls.Load(), "failed": failed, "connections": connections.Load()})
		lock.Unlock()
		if input.Text() == "" {
			break
		}
	}
	close(stop)
	all.Wait()
}

func main() {
	if os.Args[1] == "once" {
		once(os.Args[2:])
	} else {
		steady(os.Args[2:])
	}
}
