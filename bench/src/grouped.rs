//! Times products with groups of rows, in turn with a plain product for each group.
//!
//! cuBLASLt has no product of groups. Without one, a program launches a product for each group that has rows. The plain products
//! of all groups are launched one after the other, from the same CUDA graph if there is one.

mod shapes;

pub use shapes::{GroupedShape, SHAPES};

use crate::check::{ResultCheck, check, fingerprint};
use crate::error::Error;
use crate::pool::{Operand, Pool};
use crate::runs::{Call, download};
use crate::{BenchConfig, Contender, Timing, interleave};
use host::gemm::{BoundGemm, BoundGrouped, Gemm, GemmPlan, GroupedGemm, GroupedInfo};
use host::{Buffer, Device, Stream};
use serde::Serialize;
use shapes::DTYPE;
use std::collections::BTreeMap;

/// The measurement of one product.
#[derive(Clone, Debug, Serialize)]
pub struct GroupedLine {
    /// The product.
    #[serde(flatten)]
    pub shape: GroupedShape,
    /// Rows of the smallest and of the largest group.
    pub rows: [u64; 2],
    /// Groups without rows.
    pub empty: usize,
    /// The plan.
    pub plan: GroupedInfo,
    /// The times.
    pub timing: Timing,
    /// Comparison of the first result with the f64 product: the group with the largest error.
    pub check: ResultCheck,
    /// Whether the last timed launch gave the same bits as the first launch.
    pub same_bits: bool,
    /// Times of the plain products of all groups that have rows, one after the other.
    pub plain: Timing,
}

impl GroupedLine {
    /// Speed as a multiple of that of the plain products.
    pub fn ratio(&self) -> f64 {
        self.plain.median_us / self.timing.median_us
    }
}

/// A GPU with operands for products with groups.
pub struct GroupedBench {
    device: Device,
    pool: Pool,
    l2_bytes: u64,
}

/// The operands of one launch: A and B, and the parts of them that the groups with rows have.
struct Set<'p> {
    a: Buffer,
    b: Buffer,
    groups: Vec<[Operand<'p>; 2]>,
}

impl GroupedBench {
    /// Makes operands for any of `shapes`.
    ///
    /// # Errors
    /// [`host::Error::NotOnModel`] on the SM model; [`Error::Setting`] for an empty product;
    /// [`host::gemm::GroupedError`] for one that the kernels do not compute; [`host::Error::OutOfMemory`].
    pub fn new(device: &Device, seed: u64, shapes: &[GroupedShape]) -> Result<Self, Error> {
        let info = device.info().ok_or(host::Error::NotOnModel { what: "a benchmark" })?;
        let l2_bytes = info.l2_bytes;
        shapes.iter().try_for_each(GroupedShape::check)?;
        let of =
            |shape: &GroupedShape| shape.sets(l2_bytes) * shape.elements().iter().sum::<usize>();
        let elements = shapes.iter().map(of).max().unwrap_or(0);
        Ok(Self {
            device: device.clone(),
            pool: Pool::new(device, DTYPE, seed, elements)?,
            l2_bytes,
        })
    }

