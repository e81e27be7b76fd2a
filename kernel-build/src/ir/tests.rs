//! The pass on snippets of IR.

use super::*;
use crate::meta;

const ON: Options = Options { convergent: true };
const OFF: Options = Options { convergent: false };

/// The pass on a function's body.
fn body(text: &str) -> String {
    let source = format!("define void @f() {{\nstart:\n  {text}\n  ret void\n}}\n");
    let marked = mark(&source, ON).unwrap().text;
    let inside = marked.strip_prefix("define void @f() convergent {\nstart:\n  ").unwrap();
    inside.strip_suffix("\n  ret void\n}\n").unwrap().to_owned()
}

/// `before` as it must come out, with `^` where the mark is expected.
#[track_caller]
fn marks(text: &str) {
    assert_eq!(body(&text.replace('^', "")), text.replace('^', " convergent"));
}

#[test]
fn calls_with_and_without_attributes_and_metadata() {
    marks("call void @g()^");
    marks("call void @g()^ #3");
    marks("call void @g()^, !dbg !7");
    marks("%1 = call noundef i32 @g(i32 noundef %x, ptr align 8 %p)^ #3, !srcloc !2, !dbg !9");
    marks("call void @g()^ nounwind memory(none) \"k\"=\"v(\"");
    marks("call void @g()^ [ \"deopt\"(i32 1), \"x\"(ptr @h) ]");
}

#[test]
fn prefixes_conventions_and_return_attributes() {
    marks("%a = tail call fastcc noundef zeroext i1 @g(ptr %p)^");
    marks("musttail call void @g()^");
    marks("notail call void @g()^");
    marks("%r = call nnan ninf float @g(float 1.0e+00)^");
    marks("%r = call range(i8 -1, 2) i8 @g(i8 3)^ #1");
    marks("%r = call dereferenceable(8) align 8 ptr @g()^");
    marks("%r = call { ptr, i64 } @g()^");
    marks("%r = call <{ i8, [3 x i8] }> @g()^");
    marks("%r = call <4 x float> @g(<4 x float> <float 0.0, float 1.0, float 2.0, float 3.0>)^");
    marks("%r = call [3 x i32] @g([3 x i32] zeroinitializer)^");
    marks("%r = call ptr addrspace(1) @g()^");
}

#[test]
fn callees_of_every_form() {
    marks("call void @\"<a as b>::c(d)\"(ptr %x)^");
    marks("call void %f(ptr %x)^");
    marks("call void %\"f g\"(ptr %x)^ #1");
    marks("%r = call i32 (ptr, ...) @printf(ptr @s, i32 1)^");
    marks("%r = call i32 (ptr, ...) %f(ptr @s, i32 1)^");
    marks("%r = call %T (i32, ...) @g(i32 1)^");
    marks("%r = call %T (i32, ...) %g(i32 1)^");
    marks("%r = call %T %g(i32 1)^");
    marks("call void inttoptr (i64 16 to ptr)(i32 1)^");
    marks("%r = call i32 (i32, ...) inttoptr (i64 16 to ptr)(i32 1)^ #1");
    marks("%r = call ptr addrspace(1) (i32) @g(i32 1)^");
    marks("call void null(i32 1)^");
    marks("call addrspace(4) void @g()^");
    marks("call void @g(ptr getelementptr (i8, ptr @x, i64 4), metadata !\"a)\")^");
}

#[test]
fn inline_assembly() {
    marks("call void asm sideeffect \"bar.sync 0;\", \"~{memory}\"()^, !srcloc !4");
    marks("%0 = call i32 asm \"mov.u32 ${0}, %tid.x;\", \"=&r\"()^ #19, !srcloc !2");
    marks(
        "%0 = call { i32, i32 } asm sideeffect alignstack inteldialect unwind \"a ( \\22;\", \"=r,=r,r\"(i32 %x)^ #1",
    );
    marks(
        "call void asm sideeffect \"prefetch [${0}];\", \"l\"(ptr getelementptr (i8, ptr @x, i64 4))^",
    );
    marks("%0 = call i32 (i32) asm \"x\", \"=r,r\"(i32 1)^");
}

#[test]
fn invoke_and_callbr() {
    marks("invoke void @g()^\n          to label %ok unwind label %bad");
    marks("%r = invoke i32 @g(i32 1)^ #2 to label %ok unwind label %bad, !dbg !1");
    marks("%r = invoke i32 %f(i32 1)^\n          to label %ok unwind label %bad");
    marks("callbr void asm sideeffect \"b %l0\", \"!i\"()^\n          to label %a [label %b]");
}

