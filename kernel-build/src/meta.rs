//! A kernel's metadata, read from its metadata constant.
//!
//! The layout is the same as in `isa::kernel::KernelMeta`; a test checks that the two are equal. It is
//! repeated here because a build script must not depend on the instruction layer and the SM model.

use crate::Error;
use std::fmt::Write as _;

/// Symbol prefix of the metadata constants.
pub const META_SYMBOL_PREFIX: &str = "__warpipe_kernel_";
/// First bytes of each metadata constant.
pub const META_MAGIC: [u8; 8] = *b"WPKERN03";
/// Entries of the parameter table.
pub const MAX_PARAMS: usize = 12;
/// Bytes of the name field.
const NAME_BYTES: usize = 64;
/// Words of one entry of the parameter table.
const PARAM_WORDS: usize = 8;
/// Words between the name and the parameter table.
const HEAD_WORDS: usize = 8;
/// Bytes of the whole constant.
pub const META_BYTES: usize =
    META_MAGIC.len() + NAME_BYTES + 4 * (HEAD_WORDS + MAX_PARAMS * PARAM_WORDS);

/// `ParamKind::TensorMap`.
pub(crate) const KIND_TENSOR_MAP: u32 = 3;
/// `ParamKind::Struct`.
pub(crate) const KIND_STRUCT: u32 = 4;

/// The metadata of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelMeta {
    /// Entry name in PTX.
    pub name: String,
    /// Threads per CTA.
    pub threads: u32,
    /// CTAs per SM that registers must allow.
    pub min_ctas: u32,
    /// Cluster dimensions in CTAs.
    pub cluster: [u32; 3],
    /// Dynamic shared memory per CTA in bytes.
    pub smem_bytes: u32,
    /// Whether the kernel is a dependent grid (programmatic dependent launch).
    pub dependent: bool,
    /// The parameters in order.
    pub params: Vec<ParamMeta>,
    /// The parameters' names, and what the CTA consists of, as JSON. Empty for a kernel whose metadata has nothing behind it.
    pub facts: String,
}

/// The metadata of a parameter. The fields are those of `isa::kernel::ParamMeta`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParamMeta {
    /// A `ParamKind` as `u32`.
    pub kind: u32,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// A `Dtype` as `u32`, or 0.
    pub dtype: u32,
    /// Rows of a tensor map's box.
    pub box_rows: u32,
    /// Columns of a tensor map's box, in elements.
    pub box_cols: u32,
    /// Span of a tensor map's swizzle in bytes.
    pub swizzle_bytes: u32,
    /// Dimensions of a tensor map.
    pub rank: u32,
}

impl KernelMeta {
    /// Reads the constant's bytes; `symbol` is for the error line.
    pub(crate) fn parse(symbol: &str, bytes: &[u8]) -> Result<Self, Error> {
        let fault = |what: String| Error::Metadata { kernel: symbol.to_owned(), what };
        if bytes.len() != META_BYTES {
            return Err(fault(format!(
                "its metadata has {} bytes, expected {META_BYTES}: isa and kernel-build differ in version",
                bytes.len()
            )));
        }
        let (magic, rest) = bytes.split_at(META_MAGIC.len());
        if magic != META_MAGIC {
            return Err(fault(format!(
                "its metadata begins with {:?}, expected {:?}",
                String::from_utf8_lossy(magic),
                String::from_utf8_lossy(&META_MAGIC)
            )));
        }
        let (name, words) = rest.split_at(NAME_BYTES);
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        let name = String::from_utf8(name.to_vec())
            .map_err(|_| fault("its name is not UTF-8".to_owned()))?;
        let word: Vec<u32> =
            words.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        let [threads, min_ctas, c0, c1, c2, smem_bytes, dependent, param_count] =
            word[..HEAD_WORDS]
        else {
            return Err(fault("its head is cut short".to_owned()));
        };
        if param_count as usize > MAX_PARAMS {
            return Err(fault(format!(
                "{param_count} parameters, at most {MAX_PARAMS} are possible"
            )));
        }
        if !(1..=1024).contains(&threads) {
            return Err(fault(format!("threads = {threads}, expected 1 to 1024")));
        }
        let size = [c0, c1, c2].iter().try_fold(1u32, |size, &c| size.checked_mul(c));
        if !size.is_some_and(|size| (1..=16).contains(&size)) {
            return Err(fault(format!("cluster = ({c0}, {c1}, {c2}), expected 1 to 16 CTAs")));
        }
        let params = word[HEAD_WORDS..]
            .chunks_exact(PARAM_WORDS)
            .take(param_count as usize)
            .map(|w| ParamMeta {
                kind: w[0],
                size: w[1],
                align: w[2],
                dtype: w[3],
                box_rows: w[4],
                box_cols: w[5],
                swizzle_bytes: w[6],
                rank: w[7],
            })
            .collect();
        let (cluster, dependent) = ([c0, c1, c2], dependent != 0);
        let facts = String::new();
        Ok(Self { name, threads, min_ctas, cluster, smem_bytes, dependent, params, facts })
    }

