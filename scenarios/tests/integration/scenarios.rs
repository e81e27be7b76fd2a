//! CUTLASS's pipeline scenarios, judged by their data, on the SM model and on a GPU.
#![allow(missing_docs)]

use crate::on_devices::{Bench, Matrix, on_devices, small};
use host::{Device, Dtype, Param};
use isa::kernel::{Kernel, KernelDesc, ParamMeta};
use scenarios::IMAGE;
use scenarios::kernels::{convert, copies, idle, multicast, parts, stores, turns, writers};

/// Operands and result of D = A·Bᵀ with integers, so that every sum is exact.
struct Product {
    a: Matrix,
    b: Matrix,
    d: Matrix,
    k: usize,
}

impl Product {
    /// D has `m` x `n` elements. With no steps there is still a matrix to point at.
    fn new(bench: &Bench, m: usize, n: usize, steps: u32) -> Self {
        let k = 64 * steps as usize;
        Self {
            a: Matrix::new(bench, Dtype::Bf16, m, k.max(64), |i, j| small(1, i, j)),
            b: Matrix::new(bench, Dtype::Bf16, n, k.max(64), |i, j| small(2, i, j)),
            d: Matrix::poisoned(bench, Dtype::F32, m, n),
            k,
        }
    }

    fn maps(&self, bench: &Bench, params: &[ParamMeta]) -> [host::TensorMap; 3] {
        [
            self.a.map(bench, &params[0]),
            self.b.map(bench, &params[1]),
            self.d.map(bench, &params[2]),
        ]
    }

    fn check(&self, bench: &Bench, case: &str) {
        if self.k == 0 {
            assert!(self.d.untouched(), "{case}: written, though there was nothing to do");
            return;
        }
        let (a, b) = (self.a.values(), self.b.values());
        let k = self.k;
        bench.expect(
            &self.d,
            |i, j| (0..k).map(|x| a[i * k + x] * b[j * k + x]).sum::<f32>(),
            case,
        );
    }
}

fn multicast(bench: &Bench, of: &multicast::Instance, clusters: u32, tiles: u32, steps: u32) {
    let case = format!("{} stages, {}x{}, {tiles} tiles, {steps} steps", of.stages, of.cm, of.cn);
    let (m, n) = ((64 * of.cm * tiles) as usize, (32 * of.cn) as usize);
    let product = Product::new(bench, m, n, steps);
    let [a, b, d] = product.maps(bench, of.desc.meta.params());
    let params =
        [Param::map(&a), Param::map(&b), Param::map(&d), Param::value(tiles), Param::value(steps)];
    bench.launch(of.desc, clusters * of.cm * of.cn, &params, &case);
    product.check(bench, &case);
}

fn instance(stages: u32, cm: u32, cn: u32) -> &'static multicast::Instance {
    multicast::INSTANCES
        .iter()
        .find(|i| (i.stages, i.cm, i.cn) == (stages, cm, cn))
        .expect("an instance of the table")
}

#[test]
fn every_stage_count_multiplies() {
    on_devices(&IMAGE, "every_stage_count_multiplies", 4, |bench| {
        for of in multicast::INSTANCES.iter().filter(|i| i.cm * i.cn == 1) {
            // None, fewer than stages, as many, one more, and several rounds.
            let s = of.stages;
            for steps in [0, 1, s.saturating_sub(1).max(2), s, s + 1, 2 * s + 1] {
                multicast(bench, of, 1, 2, steps);
            }
        }
    });
}

#[test]
fn every_cluster_shape_multicasts() {
    on_devices(&IMAGE, "every_cluster_shape_multicasts", 5, |bench| {
        for of in multicast::INSTANCES.iter().filter(|i| i.cm * i.cn > 1) {
            for steps in [1, of.stages + 2] {
                multicast(bench, of, 1, 1, steps);
            }
        }
    });
}

#[test]
fn clusters_are_persistent() {
    on_devices(&IMAGE, "clusters_are_persistent", 2, |bench| {
        // Two clusters over an odd number of tiles: one of them has one more.
        multicast(bench, instance(4, 2, 2), 2, 3, 5);
        multicast(bench, instance(2, 2, 1), 2, 5, 3);
        // A cluster with nothing to do.
        multicast(bench, instance(3, 1, 2), 3, 2, 2);
        multicast(bench, instance(2, 4, 2), 1, 2, 0);
    });
}

