//! A device image: the facts of its kernels, and each kernel's code by itself.
//!
//! A driver assembles all of the PTX that it is given before it launches any of it, and a GEMM kernel
//! takes it a good part of a second. So an image is not one module but one per kernel, and a program
//! waits for the kernels that it runs.

use super::KernelMeta;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::borrow::Cow;

/// A device image that `kernel-build` wrote: the code and the facts of each kernel.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// The crate it was built from.
    pub name: &'static str,
    /// Target, as PTX spells it: `sm_90a`.
    pub arch: &'static str,
    /// Each kernel's code, a module by itself.
    pub code: &'static [KernelCode],
    /// The kernels in it, in the order of their names.
    pub kernels: &'static [KernelMeta],
    /// Version of the ptxas that checked it at build time, if one was found.
    pub ptxas: Option<&'static str>,
}

/// The code of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelCode {
    /// Entry name in PTX.
    pub kernel: &'static str,
    /// The module that defines the entry and everything that it refers to.
    pub code: Code,
}

/// A form of code.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Code {
    /// PTX text.
    Ptx(&'static str),
    /// PTX text in DEFLATE (RFC 1951).
    Deflated {
        /// Bytes of the text.
        bytes: usize,
        /// What it inflates from.
        data: &'static [u8],
    },
}

/// Why an image does not give a kernel's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// There is none.
    #[error("image {image} has no code for kernel {kernel}; it has code for {have} kernels")]
    NoCode {
        /// The image's name.
        image: &'static str,
        /// The kernel.
        kernel: String,
        /// How many kernels have code.
        have: usize,
    },
    /// It does not inflate to the text that was deflated.
    #[error("image {image}, kernel {kernel}: its PTX is damaged: {what}")]
    Damaged {
        /// The image's name.
        image: &'static str,
        /// The kernel.
        kernel: String,
        /// What was found, and what would be right.
        what: String,
    },
}

impl Image {
    /// The PTX module of a kernel.
    ///
    /// # Errors
    /// [`ImageError`].
    pub fn ptx(&self, kernel: &str) -> Result<Cow<'static, str>, ImageError> {
        let Some(found) = self.code.iter().find(|code| code.kernel == kernel) else {
            let have = self.code.len();
            return Err(ImageError::NoCode { image: self.name, kernel: kernel.into(), have });
        };
        found.code.ptx().map_err(|what| ImageError::Damaged {
            image: self.name,
            kernel: kernel.into(),
            what,
        })
    }

    /// Bytes of code in the program.
    pub fn code_bytes(&self) -> usize {
        self.code.iter().map(|code| code.code.bytes()).sum()
    }
}

impl Code {
    /// Bytes in the program.
    fn bytes(&self) -> usize {
        match self {
            Self::Ptx(text) => text.len(),
            Self::Deflated { data, .. } => data.len(),
        }
    }

    /// The text, or what is wrong with it.
    fn ptx(&self) -> Result<Cow<'static, str>, String> {
        let (bytes, data) = match *self {
            Self::Ptx(text) => return Ok(Cow::Borrowed(text)),
            Self::Deflated { bytes, data } => (bytes, data),
        };
        let text = decompress_to_vec_with_limit(data, bytes).map_err(|e| e.to_string())?;
        if text.len() != bytes {
            return Err(format!("{} bytes, expected {bytes}", text.len()));
        }
        String::from_utf8(text).map(Cow::Owned).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.version 8.0` in a stored block: its length, the complement of that, the bytes.
    const STORED: &[u8] = b"\x01\x0c\x00\xf3\xff.version 8.0";

    fn image(code: Code) -> Image {
        let code = Box::leak(Box::new([KernelCode { kernel: "gemm", code }]));
        Image { name: "test", arch: "sm_90a", code, kernels: &[], ptxas: None }
    }

    #[test]
    fn text_comes_back_from_either_form() {
        for code in [Code::Ptx(".version 8.0"), Code::Deflated { bytes: 12, data: STORED }] {
            assert_eq!(image(code).ptx("gemm").unwrap(), ".version 8.0");
        }
        assert_eq!(image(Code::Ptx(".version 8.0")).code_bytes(), 12);
        assert_eq!(image(Code::Deflated { bytes: 12, data: STORED }).code_bytes(), 17);
    }

    #[test]
    fn damage_and_absence_are_one_line() {
        let whole = Code::Deflated { bytes: 12, data: STORED };
        assert_eq!(
            image(whole).ptx("other").unwrap_err().to_string(),
            "image test has no code for kernel other; it has code for 1 kernels"
        );
        let said = |bytes, data| image(Code::Deflated { bytes, data }).ptx("gemm").unwrap_err();
        assert_eq!(
            said(13, STORED).to_string(),
            "image test, kernel gemm: its PTX is damaged: 12 bytes, expected 13"
        );
        for (bytes, data) in [(11, STORED), (12, &STORED[..16]), (12, b"\xff"), (12, b"")] {
            let line = said(bytes, data).to_string();
            assert!(line.starts_with("image test, kernel gemm: its PTX is damaged: "), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
