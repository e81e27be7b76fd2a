//! Image files: PTX text, or the Rust expression and the compressed code that `kernel-build` writes.

use crate::{Error, ptx};
use std::fs;
use std::path::Path;

/// Most bytes of PTX that a kernel of an image may have.
const MOST: usize = 1 << 28;

/// A kernel and its PTX module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// Entry name.
    pub kernel: String,
    /// PTX text.
    pub ptx: String,
}

/// Reads the kernels of a file: PTX, or `NAME.rs` as `kernel-build` writes it, with `NAME.br` beside it.
///
/// # Errors
/// [`Error`] if the file can't be read, is neither of the two, or has no kernel.
pub fn read(path: &Path) -> Result<Vec<Module>, Error> {
    let fault = |what: String| Error::Image { path: path.to_owned(), what };
    let bytes = fs::read(path).map_err(Error::io("cannot read", path))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| fault("not a PTX text, and not the .rs file of an image".to_owned()))?;
    let modules = if text.contains("KernelCode") && text.contains("include_bytes!") {
        let beside = path.with_extension("br");
        let code = fs::read(&beside).map_err(Error::io("cannot read", &beside))?;
        of_image(&text, &code).map_err(fault)?
    } else if text.contains(".version") && text.contains(".target") {
        let split = kernel_build::ptx::split(&text)?;
        split.into_iter().map(|m| Module { kernel: m.kernel, ptx: m.text }).collect()
    } else {
        return Err(fault("not a PTX text, and not the .rs file of an image".to_owned()));
    };
    if modules.is_empty() {
        return Err(fault("it has no kernel".to_owned()));
    }
    Ok(modules)
}

/// The modules of an image's Rust expression: a line `code("name", bytes, at, len, dictionary),` for each kernel. The
/// dictionary is `None` or `Some("name")`, a kernel of an earlier line.
fn of_image(rust: &str, code: &[u8]) -> Result<Vec<Module>, String> {
    let mut modules: Vec<Module> = Vec::new();
    for line in rust.lines() {
        let Some(inner) = line.trim().strip_prefix("code(").and_then(|l| l.strip_suffix("),"))
        else {
            continue;
        };
        let unknown = || format!("a kernel of unknown form: {line}");
        let fields: Vec<&str> = inner.split(", ").collect();
        let [name, bytes, at, len, dictionary] = fields[..] else { return Err(unknown()) };
        let numbers = [bytes, at, len].map(|number| number.parse().map_err(|_| unknown()));
        let [bytes, at, len]: [Result<usize, String>; 3] = numbers;
        let (name, bytes, at, len) = (name.trim_matches('"'), bytes?, at?, len?);
        let packed = at.checked_add(len).and_then(|end| code.get(at..end)).ok_or_else(|| {
            format!("kernel {name} has bytes {at} to {at} + {len}, its .br has {}", code.len())
        })?;
        let dictionary = match dictionary {
            "None" => "",
            some => {
                let other = some.strip_prefix("Some(\"").and_then(|d| d.strip_suffix("\")"));
                let other = other.ok_or_else(unknown)?;
                let found = modules.iter().find(|module| module.kernel == other);
                found
                    .ok_or_else(|| {
                        format!("kernel {name} needs kernel {other}, which is not before it")
                    })?
                    .ptx
                    .as_str()
            }
        };
        let ptx = isa::kernel::unpack(packed, bytes.min(MOST), dictionary)
            .map_err(|e| format!("kernel {name}: its PTX is damaged: {e}"))?;
        if ptx::Header::find(&ptx, name).is_err() {
            return Err(format!("kernel {name}: its PTX has no such entry"));
        }
        modules.push(Module { kernel: name.to_owned(), ptx });
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str =
        ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";

    #[test]
    fn a_kernel_comes_back_from_either_form() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image.ptx");
        fs::write(&path, PTX).unwrap();
        let text = read(&path).unwrap();
        assert_eq!(text.len(), 1);
        assert_eq!((text[0].kernel.as_str(), text[0].ptx.trim_end()), ("k", PTX.trim_end()));

        let mut code = Vec::new();
        let how = brotli::enc::BrotliEncoderParams::default();
        brotli::BrotliCompress(&mut PTX.as_bytes(), &mut code, &how).unwrap();
        let rust = format!(
            "use KernelCode;\ninclude_bytes!(\"x\");\n        code(\"k\", {}, 0, {}, None),\n",
            PTX.len(),
            code.len()
        );
        let path = dir.path().join("image.rs");
        fs::write(&path, &rust).unwrap();
        fs::write(dir.path().join("image.br"), &code).unwrap();
        assert_eq!(read(&path).unwrap(), [Module { kernel: "k".into(), ptx: PTX.into() }]);
        for (dictionary, says) in [
            ("Some(\"other\")", "kernel k needs kernel other, which is not before it"),
            ("Other", "a kernel of unknown form"),
        ] {
            fs::write(&path, rust.replace("None", dictionary)).unwrap();
            let line = read(&path).unwrap_err().to_string();
            assert!(line.contains(says) && !line.contains('\n'), "{line}");
        }
        fs::write(&path, &rust).unwrap();
        fs::write(dir.path().join("image.br"), &code[..code.len() - 1]).unwrap();
        let line = read(&path).unwrap_err().to_string();
        assert!(line.contains("kernel k has bytes 0 to 0 +"), "{line}");
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let says = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(
            says("a", b"fn main() {}")
                .ends_with("not a PTX text, and not the .rs file of an image")
        );
        assert!(
            says("b", b"\xff\xfe").ends_with("not a PTX text, and not the .rs file of an image")
        );
        assert!(says("c", b".version 8.3\n.target sm_90a\n").ends_with("it has no kernel"));
        let line = says("d", b"KernelCode include_bytes! \n code(\"k\", 1, x, 3, None),\n");
        assert!(line.contains("cannot read") && line.contains("d.br"), "{line}");
        let line = read(&dir.path().join("absent")).unwrap_err().to_string();
        assert!(line.starts_with("cannot read") && !line.contains('\n'), "{line}");
    }
}
