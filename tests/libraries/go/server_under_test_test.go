// Package libraries tests Go's rate limiting libraries on a server. Run by tests/run.py, which starts the server and sets
// the SERVER_* variables.
package libraries

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const recoveryLimit = 10 * time.Second

func address() string {
	return net.JoinHostPort(os.Getenv("SERVER_HOST"), os.Getenv("SERVER_PORT"))
}

func newClient(t *testing.T, options redis.Options) *redis.Client {
	options.Addr = address()
	client := redis.NewClient(&options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// inBothProtocols runs a test on go-redis in RESP2 and in RESP3.
func inBothProtocols(t *testing.T, run func(t *testing.T, client *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			run(t, newClient(t, redis.Options{Protocol: protocol, PoolSize: 8}))
		})
	}
}

// observe writes an observation down: the value must be the same on every server, so times are ranged with `between`.
func observe(t *testing.T, what string, value any) {
	t.Helper()
	encoded, err := json.Marshal(value)
	must(t, err)
	file, err := os.OpenFile(os.Getenv("TRANSCRIPT"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer func() { must(t, file.Close()) }()
	_, err = fmt.Fprintf(file, "%s: %s = %s\n", t.Name(), what, encoded)
	must(t, err)
}

// expect writes it down and fails the test if it is not as expected.
func expect[T any](t *testing.T, what string, value, expected T) {
	t.Helper()
	observe(t, what, value)
	if !reflect.DeepEqual(value, expected) {
		t.Errorf("%s: %v instead of %v", what, value, expected)
	}
}

// between fails the test if a time is not in its range, and returns the range.
func between(t *testing.T, value, low, high time.Duration) string {
	t.Helper()
	if value < low || high < value {
		t.Errorf("%v is not between %v and %v", value, low, high)
	}
	return fmt.Sprintf("%v..%v", low, high)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// restartServer kills the server with SIGKILL and returns once it serves again on the same port, with nothing in it.
func restartServer(t *testing.T) {
	t.Helper()
	reply, err := http.Post(os.Getenv("SERVER_CONTROL")+"/restart", "", nil)
	must(t, err)
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		t.Fatal(reply.Status)
	}
}

// eventually calls until a call succeeds, as a service does whose requests go on arriving.
func eventually(t *testing.T, call func() error) {
	t.Helper()
	deadline := time.Now().Add(recoveryLimit)
	for {
		err := call()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// atOnce makes the calls of several goroutines that all start together and returns the sum of what they return.
func atOnce(t *testing.T, goroutines, calls int, call func() (int, error)) int {
	t.Helper()
	var (
		started, done sync.WaitGroup
		mutex         sync.Mutex
		sum           int
	)
	started.Add(1)
	for range goroutines {
		done.Add(1)
		go func() {
			defer done.Done()
			started.Wait()
			for range calls {
				n, err := call()
				if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				sum += n
				mutex.Unlock()
			}
		}()
	}
	started.Done()
	done.Wait()
	return sum
}
