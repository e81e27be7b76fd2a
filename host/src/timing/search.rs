//! A search for the fastest of many contenders, bounded in time.
//!
//! Every contender is timed briefly, and those that come near the fastest are timed again, in turn. That finds what timing
//! all of them in turn would find, in a fraction of the time. The first contender is always timed, and always in turn with
//! the finalists if there are any, so that the result is never slower than it in the same measurement.

use super::launches;
use std::time::Duration;

/// The part of the time limit in which contenders are timed briefly. The rest is for the finalists.
const BRIEF_SHARE: f64 = 0.75;
/// Most samples of a finalist. More add no information.
const MOST_ROUNDS: usize = 30;

/// Settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// Time for the whole search. Once three quarters have passed, no further contender is timed briefly; the rest is for
    /// the finalists. A contender that was begun is timed to its end.
    pub limit: Duration,
    /// Contenders that take at most this many times as long as the fastest are timed again, in turn.
    pub near: f64,
    /// Most contenders that are timed again. At least two are, if there is time.
    pub finalists: usize,
    /// Least samples of each of them: so many finalists take part as have time for these. There are up to 30 samples if
    /// there is time.
    pub rounds: usize,
    /// Shortest of these samples in microseconds.
    pub sample_us: f64,
}

impl Default for SearchConfig {
    /// Two seconds.
    fn default() -> Self {
        Self {
            limit: Duration::from_secs(2),
            near: 1.3,
            finalists: 24,
            rounds: 5,
            sample_us: 200.0,
        }
    }
}

/// How contenders are timed in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Launches of each sample.
    pub launches: usize,
    /// Untimed rounds before the samples.
    pub warmup: usize,
    /// Samples of each contender.
    pub rounds: usize,
}

/// Times the contenders of a [`search`], which are known by their numbers.
pub trait Timer<E> {
    /// Time since the start of the search.
    fn elapsed(&self) -> Duration;

    /// Time of a launch of a contender in microseconds, measured briefly; infinite for one that can't run, which is left out.
    /// One that takes longer than `hopeless_us` need not be timed twice.
    ///
    /// # Errors
    /// An error ends the search.
    fn brief(&mut self, contender: usize, hopeless_us: f64) -> Result<f64, E>;

    /// Times of a launch of each of these contenders in microseconds, measured in turn.
    ///
    /// # Errors
    /// An error ends the search.
    fn in_turn(&mut self, contenders: &[usize], samples: Samples) -> Result<Vec<f64>, E>;
}

/// The time of one contender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The contender's number.
    pub contender: usize,
    /// Time of a launch in microseconds.
    pub us: f64,
    /// Whether it was timed in turn with the others that come near the fastest.
    pub in_turn: bool,
}