#[test]
fn schedules_do_not_matter() {
    on_devices(&IMAGE, "schedules_do_not_matter", 40, |bench| {
        multicast(bench, instance(3, 1, 1), 1, 2, 7);
        multicast(bench, instance(1, 2, 2), 1, 1, 3);
        multicast(bench, instance(2, 2, 1), 1, 2, 3);
    });
}

#[test]
fn a_thousand_steps_wrap_many_times() {
    on_devices(&IMAGE, "a_thousand_steps_wrap_many_times", 1, |bench| {
        multicast(bench, instance(7, 1, 1), 1, 1, 1000);
        multicast(bench, instance(1, 1, 1), 1, 1, 101);
        multicast(bench, instance(11, 2, 1), 1, 1, 120);
    });
}

#[test]
fn two_loaders_arm_one_slot() {
    on_devices(&IMAGE, "two_loaders_arm_one_slot", 20, |bench| {
        for (ctas, tiles, steps) in [(1, 1u32, 0), (1, 1, 1), (1, 2, 3), (2, 3, 7)] {
            let case = format!("{tiles} tiles, {steps} steps");
            let product = Product::new(bench, 64 * tiles as usize, 32, steps);
            let desc = &<parts::two_loaders as Kernel>::DESC;
            let [a, b, d] = product.maps(bench, desc.meta.params());
            let params = [
                Param::map(&a),
                Param::map(&b),
                Param::map(&d),
                Param::value(tiles),
                Param::value(steps),
            ];
            bench.launch(desc, ctas, &params, &case);
            product.check(bench, &case);
        }
    });
}

#[test]
fn four_loaders_arm_one_slot() {
    on_devices(&IMAGE, "four_loaders_arm_one_slot", 20, |bench| {
        for (ctas, panels) in [(1, 0u32), (1, 1), (2, 3), (1, 7)] {
            let case = format!("{panels} panels");
            let rows = 64 * panels.max(1) as usize;
            let addend =
                |of: usize| move |i: usize, j: usize| ((5 * i + of * j) % (11 + of)) as f32;
            let desc = &<parts::four_loaders as Kernel>::DESC;
            let matrices = [
                Matrix::new(bench, Dtype::Bf16, rows, 64, addend(0)),
                Matrix::new(bench, Dtype::F16, rows, 64, addend(1)),
                Matrix::new(bench, Dtype::F32, rows, 32, addend(2)),
                Matrix::new(bench, Dtype::Bf16, rows, 64, addend(3)),
                Matrix::poisoned(bench, Dtype::Bf16, rows, 64),
            ];
            let maps: Vec<host::TensorMap> = matrices
                .iter()
                .zip(desc.meta.params())
                .map(|(matrix, param)| matrix.map(bench, param))
                .collect();
            let mut params: Vec<Param> = maps.iter().map(Param::map).collect();
            params.push(Param::value(panels));
            bench.launch(desc, ctas, &params, &case);
            if panels == 0 {
                assert!(matrices[4].untouched());
                continue;
            }
            let sum = |i, j| {
                let c = if j < 32 { addend(2)(i, j) } else { 0.0 };
                addend(0)(i, j) + 2.0 * addend(1)(i, j) + c - addend(3)(i, j)
            };
            bench.expect(&matrices[4], sum, &case);
        }
    });
}

#[test]
fn an_idle_group_is_in_nobodys_way() {
    on_devices(&IMAGE, "an_idle_group_is_in_nobodys_way", 20, |bench| {
        // The ring has 8 stages.
        for steps in [0, 1, 3, 7, 8, 17] {
            let case = format!("{steps} steps");
            let product = Product::new(bench, 128, 32, steps);
            let desc = &<idle::idle_group as Kernel>::DESC;
            let [a, b, d] = product.maps(bench, desc.meta.params());
            let params = [Param::map(&a), Param::map(&b), Param::map(&d), Param::value(steps)];
            bench.launch(desc, 2, &params, &case);
            product.check(bench, &case);
        }
    });
}

