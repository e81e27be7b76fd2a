//! The kernels of the embedded image as tables: per pair of element types, and one by one.

use super::table;
use host::pair_name;
use isa::kernel::KernelMeta;
use serde::Serialize;
use std::collections::BTreeMap;
use warpipe::gpu_kernels::gemm::Instance;
use warpipe::gpu_kernels::gemm::table::all_instances;

/// The GEMM kernels of a pair of element types, or the other kernels of the image.
#[derive(Clone, Serialize)]
pub struct Family {
    /// Element type of A and B; none for kernels that are no GEMM.
    ab: Option<&'static str>,
    /// Element type of C and D.
    out: Option<&'static str>,
    /// Number of kernels.
    kernels: usize,
    /// How many of them read C.
    with_c: usize,
    /// How many of them swap A and B.
    swap_ab: usize,
    /// How many can split the k tiles of a tile.
    split_k: usize,
    /// Smallest and largest tile of D.
    tiles: Option<[[u32; 2]; 2]>,
}

/// A kernel of the image.
#[derive(Clone, Serialize)]
pub struct Row {
    /// Entry name.
    name: &'static str,
    threads: u32,
    cluster: [u32; 3],
    smem_bytes: u32,
    params: usize,
    /// The GEMM kernel's tile of D, stages and main loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    gemm: Option<GemmRow>,
}

/// What a GEMM kernel has besides.
#[derive(Clone, Serialize)]
struct GemmRow {
    tile: [u32; 3],
    stages: u32,
    main_loop: String,
}

fn instance(kernel: &KernelMeta) -> Option<&'static Instance> {
    all_instances().find(|instance| instance.desc.meta.name() == kernel.name())
}

/// The families of some kernels, GEMMs first.
pub fn families(kernels: &[KernelMeta]) -> Vec<Family> {
    let mut families: BTreeMap<_, Vec<&Instance>> = BTreeMap::new();
    for instance in kernels.iter().filter_map(instance) {
        let ab = pair_name(instance.ab, instance.b);
        families.entry((ab, instance.out.name())).or_default().push(instance);
    }
    let count = |all: &[&Instance], is: fn(&Instance) -> bool| all.iter().filter(|i| is(i)).count();
    let mut rows: Vec<Family> = families
        .into_iter()
        .map(|((ab, out), all)| {
            let tile = |i: &&Instance| (i.bm * i.bn, [i.bm, i.bn]);
            let sizes: Vec<_> = all.iter().map(tile).collect();
            let least = sizes.iter().min().map(|(_, tile)| *tile);
            Family {
                ab: Some(ab),
                out: Some(out),
                kernels: all.len(),
                with_c: count(&all, |i| i.has_c),
                swap_ab: count(&all, |i| i.swap_ab),
                split_k: count(&all, |i| i.splits_k),
                tiles: least.zip(sizes.iter().max().map(|(_, tile)| *tile)).map(|(a, b)| [a, b]),
            }
        })
        .collect();
    let others = kernels.iter().filter(|kernel| instance(kernel).is_none()).count();
    if others > 0 {
        let none = Family {
            ab: None,
            out: None,
            kernels: others,
            with_c: 0,
            swap_ab: 0,
            split_k: 0,
            tiles: None,
        };
        rows.push(none);
    }
    rows
}

/// The families as a table.
pub fn family_lines(families: &[Family]) -> Vec<String> {
    let rows: Vec<_> = families
        .iter()
        .map(|family| {
            let [small, large] = family.tiles.unwrap_or_default();
            let number = |n: usize| match family.ab {
                Some(_) => n.to_string(),
                None => "-".to_owned(),
            };
            let tiles = match family.tiles {
                Some(_) => format!("{} to {}", by(small), by(large)),
                None => String::new(),
            };
            [
                family.ab.unwrap_or("no GEMM").to_owned(),
                family.out.unwrap_or_default().to_owned(),
                family.kernels.to_string(),
                number(family.with_c),
                number(family.swap_ab),
                number(family.split_k),
                tiles,
            ]
        })
        .collect();
    table::lines(["A, B", "C, D", "kernels", "with C", "swap_ab", "split K", "tiles of D"], &rows)
}

/// Each kernel.
pub fn rows(kernels: &'static [KernelMeta]) -> Vec<Row> {
    let gemm = |i: &Instance| GemmRow {
        tile: [i.bm, i.bn, i.bk],
        stages: i.stages,
        main_loop: format!("{:?}{}", i.kernel_schedule, if i.promotes { ", promoted" } else { "" }),
    };
    kernels
        .iter()
        .map(|kernel| Row {
            name: kernel.name(),
            threads: kernel.threads,
            cluster: kernel.cluster,
            smem_bytes: kernel.smem_bytes,
            params: kernel.params().len(),
            gemm: instance(kernel).map(gemm),
        })
        .collect()
}

/// The kernels as a table.
pub fn row_lines(rows: &[Row]) -> Vec<String> {
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let [x, y, z] = row.cluster;
            let gemm = |cell: &dyn Fn(&GemmRow) -> String| {
                row.gemm.as_ref().map_or_else(|| "-".to_owned(), cell)
            };
            [
                row.name.to_owned(),
                gemm(&|g| by([g.tile[0], g.tile[1]])),
                gemm(&|g| g.main_loop.clone()),
                gemm(&|g| g.stages.to_string()),
                row.threads.to_string(),
                (x * y * z).to_string(),
                row.smem_bytes.to_string(),
                row.params.to_string(),
            ]
        })
        .collect();
    let head =
        ["kernel", "tile of D", "main loop", "stages", "threads", "cluster", "smem", "params"];
    table::lines(head, &cells)
}

fn by([rows, cols]: [u32; 2]) -> String {
    format!("{rows} x {cols}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_one_family() {
        let kernels = warpipe::GEMM_IMAGE.kernels;
        let families = families(kernels);
        assert_eq!(families.iter().map(|f| f.kernels).sum::<usize>(), kernels.len());
        let lines = family_lines(&families);
        assert_eq!(lines.len(), families.len() + 1);
        assert!(lines.iter().any(|line| line.starts_with("bf16")), "{lines:?}");
        assert_eq!(row_lines(&rows(kernels)).len(), kernels.len() + 1);
    }
}
