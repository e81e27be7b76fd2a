//! The macro [`gemm_kernels!`](crate::gemm_kernels!), which turns one line into a compiled kernel.
#![forbid(unsafe_code)]

use super::config::{Math1, Math2, Math3};
use pipeline::cta::{Role, SMEM_LIMIT};
use pipeline::mma::GROUP_ROWS;
use pipeline::tile::ROW_BYTES;

/// Maps a number of consumer warp groups to a role.
pub trait MathRole<const GROUPS: usize> {
    /// The role of `GROUPS` warp groups.
    type Role: Role;
}
/// The type that implements [`MathRole`].
pub enum Math {}
impl MathRole<1> for Math {
    type Role = Math1;
}
impl MathRole<2> for Math {
    type Role = Math2;
}
impl MathRole<3> for Math {
    type Role = Math3;
}

/// The most stages of A and B that fit into the shared memory of a CTA, beside the rest of the plan. (CUTLASS
/// `StageCountAutoCarveout`.)
///
/// The tile is `bm` x `bn`, with `beside` bytes per stage for scale factors, `groups` warp groups have `stores` store buffers each, a slot of C has
/// `source_rows` rows (0 without C), and `per_sm` CTAs share the SM.
#[must_use]
pub const fn most_stages(
    [bm, bn]: [usize; 2],
    beside: usize,
    [groups, stores]: [usize; 2],
    source_rows: usize,
    per_sm: usize,
) -> usize {
    use super::output::SOURCE_STAGES;
    // 16 bytes each: the full and the empty barrier of a slot, and the two barriers of the load order. The 1024
    // bytes below are for the alignment of what follows a ring.
    let (barriers, order) = (16, 16);
    // The system reserves 1 KiB of the SM's 228 KiB for each CTA.
    let limit = (SMEM_LIMIT + 1024) / per_sm - 1024;
    let stores = stores * groups * GROUP_ROWS * ROW_BYTES;
    let source = SOURCE_STAGES * (source_rows * ROW_BYTES + barriers);
    let source = if source_rows == 0 { 0 } else { source + 1024 };
    (limit - stores - source - order) / ((bm + bn) * ROW_BYTES + beside + barriers)
}