    /// The function attributes that LLVM's NVPTX backend turns into `.maxntid`, `.minnctapersm`
    /// and `.reqnctapercluster`.
    pub(crate) fn attributes(&self) -> String {
        let mut text = format!("\"nvvm.maxntid\"=\"{},1,1\"", self.threads);
        if self.min_ctas > 0 {
            let _ = write!(text, " \"nvvm.minctasm\"=\"{}\"", self.min_ctas);
        }
        // Without the attribute a launch may still set a cluster; with (1, 1, 1) it may not.
        if self.cluster != [1, 1, 1] {
            let [x, y, z] = self.cluster;
            let _ = write!(text, " \"nvvm.cluster_dim\"=\"{x},{y},{z}\"");
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The bytes of a metadata constant.
    pub(crate) fn bytes(
        name: &str,
        head: [u32; HEAD_WORDS],
        params: &[[u32; PARAM_WORDS]],
    ) -> Vec<u8> {
        let mut bytes = META_MAGIC.to_vec();
        bytes.extend(name.bytes());
        bytes.resize(META_MAGIC.len() + NAME_BYTES, 0);
        bytes.extend(head.iter().chain(params.iter().flatten()).flat_map(|w| w.to_le_bytes()));
        bytes.resize(META_BYTES, 0);
        bytes
    }

    #[test]
    fn reads_every_field() {
        let meta = KernelMeta::parse(
            "s",
            &bytes(
                "gemm",
                [384, 1, 2, 1, 1, 4096, 1, 2],
                &[[3, 128, 64, 1, 128, 64, 128, 2], [1, 24, 4, 0, 0, 0, 0, 0]],
            ),
        )
        .unwrap();
        assert_eq!((meta.name.as_str(), meta.threads, meta.min_ctas), ("gemm", 384, 1));
        assert_eq!((meta.cluster, meta.smem_bytes, meta.dependent), ([2, 1, 1], 4096, true));
        assert_eq!(meta.params.len(), 2);
        assert_eq!((meta.params[0].kind, meta.params[0].swizzle_bytes), (3, 128));
        assert_eq!((meta.params[1].size, meta.params[1].align), (24, 4));
        assert_eq!(meta.facts, "");
        assert_eq!(
            meta.attributes(),
            r#""nvvm.maxntid"="384,1,1" "nvvm.minctasm"="1" "nvvm.cluster_dim"="2,1,1""#
        );
    }

    #[test]
    fn no_cluster_leaves_the_attribute_out() {
        let meta = KernelMeta::parse("s", &bytes("k", [32, 0, 1, 1, 1, 0, 0, 0], &[])).unwrap();
        assert_eq!(meta.attributes(), r#""nvvm.maxntid"="32,1,1""#);
    }

    #[test]
    fn refuses_what_no_kernel_can_be() {
        let line = |bytes: &[u8]| KernelMeta::parse("sym", bytes).unwrap_err().to_string();
        assert!(line(&[0; 12]).contains("has 12 bytes, expected 488"));
        assert!(line(&[0; META_BYTES]).contains("expected \"WPKERN03\""));
        assert!(line(&bytes("k", [1025, 1, 1, 1, 1, 0, 0, 0], &[])).contains("threads = 1025"));
        assert!(line(&bytes("k", [32, 1, 0, 1, 1, 0, 0, 0], &[])).contains("cluster = (0, 1, 1)"));
        assert!(
            line(&bytes("k", [32, 1, 65536, 65536, 1, 0, 0, 0], &[])).contains("expected 1 to 16")
        );
        assert!(line(&bytes("k", [32, 1, 1, 1, 1, 0, 0, 13], &[])).contains("13 parameters"));
    }

    #[test]
    fn the_layout_is_that_of_isa() {
        use isa::kernel as theirs;
        assert_eq!(META_MAGIC, theirs::META_MAGIC);
        assert_eq!(META_SYMBOL_PREFIX, theirs::META_SYMBOL_PREFIX);
        assert_eq!(KIND_TENSOR_MAP, theirs::ParamKind::TensorMap as u32);
        assert_eq!(KIND_STRUCT, theirs::ParamKind::Struct as u32);
        let mut params = [theirs::ParamMeta::NONE; theirs::MAX_PARAMS];
        params[0] = theirs::ParamMeta {
            kind: 3,
            size: 128,
            align: 64,
            dtype: 1,
            box_rows: 256,
            box_cols: 64,
            swizzle_bytes: 32,
            rank: 4,
        };
        let meta = theirs::KernelMeta {
            magic: theirs::META_MAGIC,
            name: theirs::name64("gemm"),
            threads: 384,
            min_ctas: 2,
            cluster: [4, 2, 1],
            smem_bytes: 1000,
            dependent: 1,
            param_count: 1,
            params,
        };
        assert_eq!(size_of_val(&meta), META_BYTES);
        let head = [384, 2, 4, 2, 1, 1000, 1, 1];
        let bytes = bytes("gemm", head, &[[3, 128, 64, 1, 256, 64, 32, 4]]);
        let ours = KernelMeta::parse("s", &bytes).unwrap();
        // SAFETY: `bytes` has the size of a KernelMeta, any bit pattern is one, and an unaligned
        // read asks for no more.
        let read = unsafe { bytes.as_ptr().cast::<theirs::KernelMeta>().read_unaligned() };
        assert_eq!(read, meta);
        assert_eq!((ours.min_ctas, ours.cluster), (2, [4, 2, 1]));
    }
}
