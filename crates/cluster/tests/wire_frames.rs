//! Frames that arrive in any pieces, and streams that are not what they should be.

mod support;

use proptest::prelude::*;
use support::connected;
use tollgate_cluster::wire::{FRAME_BYTES_MAX, FrameError, FrameReader, FrameWriter, HEADER_BYTES, SEAL_BYTES};

type Owned = (u8, u64, Vec<u8>);

/// Every frame of a stream that arrives in these pieces, again and again.
fn read(reader: &mut FrameReader, mut stream: &[u8], pieces: &[usize]) -> Result<Vec<Owned>, FrameError> {
    let mut frames = Vec::new();
    let mut sizes = pieces.iter().cycle();
    while !stream.is_empty() {
        let size = sizes.next().map_or(1, |size| (*size).clamp(1, stream.len()));
        let (piece, rest) = stream.split_at(size);
        stream = rest;
        reader.input().extend_from_slice(piece);
        while let Some(frame) = reader.next_frame()? {
            frames.push((frame.kind, frame.id, frame.body.to_vec()));
        }
    }
    Ok(frames)
}

fn frames() -> impl Strategy<Value = Vec<Owned>> {
    let body = prop::collection::vec(any::<u8>(), 0..300);
    prop::collection::vec((any::<u8>(), any::<u64>(), body), 0..20)
}

proptest! {
    #[test]
    fn what_is_written_is_read_however_it_arrives(
        frames in frames(),
        pieces in prop::collection::vec(1usize..400, 1..10),
        sealed in any::<bool>(),
    ) {
        let (mut one, mut other) = connected(if sealed { "secret" } else { "" });
        let mut stream = Vec::new();
        for (kind, id, body) in &frames {
            let before = stream.len();
            one.writer.write_body(&mut stream, *kind, *id, body).unwrap();
            let seal = if sealed { SEAL_BYTES } else { 0 };
            prop_assert_eq!(stream.len() - before, HEADER_BYTES + body.len() + seal);
        }
        prop_assert_eq!(read(&mut other.reader, &stream, &pieces), Ok(frames));
        prop_assert!(other.reader.pending().is_empty());
    }

    #[test]
    fn any_bytes_read_the_same_in_any_pieces(
        stream in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
        pieces in prop::collection::vec(1usize..20, 1..5),
    ) {
        let whole = read(&mut FrameReader::new(100), &stream, &[usize::MAX]);
        prop_assert_eq!(read(&mut FrameReader::new(100), &stream, &pieces), whole);
    }

    #[test]
    fn a_sealed_stream_that_was_changed_gives_its_true_beginning_at_most(
        frames in frames(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let (mut one, mut other) = connected("secret");
        let mut stream = Vec::new();
        for (kind, id, body) in &frames {
            one.writer.write_body(&mut stream, *kind, *id, body).unwrap();
        }
        if stream.is_empty() {
            return Ok(());
        }
        let at = at.index(stream.len());
        stream[at] ^= 1 << bit;
        let mut got = Vec::new();
        other.reader.input().extend_from_slice(&stream);
        while let Ok(Some(frame)) = other.reader.next_frame() {
            got.push((frame.kind, frame.id, frame.body.to_vec()));
        }
        prop_assert!(got.len() < frames.len());
        prop_assert_eq!(&got[..], &frames[..got.len()]);
    }
}

/// Three sealed frames, each in a vector of its own, and who is to read them.
fn three_frames() -> (Vec<Vec<u8>>, FrameReader) {
    let (mut one, other) = connected("secret");
    let frames = (0..3u64).map(|id| {
        let mut out = Vec::new();
        one.writer.write_body(&mut out, 1, id, b"body").expect("short");
        out
    });
    (frames.collect(), other.reader)
}

#[test]
fn frames_that_come_again_are_left_out_or_out_of_order_do_not_open() {
    for order in [&[0, 0][..], &[1], &[0, 2], &[0, 1, 0], &[0, 1, 1]] {
        let (frames, mut reader) = three_frames();
        let (last, good) = order.split_last().unwrap();
        for frame in good {
            assert_eq!(read(&mut reader, &frames[*frame], &[5]).map(|got| got.len()), Ok(1));
        }
        assert_eq!(read(&mut reader, &frames[*last], &[5]), Err(FrameError::Seal));
        // And nothing that comes later is believed.
        assert_eq!(reader.next_frame(), Err(FrameError::Seal));
        assert_eq!(read(&mut reader, &frames[good.len()], &[5]), Err(FrameError::Seal));
    }
}

#[test]
fn what_one_side_sends_does_not_open_there() {
    let (mut one, _) = connected("secret");
    let mut out = Vec::new();
    one.writer.write_body(&mut out, 1, 1, b"body").unwrap();
    assert_eq!(read(&mut one.reader, &out, &[64]), Err(FrameError::Seal));
}

#[test]
fn a_plain_frame_does_not_open_where_frames_are_sealed() {
    let (_, mut other) = connected("secret");
    let mut out = Vec::new();
    FrameWriter::new(1_000).write_body(&mut out, 1, 1, &[0; 100]).unwrap();
    assert_eq!(read(&mut other.reader, &out, &[64]), Err(FrameError::Seal));
}

#[test]
fn a_frame_of_a_gigabyte_is_refused_by_its_length_and_takes_no_memory() {
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
    reader.input().extend_from_slice(&(1u32 << 30).to_le_bytes());
    assert_eq!(
        reader.next_frame(),
        Err(FrameError::TooLong {
            bytes: (1 << 30) + 4,
            max_bytes: FRAME_BYTES_MAX
        })
    );
    // One that is allowed takes memory as it arrives.
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
    reader
        .input()
        .extend_from_slice(&(FRAME_BYTES_MAX as u32 - 4).to_le_bytes());
    assert_eq!(reader.next_frame(), Ok(None));
    assert!(reader.input().capacity() < 100);
}

#[test]
fn bounds_of_frames_are_exact() {
    let max_bytes = 100;
    let mut out = Vec::new();
    let mut writer = FrameWriter::new(max_bytes);
    writer
        .write_body(&mut out, 1, 1, &vec![0; max_bytes - HEADER_BYTES])
        .unwrap();
    assert_eq!(out.len(), max_bytes);
    let error = writer.write_body(&mut out, 1, 1, &vec![0; max_bytes - HEADER_BYTES + 1]);
    assert_eq!(error, Err(FrameError::TooLong { bytes: 101, max_bytes }));
    assert_eq!(out.len(), max_bytes);
    assert_eq!(
        read(&mut FrameReader::new(max_bytes), &out, &[7]).map(|got| got.len()),
        Ok(1)
    );
    assert!(read(&mut FrameReader::new(max_bytes - 1), &out, &[7]).is_err());
    assert_eq!(
        read(&mut FrameReader::new(max_bytes), &[8, 0, 0, 0, 1], &[1]),
        Err(FrameError::TooShort(8))
    );
}

#[test]
fn memory_of_a_large_frame_is_given_back() {
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
    let mut out = Vec::new();
    let mut writer = FrameWriter::new(FRAME_BYTES_MAX);
    writer.write_body(&mut out, 1, 1, &vec![0; 8 << 20]).unwrap();
    assert_eq!(read(&mut reader, &out, &[1 << 16]).map(|got| got.len()), Ok(1));
    assert!(reader.input().capacity() < 1 << 20);
}