/// Finds the fastest of `count` contenders whose operands rotate over `sets` sets.
///
/// Returns those that were timed, fastest first: first the ones that were timed in turn, among them contender 0, then the
/// others. The contenders should come in the order of their predicted times, because a later one may find no time.
///
/// # Errors
/// Those of `timer`.
pub fn search<E>(
    count: usize,
    sets: usize,
    config: &SearchConfig,
    timer: &mut impl Timer<E>,
) -> Result<Vec<Found>, E> {
    let until = config.limit.mul_f64(BRIEF_SHARE);
    let mut times: Vec<(f64, usize)> = Vec::with_capacity(count);
    let mut best = f64::INFINITY;
    for contender in 0..count {
        if contender > 0 && timer.elapsed() >= until {
            break;
        }
        let us = timer.brief(contender, config.near * best)?;
        // One that can't run has no time.
        if us.is_finite() {
            best = best.min(us);
            times.push((us, contender));
        }
    }
    // The first contender stays first, and so among the finalists.
    if let Some(others) = times.get_mut(1..) {
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let left = config.limit.saturating_sub(timer.elapsed());
    let (finalists, samples) = finals(&times, best, sets, config, left);
    let others = times.split_off(finalists);
    let numbers: Vec<usize> = times.iter().map(|(_, contender)| *contender).collect();
    let timed = if numbers.is_empty() { Vec::new() } else { timer.in_turn(&numbers, samples)? };
    let order = |found: &mut Vec<Found>| found.sort_by(|a, b| a.us.total_cmp(&b.us));
    let in_turn = numbers.into_iter().zip(timed);
    let mut found: Vec<Found> =
        in_turn.map(|(contender, us)| Found { contender, us, in_turn: true }).collect();
    order(&mut found);
    let brief = others.into_iter().map(|(us, contender)| Found { contender, us, in_turn: false });
    let mut brief: Vec<Found> = brief.collect();
    order(&mut brief);
    found.extend(brief);
    Ok(found)
}

/// How many of `times` are timed again, and how, in the time that is left. None if there is no time for two.
fn finals(
    times: &[(f64, usize)],
    best: f64,
    sets: usize,
    config: &SearchConfig,
    left: Duration,
) -> (usize, Samples) {
    let launches = launches(best, sets, config.sample_us);
    let samples = |rounds| Samples { launches, warmup: 1, rounds };
    if times.len() < 2 {
        return (0, samples(0));
    }
    let near = times[1..].iter().take_while(|(us, _)| *us <= config.near * best).count();
    let mut finalists = (1 + near).min(config.finalists).max(2);
    // Rounds that fit, besides the one that warms up.
    let rounds = |finalists: usize| {
        let round_us = times[..finalists].iter().map(|(us, _)| us).sum::<f64>() * launches as f64;
        ((left.as_secs_f64() * 1e6 / round_us.max(1.0)) as usize).saturating_sub(1)
    };
    while finalists > 2 && rounds(finalists) < config.rounds {
        finalists -= 1;
    }
    match rounds(finalists).min(MOST_ROUNDS) {
        0 => (0, samples(0)),
        fit => (finalists, samples(fit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Contenders with known times on a clock of their own. Brief times are wrong by up to a tenth.
    struct Fake {
        us: Vec<f64>,
        clock_us: f64,
        /// What each contender costs besides its launches: its kernel is loaded.
        load_us: f64,
        last: Option<(Vec<usize>, Samples)>,
    }

    impl Fake {
        fn new(us: Vec<f64>, load_us: f64) -> Self {
            Self { us, clock_us: 0.0, load_us, last: None }
        }

        fn run(&mut self, config: &SearchConfig) -> Vec<Found> {
            search(self.us.len(), 4, config, self).unwrap()
        }
    }

    impl Timer<Infallible> for Fake {
        fn elapsed(&self) -> Duration {
            Duration::from_secs_f64(self.clock_us * 1e-6)
        }

        fn brief(&mut self, contender: usize, hopeless_us: f64) -> Result<f64, Infallible> {
            let us = self.us[contender];
            let launches = if us > 200.0 && us > hopeless_us { 2.0 } else { 3.0 };
            self.clock_us += self.load_us + f64::max(launches * us, 900.0);
            Ok(us * [1.0, 1.1, 0.9][contender % 3])
        }

        fn in_turn(&mut self, of: &[usize], samples: Samples) -> Result<Vec<f64>, Infallible> {
            let us: Vec<f64> = of.iter().map(|&i| self.us[i]).collect();
            let launches = samples.launches * (samples.rounds + samples.warmup);
            self.clock_us += us.iter().sum::<f64>() * launches as f64;
            self.last = Some((of.to_vec(), samples));
            Ok(us)
        }
    }

    fn two_seconds() -> SearchConfig {
        SearchConfig::default()
    }

    #[test]
    fn the_fastest_is_found_though_the_brief_times_are_rough() {
        // The ninth is the fastest; briefly, the sixth seems to be.
        let mut fake = Fake::new(vec![12.0, 11.0, 30.0, 40.0, 11.5, 10.3, 13.0, 12.5, 10.0], 0.0);
        let found = fake.run(&two_seconds());
        assert_eq!(found[0], Found { contender: 8, us: 10.0, in_turn: true });
        assert_eq!(found.len(), 9);
        let (of, samples) = fake.last.unwrap();
        assert!(of[0] == 0 && !of.contains(&3), "{of:?}");
        // Briefly the fastest takes 9 us: 23 launches make a sample, and 30 rounds take 60 ms.
        assert_eq!(samples, Samples { launches: 23, warmup: 1, rounds: 30 });
        assert!(found.iter().any(|f| f.contender == 3 && !f.in_turn));
    }

    #[test]
    fn the_first_is_in_every_final_and_the_result_is_never_slower() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        for case in 0..500 {
            let scale = 10f64.powf(6.0 * random());
            let count = 1 + (random() * 120.0) as usize;
            let us = (0..count).map(|_| scale * (1.0 + 3.0 * random())).collect();
            let mut fake = Fake::new(us, 1e5 * random() * f64::from(case % 2));
            let found = fake.run(&two_seconds());
            let first = found.iter().find(|f| f.contender == 0).expect("it was timed");
            assert!(found[0].us <= first.us, "{found:?}");
            assert_eq!(first.in_turn, found.iter().any(|f| f.in_turn));
            // Each was timed at most once.
            let mut numbers: Vec<usize> = found.iter().map(|f| f.contender).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), found.len());
        }
    }

    #[test]
    fn the_limit_holds_but_for_what_was_begun() {
        for (us, load_us) in [(5.0, 0.0), (5.0, 3e5), (900.0, 0.0), (4e4, 0.0), (3e5, 0.0)] {
            let mut fake =
                Fake::new((0..500).map(|i| us * (1.0 + f64::from(i) / 500.0)).collect(), load_us);
            let found = fake.run(&two_seconds());
            assert!(!found.is_empty());
            // One contender is begun before the limit of the first part. The finals are estimated from the brief times,
            // which are a tenth too short for some.
            let most = 2e6 * 1.1 + load_us + 3.0 * us;
            assert!(fake.clock_us <= most, "{us} us: {} s", fake.clock_us * 1e-6);
        }
    }

    #[test]
    fn where_a_single_launch_takes_the_time_only_the_first_is_timed() {
        let mut fake = Fake::new(vec![2e6, 1e6], 0.0);
        let found = fake.run(&two_seconds());
        assert_eq!(found, [Found { contender: 0, us: 2e6, in_turn: false }]);
        assert!(fake.last.is_none());
        // With no limit at all to speak of, too.
        let none = SearchConfig { limit: Duration::ZERO, ..two_seconds() };
        assert_eq!(Fake::new(vec![5.0, 4.0], 0.0).run(&none).len(), 1);
        assert!(Fake::new(Vec::new(), 0.0).run(&two_seconds()).is_empty());
    }

    #[test]
    fn long_products_have_fewer_finalists_but_never_less_than_two() {
        let times: Vec<(f64, usize)> = (0..40).map(|i| (1.0, i)).collect();
        let finalists = |us: f64| {
            let times: Vec<_> = times.iter().map(|(t, i)| (t * us, *i)).collect();
            finals(&times, us, 4, &two_seconds(), Duration::from_millis(500)).0
        };
        assert_eq!([5.0, 1000.0, 1e4, 1e5].map(finalists), [24, 24, 8, 2]);
        // No time for one round of two after the one that warms up.
        assert_eq!(finalists(2e5), 0);
        let one = SearchConfig { finalists: 1, ..two_seconds() };
        assert_eq!(finals(&times, 1.0, 4, &one, Duration::from_secs(1)).0, 2);
    }
}
