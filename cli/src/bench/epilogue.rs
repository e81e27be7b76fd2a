//! `warpipe bench --suite epilogue`: linear layers in one kernel.

use super::Args;
use super::measure::{config, rival};
use super::own::Suite;
use crate::check::bound;
use crate::error::Error;
use host::gemm::{FusedGemm, GatedGemm, Gemm};
use host::{Device, Dtype};
use warpipe::gpu_kernels::gemm::fused::FusedElement;
use warpipe::half::{bf16, f16};
use warpipe_bench::Timing;
use warpipe_bench::cublaslt::CublasLt;
use warpipe_bench::epilogue::{CASES, EpilogueBench, EpilogueLine, Kernels, Layer, of_shape};

/// The name of the suite.
pub const SUITE: &str = "epilogue";

/// Times the suite and prints a line for each layer.
pub fn run(args: &Args) -> Result<(), Error> {
    let types = args.types()?;
    if types.ab == Dtype::E4m3 || types.out != types.ab {
        let usage = "the suite epilogue has operands and results of bf16, or all of f16";
        return Err(Error::Usage(usage.to_owned()));
    }
    let suite = Suite::new(args, SUITE)?;
    let given: Vec<Layer> = args.shape.iter().flat_map(|shape| of_shape(*shape)).collect();
    let layers = suite.chosen(if given.is_empty() { &CASES } else { &given })?;
    let device = suite.device()?;
    let (lt, absent) = rival(args, &device)?;
    if let Some(why) = absent {
        suite.tell(&why)?;
    } else if lt.is_some() {
        suite.tell("cuBLASLt has the bias, and GELU in its form with a hyperbolic tangent")?;
    }
    let bench = EpilogueBench::new(&device, types.ab, args.seed, &layers)?;
    let mut lines: Vec<EpilogueLine> = Vec::with_capacity(layers.len());
    let mut timed = |layer: &Layer, line: EpilogueLine| {
        let name = format!("{SUITE} {layer}");
        suite.tell(&row(&name, &line))?;
        if !line.check.below(bound(types.out, layer.shape.k)) {
            return Err(Error::Wrong(format!("{name}: {}", line.check)));
        }
        if !line.same_bits {
            let instance = line.plan.kernel.map_or_else(String::new, |kernel| kernel.name);
            return Err(Error::Bits { shape: layer.to_string(), instance });
        }
        lines.push(line);
        Ok(())
    };
    for layer in &layers {
        match types.ab {
            Dtype::F16 => measure::<f16>(args, &device, &bench, lt.as_ref(), layer, &mut timed)?,
            _ => measure::<bf16>(args, &device, &bench, lt.as_ref(), layer, &mut timed)?,
        }
    }
    suite.write(&lines)
}

/// Times a layer with the picker's kernel and, with `--all-instances`, then with every other one.
fn measure<T: FusedElement>(
    args: &Args,
    device: &Device,
    bench: &EpilogueBench,
    lt: Option<&CublasLt>,
    layer: &Layer,
    timed: &mut dyn FnMut(&Layer, EpilogueLine) -> Result<(), Error>,
) -> Result<(), Error> {
    let image = &warpipe::GEMM_IMAGE;
    let plain = &Gemm::new(device, image)?;
    let fused = &FusedGemm::<T>::fused(device, image)?;
    let gated = &GatedGemm::<T>::gated(device, image)?;
    let kernels = Kernels { plain, fused, gated };
    let line = bench.measure(&kernels, lt, layer, None, &config(args))?;
    let picked = line.plan.kernel.as_ref().map(|kernel| (kernel.index, kernel.schedule()));
    timed(layer, line)?;
    let others = if args.all_instances { bench.choices(&kernels, layer)? } else { Vec::new() };
    for choice in others.into_iter().filter(|choice| Some(*choice) != picked) {
        timed(layer, bench.measure(&kernels, None, layer, Some(choice), &config(args))?)?;
    }
    Ok(())
}

/// A layer: its time, that of the product alone, cuBLASLt's, and the ratios.
fn row(name: &str, line: &EpilogueLine) -> String {
    let time = |t: &Timing| format!("{:9.2} us {:7.1} TFLOP/s", t.median_us, t.tflops);
    let kernel = line.plan.kernel.as_ref().map_or("", |kernel| kernel.name.as_str());
    let theirs = line.cublaslt.as_ref().zip(line.ratio()).map(|(theirs, ratio)| {
        let fastest = line.ratio_to_fastest().unwrap_or(f64::NAN);
        format!("  cuBLASLt {:9.2} us  ratio {ratio:.3}  /fastest {fastest:.3}", theirs.median_us)
    });
    format!(
        "{name:43} {}  product {:9.2} us  of its speed {:.3}{}  {kernel}",
        time(&line.timing),
        line.product.median_us,
        line.ratio_to_product(),
        theirs.unwrap_or_default()
    )
}
