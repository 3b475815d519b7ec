import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

/** The node under test, as tests/run.py announces it in TOLLGATE_* variables, and what its replies must look like. */
final class NodeUnderTest {
    static final String HOST = System.getenv("TOLLGATE_HOST");
    static final int PORT = Integer.parseInt(System.getenv("TOLLGATE_PORT"));
    static final int PASSWORD_PORT = Integer.parseInt(System.getenv("TOLLGATE_PASSWORD_PORT"));
    static final String PASSWORD = System.getenv("TOLLGATE_PASSWORD");

    private static final List<String> NAMES =
            List.of("allowed", "limit", "remaining", "retry_after_ms", "reset_at_ms", "source");
    private static final long RECOVERY_LIMIT_MS = 10_000;
    private static final AtomicInteger SERIAL = new AtomicInteger();

    private NodeUnderTest() {}

    /** The fields of a reply to RL.CHECK. */
    record Fields(long allowed, long limit, long remaining, long retryAfterMs, long resetAtMs, String source) {
        /** From the values in order, a RESP2 array. */
        static Fields of(List<?> values) {
            assertEquals(NAMES.size(), values.size());
            long[] numbers = IntStream.range(0, 5)
                    .mapToLong(i -> assertInstanceOf(Long.class, values.get(i), NAMES.get(i)))
                    .toArray();
            String source = assertInstanceOf(String.class, values.get(5), "source");
            return new Fields(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], source);
        }

        /** From the values by name, a RESP3 map. */
        static Fields of(Map<String, ?> byName) {
            assertEquals(List.copyOf(NAMES.stream().sorted().toList()), byName.keySet().stream().sorted().toList());
            return of(NAMES.stream().map(byName::get).toList());
        }
    }

    static String newKey(String label) {
        return "java:" + label + ":" + ProcessHandle.current().pid() + ":" + SERIAL.incrementAndGet();
    }

    static void assertFiveOfSevenAllowed(List<Fields> replies) {
        long now = System.currentTimeMillis();
        assertEquals(List.of(1L, 1L, 1L, 1L, 1L, 0L, 0L), replies.stream().map(Fields::allowed).toList());
        assertEquals(List.of(4L, 3L, 2L, 1L, 0L, 0L, 0L), replies.stream().map(Fields::remaining).toList());
        for (Fields reply : replies) {
            assertEquals(5, reply.limit());
            assertEquals("owner", reply.source());
            assertTrue(now < reply.resetAtMs() && reply.resetAtMs() < now + 61_000, reply.toString());
            boolean isWaitRight = reply.allowed() == 1
                    ? reply.retryAfterMs() == 0
                    : reply.retryAfterMs() > 0 && reply.retryAfterMs() <= 12_000;
            assertTrue(isWaitRight, reply.toString());
        }
    }

    static void assertThrottledAfterFive(List<List<Long>> replies) {
        for (int n = 0; n < 7; n++) {
            List<Long> reply = replies.get(n);
            assertEquals(List.of(n < 5 ? 0L : 1L, 5L, Math.max(4L - n, 0)), reply.subList(0, 3));
            boolean isWaitRight = n < 5 ? reply.get(3) == -1 : reply.get(3) >= 11 && reply.get(3) <= 12;
            assertTrue(isWaitRight && reply.get(4) > 0 && reply.get(4) <= 60, reply.toString());
        }
    }

    static void assertCountsDownFrom999(List<Fields> replies) {
        assertEquals(1000, replies.size());
        for (int n = 0; n < 1000; n++) {
            assertEquals(999 - n, replies.get(n).remaining());
        }
    }

    /** Kills the node with SIGKILL; returns once it serves again on the same port. */
    static void restart() throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("TOLLGATE_CONTROL") + "/restart"))
                .POST(HttpRequest.BodyPublishers.noBody())
                .build();
        HttpResponse<String> reply = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        assertEquals(200, reply.statusCode(), reply.body());
    }

    /** Calls until a call succeeds, as a service does whose requests go on arriving. */
    static <T> T eventually(Callable<T> call) throws Exception {
        long deadline = System.currentTimeMillis() + RECOVERY_LIMIT_MS;
        while (true) {
            try {
                return call.call();
            } catch (RuntimeException error) {
                if (System.currentTimeMillis() > deadline) {
                    throw error;
                }
                Thread.sleep(20);
            }
        }
    }
}
