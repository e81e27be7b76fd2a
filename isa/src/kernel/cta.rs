//! What a CTA consists of: its roles, and the regions of its shared memory with their barriers.
//!
//! The type of a CTA's token knows all of it at compile time ([`KernelArg::CTA`](super::KernelArg::CTA)).
//! `#[kernel]` puts a reference to it behind the kernel's metadata. `kernel-build` reads these types there, so their layout is
//! C's, and writes them into the PTX as a comment of JSON. So an image can tell what a kernel looks like without the kernel's
//! types. Nothing of it reaches the code.

/// A CTA as the type of its token describes it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
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
#[repr(C)]
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
#[repr(C)]
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
#[repr(u32)]
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
#[repr(C)]
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
