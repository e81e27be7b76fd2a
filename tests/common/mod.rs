//! What the tests of the command share: running it, and writing files for it.
// Each test program uses a part of this.
#![allow(dead_code)]

use safetensors::tensor::{Dtype, TensorView};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command. `WARPIPE_BIN` names it where cargo's path does not exist (a bundle).
pub fn warpipe<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    let program =
        std::env::var_os("WARPIPE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_warpipe").into());
    Command::new(program).args(arguments).output().expect("the command starts")
}

/// The exit code and the two outputs.
pub fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("no signal"), text(&output.stdout), text(&output.stderr))
}

/// A folder with files in it, and what must not change there.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `name` in this folder as an option's value.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Makes a folder in this one, and the folders above it.
    pub fn dir(&self, name: &str) {
        std::fs::create_dir_all(self.path(name)).expect("a folder");
    }

    /// Writes raw bytes.
    pub fn bytes(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("a file");
    }

    /// Writes a file from a header in JSON and `data` bytes of zeros.
    pub fn header(&self, name: &str, json: &str, data: usize) {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        self.bytes(name, &bytes);
    }

    /// Writes tensors of zeros.
    pub fn zeros(&self, name: &str, tensors: &[(&str, Dtype, &[usize])]) {
        let data: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, dtype, shape)| vec![0; shape.iter().product::<usize>() * dtype.bitsize() / 8])
            .collect();
        let views = tensors.iter().zip(&data).map(|((name, dtype, shape), data)| {
            (*name, TensorView::new(*dtype, shape.to_vec(), data).expect("a tensor"))
        });
        self.bytes(name, &safetensors::serialize(views, None).expect("a file"));
    }

    /// Names in the folder, sorted.
    pub fn list(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.0.path())
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// The command must refuse: exit code 2, nothing on stdout, one line on stderr with all `words`.
pub fn refused(arguments: &[&str], words: &[&str]) {
    let (code, stdout, stderr) = outcome(&warpipe(arguments));
    assert_eq!(code, 2, "{arguments:?}: {stderr}");
    assert_eq!(stdout, "", "{arguments:?}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{arguments:?}: {word:?} is not in: {stderr}");
    }
}

/// Whether the two files hold the same bytes.
pub fn same_bytes(a: &Path, b: &[u8]) -> bool {
    std::fs::read(a).is_ok_and(|bytes| bytes == b)
}
