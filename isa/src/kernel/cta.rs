//! What a CTA consists of: its roles, and the regions of its shared memory with their barriers.
//!
//! The type of a CTA's token knows all of it at compile time ([`KernelArg::CTA`](super::KernelArg::CTA)).
//! `#[kernel]` writes it as JSON behind the kernel's metadata, and `kernel-build` writes it into the PTX as a
//! comment, so that an image can tell what a kernel looks like without the kernel's types. Nothing of it
//! reaches the code.

/// A CTA as the type of its token describes it.
#[derive(Clone, Copy, Debug)]
pub struct CtaFacts {
    /// The roles, in the order of their warps.
    pub roles: &'static [RoleFacts],
    /// Registers of each thread before `setmaxnreg`.
    pub registers_at_entry: u32,
    /// CTAs of the cluster along M and along N.
    pub cluster: [u32; 2],
    /// Id of the plan's first named barrier: those before it belong to the CTA and to each warp group.
    pub first_barrier: u32,
    /// The regions of the shared-memory plan, in order.
    pub regions: &'static [RegionFacts],
}

/// A role of a CTA.
#[derive(Clone, Copy, Debug)]
pub struct RoleFacts {
    /// Its name.
    pub name: &'static str,
    /// Its warp groups.
    pub groups: u32,
    /// Registers of each of its threads after `setmaxnreg`.
    pub registers: u32,
}

/// A region of a shared-memory plan.
#[derive(Clone, Copy, Debug)]
pub struct RegionFacts {
    /// Its name in the plan, empty for an anonymous region.
    pub name: &'static str,
    /// The type that made it, like `Ring`.
    pub kind: &'static str,
    /// Byte offset in the CTA's dynamic shared memory.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
    /// What it consists of. Offsets of parts count from the start of the region.
    pub parts: &'static [Part],
    /// Named barriers of the regions before it.
    pub first_barrier: u32,
}

impl RegionFacts {
    /// A region that consists of `parts`. The plan that it is part of states the rest.
    pub const fn of(kind: &'static str, parts: &'static [Part]) -> Self {
        Self { name: "", kind, offset: 0, bytes: 0, parts, first_barrier: 0 }
    }
}

/// A part of a region.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Equal pieces of memory, one after the other, that each hold these tiles.
    Tiles {
        /// What a piece is called, in the plural: `slots`.
        what: &'static str,
        /// Offset of the first piece.
        offset: u32,
        /// Number of pieces.
        count: u32,
        /// The tiles of a piece, one after the other.
        tiles: &'static [TileFacts],
    },
    /// Memory without tiles.
    Bytes {
        /// What it holds.
        what: &'static str,
        /// Offset of the first byte.
        offset: u32,
        /// Number of bytes.
        bytes: u32,
    },
    /// mbarriers of 8 bytes, one after the other.
    Mbarriers {
        /// What they are called: `full`. Empty if the region has no other mbarriers.
        what: &'static str,
        /// Offset of the first one.
        offset: u32,
        /// Number of mbarriers.
        count: u32,
        /// Arrivals that each expects in a phase.
        arrivals: u32,
        /// Who arrives, in words.
        by: &'static str,
    },
    /// One named barrier, the next one of the region.
    Named {
        /// Threads that arrive or wait.
        threads: u32,
        /// Who arrives and who waits, in words.
        by: &'static str,
    },
}

/// A tile in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct TileFacts {
    /// The name of its element type.
    pub dtype: &'static str,
    /// Its rows.
    pub rows: u32,
    /// Its columns, in elements.
    pub cols: u32,
    /// Its size in bytes.
    pub bytes: u32,
}

