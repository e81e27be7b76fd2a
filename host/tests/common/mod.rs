//! A hand-made table of GEMM instances: facts without a kernel behind them.
#![allow(dead_code)]

use gpu_kernels::gemm::instance::Instances;
use gpu_kernels::gemm::{Instance, KernelSchedule, Linear, LoadArgs, StreamKArgs};
use isa::kernel::{
    Dtype, Image, KernelArg, KernelDesc, KernelMeta, META_MAGIC, ParamKind, ParamMeta, name64,
};

fn never(_: &[*const u8]) {
    unreachable!("plans run no kernel");
}

const fn map(dtype: Dtype, box_rows: u32) -> ParamMeta {
    ParamMeta {
        kind: ParamKind::TensorMap as u32,
        size: 128,
        align: 64,
        dtype: dtype as u32,
        box_rows,
        box_cols: 128 / dtype.size() as u32,
        swizzle_bytes: 128,
        rank: 2,
    }
}

const fn desc(name: &str, bm: u32, bn: u32, cluster: u32, out: Dtype) -> KernelDesc {
    let mut params = [ParamMeta::NONE; isa::kernel::MAX_PARAMS];
    params[0] = map(Dtype::Bf16, bm);
    params[1] = map(Dtype::Bf16, bn / cluster);
    params[2] = map(out, 64);
    params[3] = map(out, 64);
    params[4] = <LoadArgs<'static> as KernelArg>::META;
    params[5] = <Linear as KernelArg>::META;
    params[6] = <StreamKArgs<'static> as KernelArg>::META;
    KernelDesc {
        meta: KernelMeta {
            magic: META_MAGIC,
            name: name64(name),
            threads: 384,
            min_ctas: 1,
            cluster: [cluster, 1, 1],
            smem_bytes: 200 * 1024,
            dependent: 0,
            param_count: 7,
            params,
        },
        names: [""; isa::kernel::MAX_PARAMS],
        entry: never,
    }
}

pub static BIG: KernelDesc = desc("big", 128, 256, 2, Dtype::Bf16);
pub static MID: KernelDesc = desc("mid", 128, 128, 1, Dtype::Bf16);
pub static SMALL: KernelDesc = desc("small", 64, 64, 1, Dtype::Bf16);
pub static MID_C: KernelDesc = desc("mid_c", 128, 128, 1, Dtype::Bf16);
pub static F32: KernelDesc = desc("f32", 128, 128, 1, Dtype::F32);

pub const fn instance(
    desc: &'static KernelDesc,
    bm: u32,
    bn: u32,
    cluster_m: u32,
    out: Dtype,
    has_c: bool,
) -> Instance {
    Instance {
        desc,
        bm,
        bn,
        bk: 64,
        stages: 4,
        stage_bytes: (bm + bn) * 128,
        groups: bm / 64,
        splits_k: true,
        kernel_schedule: KernelSchedule::Cooperative,
        cluster_m,
        cluster_n: 1,
        a_mn_major: false,
        b_mn_major: false,
        batched: false,
        ab: Dtype::Bf16,
        b: Dtype::Bf16,
        out,
        promotes: false,
        scale_granularity: None,
        has_c,
        swap_ab: false,
        gated: false,
        activates: false,
    }
}

pub static TABLE: [Instance; 5] = [
    instance(&SMALL, 64, 64, 1, Dtype::Bf16, false),
    instance(&BIG, 128, 256, 2, Dtype::Bf16, false),
    instance(&MID, 128, 128, 1, Dtype::Bf16, false),
    instance(&MID_C, 128, 128, 1, Dtype::Bf16, true),
    instance(&F32, 128, 128, 1, Dtype::F32, false),
];

/// These rows, as kernels with the usual epilogue.
pub const fn table(rows: &'static [Instance]) -> Instances<Linear> {
    Instances::of(rows)
}

static KERNELS: [KernelMeta; 5] = [BIG.meta, MID.meta, SMALL.meta, MID_C.meta, F32.meta];

pub static IMAGE: Image =
    Image { name: "table", arch: "sm_90a", code: &[], kernels: &KERNELS, ptxas: None, others: &[] };
