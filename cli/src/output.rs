//! Atomic output files: a reader sees the old file or the complete new one.
//!
//! [`Place::prepare`] runs before any work, so that an unwritable file is reported at once. The bytes go
//! to a temporary file in the same folder, which is renamed at the end. A failure before that leaves the
//! folder unchanged.

use super::args::TensorRef;
use super::error::Error;
use super::tensor_file::one_line;
use safetensors::tensor::{Dtype as FileDtype, TensorView};
use std::fs::Permissions;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The default name of the tensor.
pub const DEFAULT_TENSOR: &str = "d";

/// An output file that was checked to be writable.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
}

/// A tensor in an output file.
#[derive(Debug)]
pub struct Output {
    place: Place,
    tensor: String,
}

impl Output {
    /// Checks that `target` can be written and is not one of `inputs`.
    pub fn prepare(target: &TensorRef, inputs: &[&Path]) -> Result<Self, Error> {
        Self::prepare_as(target, DEFAULT_TENSOR, inputs)
    }

    /// [`Output::prepare`] with a default for the tensor's name.
    pub fn prepare_as(target: &TensorRef, default: &str, inputs: &[&Path]) -> Result<Self, Error> {
        let tensor = target.tensor.clone().unwrap_or_else(|| default.to_owned());
        if tensor == "__metadata__" {
            let reason = "__metadata__ is not a tensor's name in safetensors".to_owned();
            return Err(Error::Output { file: target.file.clone(), reason });
        }
        Ok(Self { place: Place::prepare(&target.file, inputs)?, tensor })
    }

    /// `file:tensor`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.place.path.display(), self.tensor)
    }

    /// Name of the tensor.
    pub fn tensor(&self) -> &str {
        &self.tensor
    }

    /// Writes a file with one matrix.
    pub fn write(&self, dtype: FileDtype, shape: [usize; 2], data: &[u8]) -> Result<(), Error> {
        self.write_with(dtype, &shape, data, None)
    }

    /// Writes a file with the tensor, and perhaps a second one of another name.
    pub fn write_with(
        &self,
        dtype: FileDtype,
        shape: &[usize],
        data: &[u8],
        second: Option<(&str, FileDtype, &[usize], &[u8])>,
    ) -> Result<(), Error> {
        let view = |(name, dtype, shape, data): (&str, FileDtype, &[usize], _)| {
            let view = TensorView::new(dtype, shape.to_vec(), data);
            Ok((name.to_owned(), view.map_err(|e| self.place.refuse(&e.to_string()))?))
        };
        let tensors = std::iter::once((self.tensor(), dtype, shape, data)).chain(second);
        let views = tensors.map(view).collect::<Result<Vec<_>, Error>>()?;
        let bytes =
            safetensors::serialize(views, None).map_err(|e| self.place.refuse(&e.to_string()))?;
        self.place.write(&bytes)
    }
}

impl Place {
    /// Checks that `file` can be written and is not one of `inputs`.
    pub fn prepare(file: &Path, inputs: &[&Path]) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::Output { file: file.into(), reason: one_line(reason) };
        // A symbolic link is followed: its target is replaced, not the link.
        let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        for input in inputs {
            if input.canonicalize().is_ok_and(|input| input == path) {
                return Err(refuse("it is an input, and would be replaced"));
            }
        }
        if let Ok(about) = path.metadata() {
            if !about.is_file() {
                return Err(refuse("it exists and is not a regular file"));
            }
            if about.permissions().readonly() {
                return Err(refuse("it exists and is read-only"));
            }
        }
        let place = Self { path };
        place.temporary().map_err(|e| refuse(&e.to_string()))?;
        Ok(place)
    }

    /// The error for a failed write to this file.
    pub fn refuse(&self, reason: &str) -> Error {
        Error::Output { file: self.path.clone(), reason: one_line(reason) }
    }

    /// Writes the whole file.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let write = || {
            let mut file = self.temporary()?;
            file.write_all(bytes)?;
            // The data must be on the disk before the rename, so that a crash cannot leave an empty file.
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|e| e.error)?;
            Ok(())
        };
        write().map_err(|e: std::io::Error| self.refuse(&e.to_string()))
    }

    /// A temporary file beside the target. Dropping it deletes it.
    fn temporary(&self) -> std::io::Result<NamedTempFile> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        builder.prefix(".warpipe-").suffix(".tmp");
        // A new file gets the mode of the umask; an existing file keeps its mode.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = self.path.metadata().map_or(0o666, |about| about.permissions().mode());
            builder.permissions(Permissions::from_mode(mode & 0o777));
        }
        builder.tempfile_in(folder.unwrap_or(Path::new(".")))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn write(file: &Path) -> Result<(), Error> {
        let target = TensorRef { file: file.into(), tensor: None };
        Output::prepare(&target, &[])?.write(FileDtype::U8, [2, 3], &[7; 6])
    }

    fn is_result(file: &Path) -> bool {
        let bytes = fs::read(file).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let tensor = tensors.tensor(DEFAULT_TENSOR).unwrap();
        tensor.shape() == [2, 3] && tensor.data() == [7; 6]
    }

    #[test]
    fn an_existing_file_keeps_its_mode_and_a_link_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        write(&link).unwrap();
        assert!(is_result(&file));
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_new_file_can_be_read_by_whom_the_umask_allows() {
        let folder = tempfile::tempdir().unwrap();
        let (file, plain) = (folder.path().join("file"), folder.path().join("plain"));
        write(&file).unwrap();
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&file), mode(&plain));
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        let target = TensorRef { file: file.clone(), tensor: None };
        let output = Output::prepare(&target, &[]).unwrap();
        // Seven bytes are no matrix of 2 x 3.
        assert!(output.write(FileDtype::U8, [2, 3], &[7; 7]).is_err());
        // A folder in the way of the rename, which comes after the bytes are written.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let error = output.write(FileDtype::U8, [2, 3], &[7; 6]).unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
        assert_eq!(error.exit_code(), 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
