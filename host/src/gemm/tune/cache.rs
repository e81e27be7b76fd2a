//! The kernels and schedules that were the fastest of products, in memory and in a file.
//!
//! A file is one JSON object with a line for each entry, so that a diff shows changed entries. It is replaced as a whole,
//! and a file that is no tune cache is never overwritten.

use super::error::TuneError;
use crate::gemm::schedule::Schedule;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Value of a file's first field. The number grows when the fields of an entry change.
const FORMAT: &str = "warpipe tune cache 2";

/// What an entry is for: a product on a kind of GPU with a driver. The driver assembles the kernels, so another one may make
/// others fast.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TuneKey {
    /// Name of the GPU; "SM model" for the model, which has no times.
    pub gpu: String,
    /// Version of its driver ([`driver_version`](crate::driver_version)); "unknown" if NVML does not tell.
    pub driver: String,
    /// Its SMs.
    pub sms: u32,
    /// Rows of D.
    pub m: u64,
    /// Rows of B.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Type of A and B.
    pub ab: String,
    /// Type of C and D.
    pub out: String,
    /// Whether C is added.
    pub c: bool,
    /// The family of kernels: what their names have in common, and how their sums are scaled.
    pub kernels: String,
}

/// The fastest kernel and schedule of a product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneEntry {
    /// The product.
    #[serde(flatten)]
    pub key: TuneKey,
    /// Name of the kernel.
    pub instance: String,
    /// Its schedule.
    pub schedule: Schedule,
    /// Median time of a launch in microseconds when it was tuned.
    pub us: f64,
}

/// The fastest kernels and schedules of products; see [`Gemm::tune`](crate::gemm::Gemm::tune).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TuneCache {
    entries: Vec<TuneEntry>,
}

/// The first field of a file. Others are not looked at.
#[derive(Deserialize)]
struct Head {
    format: String,
}

/// A file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(rename = "format")]
    _format: String,
    entries: Vec<TuneEntry>,
}

impl TuneCache {
    /// A cache without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// The entry of a product.
    pub fn get(&self, key: &TuneKey) -> Option<&TuneEntry> {
        self.entries.iter().find(|entry| entry.key == *key)
    }

    /// Adds an entry, in the place of one with the same key.
    pub fn insert(&mut self, entry: TuneEntry) {
        match self.entries.iter_mut().find(|other| other.key == entry.key) {
            Some(other) => *other = entry,
            None => self.entries.push(entry),
        }
    }

    /// All entries, in the order in which their products were added.
    pub fn entries(&self) -> &[TuneEntry] {
        &self.entries
    }

    /// Adds the entries of another cache, in the place of those with the same keys.
    pub fn merge(&mut self, other: Self) {
        other.entries.into_iter().for_each(|entry| self.insert(entry));
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`TuneError::Open`]; [`TuneError::NotACache`] for a file of another kind or of another format.
    pub fn load(file: impl AsRef<Path>) -> Result<Self, TuneError> {
        let file = file.as_ref();
        let open = |source| TuneError::Open { file: file.into(), source };
        let bytes = fs::read(file).map_err(open)?;
        Self::parse(&bytes).map_err(|reason| TuneError::NotACache { file: file.into(), reason })
    }

    /// Reads the contents of a file, or says what is wrong with them.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(bytes).map_err(|e| e.to_string())?;
        let head: Head = serde_json::from_str(text).map_err(|e| one_line(&e.to_string()))?;
        if head.format != FORMAT {
            let format = one_line(&head.format.chars().take(40).collect::<String>());
            let cure = if head.format == "warpipe tune cache 1" {
                ": it lacks the driver's version, so name another file, or remove this one, and tune again"
            } else {
                ""
            };
            return Err(format!("its format is \"{format}\", this program's \"{FORMAT}\"{cure}"));
        }
        let contents: Contents =
            serde_json::from_str(text).map_err(|e| one_line(&e.to_string()))?;
        let mut cache = Self::new();
        contents.entries.into_iter().for_each(|entry| cache.insert(entry));
        Ok(cache)
    }

    /// Writes a file, which is replaced as a whole: a reader sees the old one or the complete new one. The folder must exist.
    ///
    /// # Errors
    /// [`TuneError::NotACache`] for an existing file that is no tune cache of this format, and [`TuneError::Open`] for one
    /// that can't be read: neither is changed. [`TuneError::Save`].
    pub fn save(&self, file: impl AsRef<Path>) -> Result<(), TuneError> {
        let file = file.as_ref();
        match Self::load(file) {
            Ok(_) => {}
            Err(TuneError::Open { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        // A symbolic link is followed: its target is replaced, not the link.
        let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary: PathBuf = path.with_file_name(name);
        let write = || {
            let mut new = File::create(&temporary)?;
            new.write_all(self.to_string().as_bytes())?;
            // The data must be on the disk before the rename, so that a crash cannot leave an empty file.
            new.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&temporary);
            TuneError::Save { file: file.into(), source }
        })
    }
}

