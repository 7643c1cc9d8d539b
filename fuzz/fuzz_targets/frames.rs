//! However a stream is cut, the same lines come out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade::internals::wire::frame::{FrameBuffer, FrameError};

const MAX_FRAME_BYTES: usize = 1 << 16;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, stream) = input;
    assert_eq!(lines(stream, usize::from(cut) + 1), lines(stream, stream.len().max(1)));
});

fn lines(stream: &[u8], cut: usize) -> Vec<Result<Vec<u8>, FrameError>> {
    let mut buffer = FrameBuffer::new(MAX_FRAME_BYTES);
    let mut lines = Vec::new();
    for mut part in stream.chunks(cut) {
        while !part.is_empty() {
            let spare = buffer.spare_mut();
            let len = part.len().min(spare.len());
            spare[..len].copy_from_slice(&part[..len]);
            buffer.filled(len);
            part = &part[len..];
            while let Some(line) = buffer.next() {
                lines.push(line.map(<[u8]>::to_vec));
            }
        }
    }
    lines
}