#[test]
fn what_is_no_call_stays() {
    marks("%call = add i32 %a, %b");
    marks("store i32 0, ptr %call, align 4 ; call void @g()");
    marks("switch i32 %a, label %x [\n    i32 0, label %call\n    i32 1, label %invoke\n  ]");
    marks("br label %x\n\ncall:\n  %a = load i32, ptr @call, align 4");
    marks("#dbg_value(ptr %x, !3, !DIExpression(), !4)");
}

#[test]
fn intrinsics_keep_llvms_own_attributes() {
    marks("call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 8, i1 false)");
    marks("%r = call i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2");
}

#[test]
fn definitions_keep_their_groups_and_get_the_mark() {
    let source = "\
define internal { ptr, i64 } @a(ptr noundef %x, i32 range(i32 0, 2) %y) unnamed_addr #6 {
  ret { ptr, i64 } undef
}
define void @\"b(c\"(...) local_unnamed_addr addrspace(1) #1 align 4 personality ptr @p !dbg !3 {
  ret void
}
define hidden fastcc noundef range(i8 0, 2) i8 @c() prefix { i32 } { i32 1 } {
  ret i8 0
}
";
    let marked = mark(source, ON).unwrap().text;
    let heads: Vec<_> = marked.lines().filter(|line| line.starts_with("define")).collect();
    assert_eq!(
        heads,
        [
            "define internal { ptr, i64 } @a(ptr noundef %x, i32 range(i32 0, 2) %y) unnamed_addr convergent #6 {",
            "define void @\"b(c\"(...) local_unnamed_addr addrspace(1) convergent #1 align 4 personality ptr @p !dbg !3 {",
            "define hidden fastcc noundef range(i8 0, 2) i8 @c() convergent prefix { i32 } { i32 1 } {",
        ]
    );
}

#[test]
fn everything_outside_functions_stays() {
    let source = "\
; ModuleID = 'x'
source_filename = \"x\"
module asm \".extern .shared .align 1024 .b8 call[];\"
%T = type { i32 }
$call = comdat any
@s = constant [4 x i8] c\"call\", align 1
declare void @llvm.trap() #3
declare i32 @vprintf(ptr, ptr) unnamed_addr #4
attributes #3 = { cold noreturn \"call\"=\"call void @g()\" }
!0 = !{!\"call void @g()\", i32 1}
!1 = distinct !DISubprogram(name: \"call\", scope: null, spFlags: DISPFlagDefinition | DISPFlagOptimized)
";
    assert_eq!(mark(source, ON).unwrap().text, source);
}

/// Bytes as LLVM may write them in a string.
fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, b| text + &format!("\\{b:02X}"))
}

/// A module with one kernel of that head and this metadata.
fn kernel(head: &str, meta: &[u8]) -> String {
    let escaped = escape(meta);
    format!(
        "@__warpipe_kernel_k = constant [{} x i8] c\"{escaped}\", align 4\n\
         @llvm.used = appending global [1 x ptr] [ptr @__warpipe_kernel_k], section \"llvm.metadata\"\n\
         define ptx_kernel void @k({head}) unnamed_addr #2 {{\n  call void @g()\n  ret void\n}}\n",
        meta.len()
    )
}

const TENSOR_MAP: [u32; 8] = [3, 128, 64, 1, 128, 64, 128, 2];
const VALUE: [u32; 8] = [1, 4, 4, 0, 0, 0, 0, 0];

#[test]
fn metadata_becomes_attributes_and_grid_constants() {
    let meta = meta::tests::bytes("k", [384, 1, 2, 1, 1, 2048, 0, 2], &[TENSOR_MAP, VALUE]);
    let marked = mark(
        &kernel("ptr noalias noundef align 64 dereferenceable(128) %a, i32 noundef %n", &meta),
        ON,
    )
    .unwrap();
    assert_eq!(
        marked.text,
        "\n\ndefine ptx_kernel void @k(ptr noundef byval([128 x i8]) align 64 \"nvvm.grid_constant\" %a, \
         i32 noundef %n) unnamed_addr convergent \"nvvm.maxntid\"=\"384,1,1\" \"nvvm.minctasm\"=\"1\" \
         \"nvvm.cluster_dim\"=\"2,1,1\" #2 {\n  call void @g() convergent\n  ret void\n}\n"
    );
    assert_eq!((marked.kernels[0].smem_bytes, marked.kernels[0].params.len()), (2048, 2));
    assert!(marked.bare_kernels.is_empty());
}

#[test]
fn a_struct_is_a_grid_constant_of_its_size() {
    let meta = meta::tests::bytes("k", [32, 1, 1, 1, 1, 0, 0, 1], &[[4, 24, 8, 0, 0, 0, 0, 0]]);
    let marked = mark(&kernel("ptr noundef %a", &meta), ON).unwrap().text;
    let param = "(ptr noundef byval([24 x i8]) align 8 \"nvvm.grid_constant\" %a)";
    assert!(marked.contains(param), "{marked}");
}

