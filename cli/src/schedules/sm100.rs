//! The GEMM kernels for Blackwell as cases: on the model, as every case. No chip has ever run them.

use super::family::Family;
use super::{Args, Case, Failure, Steps};
use crate::check::bound;
use crate::error::Error;
use crate::instance::nearest;
use host::reference::Product;
use host::sim::{Stats, Trial};
use host::sm100::Plan;
use host::{Device, SimConfig, data};
use isa::E2m1x2;
use isa::kernel::{Dtype, Image, KernelMeta};
use std::sync::{LazyLock, OnceLock};
use warpipe::gpu_kernels::sm100::{INSTANCES, Instance};

/// What the names of these kernels begin with.
const FAMILY: &str = "gemm_sm100_";
/// K tiles of each tile, where the tiles are the steps.
const K_TILES: u32 = 2;
const ALPHA: f32 = 1.5;

/// The kernels without code: the model runs those that are compiled into this program.
static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let kernels: Vec<KernelMeta> = INSTANCES.iter().map(|i| i.desc.meta).collect();
    let (name, arch, ptxas) = ("warpipe_gpu_kernels", "sm_100a", None);
    Image { name, arch, code: &[], kernels: kernels.leak(), ptxas, others: &[] }
});

/// Whether a name is that of a kernel for Blackwell.
pub fn is(asked: Option<&str>) -> bool {
    asked.is_some_and(|name| name.starts_with(FAMILY))
}

fn named(asked: &str) -> Result<&'static Instance, Error> {
    INSTANCES.iter().find(|i| i.desc.meta.name() == asked).ok_or_else(|| {
        let names: Vec<_> = INSTANCES.iter().map(|i| i.desc.meta.name()).collect();
        Error::Usage(format!("no instance {asked} for Blackwell; {}", nearest(asked, names)))
    })
}

/// The kernel that the options name.
fn chosen(args: &Args) -> Result<&'static Instance, Error> {
    let family = args.family.any() || args.family.out_dtype.is_some() || args.strided()?.any();
    if family || args.schedule.is_some() || args.beta.is_some() {
        let text = "kernels for Blackwell have no --schedule, --beta, --out-dtype and options of a family; omit them";
        return Err(Error::Usage(text.to_owned()));
    }
    named(args.instance.as_deref().unwrap_or_default())
}

/// The kernel that the options name, with their shape or with one that has partial tiles in all dimensions.
pub fn cases(args: &Args) -> Result<Vec<Box<dyn Case>>, Error> {
    let instance = chosen(args)?;
    let size = match args.size()? {
        None => {
            let [rows, columns] = instance.cluster_tile;
            [rows + 8, columns + 8, 3 * k_tile(instance) + 16 * instance.packing]
        }
        Some([m, n, k]) => {
            let sizes = [m, n, k].map(u32::try_from);
            let [Ok(m), Ok(n), Ok(k)] = sizes else {
                return Err(Error::Usage(format!("{m} x {n} x {k}: each is below 2^32")));
            };
            [m, n, k]
        }
    };
    Ok(vec![Box::new(Gemm { instance, size, seed: 0, good: OnceLock::new() })])
}

/// The same with steps along K, along the tiles of a cluster, or both in turn.
pub fn families(args: &Args) -> Result<Vec<Box<dyn Family>>, Error> {
    let instance = chosen(args)?;
    let dimensions = args.steps.map_or_else(|| vec![Steps::K, Steps::Tiles], |steps| vec![steps]);
    let family = |steps| -> Box<dyn Family> { Box::new(Tiled { instance, steps }) };
    Ok(dimensions.into_iter().map(family).collect())
}

/// Values of a k tile.
fn k_tile(instance: &Instance) -> u32 {
    instance.desc.meta.params[0].box_cols * instance.packing
}

/// Products of one cluster.
struct Tiled {
    instance: &'static Instance,
    steps: Steps,
}

impl Family for Tiled {
    fn name(&self) -> String {
        let step = match self.steps {
            Steps::K => "a k tile, of one tile of the cluster".to_owned(),
            Steps::Tiles => format!("a tile of the cluster, of {K_TILES} k tiles"),
        };
        format!("{}, a step is {step}", self.instance.desc.meta.name())
    }

