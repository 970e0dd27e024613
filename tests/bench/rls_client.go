// rls_client - asks a rate limit service by gRPC in closed loop, over one connection, for one descriptor.
//
// Usage: peer HOST:PORT IN_FLIGHT SECONDS. Prints a line of JSON: answers, errors, seconds, and latencies in us. An
// answer is an error unless it says OK: the limit is meant to be larger than any run; the first one is told. The first
// tenth of the time only warms up.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// Messages are bytes both ways, so that no reader of messages is measured.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func (raw) Name() string                       { return "proto" }

func field(number byte, value []byte) []byte {
	return append([]byte{number<<3 | 2, byte(len(value))}, value...)
}

// The domain `bench`, and the descriptor user=one.
func request() []byte {
	entry := append(field(1, []byte("user")), field(2, []byte("one"))...)
	return append(field(1, []byte("bench")), field(2, field(1, entry))...)
}

func main() {
	inFlight, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	link, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	wanted := time.Duration(seconds * float64(time.Second))
	begin := time.Now()
	from, end := begin.Add(wanted/10), begin.Add(wanted/10+wanted)
	var errors atomic.Int64
	var group sync.WaitGroup
	took := make([][]float64, inFlight)
	for i := range took {
		group.Add(1)
		go func() {
			defer group.Done()
			ask := request()
			for {
				var answer []byte
				start := time.Now()
				if start.After(end) {
					return
				}
				err := link.Invoke(context.Background(), method, &ask, &answer)
				if start.Before(from) {
					continue
				}
				if err != nil || len(answer) < 2 || answer[0] != 8 || answer[1] != 1 {
					if errors.Add(1) == 1 {
						fmt.Fprintln(os.Stderr, err, answer)
					}
					continue
				}
				took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/1000)
			}
		}()
	}
	group.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	at := func(share float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return all[int(share*float64(len(all)-1))]
	}
	fmt.Printf("{\"answers\":%d,\"errors\":%d,\"seconds\":%f,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f}\n", len(all),
		errors.Load(), wanted.Seconds(), at(.5), at(.99), at(.999))
}