#[test]
fn without_convergence_the_attributes_remain() {
    let meta = meta::tests::bytes("k", [64, 1, 1, 1, 1, 0, 0, 0], &[]);
    let marked = mark(&kernel("", &meta), OFF).unwrap().text;
    assert!(marked.contains("\"nvvm.maxntid\"=\"64,1,1\""));
    assert!(!marked.contains("convergent"));
}

#[test]
fn other_used_globals_stay_used() {
    let meta = meta::tests::bytes("k", [64, 1, 1, 1, 1, 0, 0, 0], &[]);
    let source = kernel("", &meta).replace(
        "[1 x ptr] [ptr @__warpipe_kernel_k]",
        "[3 x ptr] [ptr @a, ptr @__warpipe_kernel_k, ptr addrspacecast (ptr addrspace(3) @b to ptr)]",
    );
    let marked = mark(&source, ON).unwrap().text;
    assert!(marked.contains(
        "@llvm.used = appending global [2 x ptr] [ptr @a, ptr addrspacecast (ptr addrspace(3) @b to ptr)], section"
    ));
}

#[test]
fn metadata_in_pieces() {
    let bytes = meta::tests::bytes("k", [64, 1, 1, 1, 1, 0, 0, 0], &[]);
    let head = escape(&bytes[..104]);
    let source = kernel("", &bytes);
    let from = source.find("constant").unwrap();
    let to = source.find(", align 4").unwrap();
    let pieces = format!(
        "constant <{{ [104 x i8], [384 x i8] }}> <{{ [104 x i8] c\"{head}\", [384 x i8] zeroinitializer }}>"
    );
    let marked = mark(&(source[..from].to_owned() + &pieces + &source[to..]), ON).unwrap();
    assert_eq!((marked.kernels[0].name.as_str(), marked.kernels[0].threads), ("k", 64));
}

#[test]
fn disagreements_are_errors() {
    let line = |source: &str| mark(source, ON).unwrap_err().to_string();
    let meta = meta::tests::bytes("k", [64, 1, 1, 1, 1, 0, 0, 2], &[TENSOR_MAP, VALUE]);
    assert_eq!(
        line(&kernel("ptr %a", &meta)),
        "kernel k: its metadata names 2 parameters, the function has 1"
    );
    assert_eq!(
        line(&kernel("i64 noundef %a, i32 %b", &meta)),
        "kernel k: parameter 0 is a tensor map and must be a pointer, it is `i64 noundef %a`"
    );
    let other = meta::tests::bytes("other", [64, 1, 1, 1, 1, 0, 0, 0], &[]);
    assert!(line(&kernel("", &other)).contains("kernel other: there is metadata, and no"));
    let not_a_kernel = kernel("ptr %a, i32 %b", &meta).replace("ptx_kernel ", "");
    assert!(line(&not_a_kernel).contains("no extern \"ptx-kernel\" function"));
    let twice = kernel("ptr %a, i32 %b", &meta);
    let twice =
        format!("{}\n{}", twice.lines().next().unwrap().replace("kernel_k", "kernel_l"), twice);
    assert!(line(&twice).contains("two metadata constants"));
}

#[test]
fn unknown_forms_are_errors_with_their_line() {
    let line = |body: &str| {
        mark(&format!("define void @f() {{\n{body}\n}}\n"), ON).unwrap_err().to_string()
    };
    assert_eq!(line("  ret void\n  call void"), "LLVM IR, line 3: a call of unknown form");
    assert_eq!(
        line("  call void asm \"x\"(i32 1)"),
        "LLVM IR, line 2: inline assembly of unknown form"
    );
    let open = mark("define void @f() {\n  ret void\n", ON).unwrap_err().to_string();
    assert_eq!(open, "LLVM IR, line 1: a function body that does not end");
}

#[test]
fn kernels_without_metadata_are_named() {
    let marked = mark("define ptx_kernel void @z() {\n  ret void\n}\n", ON).unwrap();
    assert_eq!(marked.bare_kernels, ["z"]);
    assert_eq!(marked.entries().collect::<Vec<_>>(), ["z"]);
}

#[test]
fn an_empty_module_stays_empty() {
    let marked = mark("", ON).unwrap();
    assert_eq!((marked.text.as_str(), marked.entries().count()), ("", 0));
}

#[test]
fn variables_are_what_can_change() {
    let source = "\
@a.b = internal unnamed_addr constant [9 x i8] c\"a global!\", align 1
@COUNT.0 = internal unnamed_addr addrspace(1) global i32 0, align 4
@\"odd name\" = external global i8
@dyn = external addrspace(3) global [0 x i8], align 16
define void @f() {
  ret void
}
";
    assert_eq!(variables(source), ["COUNT_$_0", "odd name"]);
}
