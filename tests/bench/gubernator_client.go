// gubernator_client - asks GetRateLimits by Gubernator's client library in closed loop, over one connection.
//
// Usage: peer HOST:PORT IN_FLIGHT ITEMS KEYS SECONDS. The items of a call are of one limit and of as many keys, which are
// taken in turns; calls are built beforehand and encoded each time. Prints a line of JSON: answers of items, errors,
// seconds, and latencies of calls in us. A call is an error unless each of its items is under its limit, which is meant
// to be larger than any run; the first one is told. The first tenth of the time only warms up.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gubernator-io/gubernator/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const limit = 1000000000

func number(i int) int {
	value, err := strconv.Atoi(os.Args[i])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	return value
}

func calls(items, keys int) []*gubernator.GetRateLimitsReq {
	all := make([]*gubernator.GetRateLimitsReq, keys/items)
	for i := range all {
		all[i] = &gubernator.GetRateLimitsReq{}
		for k := range items {
			all[i].Requests = append(all[i].Requests, &gubernator.RateLimitReq{
				Name: "requests_per_hour", UniqueKey: fmt.Sprintf("account:%06d", i*items+k), Hits: 1, Limit: limit,
				Duration: 3600 * gubernator.Second, Algorithm: gubernator.Algorithm_TOKEN_BUCKET})
		}
	}
	return all
}

func wrong(asked *gubernator.GetRateLimitsReq, answer *gubernator.GetRateLimitsResp, err error) bool {
	if err != nil || len(answer.Responses) != len(asked.Requests) {
		return true
	}
	return slices.ContainsFunc(answer.Responses, func(item *gubernator.RateLimitResp) bool {
		return item.Error != "" || item.Status != gubernator.Status_UNDER_LIMIT || item.Limit != limit
	})
}

func main() {
	inFlight, items, keys := number(2), number(3), number(4)
	seconds, _ := strconv.ParseFloat(os.Args[5], 64)
	link, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	client, asked := gubernator.NewV1Client(link), calls(items, keys)
	wanted := time.Duration(seconds * float64(time.Second))
	begin := time.Now()
	from, end := begin.Add(wanted/10), begin.Add(wanted/10+wanted)
	var next, errors atomic.Int64
	var group sync.WaitGroup
	took := make([][]float64, inFlight)
	for i := range took {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				ask := asked[int(next.Add(1))%len(asked)]
				start := time.Now()
				if start.After(end) {
					return
				}
				answer, err := client.GetRateLimits(context.Background(), ask)
				if start.Before(from) {
					continue
				}
				if wrong(ask, answer, err) {
					if errors.Add(int64(items)) == int64(items) {
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
	fmt.Printf("{\"answers\":%d,\"errors\":%d,\"seconds\":%f,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f}\n", len(all)*items,
		errors.Load(), wanted.Seconds(), at(.5), at(.99), at(.999))
}
