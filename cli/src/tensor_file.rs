//! Reads one matrix from a `.safetensors` file.
//!
//! The whole header is read and checked, and then only the bytes of one tensor, however large the file
//! is. The crate `safetensors` decides what is valid ([`Metadata::new`]). The checks before it find the
//! same faults and report them with names and numbers.

use super::args::TensorRef;
use super::error::Error;
use safetensors::tensor::{Dtype as FileDtype, Metadata, TensorInfo};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of the field with the header's length.
const LENGTH_BYTES: u64 = 8;
/// The format's limit of the header's length.
const MAX_HEADER: u64 = 100_000_000;
/// Most names that an error message lists.
const LISTED: usize = 16;

/// One tensor, with the bytes of the file.
#[derive(Debug)]
pub struct Tensor {
    /// `file:tensor`, for messages.
    pub name: String,
    pub dtype: FileDtype,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// A file whose header has been checked.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    file: File,
    /// Offset of the data in the file.
    start: u64,
    metadata: Metadata,
}

/// The JSON header: free-form metadata, and a map from names to tensors.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    metadata: Option<HashMap<String, String>>,
    #[serde(flatten)]
    tensors: BTreeMap<String, TensorInfo>,
}

impl TensorFile {
    /// Opens `path`, reads its header and checks it against the file's length.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Open { file: path.into(), source };
        // Checked before opening, because opening a named pipe would block.
        let about = std::fs::metadata(path).map_err(io)?;
        if !about.is_file() {
            return Err(Error::NotAFile { file: path.into() });
        }
        let mut file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        if len < LENGTH_BYTES {
            return Err(Error::TooShort { file: path.into(), len });
        }
        let mut length = [0; LENGTH_BYTES as usize];
        file.read_exact(&mut length).map_err(io)?;
        let header = u64::from_le_bytes(length);
        if header > len - LENGTH_BYTES {
            return Err(Error::HeaderBeyondFile { file: path.into(), header, len });
        }
        if header > MAX_HEADER {
            return Err(Error::HeaderTooLarge { file: path.into(), header, limit: MAX_HEADER });
        }
        let mut json = vec![0; header as usize];
        file.read_exact(&mut json).map_err(io)?;
        let start = LENGTH_BYTES + header;
        let metadata = parse_header(path, &json, len - start)?;
        Ok(Self { path: path.into(), file, start, metadata })
    }

    /// Whether the file has a tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    /// The names of all tensors.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// Reads the tensor `name`; without a name, the file's only tensor.
    pub fn read(&mut self, name: Option<&str>) -> Result<Tensor, Error> {
        let only = || match &self.metadata.offset_keys()[..] {
            [only] => Some(only.clone()),
            _ => None,
        };
        let Some(name) = name.map(str::to_owned).or_else(only) else {
            let have = self.list("");
            return Err(Error::TensorNotNamed { file: self.path.clone(), have });
        };
        let Some(info) = self.metadata.info(&name) else {
            let have = self.list(&name);
            return Err(Error::NoSuchTensor { file: self.path.clone(), tensor: name, have });
        };
        let (from, to) = info.data_offsets;
        let mut data = Vec::new();
        let read = |file: &mut File, data: &mut Vec<u8>| {
            data.try_reserve_exact(to - from).map_err(std::io::Error::other)?;
            file.seek(SeekFrom::Start(self.start + from as u64))?;
            file.take((to - from) as u64).read_to_end(data)?;
            if data.len() == to - from {
                Ok(())
            } else {
                Err(std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    format!("{} of the {} bytes of tensor {name}", data.len(), to - from),
                ))
            }
        };
        read(&mut self.file, &mut data)
            .map_err(|source| Error::Open { file: self.path.clone(), source })?;
        Ok(Tensor {
            name: format!("{}:{name}", self.path.display()),
            dtype: info.dtype,
            shape: info.shape.clone(),
            data,
        })
    }

    /// Lists the file's tensors, those most like `wanted` first.
    fn list(&self, wanted: &str) -> String {
        match self.names() {
            names if names.is_empty() => "no tensors".to_owned(),
            names => listed(names, wanted),
        }
    }
}