    /// Checks a product and times it, in turn with plain products of `plain`.
    ///
    /// # Errors
    /// [`Error::Setting`] for an empty product; [`host::Error::OutOfBuffer`] for a shape that is larger than those given to [`GroupedBench::new`]; errors of the plans
    /// and of the launches.
    pub fn measure(
        &self,
        grouped: &GroupedGemm,
        plain: &Gemm,
        shape: &GroupedShape,
        config: &BenchConfig,
    ) -> Result<GroupedLine, Error> {
        shape.check()?;
        let (problem, sizes) = (shape.problem(), shape.sizes());
        let sets = (0..shape.sets(self.l2_bytes)).map(|set| self.set(shape, &sizes, set));
        let sets: Vec<Set<'_>> = sets.collect::<Result<_, _>>()?;
        let ends = sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end as i32)
        });
        let ends: Vec<u8> = ends.flat_map(i32::to_ne_bytes).collect();
        let ends = self.device.upload(&ends)?;
        let result = |_| self.device.alloc(problem.bytes('D') as usize);
        let d: Vec<Buffer> = (0..sets.len()).map(result).collect::<Result<_, _>>()?;
        // The plain products have results of their own, which nobody reads.
        let their_d: Vec<Buffer> = (0..sets.len()).map(result).collect::<Result<_, _>>()?;

        let plan = grouped.plan(&problem)?;
        let bind = |(set, d): (&Set<'_>, &Buffer)| {
            plan.bind(&set.a, &set.b, &ends, &mut d.part(0, d.len())?)
        };
        let ours: Vec<BoundGrouped<'_>> =
            sets.iter().zip(&d).map(bind).collect::<Result<_, host::Error>>()?;
        let mut plans: BTreeMap<u64, GemmPlan> = BTreeMap::new();
        for size in sizes.iter().filter(|size| **size > 0) {
            if !plans.contains_key(size) {
                plans.insert(*size, plain.plan(&shape.plain(*size))?);
            }
        }
        let theirs: Vec<Vec<BoundGemm<'_>>> = sets
            .iter()
            .zip(&their_d)
            .map(|(set, d)| each_group(shape, &plans, &sizes, set, d))
            .collect::<Result<_, _>>()?;

        let mut host = vec![0xff; d[0].len()];
        d[0].part(0, d[0].len())?.fill(0xff)?;
        ours[0].run(1.0, &self.device.stream())?;
        download(&d[0], &mut host)?;
        let (check, bits) = (worst(shape, &sizes, &sets[0], &host)?, fingerprint(&host));
        d[0].part(0, d[0].len())?.fill(0xff)?;
        let mut ours =
            Call::new("warpipe", |set: usize, stream: &Stream| Ok(ours[set].run(1.0, stream)?));
        let mut theirs = Call::new("a product for each group", |set: usize, stream: &Stream| {
            Ok(theirs[set].iter().try_for_each(|group| group.run(1.0, 0.0, stream))?)
        });
        let mut contenders: [&mut dyn Contender; 2] = [&mut ours, &mut theirs];
        let rows = problem.total_rows();
        let flops = shape.plain(rows).flops();
        let (timings, ..) = interleave(&self.device, &mut contenders, sets.len(), flops, config)?;
        let [timing, plain]: [Timing; 2] = timings.try_into().map_err(|_| Error::Setting {
            what: "contenders",
            value: 0,
            least: 2,
        })?;
        download(&d[0], &mut host)?;
        let of = |size: Option<&u64>| size.copied().unwrap_or(0);
        Ok(GroupedLine {
            shape: *shape,
            rows: [of(sizes.iter().min()), of(sizes.iter().max())],
            empty: sizes.iter().filter(|size| **size == 0).count(),
            plan: plan.describe().clone(),
            timing,
            check,
            same_bits: fingerprint(&host) == bits,
            plain,
        })
    }

    /// The operands of set `set`.
    fn set(&self, shape: &GroupedShape, sizes: &[u64], set: usize) -> Result<Set<'_>, Error> {
        let GroupedShape { groups, n, k, .. } = *shape;
        let [of_a, of_b] = shape.elements();
        let (a, b) = (set * (of_a + of_b), set * (of_a + of_b) + of_a);
        let mut of_groups = Vec::with_capacity(sizes.len());
        let mut first = 0;
        for (group, &size) in sizes.iter().enumerate() {
            if size > 0 {
                of_groups.push([
                    self.pool.matrix(a + (first * k) as usize, size, k)?,
                    self.pool.matrix(b + group * (n * k) as usize, n, k)?,
                ]);
            }
            first += size;
        }
        let (a, b) = (self.pool.matrix(a, first, k)?, self.pool.matrix(b, groups * n, k)?);
        Ok(Set { a: a.buffer, b: b.buffer, groups: of_groups })
    }
}

/// The parts of D that the groups with rows have, as bytes: their first byte, and how many rows they have.
fn parts<'s>(
    shape: &GroupedShape,
    sizes: &'s [u64],
) -> impl Iterator<Item = (usize, u64)> + use<'s> {
    let row = shape.n as usize * DTYPE.size();
    let starts = sizes.iter().scan(0, move |end, &size| {
        let start = *end;
        *end += size as usize * row;
        Some((start, size))
    });
    starts.filter(|(_, size)| *size > 0)
}

/// The plans of the groups with rows, bound to their operands.
fn each_group<'p>(
    shape: &GroupedShape,
    plans: &'p BTreeMap<u64, GemmPlan>,
    sizes: &[u64],
    set: &Set<'_>,
    d: &Buffer,
) -> Result<Vec<BoundGemm<'p>>, Error> {
    let mut bound = Vec::with_capacity(set.groups.len());
    for ([a, b], (start, size)) in set.groups.iter().zip(parts(shape, sizes)) {
        let mut d = d.part(start, shape.plain(size).bytes('D') as usize)?;
        bound.push(plans[&size].bind(&a.buffer, &b.buffer, None, &mut d)?);
    }
    Ok(bound)
}

/// The comparison of the group with the largest error.
fn worst(
    shape: &GroupedShape,
    sizes: &[u64],
    set: &Set<'_>,
    d: &[u8],
) -> Result<ResultCheck, Error> {
    let mut all = Vec::with_capacity(set.groups.len());
    for ([a, b], (start, size)) in set.groups.iter().zip(parts(shape, sizes)) {
        let problem = shape.plain(size);
        all.push(check(&problem, a, b, &d[start..][..problem.bytes('D') as usize])?);
    }
    // In this order an error that is not a number is the largest.
    let order = |a: &ResultCheck, b: &ResultCheck| a.error().abs().total_cmp(&b.error().abs());
    let worst = all.into_iter().max_by(order);
    worst.ok_or(Error::Setting { what: "rows", value: 0, least: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_groups_with_rows() {
        let shape = GroupedShape { groups: 4, mean: 2, n: 8, k: 16, even: true };
        let parts: Vec<_> = parts(&shape, &[0, 3, 0, 5]).collect();
        assert_eq!(parts, [(0, 3), (3 * 16, 5)]);
    }
}
