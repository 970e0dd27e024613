// Gubernator's own library for Go asks nodes. Usage: PROGRAM WHAT ADDRESS...; prints what it saw as JSON, a line each.
//
//	once ADDRESS...           what its documents show, of each node in turn
//	steady LIMIT ADDRESS...   one limit, a hit at a time, at any node, until each that answers says that it is reached;
//	                          a line when half of it is used
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	guber "github.com/gubernator-io/gubernator/v2"
	"google.golang.org/grpc/status"
)

const patient = 30 * time.Second

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

func dial(address string) guber.V1Client {
	client, err := guber.DialV1Server(address, nil)
	must(err)
	return client
}

type asker struct {
	peers   []guber.PeerInfo
	clients map[string]guber.V1Client
}

func newAsker(addresses []string) *asker {
	all := &asker{clients: map[string]guber.V1Client{}}
	for _, address := range addresses {
		all.peers = append(all.peers, guber.PeerInfo{GRPCAddress: address})
		all.clients[address] = dial(address)
	}
	return all
}

// Items of one request, of any node.
func (all *asker) ask(items ...*guber.RateLimitReq) []*guber.RateLimitResp {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	said, err := all.clients[guber.RandomPeer(all.peers).GRPCAddress].GetRateLimits(ctx, &guber.GetRateLimitsReq{Requests: items})
	must(err)
	return said.Responses
}

// One answer in a few words: status, what is left, and a fault.
func short(said *guber.RateLimitResp) string {
	if said.Error != "" {
		return said.Error
	}
	return fmt.Sprintf("%s %d/%d", said.Status, said.Remaining, said.Limit)
}

func item(algorithm guber.Algorithm, behavior guber.Behavior) func(hits int64) *guber.RateLimitReq {
	key := guber.RandomString(10)
	return func(hits int64) *guber.RateLimitReq {
		return &guber.RateLimitReq{Name: "requests_per_sec", UniqueKey: "account:" + key, Hits: hits, Limit: 10,
			Duration: guber.Minute * 10, Algorithm: algorithm, Behavior: behavior}
	}
}

// The answers to items that are asked one after the other, each with so many hits.
func (all *asker) steps(algorithm guber.Algorithm, behavior guber.Behavior, hits ...int64) []string {
	made := item(algorithm, behavior)
	seen := []string{}
	for _, one := range hits {
		seen = append(seen, short(all.ask(made(one))[0]))
	}
	return seen
}

// Hits with one behavior, and then a look and a hit without one.
func (all *asker) behaves(algorithm guber.Algorithm, behavior guber.Behavior, hits int64) []string {
	made := item(algorithm, guber.Behavior_BATCHING)
	first := made(hits)
	guber.SetBehavior(&first.Behavior, behavior, true)
	return []string{short(all.ask(made(7))[0]), short(all.ask(first)[0]), short(all.ask(made(0))[0]),
		short(all.ask(made(1))[0])}
}

// A thousand items with bad ones between them: each of its own key, or all of one.
func (all *asker) thousand(one bool) map[string]int {
	made := item(guber.Algorithm_TOKEN_BUCKET, guber.Behavior_BATCHING)
	items := []*guber.RateLimitReq{}
	for i := range 1000 {
		next := made(1)
		next.Limit = 1000
		if !one {
			next.UniqueKey += "-" + strconv.Itoa(i)
		}
		switch i % 10 {
		case 3:
			next.UniqueKey = ""
		case 5:
			next.Name = ""
		}
		items = append(items, next)
	}
	seen := map[string]int{}
	left := int64(1000)
	for i, said := range all.ask(items...) {
		if said.Error != "" {
			seen[said.Error]++
			continue
		}
		if one {
			left--
		} else {
			left = 999
		}
		if said.Status == guber.Status_UNDER_LIMIT && said.Remaining == left && i%10 != 3 && i%10 != 5 {
			seen["as asked"]++
		}
	}
	return seen
}

// A thousand items, each with a limit that no other one has.
func (all *asker) manyLimits() map[string]int {
	items := []*guber.RateLimitReq{}
	for i := range int64(1000) {
		next := item(guber.Algorithm(i%2), guber.Behavior_BATCHING)(2)
		next.Limit, next.Duration = i+1, guber.Minute+1000*i
		items = append(items, next)
	}
	seen := map[string]int{}
	for i, said := range all.ask(items...) {
		if said.Error == "" && said.Limit == int64(i)+1 && (said.Status == guber.Status_OVER_LIMIT) == (i == 0) &&
			said.Remaining == max(int64(i)-1, 1-int64(i)) {
			seen["as asked"]++
		} else {
			seen[short(said)]++
		}
	}
	return seen
}

// How far from now the windows of the calendar end, each against the library's own arithmetic, in ms.
func (all *asker) calendar() map[string]int64 {
	units := map[string]int64{"minute": guber.GregorianMinutes, "hour": guber.GregorianHours, "day": guber.GregorianDays,
		"month": guber.GregorianMonths, "year": guber.GregorianYears}
	seen := map[string]int64{}
	for name, unit := range units {
		made := item(guber.Algorithm_TOKEN_BUCKET, guber.Behavior_DURATION_IS_GREGORIAN)(1)
		made.Duration = unit
		for { // both are to be of one window
			expected, err := guber.GregorianExpiration(time.Now().UTC(), unit)
			must(err)
			said := all.ask(made)[0].ResetTime
			again, err := guber.GregorianExpiration(time.Now().UTC(), unit)
			must(err)
			if expected == again {
				seen[name] = said - expected
				break
			}
		}
	}
	return seen
}

