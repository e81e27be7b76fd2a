//! Isolated launches, which overlap with no other launch.

use crate::Contender;
use crate::error::Error;
use host::timing::median;
use host::{Buffer, Copy2d, Device, Stream};

/// Bytes of the copy before an isolated launch. It takes some 30 µs on an H200: longer than the host needs
/// to queue the launch behind it, so that the host's delay is not in the time. It also evicts the operands from
/// the L2 cache.
const GAP_BYTES: usize = 64 << 20;
/// Isolated launches of each contender, and untimed ones before them.
const ISOLATED: (usize, usize) = (21, 2);

/// Median time of single launches of each contender in microseconds, in turn, each after a gap.
///
/// A copy precedes each launch, so no launch overlaps with another one: a kernel with programmatic dependent
/// launch waits for the copy as any other kernel does. The time is that between two events, which is about a
/// microsecond more than the kernel's.
///
/// # Errors
/// [`host::Error::OutOfMemory`]; errors of the launches.
pub fn isolated(
    device: &Device,
    contenders: &mut [&mut dyn Contender],
    sets: usize,
    stream: &Stream,
) -> Result<Vec<f64>, Error> {
    let from = device.alloc_zeroed(GAP_BYTES)?;
    let mut to: Buffer = device.alloc(GAP_BYTES)?;
    let width = GAP_BYTES as u64;
    let gap = Copy2d { width, rows: 1, src_pitch: width, dst_pitch: width };
    let (rounds, untimed) = ISOLATED;
    let mut marks = Vec::new();
    for round in 0..untimed + rounds {
        for contender in contenders.iter_mut() {
            device.copy_2d(&from, &mut to, gap, stream)?;
            let start = stream.record()?;
            contender.launch(round % sets, stream)?;
            marks.push((start, stream.record()?));
        }
    }
    let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
    for (i, (start, end)) in marks.iter().enumerate().skip(untimed * contenders.len()) {
        samples[i % contenders.len()].push(end.elapsed_ms(start)? * 1e3);
    }
    Ok(samples.into_iter().map(median).collect())
}
