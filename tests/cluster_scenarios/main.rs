//! What a cluster of real processes admits while nodes join, leave, die, stop, and lose each other.
//!
//! Each scenario runs nodes with one worker on loopback addresses, a load through all of them, and redis-py beside it; something happens to
//! the nodes meanwhile. An oracle knows what each key's policy admits, and so what was admitted too much (`oracle`). Each writes a row:
//! `make scenarios` prints the table.
//!
//! Bounds on time only catch hangs. Whether a node was given a processor is measured (`delays`), since one that was not looks to others like
//! one that does not answer.

mod cluster;
mod cut;
mod delays;
mod hostile;
mod killed;
mod link;
mod lives;
mod load;
mod network;
mod oracle;
mod outcome;
mod paused;
mod planned;
mod second_client;
mod table;
