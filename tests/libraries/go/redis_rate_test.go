package libraries

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func TestRedisRateUpToTheLimit(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		limiter, key, ctx := redis_rate.NewLimiter(client), t.Name(), context.Background()
		var allowed, remaining []int
		var last *redis_rate.Result
		for range 5 {
			result, err := limiter.Allow(ctx, key, redis_rate.PerMinute(3))
			must(t, err)
			allowed, remaining, last = append(allowed, result.Allowed), append(remaining, result.Remaining), result
			if result.Allowed == 1 && result.RetryAfter != -1 {
				t.Errorf("retry after %v though allowed", result.RetryAfter)
			}
		}
		expect(t, "allowed", allowed, []int{1, 1, 1, 0, 0})
		expect(t, "remaining", remaining, []int{2, 1, 0, 0, 0})
		observe(t, "retry after", between(t, last.RetryAfter, 18*time.Second, 20*time.Second))
		observe(t, "reset after", between(t, last.ResetAfter, 58*time.Second, 60*time.Second))
	})
}

func TestRedisRateAllowsAgain(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		limiter, key, ctx := redis_rate.NewLimiter(client), t.Name(), context.Background()
		limit := redis_rate.Limit{Rate: 2, Burst: 2, Period: time.Second}
		var allowed []int
		allow := func() *redis_rate.Result {
			result, err := limiter.Allow(ctx, key, limit)
			must(t, err)
			allowed = append(allowed, result.Allowed)
			return result
		}
		allow()
		allow()
		refused := allow()
		time.Sleep(refused.RetryAfter + 20*time.Millisecond)
		allow()
		allow()
		expect(t, "allowed", allowed, []int{1, 1, 0, 1, 0})
	})
}

func TestRedisRateSeveralAtATime(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		limiter, ctx := redis_rate.NewLimiter(client), context.Background()
		limit := redis_rate.PerHour(10)
		var allowed, remaining []int
		for _, n := range []int{4, 7, 6, 0} {
			result, err := limiter.AllowN(ctx, t.Name(), limit, n)
			must(t, err)
			allowed, remaining = append(allowed, result.Allowed), append(remaining, result.Remaining)
		}
		expect(t, "all or none", allowed, []int{4, 0, 6, 0})
		expect(t, "remaining", remaining, []int{6, 0, 0, 0})
		allowed = nil
		for _, n := range []int{7, 7, 7} {
			result, err := limiter.AllowAtMost(ctx, t.Name()+":most", limit, n)
			must(t, err)
			allowed = append(allowed, result.Allowed)
		}
		expect(t, "at most", allowed, []int{7, 3, 0})
	})
}

func TestRedisRateItsKeyAndReset(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		limiter, key, ctx := redis_rate.NewLimiter(client), t.Name(), context.Background()
		limit := redis_rate.PerMinute(1)
		_, err := limiter.Allow(ctx, key, limit)
		must(t, err)
		keyType, err := client.Type(ctx, "rate:"+key).Result()
		must(t, err)
		expect(t, "type", keyType, "string")
		ttl, err := client.TTL(ctx, "rate:"+key).Result()
		must(t, err)
		observe(t, "ttl", between(t, ttl, 58*time.Second, 60*time.Second))
		must(t, limiter.Reset(ctx, key))
		result, err := limiter.Allow(ctx, key, limit)
		must(t, err)
		expect(t, "after the reset", result.Allowed, 1)
	})
}

func TestRedisRateManyAtOnce(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		limiter := redis_rate.NewLimiter(client)
		allowed := atOnce(t, 8, 25, func() (int, error) {
			result, err := limiter.Allow(context.Background(), t.Name(), redis_rate.PerHour(60))
			if err != nil {
				return 0, err
			}
			return result.Allowed, nil
		})
		expect(t, "allowed", allowed, 60)
	})
}

func TestRedisRateInAPipeline(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		limiter := redis_rate.NewLimiter(client)
		_, err := limiter.Allow(ctx, t.Name(), redis_rate.PerHour(5))
		must(t, err)
		replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, t.Name()+":counter")
			pipe.Eval(ctx, "return redis.call('INCRBY', KEYS[1], ARGV[1])", []string{t.Name() + ":counter"}, 5)
			pipe.Get(ctx, "rate:"+t.Name())
			return nil
		})
		must(t, err)
		value, err := replies[1].(*redis.Cmd).Int64()
		must(t, err)
		expect(t, "counter", value, 6)
	})
}

func TestRedisRateTheScriptsAreGone(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		limiter, ctx := redis_rate.NewLimiter(client), context.Background()
		var allowed []int
		for range 3 {
			must(t, client.ScriptFlush(ctx).Err())
			result, err := limiter.Allow(ctx, t.Name(), redis_rate.PerMinute(2))
			must(t, err)
			allowed = append(allowed, result.Allowed)
		}
		expect(t, "allowed", allowed, []int{1, 1, 0})
	})
}

func TestRedisRateTheServerIsKilled(t *testing.T) {
	inBothProtocols(t, func(t *testing.T, client *redis.Client) {
		limiter, ctx := redis_rate.NewLimiter(client), context.Background()
		_, err := limiter.Allow(ctx, t.Name(), redis_rate.PerMinute(1))
		must(t, err)
		restartServer(t)
		eventually(t, func() error {
			_, err := limiter.Allow(ctx, t.Name()+":other", redis_rate.PerMinute(1))
			return err
		})
		var allowed []int
		for range 2 {
			result, err := limiter.Allow(ctx, t.Name(), redis_rate.PerMinute(1))
			must(t, err)
			allowed = append(allowed, result.Allowed)
		}
		expect(t, "afterwards", allowed, []int{1, 0})
	})
}
