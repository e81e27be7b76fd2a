//! A device image: the metadata of its kernels, and a PTX module for each kernel.
//!
//! The driver assembles a whole PTX module before it launches any kernel of it, and a GEMM kernel takes a
//! considerable part of a second. With a module for each kernel, a program waits only for the kernels that
//! it runs.

use super::KernelMeta;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::borrow::Cow;

/// A device image that `kernel-build` wrote: code and metadata of each kernel.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Name of the kernel crate.
    pub name: &'static str,
    /// PTX target, `sm_90a`.
    pub arch: &'static str,
    /// A module for each kernel.
    pub code: &'static [KernelCode],
    /// The kernels, in the order of their names.
    pub kernels: &'static [KernelMeta],
    /// Version of the ptxas that checked the image at build time, if there was one.
    pub ptxas: Option<&'static str>,
}

/// The image that the build script's `KernelBuilder` wrote into `OUT_DIR`, by the library name of its kernel crate:
/// an expression of type [`Image`](crate::kernel::Image).
///
/// ```ignore
/// static IMAGE: Image = warpipe_isa::kernel_image!("my_kernels");
/// ```
#[macro_export]
macro_rules! kernel_image {
    ($name:literal) => {{
        #[allow(unused_imports)]
        use $crate as __warpipe_isa;
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"))
    }};
}

/// The code of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelCode {
    /// Entry name in PTX.
    pub kernel: &'static str,
    /// A module with the entry and everything that it refers to.
    pub code: Code,
}

/// The code of a module.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Code {
    /// PTX text.
    Ptx(&'static str),
    /// PTX text in DEFLATE (RFC 1951).
    Deflated {
        /// Bytes of the text.
        bytes: usize,
        /// The compressed bytes.
        data: &'static [u8],
    },
}

/// Why a kernel's code cannot be read from an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The image has no code for the kernel.
    #[error("image {image} has no code for kernel {kernel}; it has code for {have} kernels")]
    NoCode {
        /// The image's name.
        image: &'static str,
        /// The kernel.
        kernel: String,
        /// Number of kernels that have code.
        have: usize,
    },
    /// The compressed bytes do not inflate to the original text.
    #[error("image {image}, kernel {kernel}: its PTX is damaged: {what}")]
    Damaged {
        /// The image's name.
        image: &'static str,
        /// The kernel.
        kernel: String,
        /// What was found, and what was expected.
        what: String,
    },
}

impl Image {
    /// The PTX module of a kernel.
    ///
    /// # Errors
    /// [`ImageError`] if the image has no code for the kernel, or damaged code.
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

    /// Bytes of code that the program embeds.
    pub fn code_bytes(&self) -> usize {
        self.code.iter().map(|code| code.code.bytes()).sum()
    }
}

impl Code {
    /// Bytes that the program embeds.
    fn bytes(&self) -> usize {
        match self {
            Self::Ptx(text) => text.len(),
            Self::Deflated { data, .. } => data.len(),
        }
    }

    /// The PTX text, or a message that says what is wrong with it.
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
