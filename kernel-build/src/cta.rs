//! What a kernel's CTA consists of, read from the constants behind its metadata.
//!
//! The layouts are those of the types in `isa::kernel::cta`, which are C's.

use crate::Error;
use crate::ir::constant::{Constant, Constants, POINTER};
use crate::meta::{KernelMeta, MAX_PARAMS, META_BYTES};
use serde_json::{Value, json};

/// Bytes of `isa::kernel::Described`: the metadata, the names of the parameters, and a reference to the CTA.
const DESCRIBED_BYTES: usize = META_BYTES + MAX_PARAMS * SLICE + POINTER;
/// Bytes of a reference to a slice or a string: the address and the length.
const SLICE: usize = 2 * POINTER;
/// Bytes of `RoleFacts`.
const ROLE: usize = SLICE + 8;
/// Bytes of `RegionFacts`.
const REGION: usize = 3 * SLICE + 16;
/// Bytes of `TileFacts`, whose last four are padding.
const TILE: usize = SLICE + 16;
/// Bytes of `Part`.
const PART: usize = 56;

/// A place in a constant.
struct Place<'a> {
    constants: &'a Constants<'a>,
    constant: &'a Constant,
    at: usize,
}

/// Reads a kernel's metadata and what is behind it; `symbol` is for the error line.
pub(crate) fn kernel(
    constants: &Constants,
    symbol: &str,
    described: &Constant,
) -> Result<KernelMeta, Error> {
    let bytes = &described.bytes;
    let (head, rest) = bytes.split_at_checked(META_BYTES).unwrap_or((bytes, &[]));
    let kernel = KernelMeta::parse(symbol, head)?;
    // A kernel's author may have written the metadata alone.
    if rest.is_empty() {
        return Ok(kernel);
    }
    let facts =
        (bytes.len() == DESCRIBED_BYTES).then(|| facts(constants, described, kernel.params.len()));
    let facts = facts.flatten().ok_or_else(|| Error::Metadata {
        kernel: symbol.to_owned(),
        what: format!(
            "the {} bytes behind its metadata are not {} of names and CTA: isa and kernel-build differ in version",
            rest.len(),
            DESCRIBED_BYTES - META_BYTES,
        ),
    })?;
    Ok(KernelMeta { facts: facts.to_string(), ..kernel })
}

/// The names of `params` parameters and the CTA as `isa::kernel::Described` has them; `None` if they have another form.
fn facts(constants: &Constants, described: &Constant, params: usize) -> Option<Value> {
    let place = Place { constants, constant: described, at: META_BYTES };
    let names: Option<Vec<String>> = (0..params).map(|i| place.text(i * SLICE)).collect();
    let at = META_BYTES + MAX_PARAMS * SLICE;
    let Some((name, offset)) = described.references.get(&at) else {
        return Some(json!({ "params": names? }));
    };
    let constant = constants.read(name).ok()?;
    let cta = Place { constants, constant: &constant, at: *offset };
    Some(json!({ "params": names?, "cta": cta.cta()? }))
}