impl CtaFacts {
    /// The CTA of a kernel with these arguments, at most one of which is a token. `#[kernel]` calls it in a
    /// constant.
    pub const fn of_token(args: &[Option<&'static Self>]) -> Option<&'static Self> {
        let mut i = 0;
        while i < args.len() {
            if args[i].is_some() {
                return args[i];
            }
            i += 1;
        }
        None
    }
}

/// Writes the names of a kernel's `params` parameters and its CTA as one line of JSON, as far as it fits into
/// `out`, and returns the length of the whole line. `#[kernel]` calls it twice in a constant: for the length, and
/// for the bytes.
pub const fn write_facts(
    params: u32,
    names: &[&str],
    cta: Option<&CtaFacts>,
    out: &mut [u8],
) -> usize {
    let mut json = Json { out, len: 0 };
    json.raw("{\"params\":[");
    let mut i = 0;
    while i < params as usize && i < names.len() {
        json.comma(i);
        json.text(names[i]);
        i += 1;
    }
    json.raw("]");
    if let Some(cta) = cta {
        json.raw(",\"cta\":{\"registers_at_entry\":");
        json.number(cta.registers_at_entry);
        json.raw(",\"cluster\":[");
        json.number(cta.cluster[0]);
        json.raw(",");
        json.number(cta.cluster[1]);
        json.raw("],\"roles\":[");
        let mut i = 0;
        while i < cta.roles.len() {
            json.comma(i);
            json.role(&cta.roles[i]);
            i += 1;
        }
        json.raw("],\"regions\":[");
        let (mut i, mut written) = (0, 0);
        while i < cta.regions.len() {
            // A region that a generic plan leaves out has no part.
            if !cta.regions[i].parts.is_empty() || cta.regions[i].bytes > 0 {
                json.comma(written);
                json.region(&cta.regions[i], cta.first_barrier);
                written += 1;
            }
            i += 1;
        }
        json.raw("]}");
    }
    json.raw("}");
    json.len
}

/// JSON text in a buffer that may be too short.
struct Json<'a> {
    out: &'a mut [u8],
    /// Bytes so far, beyond the end of `out` too.
    len: usize,
}

impl Json<'_> {
    const fn byte(&mut self, byte: u8) {
        if self.len < self.out.len() {
            self.out[self.len] = byte;
        }
        self.len += 1;
    }
    const fn raw(&mut self, text: &str) {
        let mut i = 0;
        while i < text.len() {
            self.byte(text.as_bytes()[i]);
            i += 1;
        }
    }
    /// A comma before every element but the first.
    const fn comma(&mut self, index: usize) {
        if index > 0 {
            self.byte(b',');
        }
    }
    /// A quoted string. PTX is ASCII, so a byte that is not becomes a question mark.
    const fn text(&mut self, text: &str) {
        self.byte(b'"');
        let mut i = 0;
        while i < text.len() {
            match text.as_bytes()[i] {
                byte @ (b'"' | b'\\') => {
                    self.byte(b'\\');
                    self.byte(byte);
                }
                byte @ b' '..=b'~' => self.byte(byte),
                _ => self.byte(b'?'),
            }
            i += 1;
        }
        self.byte(b'"');
    }
    const fn number(&mut self, number: u32) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.byte(b'0' + (number % 10) as u8);
    }
    /// A member of an object behind other members.
    const fn text_member(&mut self, key: &str, text: &str) {
        self.raw(key);
        self.text(text);
    }
    const fn member(&mut self, key: &str, number: u32) {
        self.raw(key);
        self.number(number);
    }
    const fn role(&mut self, role: &RoleFacts) {
        self.text_member("{\"name\":", role.name);
        self.member(",\"groups\":", role.groups);
        self.member(",\"registers\":", role.registers);
        self.raw("}");
    }
    const fn region(&mut self, region: &RegionFacts, first_barrier: u32) {
        self.text_member("{\"name\":", region.name);
        self.text_member(",\"kind\":", region.kind);
        self.member(",\"offset\":", region.offset);
        self.member(",\"bytes\":", region.bytes);
        self.raw(",\"parts\":[");
        let (mut i, mut barrier) = (0, first_barrier + region.first_barrier);
        while i < region.parts.len() {
            self.comma(i);
            self.part(&region.parts[i], barrier);
            if let Part::Named { .. } = region.parts[i] {
                barrier += 1;
            }
            i += 1;
        }
        self.raw("]}");
    }
    const fn part(&mut self, part: &Part, barrier: u32) {
        match part {
            Part::Tiles { what, offset, count, tiles } => {
                self.text_member("{\"part\":\"tiles\",\"what\":", what);
                self.member(",\"offset\":", *offset);
                self.member(",\"count\":", *count);
                self.raw(",\"tiles\":[");
                let mut i = 0;
                while i < tiles.len() {
                    self.comma(i);
                    self.text_member("{\"dtype\":", tiles[i].dtype);
                    self.member(",\"rows\":", tiles[i].rows);
                    self.member(",\"cols\":", tiles[i].cols);
                    self.member(",\"bytes\":", tiles[i].bytes);
                    self.raw("}");
                    i += 1;
                }
                self.raw("]");
            }
            Part::Bytes { what, offset, bytes } => {
                self.text_member("{\"part\":\"bytes\",\"what\":", what);
                self.member(",\"offset\":", *offset);
                self.member(",\"bytes\":", *bytes);
            }
            Part::Mbarriers { what, offset, count, arrivals, by } => {
                self.text_member("{\"part\":\"mbarriers\",\"what\":", what);
                self.member(",\"offset\":", *offset);
                self.member(",\"count\":", *count);
                self.member(",\"arrivals\":", *arrivals);
                self.text_member(",\"by\":", by);
            }
            Part::Named { threads, by } => {
                self.member("{\"part\":\"named\",\"id\":", barrier);
                self.member(",\"threads\":", *threads);
                self.text_member(",\"by\":", by);
            }
        }
        self.raw("}");
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    const CTA: CtaFacts = CtaFacts {
        roles: &[RoleFacts { name: "Load", groups: 1, registers: 40 }],
        registers_at_entry: 168,
        cluster: [2, 1],
        first_barrier: 3,
        regions: &[
            RegionFacts::of("When", &[]),
            RegionFacts {
                name: "a \"name\" \u{e9}",
                offset: 1024,
                bytes: 16,
                first_barrier: 1,
                ..RegionFacts::of(
                    "Mixed",
                    &[
                        Part::Named { threads: 256, by: "all" },
                        Part::Named { threads: 128, by: "some" },
                    ],
                )
            },
        ],
    };

    #[test]
    fn a_line_of_json_with_escapes_and_barrier_ids() {
        let names = ["a", "count", ""];
        let len = write_facts(2, &names, Some(&CTA), &mut []);
        let mut bytes = vec![0; len];
        assert_eq!(write_facts(2, &names, Some(&CTA), &mut bytes), len);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"params\":[\"a\",\"count\"],\"cta\":{\"registers_at_entry\":168,\"cluster\":[2,1],\
             \"roles\":[{\"name\":\"Load\",\"groups\":1,\"registers\":40}],\"regions\":[{\"name\":\
             \"a \\\"name\\\" ??\",\"kind\":\"Mixed\",\"offset\":1024,\"bytes\":16,\"parts\":[\
             {\"part\":\"named\",\"id\":4,\"threads\":256,\"by\":\"all\"},\
             {\"part\":\"named\",\"id\":5,\"threads\":128,\"by\":\"some\"}]}]}}"
        );
    }

    #[test]
    fn a_short_buffer_gets_the_beginning() {
        let mut short = [0; 11];
        assert_eq!(write_facts(0, &[], None, &mut short), 13);
        assert_eq!(&short, b"{\"params\":[");
    }
}
