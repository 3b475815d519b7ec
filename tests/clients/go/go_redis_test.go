// go-redis against a node, in both protocols. Run by tests/run.py, which starts the node and sets the TOLLGATE_*
// variables.
package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	fieldNames = []string{"allowed", "limit", "remaining", "retry_after_ms", "reset_at_ms", "source"}
	serial     atomic.Int64
)

type fields struct {
	allowed, limit, remaining, retryAfterMs, resetAtMs int64
	source                                             string
}

func newKey(label string) string {
	return fmt.Sprintf("go:%s:%d:%d", label, os.Getpid(), serial.Add(1))
}

func newClient(t *testing.T, options redis.Options) *redis.Client {
	if options.Addr == "" {
		options.Addr = net.JoinHostPort(os.Getenv("TOLLGATE_HOST"), os.Getenv("TOLLGATE_PORT"))
	}
	client := redis.NewClient(&options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func inBothProtocols(t *testing.T, run func(t *testing.T, ctx context.Context, protocol int)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			run(t, ctx, protocol)
		})
	}
}

// read takes the fields from an array in RESP2, from a map in RESP3.
func read(t *testing.T, reply any, protocol int) fields {
	t.Helper()
	values := make([]any, len(fieldNames))
	if protocol == 3 {
		byName, ok := reply.(map[any]any)
		if !ok || len(byName) != len(fieldNames) {
			t.Fatalf("no map of %d fields: %#v", len(fieldNames), reply)
		}
		for i, name := range fieldNames {
			values[i] = byName[name]
		}
	} else {
		inOrder, ok := reply.([]any)
		if !ok || len(inOrder) != len(fieldNames) {
			t.Fatalf("no array of %d fields: %#v", len(fieldNames), reply)
		}
		copy(values, inOrder)
	}
	numbers := make([]int64, 5)
	for i := range numbers {
		number, ok := values[i].(int64)
		if !ok {
			t.Fatalf("%s is no integer: %#v", fieldNames[i], reply)
		}
		numbers[i] = number
	}
	source, ok := values[5].(string)
	if !ok {
		t.Fatalf("source is no string: %#v", reply)
	}
	return fields{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], source}
}

func check(t *testing.T, ctx context.Context, client *redis.Client, key string, protocol int) fields {
	t.Helper()
	reply, err := client.Do(ctx, "RL.CHECK", key, "LIMIT", 5, "PER", "1m").Result()
	must(t, err)
	return read(t, reply, protocol)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v, want %#v", got, want)
	}
}

func TestConnectsWithANameAndADatabase(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		key := newKey("database")
		third := newClient(t, redis.Options{Protocol: protocol, DB: 3, ClientName: "checkout"})
		first := newClient(t, redis.Options{Protocol: protocol})
		name, err := third.ClientGetName(ctx).Result()
		must(t, err)
		equal(t, name, "checkout")
		check(t, ctx, third, key, protocol)
		equal(t, third.Exists(ctx, key).Val(), int64(1))
		found, err := first.Exists(ctx, key).Result()
		must(t, err)
		equal(t, found, int64(0))
	})
}

func TestRlCheckAllowsFiveOfSeven(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		client := newClient(t, redis.Options{Protocol: protocol})
		key := newKey("check")
		for n, allowed := range []int64{1, 1, 1, 1, 1, 0, 0} {
			reply := check(t, ctx, client, key, protocol)
			equal(t, reply.allowed, allowed)
			equal(t, reply.limit, int64(5))
			equal(t, reply.remaining, max(4-int64(n), 0))
			equal(t, reply.source, "owner")
			if allowed == 1 {
				equal(t, reply.retryAfterMs, int64(0))
			} else if reply.retryAfterMs <= 0 || reply.retryAfterMs > 12_000 {
				t.Fatalf("retry_after_ms is %d", reply.retryAfterMs)
			}
			if wait := time.Until(time.UnixMilli(reply.resetAtMs)); wait <= 0 || wait > 61*time.Second {
				t.Fatalf("reset_at_ms is %v away", wait)
			}
		}
	})
}