    fn run(&self, config: &SimConfig, trial: Trial) -> Result<Stats, Failure> {
        let (tiles, k_tiles) = match self.steps {
            Steps::K => (1, trial.steps),
            Steps::Tiles => (trial.steps, K_TILES),
        };
        // The last tile has a few rows and columns only: the kernel does the same with it.
        let rows = self.instance.cluster_tile[0] * (tiles - 1) + 8;
        let size = [rows, 8, k_tile(self.instance) * k_tiles];
        let case = Gemm { instance: self.instance, size, seed: trial.data, good: OnceLock::new() };
        // Room for one cluster, which computes all tiles.
        let sms = self.instance.desc.meta.cluster_size();
        case.run(&SimConfig { sms, ..config.clone() })
    }
}

struct Gemm {
    instance: &'static Instance,
    size: [u32; 3],
    seed: u64,
    /// A result that matched the f64 product. Later results with the same bits need no comparison.
    good: OnceLock<Vec<u8>>,
}

/// Values of an operand, and its bytes.
fn operand(
    seed: u64,
    count: usize,
    dtype: Dtype,
    packing: u32,
) -> Result<(Vec<f32>, Vec<u8>), host::Error> {
    let values = data::normal(seed, count);
    if packing == 2 {
        let pairs = values.chunks_exact(2).map(|two| E2m1x2::from_f32([two[0], two[1]]));
        let pairs: Vec<_> = pairs.collect();
        let bytes = pairs.iter().map(|pair| pair.to_bits()).collect();
        return Ok((pairs.into_iter().flat_map(E2m1x2::to_f32).collect(), bytes));
    }
    Ok((data::rounded(&values, dtype)?, data::encode(&values, dtype)?))
}

impl Case for Gemm {
    fn name(&self) -> String {
        let [m, n, k] = self.size;
        format!("{} {m}x{n}x{k}", self.instance.desc.meta.name())
    }

    fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
        let device = Device::sim(config.clone());
        let plan = Plan::new(&device, &IMAGE, self.instance, self.size)?;
        let [m, n, k] = self.size.map(|extent| extent as usize);
        let packing = self.instance.packing;
        let [Some(ab), _, Some(out)] = plan.dtypes() else {
            return Err(Failure::Other(format!("{}: an operand without a type", self.name())));
        };
        let (a, bytes_a) = operand(2 * self.seed, m * k, ab, packing)?;
        let (b, bytes_b) = operand(2 * self.seed + 1, n * k, ab, packing)?;
        let [a_there, b_there] = [device.upload(&bytes_a)?, device.upload(&bytes_b)?];
        // Factors of 1: ue4m3 for 4 bits, else ue8m0.
        let one = if packing == 2 { 0x38 } else { 0x7f };
        let scales = match plan.scale_bytes() {
            None => None,
            Some(bytes) => {
                let [a, b] = bytes.map(|bytes| device.upload(&vec![one; bytes]));
                Some([a?, b?])
            }
        };
        let mut d = device.alloc(m * n * out.size())?;
        // NaN in every type, so that the check finds elements that are not written.
        d.fill(0xff)?;
        let scales = scales.as_ref().map(|[a, b]| [a, b]);
        plan.run(&a_there, &b_there, scales, &mut d, ALPHA, &device.stream())?;
        let d = d.to_vec()?;
        if self.good.get() != Some(&d) {
            let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: ALPHA, beta: 0.0 };
            let check = product.check(&data::decode(&d, out)?)?;
            let bound = bound(out, 2 * k as u64);
            if !check.below(bound) {
                let name = self.name();
                return Err(Failure::Other(format!(
                    "{name}: wrong result: {check}, bound {bound:.0e}"
                )));
            }
            // Another thread may have stored its result first; both are correct.
            let _ = self.good.set(d);
        }
        Ok(device.model_stats().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table are right with factors of 1, with one tile and with several.
    #[test]
    fn each_kernel_is_right() {
        for instance in INSTANCES {
            for steps in [Steps::K, Steps::Tiles] {
                let family = Tiled { instance, steps };
                let trial = Trial { steps: 2, data: 1 };
                let stats = family.run(&SimConfig::default(), trial);
                let stats = stats.unwrap_or_else(|e| panic!("{}: {e}", family.name()));
                // The model refuses some requests of launch control: another cluster starts then.
                let most = if instance.launch_control { 2 } else { 1 };
                assert!((1..=most).contains(&stats.clusters), "{}", family.name());
            }
        }
    }

    #[test]
    fn a_name_that_is_none_is_told_what_is() {
        assert!(is(Some("gemm_sm100_x")) && !is(Some("gemm_bf16")) && !is(None));
        let said = named("gemm_sm100_x").err().unwrap().to_string();
        let (why, names) = said.split_once("; ").unwrap();
        assert!(why.ends_with("no instance gemm_sm100_x for Blackwell"), "{said}");
        assert!(names.contains("gemm_sm100_") && names.contains(", gemm_sm100_"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}
