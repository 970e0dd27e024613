// A service in Go whose log-ins Tidegate limits over HTTP. Run: go run nethttp.go
//
// Where no node answers in time, the request passes: that is this service's own choice. To refuse
// it, answer 503 instead of calling next.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

var tidegate = env("TIDEGATE", "http://127.0.0.1:7604")

// One client for all requests: it keeps connections, as many as are asked for at once.
var client = &http.Client{
	Timeout:   200 * time.Millisecond,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

type decision struct {
	Allowed *bool  `json:"allowed"`
	Outcome string `json:"outcome"`
	Message string `json:"message"`
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// limit asks about the attributes that describe makes of a request, before next has it.
func limit(describe func(*http.Request) map[string]string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := json.Marshal(map[string]any{"attributes": describe(r)})
		answer, err := client.Post(tidegate+"/v1/check", "application/json", bytes.NewReader(body))
		if err != nil {
			next.ServeHTTP(w, r)
			return
		}
		defer answer.Body.Close()
		for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
			if value := answer.Header.Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
		var found decision
		// A mistake in the question, and what could not be decided, are no denials.
		if json.NewDecoder(answer.Body).Decode(&found) != nil || found.Allowed == nil || *found.Allowed ||
			found.Outcome == "busy" || found.Outcome == "error" {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, found.Message, answer.StatusCode)
	})
}

func main() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s\n", r.FormValue("user"))
	})
	http.Handle("POST /login", limit(func(r *http.Request) map[string]string {
		return map[string]string{"api": r.URL.Path, "method": r.Method, "user": r.FormValue("user")}
	}, hello))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+env("PORT", "8000"), nil))
}
