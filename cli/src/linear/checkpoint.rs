//! The tensors of a checkpoint: one `.safetensors` file, or the shards that an index names.

use crate::error::Error;
use crate::tensor_file::{Tensor, TensorFile, listed, one_line};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The names of the files in a checkpoint's folder, as Hugging Face writes them.
const IN_FOLDER: [&str; 2] = ["model.safetensors.index.json", "model.safetensors"];
/// The largest index that is read. One of a thousand tensors has 0.1 MB.
const MAX_INDEX: u64 = 1 << 30;

/// A checkpoint whose header, or whose index, has been read.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    files: Files,
}

#[derive(Debug)]
enum Files {
    One(TensorFile),
    /// The shard of each tensor.
    Shards(BTreeMap<String, PathBuf>),
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Opens a `.safetensors` file, an index (`*.json`), or a folder with one of them.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let path = if path.is_dir() { in_folder(path)? } else { path.to_owned() };
        let files = if path.extension().is_some_and(|extension| extension == "json") {
            Files::Shards(read_index(&path)?)
        } else {
            Files::One(TensorFile::open(&path)?)
        };
        Ok(Self { path, files })
    }

    /// The file, or the index.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every file that the checkpoint may be read from.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![self.path.clone()];
        if let Files::Shards(shards) = &self.files {
            inputs.extend(shards.values().cloned());
            inputs.sort_unstable();
            inputs.dedup();
        }
        inputs
    }

    /// Reads the tensor `name`, if the checkpoint has it.
    pub fn read(&mut self, name: &str) -> Result<Option<Tensor>, Error> {
        match &mut self.files {
            Files::One(file) if !file.has(name) => Ok(None),
            Files::One(file) => file.read(Some(name)).map(Some),
            Files::Shards(shards) => match shards.get(name) {
                Some(shard) => TensorFile::open(shard)?.read(Some(name)).map(Some),
                None => Ok(None),
            },
        }
    }

    /// The layers that have a weight, those most like `wanted` first.
    pub fn layers(&self, wanted: &str) -> String {
        let names = match &self.files {
            Files::One(file) => file.names(),
            Files::Shards(shards) => shards.keys().cloned().collect(),
        };
        let layers = names.iter().filter_map(|name| Some(name.strip_suffix(".weight")?.to_owned()));
        match layers.collect::<Vec<_>>() {
            layers if layers.is_empty() => "it has no tensor that ends in .weight".to_owned(),
            layers => format!("it has: {}", listed(layers, wanted)),
        }
    }
}

/// The file or the index in a folder.
fn in_folder(folder: &Path) -> Result<PathBuf, Error> {
    let files = IN_FOLDER.map(|name| folder.join(name));
    files.into_iter().find(|file| file.exists()).ok_or_else(|| {
        let [index, file] = IN_FOLDER;
        let reason = format!("a folder without {index} and without {file}");
        Error::NotAnIndex { file: folder.into(), reason }
    })
}

/// Reads an index. Its shards lie in its folder.
fn read_index(path: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let io = |source| Error::Open { file: path.into(), source };
    let refuse = |reason: String| Error::NotAnIndex { file: path.into(), reason };
    // Checked before opening, because opening a named pipe would block.
    let about = std::fs::metadata(path).map_err(io)?;
    if !about.is_file() {
        return Err(refuse("not a regular file".to_owned()));
    }
    if about.len() > MAX_INDEX {
        return Err(refuse(format!("{} bytes; the limit is {MAX_INDEX}", about.len())));
    }
    let json = std::fs::read(path).map_err(io)?;
    let index: Index =
        serde_json::from_slice(&json).map_err(|e| refuse(one_line(&e.to_string())))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let shard = |(tensor, file): (String, String)| {
        let mut parts = Path::new(&file).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(name)), None) => Ok((tensor, folder.join(name))),
            _ => Err(refuse(format!(
                "tensor {tensor} is in {file:?}; the name of a file in the same folder is right"
            ))),
        }
    };
    index.weight_map.into_iter().map(shard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::{Dtype, TensorView};

    /// A folder with an index of two shards, and `b.weight` in the second one.
    fn folder(index: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, name, value) in
            [("1.safetensors", "a.weight", 1), ("2.safetensors", "b.weight", 2)]
        {
            let data = [value; 6];
            let view = TensorView::new(Dtype::U8, vec![2, 3], &data).unwrap();
            let bytes = safetensors::serialize([(name, view)], None).unwrap();
            std::fs::write(folder.path().join(file), bytes).unwrap();
        }
        std::fs::write(folder.path().join(IN_FOLDER[0]), index).unwrap();
        folder
    }

    #[test]
    fn a_tensor_is_read_from_its_shard() {
        let index = r#"{"metadata": {"total_size": 12}, "weight_map": {
            "a.weight": "1.safetensors", "b.weight": "2.safetensors", "c.weight": "1.safetensors"}}"#;
        let folder = folder(index);
        for path in [folder.path().to_owned(), folder.path().join(IN_FOLDER[0])] {
            let mut checkpoint = Checkpoint::open(&path).unwrap();
            assert_eq!(checkpoint.read("b.weight").unwrap().unwrap().data, [2; 6]);
            assert!(checkpoint.read("d.weight").unwrap().is_none());
            assert_eq!(checkpoint.layers("b"), "it has: b, a, c");
            assert_eq!(checkpoint.inputs().len(), 3);
            // The index names a tensor that its shard lacks.
            let error = checkpoint.read("c.weight").unwrap_err().to_string();
            assert!(error.contains("no tensor c.weight; it has: a.weight"), "{error}");
        }
        let one = Checkpoint::open(&folder.path().join("1.safetensors")).unwrap();
        assert_eq!((one.inputs().len(), &*one.layers("")), (1, "it has: a"));
    }

    #[test]
    fn an_index_names_files_beside_it() {
        for (index, words) in [
            (r#"{"weight_map": {"a": "../1.safetensors"}}"#, "same folder"),
            (r#"{"weight_map": {"a": "/1.safetensors"}}"#, "same folder"),
            (r#"{"weight_map": {"a": ""}}"#, "same folder"),
            (r#"{"weight_map": {"a": 1}}"#, "expected a string"),
            ("{}", "weight_map"),
            ("", "EOF"),
        ] {
            let folder = folder(index);
            let error = Checkpoint::open(folder.path()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(words) && !text.contains('\n'), "{index}: {text}");
            assert_eq!(error.exit_code(), 2);
        }
        let empty = tempfile::tempdir().unwrap();
        let error = Checkpoint::open(empty.path()).unwrap_err().to_string();
        assert!(error.contains("a folder without model.safetensors.index.json"), "{error}");
    }
}