#[test]
fn two_writers_share_each_slot() {
    on_devices(&IMAGE, "two_writers_share_each_slot", 10, |bench| {
        for of in writers::INSTANCES {
            for steps in [0, 1, of.stages, 2 * of.stages + 1] {
                two_writers(bench, of.desc, steps);
            }
        }
    });
}

#[test]
fn two_writers_over_hundreds_of_steps() {
    on_devices(&IMAGE, "two_writers_over_hundreds_of_steps", 1, |bench| {
        two_writers(bench, writers::INSTANCES[1].desc, 300);
    });
}

fn two_writers(bench: &Bench, desc: &KernelDesc, steps: u32) {
    let case = format!("{steps} steps");
    let rows = 128 * steps.max(1) as usize;
    let value = |i: usize, j: usize| ((5 * i + j) % 119) as f32;
    let bytes: Vec<u8> = (0..rows * 64)
        .flat_map(|at| half::bf16::from_f32(value(at / 64, at % 64)).to_le_bytes())
        .collect();
    let from = bench.device.upload(&bytes).expect("a small buffer");
    let to = Matrix::poisoned(bench, Dtype::Bf16, rows, 64);
    let map = to.map(bench, &desc.meta.params()[1]);
    let params = [Param::slice::<half::bf16>(&from), Param::map(&map), Param::value(steps)];
    bench.launch(desc, 1, &params, &case);
    if steps == 0 {
        assert!(to.untouched());
    } else {
        // Group g adds g + 1 to its 64 rows of the block.
        bench.expect(&to, |i, j| value(i, j) + (1 + i / 64 % 2) as f32, &case);
    }
}

#[test]
fn threads_convert_operands() {
    on_devices(&IMAGE, "threads_convert_operands", 10, |bench| {
        for of in convert::INSTANCES {
            for steps in [1, of.stages, 2 * of.stages + 1] {
                converted(bench, of.desc, steps);
            }
        }
    });
}

fn converted(bench: &Bench, desc: &KernelDesc, steps: u32) {
    let k = 64 * steps as usize;
    let product = Product {
        a: Matrix::new(bench, Dtype::F32, 64, k, |i, j| small(1, i, j)),
        b: Matrix::new(bench, Dtype::F32, 64, k, |i, j| small(2, i, j)),
        d: Matrix::poisoned(bench, Dtype::F32, 64, 64),
        k,
    };
    let case = format!("{}, {steps} steps", desc.meta.name());
    let [a, b, d] = product.maps(bench, desc.meta.params());
    let params = [Param::map(&a), Param::map(&b), Param::map(&d), Param::value(steps)];
    bench.launch(desc, 1, &params, &case);
    product.check(bench, &case);
}

#[test]
fn copies_fill_slots() {
    on_devices(&IMAGE, "copies_fill_slots", 10, |bench| {
        for of in copies::INSTANCES {
            for steps in [0, 1, of.stages, 2 * of.stages + 1] {
                copied(bench, of.desc, steps);
            }
        }
    });
}

#[test]
fn copies_over_hundreds_of_steps() {
    on_devices(&IMAGE, "copies_over_hundreds_of_steps", 1, |bench| {
        copied(bench, copies::INSTANCES[1].desc, 300);
    });
}

/// Copies a matrix that ends inside of the last block: inside a chunk of 16 bytes, and rows early.
/// Behind its columns lies poison, which must not get across.
fn copied(bench: &Bench, desc: &KernelDesc, steps: u32) {
    let case = format!("{steps} steps");
    let (rows, cols) = ((64 * steps as usize).saturating_sub(5).max(1), 115);
    let value = |i: usize, j: usize| ((5 * i + j) % 119) as f32 + 1.0;
    let from = Matrix::new(bench, Dtype::Bf16, rows, cols, value);
    let pitch = from.buffer.len() / rows / 2;
    let to = Matrix::poisoned(bench, Dtype::Bf16, 64 * steps.max(1) as usize, 128);
    let map = to.map(bench, &desc.meta.params()[4]);
    let params = [
        Param::slice::<half::bf16>(&from.buffer),
        Param::value(rows as u32),
        Param::value(cols as u32),
        Param::value(pitch as u32),
        Param::map(&map),
        Param::value(steps),
    ];
    bench.launch(desc, 1, &params, &case);
    if steps == 0 {
        assert!(to.untouched());
    } else {
        bench.expect(&to, |i, j| if i < rows && j < cols { value(i, j) } else { 0.0 }, &case);
    }
}

