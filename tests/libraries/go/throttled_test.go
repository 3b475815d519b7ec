package libraries

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/redigostore"
)

// onBothStores runs a test on go-redis and on redigo, which selects its database before every operation.
func onBothStores(t *testing.T, run func(t *testing.T, store throttled.GCRAStoreCtx, client *redis.Client)) {
	t.Run("go-redis", func(t *testing.T) {
		client := newClient(t, redis.Options{})
		store, err := goredisstore.NewCtx(client, "throttled:")
		must(t, err)
		run(t, store, client)
	})
	t.Run("redigo", func(t *testing.T) {
		pool := &redigo.Pool{
			MaxIdle: 8,
			Dial:    func() (redigo.Conn, error) { return redigo.Dial("tcp", address()) },
		}
		t.Cleanup(func() { _ = pool.Close() })
		store, err := redigostore.NewCtx(pool, "throttled:", 3)
		must(t, err)
		run(t, store, newClient(t, redis.Options{DB: 3}))
	})
}

func newLimiter(t *testing.T, store throttled.GCRAStoreCtx, rate throttled.Rate, burst int) *throttled.GCRARateLimiterCtx {
	t.Helper()
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: rate, MaxBurst: burst})
	must(t, err)
	limiter.SetMaxCASAttemptsLimit(1000)
	return limiter
}

func TestThrottledUpToTheLimit(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, _ *redis.Client) {
		limiter := newLimiter(t, store, throttled.PerMin(3), 2)
		var limited []bool
		var remaining []int
		var last throttled.RateLimitResult
		for range 5 {
			isLimited, result, err := limiter.RateLimitCtx(context.Background(), t.Name(), 1)
			must(t, err)
			limited, remaining, last = append(limited, isLimited), append(remaining, result.Remaining), result
		}
		expect(t, "limited", limited, []bool{false, false, false, true, true})
		expect(t, "remaining", remaining, []int{2, 1, 0, 0, 0})
		expect(t, "limit", last.Limit, 3)
		observe(t, "retry after", between(t, last.RetryAfter, 18*time.Second, 20*time.Second))
		observe(t, "reset after", between(t, last.ResetAfter, 58*time.Second, 60*time.Second))
	})
}

func TestThrottledAllowsAgain(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, _ *redis.Client) {
		limiter := newLimiter(t, store, throttled.PerSec(2), 1)
		var limited []bool
		limit := func() throttled.RateLimitResult {
			isLimited, result, err := limiter.RateLimitCtx(context.Background(), t.Name(), 1)
			must(t, err)
			limited = append(limited, isLimited)
			return result
		}
		limit()
		limit()
		refused := limit()
		time.Sleep(refused.RetryAfter + 20*time.Millisecond)
		limit()
		limit()
		expect(t, "limited", limited, []bool{false, false, true, false, true})
	})
}

func TestThrottledQuantities(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, _ *redis.Client) {
		limiter := newLimiter(t, store, throttled.PerHour(10), 9)
		var limited []bool
		var remaining []int
		for _, quantity := range []int{4, 7, 0, 6, 1} {
			isLimited, result, err := limiter.RateLimitCtx(context.Background(), t.Name(), quantity)
			must(t, err)
			limited, remaining = append(limited, isLimited), append(remaining, result.Remaining)
		}
		expect(t, "limited", limited, []bool{false, true, false, false, true})
		expect(t, "remaining", remaining, []int{6, 6, 6, 0, 0})
	})
}

func TestThrottledItsKey(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, client *redis.Client) {
		ctx := context.Background()
		limiter := newLimiter(t, store, throttled.PerMin(1), 0)
		_, _, err := limiter.RateLimitCtx(ctx, t.Name(), 1)
		must(t, err)
		value, err := client.Get(ctx, "throttled:"+t.Name()).Int64()
		must(t, err)
		observe(t, "arrival", between(t, time.Until(time.Unix(0, value)), 58*time.Second, 61*time.Second))
		ttl, err := client.TTL(ctx, "throttled:"+t.Name()).Result()
		must(t, err)
		observe(t, "ttl", between(t, ttl, 57*time.Second, 61*time.Second))
		must(t, client.Del(ctx, "throttled:"+t.Name()).Err())
		isLimited, _, err := limiter.RateLimitCtx(ctx, t.Name(), 1)
		must(t, err)
		expect(t, "limited after the delete", isLimited, false)
	})
}

