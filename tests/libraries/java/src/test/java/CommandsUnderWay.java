import io.lettuce.core.event.command.CommandFailedEvent;
import io.lettuce.core.event.command.CommandListener;
import io.lettuce.core.event.command.CommandStartedEvent;
import io.lettuce.core.event.command.CommandSucceededEvent;
import io.lettuce.core.protocol.RedisCommand;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/** How long the server takes for the commands of a Lettuce client, as Lettuce sees it below its reactive interface. */
final class CommandsUnderWay implements CommandListener {
    /** Those without an answer, and when they were sent, in nanoseconds. */
    private final Map<RedisCommand<?, ?, ?>, Long> sentAt = new ConcurrentHashMap<>();
    private final AtomicLong longestNs = new AtomicLong();

    @Override
    public void commandStarted(CommandStartedEvent event) {
        sentAt.put(event.getCommand(), System.nanoTime());
    }

    @Override
    public void commandSucceeded(CommandSucceededEvent event) {
        ended(event.getCommand());
    }

    @Override
    public void commandFailed(CommandFailedEvent event) {
        ended(event.getCommand());
    }

    private void ended(RedisCommand<?, ?, ?> command) {
        Long sent = sentAt.remove(command);
        if (sent != null) {
            longestNs.accumulateAndGet(System.nanoTime() - sent, Math::max);
        }
    }

    /** Whether every command had its answer within that time, or has been under way for less. */
    boolean wereAnsweredWithin(Duration time) {
        long now = System.nanoTime();
        return longestNs.get() <= time.toNanos()
                && sentAt.values().stream().allMatch(sent -> now - sent <= time.toNanos());
    }

    @Override
    public String toString() {
        long now = System.nanoTime();
        String waiting = sentAt.entrySet().stream()
                .map(entry -> entry.getKey().getType() + " for " + (now - entry.getValue()) / 1_000_000 + " ms")
                .collect(Collectors.joining(", ", "[", "]"));
        return "under way: " + waiting + ", longest answered: " + longestNs.get() / 1_000_000 + " ms";
    }
}