/// The contents of a file.
impl std::fmt::Display for TuneCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> =
            self.entries.iter().map(|entry| serde_json::json!(entry).to_string()).collect();
        let format = serde_json::json!(FORMAT);
        writeln!(f, "{{\"format\": {format}, \"entries\": [\n{}\n]}}", lines.join(",\n"))
    }
}

/// Joins the lines of a text into one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(m: u64, us: f64) -> TuneEntry {
        let key = TuneKey {
            gpu: "NVIDIA \"H200\"\n".to_owned(),
            driver: "580.95.05".to_owned(),
            sms: 132,
            m,
            n: 64,
            k: 128,
            ab: "bf16".to_owned(),
            out: "f32".to_owned(),
            c: false,
            kernels: "gemm_bf16_f32".to_owned(),
        };
        let schedule = Schedule { clusters: 66, streamed: 22 };
        TuneEntry { key, instance: "gemm_bf16_f32_64x64_1x1".to_owned(), schedule, us }
    }

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("warpipe-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_saved_is_loaded_and_entries_are_replaced() {
        let folder = Folder::new("tune-cache");
        let file = folder.0.join("cache.json");
        let mut cache = TuneCache::new();
        cache.insert(entry(1, 3.5));
        cache.insert(entry(2, 4.25));
        cache.save(&file).unwrap();
        assert_eq!(TuneCache::load(&file).unwrap(), cache);
        // A line for each entry, and one before and one behind them.
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 4);
        let mut other = TuneCache::new();
        other.insert(entry(1, 3.0));
        other.insert(entry(3, 9.0));
        cache.merge(other);
        cache.save(&file).unwrap();
        let loaded = TuneCache::load(&file).unwrap();
        let us: Vec<f64> = loaded.entries().iter().map(|entry| entry.us).collect();
        assert_eq!(us, [3.0, 4.25, 9.0]);
        assert_eq!(loaded.get(&entry(3, 0.0).key).map(|e| e.us), Some(9.0));
        // Each part of the key counts.
        let other = |change: fn(&mut TuneKey)| {
            let mut key = entry(3, 0.0).key;
            change(&mut key);
            loaded.get(&key).is_none()
        };
        assert!(other(|k| k.driver = "590.1".to_owned()) && other(|k| k.gpu.clear()));
        assert!(other(|k| k.sms = 114) && other(|k| k.c = true) && other(|k| k.kernels.clear()));
        // Nothing else is left in the folder.
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
        TuneCache::new().save(&file).unwrap();
        assert_eq!(TuneCache::load(&file).unwrap(), TuneCache::new());
    }

    #[test]
    fn what_is_no_cache_is_refused_and_stays() {
        let folder = Folder::new("no-tune-cache");
        let file = folder.0.join("cache.json");
        let old = r#"{"format": "warpipe tune cache 1", "entries": [{"gpu": "NVIDIA H200", "sms": 132, "m": 8}]}"#;
        let missing = r#"{"format": "warpipe tune cache 2", "entries": [{"gpu": "H200"}]}"#;
        let more = r#"{"format": "warpipe tune cache 2", "entries": [], "more": 1}"#;
        for (contents, word) in [
            (&b""[..], "EOF"),
            (b"{\"format\": \"warpipe tune cache 2\", \"entries\": [", "EOF"),
            (b"{\"format\": \"warpipe tune cache 99\", \"entries\": []}", "cache 99"),
            (b"{\"format\": \"a\\nb\", \"entries\": []}", "a b"),
            (b"{\"lines\": []}", "format"),
            (b"[1, 2]", "invalid"),
            (b"\xff\xfe", "utf-8"),
            (old.as_bytes(), "it lacks the driver's version, so name another file"),
            (missing.as_bytes(), "missing field"),
            (more.as_bytes(), "more"),
        ] {
            fs::write(&file, contents).unwrap();
            let loaded = TuneCache::load(&file).unwrap_err();
            let saved = TuneCache::new().save(&file).unwrap_err();
            for said in [loaded.to_string(), saved.to_string()] {
                assert!(said.contains("not a tune cache") && said.contains(word), "{said}");
                assert!(said.contains("unchanged") && !said.contains('\n'), "{said}");
            }
            assert_eq!(fs::read(&file).unwrap(), contents);
        }
        let none = folder.0.join("none.json");
        assert!(matches!(TuneCache::load(&none), Err(TuneError::Open { .. })));
        assert!(matches!(TuneCache::load(&folder.0), Err(TuneError::Open { .. })));
        assert!(TuneCache::new().save(&folder.0).is_err());
        let nowhere = folder.0.join("no/such/folder/cache.json");
        let said = TuneCache::new().save(&nowhere).unwrap_err().to_string();
        assert!(said.contains("cannot write") && !said.contains('\n'), "{said}");
    }
}
