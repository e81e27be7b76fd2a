//! What takes turns in a measurement: plans of warpipe and of cuBLASLt with their operands, and the results that they write.

use crate::Contender;
use crate::cublaslt::CublasLtPlan;
use crate::error::Error;
use crate::pool::{Operand, rotating_sets};
use crate::scales::{Launch, ProductScales};
use gpu_kernels::gemm::Linear;
use host::gemm::{BoundGemm, GemmPlan, GemmProblem};
use host::timing::brief;
use host::{Buffer, Device, Stream};

/// Kernels of cuBLASLt, besides its first one, that are timed in turn with warpipe: the fastest ones of a brief
/// timing of all.
const FINALISTS: usize = 3;
/// Results begin at multiples of this many bytes, the alignment of an allocation.
const ALIGN: usize = 256;

/// A contender that is a function.
pub(super) struct Call<'n, F> {
    name: &'n str,
    launch: F,
}

impl<'n, F: FnMut(usize, &Stream) -> Result<(), Error>> Call<'n, F> {
    /// The function that queues a launch with one of several sets of operands.
    pub fn new(name: &'n str, launch: F) -> Self {
        Self { name, launch }
    }
}

impl<F: FnMut(usize, &Stream) -> Result<(), Error>> Contender for Call<'_, F> {
    fn name(&self) -> &str {
        self.name
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        (self.launch)(set, stream)
    }
}

/// The first rival and, of the others, the fastest in a brief timing. All multiply their product by `alpha`.
///
/// A kernel that the heuristic proposes and that does not run is left out, unless it is the first one.
pub(super) fn finalists<'a>(
    rivals: &'a [CublasLtPlan],
    sets: &'a [[Operand<'_>; 2]],
    d: &[Buffer],
    alpha: f32,
    stream: &Stream,
) -> Result<Vec<TheirRuns<'a>>, Error> {
    let mut all: Vec<TheirRuns<'a>> = Vec::with_capacity(rivals.len());
    let mut times: Vec<(f64, TheirRuns<'a>)> = Vec::new();
    for (candidate, plan) in rivals.iter().enumerate() {
        let operands = sets.iter().map(|[a, b]| [&a.buffer, &b.buffer]).collect();
        let d = d.iter().map(|d| d.part(0, d.len())).collect::<Result<_, _>>()?;
        let mut runs = TheirRuns { plan, operands, d, candidate, alpha };
        if candidate == 0 {
            all.push(runs);
            continue;
        }
        let launch = |set: usize, stream: &Stream| runs.launch(set, stream);
        match brief(launch, sets.len(), f64::INFINITY, stream) {
            Ok(us) => times.push((us, runs)),
            Err(Error::CublasLt { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.extend(times.into_iter().take(FINALISTS).map(|(_, runs)| runs));
    Ok(all)
}

/// A contender as `interleave` takes it.
pub(super) fn dynamic<C: Contender>(contender: &mut C) -> &mut dyn Contender {
    contender
}

/// Copies a result to the host.
pub(super) fn download(d: &Buffer, host: &mut Vec<u8>) -> Result<(), host::Error> {
    host.resize(d.len(), 0);
    d.read(host)
}

/// Results of each contender for each set, in one allocation.
///
/// Each contender has results of its own for set 0, which are compared. Nobody reads those of other sets, so all contenders
/// write them to the same buffers: as many as fill the L2 cache twice, and no more than there are sets.
pub(super) struct Results {
    whole: Buffer,
    /// The results of each contender.
    pub parts: Vec<Vec<Buffer>>,
}

impl Results {
    pub fn new(
        device: &Device,
        problem: &GemmProblem,
        contenders: usize,
        sets: usize,
    ) -> Result<Self, host::Error> {
        let bytes = problem.bytes('D') as usize;
        let step = bytes.next_multiple_of(ALIGN);
        let l2_bytes = device.info().map_or(0, |info| info.l2_bytes);
        let shared = rotating_sets(bytes, l2_bytes, u64::MAX).min(sets - 1);
        let whole = device.alloc(step * (contenders + shared))?;
        let part = |i: usize| whole.part(i * step, bytes);
        let places = (0..contenders).map(|c| places(c, contenders, sets, shared));
        let parts = places.map(|of| of.map(part).collect()).collect::<Result<_, _>>()?;
        let mut results = Self { whole, parts };
        results.poison()?;
        Ok(results)
    }

    /// Fills the results with NaN, so that the check finds elements that are not written.
    pub fn poison(&mut self) -> Result<(), host::Error> {
        self.whole.fill(0xff)
    }
}

/// Which of `contenders` + `shared` buffers a contender's results of each set take.
fn places(
    contender: usize,
    contenders: usize,
    sets: usize,
    shared: usize,
) -> impl Iterator<Item = usize> {
    (0..sets).map(move |set| match set {
        0 => contender,
        _ => contenders + (set - 1) % shared,
    })
}

/// A warpipe plan, bound to each operand set.
pub(super) struct OursRuns<'a, E = Linear> {
    plan: &'a GemmPlan<E>,
    bound: Vec<BoundGemm<'a, E>>,
    scales: Option<&'a ProductScales>,
}

impl<'a, E: Launch> OursRuns<'a, E> {
    /// Binds a plan to each operand set, with results in `d`. Other contenders may have the same results.
    pub fn new(
        plan: &'a GemmPlan<E>,
        sets: &'a [[Operand<'_>; 2]],
        scales: Option<&'a ProductScales>,
        d: &[Buffer],
    ) -> Result<Self, Error> {
        let bound = sets
            .iter()
            .zip(d)
            .map(|([a, b], d)| plan.bind(&a.buffer, &b.buffer, None, &mut d.part(0, d.len())?));
        Ok(Self { plan, bound: bound.collect::<Result<_, _>>()?, scales })
    }
}

impl<E: Launch> Contender for OursRuns<'_, E> {
    fn name(&self) -> &str {
        self.plan.describe().kernel.as_ref().map_or("warpipe", |kernel| &kernel.name)
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        Ok(E::launch(&self.bound[set], self.scales, stream)?)
    }
}

/// A cuBLASLt plan with each operand set.
pub(super) struct TheirRuns<'a> {
    plan: &'a CublasLtPlan,
    operands: Vec<[&'a Buffer; 2]>,
    d: Vec<Buffer>,
    /// Place among the heuristic's proposals.
    pub candidate: usize,
    alpha: f32,
}

impl Contender for TheirRuns<'_> {
    fn name(&self) -> &'static str {
        "cuBLASLt"
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        let [a, b] = self.operands[set];
        self.plan.run((a, b, None), &mut self.d[set], (self.alpha, 0.0), stream)
    }
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn only_what_is_compared_has_a_buffer_of_its_own() {
        let of = |contender, sets, shared| places(contender, 3, sets, shared).collect::<Vec<_>>();
        assert_eq!(of(0, 5, 4), [0, 3, 4, 5, 6]);
        assert_eq!(of(2, 5, 4), [2, 3, 4, 5, 6]);
        assert_eq!(of(1, 5, 2), [1, 3, 4, 3, 4]);
        assert_eq!(of(1, 1, 0), [1]);
    }
}