#[test]
fn panels_go_out_through_any_number_of_buffers() {
    on_devices(&IMAGE, "panels_go_out_through_any_number_of_buffers", 5, |bench| {
        for of in stores::INSTANCES {
            // None, one, as many as buffers, one more, and several rounds.
            for panels in [0, 1, of.depth, of.depth + 1, 4 * of.depth + 2] {
                stored(bench, of.desc, panels);
            }
        }
    });
}

#[test]
fn hundreds_of_panels_go_out() {
    on_devices(&IMAGE, "hundreds_of_panels_go_out", 1, |bench| {
        stored(bench, stores::INSTANCES[2].desc, 301);
    });
}

fn stored(bench: &Bench, desc: &KernelDesc, panels: u32) {
    let case = format!("{panels} panels");
    let rows = 128 * panels.max(1) as usize;
    let value = |i: usize, j: usize| ((7 * i + j) % 251) as f32;
    let from = Matrix::new(bench, Dtype::Bf16, rows, 64, value);
    let to = Matrix::poisoned(bench, Dtype::Bf16, rows, 64);
    let maps = [from.map(bench, &desc.meta.params()[0]), to.map(bench, &desc.meta.params()[1])];
    let params = [Param::map(&maps[0]), Param::map(&maps[1]), Param::value(panels)];
    bench.launch(desc, 1, &params, &case);
    if panels == 0 {
        assert!(to.untouched());
    } else {
        bench.expect(&to, value, &case);
    }
}

#[test]
fn groups_take_turns_in_order() {
    on_devices(&IMAGE, "groups_take_turns_in_order", 10, |bench| {
        for of in turns::INSTANCES {
            // No tile, fewer tiles than groups, odd numbers of rounds; two CTAs with unequal shares.
            for (ctas, tiles, steps) in
                [(1, 0, 1), (1, 1, 2), (1, of.groups + 1, 3), (2, 11, 2), (1, 2 * of.groups - 1, 7)]
            {
                in_turn(bench, of, ctas, tiles, steps);
            }
        }
    });
}

fn in_turn(bench: &Bench, of: &turns::Instance, ctas: u32, tiles: u32, steps: u32) {
    let case = format!("{} groups, {tiles} tiles, {steps} steps", of.groups);
    let product = Product::new(bench, 64 * tiles.max(1) as usize, 32, steps);
    let [a, b, d] = product.maps(bench, of.desc.meta.params());
    let mut chains = bench.device.alloc_zeroed(8 * ctas as usize).expect("a small buffer");
    let params = [
        Param::map(&a),
        Param::map(&b),
        Param::map(&d),
        Param::slice_mut::<u32>(&mut chains),
        Param::value(tiles),
        Param::value(steps),
    ];
    bench.launch(of.desc, ctas, &params, &case);
    if tiles == 0 {
        assert!(product.d.untouched());
    } else {
        product.check(bench, &case);
    }
    let want: Vec<u32> = (0..ctas)
        .flat_map(|cta| [(cta..tiles).step_by(ctas as usize).fold(0, turns::link); 2])
        .collect();
    assert_eq!(words_of(&chains), want, "{case}: a turn out of order");
}

fn words_of(buffer: &host::Buffer) -> Vec<u32> {
    let bytes = buffer.to_vec().expect("the test's own buffer");
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The table covers what the scenarios are about.
#[test]
fn the_instances_cover_the_shapes() {
    for stages in 1..=11 {
        instance(stages, 1, 1);
    }
    for shape in [(1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2), (4, 4)] {
        assert!(multicast::INSTANCES.iter().any(|i| (i.cm, i.cn) == shape), "{shape:?}");
    }
    assert!(turns::INSTANCES.iter().map(|i| i.groups).eq(2..=5));
    // And all of them are in the image.
    let module = Device::sim(host::SimConfig::default()).load(&IMAGE).expect("the model loads it");
    for desc in multicast::INSTANCES.iter().map(|i| i.desc) {
        module.check(desc).expect("in the image");
    }
}