func TestThrottledTheStore(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, _ *redis.Client) {
		ctx := context.Background()
		value, now, err := store.GetWithTime(ctx, t.Name())
		must(t, err)
		expect(t, "missing", value, -1)
		observe(t, "clock", between(t, time.Since(now).Abs(), 0, 5*time.Second))
		swapped, err := store.CompareAndSwapWithTTL(ctx, t.Name(), 1, 2, time.Minute)
		must(t, err)
		expect(t, "swap of a missing key", swapped, false)
		var set []bool
		for _, value := range []int64{1, 2} {
			done, err := store.SetIfNotExistsWithTTL(ctx, t.Name(), value, time.Minute)
			must(t, err)
			set = append(set, done)
		}
		expect(t, "set if missing", set, []bool{true, false})
		swaps := []bool{}
		for _, old := range []int64{7, 1} {
			done, err := store.CompareAndSwapWithTTL(ctx, t.Name(), old, 1<<62, time.Minute)
			must(t, err)
			swaps = append(swaps, done)
		}
		expect(t, "swaps", swaps, []bool{false, true})
		value, _, err = store.GetWithTime(ctx, t.Name())
		must(t, err)
		expect(t, "value", value, 1<<62)
	})
}

func TestThrottledManyAtOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, _ *redis.Client) {
		limiter := newLimiter(t, store, throttled.PerDay(30), 29)
		allowed := atOnce(t, 6, 15, func() (int, error) {
			isLimited, _, err := limiter.RateLimitCtx(context.Background(), t.Name(), 1)
			if isLimited || err != nil {
				return 0, err
			}
			return 1, nil
		})
		expect(t, "allowed", allowed, 30)
	})
}

func TestThrottledInAServer(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, _ *redis.Client) {
		limiter := throttled.HTTPRateLimiterCtx{
			RateLimiter: newLimiter(t, store, throttled.PerMin(2), 1),
			VaryBy:      &throttled.VaryBy{Path: true, Headers: []string{"X-User"}},
		}
		served := http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) { writer.WriteHeader(http.StatusNoContent) })
		server := httptest.NewServer(limiter.RateLimit(served))
		defer server.Close()
		var status []int
		var remaining []string
		for _, user := range []string{"ann", "ann", "ann", "bob"} {
			request, err := http.NewRequest(http.MethodGet, server.URL+"/"+t.Name(), nil)
			must(t, err)
			request.Header.Set("X-User", user)
			reply, err := server.Client().Do(request)
			must(t, err)
			must(t, reply.Body.Close())
			status, remaining = append(status, reply.StatusCode), append(remaining, reply.Header.Get("X-RateLimit-Remaining"))
			if reply.StatusCode == http.StatusTooManyRequests {
				seconds, err := strconv.Atoi(reply.Header.Get("Retry-After"))
				must(t, err)
				observe(t, "retry after", between(t, time.Duration(seconds)*time.Second, 28*time.Second, 30*time.Second))
			}
		}
		expect(t, "status", status, []int{204, 204, 429, 204})
		expect(t, "remaining", remaining, []string{"1", "0", "0", "1"})
	})
}

func TestThrottledTheScriptsAreGoneAndTheServerIsKilled(t *testing.T) {
	onBothStores(t, func(t *testing.T, store throttled.GCRAStoreCtx, client *redis.Client) {
		ctx := context.Background()
		limiter := newLimiter(t, store, throttled.PerMin(2), 1)
		limit := func(key string) bool {
			isLimited, _, err := limiter.RateLimitCtx(ctx, t.Name()+key, 1)
			must(t, err)
			return isLimited
		}
		first := limit("")
		must(t, client.ScriptFlush(ctx).Err())
		expect(t, "limited", []bool{first, limit(""), limit("")}, []bool{false, false, true})
		restartServer(t)
		// A pool has a stale connection to find out about, one at a time.
		eventually(t, func() error {
			_, _, err := limiter.RateLimitCtx(ctx, t.Name()+":other", 1)
			return err
		})
		expect(t, "afterwards", []bool{limit(""), limit(""), limit("")}, []bool{false, false, true})
	})
}