func TestClThrottleAllowsFiveOfSeven(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		client := newClient(t, redis.Options{Protocol: protocol})
		key := newKey("throttle")
		for n, denied := range []int64{0, 0, 0, 0, 0, 1, 1} {
			reply, err := client.Do(ctx, "CL.THROTTLE", key, 4, 5, 60).Int64Slice()
			must(t, err)
			equal(t, reply[:3], []int64{denied, 5, max(4-int64(n), 0)})
			if denied == 0 {
				equal(t, reply[3], int64(-1))
			} else if reply[3] < 11 || reply[3] > 12 {
				t.Fatalf("retry after %d s", reply[3])
			}
			if reply[4] <= 0 || reply[4] > 60 {
				t.Fatalf("reset after %d s", reply[4])
			}
		}
	})
}

func TestABucketIsAKey(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		client := newClient(t, redis.Options{Protocol: protocol})
		key := newKey("bucket")
		check(t, ctx, client, key, protocol)
		equal(t, client.Exists(ctx, key).Val(), int64(1))
		equal(t, client.Type(ctx, key).Val(), "bucket")
		ttl, err := client.TTL(ctx, key).Result()
		must(t, err)
		if ttl <= 0 {
			t.Fatalf("TTL is %v", ttl)
		}
		var found []string
		scan := client.Scan(ctx, 0, key+"*", 0).Iterator()
		for scan.Next(ctx) {
			found = append(found, scan.Val())
		}
		must(t, scan.Err())
		equal(t, found, []string{key})
		equal(t, client.Del(ctx, key).Val(), int64(1))
		gone, err := client.Exists(ctx, key).Result()
		must(t, err)
		equal(t, gone, int64(0))
		equal(t, client.Type(ctx, key).Val(), "none")
		equal(t, client.TTL(ctx, key).Val(), time.Duration(-2))
	})
}

func TestAPipelineIsAnsweredInOrder(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		client := newClient(t, redis.Options{Protocol: protocol})
		key := newKey("pipeline")
		replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 1000 {
				pipe.Do(ctx, "RL.CHECK", key, "LIMIT", 1000, "PER", "30d")
			}
			return nil
		})
		must(t, err)
		equal(t, len(replies), 1000)
		for n, reply := range replies {
			equal(t, read(t, reply.(*redis.Cmd).Val(), protocol).remaining, int64(999-n))
		}
	})
}

func TestAnErrorIsARedisError(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		client := newClient(t, redis.Options{Protocol: protocol})
		key := newKey("error")
		var replyError redis.Error
		if err := client.Do(ctx, "RL.CHECK", key, "LIMIT", 0, "PER", "1m").Err(); !errors.As(err, &replyError) {
			t.Fatalf("LIMIT 0 answered %v", err)
		}
		err := client.Do(ctx, "RL.NO-SUCH-COMMAND", key).Err()
		if err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Fatalf("an unknown command answered %v", err)
		}
		replies, _ := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, limit := range []any{5, "five", 5} {
				pipe.Do(ctx, "RL.CHECK", key, "LIMIT", limit, "PER", "1m")
			}
			return nil
		})
		must(t, replies[0].Err())
		must(t, replies[2].Err())
		if !errors.As(replies[1].Err(), &replyError) {
			t.Fatalf("LIMIT five answered %v", replies[1].Err())
		}
	})
}

func TestRecoversWhenTheNodeIsKilledAndStartedAgain(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		client := newClient(t, redis.Options{Protocol: protocol})
		key := newKey("reconnect")
		check(t, ctx, client, key, protocol)
		reply, err := http.Post(os.Getenv("TOLLGATE_CONTROL")+"/restart", "", nil)
		must(t, err)
		must(t, reply.Body.Close())
		equal(t, reply.StatusCode, http.StatusOK)
		// The pooled connection is dead; the client notices, drops it and retries on a new one by itself.
		check(t, ctx, client, key, protocol)
		equal(t, client.Exists(ctx, key).Val(), int64(1))
	})
}

func TestAPasswordIsAskedFor(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, ctx context.Context, protocol int) {
		guarded := func(password string) *redis.Client {
			address := net.JoinHostPort(os.Getenv("TOLLGATE_HOST"), os.Getenv("TOLLGATE_PASSWORD_PORT"))
			return newClient(t, redis.Options{Addr: address, Protocol: protocol, Password: password})
		}
		equal(t, check(t, ctx, guarded(os.Getenv("TOLLGATE_PASSWORD")), newKey("password"), protocol).allowed, int64(1))
		if err := guarded("wrong").Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
			t.Fatalf("a wrong password answered %v", err)
		}
		if err := guarded("").Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
			t.Fatalf("no password answered %v", err)
		}
	})
}
