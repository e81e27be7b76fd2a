//! Device builds of the fixture crates: what the PTX must and must not say.

use isa::kernel::{Code, Image, KernelCode};
use kernel_build::{
    DeviceImage, Error, KernelBuilder, PtxasCheck,
    ptx::{KernelPtx, canonical},
    ptxas::Ptxas,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A build of `tests/fixtures/<name>` into a folder of its own. All share the nested target folder
/// inside cargo's, so `core` is compiled once.
fn fixture(name: &str, out: &str) -> KernelBuilder {
    let out_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device").join(out);
    KernelBuilder::new(folder(name)).out_dir(out_dir).ptxas(PtxasCheck::Off)
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The body of a PTX function.
fn function<'a>(ptx: &'a str, name: &str) -> &'a str {
    let at = ptx.find(&format!(".entry {name}(")).unwrap_or_else(|| panic!("no entry {name}"));
    let body = &ptx[at..];
    &body[..body.find("\n}").expect("a closing brace")]
}

fn count(image: &DeviceImage, kernel: &str, instruction: &str) -> usize {
    let of_one = function(&image.ptx, kernel);
    of_one.lines().filter(|line| line.trim_start().starts_with(instruction)).count()
}

#[test]
fn a_barrier_stays_one_barrier() {
    let image = fixture("convergence", "marked").build().unwrap();
    assert_eq!(count(&image, "in_assembly", "bar.sync"), 1, "{}", image.ptx);
    assert_eq!(count(&image, "as_intrinsic", "bar"), 1, "{}", image.ptx);
    assert_eq!(count(&image, "behind_a_call", "call"), 1, "{}", image.ptx);
}

/// What the mark is for; and the proof that the test above can fail.
#[test]
fn without_the_mark_it_is_duplicated() {
    let image = fixture("convergence", "unmarked").without_convergence().build().unwrap();
    assert_eq!(count(&image, "in_assembly", "bar.sync"), 2, "{}", image.ptx);
    assert_eq!(count(&image, "behind_a_call", "call"), 2, "{}", image.ptx);
    // LLVM's own table says that its barrier is convergent: intrinsics need no mark.
    assert_eq!(count(&image, "as_intrinsic", "bar"), 1, "{}", image.ptx);
}

#[test]
fn metadata_becomes_directives_and_param_space() {
    let image = fixture("launch", "launch").build().unwrap();
    let everything = function(&image.ptx, "everything");
    for line in [
        ".param .align 64 .b8 everything_param_0[128],",
        ".param .align 4 .b8 everything_param_1[12],",
        ".param .align 8 .b8 everything_param_2[16]",
        ".maxntid 128, 1, 1",
        ".minnctapersm 2",
        ".reqnctapercluster 2, 1, 1",
        "cvta.param.u64",
        "prefetch.tensormap",
    ] {
        assert!(everything.contains(line), "no `{line}` in\n{everything}");
    }
    // The map's address is that of the parameter, not of a copy.
    assert!(!everything.contains(".local"), "{everything}");
    assert!(image.ptx.contains(".extern .shared .align 1024 .b8 dynamic_shared[];"));
    assert!(!image.ptx.contains("__warpipe_kernel_"), "{}", image.ptx);

    let kernel = &image.kernels[0];
    assert_eq!((kernel.name.as_str(), kernel.threads, kernel.min_ctas), ("everything", 128, 2));
    assert_eq!((kernel.cluster, kernel.smem_bytes, kernel.params.len()), ([2, 1, 1], 4096, 3));
    assert_eq!((kernel.params[0].box_rows, kernel.params[0].swizzle_bytes), (128, 128));
    assert_eq!(image.bare_kernels, ["bare"]);
    assert!(image.warnings.iter().any(|w| w.contains("kernel bare has no metadata")));
    assert!(!function(&image.ptx, "bare").contains(".maxntid"));
    let rust = fs::read_to_string(&image.rust_path).unwrap();
    assert!(rust.contains("name64(\"everything\")") && rust.contains("smem_bytes: 4096"), "{rust}");
}

#[test]
fn features_reach_the_kernel_crate() {
    let image = fixture("launch", "wide").feature("wide").build().unwrap();
    assert_eq!(image.kernels[0].threads, 384);
    assert!(function(&image.ptx, "everything").contains(".maxntid 384, 1, 1"));
}

