//! The bounds and times of a machine.

/// Bounds and times of one machine. Those that are bounds of the node are divided among its workers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often changes are sent to followers, in microseconds.
    pub stream_interval_us: u64,
    /// The bytes of entries in one batch of a stream.
    pub batch_bytes: usize,
    /// The bytes of copies that may be unacknowledged.
    pub copy_in_flight_bytes_max: usize,
    /// The slots that are copied at once.
    pub copies_max: usize,
    /// The slots that are frozen for a move at once.
    pub moves_max: usize,
    /// How long a slot that was handed over stays, and one that was not taken is not offered again, in microseconds.
    pub stay_us: u64,
    /// How long commands of a slot that moves wait, in microseconds.
    pub freeze_us_max: u64,
    /// After how long an offer is repeated, in microseconds.
    pub offer_again_us: u64,
    /// A stream that has not been acknowledged for so long begins again, in microseconds.
    pub ack_us_max: u64,
    /// How long a silent node is taken for alive, in microseconds: a pause as long as this counts.
    pub death_us: u64,
    /// A slot whose holder nobody has known for so long is taken by its target, in microseconds.
    pub unknown_us: u64,
    /// How often sums of holdings are compared, in microseconds.
    pub digest_us: u64,
    /// How often links are tried, in microseconds.
    pub ping_us: u64,
    /// A replica of which nothing has been heard for so long, and which is not wanted here, goes, in microseconds.
    pub replica_idle_us: u64,
    /// Changes that a follower has not acknowledged for so long make the holder keep a journal, in microseconds.
    pub overdue_us: u64,
    /// How long a peer that has vanished from the view may come back as the holder of something, in microseconds.
    pub missing_us: u64,
    /// How long after its return the journals are kept, in microseconds.
    pub journal_linger_us: u64,
    /// How many buckets the journals have.
    pub journal_buckets_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stream_interval_us: 20_000,
            batch_bytes: 64 << 10,
            copy_in_flight_bytes_max: 4 << 20,
            copies_max: 128,
            moves_max: 64,
            stay_us: 500_000,
            freeze_us_max: 500_000,
            offer_again_us: 250_000,
            ack_us_max: 5_000_000,
            death_us: 1_000_000,
            unknown_us: 3_000_000,
            digest_us: 1_000_000,
            ping_us: 100_000,
            replica_idle_us: 10_000_000,
            overdue_us: 200_000,
            missing_us: 600_000_000,
            journal_linger_us: 5_000_000,
            journal_buckets_max: 1 << 17,
        }
    }
}
