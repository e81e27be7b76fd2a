//! A device image: the metadata of its kernels, and a PTX module for each kernel.
//!
//! The driver assembles a whole PTX module before it launches any kernel of it, and a GEMM kernel takes a
//! considerable part of a second. With a module for each kernel, a program waits only for the kernels that
//! it runs.
//!
//! An image may have code for several architectures, as a fat binary has. The kernels need not be the same ones.

use super::KernelMeta;
use brotli_decompressor::Decompressor;
use std::borrow::Cow;
use std::io::Read;

/// Bytes that are unpacked at a time.
const BUFFER: usize = 1 << 14;
/// Most texts that are unpacked, one as the dictionary of the next, before that of a kernel.
pub const MOST_DICTIONARIES: u32 = 2;

/// A device image that `kernel-build` wrote: code and metadata of each kernel.
///
/// A device takes the part that is for it ([`Image::part`]), and has the kernels of this part alone.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Name of the kernel crate.
    pub name: &'static str,
    /// PTX target of `code` and `kernels`, `sm_90a`.
    pub arch: &'static str,
    /// A module for each kernel.
    pub code: &'static [KernelCode],
    /// The kernels for `arch`, in the order of their names.
    pub kernels: &'static [KernelMeta],
    /// Version of the ptxas that checked the image at build time, if there was one.
    pub ptxas: Option<&'static str>,
    /// The parts for other architectures. They have no parts of their own.
    pub others: &'static [Self],
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
    /// PTX text in Brotli (RFC 7932).
    Brotli {
        /// Bytes of the text.
        bytes: usize,
        /// The compressed bytes.
        data: &'static [u8],
        /// The kernel of the image whose text is the dictionary (RFC 9841, raw LZ77 dictionary): the texts of kernels
        /// that differ in a type are nearly the same.
        dictionary: Option<&'static str>,
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
    /// The compressed bytes do not unpack to the original text.
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
        self.unpacked(kernel, MOST_DICTIONARIES)
    }

    /// [`Image::ptx`] of a kernel whose text needs at most `dictionaries` others, one after the other.
    fn unpacked(&self, kernel: &str, dictionaries: u32) -> Result<Cow<'static, str>, ImageError> {
        let Some(found) = self.code.iter().find(|code| code.kernel == kernel) else {
            let have = self.code.len();
            return Err(ImageError::NoCode { image: self.name, kernel: kernel.into(), have });
        };
        let damaged = |what| ImageError::Damaged { image: self.name, kernel: kernel.into(), what };
        let (bytes, data, dictionary) = match found.code {
            Code::Ptx(text) => return Ok(Cow::Borrowed(text)),
            Code::Brotli { bytes, data, dictionary } => (bytes, data, dictionary),
        };
        let dictionary = match dictionary {
            None => Cow::Borrowed(""),
            Some(_) if dictionaries == 0 => {
                return Err(damaged(format!(
                    "it needs more than {MOST_DICTIONARIES} dictionaries"
                )));
            }
            Some(other) => self.unpacked(other, dictionaries - 1)?,
        };
        unpack(data, bytes, &dictionary).map(Cow::Owned).map_err(damaged)
    }

    /// This image, which is its first part, and the parts for other architectures.
    pub fn parts(&'static self) -> impl Iterator<Item = &'static Self> + Clone {
        std::iter::once(self).chain(self.others)
    }

    /// The part for an architecture, `sm_100a`.
    pub fn part(&'static self, arch: &str) -> Option<&'static Self> {
        self.parts().find(|part| part.arch == arch)
    }

    /// The architectures of the parts, in words: `sm_90a, sm_100a`.
    pub fn archs(&'static self) -> String {
        self.parts().map(|part| part.arch).collect::<Vec<_>>().join(", ")
    }

    /// Bytes of code that the program embeds, for all architectures.
    pub fn code_bytes(&self) -> usize {
        let own: usize = self.code.iter().map(|code| code.code.bytes()).sum();
        own + self.others.iter().map(Self::code_bytes).sum::<usize>()
    }
}

impl Code {
    /// Bytes that the program embeds.
    fn bytes(&self) -> usize {
        match self {
            Self::Ptx(text) => text.len(),
            Self::Brotli { data, .. } => data.len(),
        }
    }
}

/// The text of `bytes` bytes that a module has which was packed with the text `dictionary`, or a message that says what is
/// wrong with it.
///
/// # Errors
/// Bytes that are no Brotli stream, another number of bytes, and bytes that are no UTF-8.
pub fn unpack(packed: &[u8], bytes: usize, dictionary: &str) -> Result<String, String> {
    let mut text = Vec::new();
    // One byte more shows that there is too much.
    let most = (bytes as u64).saturating_add(1);
    let dictionary = dictionary.as_bytes().to_vec().into();
    Decompressor::new_with_custom_dict(packed, BUFFER, dictionary)
        .take(most)
        .read_to_end(&mut text)
        .map_err(|e| e.to_string())?;
    if text.len() != bytes {
        let more = if text.len() as u64 == most { "more than " } else { "" };
        return Err(format!("{more}{} bytes, expected {bytes}", text.len().min(bytes)));
    }
    String::from_utf8(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.version 8.0` as a meta-block of plain bytes (`brotli -q 0`).
    const STORED: &[u8] = b"\x8b\x05\x80.version 8.0\x03";

    fn image(code: Code) -> Image {
        let code = Box::leak(Box::new([KernelCode { kernel: "gemm", code }]));
        Image { name: "test", arch: "sm_90a", code, kernels: &[], ptxas: None, others: &[] }
    }

    #[test]
    fn text_comes_back_from_either_form() {
        for code in
            [Code::Ptx(".version 8.0"), Code::Brotli { bytes: 12, data: STORED, dictionary: None }]
        {
            assert_eq!(image(code).ptx("gemm").unwrap(), ".version 8.0");
        }
        assert_eq!(image(Code::Ptx(".version 8.0")).code_bytes(), 12);
        assert_eq!(
            image(Code::Brotli { bytes: 12, data: STORED, dictionary: None }).code_bytes(),
            16
        );
    }

    #[test]
    fn a_part_is_found_by_its_architecture() {
        static ULTRA: Image = Image { arch: "sm_103a", ..BLACKWELL };
        static FAT: Image = Image { arch: "sm_90a", others: &[BLACKWELL, ULTRA], ..BLACKWELL };
        const BLACKWELL: Image = Image {
            name: "test",
            arch: "sm_100a",
            code: &[KernelCode { kernel: "gemm", code: Code::Ptx(".version 8.6") }],
            kernels: &[],
            ptxas: None,
            others: &[],
        };
        assert_eq!(FAT.archs(), "sm_90a, sm_100a, sm_103a");
        assert_eq!(FAT.code_bytes(), 36);
        for arch in ["sm_90a", "sm_100a", "sm_103a"] {
            assert_eq!(FAT.part(arch).map(|part| part.arch), Some(arch));
        }
        // An architecture with `a` runs on no other one, so that no part stands for another.
        assert!(FAT.part("sm_120a").is_none() && ULTRA.part("sm_90a").is_none());
    }

    #[test]
    fn damage_and_absence_are_one_line() {
        let whole = Code::Brotli { bytes: 12, data: STORED, dictionary: None };
        assert_eq!(
            image(whole).ptx("other").unwrap_err().to_string(),
            "image test has no code for kernel other; it has code for 1 kernels"
        );
        let said = |bytes, data| {
            image(Code::Brotli { bytes, data, dictionary: None }).ptx("gemm").unwrap_err()
        };
        assert_eq!(
            said(13, STORED).to_string(),
            "image test, kernel gemm: its PTX is damaged: 12 bytes, expected 13"
        );
        for (bytes, data) in [(11, STORED), (12, &STORED[..15]), (12, b"\xff"), (12, b"")] {
            let line = said(bytes, data).to_string();
            assert!(line.starts_with("image test, kernel gemm: its PTX is damaged: "), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }

    /// A dictionary that is not there, and dictionaries that need one another.
    #[test]
    fn a_dictionary_that_cannot_be_had_is_one_line() {
        let with = |kernel, dictionary| KernelCode {
            kernel,
            code: Code::Brotli { bytes: 12, data: STORED, dictionary: Some(dictionary) },
        };
        let code = Box::leak(Box::new([with("a", "b"), with("b", "a"), with("c", "absent")]));
        let image =
            Image { name: "test", arch: "sm_90a", code, kernels: &[], ptxas: None, others: &[] };
        let said = |kernel| image.ptx(kernel).unwrap_err().to_string();
        assert_eq!(
            said("a"),
            "image test, kernel a: its PTX is damaged: it needs more than 2 dictionaries"
        );
        assert_eq!(
            said("c"),
            "image test has no code for kernel absent; it has code for 3 kernels"
        );
    }
}