/// Compiles GEMM kernels, one per line, and lists them for the host.
///
/// ```text
/// gemm_kernels! {
///     /// What this crate's image has.
///     pub static KERNELS: MyEpilogue;
///     my_128x128: bf16 => f16, 128 x 128, cluster 1 x 1, Cooperative;
///     my_128x256: bf16 => f16, 128 x 256, cluster 2 x 1, SplitN, with C;
/// }
/// ```
/// A line has the kernel's name; the type of A and B; the type of C and D; a CTA's tile of D; the cluster; and the main
/// loop ([`Cooperative`](crate::gemm::kernel::Cooperative),
/// [`CooperativeByColumns`](crate::gemm::by_columns::CooperativeByColumns),
/// [`CooperativeTall`](crate::gemm::tall::CooperativeTall), [`SplitN`](crate::gemm::kernel::SplitN) or
/// [`Pingpong`](crate::gemm::kernel::Pingpong)). These options may follow, in this order:
///
/// - `promoted 64`: the sums of each k tile are added up in f32, in parts of 64 columns
///   ([`promoted`](crate::gemm::promoted)), for operands of 8-bit floats. `Cooperative` has one part, of up to 144 columns,
///   `SplitN` an even number. Without it such sums stay in the tensor cores, which is fast accumulation.
/// - `block scaled`: the main loop applies scale factors of A's rows and of B's blocks, for each 128 of K
///   ([`scales`](crate::gemm::scales)). The main loop has `promoted`. The kernel has two more arguments.
/// - `stages 4`: fewer stages than fit.
/// - `stores 1`: this many store buffers for each warp group instead of two: one, if that leaves room for one more stage, or
///   three, if a main loop stores three of them at once.
/// - `per_sm 2`: leave shared memory for a CTA of the dependent grid.
/// - `with C`: the epilogue reads C.
/// - `operands swapped`: swap_ab, for a D of few rows, which are then the tile's columns.
/// - `mainloop MyLoop<128>`: a main loop of your own. The host plans it as the main loop named before.
/// - `scheduler MyOrder`: a scheduler of your own, `MyOrder<Cluster<1, 1>>`. Its arguments are
///   [`TileSchedulerParams`](crate::gemm::TileSchedulerParams), or [`StreamKArgs`](crate::gemm::StreamKArgs) if it
///   splits K. `host::gemm` refuses a kernel with other ones; launch that with `Device::launch`.
/// - `majors MnMajor x KMajor`: how A and B lie in memory. Without it both are K-major. 8-bit operands have no other.
/// - `rank 3`: the kernel computes batches of products. Its tensor maps have three dimensions, and its scheduler is
///   [`Batched`](crate::gemm::scheduler::Batched).
/// - `times e5m2`: the type of B, if it is not that of A. With swapped operands, A is the product's B.
///
/// `#[cfg(feature = "...")]` before a line makes its kernel optional.
///
/// `KERNELS` exists only on the host. Its type is [`Instances`](crate::gemm::instance::Instances)`<MyEpilogue>`.
#[macro_export]
macro_rules! gemm_kernels {
    (
        $(#[$doc:meta])*
        $vis:vis static $table:ident: $epilogue:ty;
        $($(#[cfg($($condition:tt)*)])? $name:ident: $t:ty => $o:ty, $bm:literal x $bn:literal, cluster $cm:literal x $cn:literal, $mainloop:ident
            $(, promoted $w:literal)? $(, block $block:ident)? $(, stages $stages:literal)? $(, stores $stores:literal)? $(, per_sm $per_sm:literal)? $(, with $c:ident)? $(, operands $swapped:ident)?
            $(, mainloop $own_mainloop:ty)? $(, scheduler $own_scheduler:ident)?
            $(, majors $ma:ident x $mb:ident)? $(, rank $rank:tt)? $(, times $tb:ty)?;)*
    ) => {
        $(
            $(#[cfg($($condition)*)])?
            #[doc = concat!("The GEMM kernel `", stringify!($name), "`.")]
            $vis mod $name {
                #[allow(unused_imports)]
                use super::*;
                #[allow(unused_imports)] // A main loop or a scheduler may be the caller's own.
                use $crate::gemm::{by_columns, config, instances, kernel, output, rank, scales, scheduler, tall};
                use $crate::private::{isa, pipeline};
                use pipeline::prelude::{Cluster, Tile};
                use pipeline::cta::Is;

                /// The kernel's configuration.
                pub enum Parts {}

                /// Consumer warp groups of the CTA.
                const GROUPS: usize = $crate::gemm_kernels!(@groups $mainloop $bm);
                /// Store buffers of each warp group.
                const STORES: usize = $crate::gemm_kernels!(@stores $($stores)?);
                /// Stages of A and B.
                pub const STAGES: usize = $crate::gemm_kernels!(
                    @stages [$($stages)?] [$($per_sm)?] [$($c)?] BESIDE STORES $mainloop $bm $bn
                );
                const BK: usize = pipeline::tile::ROW_BYTES / size_of::<$t>();
                /// Element of B.
                type B = $crate::gemm_kernels!(@b $t $(, $tb)?);
                /// The scale factors that the main loop applies.
                type Scales = $crate::gemm_kernels!(@scales $bm $bn [$($block)?] $($swapped)?);
                /// Bytes per stage beside A and B.
                #[allow(dead_code)] // Unless the line says how many stages there are.
                const BESIDE: usize = <<Scales as scales::ScaleConfig<
                    Tile<$t, $bm, BK>, Tile<B, $bn, BK>, Cluster<$cm, $cn>
                >>::Slot as pipeline::ring::Stage>::BESIDE_BYTES;

                impl config::Config for Parts {
                    type A = Tile<$t, $bm, BK $(, pipeline::tile::$ma)?>;
                    type B = Tile<B, $bn, BK $(, pipeline::tile::$mb)?>;
                    type Scales = Scales;
                    type Cluster = Cluster<$cm, $cn>;
                    type Math = <instances::Math as instances::MathRole<GROUPS>>::Role;
                    type Operands = config::OperandRing<Self, STAGES>;
                    type Stores = config::StoresOf<Self, STORES>;
                    type Mainloop = $crate::gemm_kernels!(@mainloop [$($own_mainloop)?] [$($w)?] $mainloop $bm $bn);
                    type Output = $crate::gemm_kernels!(@output $o, $bn $($swapped)?);
                    type Epilogue = $epilogue;
                    type ReadsC = $crate::gemm_kernels!(@condition $($c)?);
                    type Rank = $crate::gemm_kernels!(@rank $($rank)?);
                    type Scheduler = $crate::gemm_kernels!(@scheduler [$($own_scheduler)?] [$($rank)?] $mainloop $cm $cn);
                }

                $crate::gemm_kernels!(@entry $name $bm $bn [$($block)?] $($swapped)?);

                /// The host's description of the kernel.
                #[cfg(not(target_arch = "nvptx64"))]
                pub const INSTANCE: $crate::gemm::Instance = $crate::gemm::Instance::of::<Parts>(
                    &<$name as isa::kernel::Kernel>::DESC,
                    $crate::gemm::KernelSchedule::$mainloop,
                    $crate::gemm_kernels!(@groups_of_a_tile $mainloop $bm),
                    STAGES,
                );
            }
        )*

        $(#[$doc])*
        #[cfg(not(target_arch = "nvptx64"))]
        $vis static $table: $crate::gemm::instance::Instances<$epilogue> =
            $crate::gemm::instance::Instances::of(&[$($(#[cfg($($condition)*)])? $name::INSTANCE),*]);
    };
    (@entry $name:ident $bm:literal $bn:literal [] $($swapped:ident)?) => {
        #[doc = concat!("The GEMM kernel `", stringify!($name), "`.")]
        #[isa::kernel(dependent = true, crate = $crate::private::isa)]
        pub fn $name(
            cta: config::GemmCta<Parts>,
            a: &config::MapA<Parts>,
            b: &config::MapB<Parts>,
            c: &config::MapC<Parts>,
            d: &config::MapD<Parts>,
            loads: config::LoadArgs<'_>,
            epilogue: <Parts as config::Config>::Epilogue,
            scheduler: config::SchedulerArgs<Parts>,
        ) {
            kernel::gemm::<Parts, STAGES, STORES>(cta, a, b, c, d, (), loads, epilogue, scheduler);
        }
    };
    (@entry $name:ident $bm:literal $bn:literal [scaled] swapped) => {
        $crate::gemm_kernels!(@entry $name { scales::vector($bn) } $bm [scaled]);
    };
    (@entry $name:ident $bm:tt $bn:literal [scaled]) => {
        #[doc = concat!("The GEMM kernel `", stringify!($name), "`.")]
        #[isa::kernel(dependent = true, crate = $crate::private::isa)]
        pub fn $name(
            cta: config::GemmCta<Parts>,
            a: &config::MapA<Parts>,
            b: &config::MapB<Parts>,
            c: &config::MapC<Parts>,
            d: &config::MapD<Parts>,
            sfa: &scales::MapSfa<$bm>,
            sfb: scales::Sfb<'_>,
            loads: config::LoadArgs<'_>,
            epilogue: <Parts as config::Config>::Epilogue,
            scheduler: config::SchedulerArgs<Parts>,
        ) {
            let scales = scales::BlockwiseArgs { sfa, sfb };
            kernel::gemm::<Parts, STAGES, STORES>(cta, a, b, c, d, scales, loads, epilogue, scheduler);
        }
    };
    (@b $t:ty) => { $t };
    (@b $t:ty, $tb:ty) => { $tb };
    (@scales $bm:literal $bn:literal [] $($swapped:ident)?) => { scales::Unscaled };
    (@scales $bm:literal $bn:literal [scaled] swapped) => { scales::BlockwiseSwapAb<{ scales::vector($bn) }, { $bn / 4 }> };
    (@scales $bm:literal $bn:literal [scaled]) => {
        scales::Blockwise<$bm, { $bn / scales::unit($bn) }, { scales::unit($bn) }>
    };
    (@groups Pingpong $bm:literal) => { 2 };
    (@groups CooperativeByColumns $bm:literal) => { 2 };
    (@groups CooperativeTall $bm:literal) => { $bm / 128 };
    (@groups $mainloop:ident $bm:literal) => { $bm / 64 };
    (@groups_of_a_tile Pingpong $bm:literal) => { 1 };
    (@groups_of_a_tile CooperativeByColumns $bm:literal) => { 2 };
    (@groups_of_a_tile CooperativeTall $bm:literal) => { $bm / 128 };
    (@groups_of_a_tile $mainloop:ident $bm:literal) => { $bm / 64 };
    (@stores) => { output::STORE_STAGES };
    (@stores $stores:literal) => { $stores };
    (@stages [$stages:literal] $($rest:tt)*) => { $stages };
    (@stages [] [] $($rest:tt)*) => { $crate::gemm_kernels!(@stages [] [1] $($rest)*) };
    (@stages [] [$per_sm:literal] [] $beside:ident $stores:ident $mainloop:ident $bm:literal $bn:literal) => {
        instances::most_stages([$bm, $bn], $beside, [GROUPS, $stores], 0, $per_sm)
    };
    (@stages [] [$per_sm:literal] [C] $beside:ident $stores:ident Pingpong $bm:literal $bn:literal) => {
        instances::most_stages([$bm, $bn], $beside, [GROUPS, $stores], 64, $per_sm)
    };
    (@stages [] [$per_sm:literal] [C] $beside:ident $stores:ident $mainloop:ident $bm:literal $bn:literal) => {
        instances::most_stages([$bm, $bn], $beside, [GROUPS, $stores], $bm, $per_sm)
    };
    (@mainloop [$own:ty] $($rest:tt)*) => { $own };
    (@mainloop [] [$w:literal] Cooperative $bm:literal $bn:literal) => {
        $crate::gemm::promoted::PromotedCooperative<$bm, $w>
    };
    (@mainloop [] [$w:literal] SplitN $bm:literal $bn:literal) => {
        $crate::gemm::promoted::PromotedSplitN<$bm, $bn, { $bn / $w }, { $bn - $w }, $w>
    };
    (@mainloop [] [] Cooperative $bm:literal $bn:literal) => { kernel::Cooperative<$bm, $bn> };
    (@mainloop [] [] CooperativeByColumns $bm:literal $bn:literal) => {
        by_columns::CooperativeByColumns<{ $bm / 64 }, { $bn / 2 }>
    };
    (@mainloop [] [] CooperativeTall $bm:literal $bn:literal) => { tall::CooperativeTall<2, $bn> };
    (@mainloop [] [] SplitN $bm:literal $bn:literal) => { kernel::SplitN<$bm, { $bn / 2 }> };
    (@mainloop [] [] Pingpong $bm:literal $bn:literal) => { kernel::Pingpong<{ $bm / 64 }, $bn> };
    (@rank) => { rank::Rank2 };
    (@rank 3) => { rank::Rank3 };
    (@scheduler [$own:ident] [] $mainloop:ident $cm:literal $cn:literal) => { $own<Cluster<$cm, $cn>> };
    (@scheduler [] [3] $mainloop:ident $cm:literal $cn:literal) => {
        scheduler::Batched<$crate::gemm_kernels!(@scheduler [] [] $mainloop $cm $cn)>
    };
    (@scheduler [] [] Pingpong $cm:literal $cn:literal) => { scheduler::DataParallel<Cluster<$cm, $cn>> };
    (@scheduler [] [] $mainloop:ident $cm:literal $cn:literal) => { scheduler::StreamK<Cluster<$cm, $cn>> };
    (@output $o:ty, $bn:literal) => { output::Direct<$o> };
    (@output $o:ty, $bn:literal swapped) => { output::SwapAb<$o, { output::swapped_columns($bn) }> };
    (@condition) => { Is<false> };
    (@condition C) => { Is<true> };
}