// A bucket that is full is new again when the time comes that its answer told.
func (all *asker) comesBack(algorithm guber.Algorithm) []string {
	made := item(algorithm, guber.Behavior_BATCHING)
	first, second := made(10), made(1)
	first.Duration, second.Duration = 2*guber.Second, 2*guber.Second
	said := all.ask(first)[0]
	time.Sleep(time.Until(guber.FromUnixMilliseconds(said.ResetTime)))
	return []string{short(said), short(all.ask(second)[0])}
}

func failure(err error) string {
	return fmt.Sprintf("%s: %s", status.Code(err), status.Convert(err).Message())
}

func (all *asker) refusals() map[string]string {
	many := &guber.GetRateLimitsReq{}
	for range 1001 {
		many.Requests = append(many.Requests, item(guber.Algorithm_TOKEN_BUCKET, guber.Behavior_BATCHING)(1))
	}
	first := all.clients[all.peers[0].GRPCAddress]
	_, large := first.GetRateLimits(context.Background(), many)
	late, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	_, over := first.GetRateLimits(late, &guber.GetRateLimitsReq{})
	gone, end := context.WithCancel(context.Background())
	end()
	_, cancelled := first.GetRateLimits(gone, &guber.GetRateLimitsReq{})
	_, none := first.GetRateLimits(context.Background(), &guber.GetRateLimitsReq{})
	seen := map[string]string{"large": failure(large), "late": status.Code(over).String(),
		"cancelled": status.Code(cancelled).String(), "none": "answered"}
	if none != nil {
		seen["none"] = failure(none)
	}
	return seen
}

func (all *asker) health() []string {
	seen := []string{}
	for _, peer := range all.peers {
		said, err := all.clients[peer.GRPCAddress].HealthCheck(context.Background(), &guber.HealthCheckReq{})
		must(err)
		_, err = all.clients[peer.GRPCAddress].LiveCheck(context.Background(), &guber.LiveCheckReq{})
		must(err)
		at := "elsewhere"
		if said.AdvertiseAddress == peer.GRPCAddress {
			at = "here"
		}
		seen = append(seen, fmt.Sprintf("%s, %d peers, %s%s", said.Status, said.PeerCount, at, said.Message))
	}
	return seen
}

func once(all *asker) {
	token, leaky := guber.Algorithm_TOKEN_BUCKET, guber.Algorithm_LEAKY_BUCKET
	named := item(token, 0)(1)
	show(map[string]any{
		"token":          all.steps(token, 0, 1, 0, 6, 4, 3, 1, 0),
		"leaky":          all.steps(leaky, 0, 1, 0, 6, 4, 3, 1, 0),
		"global":         all.steps(token, guber.Behavior_GLOBAL, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		"multi_region":   all.steps(token, guber.Behavior_MULTI_REGION, 1, 1),
		"no_batching":    all.steps(token, guber.Behavior_NO_BATCHING, 1, 1),
		"reset":          all.behaves(token, guber.Behavior_RESET_REMAINING, 0),
		"drain":          all.behaves(token, guber.Behavior_DRAIN_OVER_LIMIT, 5),
		"drain_leaky":    all.behaves(leaky, guber.Behavior_DRAIN_OVER_LIMIT, 5),
		"each_its_own":   all.thousand(false),
		"all_one":        all.thousand(true),
		"limits":         all.manyLimits(),
		"calendar":       all.calendar(),
		"token_is_back":  all.comesBack(token),
		"leaky_is_back":  all.comesBack(leaky),
		"refused":        all.refusals(),
		"health":         all.health(),
		"hash_key":       named.HashKey() == named.Name+"_"+named.UniqueKey,
		"has_behavior":   guber.HasBehavior(guber.Behavior_GLOBAL|guber.Behavior_DRAIN_OVER_LIMIT, guber.Behavior_GLOBAL),
		"metadata_owner": all.ask(named)[0].Metadata["owner"],
	})
}

// An answer: when it was there, in seconds of Unix time; what it was; and who decided.
type answer struct {
	At    float64 `json:"at"`
	Said  string  `json:"said"`
	Owner string  `json:"owner"`
}

func (all *asker) hit(address string, one *guber.RateLimitReq) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	said, err := all.clients[address].GetRateLimits(ctx, &guber.GetRateLimitsReq{Requests: []*guber.RateLimitReq{one}})
	seen := answer{At: float64(time.Now().UnixMicro()) / 1e6}
	switch {
	case err != nil:
		seen.Said = failure(err)
	case said.Responses[0].Error != "":
		seen.Said = said.Responses[0].Error
	default:
		seen.Said, seen.Owner = said.Responses[0].Status.String(), said.Responses[0].Metadata["owner"]
	}
	return seen
}

func steady(all *asker, limit int64) {
	one := item(guber.Algorithm_TOKEN_BUCKET, guber.Behavior_GLOBAL)(1)
	one.Limit = limit
	seen := []answer{}
	under := int64(0)
	for over := 0; over < 10*len(all.peers); {
		said := all.hit(guber.RandomPeer(all.peers).GRPCAddress, one)
		seen = append(seen, said)
		switch said.Said {
		case guber.Status_OVER_LIMIT.String():
			over++
		case guber.Status_UNDER_LIMIT.String():
			if under++; under == limit/2 {
				show(said)
			}
		}
	}
	show(seen)
}

func main() {
	switch os.Args[1] {
	case "once":
		once(newAsker(os.Args[2:]))
	case "steady":
		limit, err := strconv.ParseInt(os.Args[2], 10, 64)
		must(err)
		steady(newAsker(os.Args[3:]), limit)
	}
}
