//! Packs the modules of an image in Brotli (RFC 7932), each with the text of a similar one as its dictionary.
//!
//! A kernel for f16 and its twin for bf16 differ in a few lines. The image would be nearly twice as large without dictionaries.

use crate::{parallel, ptx::KernelPtx};
use brotli::enc::{BrotliCompressCustomIoCustomDict, BrotliEncoderParams, StandardAlloc};
use brotli::{IoReaderWrapper, IoWriterWrapper};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{Error, ErrorKind};

/// Compression level of Brotli, from 0 to 11. From 10 on, it takes ten times as long for a fifth less.
const QUALITY: i32 = 5;
/// The logarithm to base 2 of the bytes that a repetition may lie back. Two modules are shorter.
const WINDOW: i32 = 22;
/// Bytes that are packed at a time.
const BUFFER: usize = 1 << 14;
/// Most texts that are unpacked, one as the dictionary of the next, before that of a kernel (`isa::kernel`).
const MOST_DICTIONARIES: u32 = 2;
/// Hashes of lines that stand for a text.
const SKETCH: usize = 256;
/// Least similarity of a dictionary.
const AKIN: usize = SKETCH / 8;
/// Least similarity of a dictionary that needs one itself.
const TWIN: usize = SKETCH / 2;

/// A packed module.
pub struct Packed {
    /// The compressed bytes.
    pub data: Vec<u8>,
    /// The module whose text is the dictionary: one further to the front.
    pub dictionary: Option<usize>,
}

/// Packs modules. Module `i` may need the text of module `j` if `may(i, j)`.
pub fn pack_all(modules: &[KernelPtx], may: impl Fn(usize, usize) -> bool) -> Vec<Packed> {
    let sketches = parallel::map(modules, |module| sketch(&module.text));
    let mut dictionaries: Vec<Option<usize>> = Vec::with_capacity(modules.len());
    let mut depths: Vec<u32> = Vec::with_capacity(modules.len());
    for (i, own) in sketches.iter().enumerate() {
        // What is only somewhat similar is taken if it needs no dictionary itself. So there is room for a twin's twin.
        let of = |j: usize| (similarity(own, &sketches[j]), j);
        let others = (0..i).filter(|&j| depths[j] < MOST_DICTIONARIES && may(i, j)).map(of);
        let right =
            |&(similar, j): &(usize, usize)| similar >= if depths[j] == 0 { AKIN } else { TWIN };
        let nearest = others.filter(right).max_by_key(|&(similar, j)| (similar, usize::MAX - j));
        let nearest = nearest.map(|(_, j)| j);
        depths.push(nearest.map_or(0, |j| depths[j] + 1));
        dictionaries.push(nearest);
    }
    let pairs: Vec<(usize, Option<usize>)> = dictionaries.into_iter().enumerate().collect();
    parallel::map(&pairs, |&(i, dictionary)| {
        let with = dictionary.map_or("", |j| modules[j].text.as_str());
        Packed { data: pack(&modules[i].text, with), dictionary }
    })
}

/// The smallest hashes of a text's lines: of similar texts, many are the same. (Broder, "On the resemblance and containment
/// of documents", 1997.)
fn sketch(text: &str) -> BTreeSet<u64> {
    // The same in each build: an image doesn't differ from one build to the next.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut smallest = BTreeSet::new();
    for line in text.lines() {
        smallest.insert(hasher.hash_one(line));
        if smallest.len() > SKETCH {
            smallest.pop_last();
        }
    }
    smallest
}

/// How many of the smallest hashes of two texts together belong to both.
fn similarity(one: &BTreeSet<u64>, other: &BTreeSet<u64>) -> usize {
    one.union(other).take(SKETCH).filter(|&hash| one.contains(hash) && other.contains(hash)).count()
}

/// A text in Brotli, with a dictionary.
fn pack(text: &str, dictionary: &str) -> Vec<u8> {
    let mut packed = Vec::new();
    let how = BrotliEncoderParams {
        quality: QUALITY,
        lgwin: WINDOW,
        size_hint: text.len(),
        ..BrotliEncoderParams::default()
    };
    let written = BrotliCompressCustomIoCustomDict(
        &mut IoReaderWrapper(&mut text.as_bytes()),
        &mut IoWriterWrapper(&mut packed),
        &mut [0; BUFFER],
        &mut [0; BUFFER],
        &how,
        StandardAlloc::default(),
        &mut |_, _, _, _| (),
        dictionary.as_bytes(),
        Error::from(ErrorKind::UnexpectedEof),
    );
    // A text can be read, and a vector takes all that is written.
    debug_assert!(written.is_ok(), "a vector has room");
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, dtype: &str) -> KernelPtx {
        let line =
            |i: u32| format!("    add.{dtype} %r{}, %r{}, %r{};\n", i, i * i % 97, i * 7 % 89);
        let text: String = (0..400)
            .map(|i| if i % 40 == 0 { line(i) } else { line(i).replace(dtype, "u32") })
            .collect();
        KernelPtx { kernel: name.to_owned(), text: format!("// {name}\n{text}") }
    }

    #[test]
    fn a_twin_takes_next_to_nothing_and_comes_back() {
        let other = KernelPtx { kernel: "z".to_owned(), text: "ret;\n".repeat(3) };
        let modules = [
            kernel("a", "bf16"),
            other,
            kernel("b", "f16"),
            kernel("c", "f32"),
            kernel("d", "f64"),
        ];
        let packed = pack_all(&modules, |_, _| true);
        assert_eq!(packed[0].dictionary, None);
        assert_eq!(packed[2].dictionary, Some(0));
        assert!(packed[2].data.len() * 4 < packed[0].data.len());
        for (i, own) in packed.iter().enumerate() {
            let with = own.dictionary.map_or("", |j| modules[j].text.as_str());
            let text = isa::kernel::unpack(&own.data, modules[i].text.len(), with).unwrap();
            assert_eq!(text, modules[i].text);
            let (mut depth, mut at) = (0, i);
            while let Some(next) = packed[at].dictionary {
                (depth, at) = (depth + 1, next);
            }
            assert!(depth <= MOST_DICTIONARIES, "module {i} needs {depth} others");
        }
        assert_eq!(MOST_DICTIONARIES, isa::kernel::MOST_DICTIONARIES);
        // A module of another kind has none, and one alone has none.
        assert_eq!(packed[1].dictionary, None);
        let apart = pack_all(&modules, |i, j| i % 2 == j % 2);
        assert_eq!((apart[2].dictionary, apart[3].dictionary), (Some(0), None));
        assert!(pack_all(&[], |_, _| true).is_empty());
    }
}
