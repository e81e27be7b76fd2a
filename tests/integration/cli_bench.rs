//! Options of `warpipe bench` that do not fit together: one line, exit code 2. None of this needs a GPU.

use crate::common::refused;

#[test]
fn suites_types_and_options_that_do_not_fit_are_refused() {
    let e4m3 = "--dtype e4m3";
    for (options, words) in [
        ("--suite llm --scales row", ["--scales", e4m3]),
        ("--suite llm --dtype f16 --fast-accum", ["--fast-accum", "these are f16"]),
        ("--suite fp8 --dtype bf16", ["the suite fp8", "omit --dtype bf16"]),
        ("--suite fp8 --scales column", ["column", "tensor, row, block"]),
        ("--suite fp8 --scales block --fast-accum", ["each 128 of K", "omit --fast-accum"]),
        ("--suite fp8 --tune --tune-cache x.json --device sim", ["needs a GPU", "SM model"]),
        ("--suite epilogue --tune --tune-cache x.json", ["the suite epilogue", "no --tune-cache"]),
        ("--shape 64x64x64 --dtype e5m2", ["e5m2", "bf16, f16 or e4m3"]),
        ("--shape 64x64x64 --dtype e4m3 --out-dtype e4m3", ["e4m3", "bf16, f16 or f32"]),
        ("--suite layouts --dtype e4m3", ["the suite layouts", "bf16"]),
        ("--suite fp8 --device sim", ["needs a GPU", "SM model"]),
        ("--suite grouped --shape 1x2x3", ["the suite grouped", "other suites and shapes"]),
        ("--suite epilogue,llm", ["the suite epilogue", "other suites and shapes"]),
        ("--suite grouped --dtype f16", ["the suite grouped", "bf16"]),
        ("--suite epilogue --dtype e4m3", ["the suite epilogue", "bf16"]),
        ("--suite epilogue --out-dtype f32", ["the suite epilogue", "bf16"]),
        ("--suite grouped --all-instances", ["the suite grouped", "omit it"]),
        ("--suite epilogue --record x.jsonl", ["no --record", "omit it"]),
        ("--suite layouts --isolated", ["no --isolated", "omit it"]),
        ("--suite grouped --only 7x7x", ["--only 7x7x", "none of the 8 products"]),
        ("--suite grouped --device sim", ["needs a GPU", "SM model"]),
        ("--suite epilogue --device sim", ["needs a GPU", "SM model"]),
        ("--suite epilogue --shape 64x64x64 --device sim", ["needs a GPU", "SM model"]),
        (
            "--suite epilogue --shape 64x64x64 --only 7x7x",
            ["--only 7x7x", "none of the 2 products"],
        ),
    ] {
        let all: Vec<&str> = std::iter::once("bench").chain(options.split(' ')).collect();
        refused(&all, &words);
    }
}