#[test]
fn a_compile_error_shows_rustcs_words() {
    let error = fixture("broken", "broken").build().unwrap_err();
    assert!(matches!(error, Error::Compile { .. }));
    let text = error.to_string();
    assert!(text.starts_with("the kernel crate fixture_broken does not compile for sm_90a:\n"));
    for part in
        ["error[E0308]: mismatched types", "src/lib.rs:12:22", "let count: u32 = \"three\";"]
    {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn warnings_are_not_lost() {
    for run in ["built", "fresh"] {
        let image = fixture("warns", "warns").build().unwrap();
        let warnings = image.warnings.join("\n");
        assert!(warnings.contains("unused variable: `forgotten`"), "{run}: {warnings}");
    }
}

#[test]
fn a_crate_without_kernels_is_an_empty_image() {
    let image = fixture("empty", "empty").ptxas(PtxasCheck::Strict).build().unwrap();
    assert!(image.kernels.is_empty() && image.bare_kernels.is_empty());
    assert!(image.modules.is_empty());
    assert_eq!(image.ptx, "");
    assert!(
        fs::read_to_string(&image.rust_path)
            .unwrap()
            .contains("KERNELS: &[KernelMeta] = &[\n    ];")
    );
}

#[test]
fn ptxas_finds_an_array_in_local_memory() {
    if Ptxas::find().unwrap().is_none() {
        let image = fixture("stack", "stack").ptxas(PtxasCheck::Strict).build().unwrap();
        assert!(
            image.ptxas.is_none() && image.warnings.iter().any(|w| w.contains("no ptxas found"))
        );
        return;
    }
    let error = fixture("stack", "stack").ptxas(PtxasCheck::Strict).build().unwrap_err();
    assert!(matches!(error, Error::Ptxas { .. }));
    let line = "kernel stack: 256 bytes stack; expected 0; at src/lib.rs:17, src/lib.rs:20\n";
    assert!(error.to_string().contains(line), "{error}");
    assert!(error.to_string().contains("17 |             table[at] += i;\n"), "{error}");
    let image = fixture("stack", "stack").ptxas(PtxasCheck::Warn).build().unwrap();
    assert!(image.warnings.iter().any(|w| w.contains("stack: 256 bytes stack")));
    assert_eq!(image.ptxas.unwrap().1.kernels[0].stack, 256);
}

/// ptxas names a line of the PTX at best; the error names the line of Rust, and quotes it.
#[test]
fn a_fault_names_the_line_of_rust() {
    if Ptxas::find().unwrap().is_none() {
        println!("no ptxas: skipped");
        let required = std::env::var_os("WARPIPE_REQUIRE_PTXAS").is_some_and(|value| value == "1");
        assert!(!required, "WARPIPE_REQUIRE_PTXAS=1: no ptxas");
        return;
    }
    let source = fs::read_to_string(folder("faults").join("src/lib.rs")).unwrap();
    let error = fixture("faults", "faults").ptxas(PtxasCheck::Strict).build().unwrap_err();
    assert!(matches!(error, Error::Ptxas { .. }));
    let text = error.to_string();
    // The fault of a kernel, up to the next one.
    let faults = text.split("\n  kernel ").skip(1);
    let faults: Vec<(&str, &str)> = faults.filter_map(|fault| fault.split_once(": ")).collect();
    for (kernel, what, line) in [
        ("changes_a_sum", "ptxas adds a wait for wgmmas (C7517)", "sum[2] *= 0.5;"),
        ("changes_an_input", "wgmmas are serialised (C7513)", "fragment[1] += i;"),
        (
            "lacks_a_fence",
            "a wgmma.fence is missing, so ptxas adds one (C7519)",
            "wgmma::mma(&mut sum, slot);",
        ),
        (
            "reads_a_sum",
            "ptxas adds a wait for wgmmas (C7517)",
            "unsafe { *out.add(i as usize) = sum[0] };",
        ),
        ("spills", "bytes of spill stores", "b[i] = out.add(160 + i).read_volatile();"),
    ] {
        let number = source.lines().position(|text| text.trim() == line).unwrap() + 1;
        let right = format!("at src/lib.rs:{number}");
        let named = |(name, fault): &&(&str, &str)| *name == kernel && fault.contains(what);
        let Some((_, fault)) = faults.iter().find(named) else { panic!("{kernel}: {text}") };
        assert!(fault.contains(&right) && fault.contains(line), "{kernel}, {right}: {text}");
    }
    // What is inlined from another package is not the line that is named.
    assert!(text.contains("= inlined there: wgmma/src/lib.rs:"), "{text}");
}

/// The module of a kernel.
fn module<'a>(image: &'a DeviceImage, kernel: &str) -> &'a str {
    &image.modules.iter().find(|module| module.kernel == kernel).expect(kernel).text
}

