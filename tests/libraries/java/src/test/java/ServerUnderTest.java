import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.junit.jupiter.api.TestInfo;

/** The server under test, as tests/run.py announces it in SERVER_* variables, and the transcript of what a library said. */
final class ServerUnderTest {
    static final String HOST = System.getenv("SERVER_HOST");
    static final int PORT = Integer.parseInt(System.getenv("SERVER_PORT"));

    private static final long RECOVERY_LIMIT_MS = 10_000;

    private ServerUnderTest() {}

    static String nameOf(TestInfo test) {
        String method = test.getTestMethod().orElseThrow().getName();
        String name = test.getDisplayName();
        return name.startsWith(method) ? method : method + " " + name;
    }

    /** Writes an observation down: it must be the same on every server, so times are ranged with `between`. */
    static void observe(TestInfo test, String what, Object value) throws IOException {
        String line = nameOf(test) + ": " + what + " = " + json(value) + "\n";
        Files.writeString(Path.of(System.getenv("TRANSCRIPT")), line, StandardOpenOption.APPEND);
    }

    /** Writes it down and asserts that it is as expected. */
    static void expect(TestInfo test, String what, Object expected, Object value) throws IOException {
        observe(test, what, value);
        assertEquals(expected, value, what);
    }

    /** Asserts that a figure is in its range, and is the range. */
    static String between(long value, long low, long high) {
        assertTrue(low <= value && value <= high, value + " is not between " + low + " and " + high);
        return low + ".." + high;
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof List<?> list) {
            return list.stream().map(ServerUnderTest::json).collect(Collectors.joining(",", "[", "]"));
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            boolean isPlain = c >= ' ' && c < 127 && c != '"' && c != '\\';
            text.append(isPlain ? String.valueOf(c) : String.format("\\u%04x", (int) c));
        }
        return text.append('"').toString();
    }

    /** What a call answers several times in turn. */
    static <T> List<T> inTurn(int count, Callable<T> call) throws Exception {
        List<T> results = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            results.add(call.call());
        }
        return results;
    }

    /** How many of the calls of several threads, which all start together, answer true. */
    static long countAtOnce(int threads, int calls, Callable<Boolean> call) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        CountDownLatch start = new CountDownLatch(1);
        try {
            List<Future<List<Boolean>>> running = new ArrayList<>();
            for (int n = 0; n < threads; n++) {
                running.add(pool.submit(() -> {
                    start.await();
                    return inTurn(calls, call);
                }));
            }
            start.countDown();
            long count = 0;
            for (Future<List<Boolean>> results : running) {
                count += results.get().stream().filter(Boolean::booleanValue).count();
            }
            return count;
        } finally {
            pool.shutdownNow();
        }
    }

    /** Kills the server with SIGKILL; returns once it serves again on the same port, with nothing in it. */
    static void restart() throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("SERVER_CONTROL") + "/restart"))
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