/// Lists names, those first that begin and end most like `wanted`.
pub fn listed(mut names: Vec<String>, wanted: &str) -> String {
    let alike = |name: &String| {
        let before = name.bytes().zip(wanted.bytes()).take_while(|(have, want)| have == want);
        let behind = name.bytes().rev().zip(wanted.bytes().rev());
        before.count() + behind.take_while(|(have, want)| have == want).count()
    };
    names.sort_by_cached_key(|name| (Reverse(alike(name)), name.clone()));
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let list = names.join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

/// Reads the tensor that an option names.
pub fn read(tensor: &TensorRef) -> Result<Tensor, Error> {
    TensorFile::open(&tensor.file)?.read(tensor.tensor.as_deref())
}

/// Parses a header and checks it against the number of data bytes.
fn parse_header(path: &Path, json: &[u8], data: u64) -> Result<Metadata, Error> {
    let file = || path.to_path_buf();
    let header: Header = serde_json::from_slice(json).map_err(|e| Error::HeaderJson {
        file: file(),
        header: json.len() as u64,
        reason: one_line(&e.to_string()),
    })?;
    let mut tensors: Vec<_> = header.tensors.into_iter().collect();
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let (mut before, mut covered) = ("the header".to_owned(), 0);
    for (name, info) in &tensors {
        let (tensor, (start, end)) = (name.clone(), info.data_offsets);
        if end < start {
            return Err(Error::OffsetsBackwards { file: file(), tensor, start, end });
        }
        if end as u64 > data {
            return Err(Error::OffsetsBeyondFile { file: file(), tensor, start, end, data });
        }
        if start != covered {
            let end = covered;
            return Err(Error::OffsetsDisjoint { file: file(), tensor, start, before, end });
        }
        let (dtype, shape) = (info.dtype.to_string(), info.shape.clone());
        let elements = shape.iter().try_fold(1_usize, |n, &size| n.checked_mul(size));
        let Some(bits) = elements.and_then(|n| n.checked_mul(info.dtype.bitsize())) else {
            return Err(Error::ShapeOverflow { file: file(), tensor, dtype, shape });
        };
        let (need, have) = (bits.div_ceil(8), end - start);
        if need != have {
            return Err(Error::OffsetsSize { file: file(), tensor, dtype, shape, need, have });
        }
        (before, covered) = (tensor, end);
    }
    if covered as u64 != data {
        return Err(Error::DataSize { file: file(), covered, data });
    }
    Metadata::new(header.metadata, tensors)
        .map_err(|e| Error::Header { file: file(), reason: one_line(&e.to_string()) })
}

/// Joins the lines of a text into one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use safetensors::SafeTensors;
    use safetensors::tensor::TensorView;

    /// Two tensors and some metadata.
    fn good() -> Vec<u8> {
        let data = [1; 24];
        let tensors = [
            ("a", TensorView::new(FileDtype::BF16, vec![2, 6], &data).unwrap()),
            ("b", TensorView::new(FileDtype::F32, vec![3, 2], &data).unwrap()),
        ];
        let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize(tensors, Some(about)).unwrap()
    }

    /// Whether the file is accepted here, and by the crate that defines the format.
    fn accepted(bytes: &[u8]) -> (bool, bool) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        let here = TensorFile::open(file.path());
        if let Err(e) = &here {
            assert!(!e.to_string().contains('\n'), "{e}");
            assert!(e.to_string().starts_with(&file.path().display().to_string()), "{e}");
        }
        (here.is_ok(), SafeTensors::deserialize(bytes).is_ok())
    }

    #[test]
    fn a_tensor_is_read_from_its_place() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = good();
        let end = bytes.len();
        // The f32 tensor lies first, since its alignment is larger.
        bytes[end - 24..].fill(2);
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let read = |name| TensorFile::open(file.path()).unwrap().read(name).unwrap();
        let (a, b) = (read(Some("a")), read(Some("b")));
        assert_eq!(
            (a.dtype, &a.shape[..], &a.data[..]),
            (FileDtype::BF16, &[2, 6][..], &[2; 24][..])
        );
        assert_eq!(
            (b.dtype, &b.shape[..], &b.data[..]),
            (FileDtype::F32, &[3, 2][..], &[1; 24][..])
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// A file with digits and other bytes changed is refused exactly when the format's own
        /// crate refuses it.
        #[test]
        fn the_format_decides(
            changes in prop::collection::vec((any::<prop::sample::Index>(), "[0-9 -~]"), 0..3),
            cut in 0_usize..40,
            more in 0_usize..3,
        ) {
            let mut bytes = good();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte.as_bytes()[0];
            }
            bytes.truncate(bytes.len() - cut / 20 * (cut % 20));
            bytes.resize(bytes.len() + more / 2, 0);
            let (here, there) = accepted(&bytes);
            prop_assert_eq!(here, there, "{:?}", String::from_utf8_lossy(&bytes));
        }
    }
}