#[test]
fn each_kernel_is_a_module_with_what_it_needs() {
    let image = fixture("convergence", "modules").build().unwrap();
    assert_eq!(image.modules.len(), 3);
    for KernelPtx { kernel, text } in &image.modules {
        assert!(text.contains(".version 8.3\n.target sm_90a\n.address_size 64"), "{text}");
        let of_image = canonical(function(&image.ptx, kernel));
        assert_eq!(canonical(function(text, kernel)), of_image);
        assert_eq!(text, &canonical(text));
        assert_eq!(text.matches(".entry").count(), 1, "{text}");
        let functions = usize::from(kernel == "behind_a_call");
        assert_eq!(text.matches(".func").count(), functions, "{text}");
    }
    let image = fixture("launch", "modules-launch").line_info(true).build().unwrap();
    assert!(
        module(&image, "everything").contains(".extern .shared .align 1024 .b8 dynamic_shared[];")
    );
    assert!(!module(&image, "bare").contains("dynamic_shared"));
    assert!(module(&image, "bare").contains(".file"));
}

#[test]
fn each_module_assembles() {
    for name in ["convergence", "launch"] {
        let out = format!("assembles-{name}");
        let image = fixture(name, &out).line_info(true).ptxas(PtxasCheck::Strict).build().unwrap();
        let Some((_, report)) = image.ptxas else { return };
        let seen: Vec<_> = report.kernels.iter().map(|usage| &usage.kernel).collect();
        let modules: Vec<_> = image.modules.iter().map(|module| &module.kernel).collect();
        assert_eq!(seen, modules, "each is seen by ptxas, once");
    }
}

/// What `isa` unpacks is what was packed.
#[test]
fn the_embedded_code_is_the_modules() {
    let image = fixture("convergence", "embedded").build().unwrap();
    let data: &'static [u8] = fs::read(&image.code_path).unwrap().leak();
    let rust = fs::read_to_string(&image.rust_path).unwrap();
    let code_of = |KernelPtx { kernel, .. }: &KernelPtx| {
        // `code("kernel", bytes, at, len, dictionary),`
        let (_, rest) = rust.split_once(&format!("code({kernel:?}, ")).expect("the kernel's line");
        let mut fields = rest[..rest.find("),\n").expect("its end")].split(", ");
        let [bytes, at, len] = [(); 3].map(|()| fields.next().unwrap().parse::<usize>().unwrap());
        let dictionary = fields
            .next()
            .unwrap()
            .strip_prefix("Some(\"")
            .map(|d| &*d[..d.len() - 2].to_owned().leak());
        assert!(2 * len < bytes, "{kernel}: {bytes} bytes became {len}");
        let code = Code::Brotli { bytes, data: &data[at..at + len], dictionary };
        KernelCode { kernel: kernel.clone().leak(), code }
    };
    let code = image.modules.iter().map(code_of).collect::<Vec<_>>().leak();
    let embedded =
        Image { name: "test", arch: "sm_90a", code, kernels: &[], ptxas: None, others: &[] };
    for KernelPtx { kernel, text } in &image.modules {
        assert_eq!(&embedded.ptx(kernel).unwrap(), text);
    }
}

#[test]
fn no_crate_and_no_library_are_one_line() {
    let line =
        KernelBuilder::new(folder("absent")).out_dir("unused").build().unwrap_err().to_string();
    assert!(
        line.contains("no kernel crate at") && line.ends_with("there is no Cargo.toml"),
        "{line}"
    );
}

#[test]
fn each_module_describes_its_kernel() {
    let image = fixture("launch", "launch-facts").build().unwrap();
    assert!(!image.kernels.is_empty());
    for module in &image.modules {
        let comments: Vec<&str> = module
            .text
            .lines()
            .filter_map(|line| line.strip_prefix(kernel_build::facts::PREFIX))
            .collect();
        let Some(kernel) = image.kernels.iter().find(|kernel| kernel.name == module.kernel) else {
            assert!(comments.is_empty(), "{}", module.kernel);
            continue;
        };
        let [comment] = comments[..] else { panic!("{}: {comments:?}", module.kernel) };
        let facts: serde_json::Value = serde_json::from_str(comment).unwrap();
        assert_eq!(facts["kernel"], kernel.name.as_str());
        assert_eq!(facts["threads"], kernel.threads);
        let params = facts["params"].as_array().unwrap();
        assert_eq!(params.len(), kernel.params.len());
        // The fixture writes its metadata by hand, without the names that `#[kernel]` adds.
        assert!(params.iter().all(|param| param["name"] == ""), "{comment}");
    }
}

#[test]
fn line_information_is_there_when_asked_for() {
    let plain = fixture("launch", "launch-lines-off").build().unwrap();
    assert!(!plain.ptx.contains(".loc"));
    let lines = fixture("launch", "launch-lines").line_info(true).build().unwrap();
    assert!(function(&lines.ptx, "everything").contains(".loc"), "{}", lines.ptx);
    assert!(lines.ptx.contains("src/lib.rs"), "{}", lines.ptx);
}

