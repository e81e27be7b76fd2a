//! Brief timings: which of many contenders are worth timing in turn.

use crate::error::Error;
use crate::{Contender, quantile};
use host::{Buffer, Copy2d, Device, Stream};

/// The time of a brief sample in microseconds.
const SAMPLE_US: f64 = 300.0;
/// Most launches of a brief sample.
const MOST_LAUNCHES: usize = 256;
/// A single launch longer than this is not dominated by the host's delay.
const LONG_US: f64 = 200.0;
/// Bytes of the copy before an isolated launch. It takes some 30 µs on an H200: longer than the host needs
/// to queue the launch behind it, so that the host's delay is not in the time. It also evicts the operands from
/// the L2 cache.
const GAP_BYTES: usize = 64 << 20;
/// Isolated launches of each contender, and untimed ones before them.
const ISOLATED: (usize, usize) = (21, 2);

/// Time of a launch in microseconds: the better of two short samples, from a CUDA graph if it is short.
///
/// A long launch that takes more than `hopeless_us` is not repeated.
///
/// # Errors
/// Errors of the launches.
pub fn brief(
    contender: &mut dyn Contender,
    sets: usize,
    hopeless_us: f64,
    stream: &Stream,
) -> Result<f64, Error> {
    let once = |contender: &mut dyn Contender, set| {
        let start = stream.record()?;
        contender.launch(set % sets, stream)?;
        Ok::<_, Error>(stream.record()?.elapsed_ms(&start)? * 1e3)
    };
    // The first launch loads the kernel.
    once(contender, 0)?;
    let single = once(contender, 1)?;
    if single > LONG_US && single > hopeless_us {
        return Ok(single);
    }
    let launches = ((SAMPLE_US / single.max(1.0)).ceil() as usize).clamp(1, MOST_LAUNCHES);
    if launches == 1 {
        return Ok(once(contender, 2)?.min(single));
    }
    // As in a longer measurement, every set takes part, so that none stays in the L2 cache.
    let launches = launches.max(sets);
    let graph =
        stream.capture(|| (0..launches).try_for_each(|i| contender.launch(i % sets, stream)))?;
    // The first launch hides the host's delay from the other two.
    graph.launch()?;
    let mut marks = vec![stream.record()?];
    for _ in 0..2 {
        graph.launch()?;
        marks.push(stream.record()?);
    }
    let mut best = f64::INFINITY;
    for pair in marks.windows(2) {
        best = best.min(pair[1].elapsed_ms(&pair[0])? * 1e3 / launches as f64);
    }
    Ok(best)
}

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
    Ok(samples
        .into_iter()
        .map(|mut of| {
            of.sort_by(f64::total_cmp);
            quantile(&of, 0.5)
        })
        .collect())
}
