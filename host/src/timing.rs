//! Times of launches on a GPU, between events on a stream, and a [`search`] for the fastest of many contenders.
//!
//! A contender is a closure that queues one launch with one of several sets of operands. Short launches are timed from a
//! CUDA graph, so that the host does not limit them. A launch uses each set in turn, so that none stays in the L2 cache if
//! the sets together are larger than it.

mod search;

pub use search::{Found, Samples, SearchConfig, Timer, search};

use crate::error::Error;
use crate::stream::Stream;

/// The time of a brief sample in microseconds.
const SAMPLE_US: f64 = 300.0;
/// Most launches of a sample.
const MOST_LAUNCHES: usize = 1000;
/// Most launches of a brief sample.
const BRIEF_LAUNCHES: usize = 256;
/// A single launch longer than this is not dominated by the host's delay.
const LONG_US: f64 = 200.0;

/// Launches of a sample of at least `sample_us` microseconds, of a contender that takes `us`. Several launches use every
/// set at least once.
pub fn launches(us: f64, sets: usize, sample_us: f64) -> usize {
    let launches = ((sample_us / us.max(1.0)).ceil() as usize).clamp(1, MOST_LAUNCHES);
    if launches > 1 { launches.max(sets) } else { 1 }
}

/// Time of a launch in microseconds: the better of two short samples, from a CUDA graph if it is short.
///
/// `launch` queues one launch with a set of operands, below `sets`. This waits for two to several launches. A launch that
/// takes more than 200 us and more than `hopeless_us` is not repeated.
///
/// # Errors
/// [`Error::NotOnModel`] on the SM model; errors of the launches.
pub fn brief<E: From<Error>>(
    mut launch: impl FnMut(usize, &Stream) -> Result<(), E>,
    sets: usize,
    hopeless_us: f64,
    stream: &Stream,
) -> Result<f64, E> {
    if stream.context().is_none() {
        return Err(Error::NotOnModel { what: "a benchmark" }.into());
    }
    let sets = sets.max(1);
    let mut once = |set: usize| {
        let start = stream.record()?;
        launch(set % sets, stream)?;
        Ok::<_, E>(stream.record()?.elapsed_ms(&start)? * 1e3)
    };
    // The first launch loads the kernel.
    once(0)?;
    let single = once(1)?;
    if single > LONG_US && single > hopeless_us {
        return Ok(single);
    }
    let launches = ((SAMPLE_US / single.max(1.0)).ceil() as usize).clamp(1, BRIEF_LAUNCHES);
    if launches == 1 {
        return Ok(once(2)?.min(single));
    }
    // As in a longer measurement, every set takes part, so that none stays in the L2 cache.
    let launches = launches.max(sets);
    let graph = stream.capture(|| (0..launches).try_for_each(|i| launch(i % sets, stream)))?;
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

/// Times contenders in turn (A B A B ...). Returns the samples of each, in microseconds per launch.
///
/// All work is queued before the first wait, so that the GPU goes from one sample to the next without a gap. Each event ends
/// one sample and begins the next. This waits until all launches are complete.
///
/// # Errors
/// [`Error::NotOnModel`] on the SM model; errors of the launches.
pub fn in_turn<E: From<Error>>(
    contenders: &mut [impl FnMut(usize, &Stream) -> Result<(), E>],
    sets: usize,
    samples: Samples,
    stream: &Stream,
) -> Result<Vec<Vec<f64>>, E> {
    if stream.context().is_none() {
        return Err(Error::NotOnModel { what: "a benchmark" }.into());
    }
    let (sets, Samples { launches, warmup, rounds }) = (sets.max(1), samples);
    let mut graphs = Vec::with_capacity(contenders.len());
    for contender in contenders.iter_mut() {
        let turn = || (0..launches).try_for_each(|i| contender(i % sets, stream));
        graphs.push(if launches > 1 { Some(stream.capture(turn)?) } else { None });
    }
    let mut times = vec![Vec::with_capacity(rounds); contenders.len()];
    let mut marks = Vec::with_capacity(rounds * contenders.len() + 1);
    for round in 0..warmup + rounds {
        if round == warmup {
            marks.push(stream.record()?);
        }
        for (contender, graph) in contenders.iter_mut().zip(&graphs) {
            match graph {
                Some(graph) => graph.launch()?,
                None => contender(round % sets, stream)?,
            }
            if round >= warmup {
                marks.push(stream.record()?);
            }
        }
    }
    for (i, pair) in marks.windows(2).enumerate() {
        times[i % contenders.len()].push(pair[1].elapsed_ms(&pair[0])? * 1e3 / launches as f64);
    }
    Ok(times)
}

/// The median of samples; NaN if there are none.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    quantile(&samples, 0.5)
}

/// A quantile of sorted values, with linear interpolation; NaN if there are none. `q` is 0 to 1.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn a_sample_is_long_enough_and_uses_every_set() {
        // 50 launches of 4 us make 200 us; one of 300 us is a sample by itself.
        assert_eq!([launches(4.0, 10, 200.0), launches(300.0, 10, 200.0)], [50, 1]);
        assert_eq!([launches(4.0, 120, 200.0), launches(0.0, 1, 1e9)], [120, 1000]);
    }

    #[test]
    fn quantiles_interpolate() {
        let values = [1.0, 2.0, 4.0, 8.0];
        for (q, want) in [(0.0, 1.0), (0.5, 3.0), (1.0, 8.0), (0.1, 1.3)] {
            assert!((quantile(&values, q) - want).abs() < 1e-12, "{q}");
        }
        assert!(quantile(&[], 0.5).is_nan());
        // Sorted first.
        assert!((median(vec![9.0, 1.0, 2.0, 4.0]) - 3.0).abs() < 1e-12);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_model_has_no_times() {
        let stream = Device::sim(sim::Config::default()).stream();
        let launch = |_: usize, _: &Stream| Ok::<(), Error>(());
        let samples = Samples { launches: 1, warmup: 0, rounds: 1 };
        let refused = "a benchmark needs a GPU; this is the SM model";
        assert_eq!(brief(launch, 1, 0.0, &stream).unwrap_err().to_string(), refused);
        let in_turn = in_turn(&mut [launch], 1, samples, &stream);
        assert_eq!(in_turn.unwrap_err().to_string(), refused);
    }
}