/// A kernel crate of which every other line is right.
fn crate_with(name: &str, dependency: &str, first_line: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device").join(name).join("source");
    fs::create_dir_all(dir.join("src")).unwrap();
    let manifest = format!(
        "[workspace]\n[package]\nname = \"{name}\"\nedition = \"2024\"\n[dependencies]\n{dependency}\n"
    );
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    let source = fs::read_to_string(folder("embed/kernels").join("src/lib.rs")).unwrap();
    let (_, rest) = source.split_once("#![feature(abi_ptx)]").unwrap();
    let rest = rest.replace("fixture_helper::answer()", "42");
    fs::write(dir.join("src/lib.rs"), format!("{first_line}\n{rest}")).unwrap();
    // The same versions as here, so that nothing is looked up.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let _ = fs::copy(lock, dir.join("Cargo.lock"));
    dir
}

#[test]
fn a_mistake_with_hundreds_of_errors_is_one_line() {
    const LINE: &str = "#![cfg_attr(target_arch = \"nvptx64\", no_std, feature(abi_ptx))]";
    let build = |name: &str, dependency: &str, first_line: &str| {
        let dir = crate_with(name, dependency, first_line);
        let out = dir.with_file_name("out");
        KernelBuilder::new(dir).out_dir(out).ptxas(PtxasCheck::Off).build()
    };
    let error = build("fixture-half-std", "half = \"2\"", LINE).unwrap_err().to_string();
    assert!(error.starts_with("the kernel crate fixture_half_std depends on half 2."), "{error}");
    assert!(error.contains("default-features = false") && !error.contains('\n'), "{error}");
    for first_line in ["", "#![no_std]"] {
        let error = build("fixture-no-line", "", first_line).unwrap_err().to_string();
        let right = format!(
            "the kernel crate fixture_no_line needs this line at the top of its src/lib.rs: {LINE}"
        );
        assert_eq!(error, right);
    }
    let right = "half = { version = \"2\", default-features = false }";
    assert_eq!(build("fixture-half-right", right, LINE).unwrap().bare_kernels, ["answer"]);
}

/// A copy of the fixture `launch` under the name `fixture-<name>`, so that it can be edited.
fn copy(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device").join(name).join("source");
    fs::create_dir_all(dir.join("src")).unwrap();
    for file in ["Cargo.toml", "Cargo.lock", "src/lib.rs"] {
        let text = fs::read_to_string(folder("launch").join(file)).unwrap();
        fs::write(dir.join(file), text.replace("fixture-launch", &format!("fixture-{name}")))
            .unwrap();
    }
    dir
}

/// cargo keeps the outputs of both settings and finds each fresh; the LLVM module is only one.
#[test]
fn going_back_to_an_older_setting_gives_its_module() {
    let dir = copy("back");
    let manifest = dir.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let build = || {
        let out = dir.with_file_name("out");
        KernelBuilder::new(&dir).out_dir(out).ptxas(PtxasCheck::Off).build().unwrap().kernels[0]
            .threads
    };
    assert_eq!(build(), 128);
    fs::write(&manifest, text.replace("[features]", "[features]\ndefault = [\"wide\"]")).unwrap();
    assert_eq!(build(), 384);
    fs::write(&manifest, &text).unwrap();
    assert_eq!(build(), 128);
}

#[test]
fn nothing_is_rebuilt_when_nothing_changed() {
    let dir = copy("copy");
    let out = dir.with_file_name("out");
    let build = || {
        KernelBuilder::new(&dir)
            .out_dir(&out)
            .keep_intermediate(true)
            .ptxas(PtxasCheck::Off)
            .build()
            .unwrap()
    };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("kernel-build");
    let modules = || {
        let mut modules = Vec::new();
        for entry in fs::read_dir(&target).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("fixture_copy-") {
                for file in ["module.ll", "kernels/everything.opt.ll", "kernels/everything.ptx"] {
                    let path = entry.path().join(file);
                    modules.push((path.clone(), fs::metadata(path).unwrap().modified().unwrap()));
                }
            }
        }
        modules.sort();
        modules
    };
    let first = build();
    let before = modules();
    assert!(!before.is_empty());
    assert_eq!(build().ptx, first.ptx);
    assert_eq!(modules(), before);

    let source = fs::read_to_string(dir.join("src/lib.rs")).unwrap();
    fs::write(dir.join("src/lib.rs"), source.replace("= params.scale", "= 2.0 * params.scale"))
        .unwrap();
    assert_ne!(build().ptx, first.ptx);
    assert_ne!(modules(), before);
}