impl Place<'_> {
    /// The 32-bit word `offset` bytes from here.
    fn word(&self, offset: usize) -> Option<u32> {
        let bytes = self.constant.bytes.get(self.at + offset..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// The string to which the reference `offset` bytes from here leads. PTX is ASCII, so a byte that is not becomes a
    /// question mark.
    fn text(&self, offset: usize) -> Option<String> {
        let ascii = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' };
        let bytes = self.slice(offset, 1, |byte| byte.constant.bytes.get(byte.at).map(ascii))?;
        Some(bytes.into_iter().collect())
    }

    /// The elements, of `bytes` each, of the slice to which the reference `offset` bytes from here leads.
    fn slice<T>(
        &self,
        offset: usize,
        bytes: usize,
        read: impl Fn(&Place) -> Option<T>,
    ) -> Option<Vec<T>> {
        let len = self.word(offset + POINTER)? as usize;
        if len == 0 {
            return Some(Vec::new());
        }
        let (name, at) = self.constant.references.get(&(self.at + offset))?;
        let constant = &self.constants.read(name).ok()?;
        let constants = self.constants;
        (0..len).map(|i| read(&Place { constants, constant, at: at + i * bytes })).collect()
    }

    fn cta(&self) -> Option<Value> {
        let first_barrier = self.word(SLICE + 12)?;
        let mut regions = self.slice(SLICE + 16, REGION, |region| region.region(first_barrier))?;
        regions.retain(|region| !region.is_null());
        Some(json!({
            "roles": self.slice(0, ROLE, role)?,
            "registers_at_entry": self.word(SLICE)?,
            "cluster": [self.word(SLICE + 4)?, self.word(SLICE + 8)?],
            "regions": regions,
        }))
    }

    /// A region; null if a generic plan leaves it out: it has no parts and no bytes then.
    fn region(&self, first_barrier: u32) -> Option<Value> {
        let bytes = self.word(2 * SLICE + 4)?;
        let barriers = first_barrier + self.word(3 * SLICE + 8)?..;
        let mut parts = self.slice(2 * SLICE + 8, PART, part)?;
        let named = parts.iter_mut().filter(|part| part["part"] == "named");
        for (part, id) in named.zip(barriers) {
            part["id"] = id.into();
        }
        let region = json!({
            "name": self.text(0)?,
            "kind": self.text(SLICE)?,
            "offset": self.word(2 * SLICE)?,
            "bytes": bytes,
            "parts": parts,
        });
        Some(if parts.is_empty() && bytes == 0 { Value::Null } else { region })
    }
}

fn role(role: &Place<'_>) -> Option<Value> {
    let (groups, registers) = (role.word(SLICE)?, role.word(SLICE + 4)?);
    Some(json!({ "name": role.text(0)?, "groups": groups, "registers": registers }))
}

/// A part. The fields of each variant begin behind the number of the variant, as far as their alignment allows.
fn part(part: &Place<'_>) -> Option<Value> {
    let text = |offset| part.text(offset);
    Some(match part.word(0)? {
        0 => json!({
            "part": "tiles", "what": text(8)?, "offset": part.word(24)?, "count": part.word(28)?,
            "tiles": part.slice(32, TILE, tile)?,
        }),
        1 => json!({
            "part": "bytes", "what": text(8)?, "offset": part.word(24)?, "bytes": part.word(28)?,
        }),
        2 => json!({
            "part": "mbarriers", "what": text(8)?, "offset": part.word(24)?, "count": part.word(28)?,
            "arrivals": part.word(32)?, "by": text(40)?,
        }),
        3 => json!({ "part": "named", "threads": part.word(4)?, "by": text(8)? }),
        _ => return None,
    })
}

fn tile(tile: &Place<'_>) -> Option<Value> {
    Some(json!({
        "dtype": tile.text(0)?,
        "rows": tile.word(SLICE)?,
        "cols": tile.word(SLICE + 4)?,
        "bytes": tile.word(SLICE + 8)?,
    }))
}

#[cfg(test)]
mod tests {
    use crate::ir::{Marked, Options, mark};
    use crate::meta::{MAX_PARAMS, META_BYTES, tests::bytes};
    use serde_json::{Value, json};
    use std::fmt::Write as _;

    /// LLVM's text of a piece of a constant.
    enum Piece {
        Words(Vec<u32>),
        To(&'static str),
        Padding,
    }
    use Piece::{Padding, To, Words};

    fn string(bytes: &[u8]) -> String {
        let escaped: String = bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "\\{byte:02X}");
            text
        });
        format!("[{} x i8] c\"{escaped}\"", bytes.len())
    }

    fn constant(name: &str, pieces: &[Piece]) -> String {
        let piece = |piece: &Piece| match piece {
            Words(words) => string(&words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>()),
            To("") => "ptr inttoptr (i64 8 to ptr)".to_owned(),
            To(name) => format!("ptr @{name}"),
            Padding => "[4 x i8] undef".to_owned(),
        };
        let pieces: Vec<_> = pieces.iter().map(piece).collect();
        format!("@{name} = private constant <{{ ptr }}> <{{ {} }}>, align 8\n", pieces.join(", "))
    }

    fn text(name: &str, text: &str) -> String {
        format!("@{name} = private constant {}, align 1\n", string(text.as_bytes()))
    }

    /// A module with a kernel of two parameters and that CTA.
    fn module(cta: &[Piece]) -> String {
        let head = bytes("k", [32, 1, 1, 1, 1, 0, 0, 2], &[[1, 4, 4, 0, 0, 0, 0, 0]; 2]);
        let words = head.chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
        let mut described =
            vec![Words(words), To("a"), Words(vec![1, 0]), To("count"), Words(vec![5, 0])];
        for _ in 2..MAX_PARAMS {
            described.extend([To(""), Words(vec![0, 0])]);
        }
        described.push(To("cta"));
        constant("__warpipe_kernel_k", &described)
            + &text("a", "a")
            + &text("count", "count")
            + &constant("cta", cta)
            + "define ptx_kernel void @k(i32 %a, i32 %b) {\n  ret void\n}\n"
    }

    fn facts(module: &str) -> Value {
        let Marked { kernels, .. } = mark(module, Options { convergent: true }).unwrap();
        serde_json::from_str(&kernels[0].facts).unwrap()
    }

    #[test]
    fn every_field_of_a_cta() {
        let cta = [To("roles"), Words(vec![1, 0, 168, 2, 1, 3]), To("regions"), Words(vec![2, 0])];
        // The first region is one that a generic plan leaves out.
        let regions = [
            [
                To(""),
                Words(vec![0, 0]),
                To("when"),
                Words(vec![4, 0, 0, 0]),
                To(""),
                Words(vec![0, 0, 0]),
                Padding,
            ],
            [
                To("name"),
                Words(vec![10, 0]),
                To("ring"),
                Words(vec![4, 0, 1024, 96]),
                To("parts"),
                Words(vec![5, 0, 1]),
                Padding,
            ],
        ];
        let parts = [
            Words(vec![0, 0]),
            To("slots"),
            Words(vec![5, 0, 16, 4]),
            To("tiles"),
            Words(vec![1, 0, 0, 0]),
            Words(vec![1, 0]),
            To("slots"),
            Words(vec![5, 0, 32, 64]),
            Words(vec![0; 6]),
            Words(vec![2, 0]),
            To("slots"),
            Words(vec![5, 0, 8, 2, 128, 0]),
            To("when"),
            Words(vec![4, 0]),
            Words(vec![3, 256]),
            To("when"),
            Words(vec![4, 0]),
            Words(vec![0; 8]),
            Words(vec![3, 128]),
            To("slots"),
            Words(vec![5, 0]),
            Words(vec![0; 8]),
        ];
        let text = module(&cta)
            + &constant("roles", &[To("when"), Words(vec![4, 0, 1, 40])])
            + &constant("regions", &regions.into_iter().flatten().collect::<Vec<_>>())
            + &constant("parts", &parts)
            + &constant("tiles", &[To("ring"), Words(vec![4, 0, 64, 32, 4096]), Padding])
            + &text("name", "a \"name\" \u{e9}")
            + &text("when", "When")
            + &text("ring", "Ring")
            + &text("slots", "slots");
        assert_eq!(
            facts(&text),
            json!({
                "params": ["a", "count"],
                "cta": {
                    "roles": [{ "name": "When", "groups": 1, "registers": 40 }],
                    "registers_at_entry": 168,
                    "cluster": [2, 1],
                    "regions": [{
                        "name": "a \"name\" ?", "kind": "Ring", "offset": 1024, "bytes": 96,
                        "parts": [
                            { "part": "tiles", "what": "slots", "offset": 16, "count": 4,
                              "tiles": [{ "dtype": "Ring", "rows": 64, "cols": 32, "bytes": 4096 }] },
                            { "part": "bytes", "what": "slots", "offset": 32, "bytes": 64 },
                            { "part": "mbarriers", "what": "slots", "offset": 8, "count": 2, "arrivals": 128, "by": "When" },
                            { "part": "named", "threads": 256, "by": "When", "id": 4 },
                            { "part": "named", "threads": 128, "by": "slots", "id": 5 },
                        ],
                    }],
                },
            })
        );
    }

    #[test]
    fn the_layouts_are_those_of_isa() {
        use isa::kernel as theirs;
        use std::mem::{offset_of, size_of};
        assert_eq!(size_of::<theirs::Described>(), super::DESCRIBED_BYTES);
        assert_eq!(offset_of!(theirs::Described, names), META_BYTES);
        assert_eq!(size_of::<theirs::RoleFacts>(), super::ROLE);
        assert_eq!(size_of::<theirs::RegionFacts>(), super::REGION);
        assert_eq!(size_of::<theirs::TileFacts>(), super::TILE);
        assert_eq!(size_of::<theirs::Part>(), super::PART);
        let cta = [
            offset_of!(theirs::CtaFacts, roles),
            offset_of!(theirs::CtaFacts, registers_at_entry),
            offset_of!(theirs::CtaFacts, cluster),
            offset_of!(theirs::CtaFacts, first_barrier),
            offset_of!(theirs::CtaFacts, regions),
        ];
        assert_eq!(cta, [0, 16, 20, 28, 32]);
        let region = [
            offset_of!(theirs::RegionFacts, name),
            offset_of!(theirs::RegionFacts, kind),
            offset_of!(theirs::RegionFacts, offset),
            offset_of!(theirs::RegionFacts, bytes),
            offset_of!(theirs::RegionFacts, parts),
            offset_of!(theirs::RegionFacts, first_barrier),
        ];
        assert_eq!(region, [0, 16, 32, 36, 40, 56]);
    }

    #[test]
    fn what_is_of_another_form_is_an_error() {
        // A slice that is longer than its constant, and a reference to nothing.
        let cta = |roles, count| {
            [To(roles), Words(vec![count, 0, 168, 1, 1, 1]), To(""), Words(vec![0, 0])]
        };
        for text in [module(&cta("a", 1)), module(&cta("nothing", 1)), module(&cta("", 1))] {
            let error = mark(&text, Options { convergent: true }).unwrap_err().to_string();
            assert!(error.contains("isa and kernel-build differ in version"), "{error}");
        }
        assert_eq!(facts(&module(&cta("", 0)))["cta"]["roles"], json!([]));
        let short = format!(
            "@__warpipe_kernel_k = constant {}\n",
            string(&bytes("k", [32, 1, 1, 1, 1, 0, 0, 0], &[])[..META_BYTES - 1])
        );
        assert!(
            mark(&short, Options { convergent: true })
                .unwrap_err()
                .to_string()
                .contains("487 bytes")
        );
    }
}
